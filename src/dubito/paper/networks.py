"""Figures 5 and 6 and table 1: networks trained on images, checked on the rounds that their experiments recorded."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

from dubito.experiments.records import Curve, Round, curves
from dubito.experiments.statistics import FEWEST_FOR_VARIANCE, LEVEL, Steady, area, holm, paired_test, shown_p
from dubito.paper.verdicts import Verdict

RANDOM, PLAIN, SCALED = "random", "coreset", "doubt-coreset"
PLAIN_BEAM, BOTH = "coreset:beam_width=20", "doubt-coreset:beam_width=20"
"""Of the ablation."""
BEAM = "doubt-coreset:beam_width=10"
"""The method as the main experiments have it."""
PASSED = 0.99
"""Training accuracy that the paper's epochs are to reach."""


@dataclass(frozen=True, slots=True)
class Gain:
    """A strategy's mean accuracy over the curve less another's, paired by seed, as one of several."""

    name: str
    over: str
    estimate: float
    p: float
    """After Holm's correction over the comparisons of the claim."""

    @property
    def is_sure(self) -> bool:
        """Above, beyond chance."""
        return self.estimate > 0.0 and self.p < 1.0 - LEVEL

    def __str__(self) -> str:
        p = shown_p(self.p)
        return f"{Steady(100 * self.estimate):+.2f} points (p {p if p.startswith('<') else f'= {p}'})"


def gains(found: Sequence[Curve], pairs: Sequence[tuple[str, str]]) -> list[Gain]:
    """Each first strategy's area under the curve against the second's, with Holm's correction over all pairs.

    Examples
    --------
    >>> import numpy as np
    >>> slow = Curve("random", np.array([10, 20]), np.array([[0.5, 0.6], [0.5, 0.7], [0.4, 0.6]]))
    >>> fast = Curve("coreset", np.array([10, 20]), np.array([[0.5, 0.8], [0.5, 0.9], [0.4, 0.82]]))
    >>> [str(each) for each in gains([slow, fast], [("coreset", "random")])]
    ['+10.33 points (p = 0.0010)']
    """
    areas = {curve.name: area(curve) for curve in found}
    tests = [paired_test(areas[name] - areas[over]) for name, over in pairs]
    corrected = holm([p for _, p in tests])
    return [
        Gain(name, over, gain.estimate, float(p))
        for (name, over), (gain, _), p in zip(pairs, tests, corrected, strict=True)
    ]


@dataclass(frozen=True, slots=True, eq=False)
class Ablation:
    """Figure 5: scaling, a beam of 20, both and neither."""

    curves: tuple[Curve, ...]

    def verdict(self) -> Verdict:
        """Both parts above the plain core-set beyond chance, a beam alone not, and both the highest in the end."""
        pairs = [(BOTH, PLAIN), (PLAIN_BEAM, PLAIN), (SCALED, PLAIN), (BOTH, SCALED)]
        both, beam, scaled, added = gains(self.curves, pairs)
        last = {curve.name: float(curve.mean[-1]) for curve in self.curves}
        shown = {name: last[name] for name in (RANDOM, PLAIN, PLAIN_BEAM, SCALED, BOTH)}
        best = max(shown, key=lambda name: shown[name])
        numbers = {f"last accuracy, {name}": value for name, value in last.items()}
        differences = (both, beam, scaled, added)
        numbers |= {f"{each.name} less {each.over}, mean over the curve": each.estimate for each in differences}
        highest = (
            f"highest in the end is {best} ({Steady(shown[best]):.1%}; scaled with a beam {Steady(shown[BOTH]):.1%})"
        )
        parts = [
            (both.is_sure, f"scaled with a beam is {_above(both)}"),
            (not beam.is_sure, f"a beam alone is {_above(beam)}"),
            (best == BOTH, f"both together end highest ({Steady(shown[BOTH]):.1%})" if best == BOTH else highest),
        ]
        said = [words for _, words in sorted(parts, key=lambda part: part[0])]
        said += [
            f"scaled alone is {_above(scaled)}; the beam adds {added} to scaling",
            "points are of the mean over the curve",
        ]
        seeds = len(self.curves[0].accuracy)
        said += [f"{seeds} seeds say nothing of variance"] if seeds < FEWEST_FOR_VARIANCE else []
        return Verdict(all(holds for holds, _ in parts), numbers, "; ".join(said))


