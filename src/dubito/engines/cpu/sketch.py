"""Lower bounds on distances from a few coordinates per point, its sketch.

A `Sketch` maps a point to its coordinates along k orthonormal directions. The distance between two sketches never
exceeds the distance between the points. Features of trained networks vary mostly along few directions, so 64
coordinates suffice to rule out most references, at an eighth of the cost of 512 features. If d is small, or sketches
rule out too few pairs, the points themselves are used as sketches.
"""

import time
from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import cache

import numpy as np

from dubito import native as compiled
from dubito.core.distances import read_rows
from dubito.core.problem import Metric
from dubito.engines.cpu.products import product, project
from dubito.engines.lazy.bounds import (
    FLOAT32_LARGEST,
    Float32Array,
    product_slack,
    projection_slack,
    scale_for,
    squared_lengths,
)
from dubito.matrix import AnyArray, FloatArray, IntArray, Matrix

# Fast conversion of float16 to float32.
#
# On many processors NumPy converts in software, which takes some nanoseconds per number. Integer and float32 operations
# are vectorized everywhere: the bits of a float16 number, shifted to their places in float32, are its value times
# 2**-112. The C extension also gathers the rows.

SIGN_BIT, OTHER_BITS, SIGN_SHIFT, OTHER_SHIFT = np.uint32(0x80000000), np.uint32(0x7FFF), np.uint32(16), np.uint32(13)
EXPONENT_FACTOR = np.float32(2.0**112)
TIMED_VALUES = 1 << 15
"""Number of values with which both methods are timed. Smaller arrays are converted by NumPy."""


def rows_as_float32(matrix: Matrix, rows: slice | IntArray) -> Float32Array:
    """Rows of a matrix of finite float16 or float32 numbers as float32; float32 rows may be views."""
    steps = compiled.steps
    if steps is None or not isinstance(matrix, np.ndarray) or matrix.dtype != np.float16 or not matrix.dtype.isnative:
        return as_float32(matrix[rows])
    if isinstance(rows, slice):
        matrix = matrix[rows]
    n_rows, d = len(matrix) if isinstance(rows, slice) else len(rows), matrix.shape[1]
    if not (matrix.flags.c_contiguous and matrix.flags.aligned) or n_rows * d < TIMED_VALUES:
        return as_float32(matrix if isinstance(rows, slice) else matrix[rows])
    out = np.empty((n_rows, d), dtype=np.float32)
    numbers = () if isinstance(rows, slice) else (np.ascontiguousarray(rows, dtype=np.int64),)
    steps.float16_rows((matrix.view(np.uint16), out, *numbers), len(matrix), n_rows, d, bool(numbers))
    return out


def as_float32(block: AnyArray) -> Float32Array:
    """The block as float32; the same array if it is float32."""
    if block.dtype == np.float16 and block.dtype.isnative and block.size >= TIMED_VALUES and is_faster_by_bits():
        return float16_to_float32(block)
    return np.asarray(block, dtype=np.float32)


def float16_to_float32(halves: AnyArray) -> Float32Array:
    """Convert finite float16 numbers to float32, exactly, by operations on their bits.

    Examples
    --------
    >>> float16_to_float32(np.array([1.5, -0.0, 6e-08, 65504.0], dtype=np.float16)).tolist()
    [1.5, -0.0, 5.960464477539063e-08, 65504.0]
    """
    bits = np.ascontiguousarray(halves).view(np.uint16).astype(np.uint32)
    signs = bits << SIGN_SHIFT
    signs &= SIGN_BIT
    bits &= OTHER_BITS
    bits <<= OTHER_SHIFT
    values: Float32Array = bits.view(np.float32)
    values *= EXPONENT_FACTOR
    bits |= signs
    return values


@cache
def is_faster_by_bits() -> bool:
    """Whether `float16_to_float32` is faster than NumPy on this machine; measured on the first call."""
    halves = np.linspace(-8.0, 8.0, TIMED_VALUES, dtype=np.float16)
    return _best_time(lambda: float16_to_float32(halves)) < 0.8 * _best_time(lambda: halves.astype(np.float32))


def _best_time(run: Callable[[], object]) -> float:
    taken = []
    for _ in range(5):
        started = time.perf_counter()
        run()
        taken.append(time.perf_counter() - started)
    return min(taken)


FLOAT16_AND_FLOAT32 = (np.dtype(np.float16), np.dtype(np.float32))
SKETCH_WIDTH = 64
DEPENDENT = 1e-10
"""A row depends on the rows before it if at most this share of its length remains when their span is removed."""
NARROWEST = 160
"""With fewer features than this, points are their own sketches."""


