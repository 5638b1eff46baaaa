"""The engine `cluster`: core-sets and coverage over shards that the processes of a Ray cluster hold."""

import importlib.util
import itertools
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Any, ClassVar

import numpy as np

from dubito.core.coverage_reference import CoverageProblem
from dubito.core.problem import Problem, Solution
from dubito.engines.base import Estimate
from dubito.engines.cluster.coverage.driver import cover
from dubito.engines.cluster.frontier import ClusterFrontier, Placed, Traffic, leading
from dubito.engines.cluster.messages import Facts
from dubito.engines.cluster.shard import Opened
from dubito.engines.cluster.workers import Workers
from dubito.engines.cpu.cost import cost_of
from dubito.engines.cpu.coverage.engine import cost_of as cover_cost_of
from dubito.engines.lazy.algorithm import Greedy, PickLog, solve_over
from dubito.engines.lazy.bounds import WIDEST_ROW
from dubito.errors import InvalidData
from dubito.matrix import IntArray, Matrix, len_of


@dataclass(frozen=True, slots=True)
class ClusterEngine:
    """Exact, lazy, on every processor of a Ray cluster; on this machine's where none is connected."""

    name: ClassVar[str] = "cluster"
    solves: ClassVar[tuple[type, ...]] = (Problem,)
    keeps_quotas: ClassVar[bool] = True

    def refusals(self, problem: Problem) -> list[str]:
        """Without Ray, and rows wider than the bounds hold for."""
        return refusals(problem.pool)

    def pays(self, problem: Problem) -> bool:
        """Never by itself: whoever has a cluster says so."""
        return False

    def estimate(self, problem: Problem) -> Estimate:
        """As one machine, with the pool's copy in Ray's store beside it."""
        return with_copy(cost_of(problem, self.name), problem.pool)

    def catch_up(self, problem: Problem) -> None:
        """Nothing: shards start afresh every time."""

    def solve(self, problem: Problem) -> Solution:
        """See `dubito.engines.cluster`, which is loaded when it is wanted."""
        return solve_here(problem)


@dataclass(frozen=True, slots=True)
class ClusterCoverage:
    """The same for coverage."""

    name: ClassVar[str] = "cluster"
    solves: ClassVar[tuple[type, ...]] = (CoverageProblem,)

    def refusals(self, problem: CoverageProblem) -> list[str]:
        """Without Ray, and rows wider than the bounds hold for."""
        return refusals(problem.pool)

    def pays(self, problem: CoverageProblem) -> bool:
        """Never by itself: whoever has a cluster says so."""
        return False

    def estimate(self, problem: CoverageProblem) -> Estimate:
        """As one machine, with the pool's copy in Ray's store beside it."""
        return with_copy(cover_cost_of(problem, self.name), problem.pool)

    def catch_up(self, problem: CoverageProblem) -> None:
        """Nothing: shards start afresh every time."""

    def solve(self, problem: CoverageProblem) -> Solution:
        """See `dubito.engines.cluster.coverage`, which is loaded when it is wanted."""
        return solve_here(problem)


def refusals(pool: Matrix) -> list[str]:
    """Why a pool cannot be taken."""
    d = pool.shape[1]
    missing = [] if importlib.util.find_spec("ray") else ["Ray is not installed: pip install 'dubito[ray]'"]
    return missing + ([f"{d} features are more than the {WIDEST_ROW} it has bounds for"] if d > WIDEST_ROW else [])


def with_copy(cost: Estimate, pool: Matrix) -> Estimate:
    """A cost with a copy of the pool beside it."""
    n_bytes = len_of(pool) * pool.shape[1] * pool.dtype.itemsize
    return Estimate(cost.bytes + n_bytes, cost.seconds, cost.engine)


def solve_here(problem: Problem | CoverageProblem) -> Solution:
    """A pool in memory, cut into as many shards as the cluster has processors."""
    # merged
    from dubito.engines.cluster.workers import RayWorkers, connect, thread_pool_of
    # merged

    ray = connect()
    thread_pool = thread_pool_of(ray)
    n_shards = min(thread_pool.size, len_of(problem.pool))
    workers = RayWorkers(cut(problem, even_edges(problem, n_shards)), ray, thread_pool)
    try:
        return solve(problem, workers, open_all(workers))[0]
    finally:
        workers.close()


# Shards of a pool that lies in memory.

