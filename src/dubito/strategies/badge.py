"""BADGE: points whose gradients in the last layer are large and differ (Ash et al., 2020)."""

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np

from dubito.distances import read_rows
from dubito.doubt import mean_probabilities
from dubito.matrix import FloatArray, IntArray, Matrix, OnDevice, blocks, len_of, rows_per_read
from dubito.problem import Metric, Request
from dubito.strategies.base import Choice, need_probabilities
from dubito.strategies.gradients.device import DeviceGradients, rounding
from dubito.strategies.plusplus import Points, sample
from dubito.strategies.sequence import pick_in_turn

BLOCK_BYTES = 1 << 20
"""Features widened to float64 at once, and their products: few enough to stay in a core's cache."""


@dataclass(frozen=True, slots=True)
class Badge:
    """K-means++ sampling among the gradients that the most probable label would give the last layer.

    The gradient of a point is the outer product of its error, probabilities less the most probable label, and its
    features. It is never formed: products of the factors give squared distances. The first pick has the largest
    gradient; each later one is drawn with probability proportional to its squared distance to the nearest picked
    gradient. Once all of these are zero (the rest repeats what is picked, or the model is certain), the rest of the
    budget is drawn uniformly. The seed decides. What is labelled plays no part, as in the original.

    O(b·n·(c + d)) time, all of it matrix products: up to 256 picks a pass over the candidates' features, which are
    read in blocks. Beyond the inputs it holds n·(c + 5) numbers. Features on a GPU stay there.
    """

    name: str = "badge"
    uses_engine: bool = False

    def choose(self, request: Request) -> Choice:
        """Priorities are distances to the nearest gradient picked before; the first pick's is its gradient's length."""
        errors = errors_of(need_probabilities(request, self.name), request.candidates)
        picks = sample(_gradients(request, errors), np.random.default_rng(request.seed))
        return pick_in_turn(request, lambda: next(picks))


def _gradients(request: Request, errors: FloatArray) -> Points:
    pool, rows = request.pool, request.candidates
    if isinstance(pool, OnDevice):
        return DeviceGradients(pool, rows, errors, request.metric)
    return Gradients(pool, rows, errors, request.metric)


@dataclass(frozen=True, slots=True)
class Factors:
    """Some gradients: errors (k, c), features (k, d), and the squared lengths (k,) of their outer products."""

    errors: FloatArray
    features: FloatArray
    squared_lengths: FloatArray

    def squared_distances(self, others: "Factors") -> FloatArray:
        """(k, l) to other gradients, zero where only rounding tells them apart."""
        sums = self.squared_lengths[:, None] + others.squared_lengths
        squared: FloatArray = self.features @ others.features.T
        squared *= self.errors @ others.errors.T
        squared *= -2.0
        squared += sums
        sums *= rounding(self.errors.shape[1], self.features.shape[1])
        squared[squared <= sums] = 0.0
        return squared


class Gradients:
    """Gradients of the last layer's weights at some rows of a pool, kept as their two factors.

    Examples
    --------
    >>> features, errors = np.array([[2.0], [0.0], [2.0]]), np.array([[-0.25, 0.25], [-0.5, 0.5], [0.25, -0.25]])
    >>> gradients = Gradients(features, np.arange(3), errors)
    >>> gradients.squared_lengths.tolist(), gradients.to_nearest(np.array([0, 1])).tolist()
    ([0.5, 0.0, 0.5], [0.0, 0.0, 0.5])
    >>> gradients.among(np.array([0, 2])).tolist()
    [[0.0, 2.0], [2.0, 0.0]]
    """

    def __init__(self, pool: Matrix, rows: IntArray, errors: FloatArray, metric: Metric = "euclidean") -> None:
        self.pool, self.rows, self.errors, self.metric = pool, rows, errors, metric
        self.is_whole = len(rows) == len_of(pool)
        lengths = [np.einsum("ij,ij->i", block, block) for _, block in self._read()]
        self.squared_lengths: FloatArray = (errors * errors).sum(axis=1) * np.concatenate(lengths)
        """(n,)"""

    def among(self, positions: IntArray) -> FloatArray:
        """(k, k) squared distances of the gradients at some positions."""
        some = self._at(positions)
        return some.squared_distances(some)

    def to_nearest(self, positions: IntArray) -> FloatArray:
        """(n,) squared distance of every gradient to the nearest at some positions: one pass over the features."""
        picked, nearest = self._at(positions), np.empty(len(self.rows))
        for span, features in self._read(len(positions)):
            some = Factors(self.errors[span], features, self.squared_lengths[span])
            nearest[span] = some.squared_distances(picked).min(axis=1)
        return nearest

    def _at(self, positions: IntArray) -> Factors:
        features = read_rows(self.pool, self.rows[positions], self.metric)
        return Factors(self.errors[positions], features, self.squared_lengths[positions])

    def _read(self, n_others: int = 1) -> Iterator[tuple[slice, FloatArray]]:
        """Blocks of features in float64, to be multiplied with others."""
        for span in blocks(len(self.rows), max(1, BLOCK_BYTES // (8 * max(self.pool.shape[1], n_others)))):
            # A slice of a memory map is not copied before it is widened; a list of rows is.
            yield span, read_rows(self.pool, span if self.is_whole else self.rows[span], self.metric)


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
