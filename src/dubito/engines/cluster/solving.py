"""Core-sets and coverage on a Ray cluster: a pool in memory is split into shards, which workers solve together."""

import itertools
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from dubito.core.coverage_reference import CoverageProblem
from dubito.core.problem import Problem, Solution
from dubito.engines.cluster.coverage.driver import cover
from dubito.engines.cluster.driver import ClusterBounds, ShardLayout, Traffic, first_with_rows
from dubito.engines.cluster.messages import ShardInfo
from dubito.engines.cluster.shard import NO_ROWS, ShardData
from dubito.engines.cluster.workers import RayWorkers, Workers, connect, plan_workers
from dubito.engines.lazy.algorithm import Greedy, PickLog, solve_over
from dubito.errors import InvalidData
from dubito.matrix import IntArray, len_of

LEAST_ROWS = 1_000
"""Minimum number of rows in a shard, unless the whole pool has fewer: starting a process takes over half a second."""


def solve_in_memory(problem: Problem | CoverageProblem) -> Solution:
    """Divide a pool in memory into shards, at most one for each processor of the cluster, and solve."""
    ray = connect()
    plan = plan_workers(ray)
    n_shards = max(1, min(plan.size, len_of(problem.pool) // LEAST_ROWS))
    workers = RayWorkers(split_problem(problem, even_edges(problem, n_shards)), ray, plan)
    try:
        return solve(problem, workers, open_all(workers))[0]
    finally:
        workers.close()


# Shards of a pool in memory.

ROW_FIELDS = ("doubt", "weights", "scores", "costs")
"""The optional fields of a problem with one value per row."""


@dataclass(frozen=True, slots=True)
class ArraySource:
    """Some rows of a problem in memory."""

    problem: Problem | CoverageProblem

    def open(self) -> ShardData:
        return ShardData(self.problem)


def split_problem(problem: Problem | CoverageProblem, edges: list[int]) -> Iterator[ArraySource]:
    """A problem for the rows from each edge to the next."""
    for start, stop in itertools.pairwise(edges):
        inside = slice(*np.searchsorted(problem.candidates, [start, stop]).tolist())
        given = {name: getattr(problem, name) for name in ROW_FIELDS if getattr(problem, name, None) is not None}
        changes: dict[str, Any] = {name: values[start:stop] for name, values in given.items()}
        if isinstance(problem, CoverageProblem):
            changes["sample"] = NO_ROWS
        yield ArraySource(
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
    """The edges of shards of about equal size."""
    return [len_of(problem.pool) * shard // n_shards for shard in range(n_shards + 1)]


# A run over shards in any kind of workers.


def solve(
    problem: Problem | CoverageProblem, workers: Workers, layout: ShardLayout, journal: PickLog | None = None
) -> tuple[Solution, Traffic]:
    """The picks that one machine would make, and the traffic between driver and shards."""
    if isinstance(problem, CoverageProblem):
        return cover(problem, workers, layout, journal)[:2]
    bounds = ClusterBounds(problem, workers, layout)
    # The bounds identify candidates by rows. Only quotas need the array.
    whole = replace(problem, candidates=NO_ROWS if problem.quotas is None else np.arange(layout.starts[-1]))
    if problem.beam_width > 1:
        return solve_over(whole, bounds), bounds.traffic
    greedy = Greedy(whole, bounds, journal)
    if journal is not None and len(journal.earlier[0]):
        bounds.resume(journal.earlier[0])
    greedy.open()
    return greedy.solve(), bounds.traffic


def open_all(workers: Workers, names: Sequence[str] = (), excluded: IntArray = NO_ROWS) -> ShardLayout:
    """Open all shards and send each its position in the pool; ``names`` are used in messages."""
    infos: list[ShardInfo] = workers.ask("open")
    check_shards_agree(infos, names or [f"shard {number}" for number in range(len(infos))])
    starts = np.cumsum([0, *(each.n_rows for each in infos)])
    layout = ShardLayout(infos, starts, excluded, np.array([each.n_candidates for each in infos]))
    return exclude(workers, layout, excluded)


def exclude(workers: Workers, layout: ShardLayout, rows: IntArray, is_early: bool = False) -> ShardLayout:
    """The layout with more excluded rows (row numbers of the whole pool), sent to all shards."""
    layout = replace(layout, excluded=np.union1d(layout.excluded, rows), is_early=is_early)
    counts = workers.ask("configure", (), [layout.configuration_of(shard) for shard in range(len(workers))])
    workers.restore = layout.restore
    return replace(layout, n_candidates=np.array(counts))


def check_shards_agree(infos: list[ShardInfo], names: Sequence[str]) -> None:
    """Raise if shards differ in the number or type of features, or if only some have doubt."""
    lead = first_with_rows(infos)
    first = infos[lead]
    for each, name in zip(infos, names, strict=True):
        if each.n_rows == 0:
            continue
        if each.n_features != first.n_features:
            problem = f"{name} has {each.n_features} features, and {names[lead]} has {first.n_features}"
            raise InvalidData(problem, hint="embed all shards with the same model.")
        if each.dtype != first.dtype:
            problem = f"{name} has type {each.dtype}, and {names[lead]} {first.dtype}"
            raise InvalidData(problem, hint="save all shards in one type.")
        if each.has_doubt != first.has_doubt:
            has, lacks = (name, names[lead]) if each.has_doubt else (names[lead], name)
            raise InvalidData(f"{has} has doubt, and {lacks} has none", hint="provide it for all shards.")
