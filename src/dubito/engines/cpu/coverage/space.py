"""Where the points of a problem lie: exact rows, and shifted ones in float32, as products take them."""

import numpy as np

from dubito.coverage import CoverageProblem
from dubito.distances import read_rows
from dubito.engines.cpu.sketch import Sketch, plain_sketch
from dubito.engines.lazy.rounding import FLOOR, MEDIAN_ROWS, UNIT, Float32Array, product_slack, squared_lengths
from dubito.matrix import FloatArray, IntArray, Matrix, len_of

FIT_ROWS = 2048
"""Points whose directions probes are fitted to."""


class Space:
    """Rows of the pool and of what is labelled, moved and scaled alike; see `dubito.engines.cpu.sketch.Sketch`."""

    def __init__(self, problem: CoverageProblem) -> None:
        self.problem, self.metric = problem, problem.metric
        few = read_rows(problem.pool, evenly(len_of(problem.pool), MEDIAN_ROWS), problem.metric)
        self.shape: Sketch = plain_sketch(few, problem.largest)
        self.unit = self.shape.scale**2
        """Squared distances of shifted points over those of the points."""

    def shifted(self, rows: slice | IntArray, matrix: Matrix | None = None) -> Float32Array:
        """Rows of the pool, or of another matrix. Not to be written to."""
        return self.shape.read(self.problem.pool if matrix is None else matrix, rows, self.metric)

    def exact(self, rows: slice | IntArray, matrix: Matrix | None = None) -> FloatArray:
        """Rows as the reference sees them."""
        return read_rows(self.problem.pool if matrix is None else matrix, rows, self.metric)

    def sample(self) -> Float32Array:
        """Some shifted rows of the pool, evenly."""
        return self.shifted(evenly(len_of(self.problem.pool), FIT_ROWS))


def evenly(n_rows: int, n_chosen: int) -> IntArray:
    """At most so many of the numbers below ``n_rows``, from the first on."""
    n_chosen = min(n_rows, n_chosen)
    return np.arange(n_chosen, dtype=np.int64) * n_rows // max(n_chosen, 1)


def difference_bounds(differences: Float32Array, lengths: FloatArray | float) -> tuple[FloatArray, FloatArray]:
    """Lower and upper bounds on the distances of shifted points, from their differences in float32.

    ``lengths`` are those of one of the two points, whose shift may have been rounded.
    """
    length = np.sqrt(squared_lengths(differences))
    width = differences.shape[1]
    # The other point is no longer than this one and the way to it.
    slack = 8.0 * UNIT * (lengths + length) + 1e-15
    return np.maximum(length * (1.0 - width * UNIT) - slack, 0.0), length * (1.0 + width * UNIT) + slack


def product_bounds(products: FloatArray, sizes: FloatArray, width: int) -> FloatArray:
    """Lower bounds on squared distances of shifted points, from products and the sums of their squared lengths."""
    return np.asarray((1.0 - product_slack(width)) * sizes - FLOOR - 2.0 * products)
