"""Points as the search for pairs compares them: by coordinates along the directions in which the pool varies most.

The *head* of a point holds k coordinates and, if these are not all, the length of the remainder. By the Cauchy-Schwarz
inequality, the distance of two heads never exceeds that of the points. Heads are compared by their *codes*; the
remaining pairs are compared by the codes of all features (*fine* codes).
"""

from dataclasses import dataclass, replace
from functools import cached_property
from typing import NamedTuple, TypeVar

import numpy as np
import numpy.typing as npt

from dubito import native as compiled
from dubito.core.coverage_reference import CoverageProblem
from dubito.core.distances import read_rows
from dubito.engines.cpu.products import PANEL, pack, product
from dubito.engines.cpu.sketch import Sketch, fits_float32, orthonormal, plain_sketch
from dubito.engines.lazy.bounds import (
    FLOOR,
    FLOOR_LENGTH,
    LENGTH_UNITS,
    MEDIAN_ROWS,
    ROUND_UP,
    SMALLEST,
    UNIT,
    Float32Array,
    gamma,
    product_slack,
    squared_lengths,
)
from dubito.matrix import AnyArray, FloatArray, IntArray, Matrix, Rows, blocks, len_of
from dubito.threads import n_threads

FIT_ROWS = 1024
"""Number of points that directions are fitted to."""
SCALE_ROWS = 256
"""Number of points that the steps of codes are fitted to."""
ONE_THREAD = 1e8
"""Smaller problems, by this number of products of features, are solved by one thread."""
THREADED_BYTES = 1 << 22
"""Larger copies are made by all threads."""
WIDEST = 192
"""Maximum number of directions."""
NARROWEST = 64
"""Up to this number of features, points are compared by their features, without directions."""
READ_ROWS = 4096
FULL_BYTES = 1 << 30
"""Shifted points are stored if they need at most this much memory."""
MOST_CODES, MOST_FINE_CODES = 512, 8192
"""Maximum number of codes of a head, and of all features, for which sums of their products are exact."""
LEVELS = 4
"""Number of levels of codes; each has half the step of the one before."""
STEP_SHARES = (1.0, 0.7, 0.5, 0.35)
"""The steps that are tried, relative to the smallest step for which no code is clipped."""
MOST_SQUARED = 2**30 / (2 * 255 * 127)
"""Limit on the sum of the weights of all codes, so that sums of their products stay below 2³⁰."""
STEP_BITS = 12
"""Number of significant bits of a step."""
LARGEST = 1e10
"""Numbers beyond this, or below its reciprocal, are ignored when a step is chosen; their codes have large errors."""
TILE = 6
"""C may read this many rows beyond the last head."""
COPIED_BYTES = 1 << 30
"""A matrix that C cannot read in place is copied if it is not larger than this."""


Int8Array = npt.NDArray[np.int8]
Int32Array = npt.NDArray[np.int32]
Number = TypeVar("Number", np.float32, np.int8)


class Located(NamedTuple):
    """An array that C reads, and the rows of it to use."""

    array: AnyArray
    rows: IntArray


class Scale(NamedTuple):
    """The steps of codes."""

    step: float = 1.0
    """The step of the last level. It has so few digits that its product with a code is exact."""
    ends: tuple[int, ...] = (0,) * LEVELS
    """The column at which each level ends, a multiple of 4."""


NO_CODES = Scale()


