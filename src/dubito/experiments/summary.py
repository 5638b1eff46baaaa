"""Summary of an experiment: all statistics of its records, and the finding as a sentence."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from math import isfinite, isnan

import numpy as np

from dubito.errors import InvalidArgument
from dubito.experiments.records import Curve, Round, curves
from dubito.experiments.statistics import (
    LEVEL,
    MIN_SEEDS_BOOTSTRAP,
    Comparison,
    Rounded,
    Saving,
    area,
    compare,
    finite,
    format_p,
    labels_to_reach,
    non_decreasing,
    penalties,
    savings,
    seeds_note,
)
from dubito.matrix import FloatArray

# Labels saved, worded identically in headlines, tables and plots.

NOT_REACHED = "not reached"
"""Shown for a strategy, or an end of its interval, that never reaches the accuracy of the baseline."""


def is_sure(saving: Saving) -> bool:
    """Whether the interval of the labels saved exists and excludes 0. Plots only show such savings.

    Examples
    --------
    >>> from dubito.experiments.statistics import Interval
    >>> result = Saving("coreset", "random", 0.9, 100.0, 140.0, Interval(40.0, 20.0, 60.0))
    >>> is_sure(result), format_saved(result)
    (True, '40 [20 to 60]')
    >>> result = Saving("coreset", "random", 0.9, 100.0, 140.0, Interval(40.0, -float("inf"), 60.0))
    >>> is_sure(result), format_saved(result)
    (False, '40 [not reached to 60]')
    """
    return isfinite(saving.needed) and saving.saved.low > 0.5


def format_saved(saving: Saving) -> str:
    """The labels saved, with their interval in brackets if there is one; negative if the strategy needs more."""
    if not isfinite(saving.needed):
        return NOT_REACHED
    ends = format_interval(saving)
    return f"{round(saving.saved.estimate):,}" + (f" [{ends}]" if ends else "")


def format_interval(saving: Saving) -> str:
    """The ends of the interval; empty if there are too few seeds for one."""
    if isnan(saving.saved.low):
        return ""
    low, high = (f"{round(end):,}" if isfinite(end) else NOT_REACHED for end in (saving.saved.low, saving.saved.high))
    return f"{low} to {high}"


def describe_saved(saving: Saving) -> str:
    """A clause about the labels a strategy needs to reach the accuracy of the baseline, and how many that saves."""
    baseline_needed = f"{round(saving.baseline_needed):,}"
    if not isfinite(saving.needed):
        return f"yet it does not reach what {saving.baseline} learns from {baseline_needed} labels"
    saved, ends = round(saving.saved.estimate), format_interval(saving)
    difference = f"{saved:,} saved" if saved >= 0 else f"{-saved:,} more"
    interval = f" (95% interval {ends})" if ends else ""
    hedge = ", but not surely" if ends and saved >= 0 and not is_sure(saving) else ""
    return (
        f"it needs {round(saving.needed):,} labels for what {saving.baseline} learns from {baseline_needed}: "
        f"{difference}{hedge}{interval}"
    )


# Strategies that picked the same rows: with two classes, ``margin``, ``least-confidence`` and ``entropy`` do.

SAME_ORDER = ("margin", "least-confidence", "entropy")
"""With two classes, all three decrease with the larger probability, so they rank the pool in the same order."""


def group_alike(rounds: Sequence[Round]) -> tuple[tuple[str, ...], ...]:
    """Groups of strategies with the same picks and the same accuracy in every round of every seed.

    The order of picks within a round is ignored, as models do not depend on it.
    """
    by_name: dict[str, set[tuple[int, int, tuple[int, ...], float]]] = {}
    for each in rounds:
        outcome = (each.seed, each.turn, tuple(sorted(each.picked)), each.test_accuracy)
        by_name.setdefault(each.strategy, set()).add(outcome)
    groups: dict[frozenset[tuple[int, int, tuple[int, ...], float]], list[str]] = {}
    for name, outcomes in by_name.items():
        groups.setdefault(frozenset(outcomes), []).append(name)
    return tuple(tuple(names) for names in groups.values() if len(names) > 1)


def describe_alike(names: Sequence[str], n_classes: int) -> str:
    """The sentence about such a group in a report.

    Examples
    --------
    >>> describe_alike(["margin", "entropy"], 2)
    'asked for the same rows throughout, as they must with two classes, and count once in the correction.'
    """
    must = n_classes == 2 and set(names) <= set(SAME_ORDER)
    because = ", as they must with two classes," if must else ""
    return f"asked for the same rows throughout{because} and count once in the correction."


RANDOM, CORESET = "random", "coreset"
"""The baselines; sentences only compare with random."""
MAX_NAMES = 3
"""Maximum number of strategies that a sentence names; of more, it gives the number."""
TARGET_SHARES = (0.5, 0.75, 0.9, 1.0)
"""Default targets, as shares of the gain of random from its first to its last accuracy."""


@dataclass(frozen=True, slots=True, eq=False)
class Summary:
    """The statistics of an experiment, over the seeds and turns that all strategies have."""

    curves: tuple[Curve, ...]
    seeds: tuple[int, ...]
    against_random: tuple[Comparison, ...]
    against_coreset: tuple[Comparison, ...]
    """Empty if coreset was not run."""
    savings: tuple[Saving, ...]
    """Against random."""
    penalties: FloatArray
    """(k, k) in the order of the curves; see `dubito.experiments.statistics.penalties`."""
    targets: tuple[float, ...]
    """Accuracies for which the number of labels is computed."""
    needed: tuple[tuple[float, ...], ...]
    """For each curve, the labels that it needs for each target; infinite if it does not reach it."""
    recall: tuple[FloatArray, ...]
    """For each curve, the mean recall (c,) of each class after the last training; NaN if the test set lacks it."""
    select_seconds: tuple[float, ...]
    """For each curve, the mean time of a selection."""
    train_seconds: tuple[float, ...]
    train_accuracy: float
    """Mean training accuracy after the last training, over all strategies."""
    left_out: int
    """Number of records of seeds that not every strategy has finished: 0 for a complete experiment."""
    not_begun: tuple[str, ...] = ()
    """Planned strategies without records."""
    alike: tuple[tuple[str, ...], ...] = ()
    """Groups of strategies with the same picks throughout; each counts once in Holm's correction."""

    @property
    def names(self) -> tuple[str, ...]:
        """Strategies in the order they were run."""
        return tuple(curve.name for curve in self.curves)

    def as_dict(self) -> dict[str, object]:
        """The content of ``results.json``."""
        return {
            "schema": 1,
            "finding": finding(self),
            "seeds": list(self.seeds),
            "labels": self.curves[0].labels.tolist(),
            "strategies": [self._strategy(position) for position in range(len(self.curves))],
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

    def _strategy(self, position: int) -> dict[str, object]:
        curve = self.curves[position]
        return {
            "strategy": curve.name,
            "accuracy": curve.accuracy.tolist(),
            "mean": curve.mean.tolist(),
            "standard_deviation": curve.spread.tolist(),
            "area": area(curve).tolist(),
            "labels_for_targets": [finite(labels) for labels in self.needed[position]],
            "recall": [finite(share) for share in self.recall[position]],
            "select_seconds": self.select_seconds[position],
            "train_seconds": self.train_seconds[position],
        }


def summarize(rounds: Sequence[Round], targets: Sequence[float] = (), planned: Sequence[str] = ()) -> Summary:
    """Compute all statistics of an experiment, which may be unfinished.

    Parameters
    ----------
    rounds : sequence of Round
        The records; random must be among the strategies.
    targets : sequence of float
        Accuracies between 0 and 1 for which to compute the number of labels. Default: some that random reaches.
    planned : sequence of str
        Names of all strategies of the experiment, to list those without records.
    """
    kept = comparable(rounds)
    kept_curves = curves(kept)
    by_name = {curve.name: curve for curve in kept_curves}
    if RANDOM not in by_name:
        hint = "run it, as all others are compared with it."
        raise InvalidArgument(f"random is not among {', '.join(by_name)}", hint=hint)
    chosen = tuple(targets) or default_targets(by_name[RANDOM])
    last, same = max(each.turn for each in kept), group_alike(kept)
    return Summary(
        curves=kept_curves,
        seeds=tuple(sorted({each.seed for each in kept})),
        against_random=compare(kept_curves, RANDOM, same),
        against_coreset=compare(kept_curves, CORESET, same) if CORESET in by_name else (),
        savings=savings(kept_curves, RANDOM),
        penalties=penalties(kept_curves),
        targets=chosen,
        needed=tuple(_needed(curve, chosen) for curve in kept_curves),
        recall=tuple(
            np.mean(np.array([r.recall for r in kept if (r.strategy, r.turn) == (n, last)], np.float64), axis=0)
            for n in by_name
        ),
        select_seconds=tuple(_mean([r.select_seconds for r in kept if r.strategy == n and r.picked]) for n in by_name),
        train_seconds=tuple(_mean([each.train_seconds for each in kept if each.strategy == n]) for n in by_name),
        train_accuracy=_mean([each.train_accuracy for each in kept if each.turn == last]),
        left_out=len(rounds) - len(kept),
        not_begun=tuple(name for name in planned if name not in by_name),
        alike=same,
    )


def comparable(rounds: Sequence[Round]) -> list[Round]:
    """The rounds of the seeds that every strategy finished.

    If there is no such seed, the turns are truncated to the largest number that all strategies have for some seed.
    """
    strategies = {each.strategy for each in rounds}
    turns = {(each.strategy, each.seed): 0 for each in rounds}
    for each in rounds:
        turns[each.strategy, each.seed] += 1
    shared = {seed: min(turns.get((name, seed), 0) for name in strategies) for _, seed in turns}
    most = max(shared.values(), default=0)
    if most == 0:
        raise InvalidArgument("there is no seed yet that every strategy has run", hint="resume the experiment first.")
    return [each for each in rounds if shared[each.seed] >= most and each.turn < most]


def default_targets(random: Curve) -> tuple[float, ...]:
    """Accuracies that random reaches, rounded down to 0.1%; fewer if some are equal."""
    fitted = non_decreasing(random.mean)
    wanted = [fitted[0] + share * (fitted[-1] - fitted[0]) for share in TARGET_SHARES]
    return tuple(dict.fromkeys(float(np.floor(1000 * each + 1e-9) / 1000) for each in wanted))


def _needed(curve: Curve, targets: Sequence[float]) -> tuple[float, ...]:
    fitted = non_decreasing(curve.mean)
    return tuple(float(labels_to_reach(fitted, curve.labels, target)) for target in targets)


def _mean(values: Sequence[float]) -> float:
    return float(np.mean(values)) if values else 0.0


def finding(summary: Summary) -> str:
    """The first sentence of a report: which strategies beat random and by how much, or that none did."""
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
    named = join_names(others) if len(others) <= MAX_NAMES else f"{len(others)} other strategies"
    also_better = f" {named} beat random, too." if others else ""
    saving = next(each for each in summary.savings if each.name == leader.name)
    return f"{leader.name} beat random: {describe_gain(leader)}, and {describe_saved(saving)}.{also_better}"


def _nothing_found(best: Comparison, summary: Summary) -> str:
    worse = [each.name for each in summary.against_random if each.is_worse]
    also_worse = f" {join_names(worse)} did worse than random." if worse else ""
    if best.difference.estimate <= 0:
        return (
            "Nothing beat random here: no strategy has a larger mean accuracy over the whole curve."
            f"{_higher_at_last(summary)}{also_worse}"
        )
    largest = f"the largest gain is that of {best.name}, {describe_gain(best)}"
    return f"Nothing beat random beyond chance: {largest}. {_why_not_significant(best)}{also_worse}"


def _higher_at_last(summary: Summary) -> str:
    """A sentence if a strategy is above random at the last training, though not over the whole curve."""
    last = {curve.name: float(curve.mean[-1]) for curve in summary.curves}
    gains = {name: accuracy - last[RANDOM] for name, accuracy in last.items() if accuracy - last[RANDOM] >= 0.0005}
    if not gains:
        return ""
    best = max(gains, key=lambda name: gains[name])
    others = f", as are {len(gains) - 1} more" if len(gains) > 2 else ", as is one more" if len(gains) == 2 else ""
    return (
        f" At the last {summary.curves[0].labels[-1]:,} labels alone {best} is {Rounded(100 * gains[best]):.1f} points "
        f"above random{others}, which is not what is tested."
    )


def _why_not_significant(best: Comparison) -> str:
    """Why the largest gain is not significant: it is the best of several, or there are too few seeds."""
    if isnan(best.detectable):
        return f"It is the same under all {best.seeds} seeds, which leaves no spread to judge it by: run more seeds."
    if best.p < 1.0 - LEVEL:
        return f"Alone it would count (p {_equals(format_p(best.p))}), but not as the best of several: run more seeds."
    least = Rounded(100 * best.detectable)
    return f"{best.seeds} seeds would have shown a difference of {least:.1f} points with 80% power."


def describe_gain(each: Comparison) -> str:
    """A difference with its interval and p, as part of a sentence."""
    low, high = Rounded(100 * each.difference.low), Rounded(100 * each.difference.high)
    if isnan(low):
        return f"{points(each)} of accuracy on average over the curve"
    return (
        f"{points(each)} of accuracy on average over the curve (95% interval {low:+.1f} to {high:+.1f}, "
        f"p {_equals(format_p(each.p_holm))} after Holm's correction)"
    )


def points(each: Comparison) -> str:
    return f"{Rounded(100 * each.difference.estimate):+.1f} points"


def join_names(names: Sequence[str]) -> str:
    """Join names with commas and "and".

    Examples
    --------
    >>> join_names(["a", "b", "c"]), join_names(["a"])
    ('a, b and c', 'a')
    """
    return " and ".join(filter(None, [", ".join(names[:-1]), *names[-1:]]))


def _equals(shown: str) -> str:
    return shown if shown.startswith("<") else f"= {shown}"


# Notes on the reliability of the numbers, shown below the table.

MIN_ABOVE_GUESSING = 0.05
"""Models whose training accuracy exceeds guessing by at most this have hardly learned."""


def notes(summary: Summary) -> tuple[str, ...]:
    texts = [*_notes_on_learning(summary), seeds_note(len(summary.seeds))]
    if summary.left_out:
        texts.append(
            f"The experiment is not finished: {summary.left_out} records that not every strategy has are left out; "
            f"the results are up to {summary.curves[0].labels[-1]:,} labels."
        )
    if summary.not_begun:
        texts.append(f"Not begun yet, and not in any result: {join_names(summary.not_begun)}.")
    texts += _notes_on_differences(summary)
    if summary.savings:
        texts += _notes_on_savings(summary)
    return tuple(texts)


def _notes_on_learning(summary: Summary) -> Iterator[str]:
    """A note if the models did not learn, in which case strategies cannot be compared."""
    guessing = 1.0 / len(summary.recall[0])
    if summary.train_accuracy <= guessing + MIN_ABOVE_GUESSING:
        yield (
            f"The models have hardly learned: {summary.train_accuracy:.0%} of their own labels are right after the "
            f"last training, where guessing gives {guessing:.0%}. Check learning_rate and epochs first."
        )


def _notes_on_differences(summary: Summary) -> Iterator[str]:
    for names in summary.alike:
        yield f"{join_names(names)} {describe_alike(names, len(summary.recall[0]))}"
    if len(summary.seeds) > 1:
        same = [each.name for each in summary.against_random if isnan(each.detectable)]
        if same:
            yield (
                f"{join_names(same)}: the difference to random is the same for every seed. Without variance between "
                "seeds there is no interval and no meaningful p: run more seeds, or test on more rows."
            )
    detectable = [each.detectable for each in summary.against_random if isfinite(each.detectable)]
    if detectable:
        ends = dict.fromkeys(f"{100 * end:.1f}" for end in (min(detectable), max(detectable)))
        yield (
            f"Power: given the spread seen, a single comparison finds a true difference of {' to '.join(ends)} points "
            "with 80% probability; smaller ones may well have been missed."
        )


def _notes_on_savings(summary: Summary) -> Iterator[str]:
    if 1 < len(summary.seeds) < MIN_SEEDS_BOOTSTRAP:
        yield f"Labels saved have no interval below {MIN_SEEDS_BOOTSTRAP} seeds: it would be far too narrow."
    reached, last = summary.savings[0].baseline_needed, float(summary.curves[0].labels[-1])
    if round(reached) < last:
        yield (
            f"Labels saved: random gains nothing more after {round(reached):,} labels on its curve made non-decreasing "
            f"({summary.savings[0].accuracy:.1%}), so they are counted to there and not to {round(last):,}. "
            "A strategy that ends above random may have got to that accuracy later."
        )
    below = {each.name for each in summary.against_random if each.difference.estimate < 0.0}
    late = [each.name for each in summary.savings if each.name in below and each.saved.estimate >= 1.0]
    if late:
        yield (
            f"{join_names(late)}: labels saved though below random on average, because the curve is lower at first and "
            "higher in the end."
        )
