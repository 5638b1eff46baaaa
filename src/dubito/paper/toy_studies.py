"""Figures 1 and 11 to 15: active learning on toy data."""

from dataclasses import dataclass, fields
from functools import lru_cache

import numpy as np

from dubito.core.distances import core_set_radii
from dubito.experiments.data import Dataset
from dubito.experiments.plan import Arm, Schedule
from dubito.experiments.records import Curve, Round, curves
from dubito.experiments.statistics import area, compare
from dubito.matrix import FloatArray, IntArray
from dubito.paper.study import EXPLOITIVE, ITERATIONS, Verdict, picks_by_turn, run_arms
from dubito.paper.toys import cluster_noise, clusters
from dubito.request.arrays import check_integer, check_positive

# Figure 1: with many noisy clusters, least confidence queries labels where nothing can be learned.

COMPARED = ("random", "least-confidence", "coreset")
NOISY = 0.25
"""A point counts as noisy if its Bayes error exceeds this."""


@dataclass(frozen=True, slots=True)
class ConcentrationStudy:
    """Rounds of ``batch`` labels on overlapping clusters, with a small network."""

    side: int = 9
    n_classes: int = 3
    deviation: float = 1.0
    n: int = 3000
    initial: int = 50
    batch: int = 50
    rounds: int = 5
    seeds: int = 3
    other_sides: tuple[int, ...] = (5, 7)
    """Smaller grids that are measured as well, to see how much the number of clusters matters."""
    iterations: int = ITERATIONS
    """Maximum number of iterations of the network's training."""

    def __post_init__(self) -> None:
        for name in ("side", "n", "initial", "batch", "rounds", "seeds", "iterations"):
            check_integer(name, getattr(self, name), least=1)
        check_positive("deviation", self.deviation)

    def measure(self, seed: int) -> "Concentration":
        """Run all strategies on one pool; initial labels and weights depend on the seed."""
        data, rounds = self._pool(self.side, seed), self._simulate(self.side, seed)
        points = np.asarray(data.features, dtype=np.float64)
        return Concentration(
            points=points,
            labels=data.labels,
            noise=cluster_noise(points, self.side, self.n_classes, self.deviation),
            picked={name: np.array(picks_by_turn(rounds, name, seed)) for name in COMPARED},
            curves=curves(rounds),
            others={side: curves(self._simulate(side, seed)) for side in self.other_sides},
        )

    def _pool(self, side: int, seed: int) -> Dataset:
        return clusters(seed, n=self.n, side=side, n_classes=self.n_classes, deviation=self.deviation)

    def _simulate(self, side: int, seed: int) -> list[Round]:
        schedule = Schedule(initial=self.initial, budget=self.batch, rounds=self.rounds)
        arms, seeds = [Arm(name) for name in COMPARED], range(seed, seed + self.seeds)
        return run_arms(self._pool(side, seed), arms, schedule, seeds, self.iterations)


@dataclass(frozen=True, slots=True, eq=False)
class Concentration:
    """The pool, the picks of each strategy with the first seed, and the learning curves."""

    points: FloatArray
    labels: IntArray
    noise: FloatArray
    """(n,) the Bayes error at each point."""
    picked: dict[str, IntArray]
    """(rounds, batch) rows for each strategy."""
    curves: tuple[Curve, ...]
    others: dict[int, tuple[Curve, ...]]
    """Curves for each of the other grids, by their side."""

    def verdict(self) -> Verdict:
        """Whether the core-set is above random, and least confidence below, in mean and in final accuracy."""
        means = {curve.name: float(area(curve).mean()) for curve in self.curves}
        ends = {curve.name: float(curve.mean[-1]) for curve in self.curves}
        noisy = {name: float((self.noise[rows] > NOISY).mean()) for name, rows in self.picked.items()}
        numbers = {f"mean accuracy, {name}": value for name, value in means.items()}
        numbers |= {f"last accuracy, {name}": value for name, value in ends.items()}
        numbers |= {f"picks in noisy places, {name}": value for name, value in noisy.items()}
        numbers |= {
            f"gain of least confidence over random, {side} × {side} clusters": least_confidence_gain(found)
            for side, found in self.others.items()
        }
        holds = means["coreset"] > means["random"] > means["least-confidence"]
        sentence = (
            f"mean accuracy over the rounds: core-set {means['coreset']:.1%}, random {means['random']:.1%}, least "
            f"confidence {means['least-confidence']:.1%} (final accuracy {ends['coreset']:.1%}, {ends['random']:.1%}, "
            f"{ends['least-confidence']:.1%}); {noisy['least-confidence']:.0%} of least confidence's picks are in "
            f"noisy places, {noisy['random']:.0%} of random's, {noisy['coreset']:.0%} of the core-set's"
            f"{self._other_grids_described()}"
        )
        return Verdict(holds and ends["coreset"] > ends["random"] > ends["least-confidence"], numbers, sentence)

    def _other_grids_described(self) -> str:
        parts = [
            f"{100 * least_confidence_gain(found):+.1f} points on {side**2}" for side, found in self.others.items()
        ]
        return f". On fewer clusters the gain of least confidence over random is {', '.join(parts)}" if parts else ""


