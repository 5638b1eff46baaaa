"""Configurations: as a beam has them between steps, and as they are handed out."""

from collections.abc import Callable, Container, Iterator, Sequence
from typing import NamedTuple

import numpy as np

from dubito.core.problem import Configuration, Problem
from dubito.doubt import log_confidence, uncertainty
from dubito.matrix import BoolArray, FloatArray, IntArray

NO_NODE = -1
"""What comes before the first pick."""


class Leaf(NamedTuple):
    """A configuration: its last pick, its score, and those of its picks that not every configuration holds."""

    node: int
    score: int
    own: frozenset[int]


class Nodes:
    """Picks of configurations, each with the one before it: configurations that share a past share its nodes.

    They are numbered as they are made.
    """

    def __init__(self) -> None:
        self.n, room = 0, 64
        self.picks, self.parents = np.empty(room, dtype=np.int64), np.empty(room, dtype=np.int64)
        """Picks are positions in the front they were made in; the candidates' numbers once that front is left."""
        self.heights, self.is_exact = np.empty(room), np.empty(room, dtype=np.bool_)
        """Squared priorities when picked: upper bounds until they are settled."""

    def __len__(self) -> int:
        return self.n

    def add(self, picks: IntArray, parents: IntArray, heights: FloatArray, is_exact: BoolArray) -> IntArray:
        """New nodes; their numbers."""
        start, self.n = self.n, self.n + len(picks)
        if self.n > len(self.picks):
            room = 2 * self.n
            self.picks, self.parents = np.resize(self.picks, room), np.resize(self.parents, room)
            self.heights, self.is_exact = np.resize(self.heights, room), np.resize(self.is_exact, room)
        new = slice(start, self.n)
        self.picks[new], self.parents[new], self.heights[new], self.is_exact[new] = picks, parents, heights, is_exact
        return np.arange(start, self.n)

    def keep(self, used: IntArray, start: int) -> Callable[[IntArray], IntArray]:
        """Of those from ``start`` on only these, ascending; what numbers become."""

        def renumber(nodes: IntArray) -> IntArray:
            return np.where(nodes < start, nodes, start + np.searchsorted(used, nodes))

        self.n = start + len(used)
        for column in (self.picks, self.parents, self.heights, self.is_exact):
            column[start : self.n] = column[used]
        self.parents[start : self.n] = renumber(self.parents[start : self.n])
        return renumber

    def paths(self, leaves: Sequence[Leaf], start: int = 0) -> Iterator[tuple[IntArray, int]]:
        """Each configuration's nodes from a number on, oldest first, and the one before them.

        What it shares with the first is walked once.
        """
        parents = self.parents[start : self.n].tolist()
        first, root = _walk(parents, start, {}, leaves[0].node)
        n_shared = {node: place for place, node in enumerate(first, start=1)}
        shared = np.array(first, dtype=np.int64)
        for leaf in leaves:
            own, end = _walk(parents, start, n_shared, leaf.node)
            yield (
                np.append(shared[: n_shared.get(end, 0)], np.array(own, dtype=np.int64)),
                root if end in n_shared else end,
            )


def _walk(parents: list[int], start: int, stops: Container[int], node: int) -> tuple[list[int], int]:
    """The nodes from ``start`` on up to this one, oldest first, that come after one of the stops, and what that is."""
    nodes = []
    while node >= start and node not in stops:
        nodes.append(node)
        node = parents[node - start]
    return nodes[::-1], node


def own_picks(leaves: Sequence[Leaf]) -> IntArray:
    """Picks, ascending, that some of the configurations hold and others do not."""
    return np.array(sorted(frozenset().union(*(leaf.own for leaf in leaves))), dtype=np.int64)


def finished(problem: Problem, indices: IntArray, squared: FloatArray, radius: float) -> Configuration:
    """A configuration of these picks."""
    doubted = None if problem.doubt is None or len(indices) == 0 else uncertainty(problem.doubt[indices])
    return Configuration(indices, np.sqrt(squared), radius, doubted)


def finished_beam(
    problem: Problem, indices: IntArray, squared: FloatArray, radii: FloatArray
) -> tuple[Configuration, ...]:
    """Configurations of picks (w, b), most of which they share: the doubt of each is looked at once."""
    doubted: list[float | None] = [None] * len(indices)
    if problem.doubt is not None and indices.size:
        is_picked = np.zeros(len(problem.doubt), dtype=np.bool_)
        is_picked[indices] = True
        logs = np.zeros(len(problem.doubt))
        logs[is_picked] = log_confidence(problem.doubt[is_picked])
        doubted = (-logs[indices].mean(axis=1)).tolist()
    return tuple(map(Configuration, indices, np.sqrt(squared), radii.tolist(), doubted))
