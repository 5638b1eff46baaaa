"""Upper bounds on every candidate's priority, the first candidates by bound, and the rounding constants."""

import numpy as np
import numpy.typing as npt

from dubito import native as compiled
from dubito.core.distances import UNIT64
from dubito.core.problem import Configuration, Problem
from dubito.core.reference import cold_order
from dubito.engines.lazy.configurations import make_configuration
from dubito.engines.lazy.front import Front, Threshold
from dubito.engines.lazy.interfaces import Fresh, Kernels
from dubito.matrix import AnyArray, BoolArray, FloatArray, IntArray, len_of
from dubito.threads import n_threads

LOOK_AHEAD, LEAST_LOOK = 2.7, 512
"""If few candidates of a front are stale, the candidates that follow are refreshed as well: at most so many in all, in
multiples of the front size, or in candidates if that is more."""
AHEAD, LEAST_AHEAD = 1.7, 256
"""At least so many of the candidates that follow are refreshed with the front, in the same units."""
SPARE = 0.8
"""Refreshing a candidate may stop once its bound is below this fraction of the threshold."""
MANY = 8
"""Arrays larger than this multiple of the requested size are first filtered by a level estimated from a sample."""
SAMPLED = 64
"""The sample is every 64th bound."""
TOP_FRONTS = 5
"""Number of candidates that are stored between passes over the pool, as a multiple of the front size."""
ALONE = 1 << 16
"""Smaller arrays are searched by one thread, which is faster."""
NONE = np.empty(0, dtype=np.int64)


class Bounds:
    """The `CandidateBounds` of candidates in this process: O(n) numbers, and the kernels of a device.

    ``bound`` is an upper bound on the squared priority, or -1 once picked. ``seen`` is the number of references that it
    accounts for. If these are all references, the bound is exact; otherwise it is exact for the references seen, or the
    nearest reference is not among them.
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

    def cold_order(self, n_first: int) -> IntArray:
        return cold_order(self.problem)[:n_first]

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

    def zeros(self, n_first: int | None) -> IntArray:
        """The first candidates not picked, whatever their bounds: in a restarted shard, bounds may not be 0 yet."""
        return np.flatnonzero(self.bound >= 0.0)[:n_first]

    def largest(self) -> float:
        return float(self.bound.max())

    def scores(self, rows: IntArray) -> IntArray:
        """Fixed-point doubt; 0 without a beam."""
        scores = self.problem.scores
        return np.zeros(len(rows), dtype=np.int64) if scores is None else scores[self.problem.candidates[rows]]

    def configuration(self, rows: IntArray, squared: FloatArray, radius: float) -> Configuration:
        """The result in row numbers of the pool."""
        return make_configuration(self.problem, self.problem.candidates[rows], squared, radius)

    def first(self, size: int) -> tuple[IntArray, Threshold]:
        """The first candidates by bound, ascending by index, and the next one.

        A list of the first candidates, several times as long, is stored. Since bounds only decrease, it can be used as
        long as enough of its candidates come before all others; only then the whole pool is searched again.
        """
        first = self._first_of_top(size)
        if first is None:
            self._top, self._rest = first_in_order(self.bound, TOP_FRONTS * size)
            first = self._first_of_top(size)
        return first or first_in_order(self.bound, size)

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
            # Refreshing a few candidates takes nearly as long as many, and others come first once these are lowered.
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

    ``subset``: ascending rows to choose from. The tie rule is essential: with another one, the picks could be wrong, or
    the algorithm could make no progress.

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
    """A level of at least 0 that about ``n_above`` bounds exceed, estimated from a sample."""
    sample = bound[::SAMPLED]
    position = max(0, len(sample) - 1 - n_above // SAMPLED)
    return max(0.0, float(np.partition(sample, position)[position]))


# Rounding constants. Every bound must hold for the result of `core.distances.exact_sq_distances`, in any order of
# additions; the proofs are in ``docs/explanation/engine.md`` (The bounds). Assumptions: floats are rounded to nearest;
# reading and subtraction support gradual underflow; matrix products may add in any order, use fused operations, and
# flush subnormals to zero.

Float32Array = npt.NDArray[np.float32]

UNIT = 2.0**-24
"""Largest relative rounding error of float32."""
FLOAT32_LARGEST = 1e37
"""Differences of magnitudes up to this are finite in float32; larger values are shifted in float64."""
FLOAT32_SMALLEST = 2.0**-126
"""The smallest normal float32; smaller numbers lose digits or are flushed to zero."""
WIDEST_ROW = 1 << 20
"""Maximum number of features for which the bounds hold: three times `gamma` stays well below 1, and `FLOOR` exceeds
what is lost to underflow."""

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
LENGTH_UNITS = 8.0
"""Error of a distance, in units of the point's length plus the distance: shifting the point and its reference (2 and
1), a difference and a square (2), with a safety margin."""
PICK_UNITS = 4.0
"""Error of a priority scaled by the pick's weight: the rounding of the priority and of its limit (1 each), doubled."""

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
    """`product_slack` in float64. It includes the rounding of `exact_sq_distances`, which is of the same order here."""
    return product_slack(width + EXACT_ROUNDINGS, UNIT64)


def projection_slack(width: int, d: int) -> float:
    """`product_slack` for points sketched to ``width`` coordinates, which may increase their distance.

    Each coordinate of a sketch is off by at most `gamma` times the length of its point, and all together by sqrt(width)
    times that; relative to |x|² + |y|², this counts four times. Directions rounded to float32 are too long by at most
    3·sqrt(width) units, for which two of the eight units added to d suffice.
    """
    error = np.sqrt(width) * gamma(d + 8)
    return float(product_slack(width) * (1.0 + 4.0 * error) + 4.0 * error + 2.0 * error * error)


def scale_for(largest: float) -> float:
    """A power of two that scales differences of numbers up to ``largest`` to about 1 without rounding them.

    At most 2**440 for tiny numbers, so that `FLOOR` exceeds `SMALLEST` in their units.

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