def least_confidence_gain(found: tuple[Curve, ...]) -> float:
    """Mean accuracy of least confidence over the rounds, minus that of random."""
    means = {curve.name: float(area(curve).mean()) for curve in found}
    return means["least-confidence"] - means["random"]


# The toy data of the appendix (figures 11 to 15): are density and mutual information better than random?

VARIANTS = ("probabilistic-coreset", EXPLOITIVE)
BASELINES = ("random", "entropy", "least-confidence")
ALGORITHM_2 = "doubt-coreset"


@dataclass(frozen=True, slots=True)
class ToySettings:
    """Settings of the appendix: rounds of its methods on 25 clusters in five classes."""

    deviation: float = 0.5
    n: int = 2000
    initial: int = 50
    batch: int = 50
    rounds: int = 5
    seeds: int = 10
    batches: int = 1000
    """Number of random batches that the probabilistic core-set chooses from."""
    iterations: int = ITERATIONS
    """Maximum number of iterations of the network's training."""

    def __post_init__(self) -> None:
        for name in ("n", "initial", "batch", "rounds", "seeds", "batches", "iterations"):
            check_integer(name, getattr(self, name), least=1)
        check_positive("deviation", self.deviation)

    @property
    def arms(self) -> tuple[Arm, ...]:
        """The five methods of the paper, and Algorithm 2 to compare the cost."""
        options = {"batches": self.batches}
        return (
            *(Arm(name) for name in BASELINES),
            Arm("probabilistic-coreset", options, label="probabilistic-coreset"),
            Arm("probabilistic-coreset", {**options, "exploit": 0.1}, label=EXPLOITIVE),
            Arm(ALGORITHM_2),
        )


@lru_cache(maxsize=4)
def rounds_of(settings: ToySettings, seed: int) -> tuple[Round, ...]:
    """All rounds with these settings; cached, because several figures use the same ones."""
    data = clusters(seed, n=settings.n, deviation=settings.deviation)
    schedule = Schedule(initial=settings.initial, budget=settings.batch, rounds=settings.rounds)
    return tuple(run_arms(data, settings.arms, schedule, range(seed, seed + settings.seeds), settings.iterations))


@dataclass(frozen=True, slots=True)
class ToyStudy(ToySettings):
    """Figures 11 and 12: accuracy against labels."""

    def measure(self, seed: int) -> "ToyCurves":
        """Run the five methods of the paper; only `NegativeStudy` uses Algorithm 2."""
        found = curves(rounds_of(_settings_of(self), seed))
        return ToyCurves(self.deviation, tuple(curve for curve in found if curve.name != ALGORITHM_2))


@dataclass(frozen=True, slots=True, eq=False)
class ToyCurves:
    """Curves of random, entropy, least confidence and the two probabilistic core-sets."""

    deviation: float
    curves: tuple[Curve, ...]

    def verdict(self) -> Verdict:
        """Whether both variants are above random, entropy and least confidence in mean accuracy over the rounds."""
        means = {curve.name: float(area(curve).mean()) for curve in self.curves}
        numbers = {f"mean accuracy, {name}": value for name, value in means.items()}
        best = max(means[name] for name in BASELINES)
        above = [name for name in VARIANTS if means[name] > best]
        listed = ", ".join(f"{name} {means[name]:.1%}" for name in sorted(means, key=lambda name: -means[name]))
        sentence = f"mean accuracy over the rounds: {listed}; {len(above)} of 2 variants are above every baseline"
        return Verdict(len(above) == 2, numbers, sentence)


@dataclass(frozen=True, slots=True)
class AcquisitionsStudy(ToySettings):
    """Figures 13 to 15: which points each method picks."""

    def measure(self, seed: int) -> "Acquisitions":
        """Collect the picks of all rounds with the first seed."""
        rounds, data = rounds_of(_settings_of(self), seed), clusters(seed, n=self.n, deviation=self.deviation)
        points = np.asarray(data.features, dtype=np.float64)
        names = [arm.name for arm in self.arms if arm.name != ALGORITHM_2]
        return Acquisitions(
            points,
            data.labels,
            cluster_noise(points, side=5, n_classes=5, deviation=self.deviation),
            {name: np.concatenate(picks_by_turn(rounds, name, seed)) for name in names},
        )


