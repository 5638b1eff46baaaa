"""The adapter for modAL, by learners that have what modAL's have; `test_modal_loop` has modAL's own."""

import pickle
from dataclasses import dataclass
from typing import Any

import numpy as np
import pandas as pd
import pytest
from scipy.sparse import csr_matrix
from sklearn.datasets import load_digits
from sklearn.linear_model import LogisticRegression, Ridge
from sklearn.naive_bayes import GaussianNB
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

import dubito
from dubito.errors import InvalidArgument, InvalidData
from dubito.integrations.modal import Sampling
from dubito.matrix import FloatArray
from dubito.strategies import DoubtCoverage

POINTS, ANSWERS = load_digits(return_X_y=True)
KNOWN, POOL = POINTS[:40] / 16.0, POINTS[40:300] / 16.0


@dataclass
class Learner:
    """What an ActiveLearner of modAL's has."""

    estimator: Any
    X_training: Any = None
    on_transformed: bool = False

    def predict_proba(self, points: Any) -> Any:
        return self.estimator.predict_proba(points)

    def transform_without_estimating(self, points: Any) -> Any:
        return self.estimator[:-1].transform(points)


def taught(estimator: Any, on_transformed: bool = False) -> Learner:
    return Learner(estimator.fit(KNOWN, ANSWERS[:40]), KNOWN, on_transformed)


def probe() -> LogisticRegression:
    return LogisticRegression(max_iter=500)


def said() -> FloatArray:
    return np.asarray(probe().fit(KNOWN, ANSWERS[:40]).predict_proba(POOL))


@pytest.mark.parametrize("strategy", ["auto", "doubt-coverage", "coreset", "margin", "badge", "random"])
def test_the_picks_and_metrics_are_those_of_select(strategy: str) -> None:
    rows, metrics = Sampling(strategy, seed=5)(taught(probe()), POOL, n_instances=15)
    expected = dubito.select(POOL, 15, labeled=KNOWN, probabilities=said(), strategy=strategy, seed=5)
    assert rows.tolist() == expected.indices.tolist()
    np.testing.assert_array_equal(metrics, expected.priorities)


def test_options_come_with_the_name_or_the_object_and_more_at_the_query() -> None:
    costs = np.linspace(1.0, 9.0, len(POOL))
    expected = dubito.select(
        POOL,
        5,
        labeled=KNOWN,
        probabilities=said(),
        strategy="doubt-coverage:strength=2",
        metric="cosine",
        standardize=True,
        costs=costs,
    )
    for strategy in ("doubt-coverage:strength=2", DoubtCoverage(strength=2.0)):
        asked = Sampling(strategy, metric="cosine", standardize=True)
        assert pickle.loads(pickle.dumps(asked)) == asked
        assert asked(taught(probe()), POOL, 5, costs=costs)[0].tolist() == expected.indices.tolist()
    assert len(Sampling()(taught(probe()), POOL)[0]) == 1


def test_probabilities_of_ones_own_count_more_than_the_learners() -> None:
    own = np.full((len(POOL), 2), 0.5)
    own[7] = [0.9, 0.1]
    rows, _ = Sampling("least-confidence")(taught(probe()), POOL, len(POOL), probabilities=own)
    assert rows[-1] == 7


def test_a_learner_that_was_never_taught_gets_a_cold_start() -> None:
    rows, _ = Sampling()(Learner(probe()), POOL, 6)
    assert rows.tolist() == dubito.select(POOL, 6).indices.tolist()


def test_a_model_without_probabilities_is_asked_for_where_one_is_needed() -> None:
    regressor = taught(Ridge())
    assert len(Sampling("coverage")(regressor, POOL, 3)[0]) == 3
    for learner in (regressor, Learner(probe())):
        with pytest.raises(InvalidArgument, match=r"strategy='margin' needs .*; give the learner a fitted estimator"):
            Sampling("margin")(learner, POOL, 3)
    with pytest.raises(InvalidArgument, match=r"strategy='bald' needs .*use a Committee"):
        Sampling("bald")(taught(probe()), POOL, 3)


def test_a_committee_brings_posterior_samples() -> None:
    members = [taught(GaussianNB(var_smoothing=smooth)) for smooth in (1e-2, 1e-1, 1.0)]
    votes = np.stack([member.predict_proba(POOL) for member in members], axis=1)

    @dataclass
    class Committee:
        learner_list: list[Learner]
        X_training: None = None
        on_transformed: bool = False

        def vote_proba(self, points: Any) -> FloatArray:
            return votes

    expected = dubito.select(POOL, 5, labeled=KNOWN, probabilities=votes, strategy="bald")
    assert Sampling("bald")(Committee(members), POOL, 5)[0].tolist() == expected.indices.tolist()


def test_distances_are_those_of_transformed_points_where_the_learner_says_so() -> None:
    learner = taught(make_pipeline(StandardScaler(), probe()), on_transformed=True)
    move = learner.transform_without_estimating
    expected = dubito.select(move(POOL), 5, labeled=move(KNOWN), strategy="coreset")
    assert Sampling("coreset")(learner, POOL, 5)[0].tolist() == expected.indices.tolist()


def test_frames_and_sparse_matrices_are_pools_too() -> None:
    expected = dubito.select(POOL, 5, labeled=KNOWN, strategy="coreset").indices.tolist()
    # An index that frames of a pool and of what is labeled share is no id.
    index = [f"scan {row}" for row in range(len(POOL))]
    learner = Learner(None, pd.DataFrame(KNOWN, index=index[:40]))
    assert Sampling("coreset")(learner, pd.DataFrame(POOL, index=index), 5)[0].tolist() == expected
    assert Sampling("coreset")(Learner(None, csr_matrix(KNOWN)), csr_matrix(POOL), 5)[0].tolist() == expected
    with pytest.raises(
        InvalidData, match=r"X_pool is sparse, and its 90,000 x 90,000 numbers are too many.*TruncatedSVD"
    ):
        Sampling("coreset")(Learner(None), csr_matrix((90_000, 90_000)), 5)


def test_a_strange_strategy_is_refused_before_any_learner_is_made() -> None:
    with pytest.raises(InvalidArgument, match="strategy='coverege'"):
        Sampling("coverege")
    with pytest.raises(InvalidArgument, match="engine='cpu' is not supported by strategy='margin'"):
        Sampling("margin", engine="cpu")
