"""The statistics of a comparison, fixed before anything is run.

The primary endpoint is the area under the learning curve, per seed, which reads as the mean accuracy between the first
and the last number of labels. Seeds are pairs: strategies share, seed by seed, the first labels and weights, so all
tests are on differences within a seed. Intervals cover 95%.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from decimal import ROUND_HALF_UP, Decimal, localcontext
from math import ceil, inf, isfinite, isnan, nan, sqrt

import numpy as np
import numpy.typing as npt

from dubito.errors import InvalidArgument
from dubito.experiments.records import Curve
from dubito.matrix import FloatArray, IntArray

# Numbers as pages and reports show them, the same on every machine.

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


# What pairs of numbers show: intervals, tests, corrections and power. Intervals cover 95%.

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
    # scipy.stats.wilcoxon gives the same p without ties and zeros, but is not exact with them: 338 of 600 samples with
    # rounded differences had another p (SciPy 1.17). Loading scipy.stats takes 1.7 s more than scipy.special.
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
    >>> result = variance_ratio([1.0, 5.0, 2.0, 4.0], [1.1, 2.0, 1.2, 1.7])
    >>> round(result.estimate, 2), result.low < result.estimate < result.high
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


FEWEST_FOR_BOOTSTRAP = 5
"""Seeds below which labels saved have no interval: a bootstrap over so few would be far too narrow."""
FEWEST_FOR_VARIANCE = 10
"""Seeds below which nothing is said about variance."""


@dataclass(frozen=True, slots=True)
class Comparison:
    """A strategy's area under the learning curve against another's, seed by seed."""

    name: str
    baseline: str
    seeds: int
    difference: Interval
    """In accuracy; above 0 is in favor of ``name``."""
    p: float
    """Two-sided paired t test."""
    p_holm: float
    """The same after Holm's correction over all strategies held against this baseline."""
    p_wilcoxon: float
    """Two-sided, exact; it cannot be under `wilcoxon_floor`."""
    detectable: float
    """The smallest difference that these seeds would show with 80% power, given their spread."""
    variance_ratio: Interval | None
    """Variance over the baseline's; None below 10 seeds."""

    @property
    def is_better(self) -> bool:
        """Whether the difference is in favor of ``name`` and significant after Holm's correction."""
        return self.p_holm < 1.0 - LEVEL and self.difference.estimate > 0.0

    @property
    def is_worse(self) -> bool:
        """Whether the difference is against ``name`` and significant after Holm's correction."""
        return self.p_holm < 1.0 - LEVEL and self.difference.estimate < 0.0

    def as_dict(self) -> dict[str, object]:
        numbers = {key: finite(getattr(self, key)) for key in ("p", "p_holm", "p_wilcoxon", "detectable")}
        ratio = None if self.variance_ratio is None else self.variance_ratio.as_dict()
        record = {"strategy": self.name, "baseline": self.baseline, "seeds": self.seeds, **numbers}
        return {**record, "difference": self.difference.as_dict(), "variance_ratio": ratio}


def area(curve: Curve) -> FloatArray:
    """(seeds,) area under each learning curve by the trapezoidal rule, divided by its width: a mean accuracy.

    Examples
    --------
    >>> area(Curve("random", np.array([10, 20, 40]), np.array([[0.5, 0.7, 0.7]]))).round(4).tolist()
    [0.6667]
    """
    width = np.diff(curve.labels)
    if not len(width):
        return np.asarray(curve.accuracy[:, 0])
    middles = (curve.accuracy[:, 1:] + curve.accuracy[:, :-1]) / 2.0
    return np.asarray(middles @ width / width.sum())


def compare(curves: Sequence[Curve], baseline: str, alike: Sequence[Sequence[str]] = ()) -> tuple[Comparison, ...]:
    """Every other strategy's area against the baseline's, with Holm's correction over them.

    Strategies that ``alike`` names together are one test: the correction counts them once.

    Examples
    --------
    >>> labels = np.array([10, 20])
    >>> slow = Curve("random", labels, np.array([[0.5, 0.6], [0.5, 0.7], [0.4, 0.6]]))
    >>> fast = Curve("coreset", labels, np.array([[0.5, 0.8], [0.5, 0.9], [0.4, 0.82]]))
    >>> (gain,) = compare([slow, fast], "random")
    >>> round(gain.difference.estimate, 4), gain.is_better
    (0.1033, True)
    """
    by_name = {curve.name: curve for curve in curves}
    if baseline not in by_name:
        raise InvalidArgument(
            "was not run", argument="baseline", value=baseline, hint=f"choose from {', '.join(by_name)}."
        )
    reference, others = area(by_name[baseline]), [curve for curve in curves if curve.name != baseline]
    tests = [paired_test(area(curve) - reference) for curve in others]
    corrected = _holm_once({curve.name: p for curve, (_, p) in zip(others, tests, strict=True)}, alike)
    return tuple(
        Comparison(
            curve.name,
            baseline,
            len(reference),
            interval,
            p,
            corrected[curve.name],
            wilcoxon(area(curve) - reference),
            smallest_detectable(area(curve) - reference),
            variance_ratio(area(curve), reference) if len(reference) >= FEWEST_FOR_VARIANCE else None,
        )
        for curve, (interval, p) in zip(others, tests, strict=True)
    )


