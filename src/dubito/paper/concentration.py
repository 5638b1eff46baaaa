"""Figure 1: on many noisy clusters least confidence spends its labels where nothing can be learned."""

from dataclasses import dataclass

import numpy as np

from dubito.experiments.built_in_data import cluster_noise, clusters
from dubito.experiments.data import Dataset
from dubito.experiments.plan import Arm, Schedule
from dubito.experiments.records import Curve, Round, curves
from dubito.experiments.statistics import area
from dubito.matrix import FloatArray, IntArray
from dubito.paper.learning import ITERATIONS, learn, picks_of
from dubito.paper.verdicts import Verdict
from dubito.request.arrays import check_integer, check_real

STRATEGIES = ("random", "least-confidence", "coreset")
HARD = 0.25
"""Where more than a quarter of the points cannot be got right, a place counts as noisy."""


@dataclass(frozen=True, slots=True)
class ConcentrationStudy:
    """Rounds of ``batch`` labels on clusters that overlap, learned by a small network."""

    side: int = 9
    n_classes: int = 3
    deviation: float = 1.0
    n: int = 3000
    initial: int = 50
    batch: int = 50
    rounds: int = 5
    seeds: int = 3
    other_sides: tuple[int, ...] = (5, 7)
    """Grids with fewer clusters, measured beside it: how much hangs on there being many."""
    iterations: int = ITERATIONS
    """Of the network's training, at most."""

    def __post_init__(self) -> None:
        for name in ("side", "n", "initial", "batch", "rounds", "seeds", "iterations"):
            check_integer(name, getattr(self, name), least=1)
        check_real("deviation", self.deviation, least=0.0)

    def measure(self, seed: int) -> "Concentration":
        """One pool; first labels and weights differ from seed to seed."""
        data, rounds = self._pool(self.side, seed), self._play(self.side, seed)
        points = np.asarray(data.features, dtype=np.float64)
        return Concentration(
            points=points,
            labels=data.labels,
            noise=cluster_noise(points, self.side, self.n_classes, self.deviation),
            picked={name: np.array(picks_of(rounds, name, seed)) for name in STRATEGIES},
            curves=curves(rounds),
            others={side: curves(self._play(side, seed)) for side in self.other_sides},
        )

    def _pool(self, side: int, seed: int) -> Dataset:
        return clusters(seed, n=self.n, side=side, n_classes=self.n_classes, deviation=self.deviation)

    def _play(self, side: int, seed: int) -> list[Round]:
        schedule = Schedule(initial=self.initial, budget=self.batch, rounds=self.rounds)
        arms, seeds = [Arm(name) for name in STRATEGIES], range(seed, seed + self.seeds)
        return learn(self._pool(side, seed), arms, schedule, seeds, self.iterations)


@dataclass(frozen=True, slots=True, eq=False)
class Concentration:
    """The pool, what each strategy asked for under the first seed, and how well it learned."""

    points: FloatArray
    labels: IntArray
    noise: FloatArray
    """(n,) share of points at each place that nobody can get right."""
    picked: dict[str, IntArray]
    """(rounds, batch) rows for each strategy."""
    curves: tuple[Curve, ...]
    others: dict[int, tuple[Curve, ...]]
    """Curves on grids of other sides."""

    def verdict(self) -> Verdict:
        """By mean accuracy over the rounds: the core-set above random, least confidence below it."""
        means = {curve.name: float(area(curve).mean()) for curve in self.curves}
        ends = {curve.name: float(curve.mean[-1]) for curve in self.curves}
        hard = {name: float((self.noise[rows] > HARD).mean()) for name, rows in self.picked.items()}
        numbers = {f"mean accuracy, {name}": value for name, value in means.items()}
        numbers |= {f"last accuracy, {name}": value for name, value in ends.items()}
        numbers |= {f"picks in noisy places, {name}": value for name, value in hard.items()}
        numbers |= {
            f"least confidence less random, {side} × {side} clusters": least_confidence_gain(found)
            for side, found in self.others.items()
        }
        holds = means["coreset"] > means["random"] > means["least-confidence"]
        sentence = (
            f"mean accuracy over the rounds: core-set {means['coreset']:.1%}, random {means['random']:.1%}, least "
            f"confidence {means['least-confidence']:.1%} (in the end {ends['coreset']:.1%}, {ends['random']:.1%}, "
            f"{ends['least-confidence']:.1%}); {hard['least-confidence']:.0%} of least confidence's picks are in noisy "
            f"places, {hard['random']:.0%} of random's, {hard['coreset']:.0%} of the core-set's{self._elsewhere()}"
        )
        return Verdict(holds and ends["coreset"] > ends["random"] > ends["least-confidence"], numbers, sentence)

    def _elsewhere(self) -> str:
        parts = [
            f"{100 * least_confidence_gain(found):+.1f} points on {side**2}" for side, found in self.others.items()
        ]
        return f". On fewer clusters least confidence less random is {', '.join(parts)}" if parts else ""


def least_confidence_gain(found: tuple[Curve, ...]) -> float:
    """Mean accuracy over the rounds of least confidence, less random's."""
    means = {curve.name: float(area(curve).mean()) for curve in found}
    return means["least-confidence"] - means["random"]
