"""What an experiment showed: every statistic out of its records, and the finding in plain words."""

from collections.abc import Sequence
from dataclasses import dataclass
from math import isnan

import numpy as np

from dubito.errors import InvalidArgument
from dubito.experiments.findings.alike import alike
from dubito.experiments.findings.decimals import Steady
from dubito.experiments.findings.pairs import LEVEL, finite, shown_p
from dubito.experiments.findings.saved import told_saved
from dubito.experiments.findings.statistics import (
    Comparison,
    Saving,
    area,
    compare,
    labels_to_reach,
    non_decreasing,
    penalties,
    savings,
)
from dubito.experiments.records import Curve, Round, curves
from dubito.matrix import FloatArray

RANDOM, CORESET = "random", "coreset"
"""What others are held against; random is the baseline of every sentence."""
MOST_NAMED = 3
"""A sentence names at most so many strategies, and counts more."""
RISES = (0.5, 0.75, 0.9, 1.0)
"""Accuracies looked at by default: these shares of what random gains from its first labels to its last."""


@dataclass(frozen=True, slots=True, eq=False)
class Summary:
    """The statistics of an experiment, over the seeds and turns that all strategies have."""

    curves: tuple[Curve, ...]
    seeds: tuple[int, ...]
    against_random: tuple[Comparison, ...]
    against_coreset: tuple[Comparison, ...]
    """Empty where coreset was not run."""
    savings: tuple[Saving, ...]
    """Against random."""
    penalties: FloatArray
    """(k, k) in the order of the curves; see `dubito.experiments.findings.statistics.penalties`."""
    targets: tuple[float, ...]
    """Accuracies asked about."""
    needed: tuple[tuple[float, ...], ...]
    """For each curve the labels it needs for each target; infinite where it never gets there."""
    recall: tuple[FloatArray, ...]
    """For each curve (c,) the mean recall of each class after the last training; NaN where the test set lacks it."""
    select_seconds: tuple[float, ...]
    """For each curve the mean time of a selection."""
    train_seconds: tuple[float, ...]
    train_accuracy: float
    """Mean share of their own labels that the models have right after the last training, over all strategies."""
    left_out: int
    """Records of cells that not every strategy has finished: 0 for a whole experiment."""
    not_begun: tuple[str, ...] = ()
    """Strategies that are planned and have no record yet."""
    alike: tuple[tuple[str, ...], ...] = ()
    """Groups of strategies with the same picks throughout; each counts once in Holm's correction."""

    @property
    def names(self) -> tuple[str, ...]:
        """Strategies in the order they were run."""
        return tuple(curve.name for curve in self.curves)

    def as_dict(self) -> dict[str, object]:
        """As ``results.json`` holds it."""
        return {
            "schema": 1,
            "finding": finding(self),
            "seeds": list(self.seeds),
            "labels": self.curves[0].labels.tolist(),
            "strategies": [self._strategy(place) for place in range(len(self.curves))],
            "against_random": [each.as_dict() for each in self.against_random],
            "against_coreset": [each.as_dict() for each in self.against_coreset],
            "labels_saved": [each.as_dict() for each in self.savings],
            "penalties": self.penalties.tolist(),
            "targets": list(self.targets),
            "train_accuracy": self.train_accuracy,
            "records_left_out": self.left_out,
            "alike": [list(names) for names in self.alike],
            "strategies_not_begun": list(self.not_begun),
        }

    def _strategy(self, place: int) -> dict[str, object]:
        curve = self.curves[place]
        return {
            "strategy": curve.name,
            "accuracy": curve.accuracy.tolist(),
            "mean": curve.mean.tolist(),
            "standard_deviation": curve.spread.tolist(),
            "area": area(curve).tolist(),
            "labels_for_targets": [finite(labels) for labels in self.needed[place]],
            "recall": [finite(share) for share in self.recall[place]],
            "select_seconds": self.select_seconds[place],
            "train_seconds": self.train_seconds[place],
        }


def summarise(rounds: Sequence[Round], targets: Sequence[float] = (), planned: Sequence[str] = ()) -> Summary:
    """Every statistic of an experiment, also of one that is not finished.

    Parameters
    ----------
    rounds : sequence of Round
        What was recorded; random must be among the strategies.
    targets : sequence of float
        Accuracies between 0 and 1 to tell the labels for; by default some that random reaches.
    planned : sequence of str
        Names of all strategies of the experiment, to tell which of them are not begun.
    """
    kept = comparable(rounds)
    found = curves(kept)
    by_name = {curve.name: curve for curve in found}
    if RANDOM not in by_name:
        raise InvalidArgument(
            f"random is not among {', '.join(by_name)}", mend="run it, as all others are held against it."
        )
    asked = tuple(targets) or usual_targets(by_name[RANDOM])
    last, same = max(each.turn for each in kept), alike(kept)
    return Summary(
        curves=found,
        seeds=tuple(sorted({each.seed for each in kept})),
        against_random=compare(found, RANDOM, same),
        against_coreset=compare(found, CORESET, same) if CORESET in by_name else (),
        savings=savings(found, RANDOM),
        penalties=penalties(found),
        targets=asked,
        needed=tuple(_needed(curve, asked) for curve in found),
        recall=tuple(_recall([each for each in kept if (each.strategy, each.turn) == (n, last)]) for n in by_name),
        select_seconds=tuple(_mean([r.select_seconds for r in kept if r.strategy == n and r.picked]) for n in by_name),
        train_seconds=tuple(_mean([each.train_seconds for each in kept if each.strategy == n]) for n in by_name),
        train_accuracy=_mean([each.train_accuracy for each in kept if each.turn == last]),
        left_out=len(rounds) - len(kept),
        not_begun=tuple(name for name in planned if name not in by_name),
        alike=same,
    )


