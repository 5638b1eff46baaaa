"""Configurations: the tree of a beam's picks, and results as `dubito.core.problem.Configuration`."""

from collections.abc import Callable, Container, Iterator, Sequence
from typing import NamedTuple

import numpy as np

from dubito.core.problem import Configuration, Problem
from dubito.doubt import log_confidence, uncertainty
from dubito.matrix import BoolArray, FloatArray, IntArray

NO_NODE = -1
"""The parent of a first pick."""


class Leaf(NamedTuple):
    """A configuration: the node of its last pick, its score, and its picks that not all configurations have."""

    node: int
    score: int
    own: frozenset[int]


class Nodes:
    """The tree of picks: each node is a pick with its parent, and configurations share the nodes of common prefixes.

    Nodes are numbered in order of creation.
    """

    def __init__(self) -> None:
        self.n, capacity = 0, 64
        self.picks, self.parents = np.empty(capacity, dtype=np.int64), np.empty(capacity, dtype=np.int64)
        """Picks are positions in the current front, and candidate numbers after the front is closed."""
        self.pick_priorities, self.is_exact = np.empty(capacity), np.empty(capacity, dtype=np.bool_)
        """Squared priorities when picked; upper bounds unless ``is_exact``."""

    def __len__(self) -> int:
        return self.n

    def add(self, picks: IntArray, parents: IntArray, pick_priorities: FloatArray, is_exact: BoolArray) -> IntArray:
        """Add nodes; returns their numbers."""
        start, self.n = self.n, self.n + len(picks)
        if self.n > len(self.picks):
            capacity = 2 * self.n
            self.picks, self.parents = np.resize(self.picks, capacity), np.resize(self.parents, capacity)
            self.pick_priorities, self.is_exact = (
                np.resize(self.pick_priorities, capacity),
                np.resize(self.is_exact, capacity),
            )
        new = slice(start, self.n)
        self.picks[new], self.parents[new], self.pick_priorities[new], self.is_exact[new] = (
            picks,
            parents,
            pick_priorities,
            is_exact,
        )
        return np.arange(start, self.n)

    def keep(self, used: IntArray, start: int) -> Callable[[IntArray], IntArray]:
        """Drop the nodes from ``start`` on except ``used`` (ascending). Returns a map from old to new numbers."""

        def renumber(nodes: IntArray) -> IntArray:
            return np.where(nodes < start, nodes, start + np.searchsorted(used, nodes))

        self.n = start + len(used)
        for column in (self.picks, self.parents, self.pick_priorities, self.is_exact):
            column[start : self.n] = column[used]
        self.parents[start : self.n] = renumber(self.parents[start : self.n])
        return renumber

    def paths(self, leaves: Sequence[Leaf], start: int = 0) -> Iterator[tuple[IntArray, int]]:
        """Each configuration's nodes from ``start`` on, oldest first, and the node before them.

        The prefix shared with the first configuration is walked only once.
        """
        parents = self.parents[start : self.n].tolist()
        first, root = _ancestors(parents, start, {}, leaves[0].node)
        n_shared = {node: depth for depth, node in enumerate(first, start=1)}
        shared = np.array(first, dtype=np.int64)
        for leaf in leaves:
            own, end = _ancestors(parents, start, n_shared, leaf.node)
            yield (
                np.append(shared[: n_shared.get(end, 0)], np.array(own, dtype=np.int64)),
                root if end in n_shared else end,
            )


def _ancestors(parents: list[int], start: int, stops: Container[int], node: int) -> tuple[list[int], int]:
    """The ancestors of ``node`` back to ``start`` or one of ``stops``, oldest first, and the node where it ended."""
    nodes = []
    while node >= start and node not in stops:
        nodes.append(node)
        node = parents[node - start]
    return nodes[::-1], node


def own_picks(leaves: Sequence[Leaf]) -> IntArray:
    """The union of the configurations' own picks, ascending."""
    return np.array(sorted(frozenset().union(*(leaf.own for leaf in leaves))), dtype=np.int64)


def make_configuration(problem: Problem, indices: IntArray, squared: FloatArray, radius: float) -> Configuration:
    doubted = None if problem.doubt is None or len(indices) == 0 else uncertainty(problem.doubt[indices])
    return Configuration(indices, np.sqrt(squared), radius, doubted)


def make_configurations(
    problem: Problem, indices: IntArray, squared: FloatArray, radii: FloatArray
) -> tuple[Configuration, ...]:
    """Configurations of picks (w, b). The doubt of shared picks is read only once."""
    doubted: list[float | None] = [None] * len(indices)
    if problem.doubt is not None and indices.size:
        is_picked = np.zeros(len(problem.doubt), dtype=np.bool_)
        is_picked[indices] = True
        logs = np.zeros(len(problem.doubt))
        logs[is_picked] = log_confidence(problem.doubt[is_picked])
        doubted = (-logs[indices].mean(axis=1)).tolist()
    return tuple(map(Configuration, indices, np.sqrt(squared), radii.tolist(), doubted))
