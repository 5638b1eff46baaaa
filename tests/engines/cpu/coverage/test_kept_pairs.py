"""Rounds of coverage on a `Pool`: the data that it keeps does not change the picks and saves the search for pairs."""

from dataclasses import replace
from typing import Any

import numpy as np
import pytest

import dubito
from dubito.core.coverage_reference import CoverageProblem
from dubito.core.problem import Known, Metric, Problem
from dubito.engines.cpu.coverage.engine import CpuCoverage
from dubito.engines.cpu.coverage.pairs import Pairs, PairSearch
from dubito.engines.cpu.engine import CpuEngine
from dubito.matrix import FloatArray, IntArray
from dubito.native import steps
from levels import examples


def clusters(rng: np.random.Generator, n: int, d: int) -> FloatArray:
    centers = 3.0 * rng.standard_normal((6, d))
    return np.asarray(centers[rng.integers(6, size=n)] + rng.standard_normal((n, d)))


@pytest.mark.parametrize("seed", range(examples(40)))
def test_every_round_has_the_picks_of_a_fresh_call(seed: int) -> None:
    rng = np.random.default_rng(seed)
    n, d = int(rng.integers(30, 900)), int(rng.choice([2, 10, 90]))
    features = clusters(rng, n, d)
    features[rng.integers(n, size=n // 10)] = features[0]
    metric: Metric = "cosine" if seed % 4 == 3 else "euclidean"
    pool = dubito.Pool(features, metric=metric)
    pool.label(rows=rng.choice(n, int(rng.integers(0, 10)), replace=False))
    doubt = rng.random(n)
    for number in range(5):
        left = np.setdiff1d(np.arange(n), pool.labeled)
        # Doubt that becomes 0 and positive again, candidates that are removed and added again, and a growing reach.
        doubt = np.where(rng.random(n) < 0.1, rng.choice([0.0, 1.0], size=n), doubt)
        candidates = left if number % 2 else rng.choice(left, len(left) - len(left) // 10, replace=False)
        strategy = "doubt-coverage:strength=3" if rng.random() < 0.8 else "coverage:factor=2"
        given: dict[str, Any] = {"candidates": candidates, "strategy": strategy, "engine": "cpu"}
        given |= {"doubt": doubt} if strategy.startswith("doubt") else {}
        budget = min(5, len(candidates))
        ours = pool.select(budget, **given)
        fresh = dubito.select(features, budget, labeled=pool.labeled, metric=metric, **given)
        assert ours.indices.tolist() == fresh.indices.tolist()
        assert ours.priorities.tobytes() == fresh.priorities.tobytes()
        assert ours.reach == fresh.reach
        pool.label(rows=ours.indices[: int(rng.integers(0, budget + 1))])
        pool.label(rows=rng.choice(candidates, 2))


@pytest.mark.skipif(steps is None, reason="pairs are found by the compiled extension")
def test_a_second_round_searches_only_pairs_of_new_candidates(monkeypatch: pytest.MonkeyPatch) -> None:
    rng, n_searched = np.random.default_rng(0), list[int]()
    features, doubt, run = clusters(rng, 2000, 80), rng.random(2000), PairSearch.run

    def counted(search: PairSearch, limits: FloatArray, cover: FloatArray, candidates: IntArray, *others: Any) -> Pairs:
        n_searched.append(len(candidates))
        return run(search, limits, cover, candidates, *others)

    monkeypatch.setattr(PairSearch, "run", counted)
    pool = dubito.Pool(features)
    pool.label(rows=range(50))
    strategy = "doubt-coverage:radius=9"
    first = pool.select(10, doubt=doubt, strategy=strategy, candidates=range(60, 2000))
    assert n_searched == [1940]
    pool.label(first)
    second = pool.select(10, doubt=doubt[::-1], strategy=strategy, candidates=range(60, 2000))
    assert n_searched == [1940]
    pool.label(second)
    pool.select(10, doubt=doubt, strategy=strategy)
    assert n_searched == [1940, 10]
    pool.select(10, doubt=doubt, strategy=strategy, memory_limit="100MB")
    assert len(n_searched) == 3, "nothing is kept within a memory limit"


def test_solving_again_with_the_same_known_distances_gives_the_same_picks() -> None:
    rng = np.random.default_rng(0)
    features, m = clusters(rng, 300, 5).astype(np.float32), 10
    known = Known(np.full(300, np.inf), np.zeros(300, np.int32), np.empty(0, np.int64))
    coreset = Problem(features, features[:m], np.arange(m, 300), 20, largest=20.0, known=known)
    rows = np.arange(300)
    cover = CoverageProblem(features, features[:m], rows[m:], 20, np.ones(300), rows, largest=20.0, known=known)
    first = [CpuEngine().solve(replace(coreset, known=None)), CpuCoverage().solve(replace(cover, known=None))]
    expected = [each.configurations[0].indices.tolist() for each in first]
    for _ in range(2):
        found = [*(CpuEngine().solve(coreset) for _ in range(2)), *(CpuCoverage().solve(cover) for _ in range(2))]
        picks = [each.configurations[0].indices.tolist() for each in found]
        assert picks == [expected[0]] * 2 + [expected[1]] * 2
