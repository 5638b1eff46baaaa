"""Shards of a pool that lies in memory."""

import itertools
from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from dubito.coverage import CoverageProblem
from dubito.engines.cluster.shard import Opened
from dubito.matrix import len_of
from dubito.problem import Problem

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
