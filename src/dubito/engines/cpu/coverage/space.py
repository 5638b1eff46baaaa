"""Points as the search for pairs compares them: their first coordinates along directions in which the pool varies most.

A point has a *head* (k coordinates and, if these are not all, the length r of the remainder), a *tail* (further
coordinates and the length of what then remains) and half of its squared length. By Cauchy and Schwarz
``x·y <= s·t + r·q``, so ``|x|² + |y|² - 2·(s·t + r·q)`` never exceeds the squared distance.
"""

from dataclasses import dataclass, replace
from itertools import pairwise
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from dubito import native as compiled
from dubito.core.coverage_reference import CoverageProblem
from dubito.core.distances import read_rows
from dubito.engines.cpu.products import product
from dubito.engines.cpu.sketch import Sketch, is_single, orthonormal, plain_sketch
from dubito.engines.lazy.bounds import (
    FLOOR,
    FLOOR_LENGTH,
    MEDIAN_ROWS,
    REACH_UNITS,
    ROUND_UP,
    SMALLEST,
    UNIT,
    Float32Array,
    gamma,
    product_slack,
    squared_lengths,
)
from dubito.matrix import AnyArray, FloatArray, IntArray, Matrix, Rows, blocks, len_of

FIT_ROWS = 1024
"""Points that directions are fitted to."""
WIDEST = 256
"""Maximum number of directions."""
MIDDLE = 128
"""The first part of a tail ends here."""
NARROWEST = 64
"""Up to this many features are compared as they are."""
READ_ROWS = 4096
LANES = 16
FULL_BYTES = 1 << 30
"""Shifted points are kept if they need at most this much memory."""
MOST_CODES = 512
"""Products of more of them might overflow."""
STEP_SHARES = np.array([1.0, 0.7, 0.5, 0.35])
"""Of the step by which no code is cut off, tried."""
STEP_BITS = 12
SMALLEST_STEP = 1e-10
"""Heads whose largest number is below this, or above its reciprocal, have no codes."""
ERROR_UP = 1.0 + 1e-4
"""More than the rounding of a length in float32."""
TILE = 6
"""C may read this many rows beyond the last head."""
COPIED_BYTES = 1 << 30
"""A matrix that C cannot read in place is copied if it is no larger."""


Int8Array = npt.NDArray[np.int8]
Int32Array = npt.NDArray[np.int32]


class Located(NamedTuple):
    """An array that C reads, and the rows of it that are meant."""

    array: AnyArray
    rows: IntArray


