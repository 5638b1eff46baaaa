"""BADGE: points whose gradients in the last layer are large and differ (Ash et al., 2020)."""

from collections.abc import Iterator
from dataclasses import dataclass
from typing import ClassVar, Protocol

import numpy as np

from dubito.core.problem import Request
from dubito.doubt import mean_probabilities
from dubito.matrix import FloatArray, IntArray, Matrix, OnDevice, blocks, rows_per_read
from dubito.strategies.base import Choice, pick_one_by_one, require_probabilities
from dubito.strategies.gradients import HostGradients
from dubito.strategies.gradients_device import DeviceGradients

# K-means++ over points that only tell distances, many picks a pass: exact, by rejection.
#
# A point's weight is its squared distance to the nearest pick, and weights only fall. So those of some picks ago
# bound those of now from above: proposals are drawn from them, many at a time, and one after another kept with
# probability weight now over weight then. A kept one has exactly the law of a draw from the weights of now. What the
# weights of now are, the distances among the proposals tell; all other points learn of the picks at the end of the
# block, at once.

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


@dataclass(frozen=True, slots=True)
class Badge:
    """K-means++ sampling among the gradients that the most probable label would give the last layer.

    The gradient of a point is the outer product of its error, probabilities less the most probable label, and its
    features. It is never formed: products of the factors give squared distances. The first pick has the largest
    gradient; each later one is drawn with probability proportional to its squared distance to the nearest picked
    gradient. Once all of these are zero (the rest repeats what is picked, or the model is certain), the rest of the
    budget is drawn uniformly. The seed decides. What is labeled plays no part, as in the original.

    O(b·n·(c + d)) time, all of it matrix products: up to 256 picks a pass over the candidates' features, which are
    read in blocks. Beyond the inputs it holds n·(c + 5) numbers. Features on a GPU stay there.
    """

    name: ClassVar[str] = "badge"
    uses_engine: ClassVar[bool] = False

    def plan(self, request: Request) -> None:
        """It needs probabilities, and no engine."""
        require_probabilities(request, self.name)

    def choose(self, request: Request) -> Choice:
        """Priorities are distances to the nearest gradient picked before; the first pick's is its gradient's length."""
        errors = errors_of(require_probabilities(request, self.name), request.candidates)
        picks = sample(_gradients(request, errors), np.random.default_rng(request.seed))
        return pick_one_by_one(request, lambda: next(picks))


def _gradients(request: Request, errors: FloatArray) -> PointSet:
    pool, rows = request.pool, request.candidates
    if isinstance(pool, OnDevice):
        return DeviceGradients(pool, rows, errors, request.metric)
    return HostGradients(pool, rows, errors, request.metric)


def errors_of(probabilities: Matrix, rows: IntArray) -> FloatArray:
    """`label_errors` of some rows, read in blocks."""
    spans = blocks(len(rows), rows_per_read(probabilities))
    return np.concatenate([label_errors(probabilities[rows[span]]) for span in spans])


def label_errors(probabilities: Matrix) -> FloatArray:
    """Probabilities less the most probable label, ties to the first class.

    The negative entry is the sum of the others: ``max - 1`` would lose every digit of a confident float32 row.

    Examples
    --------
    >>> label_errors(np.array([[0.25, 0.5, 0.25]])).tolist()
    [[0.25, -0.5, 0.25]]
    """
    errors = mean_probabilities(probabilities)
    errors = np.asarray(errors / errors.sum(axis=1, keepdims=True))
    every, likeliest = np.arange(len(errors)), errors.argmax(axis=1)
    errors[every, likeliest] = 0.0
    errors[every, likeliest] = -errors.sum(axis=1)
    return errors
