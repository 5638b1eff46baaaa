"""small-text's own loop with dubito in it."""

from importlib import import_module
from typing import Any

import numpy as np
import pytest
from sklearn.datasets import load_digits
from sklearn.linear_model import LogisticRegression

import dubito
from dubito.integrations.small_text import QueryStrategy

learners: Any = pytest.importorskip(
    "small_text.active_learner", reason="small-text is not installed: make integrations"
)
factories = import_module("small_text.classifiers.factories")
datasets = import_module("small_text.data.datasets")
base = import_module("small_text.base")
# small-text's own.
pytestmark = pytest.mark.filterwarnings("ignore:The function get_flattened_unique_labels")
POINTS, ANSWERS = load_digits(return_X_y=True)
POINTS, ANSWERS = POINTS[:400] / 16.0, ANSWERS[:400]


def learner_of(strategy: str) -> Any:
    data = datasets.SklearnDataset(POINTS, ANSWERS, target_labels=np.arange(10))
    factory = factories.SklearnClassifierFactory(LogisticRegression(max_iter=500), 10)
    learner = learners.PoolBasedActiveLearner(factory, QueryStrategy(strategy), data)
    learner.initialize_data(np.arange(0, 60, 3), ANSWERS[:60:3])
    return learner


@pytest.mark.parametrize("strategy", ["auto", "doubt-coverage", "doubt-coreset", "coreset", "entropy", "badge"])
def test_four_rounds_ask_for_the_picks_of_select(strategy: str) -> None:
    learner, known = learner_of(strategy), np.arange(0, 60, 3)
    for _ in range(4):
        model = LogisticRegression(max_iter=500).fit(POINTS[known], ANSWERS[known])
        said = model.predict_proba(POINTS)
        expected = dubito.select(POINTS, 10, labeled=known, probabilities=said, strategy=strategy)
        picks = learner.query(num_samples=10)
        assert picks.tolist() == expected.indices.tolist()
        learner.update(ANSWERS[picks])
        known = np.append(known, picks)
    np.testing.assert_array_equal(learner.indices_labeled, known)


def test_texts_that_people_pass_over_are_not_asked_for_again() -> None:
    learner = learner_of("coverage")
    first = learner.query(num_samples=5)
    learner.update(np.full(5, base.LABEL_IGNORED))
    assert not set(first) & set(learner.query(num_samples=5))


def test_embeddings_of_ones_own_go_in_by_the_query() -> None:
    learner = learner_of("doubt-coreset")
    other = POINTS[:, ::-1] ** 2
    picks = learner.query(num_samples=5, query_strategy_kwargs={"embeddings": other})
    said = learner.classifier.predict_proba(learner.dataset)
    known = learner.indices_labeled
    expected = dubito.select(other, 5, labeled=known, probabilities=said, strategy="doubt-coreset")
    assert picks.tolist() == expected.indices.tolist()
