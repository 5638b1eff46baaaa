"""BADGE's gradients as points: distances among some, and of all to the nearest."""

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np

from dubito.core.distances import read_rows
from dubito.core.problem import Metric
from dubito.matrix import FloatArray, IntArray, Matrix, blocks, len_of

# BADGE's gradients in the memory of the machine, read in blocks.

BLOCK_BYTES = 1 << 20
"""Features widened to float64 at once, and their products: few enough to stay in a core's cache."""


def rounding(c: int, d: int) -> float:
    """The share of two squared lengths that their distance must pass to be reported from rounding.

    Examples
    --------
    >>> rounding(10, 512) < 1e-12
    True
    """
    return (c + d + 8) * 4e-16


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


class HostGradients:
    """Gradients of the last layer's weights at some rows of a pool, kept as their two factors.

    Examples
    --------
    >>> features, errors = np.array([[2.0], [0.0], [2.0]]), np.array([[-0.25, 0.25], [-0.5, 0.5], [0.25, -0.25]])
    >>> gradients = HostGradients(features, np.arange(3), errors)
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
