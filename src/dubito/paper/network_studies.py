"""Figures 5 and 6 and table 1: networks trained on images."""

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Literal, get_args

from dubito.errors import DubitoError, MissingFile
from dubito.experiments.data_sources import DataSource
from dubito.experiments.models.base import NeedsFiles
from dubito.experiments.models.networks.training import resolve_device
from dubito.experiments.plan import Experiment, read_shipped
from dubito.experiments.records import Curve, Round, curves
from dubito.experiments.runner import RunProgress, run_experiment
from dubito.experiments.statistics import LEVEL, MIN_SEEDS_VARIANCE, Rounded, area, format_p, holm, paired_test
from dubito.paper.study import Finding, Verdict
from dubito.request.arrays import check_choice, check_integer

# The claims, checked on the rounds that the experiments recorded.

RANDOM, PLAIN, SCALED = "random", "coreset", "doubt-coreset"
PLAIN_BEAM, BOTH = "coreset:beam_width=20", "doubt-coreset:beam_width=20"
"""Strategies of the ablation."""
BEAM = "doubt-coreset:beam_width=10"
"""The method of the main experiments."""
MIN_TRAINING_ACCURACY = 0.99
"""Training accuracy that the paper's numbers of epochs must exceed."""


@dataclass(frozen=True, slots=True)
class Gain:
    """The difference of the areas under two learning curves, paired by seed; one of several comparisons."""

    name: str
    over: str
    estimate: float
    p: float
    """After Holm's correction over the comparisons of the claim."""

    @property
    def is_significant(self) -> bool:
        """Whether the difference is positive and significant."""
        return self.estimate > 0.0 and self.p < 1.0 - LEVEL

    def __str__(self) -> str:
        p = format_p(self.p)
        return f"{Rounded(100 * self.estimate):+.2f} points (p {p if p.startswith('<') else f'= {p}'})"


def gains(learning_curves: Sequence[Curve], pairs: Sequence[tuple[str, str]]) -> list[Gain]:
    """Compare the areas under the curves of each pair of strategies, with Holm's correction over all pairs.

    Examples
    --------
    >>> import numpy as np
    >>> slow = Curve("random", np.array([10, 20]), np.array([[0.5, 0.6], [0.5, 0.7], [0.4, 0.6]]))
    >>> fast = Curve("coreset", np.array([10, 20]), np.array([[0.5, 0.8], [0.5, 0.9], [0.4, 0.82]]))
    >>> [str(each) for each in gains([slow, fast], [("coreset", "random")])]
    ['+10.33 points (p = 0.0010)']
    """
    areas = {curve.name: area(curve) for curve in learning_curves}
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
        """Both parts together are significantly above the plain core-set, a beam alone is not, and both end highest."""
        pairs = [(BOTH, PLAIN), (PLAIN_BEAM, PLAIN), (SCALED, PLAIN), (BOTH, SCALED)]
        both, beam, scaled, beam_on_scaled = gains(self.curves, pairs)
        last = {curve.name: float(curve.mean[-1]) for curve in self.curves}
        shown = {name: last[name] for name in (RANDOM, PLAIN, PLAIN_BEAM, SCALED, BOTH)}
        best = max(shown, key=lambda name: shown[name])
        numbers = {f"last accuracy, {name}": value for name, value in last.items()}
        differences = (both, beam, scaled, beam_on_scaled)
        numbers |= {f"{each.name} less {each.over}, mean over the curve": each.estimate for each in differences}
        highest = (
            f"highest in the end is {best} ({Rounded(shown[best]):.1%}; scaled with a beam {Rounded(shown[BOTH]):.1%})"
        )
        parts = [
            (both.is_significant, f"scaled with a beam is {_above(both)}"),
            (not beam.is_significant, f"a beam alone is {_above(beam)}"),
            (best == BOTH, f"both together end highest ({Rounded(shown[BOTH]):.1%})" if best == BOTH else highest),
        ]
        sentences = [text for _, text in sorted(parts, key=lambda part: part[0])]
        sentences += [
            f"scaled alone is {_above(scaled)}; the beam adds {beam_on_scaled} to scaling",
            "points are of the mean over the curve",
        ]
        seeds = len(self.curves[0].accuracy)
        sentences += [f"{seeds} seeds say nothing of variance"] if seeds < MIN_SEEDS_VARIANCE else []
        return Verdict(all(holds for holds, _ in parts), numbers, "; ".join(sentences))


def _above(gain: Gain) -> str:
    return f"{'' if gain.is_significant else 'not '}above the plain core-set beyond chance, {gain}"


