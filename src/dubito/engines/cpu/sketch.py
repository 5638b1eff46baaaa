"""Lower bounds on distances from a few coordinates per point, its sketch.

A `Sketch` maps a point to its coordinates along k orthonormal directions. The distance between two sketches never
exceeds the distance between the points. Features of trained networks vary mostly along few directions, so 64 of them
tell which references can be nearest, at an eighth of the cost of 512 features. If d is small, or sketches rule out too
few pairs, the points themselves are used as sketches.
"""

import time
from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import cache

import numpy as np

from dubito import native as compiled
from dubito.core.distances import read_rows
from dubito.core.problem import Metric
from dubito.engines.cpu.products import along, product
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
# NumPy converts in software on many processors, which takes some nanoseconds per number. Integer and float32 operations
# are vectorized everywhere: the shifted bits of a float16 number are its value times 2**-112. C gathers the rows, too.

SIGN, REST, TO_SIGN, TO_REST = np.uint32(0x80000000), np.uint32(0x7FFF), np.uint32(16), np.uint32(13)
RAISED = np.float32(2.0**112)
TRIED = 1 << 15
"""Number of values on which both methods are timed."""


def rows_in_single(matrix: Matrix, rows: slice | IntArray) -> Float32Array:
    """Rows of a matrix of finite float16 or float32 numbers in float32; float32 rows may be views."""
    steps = compiled.steps
    if steps is None or not isinstance(matrix, np.ndarray) or matrix.dtype != np.float16 or not matrix.dtype.isnative:
        return in_single(matrix[rows])
    if isinstance(rows, slice):
        matrix = matrix[rows]
    n_wanted, d = len(matrix) if isinstance(rows, slice) else len(rows), matrix.shape[1]
    if not (matrix.flags.c_contiguous and matrix.flags.aligned) or n_wanted * d < TRIED:
        return in_single(matrix if isinstance(rows, slice) else matrix[rows])
    out = np.empty((n_wanted, d), dtype=np.float32)
    wanted = () if isinstance(rows, slice) else (np.ascontiguousarray(rows, dtype=np.int64),)
    steps.float16_rows((matrix.view(np.uint16), out, *wanted), len(matrix), n_wanted, d, bool(wanted))
    return out


def in_single(block: AnyArray) -> Float32Array:
    """The block in float32; unchanged if it is float32."""
    if block.dtype == np.float16 and block.dtype.isnative and block.size >= TRIED and is_quicker_by_bits():
        return by_bits(block)
    return np.asarray(block, dtype=np.float32)


def by_bits(halves: AnyArray) -> Float32Array:
    """Finite float16 numbers in float32, exactly.

    Examples
    --------
    >>> by_bits(np.array([1.5, -0.0, 6e-08, 65504.0], dtype=np.float16)).tolist()
    [1.5, -0.0, 5.960464477539063e-08, 65504.0]
    """
    bits = np.ascontiguousarray(halves).view(np.uint16).astype(np.uint32)
    signs = bits << TO_SIGN
    signs &= SIGN
    bits &= REST
    bits <<= TO_REST
    values: Float32Array = bits.view(np.float32)
    values *= RAISED
    bits |= signs
    return values


@cache
def is_quicker_by_bits() -> bool:
    """Whether `by_bits` is faster than NumPy on this machine; measured once."""
    halves = np.linspace(-8.0, 8.0, TRIED, dtype=np.float16)
    return _least(lambda: by_bits(halves)) < 0.8 * _least(lambda: halves.astype(np.float32))


def _least(run: Callable[[], object]) -> float:
    taken = []
    for _ in range(5):
        started = time.perf_counter()
        run()
        taken.append(time.perf_counter() - started)
    return min(taken)


SINGLE = (np.dtype(np.float16), np.dtype(np.float32))
SKETCH_WIDTH = 64
DEPENDENT = 1e-10
"""A row is taken as dependent on the rows before it if at most this share of its length remains."""
NARROWEST = 160
"""With fewer features than this, no sketch is used."""