class Codes(NamedTuple):
    """The coordinates of points as integers from -127 to 127, in units of steps; see ``codes.h``."""

    numbers: Int8Array
    """(r + TILE, c) the codes, padded with 0; c is 0 if there are no codes."""
    sizes: Int32Array
    """(r, 2) squared lengths, and the same plus 256 times the sums."""
    errors: Float32Array
    """(r,) upper bounds on the distances of points to their decoded codes."""

    @classmethod
    def empty(cls, n: int, k: int, scale: Scale) -> "Codes":
        numbers = np.empty((n + TILE, scale.ends[-1]), dtype=np.int8)
        numbers[n:], numbers[:, k:], n_coded = 0, 0, n if scale.ends[-1] else 0
        return cls(numbers, np.empty((n_coded, 2), np.int32), np.empty(n_coded, np.float32))

    def take(self, order: IntArray) -> "Codes":
        """The codes of some points, in any order."""
        if self.numbers.shape[1] == 0:
            return self
        return Codes(_take(self.numbers, order), self.sizes[order], self.errors[order])

    def slice_rows(self, span: slice) -> "Codes":
        """The codes of consecutive points, without a copy."""
        return Codes(self.numbers[span.start : span.stop + TILE], self.sizes[span], self.errors[span])


def encode(points: Float32Array, scale: Scale) -> Codes:
    assert compiled.steps is not None
    codes = Codes.empty(len(points), points.shape[1], scale)
    arrays = np.ascontiguousarray(points), codes.numbers[: len(points)], *codes[1:]
    compiled.steps.encode_points(arrays, *points.shape, *scale.ends, scale.step, 1)
    return codes