class Points(NamedTuple):
    """Some rows of a matrix."""

    head: Float32Array
    """(r + TILE, k)."""
    tail: Float32Array
    """(r, t): up to two parts, each a multiple of `LANES` wide; t is 0 without directions."""
    full: Float32Array
    """(r, d) shifted points, or (0, d) without directions or the memory for them."""
    half: Float32Array
    """(r,) half of the squared lengths, less the error of a product of heads or tails."""
    length: Float32Array
    """(r,)."""
    rows: IntArray
    """(r,) of the matrix."""
    codes: Int8Array
    """(r + TILE, c) heads over the step, rounded, and 0 to the next multiple of 4; c is 0 without a step."""
    sizes: Int32Array
    """(r, 2) squared lengths of codes, and the same plus 256 times their sum."""
    errors: Float32Array
    """(r,) how far heads are from their codes times the step, at most."""

    end: int
    """The place of the remainder's length in the first part of a tail."""

    def __len__(self) -> int:
        return len(self.rows)

    @property
    def arrays(self) -> compiled.Arrays:
        """As C reads them."""
        return self[:-1]

    @property
    def widths(self) -> tuple[int, int, int, int]:
        """Numbers in a head, in a tail, the end of its first part, and codes."""
        return self.head.shape[1], self.tail.shape[1], self.end, self.codes.shape[1]

    def take(self, order: IntArray) -> "Points":
        """The same points in another order, or some of them."""
        head = np.zeros((len(order) + TILE, self.head.shape[1]), dtype=np.float32)
        np.take(self.head, order, axis=0, out=head[: len(order)])
        full = self.full[order] if len(self.full) else self.full
        codes = np.zeros((len(order) + TILE, self.codes.shape[1]), dtype=np.int8)
        np.take(self.codes, order, axis=0, out=codes[: len(order)])
        has_codes = codes.shape[1] > 0
        return Points(
            head,
            self.tail[order],
            full,
            self.half[order],
            self.length[order],
            self.rows[order],
            codes,
            self.sizes[order] if has_codes else self.sizes,
            self.errors[order] if has_codes else self.errors,
            self.end,
        )


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

    def exact(self, rows: slice | IntArray) -> FloatArray:
        """Rows of the pool as the reference sees them."""
        return read_rows(self.problem.pool, rows, self.problem.metric)

    def shifted(self, matrix: Matrix, rows: slice | IntArray) -> Float32Array:
        """Rows in float32. Not to be written to."""
        return self.shape.read(matrix, rows, self.problem.metric)

    def arrays(self, reach: float) -> compiled.Arrays:
        """What C needs to read rows of the pool, and the rounding constants."""
        center = np.empty(0) if self.shape.center is None else self.shape.center
        d = self.problem.pool.shape[1]
        rounding = (d * UNIT, REACH_UNITS * UNIT, FLOOR_LENGTH, ROUND_UP, SMALLEST)
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
        return self.problem.metric == "cosine", is_single(self.shape.scale), self.shape.center is not None


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
    width: int
    """Coordinates in a head."""
    step: float = 0.0
    """Of codes, with few digits, so that their products with it are exact; 0: none."""

    @property
    def error(self) -> float:
        """Bound on the error of a point's coordinates over its length, with a margin of 8 roundings.

        Each coordinate is off by at most gamma(d) of the length, all of them together by the root of their number times
        that.
        """
        if self.matrix is None:
            return 0.0
        return float(np.sqrt(self.matrix.shape[1]) * gamma(self.matrix.shape[0] + 8))

    @property
    def slack(self) -> float:
        """Bound on the error of |x|² + |y|² - 2·(s·t + r·q), relative to |x|² + |y|²."""
        width = self.width if self.matrix is None else self.matrix.shape[1]
        return product_slack(width + 3) + 4.0 * self.error

    def points(self, space: Space, matrix: Matrix, rows: IntArray) -> Points:
        """Rows of a matrix as points."""
        n, d = len(rows), matrix.shape[1]
        k, widest = (d, 0) if self.matrix is None else (self.width + 1, self.matrix.shape[1])
        cuts = [self.width] if self.matrix is not None else []
        cuts += [stop for stop in (MIDDLE, widest) if self.width < stop <= widest]
        cuts = sorted(set(cuts))
        widths = [-(-(stop - start + 1) // LANES) * LANES for start, stop in pairwise(cuts)]
        is_kept, n_codes = self.matrix is not None and 8 * n * d <= space.full_bytes, -(-k // 4) * 4 if self.step else 0
        found = Points(
            head=np.zeros((n + TILE, k), dtype=np.float32),
            tail=np.zeros((n, sum(widths)), dtype=np.float32),
            full=np.empty((n if is_kept else 0, d), dtype=np.float32),
            half=np.empty(n, dtype=np.float32),
            length=np.empty(n, dtype=np.float32),
            rows=rows,
            codes=np.zeros((n + TILE, n_codes), dtype=np.int8),
            sizes=np.empty((n if n_codes else 0, 2), dtype=np.int32),
            errors=np.empty(n if n_codes else 0, dtype=np.float32),
            end=cuts[1] - cuts[0] if len(cuts) > 1 else 0,
        )
        for span in blocks(n, READ_ROWS):
            shifted = space.shifted(matrix, rows[span])
            sizes = squared_lengths(shifted)
            found.half[span] = 0.5 * ((1.0 - self.slack) * sizes - FLOOR)
            found.length[span] = np.sqrt(sizes)
            if self.matrix is None:
                found.head[span] = shifted
                self._encode(found, span)
                continue
            coordinates = product(shifted, self.matrix.T)
            left, start = sizes + 4.0 * self.error * sizes, 0
            tails = np.split(found.tail, np.cumsum(widths)[:-1], axis=1) if widths else []
            for stop, to in zip(cuts, (found.head, *tails), strict=True):
                part = coordinates[:, start:stop]
                left = np.maximum(left - squared_lengths(part), 0.0)
                to[span, : stop - start], to[span, stop - start] = part, np.sqrt(left)
                start = stop
            self._encode(found, span)
            if is_kept:
                found.full[span] = shifted
        return found

    def _encode(self, points: Points, span: slice) -> None:
        if self.step:
            head = points.head[:-TILE][span]
            codes, errors = encode(head, self.step)
            lengths = squared_lengths(codes)  # exact: below 2²⁴
            points.codes[:-TILE][span, : codes.shape[1]], points.errors[span] = codes, errors
            points.sizes[span, 0] = lengths
            points.sizes[span, 1] = lengths + 256.0 * codes.sum(axis=1)


def encode(heads: Float32Array, step: float) -> tuple[Float32Array, Float32Array]:
    """(r, k) whole numbers from -127 to 127, and (r,) bounds on the error of these times the step."""
    codes = np.rint(heads * np.float32(1.0 / step))
    np.clip(codes, -127.0, 127.0, out=codes)
    left = codes * np.float32(-step)
    left += heads
    return codes, (np.sqrt(squared_lengths(left)) * ERROR_UP + FLOOR_LENGTH).astype(np.float32)


def with_codes(space: Space, directions: Directions) -> Directions:
    """The same with the step of codes that is off least, on a sample; without codes where they cannot be used."""
    width = directions.width + (directions.matrix is not None)
    if width > MOST_CODES:
        return directions
    problem = space.problem
    heads = directions.points(space, problem.pool, evenly(len_of(problem.pool), FIT_ROWS)).head[:-TILE]
    largest = float(np.abs(heads).max(initial=0.0))
    if not SMALLEST_STEP < largest < 1.0 / SMALLEST_STEP:
        return directions
    mantissas, exponents = np.frexp(largest * STEP_SHARES / 127.0)
    steps = np.ldexp(np.ceil(mantissas * 2.0**STEP_BITS), exponents - STEP_BITS).tolist()
    return replace(directions, step=min(steps, key=lambda step: float(encode(heads, step)[1].mean())))


def fit_directions(space: Space, widest: int = WIDEST) -> Directions:
    """Directions of the most variance in a sample of the pool, by subspace iteration.

    Any directions give true bounds, good ones tight bounds.
    """
    d = space.problem.pool.shape[1]
    sample = space.shifted(space.problem.pool, evenly(len_of(space.problem.pool), FIT_ROWS))
    width = min(widest, WIDEST, d // 2)
    if d <= NARROWEST or len(sample) < 2 * width:
        return Directions(None, d)
    start = sample[:: len(sample) // width][:width]
    basis = orthonormal(product(product(sample, start).T, sample.T).astype(np.float64))
    # Three more steps among the few coordinates; further ones would drown the others in rounding.
    inside = product(sample, basis.astype(np.float32))
    spread = product(inside.T, inside.T)
    spread /= max(float(spread.max(initial=0.0)), FLOOR)
    turns = orthonormal(product(product(spread, spread), spread).astype(np.float64))
    directions = np.einsum("ij,jd->id", turns, basis)
    return Directions(np.ascontiguousarray(directions.T, dtype=np.float32), width)