def _above(gain: Gain) -> str:
    return f"{'' if gain.is_sure else 'not '}above the plain core-set beyond chance, {gain}"


@dataclass(frozen=True, slots=True, eq=False)
class MainExperiments:
    """Figure 6: the method as it is meant, on one or more collections of images."""

    curves: Mapping[str, tuple[Curve, ...]]
    """By collection; those without a copy of their images are missing."""
    missing: tuple[str, ...] = ()

    def verdict(self) -> Verdict:
        """On every collection measured: above random and above the plain core-set, beyond chance."""
        pairs = {name: gains(found, [(BEAM, PLAIN), (BEAM, RANDOM)]) for name, found in self.curves.items()}
        numbers = {
            f"{each.name} less {each.over}, {name}": each.estimate for name, pair in pairs.items() for each in pair
        }
        parts = [f"{name}: {pair[0]} over the plain core-set, {pair[1]} over random" for name, pair in pairs.items()]
        parts += [f"{name}: not measured" for name in self.missing]
        holds = all(each.is_sure for pair in pairs.values() for each in pair)
        sentence = f"scaled with a beam of 10, by the mean over the curve; {'; '.join(parts)}"
        return Verdict(holds, numbers, sentence, _scope(self.curves, self.missing))


@dataclass(frozen=True, slots=True, eq=False)
class Epochs:
    """Table 1: training accuracy after the paper's epochs."""

    accuracy: Mapping[str, tuple[float, ...]]
    """By collection: the mean over strategies and seeds after each training."""
    passed: Mapping[str, float]
    """By collection: the share of trainings above 99%."""
    missing: tuple[str, ...] = ()

    def verdict(self) -> Verdict:
        """On every collection measured, after each training, the mean is above 99%."""
        numbers = {f"first training, {name}": means[0] for name, means in self.accuracy.items()}
        numbers |= {f"lowest of all trainings, {name}": min(means) for name, means in self.accuracy.items()}
        numbers |= {f"trainings above 99%, {name}": share for name, share in self.passed.items()}
        parts = [
            f"{name}: {Steady(means[0]):.2%} after the first training, {Steady(min(means)):.2%} at the lowest of all "
            f"{len(means)}; {Steady(self.passed[name]):.0%} of single trainings are above 99%"
            for name, means in self.accuracy.items()
        ]
        parts += [f"{name}: not measured" for name in self.missing]
        holds = all(min(means) > PASSED for means in self.accuracy.values())
        sentence = f"mean training accuracy, {'; '.join(parts)}"
        return Verdict(holds, numbers, sentence, _scope(self.accuracy, self.missing))


def _scope(measured: Iterable[str], missing: Sequence[str]) -> str | None:
    """The collections that a verdict is about, where others that the claim names were not measured."""
    return f"{' and '.join(measured)} alone" if missing else None


def ablation_of(rounds: Sequence[Round]) -> Ablation:
    """Figure 5 out of what its experiment recorded."""
    return Ablation(curves(rounds))


def main_of(played: Mapping[str, Sequence[Round]], missing: Sequence[str] = ()) -> MainExperiments:
    """Figure 6 out of what the experiments recorded, by collection."""
    return MainExperiments({name: curves(rounds) for name, rounds in played.items()}, tuple(missing))


def epochs_of(played: Mapping[str, Sequence[Round]], missing: Sequence[str] = ()) -> Epochs:
    """Table 1 out of what the experiments recorded, by collection."""
    means, passed = {}, {}
    for name, rounds in played.items():
        by_turn: dict[int, list[float]] = {}
        for each in rounds:
            by_turn.setdefault(each.turn, []).append(each.train_accuracy)
        means[name] = tuple(sum(by_turn[turn]) / len(by_turn[turn]) for turn in sorted(by_turn))
        # The first training of a seed, which its strategies share, counts once.
        single = {(each.strategy if each.turn else "", each.seed, each.turn): each.train_accuracy for each in rounds}
        passed[name] = sum(share > PASSED for share in single.values()) / len(single)
    return Epochs(means, passed, tuple(missing))
