"""What pairs of numbers show: intervals, tests, corrections and power. Intervals cover 95%."""

from collections.abc import Sequence
from dataclasses import dataclass
from math import ceil, isnan, nan, sqrt

import numpy as np
import numpy.typing as npt

from dubito.experiments.findings.decimals import Steady
from dubito.matrix import FloatArray

LEVEL = 0.95
"""Intervals cover this share; a p under 1 - LEVEL is called significant."""
POWER = 0.8
"""With this probability a difference is found that is as large as `smallest_detectable` says."""


@dataclass(frozen=True, slots=True)
class Interval:
    """An estimate and its 95% interval; the ends are NaN where there are too few seeds to tell."""

    estimate: float
    low: float
    high: float

    def as_dict(self) -> dict[str, float | None]:
        """As JSON holds it: what is not a finite number is null."""
        return {name: finite(getattr(self, name)) for name in ("estimate", "low", "high")}


def finite(value: float) -> float | None:
    """The number, or None where JSON has none."""
    return float(value) if np.isfinite(value) else None


def paired_test(differences: npt.ArrayLike) -> tuple[Interval, float]:
    """Mean of paired differences with its t interval, and the p of the two-sided t test.

    One pair has no interval, nor have pairs that all differ by the same: without spread there is nothing to judge by.
    Then p is unknown (NaN), or 1 where there is no difference at all.

    Examples
    --------
    >>> interval, p = paired_test([1.0, 2.0, 3.0])
    >>> round(interval.low, 3), round(interval.high, 3), round(p, 3)
    (-0.484, 4.484, 0.074)
    """
    from scipy.special import stdtr, stdtrit  # Of scipy.stats these are all we need, and they load ten times sooner.

    array = np.asarray(differences, dtype=np.float64)
    mean, n = float(array.mean()), len(array)
    if n < 2:
        return Interval(mean, nan, nan), nan
    error = _standard_error(array)
    if error == 0.0:
        return Interval(mean, nan, nan), 1.0 if mean == 0.0 else nan
    half = float(stdtrit(n - 1, (1.0 + LEVEL) / 2.0)) * error
    return Interval(mean, mean - half, mean + half), float(2.0 * stdtr(n - 1, -abs(mean) / error))


def _standard_error(differences: FloatArray) -> float:
    """Of the mean; differences that are equal but for rounding have none."""
    spread = float(differences.std(ddof=1))
    return 0.0 if spread <= 1e-12 * float(np.abs(differences).max()) else spread / sqrt(len(differences))


def holm(p_values: Sequence[float]) -> FloatArray:
    """Holm's step-down correction: each p as large as it must be for all to hold together. NaN stays, uncounted.

    Examples
    --------
    >>> holm([0.01, 0.04, 0.03]).tolist()
    [0.03, 0.06, 0.06]
    """
    array = np.asarray(p_values, dtype=np.float64)
    tested = np.flatnonzero(~np.isnan(array))
    order = tested[np.argsort(array[tested], kind="stable")]
    factors = np.arange(len(order), 0, -1)
    corrected = array.copy()
    corrected[order] = np.minimum(1.0, np.maximum.accumulate(array[order] * factors))
    return corrected


def wilcoxon(differences: npt.ArrayLike) -> float:
    """Exact two-sided p of Wilcoxon's signed-rank test; zeros are dropped, ties share their mean rank.

    Examples
    --------
    >>> wilcoxon([0.1, 0.2, 0.3, 0.4, 0.5])
    0.0625
    """
    array = np.asarray(differences, dtype=np.float64)
    array = array[array != 0.0]
    if not len(array):
        return 1.0
    # Twice the mean rank is whole: below and up to each size.
    sizes = np.abs(array)
    ranks = (sizes[:, None] > sizes).sum(axis=1) + (sizes[:, None] >= sizes).sum(axis=1) + 1
    ways = np.ones(1)  # By how many of the 2^n signs each sum of positive ranks comes about, as a share.
    for rank in ranks:
        ways = (np.pad(ways, (0, rank)) + np.pad(ways, (rank, 0))) / 2.0
    seen = int(ranks[array > 0.0].sum())
    return float(min(1.0, 2.0 * min(ways[: seen + 1].sum(), ways[seen:].sum())))


def wilcoxon_floor(seeds: int) -> float:
    """The smallest two-sided p that so many seeds can give; 5 seeds cannot be under 0.05.

    Examples
    --------
    >>> wilcoxon_floor(5), wilcoxon_floor(10)
    (0.0625, 0.001953125)
    """
    return float(min(1.0, 2.0 ** (1 - seeds)))


def smallest_detectable(differences: npt.ArrayLike) -> float:
    """The true difference that a t test on so many pairs of this spread would find with 80% power.

    It says what an experiment without a finding may have missed. NaN for a single pair, and for pairs without spread.

    Examples
    --------
    >>> round(smallest_detectable([0.01, 0.03, 0.02, 0.02, 0.02]), 4)
    0.0119
    """
    from scipy.special import nctdtrinc, stdtrit

    array = np.asarray(differences, dtype=np.float64)
    n = len(array)
    error = _standard_error(array) if n > 1 else 0.0
    if error == 0.0:
        return nan
    critical = stdtrit(n - 1, (1.0 + LEVEL) / 2.0)
    # The shift, in standard errors, at which Student's t exceeds its critical value with that probability.
    return float(nctdtrinc(n - 1, 1.0 - POWER, critical)) * error


def variance_ratio(ours: npt.ArrayLike, theirs: npt.ArrayLike) -> Interval:
    """Variance of paired samples, one over the other, with the interval of Pitman and Morgan.

    Unlike the F test it allows for the correlation that pairs have. The interval holds every ratio at which scaled
    sums and differences of the pairs are uncorrelated by a t test on n - 2 degrees of freedom.

    Examples
    --------
    >>> told = variance_ratio([1.0, 5.0, 2.0, 4.0], [1.1, 2.0, 1.2, 1.7])
    >>> round(told.estimate, 2), told.low < told.estimate < told.high
    (18.52, True)
    """
    from scipy.special import stdtrit

    ours, theirs = np.asarray(ours, np.float64), np.asarray(theirs, np.float64)
    mine, other, n = float(ours.var(ddof=1)), float(theirs.var(ddof=1)), len(ours)
    if mine == 0.0 or other == 0.0 or n < 3:
        return Interval(mine / other if other else nan, nan, nan)
    correlation = float(np.corrcoef(ours, theirs)[0, 1])
    width = float(stdtrit(n - 2, (1.0 + LEVEL) / 2.0)) ** 2 / (n - 2)
    factor = 1.0 + 2.0 * (1.0 - correlation**2) * width
    spread = sqrt(max(factor**2 - 1.0, 0.0))
    return Interval(mine / other, mine / other * (factor - spread), mine / other * (factor + spread))


def shown_p(p: float) -> str:
    """A p as it reads in a table.

    Examples
    --------
    >>> shown_p(0.04321), shown_p(1e-9), shown_p(float("nan"))
    ('0.043', '< 0.0001', 'unknown')
    """
    if isnan(p):
        return "unknown"
    if p < 1e-4:
        return "< 0.0001"
    digits = max(2, 1 + ceil(-np.log10(p)))
    return f"{Steady(p):.{digits}f}"
