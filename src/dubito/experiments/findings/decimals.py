"""Numbers as pages and reports show them, the same on every machine."""

from decimal import ROUND_HALF_UP, Decimal, localcontext
from math import isfinite

KEPT = 9
"""Decimals that count: what lies beyond is the rounding of sums, which differs between processors."""


class Steady(float):
    """A number whose decimals, once formatted, do not hang on its last bit; halves go away from zero.

    Sums that were added in another order differ in their last bit, and a plain number would let that bit decide
    whether 0.985 reads 0.98 or 0.99.

    Examples
    --------
    >>> exact, below = 0.985, 0.98499999999999
    >>> f"{Steady(exact):.2f} {Steady(below):.2f}, and not {below:.2f}"
    '0.99 0.99, and not 0.98'
    >>> f"{Steady(-0.12345):+.1%} {Steady(1234.5):,.0f} {Steady('inf'):.1f}"
    '-12.3% 1,235 inf'
    """

    __slots__ = ()

    def __format__(self, spec: str) -> str:
        plain = round(float(self), KEPT)
        if not isfinite(plain):
            return format(plain, spec)
        with localcontext(rounding=ROUND_HALF_UP):
            return format(Decimal(repr(plain)), spec)