def _holm_once(p_values: Mapping[str, float], alike: Sequence[Sequence[str]]) -> dict[str, float]:
    """Holm's correction by name, in which names that stand together are one test."""
    first = {name: names[0] for names in alike for name in names}
    counted = {first.get(name, name): p for name, p in p_values.items()}
    corrected = dict(zip(counted, holm(list(counted.values())).tolist(), strict=True))
    return {name: corrected[first.get(name, name)] for name in p_values}


def penalties(curves: Sequence[Curve]) -> FloatArray:
    """(k, k) who beats whom: the share of label counts at which the row's accuracy is significantly above the column's.

    As the pairwise matrix of BADGE's paper: a paired two-sided t test at 95% for each number of labels, uncorrected.
    The first count is left out, where all strategies are equal. A column's mean is how often others beat it.

    Examples
    --------
    >>> labels = np.array([10, 20])
    >>> slow = Curve("random", labels, np.array([[0.5, 0.6], [0.5, 0.7], [0.4, 0.6]]))
    >>> fast = Curve("coreset", labels, np.array([[0.5, 0.8], [0.5, 0.9], [0.4, 0.82]]))
    >>> penalties([slow, fast]).tolist()
    [[0.0, 0.0], [1.0, 0.0]]
    """
    result = np.zeros((len(curves), len(curves)))
    for i, ours in enumerate(curves):
        for j, theirs in enumerate(curves):
            gains = (ours.accuracy - theirs.accuracy)[:, 1:].T
            won = [p < 1.0 - LEVEL and gain.estimate > 0.0 for gain, p in map(paired_test, gains)]
            result[i, j] = np.mean(won) if won else 0.0
    return result


def seeds_note(seeds: int) -> str:
    """What so many seeds can and cannot show, in a sentence.

    Examples
    --------
    >>> seeds_note(5)
    '5 seeds: a two-sided Wilcoxon test cannot go under p = 0.0625, and nothing is said about variance below 10.'
    """
    if seeds < 2:
        return "1 seed: there is no spread to tell chance by; run at least 5, better 10."
    floor = wilcoxon_floor(seeds)
    parts = [f"{seeds} seeds: a two-sided Wilcoxon test cannot go under p = {floor:.4g}"] if floor > 1 - LEVEL else []
    if seeds < FEWEST_FOR_VARIANCE:
        about = f"nothing is said about variance below {FEWEST_FOR_VARIANCE}"
        return f"{parts[0]}, and {about}." if parts else f"{seeds} seeds: {about}."
    return f"{seeds} seeds: enough for the Wilcoxon test, and for intervals on variance."


@dataclass(frozen=True, slots=True)
class Saving:
    """How much sooner a strategy reaches what the baseline learns."""

    name: str
    baseline: str
    accuracy: float
    """The accuracy compared at: the baseline's in the end, once its curve is made non-decreasing."""
    needed: float
    """Labels the strategy needs for it; infinite where it never gets there."""
    baseline_needed: float
    """Labels the baseline needs for it: fewer than its last where it gains nothing more from some round on."""
    saved: Interval
    """Labels spared, with a bootstrap interval over seeds (NaN below 5); minus infinity for "never got there"."""

    def as_dict(self) -> dict[str, object]:
        """As JSON holds it; null where a strategy never got there."""
        record = {"strategy": self.name, "baseline": self.baseline, "accuracy": self.accuracy}
        reached = {"labels": finite(self.needed), "baseline_labels": finite(self.baseline_needed)}
        return {**record, **reached, "saved": self.saved.as_dict()}


