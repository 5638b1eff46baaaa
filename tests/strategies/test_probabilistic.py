from itertools import product
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import dubito
from dubito.errors import InvalidArgument
from dubito.matrix import FloatArray
from dubito.strategies import ProbabilisticCoreset, build_strategy
from dubito.strategies.mixture import batch_scores, fit_mixture, mixture_probabilities
from dubito.testing import check_strategy
from levels import examples


def entropy(probabilities: FloatArray) -> float:
    present = probabilities[probabilities > 0]
    return float(-(present * np.log(present)).sum())


def score_by_hand(probabilities: FloatArray) -> float:
    """``H(y_1..y_b) - mean_k Σ_i H(y_i | θ_k)`` of (b, K), every labeling written out."""
    joint = [
        np.prod(np.where(np.array(labels)[:, None] == 1, probabilities, 1 - probabilities), axis=0).mean()
        for labels in product((0, 1), repeat=len(probabilities))
    ]
    both = np.stack([probabilities, 1 - probabilities])
    left = [entropy(both[:, i, k]) for i, k in np.ndindex(probabilities.shape)]
    return entropy(np.array(joint)) - float(np.sum(left) / probabilities.shape[1])


def make_responsibilities(rng: np.random.Generator, n: int, k: int) -> FloatArray:
    made = rng.dirichlet(np.full(k, rng.choice([0.05, 0.5, 3.0])), n)
    return np.asarray(np.eye(k)[made.argmax(axis=1)]) if rng.random() < 0.3 else made


# Scores


def batch_score(probabilities: FloatArray, **options: Any) -> float:
    """The score of one batch, from the probabilities (b, K) of its points."""
    return float(batch_scores(probabilities, np.arange(len(probabilities))[None], **options)[0])


@given(st.integers(0, 2**31))
def test_a_score_is_that_of_brute_force_and_lies_between_nothing_and_ln_k(seed: int) -> None:
    rng = np.random.default_rng(seed)
    k, b, m = int(rng.integers(2, 6)), int(rng.integers(1, 6)), int(rng.integers(0, 3))
    batch, labeled = make_responsibilities(rng, b, k), make_responsibilities(rng, m, k)
    score = batch_score(batch, given=labeled)
    assert score == pytest.approx(score_by_hand(np.concatenate([labeled, batch])), abs=1e-8)
    assert -1e-12 <= score <= np.log(k) + 1e-9


def test_a_sampled_score_is_near_the_exact_one() -> None:
    rng = np.random.default_rng(0)
    table, labeled = rng.dirichlet(np.full(8, 0.3), 40), rng.dirichlet(np.full(8, 0.3), 3)
    batches = np.stack([rng.permutation(40)[:7] for _ in range(30)])
    exact = batch_scores(table, batches, given=labeled, samples=2**10)
    sampled = batch_scores(table, batches, given=labeled, samples=1000)
    assert not np.array_equal(exact, sampled)
    assert sampled == pytest.approx(exact, abs=0.12)
    assert np.corrcoef(exact, sampled)[0, 1] > 0.95


def test_a_sampled_score_has_no_bias() -> None:
    batch = np.random.default_rng(1).dirichlet(np.full(5, 0.4), 6)
    sampled = [batch_score(batch, samples=20, seed=seed) for seed in range(500)]
    spread = np.std(sampled) / np.sqrt(len(sampled))
    assert abs(np.mean(sampled) - batch_score(batch)) < 4 * spread
    assert spread < 0.02


def test_labeled_points_of_more_than_one_block_join_the_sample(monkeypatch: pytest.MonkeyPatch) -> None:
    rng = np.random.default_rng(2)
    table, labeled = rng.dirichlet(np.full(4, 3.0), 5), rng.dirichlet(np.full(4, 3.0), 6)
    exact = batch_score(table, given=labeled, samples=2**11)
    monkeypatch.setattr("dubito.strategies.mixture.POINTS_PER_BLOCK", 2)
    assert batch_score(table, given=labeled, samples=2000) == pytest.approx(exact, abs=0.05)