@dataclass(frozen=True, slots=True)
class Sketch:
    """A linear map to a few coordinates, with a bound on all rounding errors of comparing them.

    Points are shifted by ``-center`` and multiplied by ``scale``, a power of two, so that float32 products neither
    cancel nor overflow; features of moderate size near the origin are used unchanged. For shifted points x, y with
    sketches s, t, computed in float32 with any order of additions, and the distance Δ of the points:
    ``|s|² + |t|² - 2·s·t - slack·(|x|² + |y|²) - FLOOR <= scale²·Δ²``.
    """

    center: FloatArray | None
    """(d,) representable in float32 if the features are, so that the shift is the same in float32 and float64."""
    scale: float
    directions: Float32Array | None
    """(d, k) orthonormal up to rounding; None if the points are their own sketches."""
    slack: float

    def width(self, d: int) -> int:
        """Number of coordinates of a sketch of d features."""
        return d if self.directions is None else self.directions.shape[1]

    def read(self, matrix: Matrix, rows: slice | IntArray, metric: Metric) -> Float32Array:
        """Shifted points in float32, computed in float64 only if necessary. They may be views: do not modify them."""
        if metric == "cosine" or matrix.dtype not in FLOAT16_AND_FLOAT32 or not fits_float32(self.scale):
            return self.shift(read_rows(matrix, rows, metric))
        points = rows_as_float32(matrix, rows)
        if self.center is not None:
            points = points - self.center.astype(np.float32)
            points *= np.float32(self.scale)
        return points

    def shift(self, points: FloatArray) -> Float32Array:
        """Shift points in float64, then round them to float32."""
        return (points if self.center is None else (points - self.center) * self.scale).astype(np.float32)

    def apply(self, shifted: Float32Array, sizes: FloatArray) -> tuple[Float32Array, FloatArray]:
        """Sketches (r, k), and (r,) ``|s|² - slack·|x|²``; ``sizes`` are ``|x|²``."""
        if self.directions is None:
            return shifted, (1.0 - self.slack) * sizes
        sketches = project(shifted, self.directions)
        return sketches, squared_lengths(sketches) - self.slack * sizes


def fits_float32(scale: float) -> bool:
    """Whether float32 can represent a scale, so that float32 points can be shifted in float32."""
    return 1.0 / FLOAT32_LARGEST < scale < FLOAT32_LARGEST


def plain_sketch(sample: FloatArray, largest: float) -> Sketch:
    """A sketch without directions, with a shift if a sample of points (r, d) or the largest feature requires it."""
    slack = product_slack(sample.shape[1])
    if len(sample) == 0:
        return Sketch(None, 1.0, None, slack)
    # The median of each feature: an outlier must not move the center away from all other points.
    center = np.partition(sample, len(sample) // 2, axis=0)[len(sample) // 2]
    spread = float(np.partition(((sample - center) ** 2).sum(axis=1), len(sample) // 2)[len(sample) // 2])
    if 1e-6 < largest < 1e6 and float(center @ center) <= 2.0 * spread:
        return Sketch(None, 1.0, None, slack)
    if largest < FLOAT32_LARGEST:
        center = center.astype(np.float32).astype(np.float64)
    return Sketch(center, scale_for(largest), None, slack)


def without_directions(sketch: Sketch, d: int) -> Sketch:
    """A sketch with the same shift, but without directions: points are their own sketches."""
    return replace(sketch, directions=None, slack=product_slack(d))


def fit_sketch(plain: Sketch, sample: Float32Array) -> Sketch:
    """A sketch along the main directions of a sample (r, d) of shifted points, from one step of subspace iteration.

    Any directions give valid bounds; directions of large variance give tight bounds. Starting from points of the sample
    instead of random directions saves a step. The mean of the sample lies nearly in the span of the directions, so that
    products of sketches are close to products of the points.
    """
    d = sample.shape[1]
    if d < NARROWEST or len(sample) < 2 * SKETCH_WIDTH:
        return plain
    start = sample[:: len(sample) // SKETCH_WIDTH][:SKETCH_WIDTH]
    directions = orthonormal(product(product(sample, start).T, sample.T).astype(np.float64))
    slack = projection_slack(SKETCH_WIDTH, d)
    return replace(plain, directions=np.ascontiguousarray(directions.T, dtype=np.float32), slack=slack)


def orthonormal(rows: FloatArray) -> FloatArray:
    """Orthonormalize rows (k, d) in place; a row that depends linearly on the rows before it becomes 0.

    LAPACK is not used, since each of its hundreds of small steps would wait for busy BLAS threads.
    """
    for position, row in enumerate(rows):
        before, length = rows[:position], np.sqrt(np.einsum("i,i", row, row))
        for _ in range(2):
            row -= np.einsum("i,ij->j", np.einsum("ij,j->i", before, row), before)
        remaining = np.sqrt(np.einsum("i,i", row, row))
        row *= 1.0 / remaining if remaining > DEPENDENT * length else 0.0
    return rows
