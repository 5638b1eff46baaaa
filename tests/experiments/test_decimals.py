"""Numbers on pages read the same on every machine."""

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from dubito.experiments.statistics import Rounded


@given(st.integers(-(10**6), 10**6), st.integers(-20, 20))
def test_the_last_bits_of_a_sum_do_not_decide_which_way_a_half_goes(thousandths: int, ulps: int) -> None:
    exact = thousandths / 1000
    moved = exact
    for _ in range(abs(ulps)):
        moved = float(np.nextafter(moved, np.inf if ulps > 0 else -np.inf))
    if exact:  # About 0 the last bits would only decide the sign of nothing.
        assert f"{Rounded(moved):+.2f}" == f"{Rounded(exact):+.2f}"


@given(st.integers(-(10**6), 10**6))
def test_what_is_no_half_is_rounded_as_ever(thousandths: int) -> None:
    if thousandths % 10 != 5:
        assert f"{Rounded(thousandths / 1000):,.2f}" == f"{thousandths / 1000:,.2f}"


def test_halves_go_away_from_zero() -> None:
    assert [f"{Rounded(each):.2f}" for each in (0.985, 0.975, -0.985)] == ["0.99", "0.98", "-0.99"]


def test_what_is_no_finite_number_reads_as_it_does() -> None:
    assert f"{Rounded('nan'):+.1f} {Rounded('-inf'):.0f}" == "+nan -inf"