def test_a_batch_far_larger_than_its_components_comes_near_ln_k() -> None:
    assert batch_score(np.eye(4)[np.arange(400) % 4]) == pytest.approx(np.log(4), abs=1e-6)


# The mixture


def test_the_density_is_in_the_units_of_the_features() -> None:
    rng = np.random.default_rng(3)
    points = np.concatenate([rng.normal(-300, 40, (200, 1)), rng.normal(500, 90, (200, 1))])
    line = np.linspace(-900, 1300, 4001)[:, None]
    mixture = fit_mixture(points, 8, seed=1)
    assert np.exp(mixture.log_density(line)).sum() * (line[1, 0] - line[0, 0]) == pytest.approx(1.0, abs=1e-3)
    responsible = mixture_probabilities(mixture, line)
    assert responsible.shape == (4001, mixture.components) == (4001, 8)
    assert responsible.sum(axis=1) == pytest.approx(np.ones(4001))


def test_responsibilities_do_not_depend_on_the_units() -> None:
    points = np.random.default_rng(4).standard_normal((200, 3))
    plain = mixture_probabilities(fit_mixture(points, 6), points)
    for factor in (2.0**-300, 2.0**300):
        assert mixture_probabilities(fit_mixture(points * factor, 6), points * factor) == pytest.approx(plain)


