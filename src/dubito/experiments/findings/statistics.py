"""The statistics of a comparison, fixed before anything is run.

The primary endpoint is the area under the learning curve, per seed, which reads as the mean accuracy between the first
and the last number of labels. Seeds are pairs: strategies share, seed by seed, the first labels and weights, so all
tests are on differences within a seed. Intervals cover 95%.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from math import inf, nan

import numpy as np
import numpy.typing as npt

from dubito.errors import InvalidArgument
from dubito.experiments.findings.pairs import (
    LEVEL,
    Interval,
    finite,
    holm,
    paired_test,
    smallest_detectable,
    variance_ratio,
    wilcoxon,
    wilcoxon_floor,
)
from dubito.experiments.records import Curve
from dubito.matrix import FloatArray, IntArray

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
    """In accuracy; above 0 is in favour of ``name``."""
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
        """Whether the difference is in favour of ``name`` and significant after Holm's correction."""
        return self.p_holm < 1.0 - LEVEL and self.difference.estimate > 0.0

    @property
    def is_worse(self) -> bool:
        """Whether the difference is against ``name`` and significant after Holm's correction."""
        return self.p_holm < 1.0 - LEVEL and self.difference.estimate < 0.0

    def as_dict(self) -> dict[str, object]:
        """As JSON holds it."""
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
            "was not run", argument="baseline", value=baseline, mend=f"choose from {', '.join(by_name)}."
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