def best_scale(points: Float32Array, n_levels: int = LEVELS) -> Scale:
    """The scale with the smallest errors for some points (r, k), whose columns are sorted by size, largest first."""
    k, sizes = points.shape[1], np.maximum.accumulate(np.abs(points).max(axis=0, initial=0.0)[::-1])[::-1]
    sizes = np.clip(sizes, 1.0 / LARGEST, LARGEST).astype(np.float64)
    # A level with half the step begins where all remaining columns are at most half as large.
    level = np.minimum(np.floor(np.log2(sizes[0] / sizes)), n_levels - 1)
    ends = [4 * round(int(np.count_nonzero(level <= each)) / 4) for each in range(n_levels - 1)]
    ends = [*(0,) * (LEVELS - n_levels), *ends, -(-k // 4) * 4]
    weights = 4.0 ** np.arange(LEVELS - 1, -1, -1)
    if weights @ np.diff([0, *ends]) >= MOST_SQUARED:
        ends = [*(0,) * (LEVELS - 1), ends[-1]]
    first = next(each for each, end in enumerate(ends) if end > 0)
    tried = list[tuple[float, Scale]]()
    for share in STEP_SHARES:
        mantissa, exponent = np.frexp(sizes[0] * share / 127.0 / 2.0 ** (LEVELS - 1 - first))
        step = float(np.ldexp(np.ceil(mantissa * 2.0**STEP_BITS), exponent - STEP_BITS))
        scale = Scale(step, tuple(ends))
        # Errors are squared, since a few points with large errors cost more than many with small ones.
        tried.append((float(np.square(encode(points, scale).errors, dtype=np.float64).sum()), scale))
    return min(tried)[1]


class Points(NamedTuple):
    """Some rows of a matrix."""

    head: Float32Array
    """(r + TILE, k)."""
    full: Float32Array
    """(r, d) shifted points, or (0, d) if they need too much memory."""
    length: Float32Array
    """(r,) lengths of shifted points."""
    rows: IntArray
    """(r,) rows of the matrix."""
    codes: Codes
    """The codes of heads."""
    fine: Codes
    """The codes of all features, if heads do not hold all features."""
    is_whole: bool
    """Whether heads hold all features."""

    def __len__(self) -> int:
        return len(self.rows)

    @property
    def arrays(self) -> compiled.Arrays:
        """The arrays that C reads."""
        return *self[:4], *self.codes, *self.fine

    def widths(self, directions: "Directions") -> tuple[int, ...]:
        """The number of coordinates in a head, the ends of the levels of its codes, and the number of fine codes."""
        return self.head.shape[1], *directions.scale.ends, self.fine.numbers.shape[1]

    def take(self, order: IntArray) -> "Points":
        """Some of the points, in any order."""
        if len(order) == len(self) and (order[1:] > order[:-1]).all():
            return self
        if len(order) and order[-1] - order[0] == len(order) - 1 and (order[1:] > order[:-1]).all():
            return self.slice_rows(slice(int(order[0]), int(order[-1]) + 1))
        head = _take(self.head, order)
        full = (
            head[: len(order)]
            if self.is_whole
            else _take(self.full, order)[: len(order)]
            if len(self.full)
            else self.full
        )
        codes, fine = self.codes.take(order), self.fine.take(order)
        return Points(head, full, self.length[order], self.rows[order], codes, fine, self.is_whole)

    def slice_rows(self, span: slice) -> "Points":
        """Consecutive points, without a copy."""
        head = self.head[span.start : span.stop + TILE]
        full = head[: span.stop - span.start] if self.is_whole else self.full[span]
        codes, fine = self.codes.slice_rows(span), self.fine.slice_rows(span)
        return Points(head, full, self.length[span], self.rows[span], codes, fine, self.is_whole)


def _take(array: npt.NDArray[Number], order: IntArray) -> npt.NDArray[Number]:
    """Rows of an array in this order, and `TILE` rows of zeros."""
    assert compiled.steps is not None
    taken = np.empty((len(order) + TILE, array.shape[1]), dtype=array.dtype)
    taken[len(order) :] = 0
    arrays = array.view(np.uint8), np.ascontiguousarray(order), taken[: len(order)].view(np.uint8)
    threads = n_threads() if taken.nbytes > THREADED_BYTES else 1
    compiled.steps.take_rows(arrays, len(array), len(order), array.itemsize * array.shape[1], threads)
    return taken


class Space:
    """The pool and the labeled rows, shifted and scaled in the same way; see `dubito.engines.cpu.sketch.Sketch`."""

    def __init__(self, problem: CoverageProblem) -> None:
        self.problem = problem
        sample = read_rows(problem.pool, evenly_spaced(len_of(problem.pool), MEDIAN_ROWS), problem.metric)
        self.sketch: Sketch = plain_sketch(sample, problem.largest)
        self.unit = self.sketch.scale**2
        """Factor between squared distances of points and of shifted points."""
        size = problem.memory_limit // 4 if problem.memory_limit is not None else COPIED_BYTES
        self.pool, self.references = locate(problem.pool, size), locate(problem.references, size)
        """Each is None if C cannot read it."""
        self.full_bytes = size if problem.memory_limit is not None else FULL_BYTES

    @cached_property
    def sample(self) -> Float32Array:
        """(FIT_ROWS, d) shifted rows of the pool, to which directions are fitted."""
        return self.shifted(self.problem.pool, evenly_spaced(len_of(self.problem.pool), FIT_ROWS))

    @cached_property
    def scale(self) -> Scale:
        return best_scale(self.scale_sample, n_levels=1)

    @cached_property
    def scale_sample(self) -> Float32Array:
        """(SCALE_ROWS, d) shifted rows of the pool, to which the steps of codes are fitted."""
        return self.shifted(self.problem.pool, evenly_spaced(len_of(self.problem.pool), SCALE_ROWS))

    @property
    def n_threads(self) -> int:
        """The number of threads of C: one for small problems."""
        n, d = self.problem.pool.shape
        return (
            1 if n * d * (len(self.problem.candidates) + len_of(self.problem.references)) < ONE_THREAD else n_threads()
        )

    def exact(self, rows: slice | IntArray) -> FloatArray:
        """Rows of the pool in float64, for exact distances."""
        return read_rows(self.problem.pool, rows, self.problem.metric)

    def shifted(self, matrix: Matrix, rows: slice | IntArray) -> Float32Array:
        """Shifted rows in float32. They may be views: do not modify them."""
        return self.sketch.read(matrix, rows, self.problem.metric)

    def arrays(self, reach: float) -> compiled.Arrays:
        """The arrays from which C reads rows of the pool, and the rounding constants."""
        center = np.empty(0) if self.sketch.center is None else self.sketch.center
        d = self.problem.pool.shape[1]
        rounding = (d * UNIT, LENGTH_UNITS * UNIT, FLOOR_LENGTH, ROUND_UP, SMALLEST)
        constants = np.array([self.sketch.scale, self.unit, *rounding, reach, reach * self.unit])
        return np.empty(0, np.uint8) if self.pool is None else self.pool.array, center, constants

    @property
    def n_matrix(self) -> int:
        """The number of rows of the array that C reads."""
        return len_of(self.problem.pool if self.pool is None else self.pool.array)

    @property
    def itemsize(self) -> int:
        """The size of a feature in bytes; 0 if C cannot read the pool."""
        return 0 if self.pool is None else self.pool.array.itemsize

    @property
    def flags(self) -> tuple[bool, bool, bool]:
        """Whether the metric is cosine, rows are shifted in float32, and there is a center."""
        return self.problem.metric == "cosine", fits_float32(self.sketch.scale), self.sketch.center is not None


def locate(matrix: Matrix, most_bytes: int) -> Located | None:
    """A matrix in memory that C can read, copied if necessary; None if the copy would exceed ``most_bytes``."""
    below, rows = (matrix.matrix, matrix.rows) if isinstance(matrix, Rows) else (matrix, None)
    if not (isinstance(below, np.ndarray) and compiled.can_read(below)):
        n, d = matrix.shape
        if n * d * 8 > most_bytes:
            return None
        dtype = matrix.dtype if matrix.dtype in compiled.FLOATS else np.dtype(np.float64)
        below, rows = np.ascontiguousarray(matrix[:], dtype=dtype.newbyteorder("=")), None
    return Located(below, np.arange(len(below)) if rows is None else np.ascontiguousarray(rows, dtype=np.int64))


def evenly_spaced(n_rows: int, n_chosen: int) -> IntArray:
    """At most ``n_chosen`` of the numbers below ``n_rows``, evenly spaced, beginning with 0."""
    n_chosen = min(n_rows, n_chosen)
    return np.arange(n_chosen, dtype=np.int64) * n_rows // max(n_chosen, 1)


@dataclass(frozen=True, slots=True)
class Directions:
    """Directions, by variance, largest first: orthonormal vectors up to rounding, or features."""

    matrix: Float32Array | None
    """(d, widest) the directions; None if they are features."""
    order: IntArray
    """(d,) the features by variance, largest first; used without a matrix."""
    width: int
    """Number of coordinates in a head; if there are more features, the length of the remainder comes before them."""
    scale: Scale = NO_CODES
    """The scale of the codes of heads."""

    @classmethod
    def features(cls, space: "Space") -> "Directions":
        """Features as directions: all of them, or those of the largest variance."""
        order = np.argsort(-space.scale_sample.var(axis=0), kind="stable")
        return cls(None, order, len(order) if len(order) <= MOST_CODES else MOST_CODES - 1)

    @property
    def is_whole(self) -> bool:
        """Whether heads hold all features."""
        return self.matrix is None and self.width == len(self.order)

    @property
    def error(self) -> float:
        """Bound on the error of a point's coordinates, relative to its length, with a margin of 8 roundings.

        Each coordinate is off by at most gamma(d) times the length, and all together by the square root of their number
        times that.
        """
        return 0.0 if self.is_whole else float(np.sqrt(self.width) * gamma(len(self.order) + 8))

    @property
    def slack(self) -> float:
        """Bound on the error of the squared distance of two heads, relative to |x|² + |y|²."""
        return 2.0 * (product_slack(self.width + 3) + 4.0 * self.error)

    def heads(self, shifted: Float32Array, sizes: FloatArray) -> Float32Array:
        """(r, k) the heads of shifted points (r, d) with these squared lengths."""
        if self.is_whole:
            return np.take(shifted, self.order, axis=1)
        heads = np.empty((len(shifted), 1 + self.width), dtype=np.float32)
        if self.matrix is None:
            np.take(shifted, self.order[: self.width], axis=1, out=heads[:, 1:])
        else:
            heads[:, 1:] = product(shifted, self.matrix[:, : self.width].T)
        remaining = sizes + 4.0 * self.error * sizes - squared_lengths(heads[:, 1:])
        heads[:, 0] = np.sqrt(np.maximum(remaining, 0.0))
        return heads

    def fine_scale(self, space: "Space") -> Scale:
        """The scale of the codes of all features; `NO_CODES` if heads hold all features or there are too many."""
        return NO_CODES if self.is_whole or len(self.order) > MOST_FINE_CODES else space.scale

    def fitted(self, space: "Space") -> "Directions":
        """The same directions with the most accurate scale of codes, if the C extension is available."""
        if compiled.steps is None:
            return self
        return replace(self, scale=best_scale(self.heads(space.scale_sample, squared_lengths(space.scale_sample))))

    def points(self, space: "Space", matrix: Matrix, rows: IntArray) -> Points:
        assert compiled.steps is not None
        n, d, is_whole = len(rows), matrix.shape[1], self.is_whole
        is_kept = not is_whole and 8 * n * d <= space.full_bytes
        head = np.empty((n + TILE, self.width + (not is_whole)), dtype=np.float32)
        head[n:] = 0.0
        full = head[:n] if is_whole else np.empty((n * is_kept, d), dtype=np.float32)
        fine_scale = self.fine_scale(space)
        codes, fine = Codes.empty(n, head.shape[1], self.scale), Codes.empty(n, d, fine_scale)
        points = Points(head, full, np.empty(n, dtype=np.float32), rows, codes, fine, is_whole)
        none = np.empty((0, d, PANEL), dtype=np.float32)
        panels = none if self.matrix is None else pack(np.ascontiguousarray(self.matrix[:, : self.width].T))
        numbers = *points.widths(self), len(panels), self.scale.step, fine_scale.step, self.error, is_whole, is_kept
        _, *shift = space.arrays(1.0)
        is_readable = isinstance(matrix, np.ndarray) and compiled.can_read(matrix)
        for span in blocks(n, n if is_readable else READ_ROWS):
            part = points.slice_rows(span)
            if isinstance(matrix, np.ndarray) and is_readable:
                read, flags, where = matrix, (matrix.itemsize, *space.flags), (*shift, part.rows)
            else:
                read, flags = np.ascontiguousarray(space.shifted(matrix, part.rows)), (4, False, True, False)
                where = shift[0][:0], shift[1], np.arange(len(part))
            arrays = read, *where, self.order, panels, part.head, part.full[: len(part) * is_kept], part.length
            sizes = d, len(read), len(part), *numbers
            compiled.steps.read_points((*arrays, *part.codes, *part.fine), *sizes, *flags, space.n_threads)
        return points


def fit_directions(space: Space) -> Directions:
    """Directions of the most variance in a sample of the pool, by subspace iteration.

    Any directions give valid bounds; directions of large variance give tight bounds.
    """
    d = space.problem.pool.shape[1]
    features, sample, width = Directions.features(space), space.sample, min(WIDEST, d // 2)
    if d <= NARROWEST or len(sample) < 2 * width:
        return features
    start = sample[:: len(sample) // width][:width]
    basis = orthonormal(product(product(sample, start).T, sample.T).astype(np.float64))
    # Three more steps, in the coordinates of the basis. With even more steps, rounding would exceed small variances.
    coordinates = product(sample, basis.astype(np.float32))
    covariance = product(coordinates.T, coordinates.T)
    covariance /= max(float(covariance.max(initial=0.0)), FLOOR)
    rotation = orthonormal(product(product(covariance, covariance), covariance).astype(np.float64))
    directions = np.einsum("ij,jd->id", rotation, basis)
    return Directions(np.ascontiguousarray(directions.T, dtype=np.float32), features.order, width)
