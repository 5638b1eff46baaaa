"""Points as the search for pairs compares them: their first coordinates along directions in which the pool varies most.

A point has a *head*: k coordinates and, if these are not all, the length r of the remainder. By Cauchy and Schwarz the
distance of two heads never exceeds that of the points. Heads are compared by *codes*, and so are all features (*fine*
codes) of the pairs that are left.
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
"""Points that directions are fitted to."""
SCALE_ROWS = 256
"""Points that steps of codes are fitted to."""
ONE_THREAD = 5e8
"""Products of features that one thread computes before others would be awake."""
THREADED_BYTES = 1 << 22
"""Copies larger than this are made by all threads."""
WIDEST = 192
"""Maximum number of directions."""
NARROWEST = 64
"""Up to this many features are compared as they are."""
READ_ROWS = 4096
FULL_BYTES = 1 << 30
"""Shifted points are kept if they need at most this much memory."""
MOST_CODES, MOST_FINE_CODES = 512, 8192
"""Of a head, and of all features: sums of their products are exact."""
LEVELS = 4
"""Of codes: each has half the step of the one before."""
STEP_SHARES = (1.0, 0.7, 0.5, 0.35)
"""Of the steps by which no code is cut off, tried."""
MOST_SQUARED = 2**30 / (2 * 255 * 127)
"""Sums of products of codes, with the weights of their levels, stay below 2³⁰."""
STEP_BITS = 12
LARGEST = 1e10
"""Steps are those of numbers up to this, and down to its reciprocal: others have large errors."""
TILE = 6
"""C may read this many rows beyond the last head."""
COPIED_BYTES = 1 << 30
"""A matrix that C cannot read in place is copied if it is no larger."""


Int8Array = npt.NDArray[np.int8]
Int32Array = npt.NDArray[np.int32]
Number = TypeVar("Number", np.float32, np.int8)


class Located(NamedTuple):
    """An array that C reads, and the rows of it that are meant."""

    array: AnyArray
    rows: IntArray


class Scale(NamedTuple):
    """How codes are made."""

    step: float = 1.0
    """Of the last level, with few digits, so that a product with a code is exact."""
    ends: tuple[int, ...] = (0,) * LEVELS
    """Where levels end, multiples of 4."""


NO_CODES = Scale()


class Codes(NamedTuple):
    """Points as whole numbers from -127 to 127, times steps; see ``codes.h``."""

    numbers: Int8Array
    """(r + TILE, c), 0 in the last columns; c is 0 if there are none."""
    sizes: Int32Array
    """(r, 2) squared lengths, and the same plus 256 times the sums."""
    errors: Float32Array
    """(r,) how far points are from their codes times the steps, at most."""

    @classmethod
    def empty(cls, n: int, k: int, scale: Scale) -> "Codes":
        numbers = np.empty((n + TILE, scale.ends[-1]), dtype=np.int8)
        numbers[n:], numbers[:, k:], n_coded = 0, 0, n if scale.ends[-1] else 0
        return cls(numbers, np.empty((n_coded, 2), np.int32), np.empty(n_coded, np.float32))

    def take(self, order: IntArray) -> "Codes":
        """Those of some points, or in another order."""
        if self.numbers.shape[1] == 0:
            return self
        return Codes(_take(self.numbers, order), self.sizes[order], self.errors[order])

    def cut(self, span: slice) -> "Codes":
        """Consecutive ones, without a copy."""
        return Codes(self.numbers[span.start : span.stop + TILE], self.sizes[span], self.errors[span])


def encode(points: Float32Array, scale: Scale) -> Codes:
    assert compiled.steps is not None
    codes = Codes.empty(len(points), points.shape[1], scale)
    arrays = np.ascontiguousarray(points), codes.numbers[: len(points)], *codes[1:]
    compiled.steps.encode_points(arrays, *points.shape, *scale.ends, scale.step, 1)
    return codes


def best_scale(points: Float32Array, n_levels: int = LEVELS) -> Scale:
    """The scale by which some points (r, k) are off least, those of the largest features first."""
    k, sizes = points.shape[1], np.maximum.accumulate(np.abs(points).max(axis=0, initial=0.0)[::-1])[::-1]
    sizes = np.clip(sizes, 1.0 / LARGEST, LARGEST).astype(np.float64)
    # Twice as fine wherever all further features are half as large.
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
        # Squared, since few points with large errors cost more than many with small ones.
        tried.append((float(np.square(encode(points, scale).errors, dtype=np.float64).sum()), scale))
    return min(tried)[1]


class Points(NamedTuple):
    """Some rows of a matrix."""

    head: Float32Array
    """(r + TILE, k)."""
    full: Float32Array
    """(r, d) shifted points, or (0, d) without the memory for them."""
    length: Float32Array
    """(r,)."""
    rows: IntArray
    """(r,) of the matrix."""
    codes: Codes
    """Of heads."""
    fine: Codes
    """Of the points, unless heads are these."""
    is_whole: bool
    """Whether heads are the points."""

    def __len__(self) -> int:
        return len(self.rows)

    @property
    def arrays(self) -> compiled.Arrays:
        """The arrays that C reads."""
        return *self[:4], *self.codes, *self.fine

    def widths(self, directions: "Directions") -> tuple[int, ...]:
        """Numbers in a head, where levels of its codes end, and fine codes."""
        return self.head.shape[1], *directions.scale.ends, self.fine.numbers.shape[1]

    def take(self, order: IntArray) -> "Points":
        """The same points in another order, or some of them."""
        if len(order) == len(self) and (order[1:] > order[:-1]).all():
            return self
        if len(order) and order[-1] - order[0] == len(order) - 1 and (order[1:] > order[:-1]).all():
            return self.cut(slice(int(order[0]), int(order[-1]) + 1))
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

    def cut(self, span: slice) -> "Points":
        """Consecutive points, without a copy."""
        head = self.head[span.start : span.stop + TILE]
        full = head[: span.stop - span.start] if self.is_whole else self.full[span]
        codes, fine = self.codes.cut(span), self.fine.cut(span)
        return Points(head, full, self.length[span], self.rows[span], codes, fine, self.is_whole)


def _take(array: npt.NDArray[Number], order: IntArray) -> npt.NDArray[Number]:
    """Rows of an array, and `TILE` more."""
    assert compiled.steps is not None
    found = np.empty((len(order) + TILE, array.shape[1]), dtype=array.dtype)
    found[len(order) :] = 0
    arrays = array.view(np.uint8), np.ascontiguousarray(order), found[: len(order)].view(np.uint8)
    threads = n_threads() if found.nbytes > THREADED_BYTES else 1
    compiled.steps.take_rows(arrays, len(array), len(order), array.itemsize * array.shape[1], threads)
    return found


class Space:
    """Rows of the pool and of what is labeled, shifted and scaled alike; see `dubito.engines.cpu.sketch.Sketch`."""

    def __init__(self, problem: CoverageProblem) -> None:
        self.problem = problem
        few = read_rows(problem.pool, evenly(len_of(problem.pool), MEDIAN_ROWS), problem.metric)
        self.shape: Sketch = plain_sketch(few, problem.largest)
        self.unit = self.shape.scale**2
        """Squared distances of shifted points over those of the points."""
        size = problem.memory_limit // 4 if problem.memory_limit is not None else COPIED_BYTES
        self.pool, self.references = locate(problem.pool, size), locate(problem.references, size)
        """None if C cannot read them."""
        self.full_bytes = size if problem.memory_limit is not None else FULL_BYTES

    @cached_property
    def sample(self) -> Float32Array:
        """Some shifted rows of the pool."""
        return self.shifted(self.problem.pool, evenly(len_of(self.problem.pool), FIT_ROWS))

    @cached_property
    def scale(self) -> Scale:
        return best_scale(self.few, n_levels=1)

    @cached_property
    def few(self) -> Float32Array:
        """Fewer of them."""
        return self.shifted(self.problem.pool, evenly(len_of(self.problem.pool), SCALE_ROWS))

    @property
    def n_threads(self) -> int:
        """Threads of C: one for small problems."""
        n, d = self.problem.pool.shape
        return (
            1 if n * d * (len(self.problem.candidates) + len_of(self.problem.references)) < ONE_THREAD else n_threads()
        )

    def exact(self, rows: slice | IntArray) -> FloatArray:
        """Rows of the pool in float64, for exact distances."""
        return read_rows(self.problem.pool, rows, self.problem.metric)

    def shifted(self, matrix: Matrix, rows: slice | IntArray) -> Float32Array:
        """Rows in float32. Not to be written to."""
        return self.shape.read(matrix, rows, self.problem.metric)

    def arrays(self, reach: float) -> compiled.Arrays:
        """The arrays that C needs to read rows of the pool, and the rounding constants."""
        center = np.empty(0) if self.shape.center is None else self.shape.center
        d = self.problem.pool.shape[1]
        rounding = (d * UNIT, LENGTH_UNITS * UNIT, FLOOR_LENGTH, ROUND_UP, SMALLEST)
        constants = np.array([self.shape.scale, self.unit, *rounding, reach, reach * self.unit])
        return np.empty(0, np.uint8) if self.pool is None else self.pool.array, center, constants

    @property
    def n_matrix(self) -> int:
        """Rows of the array that C reads."""
        return len_of(self.problem.pool if self.pool is None else self.pool.array)

    @property
    def itemsize(self) -> int:
        """Bytes of a feature; 0 if C cannot read the pool."""
        return 0 if self.pool is None else self.pool.array.itemsize

    @property
    def flags(self) -> tuple[bool, bool, bool]:
        """Whether the metric is cosine, rows are shifted in float32, and there is a center."""
        return self.problem.metric == "cosine", fits_float32(self.shape.scale), self.shape.center is not None


def locate(matrix: Matrix, most_bytes: int) -> Located | None:
    """The matrix in memory that C can read, copied if it is small enough; None otherwise."""
    below, rows = (matrix.matrix, matrix.rows) if isinstance(matrix, Rows) else (matrix, None)
    if not (isinstance(below, np.ndarray) and compiled.can_read(below)):
        n, d = matrix.shape
        if n * d * 8 > most_bytes:
            return None
        dtype = matrix.dtype if matrix.dtype in compiled.FLOATS else np.dtype(np.float64)
        below, rows = np.ascontiguousarray(matrix[:], dtype=dtype.newbyteorder("=")), None
    return Located(below, np.arange(len(below)) if rows is None else np.ascontiguousarray(rows, dtype=np.int64))


def evenly(n_rows: int, n_chosen: int) -> IntArray:
    """At most so many of the numbers below ``n_rows``, evenly spaced, from the first on."""
    n_chosen = min(n_rows, n_chosen)
    return np.arange(n_chosen, dtype=np.int64) * n_rows // max(n_chosen, 1)


@dataclass(frozen=True, slots=True)
class Directions:
    """Orthonormal directions but for rounding, those of the most variance first; None for the features themselves."""

    matrix: Float32Array | None
    """(d, widest)."""
    order: IntArray
    """(d,) the features, those of the largest variance first; used without a matrix."""
    width: int
    """Coordinates in a head; if there are more features, the length of the remainder comes before them."""
    scale: Scale = NO_CODES
    """Of the codes of heads."""

    @classmethod
    def features(cls, space: "Space") -> "Directions":
        """The features themselves, or the largest of them."""
        order = np.argsort(-space.few.var(axis=0), kind="stable")
        return cls(None, order, len(order) if len(order) <= MOST_CODES else MOST_CODES - 1)

    @property
    def is_whole(self) -> bool:
        """Whether heads hold all features."""
        return self.matrix is None and self.width == len(self.order)

    @property
    def error(self) -> float:
        """Bound on the error of a point's coordinates over its length, with a margin of 8 roundings.

        Each coordinate is off by at most gamma(d) of the length, all of them together by the root of their number times
        that.
        """
        return 0.0 if self.is_whole else float(np.sqrt(self.width) * gamma(len(self.order) + 8))

    @property
    def slack(self) -> float:
        """Bound on the error of the squared distance of two heads, relative to |x|² + |y|²."""
        return 2.0 * (product_slack(self.width + 3) + 4.0 * self.error)

    def heads(self, shifted: Float32Array, sizes: FloatArray) -> Float32Array:
        """(r, k) of points with these squared lengths."""
        if self.is_whole:
            return np.take(shifted, self.order, axis=1)
        found = np.empty((len(shifted), 1 + self.width), dtype=np.float32)
        if self.matrix is None:
            np.take(shifted, self.order[: self.width], axis=1, out=found[:, 1:])
        else:
            found[:, 1:] = product(shifted, self.matrix[:, : self.width].T)
        left = sizes + 4.0 * self.error * sizes - squared_lengths(found[:, 1:])
        found[:, 0] = np.sqrt(np.maximum(left, 0.0))
        return found

    def fine_scale(self, space: "Space") -> Scale:
        """Of the codes of all features, unless heads hold these."""
        return NO_CODES if self.is_whole or len(self.order) > MOST_FINE_CODES else space.scale

    def fitted(self, space: "Space") -> "Directions":
        """The same with the most accurate scale of codes, if the C extension is available."""
        if compiled.steps is None:
            return self
        return replace(self, scale=best_scale(self.heads(space.few, squared_lengths(space.few))))

    def points(self, space: "Space", matrix: Matrix, rows: IntArray) -> Points:
        assert compiled.steps is not None
        n, d, is_whole = len(rows), matrix.shape[1], self.is_whole
        is_kept = not is_whole and 8 * n * d <= space.full_bytes
        head = np.empty((n + TILE, self.width + (not is_whole)), dtype=np.float32)
        head[n:] = 0.0
        full = head[:n] if is_whole else np.empty((n * is_kept, d), dtype=np.float32)
        fine_scale = self.fine_scale(space)
        codes, fine = Codes.empty(n, head.shape[1], self.scale), Codes.empty(n, d, fine_scale)
        found = Points(head, full, np.empty(n, dtype=np.float32), rows, codes, fine, is_whole)
        none = np.empty((0, d, PANEL), dtype=np.float32)
        panels = none if self.matrix is None else pack(np.ascontiguousarray(self.matrix[:, : self.width].T))
        numbers = *found.widths(self), len(panels), self.scale.step, fine_scale.step, self.error, is_whole, is_kept
        _, *shift = space.arrays(1.0)
        is_readable = isinstance(matrix, np.ndarray) and compiled.can_read(matrix)
        for span in blocks(n, n if is_readable else READ_ROWS):
            part = found.cut(span)
            if isinstance(matrix, np.ndarray) and is_readable:
                read, flags, where = matrix, (matrix.itemsize, *space.flags), (*shift, part.rows)
            else:
                read, flags = np.ascontiguousarray(space.shifted(matrix, part.rows)), (4, False, True, False)
                where = shift[0][:0], shift[1], np.arange(len(part))
            arrays = read, *where, self.order, panels, part.head, part.full[: len(part) * is_kept], part.length
            sizes = d, len(read), len(part), *numbers
            compiled.steps.read_points((*arrays, *part.codes, *part.fine), *sizes, *flags, space.n_threads)
        return found


def fit_directions(space: Space) -> Directions:
    """Directions of the most variance in a sample of the pool, by subspace iteration.

    Any directions give true bounds, good ones tight bounds.
    """
    d = space.problem.pool.shape[1]
    features, sample, width = Directions.features(space), space.sample, min(WIDEST, d // 2)
    if d <= NARROWEST or len(sample) < 2 * width:
        return features
    start = sample[:: len(sample) // width][:width]
    basis = orthonormal(product(product(sample, start).T, sample.T).astype(np.float64))
    # Three more steps among the few coordinates; further ones would drown the others in rounding.
    inside = product(sample, basis.astype(np.float32))
    spread = product(inside.T, inside.T)
    spread /= max(float(spread.max(initial=0.0)), FLOOR)
    turns = orthonormal(product(product(spread, spread), spread).astype(np.float64))
    directions = np.einsum("ij,jd->id", turns, basis)
    return Directions(np.ascontiguousarray(directions.T, dtype=np.float32), features.order, width)
