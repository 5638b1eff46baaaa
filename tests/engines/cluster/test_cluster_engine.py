"""Core-sets over shards equal the reference, however the pool is divided and whichever shards are lost."""

import itertools
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np
import pytest

from dubito.api import estimate
from dubito.core.distances import feature_sums
from dubito.core.problem import Problem, Solution
from dubito.engines.base import Engine, Estimate
from dubito.engines.cluster import driver, messages
from dubito.engines.cluster.driver import first_threshold
from dubito.engines.cluster.messages import NO_THRESHOLD, Answer, ShardInfo, fractions_of_first
from dubito.engines.cluster.shard import BlockSums, ExtendedMatrix, final_sum
from dubito.engines.cluster.solving import check_shards_agree, even_edges, open_all, solve, split_problem
from dubito.engines.cluster.workers import LocalWorkers
from dubito.engines.dispatch import choose_engine
from dubito.engines.lazy.front import Threshold
from dubito.errors import InvalidArgument, InvalidData
from dubito.matrix import len_of
from dubito.testing import check_engine
from levels import examples


class Losing(LocalWorkers):
    """Shards that are lost between calls."""

    def __init__(self, parts: Any, rng: np.random.Generator, share: float) -> None:
        super().__init__(parts)
        self.rng, self.share = rng, share

    def ask_one(self, shard: int, method: str, *arguments: Any) -> Any:
        if method not in ("open", "configure") and self.rng.random() < self.share:
            share, self.share = self.share, 0.0
            self.lose(shard)
            self.share = share
        return super().ask_one(shard, method, *arguments)


@dataclass(frozen=True)
class InPieces(Engine[Problem]):
    """The driver and its shards in one process."""

    name: ClassVar[str] = "in pieces"
    keeps_quotas: ClassVar[bool] = True
    n_shards: int
    seed: int = 0
    lost: float = 0.0

    def refusals(self, problem: Problem) -> list[str]:
        return []

    def solve(self, problem: Problem) -> Solution:
        rng = np.random.default_rng(self.seed)
        n_pool = len_of(problem.pool)
        edges = sorted([0, n_pool, *rng.integers(0, n_pool + 1, self.n_shards - 1).tolist()])
        workers = Losing(split_problem(problem, edges), rng, self.lost)
        solution, _ = solve(problem, workers, open_all(workers))
        assert self.lost == 0.0 or workers.n_lost or len(solution.configurations[0].indices) < 3
        return solution


@pytest.mark.parametrize("n_shards", [1, 3, 7])
def test_picks_do_not_depend_on_how_a_pool_is_divided(n_shards: int) -> None:
    check_engine(InPieces(n_shards), examples=max(10, examples(50)))


