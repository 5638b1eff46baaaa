"""Upper bounds on every candidate's priority, the first candidates by bound, and the rounding constants."""

import numpy as np
import numpy.typing as npt

from dubito import native as compiled
from dubito.core.distances import UNIT64
from dubito.core.problem import Configuration, Problem
from dubito.core.reference import cold_order
from dubito.engines.lazy.configurations import finished
from dubito.engines.lazy.front import Front, Threshold
from dubito.engines.lazy.frontier import Fresh, Kernels
from dubito.matrix import AnyArray, BoolArray, FloatArray, IntArray, len_of
from dubito.threads import n_threads

LOOK_AHEAD, LEAST_LOOK = 2.7, 512
"""Refresh at most this many fronts, and this many candidates, at a time when few are stale."""
AHEAD, LEAST_AHEAD = 1.7, 256
"""Look ahead by at least this many fronts, and this many candidates."""
SPARE = 0.8
"""Refreshing a candidate may stop once its bound is below this fraction of the threshold."""
MANY = 8
"""Arrays larger than this multiple of the wanted size are filtered by a sampled level first."""
SAMPLED = 64
"""The sample is every 64th bound."""
TOP_FRONTS = 5
"""Candidates kept between passes over the pool, as a multiple of the front size."""
ALONE = 1 << 16
"""Smaller arrays are searched faster by one thread."""
NONE = np.empty(0, dtype=np.int64)


class Bounds:
    """The `Frontier` of the candidates in this process: O(n) numbers, and a device's kernels.

    ``bound`` is an upper bound on the squared priority, -1 once picked. It is exact if every reference is ``seen``;
    otherwise it is exact for the references seen, or the nearest reference is not among them.
    """

    def __init__(self, problem: Problem, kernels: Kernels) -> None:
        self.problem, self.kernels = problem, kernels
        self.bound: FloatArray = np.empty(0)
        self.seen: AnyArray = np.empty(0, dtype=np.int32)
        self.n_references = len_of(problem.references)
        self._top, self._rest = np.empty(0, dtype=np.int64), Threshold(np.inf, 0)

    @property
    def front_rows(self) -> int:
        return self.kernels.front_rows

    @property
    def is_cold(self) -> bool:
        return len_of(self.problem.references) == 0

    def cold_order(self, n_wanted: int) -> IntArray:
        return cold_order(self.problem)[:n_wanted]

    def open(self, first: IntArray) -> None:
        self.kernels.add_references(first)
        self.bound, self.seen = self.kernels.first_bounds()
        self.n_references += len(first)
        self.bound[first] = -1.0

    def open_cold_beam(self, first: IntArray) -> None:
        self.bound = self.kernels.farthest_bounds(first)
        self.seen = np.zeros(len(self.bound), dtype=np.int32)

    def fresh(self, size: int, own: IntArray) -> Fresh:
        """Refresh until the first ``size`` candidates and ``own`` are exact."""
        self.refresh(own, needed=0.0)
        while True:
            rows, threshold = self.first(size)
            if not self.refresh_first(rows, threshold):
                rows = np.union1d(rows, own) if len(own) else rows
                return Fresh(rows, self.bound[rows], threshold)

    def front(self, rows: IntArray) -> Front:
        return self.kernels.front(rows)

    def close(self, rows: IntArray, values: FloatArray, picks: IntArray) -> None:
        """Write the bounds back; picks become references."""
        self.bound[rows] = values
        self.kernels.add_references(picks)
        self.n_references += len(picks)
        self.bound[picks] = -1.0

    def drop(self, rows: IntArray) -> None:
        """Exclude candidates: they count as picked."""
        self.bound[rows] = -1.0

    def zeros(self, n_wanted: int | None) -> IntArray:
        """Unpicked candidates, whatever their bounds: a restarted shard may not know yet that they are 0."""
        return np.flatnonzero(self.bound >= 0.0)[:n_wanted]

    def largest(self) -> float:
        return float(self.bound.max())

    def scores(self, rows: IntArray) -> IntArray:
        """Fixed-point doubt; 0 without a beam."""
        scores = self.problem.scores
        return np.zeros(len(rows), dtype=np.int64) if scores is None else scores[self.problem.candidates[rows]]

    def configuration(self, rows: IntArray, squared: FloatArray, radius: float) -> Configuration:
        """The result in row numbers of the pool."""
        return finished(self.problem, self.problem.candidates[rows], squared, radius)

    def first(self, size: int) -> tuple[IntArray, Threshold]:
        """The first candidates by bound, ascending by index, and the next one.

        Bounds only decrease, so a candidate list several times larger stays valid while its candidates come before the
        rest: the whole pool is searched only now and then.
        """
        found = self._first_of_top(size)
        if found is None:
            self._top, self._rest = first_in_order(self.bound, TOP_FRONTS * size)
            found = self._first_of_top(size)
        return found or first_in_order(self.bound, size)

    def _first_of_top(self, size: int) -> tuple[IntArray, Threshold] | None:
        """The first of the stored list; None if a candidate outside it may come before one of them."""
        rows, after = first_in_order(self.bound, size, self._top)
        if self._rest.row < 0 or self._rest.admits(after.value, after.row):
            return rows, after
        last = float(self.bound[rows].min(initial=np.inf))
        if after.row < 0 or not self._rest.admits(last, int(rows[self.bound[rows] == last].max())):
            return None
        return rows, self._rest

    def refresh_first(self, rows: IntArray, threshold: Threshold) -> bool:
        """Refresh the first candidates until exact or below the threshold; False if none was stale."""
        n_stale, size = int(np.count_nonzero(self.is_stale(rows))), len(rows)
        n_most, n_ahead = max(LEAST_LOOK, int(LOOK_AHEAD * size)), max(LEAST_AHEAD, int(AHEAD * size))
        if 0 < n_stale < n_most:
            # Refreshing a few takes nearly as long as many, and others move up as these fall.
            rows, threshold = self.first(size + min(max(n_stale, n_ahead), n_most - n_stale))
        # A candidate just below the threshold will be needed soon.
        return self.refresh(rows, SPARE * threshold.value)

    def is_stale(self, rows: IntArray) -> BoolArray:
        return (self.seen[rows] < self.n_references) & (self.bound[rows] > 0.0)

    def refresh(self, rows: IntArray, needed: float) -> bool:
        """Refresh candidates until exact or below ``needed``; False if none was stale."""
        stale = rows[self.is_stale(rows)]
        if len(stale):
            # Candidates that fell below the rest cannot come before it again.
            self._top = self._top[self.bound[self._top] >= self._rest.value]
            self.bound[stale], is_fresh = self.kernels.refresh(stale, self.bound[stale], self.seen[stale], needed)
            self.seen[stale[is_fresh]] = self.n_references
        return len(stale) > 0


