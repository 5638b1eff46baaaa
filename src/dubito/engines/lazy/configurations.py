"""Configurations: as a beam has them between steps, and as they are handed out."""

from collections.abc import Container, Iterator, Sequence
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np

from dubito.doubt import log_confidence, uncertainty
from dubito.matrix import FloatArray, IntArray
from dubito.problem import Configuration, Problem


@dataclass(slots=True, eq=False)
class Node:
    """One pick of a configuration; configurations that share a past share its nodes."""

    pick: int
    """Position in the front it was made in; the candidate's number once that front is left."""
    parent: "Node | None"
    height: float
    """Squared priority when picked: an upper bound until it is settled."""
    is_exact: bool


class Leaf(NamedTuple):
    """A configuration: its last pick, its score, and those of its picks that not every configuration holds."""

    node: Node | None
    score: int
    own: frozenset[int]


def path_from(stops: Container[Node | None], node: Node | None) -> tuple[list[Node], Node | None]:
    """The picks up to this one, oldest first, that come after one of the stops, and which stop that is."""
    nodes = []
    while node is not None and node not in stops:
        nodes.append(node)
        node = node.parent
    return nodes[::-1], node


def paths_of(leaves: Sequence[Leaf]) -> Iterator[tuple[IntArray, FloatArray]]:
    """Each configuration's picks, oldest first, and their heights; what it shares with the first is walked once."""
    first, _ = path_from((), leaves[0].node)
    n_shared: dict[Node | None, int] = {None: 0} | {node: place for place, node in enumerate(first, start=1)}
    picks, heights = _columns(first)
    for leaf in leaves:
        own, start = path_from(n_shared, leaf.node)
        own_picks, own_heights = _columns(own)
        shared = slice(n_shared[start])
        yield np.concatenate([picks[shared], own_picks]), np.concatenate([heights[shared], own_heights])


def _columns(nodes: Sequence[Node]) -> tuple[IntArray, FloatArray]:
    return np.array([node.pick for node in nodes], dtype=np.int64), np.array([node.height for node in nodes])


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