def comparable(rounds: Sequence[Round]) -> list[Round]:
    """The rounds of the seeds that every strategy finished; where there is none, of the turns that all have.

    Where no seed is whole, the turns are cut to the most that every strategy has under some seed.
    """
    strategies = {each.strategy for each in rounds}
    turns = {(each.strategy, each.seed): 0 for each in rounds}
    for each in rounds:
        turns[each.strategy, each.seed] += 1
    shared = {seed: min(turns.get((name, seed), 0) for name in strategies) for _, seed in turns}
    most = max(shared.values(), default=0)
    if most == 0:
        raise InvalidArgument("no seed was tried by every strategy yet", mend="resume the experiment first.")
    return [each for each in rounds if shared[each.seed] >= most and each.turn < most]


def usual_targets(random: Curve) -> tuple[float, ...]:
    """Accuracies that random reaches, rounded down to 0.1%; fewer where it hardly gains."""
    fitted = non_decreasing(random.mean)
    wanted = [fitted[0] + rise * (fitted[-1] - fitted[0]) for rise in RISES]
    return tuple(dict.fromkeys(float(np.floor(1000 * each + 1e-9) / 1000) for each in wanted))


def _needed(curve: Curve, targets: Sequence[float]) -> tuple[float, ...]:
    fitted = non_decreasing(curve.mean)
    return tuple(float(labels_to_reach(fitted, curve.labels, target)) for target in targets)


def _recall(last: Sequence[Round]) -> FloatArray:
    shares = np.array([[np.nan if share is None else share for share in each.recall] for each in last], np.float64)
    return np.asarray(shares.mean(axis=0))


def _mean(values: Sequence[float]) -> float:
    return float(np.mean(values)) if values else 0.0


def finding(summary: Summary) -> str:
    """The first sentence of every report: what beat random and by how much, or that nothing did."""
    if not summary.against_random:
        return "Only random was run, so there is nothing to compare."
    best = max(summary.against_random, key=lambda each: each.difference.estimate)
    if len(summary.seeds) < 2:
        return (
            f"One seed cannot tell a gain from chance: {best.name} is ahead of random by {points(best)}, "
            "and another seed may turn that around."
            if best.difference.estimate > 0
            else "One seed cannot tell a gain from chance, and nothing is ahead of random here."
        )
    better = [each for each in summary.against_random if each.is_better]
    if not better:
        return _nothing_found(best, summary)
    leader = max(better, key=lambda each: each.difference.estimate)
    others = [each.name for each in better if each is not leader]
    named = listed(others) if len(others) <= MOST_NAMED else f"{len(others)} other strategies"
    rest = f" {named} beat random, too." if others else ""
    saving = next(each for each in summary.savings if each.name == leader.name)
    return f"{leader.name} beat random: {gained(leader)}, and {told_saved(saving)}.{rest}"


def _nothing_found(best: Comparison, summary: Summary) -> str:
    worse = [each.name for each in summary.against_random if each.is_worse]
    after = f" {listed(worse)} did worse than random." if worse else ""
    if best.difference.estimate <= 0:
        return (
            "Nothing beat random here: no strategy has a larger mean accuracy over the whole curve."
            f"{_higher_in_the_end(summary)}{after}"
        )
    largest = f"the largest gain is that of {best.name}, {gained(best)}"
    return f"Nothing beat random beyond chance: {largest}. {_doubts(best)}{after}"


def _higher_in_the_end(summary: Summary) -> str:
    """That the last training alone looks better than the whole curve, where it does."""
    last = {curve.name: float(curve.mean[-1]) for curve in summary.curves}
    gains = {name: accuracy - last[RANDOM] for name, accuracy in last.items() if accuracy - last[RANDOM] >= 0.0005}
    if not gains:
        return ""
    best = max(gains, key=lambda name: gains[name])
    others = f", as are {len(gains) - 1} more" if len(gains) > 2 else ", as is one more" if len(gains) == 2 else ""
    return (
        f" At the last {summary.curves[0].labels[-1]:,} labels alone {best} is {Steady(100 * gains[best]):.1f} points "
        f"above random{others}, which is not what is tested."
    )


def _doubts(best: Comparison) -> str:
    """Why the largest gain does not count: it is the best of several, or the seeds are too few to see it."""
    if isnan(best.detectable):
        return f"It is the same under all {best.seeds} seeds, which leaves no spread to judge it by: run more seeds."
    if best.p < 1.0 - LEVEL:
        return f"Alone it would count (p {_equals(shown_p(best.p))}), but not as the best of several: run more seeds."
    least = Steady(100 * best.detectable)
    return f"{best.seeds} seeds would have shown a difference of {least:.1f} points with 80% power."


def gained(each: Comparison) -> str:
    """A difference with its interval and p, as a sentence has it."""
    low, high = Steady(100 * each.difference.low), Steady(100 * each.difference.high)
    if isnan(low):
        return f"{points(each)} of accuracy on average over the curve"
    return (
        f"{points(each)} of accuracy on average over the curve (95% interval {low:+.1f} to {high:+.1f}, "
        f"p {_equals(shown_p(each.p_holm))} after Holm's correction)"
    )


def points(each: Comparison) -> str:
    """A difference in percentage points."""
    return f"{Steady(100 * each.difference.estimate):+.1f} points"


def listed(names: Sequence[str]) -> str:
    """Names in a sentence.

    Examples
    --------
    >>> listed(["a", "b", "c"]), listed(["a"])
    ('a, b and c', 'a')
    """
    return " and ".join(filter(None, [", ".join(names[:-1]), *names[-1:]]))


def _equals(shown: str) -> str:
    return shown if shown.startswith("<") else f"= {shown}"