def first_in_order(bound: FloatArray, size: int, subset: IntArray | None = None) -> tuple[IntArray, Threshold]:
    """The first candidates by (bound, largest first; index, lowest first), ascending, and the next one.

    ``subset``: ascending rows to choose from. Any other choice among equal bounds could pick wrongly, or never advance.

    Examples
    --------
    >>> rows, threshold = first_in_order(np.array([2.0, 5.0, 2.0, -1.0]), 2)
    >>> rows.tolist(), threshold
    ([0, 1], Threshold(value=2.0, row=2))
    """
    if compiled.steps is not None:
        return _first_in_c(compiled.steps, bound, size, subset)
    if subset is None:
        return _first_of_all(bound, size)
    positions, after = _first_of_all(bound[subset], size)
    return subset[positions], after if after.row < 0 else Threshold(after.value, int(subset[after.row]))


def _first_in_c(
    steps: compiled.CompiledSteps, bound: FloatArray, size: int, subset: IntArray | None
) -> tuple[IntArray, Threshold]:
    some, workers = NONE if subset is None else subset, 1 if subset is not None or len(bound) < ALONE else n_threads()
    rows = np.empty(min(size, len(bound)), dtype=np.int64)
    arrays = (bound, some, rows)
    n_found, value, row = steps.first_in_order(arrays, len(bound), len(some), len(rows), subset is not None, workers)
    return rows[:n_found], Threshold(value, row)


def _first_of_all(bound: FloatArray, size: int) -> tuple[IntArray, Threshold]:
    if len(bound) > MANY * max(size, SAMPLED * SAMPLED):
        rows = np.flatnonzero(bound > _level_of(bound, 2 * size + MANY * SAMPLED))
        if size < len(rows) < len(bound):
            positions, after = _first_of_all(bound[rows], size)
            return rows[positions], Threshold(after.value, int(rows[after.row]))
    position = len(bound) - size
    if position <= 0:
        return np.flatnonzero(bound >= 0.0), Threshold(-1.0, -1)
    # Partitioning at one position and taking a maximum is several times as fast as partitioning at two.
    parted = np.partition(bound, min(position, len(bound) - 1))
    last, outside = (np.inf if size == 0 else float(parted[position])), float(parted[:position].max())
    if outside < 0.0:
        return np.flatnonzero(bound >= 0.0), Threshold(-1.0, -1)
    rows = np.flatnonzero(bound >= last)
    if len(rows) > size:
        # Some candidates that tie with the last one stay outside.
        level = rows[bound[rows] == last]
        n_level = size - (len(rows) - len(level))
        rows = rows[(bound[rows] > last) | (rows < level[n_level])]
        return rows, Threshold(last, int(level[n_level]))
    return rows, Threshold(outside, int(np.argmax(bound == outside)))