@dataclass(frozen=True, slots=True, eq=False)
class Acquisitions:
    """The pool, and the picks of each method."""

    points: FloatArray
    labels: IntArray
    noise: FloatArray
    picked: dict[str, IntArray]

    def verdict(self) -> Verdict:
        """Whether entropy and least confidence pick more noisy points, and cover less, than probabilistic core-sets."""
        noisy = {name: float((self.noise[rows] > NOISY).mean()) for name, rows in self.picked.items()}
        gaps = {
            name: float(core_set_radii(self.points, self.points[rows]).mean()) for name, rows in self.picked.items()
        }
        numbers = {f"picks in noisy places, {name}": value for name, value in noisy.items()}
        numbers |= {f"mean distance to a pick, {name}": value for name, value in gaps.items()}
        least_noisy = min(noisy["entropy"], noisy["least-confidence"])
        are_closer = all(gaps[name] < min(gaps["entropy"], gaps["least-confidence"]) for name in VARIANTS)
        hits = ", ".join(f"{noisy[name]:.0%} of {name}'s" for name in self.picked)
        sentence = (
            f"in noisy places lie {hits}; a point is {gaps['probabilistic-coreset']:.2f} from its nearest pick of the "
            f"probabilistic core-set, {gaps['entropy']:.2f} from entropy's, {gaps['least-confidence']:.2f} from least "
            f"confidence's, {gaps['random']:.2f} from random's"
        )
        return Verdict(are_closer and least_noisy > max(noisy[name] for name in VARIANTS), numbers, sentence)


@dataclass(frozen=True, slots=True)
class NegativeStudy(ToySettings):
    """The negative result: the gain over random and the cost, at a standard deviation and at twice that."""

    def measure(self, seed: int) -> "NegativeResult":
        """Run all methods at ``deviation`` and at twice that."""
        both = [rounds_of(_settings_of(self, scale), seed) for scale in (1.0, 2.0)]
        return NegativeResult(
            tuple(scale * self.deviation for scale in (1.0, 2.0)),
            tuple(curves(rounds) for rounds in both),
            tuple(mean_seconds(rounds) for rounds in both),
        )


@dataclass(frozen=True, slots=True, eq=False)
class NegativeResult:
    """Curves and selection times at two standard deviations."""

    deviations: tuple[float, ...]
    curves: tuple[tuple[Curve, ...], ...]
    seconds: tuple[dict[str, float], ...]
    """Mean time of a selection by each method."""

    def verdict(self) -> Verdict:
        """Whether the gain over random is insignificant or below two points, and the cost higher than Algorithm 2's."""
        numbers: dict[str, float] = {}
        gains, are_small = [], []
        for deviation, found in zip(self.deviations, self.curves, strict=True):
            gain = next(each for each in compare(found, "random") if each.name == "probabilistic-coreset")
            numbers[f"gain over random at {deviation:g}"] = gain.difference.estimate
            numbers[f"p at {deviation:g}"] = gain.p
            low, high = gain.difference.low, gain.difference.high
            gains.append(
                f"{100 * gain.difference.estimate:+.1f} points at {deviation:g} ({100 * low:+.1f} to {100 * high:+.1f})"
            )
            are_small.append(not gain.is_better or gain.difference.estimate < 0.02)
        cost_ratios = [each["probabilistic-coreset"] / max(each[ALGORITHM_2], 1e-9) for each in self.seconds]
        numbers["times the cost of Algorithm 2"] = float(np.mean(cost_ratios))
        sentence = (
            f"the probabilistic core-set is ahead of random by {' and '.join(gains)}, and a selection takes "
            f"{np.mean(cost_ratios):,.0f} times as long as Algorithm 2's"
        )
        return Verdict(all(are_small) and min(cost_ratios) > 1.0, numbers, sentence)


def _settings_of(study: ToySettings, scale: float = 1.0) -> ToySettings:
    """The settings of a study without its type, so that studies with the same settings share their rounds."""
    settings = {each.name: getattr(study, each.name) for each in fields(ToySettings)}
    return ToySettings(**{**settings, "deviation": scale * study.deviation})


def mean_seconds(rounds: tuple[Round, ...]) -> dict[str, float]:
    """Mean time of a selection by each strategy."""
    names = dict.fromkeys(each.strategy for each in rounds)
    return {
        name: float(np.mean([each.select_seconds for each in rounds if each.strategy == name and each.picked]))
        for name in names
    }
