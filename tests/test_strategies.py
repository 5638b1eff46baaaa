from dataclasses import dataclass, replace
from inspect import signature
from itertools import combinations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from sklearn.datasets import load_digits

import dubito
from dubito.core.problem import Request
from dubito.doubt import margin_doubt
from dubito.errors import InvalidArgument, SolverFailed
from dubito.matrix import FloatArray
from dubito.strategies import (
    BUILT_IN,
    STRATEGIES,
    Choice,
    ClosestKMeans,
    Coreset,
    DoubtCoreset,
    OptimalCoreset,
    Strategy,
    build_strategy,
)
from dubito.testing import check_strategy
from levels import examples

PROBABILITIES = np.array([[1.0, 0.0, 0.0], [0.5, 0.5, 0.0], [0.5, 0.25, 0.25], [0.5, 0.25, 0.25]])
LINE = np.array([[0.0], [1.0], [4.0], [9.0]])


@dataclass(frozen=True)
class WithPosterior:
    """A strategy that wants posterior samples, handed four that waver about the probabilities."""

    proper: Strategy
    name: str
    uses_engine: bool = False

    def choose(self, request: Request) -> Choice:
        assert request.probabilities is not None
        mean = np.asarray(request.probabilities[:])
        samples = [0.9 * mean + 0.1 * np.roll(mean, turn, axis=1) for turn in range(4)]
        return self.proper.choose(replace(request, probabilities=np.stack(samples, axis=1)))


OPTIONS: dict[str, dict[str, object]] = {"probabilistic-coreset": {"components": 4, "batches": 20}}
"""Smaller than by default, for the sake of time."""


@pytest.mark.parametrize("name", BUILT_IN)
def test_every_strategy_meets_the_contract(name: str) -> None:
    strategy = build_strategy(name, OPTIONS.get(name, {}))
    check_strategy(WithPosterior(strategy, name) if name in {"bald", "batchbald"} else strategy, examples=examples(15))


def test_the_core_sets_meet_the_contract_with_a_beam_too() -> None:
    check_strategy(Coreset(beam_width=3), examples=examples(15))
    check_strategy(DoubtCoreset(strength=0.25, beam_width=4, scaling="acquired"), examples=examples(15))


@pytest.mark.parametrize("name", BUILT_IN)
def test_a_strategy_is_called_by_its_own_name(name: str) -> None:
    assert build_strategy(name, {}).name == name
    assert STRATEGIES.find("strategy", name) is BUILT_IN[name]


@pytest.mark.parametrize(
    ("name", "order", "priorities"),
    [
        ("least-confidence", [1, 2, 3, 0], [0.5, 0.5, 0.5, 0.0]),
        ("margin", [1, 2, 3, 0], [0.0, -0.25, -0.25, -1.0]),
        ("entropy", [2, 3, 1, 0], [1.5 * np.log(2), 1.5 * np.log(2), np.log(2), 0.0]),
    ],
)
def test_uncertainty_ranks_points_and_ties_go_to_the_lowest_index(
    name: str, order: list[int], priorities: list[float]
) -> None:
    picked = dubito.select(LINE, 4, probabilities=PROBABILITIES, strategy=name)
    assert picked.indices.tolist() == order
    assert picked.priorities == pytest.approx(priorities)
    assert picked.radius is None


def test_random_picks_follow_the_seed_and_reach_every_candidate() -> None:
    pool = np.zeros((30, 1))
    assert len({tuple(dubito.select(pool, 3, strategy="random", seed=s).indices) for s in range(50)}) > 40
    seen = {int(i) for s in range(50) for i in dubito.select(pool, 3, strategy="random", seed=s).indices}
    assert seen == set(range(30))


