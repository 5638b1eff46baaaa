"""Shards of a pool that lies in memory."""

import itertools
from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from dubito.engines.cluster.shard import Opened
from dubito.matrix import len_of
from dubito.problem import Problem


@dataclass(frozen=True, slots=True)
class ArrayPart:
    """Some rows of a problem, as they are."""

    problem: Problem

    def open(self) -> Opened:
        """They are here already."""
        return Opened(self.problem)


def cut(problem: Problem, edges: list[int]) -> Iterator[ArrayPart]:
    """Rows from one edge to the next, each a problem of its own."""
    for start, stop in itertools.pairwise(edges):
        inside = slice(*np.searchsorted(problem.candidates, [start, stop]).tolist())
        yield ArrayPart(
            replace(
                problem,
                pool=np.asarray(problem.pool[start:stop]),
                references=np.empty((0, problem.pool.shape[1])),
                candidates=problem.candidates[inside] - start,
                progress=None,
                known=None,
                **{
                    name: _rows(getattr(problem, name), start, stop) for name in ("doubt", "weights", "scores", "costs")
                },
            )
        )


def _rows(values: Any, start: int, stop: int) -> Any:
    return None if values is None else values[start:stop]


def even_edges(problem: Problem, n_shards: int) -> list[int]:
    """Where shards of about equal size begin and end."""
    return [len_of(problem.pool) * shard // n_shards for shard in range(n_shards + 1)]
