"""Upper bounds on every candidate's priority, the references they have seen, and who is first by them."""

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
"""Where fewer candidates than so many fronts are to be brought up to date, as many again go with them."""
AHEAD, LEAST_AHEAD = 1.7, 256
"""Fronts that go with them at least."""
SPARE = 0.8
"""The share of the threshold under which a candidate is left unfinished."""
MANY = 8
"""How many times as many as are wanted make it worth while to look at a sample first."""
SAMPLED = 64
"""Of so many, one is in the sample."""
TOP_FRONTS = 5
"""Times as many as are asked for that are looked through between passes over the pool."""
ALONE = 1 << 16
"""Fewer bounds are quicker gone through by one thread."""
NONE = np.empty(0, dtype=np.int64)


class Bounds:
    """What the lazy algorithm knows of each candidate of this process: O(n) numbers, and a machine's kernels.

    ``bound`` is an upper bound on the squared priority, -1 once picked. It is exact where every reference is ``seen``;
    otherwise it is exact for those seen, or the nearest reference is among those not seen.

    It is a `Frontier`.
    """

    def __init__(self, problem: Problem, kernels: Kernels) -> None:
        self.problem, self.kernels = problem, kernels
        self.bound: FloatArray = np.empty(0)
        self.seen: AnyArray = np.empty(0, dtype=np.int32)
        self.n_references = len_of(problem.references)
        self._top, self._rest = np.empty(0, dtype=np.int64), Threshold(np.inf, 0)

    @property
    def front_rows(self) -> int:
        """As the kernels have it."""
        return self.kernels.front_rows

    @property
    def is_cold(self) -> bool:
        """Whether nothing is labelled."""
        return len_of(self.problem.references) == 0

    def cold_order(self, n_wanted: int) -> IntArray:
        """See `dubito.core.reference.cold_order`."""
        return cold_order(self.problem)[:n_wanted]

    def open(self, first: IntArray) -> None:
        """Bounds by what is labelled and by these picks."""
        self.kernels.add_references(first)
        self.bound, self.seen = self.kernels.first_bounds()
        self.n_references += len(first)
        self.bound[first] = -1.0

    def open_apart(self, first: IntArray) -> None:
        """Bounds by the farthest of these."""
        self.bound = self.kernels.farthest_bounds(first)
        self.seen = np.zeros(len(self.bound), dtype=np.int32)

    def fresh(self, size: int, own: IntArray) -> Fresh:
        """Refreshed until the first in order, and these others, are up to date."""
        self.refresh(own, needed=0.0)
        while True:
            rows, threshold = self.first(size)
            if not self.refresh_first(rows, threshold):
                rows = np.union1d(rows, own) if len(own) else rows
                return Fresh(rows, self.bound[rows], threshold)

    def front(self, rows: IntArray) -> Front:
        """As the kernels have it."""
        return self.kernels.front(rows)

    def close(self, rows: IntArray, values: FloatArray, picks: IntArray) -> None:
        """Write bounds back; picks become references."""
        self.bound[rows] = values
        self.kernels.add_references(picks)
        self.n_references += len(picks)
        self.bound[picks] = -1.0

    def drop(self, rows: IntArray) -> None:
        """They count as picked."""
        self.bound[rows] = -1.0

    def zeros(self, n_wanted: int | None) -> IntArray:
        """Candidates that are left, whatever is known of them: a shard made anew may not know yet that they are 0."""
        return np.flatnonzero(self.bound >= 0.0)[:n_wanted]

    def largest(self) -> float:
        """The largest bound."""
        return float(self.bound.max())

    def scores(self, rows: IntArray) -> IntArray:
        """Fixed-point doubt; 0 where there is no beam."""
        scores = self.problem.scores
        return np.zeros(len(rows), dtype=np.int64) if scores is None else scores[self.problem.candidates[rows]]

    def configuration(self, rows: IntArray, squared: FloatArray, radius: float) -> Configuration:
        """In the pool's own row numbers."""
        return finished(self.problem, self.problem.candidates[rows], squared, radius)

    def first(self, size: int) -> tuple[IntArray, Threshold]:
        """The first candidates in order, ascending by index, and what comes next.

        Bounds only fall, so what was first of all among many times as many is first of all while it comes before the
        rest: the whole pool is looked through now and then.
        """
        found = self._first_of_top(size)
        if found is None:
            self._top, self._rest = first_in_order(self.bound, TOP_FRONTS * size)
            found = self._first_of_top(size)
        return found or first_in_order(self.bound, size)

    def _first_of_top(self, size: int) -> tuple[IntArray, Threshold] | None:
        """The first among those that once came first; None where others may come before one of them."""
        rows, after = first_in_order(self.bound, size, self._top)
        if self._rest.row < 0 or self._rest.admits(after.value, after.row):
            return rows, after
        last = float(self.bound[rows].min(initial=np.inf))
        if after.row < 0 or not self._rest.admits(last, int(rows[self.bound[rows] == last].max())):
            return None
        return rows, self._rest

    def refresh_first(self, rows: IntArray, threshold: Threshold) -> bool:
        """Bring the first candidates in order up to date, or under the threshold; False where they all were."""
        n_stale, size = int(np.count_nonzero(self._is_stale(rows))), len(rows)
        n_most, n_ahead = max(LEAST_LOOK, int(LOOK_AHEAD * size)), max(LEAST_AHEAD, int(AHEAD * size))
        if 0 < n_stale < n_most:
            # A few take nearly as long as many, and those that fall make room for others.
            rows, threshold = self.first(size + min(max(n_stale, n_ahead), n_most - n_stale))
        # One that falls just under the threshold will be wanted soon.
        return self.refresh(rows, SPARE * threshold.value)

    def _is_stale(self, rows: IntArray) -> BoolArray:
        return (self.seen[rows] < self.n_references) & (self.bound[rows] > 0.0)

    def refresh(self, rows: IntArray, needed: float) -> bool:
        """Bring candidates up to date, or under ``needed``; False where they all were."""
        stale = rows[self._is_stale(rows)]
        if len(stale):
            # What fell under the rest will not come before it again.
            self._top = self._top[self.bound[self._top] >= self._rest.value]
            self.bound[stale], is_fresh = self.kernels.refresh(stale, self.bound[stale], self.seen[stale], needed)
            self.seen[stale[is_fresh]] = self.n_references
        return len(stale) > 0