@pytest.mark.parametrize("covariance", ["full", "tied", "diag", "spherical"])
@pytest.mark.parametrize(
    "pool",
    [np.zeros((1, 2)), np.zeros((40, 3)), np.repeat(np.eye(3), 20, axis=0), np.arange(5.0)[:, None] * [1e100, 0.0]],
    ids=["one point", "one point many times", "three points many times", "fewer points than components"],
)
def test_degenerate_pools_are_picked_from(pool: FloatArray, covariance: str) -> None:
    strategy = build_strategy("probabilistic-coreset", {"covariance": covariance, "batches": 10, "exploit": 0.1})
    for labeled in (None, pool[:1], pool[:1] - 1e120):
        budget = max(1, len(pool) // 2)
        picked = dubito.select(pool, budget, labeled=labeled, doubt=np.full(len(pool), 0.5), strategy=strategy)
        assert len(set(picked.indices.tolist())) == budget
        assert np.isfinite(picked.priorities).all()


# The strategy


def test_the_best_of_the_drawn_batches_is_picked_and_its_score_reported() -> None:
    pool = np.random.default_rng(5).standard_normal((200, 2))
    few = ProbabilisticCoreset(components=6, batches=1)
    many = ProbabilisticCoreset(components=6, batches=300)
    first, best = (dubito.select(pool, 4, strategy=strategy, seed=3) for strategy in (few, many))
    assert len(set(best.priorities.tolist())) == 1
    assert first.priorities[0] < best.priorities[0] <= np.log(6)


def test_a_batch_covers_separate_clusters() -> None:
    rng = np.random.default_rng(6)
    centers = np.array([[0.0, 0.0], [60.0, 0.0], [0.0, 60.0], [60.0, 60.0]])
    pool = np.repeat(centers, 40, axis=0) + rng.standard_normal((160, 2))
    for seed in range(3):
        strategy = ProbabilisticCoreset(components=4, batches=200)
        picked = dubito.select(pool, 3, strategy=strategy, seed=seed)
        assert len(set((picked.indices // 40).tolist())) == 3
        assert picked.priorities[0] == pytest.approx(np.log(4), abs=1e-3)


def test_candidates_like_what_is_labeled_are_dropped() -> None:
    rng = np.random.default_rng(7)
    pool = np.concatenate([rng.normal(0, 1, (100, 2)), rng.normal(20, 1, (100, 2))])
    for seed in range(3):
        half = ProbabilisticCoreset(batches=100)
        picked = dubito.select(pool, 10, labeled=np.arange(0, 100, 3), strategy=half, seed=seed)
        assert (picked.indices >= 66).all()
        everything = ProbabilisticCoreset(quantile=1.0, batches=5)
        picked = dubito.select(pool, 10, labeled=np.arange(0, 100, 3), strategy=everything, seed=seed)
        assert (picked.indices < 100).any()


def test_as_many_candidates_stay_as_there_are_picks_the_least_likely_ones() -> None:
    pool = np.arange(12.0)[:, None]
    strategy = ProbabilisticCoreset(quantile=0.0, components=2)
    picked = dubito.select(pool, 5, labeled=np.array([[-1.0]]), strategy=strategy)
    assert sorted(picked.indices.tolist()) == [7, 8, 9, 10, 11]


def test_what_is_labeled_counts_in_the_score() -> None:
    pool = np.random.default_rng(8).standard_normal((100, 2))
    strategy = ProbabilisticCoreset(components=8, quantile=1.0)
    alone = dubito.select(pool, 3, candidates=np.arange(10, 100), strategy=strategy)
    beside = dubito.select(pool, 3, labeled=np.arange(10), strategy=strategy)
    assert beside.priorities[0] > alone.priorities[0]


def test_the_exploitive_form_weighs_score_and_doubt() -> None:
    rng = np.random.default_rng(9)
    pool, doubt = rng.standard_normal((80, 2)), rng.random(80) / 2
    exploit = ProbabilisticCoreset(components=5, batches=200, exploit=0.1)
    picked = dubito.select(pool, 4, doubt=doubt, strategy=exploit, seed=2)
    plain = dubito.select(pool, 4, doubt=doubt, strategy=ProbabilisticCoreset(components=5, batches=200), seed=2)
    assert picked.priorities[0] >= 0.9 * plain.priorities[0] / np.log(5) + 0.1 * doubt[plain.indices].mean() - 1e-12
    assert picked.priorities[0] <= 0.9 * plain.priorities[0] / np.log(5) + 0.1 * 0.5
    greedy = dubito.select(pool, 4, doubt=doubt, strategy=ProbabilisticCoreset(batches=400, exploit=1.0))
    assert greedy.priorities[0] == pytest.approx(doubt[greedy.indices].mean())
    assert greedy.priorities[0] > 0.35


def test_the_exploitive_form_meets_the_contract_and_needs_doubt() -> None:
    check_strategy(ProbabilisticCoreset(components=3, batches=20, exploit=0.1), examples=examples(10))
    with pytest.raises(InvalidArgument, match="strategy='probabilistic-coreset' needs the model's doubt"):
        dubito.select(np.zeros((4, 1)), 2, strategy=ProbabilisticCoreset(exploit=0.1))


def test_the_seed_determines_the_picks() -> None:
    pool = np.random.default_rng(10).standard_normal((100, 2))
    strategy = ProbabilisticCoreset(components=4, batches=20)
    first, again, other = (dubito.select(pool, 6, strategy=strategy, seed=seed).indices for seed in (1, 1, 2))
    assert first.tolist() == again.tolist() != other.tolist()


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"components": 1}, "components=1 is too small; pass components >= 2"),
        ({"batches": 0}, "batches=0 is too small"),
        ({"samples": 1.5}, "samples=1.5 is not a whole number"),
        ({"quantile": 1.5}, "quantile=1.5 is not a fraction; pass a number from 0 to 1"),
        ({"exploit": -0.1}, "exploit=-0.1 is not allowed"),
        ({"exploit": 10}, "exploit=10 is not a fraction"),
        ({"covariance": "diagonal"}, "covariance='diagonal' is not known; did you mean 'diag'"),
    ],
)
def test_options_are_checked(options: dict[str, object], message: str) -> None:
    with pytest.raises(InvalidArgument, match=message):
        build_strategy("probabilistic-coreset", options)