def test_closest_k_means_takes_one_point_of_each_cluster() -> None:
    rng = np.random.default_rng(0)
    centers = np.array([[0.0, 0.0], [50.0, 0.0], [0.0, 50.0], [50.0, 50.0]])
    pool = np.repeat(centers, 25, axis=0) + rng.standard_normal((100, 2))
    picked = dubito.select(pool, 4, strategy="closest-kmeans")
    assert sorted((picked.indices // 25).tolist()) == [0, 1, 2, 3]
    for index in picked.indices:
        cluster = pool[25 * (index // 25) :][:25]
        gaps = np.linalg.norm(cluster - cluster.mean(axis=0), axis=1)
        assert np.linalg.norm(pool[index] - cluster.mean(axis=0)) == pytest.approx(gaps.min())


def test_closest_k_means_meets_the_budget_among_duplicates() -> None:
    picked = dubito.select(np.ones((9, 2)), 5, strategy="closest-kmeans")
    assert sorted(picked.indices.tolist()) == [0, 1, 2, 3, 4]


def test_closest_k_means_takes_more_centers_than_one_block() -> None:
    pool, _ = load_digits(return_X_y=True)
    picked = dubito.select(pool[:200], 150, strategy=ClosestKMeans())
    assert len(set(picked.indices.tolist())) == 150


# The optimal core-set


def brute_radius(pool: FloatArray, centers: FloatArray) -> float:
    return float(np.sqrt(((pool[:, None] - centers[None]) ** 2).sum(axis=2)).min(axis=1).max())


@given(st.integers(0, 2**31))
def test_the_optimal_core_set_is_that_of_brute_force(seed: int) -> None:
    rng = np.random.default_rng(seed)
    n, m = int(rng.integers(2, 10)), int(rng.integers(0, 3))
    pool = rng.integers(-4, 5, (n, 2)).astype(np.float64) if rng.random() < 0.5 else rng.standard_normal((n, 2))
    labeled = rng.standard_normal((m, 2))
    candidates = np.sort(rng.permutation(n)[: rng.integers(1, n + 1)])
    allowed = np.isin(np.arange(n), candidates)
    budget = int(rng.integers(1, len(candidates) + 1))
    picked = dubito.select(pool, budget, labeled=labeled, candidates=allowed, strategy="optimal-coreset")
    best = min(
        brute_radius(pool, np.concatenate([labeled, pool[list(chosen)]]))
        for chosen in combinations(candidates.tolist(), budget)
    )
    assert picked.radius == pytest.approx(best, abs=1e-12)
    assert picked.covering_radius() == pytest.approx(best, abs=1e-12)
    greedy = dubito.select(pool, budget, labeled=labeled, candidates=allowed, strategy="coreset")
    covered = greedy.covering_radius()
    assert covered is not None
    assert covered >= best * (1 - 1e-12)


def test_the_optimal_core_set_spends_the_rest_of_its_budget() -> None:
    picked = dubito.select(np.array([[0.0], [0.0], [0.0], [5.0]]), 3, strategy="optimal-coreset")
    assert picked.radius == 0.0
    assert len(set(picked.indices.tolist())) == 3


def test_the_optimal_core_set_refuses_a_large_pool_with_an_estimate() -> None:
    with pytest.raises(
        InvalidArgument, match=r"on 1001 points would need 0.008 GB .*up to 20 .*OptimalCoreset\(max_pool"
    ):
        dubito.select(np.zeros((1001, 1)), 2, strategy="optimal-coreset")
    assert len(dubito.select(np.zeros((30, 1)), 2, strategy=OptimalCoreset(max_pool=30))) == 2


def test_the_optimal_core_set_gives_up_when_its_time_is_over() -> None:
    pool = np.random.default_rng(0).standard_normal((150, 2))
    with pytest.raises(SolverFailed, match=r"HiGHS .* in 0 s.*OptimalCoreset\(seconds=\.\.\.\) allows more time"):
        dubito.select(pool, 12, strategy=OptimalCoreset(seconds=0.0))


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"max_pool": 0}, "max_pool=0 is too small"),
        ({"seconds": -1}, "seconds=-1 is not allowed"),
    ],
)
def test_options_of_the_optimal_core_set_are_checked(options: dict[str, int], message: str) -> None:
    with pytest.raises(InvalidArgument, match=message):
        build_strategy("optimal-coreset", options)