@dataclass(frozen=True, slots=True)
class Sketch:
    """A linear map to few coordinates, with a bound on all rounding in comparing its results.

    Points are shifted by ``-center`` and multiplied by ``scale``, a power of two, so that float32 products neither
    cancel nor overflow; features of moderate size near the origin are used unchanged. For shifted points x, y with
    sketches s, t, computed in float32 with any order of additions:
    ``|s|² + |t|² - 2·s·t - slack·(|x|² + |y|²) - FLOOR <= scale²·Δ²``.
    """

    center: FloatArray | None
    """(d,) representable in float32 if the features are, so that both precisions shift by the same vector."""
    scale: float
    directions: Float32Array | None
    """(d, k) orthonormal up to rounding; None if the points are their own sketches."""
    slack: float

    def width(self, d: int) -> int:
        """Number of coordinates of a sketch of d features."""
        return d if self.directions is None else self.directions.shape[1]

    def read(self, matrix: Matrix, rows: slice | IntArray, metric: Metric) -> Float32Array:
        """Shifted points in float32, computed in float64 only if necessary. May be views: do not write to them."""
        if metric == "cosine" or matrix.dtype not in SINGLE or not is_single(self.scale):
            return self.shift(read_rows(matrix, rows, metric))
        points = rows_in_single(matrix, rows)
        if self.center is not None:
            points = points - self.center.astype(np.float32)
            points *= np.float32(self.scale)
        return points

    def shift(self, points: FloatArray) -> Float32Array:
        """Points in float64 shifted, then rounded."""
        return (points if self.center is None else (points - self.center) * self.scale).astype(np.float32)

    def apply(self, shifted: Float32Array, sizes: FloatArray) -> tuple[Float32Array, FloatArray]:
        """Sketches (r, k), and (r,) ``|s|² - slack·|x|²``, given ``|x|²``."""
        if self.directions is None:
            return shifted, (1.0 - self.slack) * sizes
        sketches = along(shifted, self.directions)
        return sketches, squared_lengths(sketches) - self.slack * sizes


def is_single(scale: float) -> bool:
    """Whether float32 can represent a scale, so that float32 points can be shifted in float32."""
    return 1.0 / FLOAT32_LARGEST < scale < FLOAT32_LARGEST


def plain_sketch(few: FloatArray, largest: float) -> Sketch:
    """A sketch without directions, with a shift if a few points (r, d) or the largest feature require it."""
    slack = product_slack(few.shape[1])
    if len(few) == 0:
        return Sketch(None, 1.0, None, slack)
    # The middle of each feature: one outlier must not move the center away from all the others.
    center = np.partition(few, len(few) // 2, axis=0)[len(few) // 2]
    spread = float(np.partition(((few - center) ** 2).sum(axis=1), len(few) // 2)[len(few) // 2])
    if 1e-6 < largest < 1e6 and float(center @ center) <= 2.0 * spread:
        return Sketch(None, 1.0, None, slack)
    if largest < FLOAT32_LARGEST:
        center = center.astype(np.float32).astype(np.float64)
    return Sketch(center, scale_for(largest), None, slack)


def whole(sketch: Sketch, d: int) -> Sketch:
    """The same shift without directions: points are their own sketches."""
    return replace(sketch, directions=None, slack=product_slack(d))


def fit_sketch(plain: Sketch, sample: Float32Array) -> Sketch:
    """A sketch along the main directions of a sample (r, d) of shifted points, found by a step of subspace iteration.

    Any directions give valid bounds; good ones give tight bounds. Starting from points of the sample instead of random
    directions saves a step. The mean of the sample is nearly among the directions, so products of sketches are close to
    products of the points.
    """
    d = sample.shape[1]
    if d < NARROWEST or len(sample) < 2 * SKETCH_WIDTH:
        return plain
    start = sample[:: len(sample) // SKETCH_WIDTH][:SKETCH_WIDTH]
    directions = orthonormal(product(product(sample, start).T, sample.T).astype(np.float64))
    slack = projection_slack(SKETCH_WIDTH, d)
    return replace(plain, directions=np.ascontiguousarray(directions.T, dtype=np.float32), slack=slack)


def orthonormal(rows: FloatArray) -> FloatArray:
    """Orthonormalize rows (k, d) in place; a row that depends on those before it becomes 0.

    Without LAPACK, whose hundreds of small steps would each wait for busy BLAS threads.
    """
    for position, row in enumerate(rows):
        before, length = rows[:position], np.sqrt(np.einsum("i,i", row, row))
        for _ in range(2):
            row -= np.einsum("i,ij->j", np.einsum("ij,j->i", before, row), before)
        left = np.sqrt(np.einsum("i,i", row, row))
        row *= 1.0 / left if left > DEPENDENT * length else 0.0
    return rows