def first_in_order(bound: FloatArray, size: int, among: IntArray | None = None) -> tuple[IntArray, Threshold]:
    """The first candidates by (bound, largest first; index, lowest first), ascending, and what comes next.

    ``among``: of these alone, which ascend. An arbitrary choice of equal bounds could pick wrongly, or never advance.

    Examples
    --------
    >>> rows, threshold = first_in_order(np.array([2.0, 5.0, 2.0, -1.0]), 2)
    >>> rows.tolist(), threshold
    ([0, 1], Threshold(value=2.0, row=2))
    """
    if compiled.steps is not None:
        return _first_in_c(compiled.steps, bound, size, among)
    if among is None:
        return _first_of_all(bound, size)
    places, after = _first_of_all(bound[among], size)
    return among[places], after if after.row < 0 else Threshold(after.value, int(among[after.row]))


def _first_in_c(
    steps: compiled.CompiledSteps, bound: FloatArray, size: int, among: IntArray | None
) -> tuple[IntArray, Threshold]:
    some, workers = NONE if among is None else among, 1 if among is not None or len(bound) < ALONE else n_threads()
    rows = np.empty(min(size, len(bound)), dtype=np.int64)
    arrays = (bound, some, rows)
    n_found, value, row = steps.first_in_order(arrays, len(bound), len(some), len(rows), among is not None, workers)
    return rows[:n_found], Threshold(value, row)


def _first_of_all(bound: FloatArray, size: int) -> tuple[IntArray, Threshold]:
    if len(bound) > MANY * max(size, SAMPLED * SAMPLED):
        rows = np.flatnonzero(bound > _level_of(bound, 2 * size + MANY * SAMPLED))
        if size < len(rows) < len(bound):
            places, after = _first_of_all(bound[rows], size)
            return rows[places], Threshold(after.value, int(rows[after.row]))
    place = len(bound) - size
    if place <= 0:
        return np.flatnonzero(bound >= 0.0), Threshold(-1.0, -1)
    # The largest of the rest afterwards: one place is found several times as fast as two.
    parted = np.partition(bound, min(place, len(bound) - 1))
    last, outside = (np.inf if size == 0 else float(parted[place])), float(parted[:place].max())
    if outside < 0.0:
        return np.flatnonzero(bound >= 0.0), Threshold(-1.0, -1)
    rows = np.flatnonzero(bound >= last)
    if len(rows) > size:
        # Some of those that are level with the last stay outside.
        level = rows[bound[rows] == last]
        n_level = size - (len(rows) - len(level))
        rows = rows[(bound[rows] > last) | (rows < level[n_level])]
        return rows, Threshold(last, int(level[n_level]))
    return rows, Threshold(outside, int(np.argmax(bound == outside)))