ROW_BY_ROW = ("doubt", "weights", "scores", "costs")
"""What a problem may have for every row."""


@dataclass(frozen=True, slots=True)
class ArrayPart:
    """Some rows of a problem, as they are."""

    problem: Problem | CoverageProblem

    def open(self) -> Opened:
        """They are here already."""
        return Opened(self.problem)


def cut(problem: Problem | CoverageProblem, edges: list[int]) -> Iterator[ArrayPart]:
    """Rows from one edge to the next, each a problem of its own."""
    for start, stop in itertools.pairwise(edges):
        inside = slice(*np.searchsorted(problem.candidates, [start, stop]).tolist())
        given = {name: getattr(problem, name) for name in ROW_BY_ROW if getattr(problem, name, None) is not None}
        changes: dict[str, Any] = {name: values[start:stop] for name, values in given.items()}
        if isinstance(problem, CoverageProblem):
            changes["sample"] = np.empty(0, dtype=np.int64)
        yield ArrayPart(
            replace(
                problem,
                pool=np.asarray(problem.pool[start:stop]),
                references=np.empty((0, problem.pool.shape[1])),
                candidates=problem.candidates[inside] - start,
                progress=None,
                known=None,
                quotas=None,
                **changes,
            )
        )


def even_edges(problem: Problem | CoverageProblem, n_shards: int) -> list[int]:
    """Where shards of about equal size begin and end."""
    return [len_of(problem.pool) * shard // n_shards for shard in range(n_shards + 1)]


# A run over shards, whoever holds them.

NONE = np.empty(0, dtype=np.int64)


def solve(
    problem: Problem | CoverageProblem, workers: Workers, placed: Placed, journal: PickLog | None = None
) -> tuple[Solution, Traffic]:
    """The picks of one machine, and what went between driver and shards."""
    if isinstance(problem, CoverageProblem):
        found = cover(problem, workers, placed, journal)
        return found.solution, found.traffic
    frontier = ClusterFrontier(problem, workers, placed)
    # Candidates go by their rows, which quotas alone ask for.
    asked = replace(problem, candidates=NONE if problem.quotas is None else np.arange(placed.starts[-1]))
    if problem.beam_width > 1:
        return solve_over(asked, frontier), frontier.traffic
    greedy = Greedy(asked, frontier, journal)
    if journal is not None and len(journal.earlier[0]):
        frontier.take_up(journal.earlier[0])
    greedy.open()
    return greedy.solve(), frontier.traffic


def open_all(workers: Workers, names: Sequence[str] = (), left_out: IntArray = NONE) -> Placed:
    """Let every shard be read, and tell it where it begins; ``names`` are for messages."""
    facts: list[Facts] = workers.ask("open")
    refuse_unlike(facts, names or [f"shard {number}" for number in range(len(facts))])
    starts = np.cumsum([0, *(each.n_rows for each in facts)])
    placed = Placed(facts, starts, left_out, np.array([each.n_candidates for each in facts]))
    return leave_out(workers, placed, left_out)


def leave_out(workers: Workers, placed: Placed, rows: IntArray, is_early: bool = False) -> Placed:
    """The same without some rows of the whole pool, which are labeled; ``is_early`` where few are."""
    placed = replace(placed, left_out=np.union1d(placed.left_out, rows), is_early=is_early)
    counts = workers.ask("place", (), [placed.of(shard) for shard in range(len(workers))])
    workers.restore = placed.restore
    return replace(placed, n_candidates=np.array(counts))


def refuse_unlike(facts: list[Facts], names: Sequence[str]) -> None:
    """Shards must have the same features, and doubt all or none of them."""
    lead = leading(facts)
    first = facts[lead]
    for each, name in zip(facts, names, strict=True):
        if each.n_rows == 0:
            continue
        if each.n_features != first.n_features:
            problem = f"{name} has {each.n_features} features, and {names[lead]} has {first.n_features}"
            raise InvalidData(problem, hint="embed them all alike.")
        if each.dtype != first.dtype:
            problem = f"{name} holds {each.dtype}, and {names[lead]} {first.dtype}"
            raise InvalidData(problem, hint="save them all in one type.")
        if each.is_doubted != first.is_doubted:
            has, lacks = (name, names[lead]) if each.is_doubted else (names[lead], name)
            raise InvalidData(f"{has} has doubt, and {lacks} none", hint="give it for all of them.")
