"""Configurations: as a beam has them between steps, and as they are handed out."""

from collections.abc import Sequence
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


def path_of(leaf: Leaf) -> list[Node]:
    """A configuration's picks, oldest first."""
    nodes, node = [], leaf.node
    while node is not None:
        nodes.append(node)
        node = node.parent
    return nodes[::-1]


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