def _level_of(bound: FloatArray, n_above: int) -> float:
    """A level >= 0 with about ``n_above`` bounds above it, estimated from a sample."""
    sample = bound[::SAMPLED]
    position = max(0, len(sample) - 1 - n_above // SAMPLED)
    return max(0.0, float(np.partition(sample, position)[position]))


# Rounding constants. Every bound must hold against `core.distances.exact_sq_distances` for any order of additions;
# the proofs are in ``docs/explanation/engine.md`` (The bounds). Assumptions: floats round to nearest; reading and
# subtracting support gradual underflow; matrix products may add in any order, fuse, and flush subnormals to zero.

Float32Array = npt.NDArray[np.float32]

UNIT = 2.0**-24
"""Largest relative rounding error of float32."""
FLOAT32_LARGEST = 1e37
"""Differences of magnitudes up to this are finite in float32; larger values are shifted in float64."""
FLOAT32_SMALLEST = 2.0**-126
"""The smallest normal float32; smaller numbers lose digits or are flushed to zero."""
WIDEST_ROW = 1 << 20
"""Most features for which the bounds hold: three times `gamma` stays well below 1, and `FLOOR` above underflow."""

FLOOR = 1e-30
"""Bound on what products lose to underflow, in scaled units: 4·d·`FLOAT32_SMALLEST` for any allowed d."""
FLOOR_LENGTH = 1e-15
"""The same for a length: the square root of `FLOOR`."""
BEYOND = 1e30
"""Larger than any squared distance in scaled units."""

ROUND_UP, ROUND_DOWN = 1.0 + 2.0**-30, 1.0 - 2.0**-30
"""Covers millions of float64 roundings: those of `exact_sq_distances` (log2(d) + 3), and a few in the bound itself."""
SMALLEST = 2.0**-1040
"""Bound on the underflow of `exact_sq_distances` in float64, d·2**-1075, and of a product with a weight."""

SHIFT_UNITS, SUM_UNITS, COMPARE_UNITS = 5.0, 6.0, 5.0
"""Errors in units of |x|² + |y|²: of shifting two points in float32, adding three terms, and rounding the compared
value. See `product_slack`."""
REACH_UNITS = 8.0
"""Error of a length in units of the point's length and distance: shifting it and its reference (2 and 1), a difference
and a square (2), with a safety margin."""
PICK_UNITS = 4.0
"""Error of a priority scaled by the pick's weight: its own rounding and its limit's (1 each), times two."""

EXACT_ROUNDINGS = 16
"""Extra columns, 3 units each, for the rounding of `exact_sq_distances`: at most 2·(log2(d) + 3) of |x|² + |y|²."""

MEDIAN_ROWS = 128
"""Number of points whose median is the center that all points are shifted by."""


def gamma(n_roundings: int, unit: float = UNIT) -> float:
    """Bound on the relative error of a sum of products whose terms are rounded ``n_roundings`` times, in any order.

    ``unit`` is the unit roundoff, by default of float32.

    Examples
    --------
    >>> gamma(512) / (512 * UNIT) < 1.0001
    True
    """
    error = n_roundings * unit
    return error / (1.0 - error)


def product_slack(width: int, unit: float = UNIT) -> float:
    """Bound on the error of ``|x|² + |y|² - 2·x·y`` in float32, relative to the computed ``|x|² + |y|²``.

    Three sums: the two lengths and the product; if |y|² is an extra column, it is rounded in both. Each is off by at
    most `gamma` of its terms' magnitudes. The other operations round once or twice, whatever the width.
    """
    sums = 3.0 * gamma(width + 1, unit)
    return (sums + (SHIFT_UNITS + SUM_UNITS + COMPARE_UNITS) * unit) / (1.0 - sums)


def front_slack(width: int) -> float:
    """`product_slack` in float64, compared with `exact_sq_distances`, whose own rounding is of the same order here."""
    return product_slack(width + EXACT_ROUNDINGS, UNIT64)


def projection_slack(width: int, d: int) -> float:
    """`product_slack` for points sketched to ``width`` coordinates, which may increase their distance.

    Each coordinate of a sketch is off by at most `gamma` of its point's length, all of them by sqrt(width) times that,
    which counts four times against |x|² + |y|². Directions rounded to float32 are too long by 3·sqrt(width) units at
    most: of the eight that are added to d, two.
    """
    error = np.sqrt(width) * gamma(d + 8)
    return float(product_slack(width) * (1.0 + 4.0 * error) + 4.0 * error + 2.0 * error * error)


def scale_for(largest: float) -> float:
    """A power of two that brings differences of numbers up to ``largest`` to about 1 without rounding them.

    Not beyond 2**440 for tiny numbers, so that `FLOOR` is more than `SMALLEST` in their units.

    Examples
    --------
    >>> scale_for(3.0), scale_for(1e-300) == 2.0**440
    (0.125, True)
    """
    return float(2.0 ** -np.clip(np.frexp(2.0 * largest)[1], -440, 480))


def squared_lengths(rows: Float32Array) -> FloatArray:
    """|x|² of each row, added in float32; `product_slack` covers the error."""
    squared: Float32Array = np.einsum("ij,ij->i", rows, rows)
    return squared.astype(np.float64)