def savings(curves: Sequence[Curve], baseline: str, *, draws: int = 2000, seed: int = 0) -> tuple[Saving, ...]:
    """Labels saved at equal accuracy: how much sooner each strategy reaches what the baseline learns in the end.

    Mean curves are made non-decreasing first (isotonic regression), as noise lets a curve dip and touch an accuracy
    early by luck: where one falls, the rounds around are averaged. Straight lines join the trainings. The bootstrap
    draws seeds, whole pairs, with replacement; below 5 seeds there is none.

    Examples
    --------
    >>> labels = np.array([10, 20, 30])
    >>> slow = Curve("random", labels, np.array([[0.5, 0.6, 0.7], [0.5, 0.6, 0.7]]))
    >>> fast = Curve("coreset", labels, np.array([[0.5, 0.7, 0.8], [0.5, 0.7, 0.8]]))
    >>> (saving,) = savings([slow, fast], "random")
    >>> saving.needed, saving.baseline_needed, saving.saved.estimate
    (20.0, 30.0, 10.0)
    """
    reference = next(curve for curve in curves if curve.name == baseline)
    seeds, rng = len(reference.accuracy), np.random.default_rng(seed)
    draws = draws if seeds >= FEWEST_FOR_BOOTSTRAP else 0
    drawn = rng.integers(seeds, size=(draws, seeds))
    return tuple(_saving(curve, reference, drawn) for curve in curves if curve.name != baseline)


def _saving(curve: Curve, reference: Curve, drawn: IntArray) -> Saving:
    accuracy, needed, baseline_needed = _race(curve.mean, reference.mean, reference.labels)
    _, fast, slow = _race(curve.accuracy[drawn].mean(axis=1), reference.accuracy[drawn].mean(axis=1), reference.labels)
    tail = (1.0 - LEVEL) / 2.0
    # Without interpolation, as some draws may lie at minus infinity.
    ends = np.quantile(slow - fast, [tail, 1.0 - tail], method="inverted_cdf") if len(drawn) else (nan, nan)
    saved = Interval(float(baseline_needed - needed), float(ends[0]), float(ends[1]))
    return Saving(curve.name, reference.name, float(accuracy), float(needed), float(baseline_needed), saved)


def _race(mean: FloatArray, baseline: FloatArray, labels: IntArray) -> tuple[FloatArray, FloatArray, FloatArray]:
    """The baseline's accuracy in the end, and the labels that either needs for it; along the last axis."""
    ours, theirs = non_decreasing(mean), non_decreasing(baseline)
    goal = theirs[..., -1]
    return goal, labels_to_reach(ours, labels, goal), labels_to_reach(theirs, labels, goal)


def non_decreasing(values: FloatArray) -> FloatArray:
    """The nearest sequence that never falls, in least squares, along the last axis: what falls is averaged.

    By the minimax formula of isotonic regression: the largest, over starts up to a place, of the smallest, over ends
    from it on, of the mean between them. O(r²) for r values.

    Examples
    --------
    >>> non_decreasing(np.array([0.5, 0.7, 0.6, 0.8])).round(3).tolist()
    [0.5, 0.65, 0.65, 0.8]
    """
    # All draws of the bootstrap at once: 2,000 curves of 20 values take 9 ms, one by one 20 ms with
    # scipy.optimize.isotonic_regression and 550 ms with scikit-learn's, with other last bits.
    result, n = np.full(values.shape, -inf), values.shape[-1]
    for start in range(n):
        means = np.cumsum(values[..., start:], axis=-1) / np.arange(1, n - start + 1)
        lowest = np.minimum.accumulate(means[..., ::-1], axis=-1)[..., ::-1]
        result[..., start:] = np.maximum(result[..., start:], lowest)
    return result


def labels_to_reach(accuracy: FloatArray, labels: IntArray, target: npt.ArrayLike) -> FloatArray:
    """Labels at which curves (..., r) that never fall reach their targets (...); infinite where one never does.

    Examples
    --------
    >>> labels_to_reach(np.array([[0.5, 0.6, 0.8], [0.7, 0.7, 0.9]]), np.array([10, 20, 30]), [0.7, 0.95]).round(6)
    array([25., inf])
    """
    goal = np.asarray(target, dtype=np.float64)
    # A hair of slack: a mean of means may miss its own value by rounding.
    reached = accuracy >= goal[..., None] - 1e-12
    at = reached.argmax(axis=-1)
    before = np.maximum(at - 1, 0)
    low, high = (np.take_along_axis(accuracy, place[..., None], axis=-1)[..., 0] for place in (before, at))
    rise = np.where(high > low, high - low, 1.0)
    found = labels[before] + np.clip((goal - low) / rise, 0.0, 1.0) * (labels[at] - labels[before])
    return np.asarray(np.where(reached.any(axis=-1), found, inf))
