"""BADGE: points whose gradients in the last layer are large and differ (Ash et al., 2020)."""

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np

from dubito.distances import read_rows
from dubito.doubt import mean_probabilities
from dubito.engines.cudagradients import DeviceSampling
from dubito.matrix import FloatArray, IntArray, Matrix, OnDevice, blocks, len_of, rows_per_read
from dubito.problem import Metric, Request
from dubito.strategies.base import Choice, need_probabilities
from dubito.strategies.sequence import pick_in_turn

BLOCK_BYTES = 512 << 10
"""Features widened to float64 at once: few enough to stay in a core's cache until they are multiplied."""


@dataclass(frozen=True, slots=True)
class Badge:
    """K-means++ sampling among the gradients that the most probable label would give the last layer.

    The gradient of a point is the outer product of its error, probabilities less the most probable label, and its
    features. It is never formed: products of the factors give squared distances. The first pick has the largest
    gradient; each later one is drawn with probability proportional to its squared distance to the nearest picked
    gradient. Once all of these are zero (the rest repeats what is picked, or the model is certain), the rest of the
    budget is drawn uniformly. The seed decides. What is labelled plays no part, as in the original.

    O(b·n·(c + d)) time: one pass over the candidates' features a pick, read in blocks. Beyond the inputs it holds
    n·(c + 3) numbers.
    """

    name: str = "badge"
    uses_engine: bool = False

    def choose(self, request: Request) -> Choice:
        """Priorities are distances to the nearest gradient picked before; the first pick's is its gradient's length."""
        probabilities, rng = need_probabilities(request, self.name), np.random.default_rng(request.seed)
        pool, rows = request.pool, request.candidates
        if isinstance(pool, OnDevice):
            errors = label_errors(np.asarray(probabilities[rows]))
            return pick_in_turn(request, DeviceSampling(pool, rows, errors, request.metric, rng).pick)
        return pick_in_turn(request, _Sampling(Gradients(pool, rows, probabilities, request.metric), rng).pick)


class Gradients:
    """Gradients of the last layer's weights at some rows of a pool, kept as their two factors.

    Examples
    --------
    >>> features, probabilities = np.array([[2.0], [0.0]]), np.array([[0.75, 0.25], [0.5, 0.5]])
    >>> gradients = Gradients(features, np.arange(2), probabilities)
    >>> gradients.errors.tolist(), gradients.squared_distances(1).tolist()
    ([[-0.25, 0.25], [-0.5, 0.5]], [0.5, 0.0])
    """

    def __init__(self, pool: Matrix, rows: IntArray, probabilities: Matrix, metric: Metric = "euclidean") -> None:
        self.pool, self.rows, self.metric = pool, rows, metric
        self.is_whole = len(rows) == len_of(pool)
        self.errors = np.concatenate(
            [label_errors(probabilities[rows[span]]) for span in blocks(len(rows), rows_per_read(probabilities))]
        )
        """(n, c) the factor of the classes; that of the features stays where it is."""
        lengths = [(block * block).sum(axis=1) for _, block in self._read()]
        self.squared_lengths: FloatArray = (self.errors * self.errors).sum(axis=1) * np.concatenate(lengths)
        """(n,)"""

    def squared_distances(self, position: int) -> FloatArray:
        """(n,) from every gradient to that at a position, zero where only rounding tells them apart."""
        error, length = self.errors[position], self.squared_lengths[position]
        features = read_rows(self.pool, self.rows[[position]], self.metric)[0]
        products: FloatArray = self.errors @ error
        for span, block in self._read():
            products[span] *= block @ features
        sums = self.squared_lengths + length
        squared = np.asarray(sums - 2.0 * products)
        squared[squared <= (len(error) + len(features) + 8) * 4e-16 * sums] = 0.0
        return squared

    def _read(self) -> Iterator[tuple[slice, FloatArray]]:
        """Blocks of features in float64."""
        for span in blocks(len(self.rows), max(1, BLOCK_BYTES // (8 * self.pool.shape[1]))):
            # A slice of a memory map is not copied before it is widened; a list of rows is.
            yield span, read_rows(self.pool, span if self.is_whole else self.rows[span], self.metric)


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


class _Sampling:
    """K-means++ over gradients, one pick at a time."""

    def __init__(self, gradients: Gradients, rng: np.random.Generator) -> None:
        self.gradients, self.rng = gradients, rng
        self.nearest: FloatArray | None = None
        """(n,) squared distance to the nearest picked gradient; None before the first."""
        self.is_left = np.ones(len(gradients.rows), dtype=np.bool_)

    def pick(self) -> tuple[int, float]:
        """Position and priority of the next pick."""
        squared = self.gradients.squared_lengths if self.nearest is None else self.nearest
        position = int(squared.argmax()) if self.nearest is None else self._draw(squared)
        found, distances = float(squared[position]), self.gradients.squared_distances(position)
        self.is_left[position] = False
        self.nearest = distances if self.nearest is None else np.minimum(self.nearest, distances)
        self.nearest[position] = 0.0
        return position, float(np.sqrt(found))

    def _draw(self, squared: FloatArray) -> int:
        steps = np.cumsum(squared)
        if steps[-1] <= 0.0:
            return int(self.rng.choice(np.flatnonzero(self.is_left)))
        # The first step above the draw: never one of height zero, so nothing is picked twice.
        return int(np.searchsorted(steps, self.rng.random() * steps[-1], side="right"))
