"""modAL's own loops with dubito in them."""

from importlib import import_module
from typing import Any

import numpy as np
import pytest
from sklearn.datasets import load_digits
from sklearn.ensemble import RandomForestClassifier
from sklearn.linear_model import LogisticRegression
from sklearn.naive_bayes import GaussianNB

import dubito
from dubito.errors import InvalidArgument
from dubito.integrations.modal import Sampling

models: Any = pytest.importorskip("modAL.models", reason="modAL is not installed: make integrations")
pytestmark = pytest.mark.filterwarnings("ignore:'force_all_finite' was renamed")
POINTS, ANSWERS = load_digits(return_X_y=True)


@pytest.mark.parametrize("strategy", ["auto", "doubt-coverage", "doubt-coreset", "coreset", "entropy", "badge"])
def test_four_rounds_ask_for_the_picks_of_select(strategy: str) -> None:
    known, pool = np.arange(20), np.arange(20, 400)
    learner = models.ActiveLearner(
        LogisticRegression(max_iter=500),
        query_strategy=Sampling(strategy),
        X_training=POINTS[known],
        y_training=ANSWERS[known],
    )
    for _ in range(4):
        model = LogisticRegression(max_iter=500).fit(POINTS[known], ANSWERS[known])
        said = model.predict_proba(POINTS[pool])
        expected = dubito.select(POINTS[pool], 10, labeled=POINTS[known], probabilities=said, strategy=strategy)
        rows, points, metrics = learner.query(POINTS[pool], n_instances=10, return_metrics=True)
        assert rows.tolist() == expected.indices.tolist()
        np.testing.assert_array_equal(points, POINTS[pool[rows]])
        np.testing.assert_array_equal(metrics, expected.priorities)
        learner.teach(points, ANSWERS[pool[rows]])
        known, pool = np.append(known, pool[rows]), np.delete(pool, rows)
    assert len(learner.X_training) == 60


def test_a_committee_is_asked_for_its_votes() -> None:
    known, pool = POINTS[:60], POINTS[60:300]
    members = [
        models.ActiveLearner(estimator, X_training=known, y_training=ANSWERS[:60])
        for estimator in (GaussianNB(var_smoothing=1e-2), RandomForestClassifier(20, random_state=0))
    ]
    committee = models.Committee(members, query_strategy=Sampling("batchbald"))
    rows, _ = committee.query(pool, n_instances=6)
    expected = dubito.select(pool, 6, labeled=known, probabilities=committee.vote_proba(pool), strategy="batchbald")
    assert rows.tolist() == expected.indices.tolist()
    committee.teach(pool[rows], ANSWERS[60:300][rows])


def test_what_is_not_fitted_yet_gets_a_cold_start() -> None:
    for learner in (
        models.ActiveLearner(LogisticRegression(), query_strategy=Sampling()),
        models.Committee([models.ActiveLearner(GaussianNB())], query_strategy=Sampling()),
    ):
        rows, _ = learner.query(POINTS[:200], n_instances=5)
        assert rows.tolist() == dubito.select(POINTS[:200], 5).indices.tolist()


def test_errors_come_through_whole() -> None:
    learner = models.ActiveLearner(LogisticRegression(), query_strategy=Sampling("margin"))
    with pytest.raises(InvalidArgument, match="give the learner a fitted estimator"):
        learner.query(POINTS[:20])
    assert import_module("modAL").ActiveLearner is models.ActiveLearner
