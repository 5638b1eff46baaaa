"""A run over shards, whoever holds them."""

from collections.abc import Sequence
from dataclasses import replace

import numpy as np

from dubito.coverage import CoverageProblem
from dubito.engines.cluster.covering.driver import cover
from dubito.engines.cluster.frontier import ClusterFrontier, Placed, Traffic, leading
from dubito.engines.cluster.messages import Facts
from dubito.engines.cluster.workers import Workers
from dubito.engines.lazy.algorithm import solve_over
from dubito.engines.lazy.greedy import Greedy, PickLog
from dubito.errors import InvalidData
from dubito.matrix import IntArray
from dubito.problem import Problem, Solution

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
    """The same without some rows of the whole pool, which are labelled; ``is_early`` where few are."""
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
            raise InvalidData(problem, mend="embed them all alike.")
        if each.dtype != first.dtype:
            problem = f"{name} holds {each.dtype}, and {names[lead]} {first.dtype}"
            raise InvalidData(problem, mend="save them all in one type.")
        if each.is_doubted != first.is_doubted:
            has, lacks = (name, names[lead]) if each.is_doubted else (names[lead], name)
            raise InvalidData(f"{has} has doubt, and {lacks} none", mend="give it for all of them.")