def test_an_option_that_a_strategy_does_not_take_is_named_with_those_it_takes() -> None:
    with pytest.raises(InvalidArgument, match="strength=2 is not supported by strategy='coreset'; it takes beam_width"):
        build_strategy("coreset", {"strength": 2})
    for name in ("random", "optimal-coreset"):
        with pytest.raises(InvalidArgument, match=f"strength=2 is not supported by strategy='{name}'; leave it out."):
            build_strategy(name, {"strength": 2})
    with pytest.raises(
        InvalidArgument, match=r"strength=2 is not supported by the 'coreset' object .*; set the options"
    ):
        build_strategy(Coreset(), {"strength": 2})


def test_a_strategy_object_is_taken_as_it_is() -> None:
    mine = DoubtCoreset(strength=0.5)
    assert build_strategy(mine, {}) is mine


@pytest.mark.parametrize("name", sorted(BUILT_IN))
def test_the_facts_of_a_strategy_are_not_its_options(name: str) -> None:
    made = build_strategy(name, {})
    assert made.name == name
    assert not {"name", "uses_engine"} & set(signature(BUILT_IN[name]).parameters)


@pytest.mark.parametrize("beam_width", [1, 3])
@pytest.mark.parametrize("n_labeled", [0, 5])
def test_margin_doubt_scales_a_core_set_as_that_doubt_handed_in_would(beam_width: int, n_labeled: int) -> None:
    rng = np.random.default_rng(3)
    pool, probabilities, labeled = rng.standard_normal((60, 3)), rng.dirichlet(np.ones(4), 60), np.arange(n_labeled)
    by_margin = DoubtCoreset(doubt="margin", beam_width=beam_width)
    found = dubito.select(pool, 12, labeled=labeled, probabilities=probabilities, strategy=by_margin)
    ours = margin_doubt(probabilities)
    expected = dubito.select(pool, 12, labeled=labeled, doubt=ours, strategy=DoubtCoreset(beam_width=beam_width))
    assert found.indices.tolist() == expected.indices.tolist()
    assert found.priorities.tolist() == expected.priorities.tolist()
    assert found.uncertainty == expected.uncertainty
    plain = dubito.select(
        pool, 12, labeled=labeled, probabilities=probabilities, beam_width=beam_width, strategy="doubt-coreset"
    )
    assert found.indices.tolist() != plain.indices.tolist()


def test_options_may_stand_behind_the_name_of_a_strategy() -> None:
    assert build_strategy("doubt-coreset:doubt=margin, beam-width=4", {}) == DoubtCoreset(doubt="margin", beam_width=4)
    assert build_strategy("doubt-coreset:doubt=margin", {"strength": 2.0}) == DoubtCoreset(2.0, doubt="margin")
    rng = np.random.default_rng(3)
    pool, probabilities = rng.standard_normal((30, 3)), rng.dirichlet(np.ones(4), 30)
    spelled = dubito.select(pool, 5, probabilities=probabilities, strategy="doubt-coreset:doubt=margin")
    made = dubito.select(pool, 5, probabilities=probabilities, strategy=DoubtCoreset(doubt="margin"))
    assert spelled.indices.tolist() == made.indices.tolist()
    assert spelled.strategy == "doubt-coreset"


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("doubt-coreset:doubt=entropy", "doubt='entropy' is not known; choose from confidence, learnable, margin"),
        ("doubt-coreset:doubts=margin", "did you mean 'doubt'?"),
        ("doubt-coreset:", None),
        ("doubt-coreset:doubt", "write name:option=value"),
        ("bald:needs_samples=false", "option='needs_samples' is not known"),
        ("doubt-coreset:strength=2", "strength=0.5 is given, but 'doubt-coreset:strength=2' already sets it"),
    ],
)
def test_options_behind_a_name_are_checked(text: str, words: str | None) -> None:
    if words is None:
        assert build_strategy(text, {}) == DoubtCoreset()
        return
    with pytest.raises(InvalidArgument, match=words):
        build_strategy(text, {"strength": 0.5} if "strength" in text else {})