def _level_of(bound: FloatArray, n_above: int) -> float:
    """A level of at least 0 that about so many are above, by a sample."""
    sample = bound[::SAMPLED]
    place = max(0, len(sample) - 1 - n_above // SAMPLED)
    return max(0.0, float(np.partition(sample, place)[place]))


# What rounding is worth: the constants that every bound of the engines is built from, each with where it comes from.
#
# Bounds must hold against the reference's number, `dubito.core.distances.settle`, for whatever order a machine adds
# in. Written down in full in ``docs/explanation/engine.md`` (The bounds); the tests drive each to its edge against
# fractions.
#
# Assumed of the machine: float32 and float64 round to nearest, reading and subtracting keep numbers below the normal
# ones (gradual underflow), and matrix products add in any order, fused or not, and may flush such numbers to zero.

Float32Array = npt.NDArray[np.float32]

UNIT = 2.0**-24
"""Largest relative rounding error of float32."""
FLOAT32_LARGEST = 1e37
"""Differences of magnitudes up to this are numbers of float32; larger ones are shifted in float64."""
FLOAT32_SMALLEST = 2.0**-126
"""float32 numbers below this have lost digits, or are flushed to zero."""
WIDEST_ROW = 1 << 20
"""Features up to which the bounds hold: three times their `gamma` stays well below 1, and `FLOOR` above underflow."""

FLOOR = 1e-30
"""More than all that products lose to underflow, in scaled units: 4·d·`FLOAT32_SMALLEST`, for any d that is allowed."""
FLOOR_LENGTH = 1e-15
"""The same of a length: the root of `FLOOR`."""
BEYOND = 1e30
"""In scaled units no two points are as far apart."""

ROUND_UP, ROUND_DOWN = 1.0 + 2.0**-30, 1.0 - 2.0**-30
"""Room for millions of roundings of float64: those of `settle` (log2(d) + 3), and a few in the bound itself."""
SMALLEST = 2.0**-1040
"""More than `settle` can lose to underflow of float64, d·2**-1075, and than a product with a weight loses after it."""

SHIFT_UNITS, SUM_UNITS, COMPARE_UNITS = 5.0, 6.0, 5.0
"""Of |x|² + |y|²: what shifting two points in float32 is worth, adding three terms, and rounding what they are compared
with. See `product_slack`."""
REACH_UNITS = 8.0
"""Of a point's length and its distance: what shifting it and its reference moves a length by (2 and 1), what a
difference and a square add (2), and as much again."""
PICK_UNITS = 4.0
"""Of a priority scaled by the pick's weight: its own rounding and its limit's (1 each), and as much again."""

SETTLE_ROUNDINGS = 16
"""Columns, at 3 units each, whose rounding is more than that of `settle`: twice log2(d) + 3 of |x|² + |y|² at most."""

MEDIAN_ROWS = 128
"""Points whose middle is the centre that all are shifted by."""


def gamma(n_roundings: int, unit: float = UNIT) -> float:
    """Bound on the relative error of a sum of products whose terms are rounded so many times, in any order.

    In float32, or in what rounds by another ``unit``.

    Examples
    --------
    >>> gamma(512) / (512 * UNIT) < 1.0001
    True
    """
    error = n_roundings * unit
    return error / (1.0 - error)


def product_slack(width: int, unit: float = UNIT) -> float:
    """Bound on the error of ``|x|² + |y|² - 2·x·y`` in float32, as a share of the squared lengths as they were added.

    The same in what rounds by another ``unit``.

    Three sums: the two lengths and the product, and where |y|² rides along as one more column it is rounded in both.
    Each is off by at most `gamma` of its terms' magnitudes. The rest is rounded once or twice, whatever the width.
    """
    sums = 3.0 * gamma(width + 1, unit)
    return (sums + (SHIFT_UNITS + SUM_UNITS + COMPARE_UNITS) * unit) / (1.0 - sums)


def front_slack(width: int) -> float:
    """The same in float64, against `settle` as it is: that rounds, too, and here no less than products do."""
    return product_slack(width + SETTLE_ROUNDINGS, UNIT64)


def projection_slack(width: int, d: int) -> float:
    """The same where x and y are sketched to ``width`` coordinates first: that may lengthen their distance.

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
    """|x|² of each row, added in float32; `product_slack` has room for that."""
    squared: Float32Array = np.einsum("ij,ij->i", rows, rows)
    return squared.astype(np.float64)
