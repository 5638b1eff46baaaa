"""Coverage over shards equals the reference, however the pool is divided and whichever shards are lost."""

from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np
import pytest

from dubito.api import estimate
from dubito.core import coverage_reference as coverage
from dubito.core.coverage_reference import CoverageProblem, sample_rows
from dubito.core.problem import Solution
from dubito.engines.base import Engine
from dubito.engines.cluster import messages
from dubito.engines.cluster.coverage import driver
from dubito.engines.cluster.solving import even_edges, open_all, solve, split_problem
from dubito.engines.cluster.workers import LocalWorkers
from dubito.engines.cpu.coverage import solver
from dubito.matrix import len_of
from dubito.testing import check_coverage_engine
from levels import examples


class Losing(LocalWorkers):
    """Shards that are lost between calls."""

    def __init__(self, parts: Any, rng: np.random.Generator, share: float) -> None:
        super().__init__(parts)
        self.rng, self.share = rng, share

    def ask_one(self, shard: int, method: str, *arguments: Any) -> Any:
        if method not in ("open", "configure", "set_delegate") and self.rng.random() < self.share:
            share, self.share = self.share, 0.0
            self.lose(shard)
            self.share = share
        return super().ask_one(shard, method, *arguments)


@dataclass(frozen=True)
class InPieces(Engine[CoverageProblem]):
    """The driver and its shards in one process."""

    name: ClassVar[str] = "in pieces"
    solves: ClassVar[tuple[type, ...]] = (CoverageProblem,)
    n_shards: int
    seed: int = 0
    lost: float = 0.0
    most_rows: int = 200

    def refusals(self, problem: CoverageProblem) -> list[str]:
        return ["it is too large"] if len_of(problem.pool) > self.most_rows else []

    def solve(self, problem: CoverageProblem) -> Solution:
        rng = np.random.default_rng(self.seed)
        n_pool = len_of(problem.pool)
        edges = sorted([0, n_pool, *rng.integers(0, n_pool + 1, self.n_shards - 1).tolist()])
        workers = Losing(split_problem(problem, edges), rng, self.lost)
        solution, _ = solve(problem, workers, open_all(workers))
        assert self.lost == 0.0 or workers.n_lost
        return solution


@pytest.mark.parametrize(("n_shards", "most_rows"), [(1, 200), (3, 500), (7, 200)])
def test_picks_do_not_depend_on_how_a_pool_is_divided(n_shards: int, most_rows: int) -> None:
    check_coverage_engine(InPieces(n_shards, most_rows=most_rows), examples=examples(30))


@pytest.mark.parametrize(("rows", "pairs"), [(1, 1 << 21), (5, 1 << 21), (64, 40)])
def test_picks_do_not_depend_on_the_size_of_fronts(rows: int, pairs: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(driver, "FRONT_ROWS", rows)
    monkeypatch.setattr(driver, "FRONT_PAIRS", pairs)
    monkeypatch.setattr(driver, "SPARE_ROWS", 1)
    monkeypatch.setattr(messages, "MIN_REQUEST", 1)
    check_coverage_engine(InPieces(3), examples=examples(25))


@pytest.mark.parametrize("n_shards", [1, 4])
def test_losing_and_restoring_a_shard_changes_no_pick(n_shards: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(driver, "FRONT_ROWS", 8)
    monkeypatch.setattr(messages, "MIN_REQUEST", 2)
    check_coverage_engine(InPieces(n_shards, lost=0.5, most_rows=60), examples=examples(30))


def test_picks_do_not_depend_on_the_memory_for_pairs(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(solver, "most_pairs", lambda n, d, limit: 300)
    check_coverage_engine(InPieces(2, most_rows=60), examples=examples(30))
    # More pairs than were reckoned with.
    rng = np.random.default_rng(0)
    pool, rows = rng.standard_normal((150, 4)), np.arange(150)
    problem = CoverageProblem(pool, pool[:3] + 0.5, rows, 20, rng.random(150), rows, largest=float(np.abs(pool).max()))
    (found,), wanted = InPieces(2).solve(problem).configurations, coverage.greedy(problem)
    assert found.indices.tolist() == wanted.indices.tolist()
    assert found.priorities.tobytes() == wanted.priorities.tobytes()


@pytest.mark.parametrize("n_labeled", [0, 20, 500])
def test_the_number_of_rounds_depends_on_fronts_not_on_picks(n_labeled: int) -> None:
    rng = np.random.default_rng(0)
    pool, weights = rng.normal(size=(2000, 6)).astype(np.float32), rng.random(2000)
    weights[:n_labeled] = 0.0
    rows = np.arange(n_labeled, len(pool))
    largest = float(np.abs(pool).max())
    problem = CoverageProblem(pool, pool[:n_labeled], rows, 500, weights, sample_rows(rows), largest=largest)
    workers = LocalWorkers(split_problem(problem, even_edges(problem, 4)))
    _, traffic = solve(problem, workers, open_all(workers))
    assert 5 < traffic.rounds <= 40
    assert traffic.sent > pool.nbytes


def test_estimate_supports_coverage_on_the_cluster(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("importlib.util.find_spec", lambda name: object())
    alone = estimate(10_000, 64, 10, 100, strategy="coverage", engine="cpu")
    found = estimate(10_000, 64, 10, 100, strategy="coverage", engine="cluster")
    assert found.engine == "cluster"
    assert found.bytes == alone.bytes + 10_000 * 64 * 4
