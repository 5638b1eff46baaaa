"""What rounding is worth: the constants that every bound of the engines is built from, each with where it comes from.

Bounds have to hold against the reference's own number, `dubito.distances.settle`, for whatever order a machine adds in.
Written down in full in ``docs/explanation/engine.md`` (The bounds); the tests drive each to its edge against fractions.

Assumed of the machine: float32 and float64 round to nearest, reading and subtracting keep numbers below the normal ones
(gradual underflow), and matrix products add in any order, fused or not, and may flush such numbers to zero.
"""

import numpy as np
import numpy.typing as npt

from dubito.distances import UNIT64
from dubito.matrix import FloatArray

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
