"""Lower bounds on distances from a few numbers a point: its sketch.

A `Sketch` maps a point to its coordinates along k orthonormal directions. The distance between two sketches never
exceeds the distance between the points. Features of trained networks vary mostly along few directions, so that the
64 largest say which references can be nearest, at an eighth of the cost of the 512 features. Where d is small, or a
sketch turns out to say nothing, the points themselves are their own sketch.
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

# Numbers of half precision in single, as quickly as a machine can.
#
# NumPy does it in software on many processors, some nanoseconds a number, where integer and float32 operations are
# vectorized everywhere: a half's bits moved into place are its value times 2**-112. In C the rows are gathered in the
# same pass.

SIGN, REST, TO_SIGN, TO_REST = np.uint32(0x80000000), np.uint32(0x7FFF), np.uint32(16), np.uint32(13)
RAISED = np.float32(2.0**112)
TRIED = 1 << 15
"""Numbers that both ways are tried on."""


def rows_in_single(matrix: Matrix, rows: slice | IntArray) -> Float32Array:
    """Rows of a matrix of finite float16 or float32 numbers in float32; not copied where they are that already."""
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
    """Float32; the block itself where it is that already."""
    if block.dtype == np.float16 and block.dtype.isnative and block.size >= TRIED and is_quicker_by_bits():
        return by_bits(block)
    return np.asarray(block, dtype=np.float32)


def by_bits(halves: AnyArray) -> Float32Array:
    """Finite halves in float32, exactly.

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
    """Tried once, on this machine."""
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
"""The share of a length that rounding alone may leave."""
NARROWEST = 160
"""Fewer features than this are compared as they are."""


@dataclass(frozen=True, slots=True)
class Sketch:
    """A linear map to few coordinates, with a bound on all rounding in comparing its results.

    Points are moved by ``-center`` and multiplied by ``scale``, a power of two, so that float32 neither loses them in
    cancellation nor overflows; features that are well placed already have no center and stay as they are. For points x,
    y so shifted, with sketches s, t, as computed in float32 with any order of additions:
    ``|s|² + |t|² - 2·s·t - slack·(|x|² + |y|²) - FLOOR <= scale²·Δ²``.
    """

    center: FloatArray | None
    """(d,) representable in float32 where the features are, so that both precisions shift by the same vector."""
    scale: float
    directions: Float32Array | None
    """(d, k) orthonormal but for rounding; None for the points themselves."""
    slack: float

    def width(self, d: int) -> int:
        """Numbers in a sketch of d features."""
        return d if self.directions is None else self.directions.shape[1]

    def read(self, matrix: Matrix, rows: slice | IntArray, metric: Metric) -> Float32Array:
        """Shifted points in float32, by way of float64 only where their numbers need it. Not to be written to."""
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
    """Whether float32 holds a scale, so that what is no wider can be shifted as it is."""
    return 1.0 / FLOAT32_LARGEST < scale < FLOAT32_LARGEST


def plain_sketch(few: FloatArray, largest: float) -> Sketch:
    """The points themselves, shifted where a few of them (r, d), or the largest feature there is, ask for it."""
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
    """The points themselves, shifted as a sketch shifts them."""
    return replace(sketch, directions=None, slack=product_slack(d))


def fit_sketch(plain: Sketch, sample: Float32Array) -> Sketch:
    """Directions along which a sample (r, d) of shifted points is long, found by a step of subspace iteration.

    Any directions give true bounds; good ones give tight bounds. Points of the sample are a better start than random
    directions, and save a step. Their mean is one of the directions, or nearly: products of sketches then say about
    how long the points' own products are.
    """
    d = sample.shape[1]
    if d < NARROWEST or len(sample) < 2 * SKETCH_WIDTH:
        return plain
    start = sample[:: len(sample) // SKETCH_WIDTH][:SKETCH_WIDTH]
    directions = orthonormal(product(product(sample, start).T, sample.T).astype(np.float64))
    slack = projection_slack(SKETCH_WIDTH, d)
    return replace(plain, directions=np.ascontiguousarray(directions.T, dtype=np.float32), slack=slack)


def orthonormal(rows: FloatArray) -> FloatArray:
    """Rows (k, d) made orthonormal, in place; 0 where one is a sum of those before it, or nearly.

    Without LAPACK: hundreds of its steps would wait for a thread of BLAS each, where other work is on that core.
    """
    for place, row in enumerate(rows):
        before, length = rows[:place], np.sqrt(np.einsum("i,i", row, row))
        for _ in range(2):
            row -= np.einsum("i,ij->j", np.einsum("ij,j->i", before, row), before)
        left = np.sqrt(np.einsum("i,i", row, row))
        row *= 1.0 / left if left > DEPENDENT * length else 0.0
    return rows