@pytest.mark.parametrize("rows", [1, 5, 64])
def test_picks_do_not_depend_on_the_size_of_fronts(rows: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(driver, "FRONT_ROWS", rows)
    monkeypatch.setattr(messages, "MIN_REQUEST", 1)
    check_engine(InPieces(3), examples=examples(25))


@pytest.mark.parametrize("n_shards", [1, 4])
def test_losing_and_restoring_a_shard_changes_no_pick(n_shards: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(driver, "FRONT_ROWS", 8)
    check_engine(InPieces(n_shards, lost=0.5), examples=max(10, examples(30)))


def test_the_number_of_rounds_depends_on_fronts_not_on_picks() -> None:
    rng = np.random.default_rng(0)
    pool, weights = rng.normal(size=(8000, 16)).astype(np.float32), rng.random(8000)
    candidates = np.arange(100, len(pool))
    problem = Problem(pool, pool[:100], candidates, 1200, weights=weights, largest=float(np.abs(pool).max()))
    workers = LocalWorkers(split_problem(problem, even_edges(problem, 4)))
    _, traffic = solve(problem, workers, open_all(workers))
    assert traffic.rounds <= 30
    assert traffic.sent + traffic.received < 10 * 1200 * pool[0].nbytes


def test_a_pool_sorted_by_priority_takes_few_rounds() -> None:
    rng = np.random.default_rng(1)
    pool = rng.normal(size=(8000, 8)).astype(np.float32)
    pool = pool[np.argsort((pool**2).sum(axis=1))]
    problem = Problem(pool, np.zeros((1, 8), np.float32), np.arange(len(pool)), 800, largest=float(np.abs(pool).max()))
    workers = LocalWorkers(split_problem(problem, even_edges(problem, 5)))
    _, traffic = solve(problem, workers, open_all(workers))
    assert traffic.rounds <= 20


@pytest.mark.parametrize("edges", [[0, 5000], [0, 1, 1023, 1024, 1025, 4000, 4000, 5000], [0, 10, 20, 2048, 5000]])
def test_the_sum_of_shards_is_that_of_one_machine_to_the_last_bit(edges: list[int]) -> None:
    pool = np.random.default_rng(2).normal(size=(5000, 3)) * 1e3
    total, begun = np.zeros(3), np.empty((0, 3))
    for start, stop in itertools.pairwise(edges):
        total, begun = BlockSums(pool[start:stop], start, "euclidean").add_to(total, begun)
    assert final_sum(total, begun).tobytes() == feature_sums(pool).tobytes()


def test_an_extended_matrix_reads_its_own_and_additional_rows() -> None:
    own = np.arange(8.0).reshape(4, 2)
    extended = ExtendedMatrix(own, 2)
    assert extended.store(0, np.array([[-1.0, -2.0]])).tolist() == [4]
    assert extended[1:3].tolist() == own[1:3].tolist()
    assert extended[np.array([4, 0])].tolist() == [[-1, -2], [0, 1]]
    assert extended[np.array([4])].tolist() == [[-1, -2]]
    assert extended[3:5].tolist() == [[6, 7], [-1, -2]]


def test_the_first_threshold_comes_before_all_others() -> None:
    one, other = Threshold(2.0, 7), Threshold(2.0, 3)
    assert first_threshold([NO_THRESHOLD, one, other]) == other
    assert first_threshold([NO_THRESHOLD, NO_THRESHOLD]) == NO_THRESHOLD


def answer(ranks: Sequence[int], levels: Sequence[float]) -> Answer:
    facts = ShardInfo(0, 0, 1, "float64", 0.0, False, False, False)
    return Answer(facts.empty_points(), np.empty(0), NO_THRESHOLD, np.array(ranks), np.array(levels))


def test_requests_follow_the_bounds_that_shards_report() -> None:
    parts = fractions_of_first(
        [answer([0, 1, 2, 3], [9.0, 8.0, 7.0, 6.0]), answer([0, 1, 2, 3], [6.5, 1.0, 1.0, 1.0])], 4
    )
    assert parts.tolist() == [0.75, 0.25]


@pytest.mark.parametrize(
    ("odd", "words"),
    [
        (ShardInfo(3, 3, 5, "float32", 1.0, True, False, True), "b has 5 features, and a has 4"),
        (ShardInfo(3, 3, 4, "float16", 1.0, True, False, True), "b has type float16, and a float32"),
        (ShardInfo(3, 3, 4, "float32", 1.0, False, False, False), "a has doubt, and b has none"),
    ],
)
def test_shards_that_disagree_are_named(odd: ShardInfo, words: str) -> None:
    empty, first = (
        ShardInfo(0, 0, 0, "float64", 0.0, False, False, False),
        ShardInfo(2, 2, 4, "float32", 1.0, True, False, True),
    )
    check_shards_agree([empty, first, first], ["none", "a", "b"])
    with pytest.raises(InvalidData, match=words):
        check_shards_agree([empty, first, odd], ["none", "a", "b"])


def test_auto_never_chooses_the_cluster_and_estimate_supports_it(monkeypatch: pytest.MonkeyPatch) -> None:
    problem = Problem(np.zeros((4, 2)), np.zeros((1, 2)), np.arange(4), 1)
    assert choose_engine("auto", problem).name != "cluster"
    monkeypatch.setattr("importlib.util.find_spec", lambda name: None)
    with pytest.raises(InvalidArgument, match=r"Ray is not installed: pip install 'dubito\[ray\]'"):
        choose_engine("cluster", problem)
    monkeypatch.setattr("importlib.util.find_spec", lambda name: object())
    found = estimate(10_000, 64, 10, 100, engine="cluster")
    assert isinstance(found, Estimate)
    assert found.engine == "cluster"
    assert found.bytes > 10_000 * 64 * 4