@dataclass(frozen=True, slots=True, eq=False)
class MainExperiments:
    """Figure 6: the complete method on one or more collections of images."""

    curves: Mapping[str, tuple[Curve, ...]]
    """By collection, without those whose images are missing."""
    missing: tuple[str, ...] = ()

    def verdict(self) -> Verdict:
        """Significantly above random and above the plain core-set on every collection measured."""
        pairs = {name: gains(found, [(BEAM, PLAIN), (BEAM, RANDOM)]) for name, found in self.curves.items()}
        numbers = {
            f"{each.name} less {each.over}, {name}": each.estimate for name, pair in pairs.items() for each in pair
        }
        parts = [f"{name}: {pair[0]} over the plain core-set, {pair[1]} over random" for name, pair in pairs.items()]
        parts += [f"{name}: not measured" for name in self.missing]
        holds = all(each.is_significant for pair in pairs.values() for each in pair)
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
        """The mean is above 99% after each training on every collection measured."""
        numbers = {f"first training, {name}": means[0] for name, means in self.accuracy.items()}
        numbers |= {f"lowest of all trainings, {name}": min(means) for name, means in self.accuracy.items()}
        numbers |= {f"trainings above 99%, {name}": share for name, share in self.passed.items()}
        parts = [
            f"{name}: {Rounded(means[0]):.2%} after the first training, {Rounded(min(means)):.2%} at the lowest of all "
            f"{len(means)}; {Rounded(self.passed[name]):.0%} of single trainings are above 99%"
            for name, means in self.accuracy.items()
        ]
        parts += [f"{name}: not measured" for name in self.missing]
        holds = all(min(means) > MIN_TRAINING_ACCURACY for means in self.accuracy.values())
        sentence = f"mean training accuracy, {'; '.join(parts)}"
        return Verdict(holds, numbers, sentence, _scope(self.accuracy, self.missing))


def _scope(measured: Iterable[str], missing: Sequence[str]) -> str | None:
    """The collections that were measured, if others that the claim names were not; else None."""
    return f"{' and '.join(measured)} alone" if missing else None


def main_of(rounds_by_title: Mapping[str, Sequence[Round]], missing: Sequence[str] = ()) -> MainExperiments:
    """Figure 6 for the rounds of each collection."""
    return MainExperiments({name: curves(rounds) for name, rounds in rounds_by_title.items()}, tuple(missing))


def epochs_of(rounds_by_title: Mapping[str, Sequence[Round]], missing: Sequence[str] = ()) -> Epochs:
    """Table 1 for the rounds of each collection."""
    means, passed = {}, {}
    for name, rounds in rounds_by_title.items():
        by_turn: dict[int, list[float]] = {}
        for each in rounds:
            by_turn.setdefault(each.turn, []).append(each.train_accuracy)
        means[name] = tuple(sum(by_turn[turn]) / len(by_turn[turn]) for turn in sorted(by_turn))
        # The strategies of a seed share their first training, which counts once.
        single = {(each.strategy if each.turn else "", each.seed, each.turn): each.train_accuracy for each in rounds}
        passed[name] = sum(share > MIN_TRAINING_ACCURACY for share in single.values()) / len(single)
    return Epochs(means, passed, tuple(missing))


# The study of figures 5 and 6 and table 1, which runs or resumes experiments that come with the package.

Claim = Literal["ablation", "main", "epochs"]
COLLECTIONS = {"cifar10": "CIFAR-10", "cifar100": "CIFAR-100", "svhn": "SVHN"}
RUNS = "dubito-runs"

Gather = Callable[[Experiment, Path], DataSource]
"""Called before an experiment runs in a folder, to find or download its files; returns the source of its data."""


@dataclass(frozen=True, slots=True)
class NetworkStudy:
    """Experiments on images by name, and the claim to check with their rounds."""

    check: Claim = "main"
    experiments: tuple[str, ...] = ("cifar10-main",)
    seeds: int = 5
    rounds: int | None = None
    """Default: as many as the experiment has."""
    runs_dir: str = RUNS
    """The folder of runs: unfinished ones are resumed, finished ones are only read."""
    workers: int = 1
    gather: Gather | None = field(default=None, compare=False)
    progress: RunProgress | None = field(default=None, compare=False)

    def __post_init__(self) -> None:
        check_choice("check", self.check, get_args(Claim))
        check_integer("seeds", self.seeds, least=1)
        if self.rounds is not None:
            check_integer("rounds", self.rounds, least=1)

    def plans(self, seed: int) -> dict[str, Experiment]:
        """The experiments by name, with consecutive seeds from ``seed`` on."""
        seeds = tuple(range(seed, seed + self.seeds))
        plans = {}
        for name in self.experiments:
            plan = read_shipped(name)
            schedule = replace(plan.schedule, rounds=self.rounds or plan.schedule.rounds)
            plans[name] = replace(plan, seeds=seeds, schedule=schedule)
        return plans

    def measure(self, seed: int) -> Finding:
        """Finish the experiments whose images are available. Raises the first error if none are."""
        rounds_by_title: dict[str, list[Round]] = {}
        errors: dict[str, MissingFile] = {}
        for plan in self.plans(seed).values():
            title = COLLECTIONS[str(plan.data.images)]
            try:
                rounds_by_title[title] = self.run(plan)
            except MissingFile as error:
                errors[title] = error
        if not rounds_by_title:
            raise next(iter(errors.values()))
        if self.check == "ablation":
            return Ablation(curves(next(iter(rounds_by_title.values()))))
        return (main_of if self.check == "main" else epochs_of)(rounds_by_title, tuple(errors))

    def run(self, plan: Experiment) -> list[Round]:
        folder = Path(self.runs_dir) / plan.folder_name
        source = None if self.gather is None else self.gather(plan, folder)
        return run_experiment(plan, folder, workers=self.workers, progress=self.progress, source=source)

    def is_available(self) -> bool:
        """Whether there is a GPU, and weights and images for at least one experiment."""
        try:
            return resolve_device("auto") != "cpu" and any(map(has_images, self.plans(0).values()))
        except (DubitoError, ImportError):
            return False


def has_images(plan: Experiment) -> bool:
    """Whether the images and initial weights of an experiment are found."""
    try:
        if isinstance(plan.model, NeedsFiles):
            plan.model.fetch(download=False, progress=None)
        DataSource(plan).shared()
    except DubitoError:
        return False
    return True
