"""K-means++ over points that only tell distances, many picks a pass: exact, by rejection.

A point's weight is its squared distance to the nearest pick, and weights only fall. So those of some picks ago bound
those of now from above: proposals are drawn from them, many at a time, and one after another kept with probability
weight now over weight then. A kept one has exactly the law of a draw from the weights of now. What the weights of now
are, the distances among the proposals tell; all other points learn of the picks at the end of the block, at once.
"""

from collections.abc import Iterator
from typing import Protocol

import numpy as np

from dubito.matrix import FloatArray, IntArray

FIRST_BLOCK = 16
LARGEST_BLOCK = 256
"""Proposals a block: more save passes over all points, fewer are rejected less often."""


class PointSet(Protocol):
    """What is sampled: n points, known by their positions."""

    @property
    def squared_lengths(self) -> FloatArray:
        """(n,)"""
        ...

    def among(self, positions: IntArray) -> FloatArray:
        """(k, k) squared distances, zero where only rounding tells two points apart."""
        ...

    def to_nearest(self, positions: IntArray) -> FloatArray:
        """(n,) squared distance of every point to the nearest of these, by the same rule."""
        ...


def sample(
    points: PointSet, rng: np.random.Generator, first: int = FIRST_BLOCK, largest: int = LARGEST_BLOCK
) -> Iterator[tuple[int, float]]:
    """Positions in the order they are picked, each once, with the distance to the nearest pick before.

    The first is the longest point, with its length; each later one is drawn with probability proportional to its
    squared distance to the nearest pick. Once all of these are zero, the rest follows in random order. Blocks grow
    from ``first`` to ``largest`` proposals while a quarter of them is kept. Taking fewer picks gives a prefix.

    Examples
    --------
    >>> class Line:
    ...     squared_lengths = np.array([0.0, 1.0, 1.0, 9.0])
    ...     def among(self, positions):
    ...         return self.squares(positions)[positions]
    ...     def to_nearest(self, positions):
    ...         return self.squares(positions).min(axis=1)
    ...     def squares(self, positions):
    ...         places = np.sqrt(self.squared_lengths)
    ...         return (places[:, None] - places[positions]) ** 2
    >>> picks = list(sample(Line(), np.random.default_rng(0)))
    >>> [position for position, _ in picks], [distance for _, distance in picks]
    ([3, 1, 0, 2], [3.0, 2.0, 1.0, 0.0])
    """
    position = int(points.squared_lengths.argmax())
    yield position, float(np.sqrt(points.squared_lengths[position]))
    is_left = np.ones(len(points.squared_lengths), dtype=np.bool_)
    weights, picked, size = np.full(len(is_left), np.inf), np.array([position]), first
    while True:
        np.minimum(weights, points.to_nearest(picked), out=weights)
        weights[picked] = 0.0
        is_left[picked] = False
        if not weights.any():
            break
        picked, squared = draw_block(points, weights, rng.random((2, size)))
        yield from zip(picked.tolist(), np.sqrt(squared).tolist(), strict=True)
        size = next_size(size, len(picked), first, largest)
    yield from ((position, 0.0) for position in rng.permutation(np.flatnonzero(is_left)).tolist())


def draw_block(points: PointSet, weights: FloatArray, uniforms: FloatArray) -> tuple[IntArray, FloatArray]:
    """Some picks, at least one, and the weight that each had when it was picked.

    Parameters
    ----------
    points : PointSet
        What is sampled.
    weights : array (n,)
        Squared distances to the nearest pick, not all zero.
    uniforms : array (2, k)
        Numbers in [0, 1): which k points to propose, and which of them to keep.
    """
    steps = np.cumsum(weights)
    # The first step above the draw, never one of height zero: not even where rounding lifts a draw to the total.
    proposals = np.minimum(
        np.searchsorted(steps, uniforms[0] * steps[-1], side="right"), np.searchsorted(steps, steps[-1])
    )
    squared = points.among(proposals)
    squared[proposals[:, None] == proposals] = 0.0
    before, now = weights[proposals], weights[proposals]
    kept = np.zeros(len(proposals), dtype=np.bool_)
    found = np.empty(len(proposals))
    for i, chance in enumerate(uniforms[1].tolist()):
        if chance < now[i] / before[i]:
            kept[i], found[i] = True, now[i]
            np.minimum(now, squared[i], out=now)
    return proposals[kept], found[kept]


def next_size(size: int, n_kept: int, first: int, largest: int) -> int:
    """Proposals in the next block, by how many of this one's were kept.

    A rejected proposal costs little beside a pass over all points: large blocks pay even where few are kept.

    Examples
    --------
    >>> [next_size(64, n_kept, 16, 256) for n_kept in (64, 16, 15, 4, 3)]
    [128, 128, 64, 64, 32]
    """
    if 4 * n_kept >= size:
        return min(2 * size, largest)
    return max(size // 2, first) if 16 * n_kept < size else size
