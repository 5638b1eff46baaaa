"""Figure 7, and the statements on cost and on where scaling gains most."""

import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from tempfile import TemporaryDirectory

import numpy as np

from dubito import theory
from dubito.api import select
from dubito.core.distances import core_set_radii
from dubito.doubt import doubt_from_probabilities
from dubito.experiments.data import Dataset, builtin_dataset
from dubito.experiments.models.linear import Linear
from dubito.experiments.plan import Arm, Data, Experiment, Schedule
from dubito.experiments.records import Round
from dubito.experiments.rounds import SeedData, labeled_at, prepare_seed, training_set
from dubito.experiments.runner import run_experiment
from dubito.matrix import AnyArray, FloatArray, IntArray
from dubito.paper.study import Verdict, picks_by_turn
from dubito.paper.toys import feature_pool
from dubito.request.arrays import check_integer

# Figure 7: the lower bound on β as a function of δ for several doubts z, and its limits.


@dataclass(frozen=True, slots=True)
class BetaStudy:
    """The bound at each doubt of ``z`` for δ from 0 to ``furthest``, with fixed Lipschitz constants."""

    z: tuple[float, ...] = (0.01, 0.1, 0.25, 0.5, 0.75, 0.9)
    furthest: float = 3.0
    points: int = 601
    lambda_c: float = 1.0
    lambda_epsilon: float = 1.0

    def measure(self, seed: int) -> "Beta":
        """Compute the bound; the seed is not used."""
        deltas = np.linspace(0.0, self.furthest, self.points)
        z = np.array(self.z, dtype=np.float64)
        slices = theory.scaled_beta_lower_bound(deltas, z[:, None], self.lambda_c, self.lambda_epsilon)
        stars = theory.delta_star(z, self.lambda_c, self.lambda_epsilon)
        return Beta(deltas, z, slices, stars, self.lambda_c, self.lambda_epsilon)


@dataclass(frozen=True, slots=True, eq=False)
class Beta:
    """The bound and δ* for each doubt, and the constants."""

    deltas: FloatArray
    z: FloatArray
    slices: FloatArray
    """(len(z), len(deltas)) the lower bound."""
    stars: FloatArray
    """(len(z),) δ*, beyond which the theory says nothing."""
    lambda_c: float
    lambda_epsilon: float

    def verdict(self) -> Verdict:
        """The bound and δ* fall with doubt, the bound is 0 at δ = 0 and from δ* on, and the limits of z are correct."""
        error_0, error_1 = self._limit_errors()
        peaks = self.slices.max(axis=1)
        shape = [
            bool((np.diff(self.slices, axis=0) <= 1e-12).all()),
            bool((np.diff(self.stars) < 0.0).all()),
            bool((self.slices[:, 0] == 0.0).all()),
            bool((self.slices[self.deltas[None] >= self.stars[:, None]] < 1e-9).all()),
        ]
        numbers = {
            "largest β at the least doubt": float(peaks[0]),
            "largest β at the most doubt": float(peaks[-1]),
            "δ* at the least doubt": float(self.stars[0]),
            "δ* at the most doubt": float(self.stars[-1]),
            "error of the limit z → 0": error_0,
            "error of the limit z → 1": error_1,
        }
        sentence = (
            f"β's bound peaks at {peaks[0]:.2f} for doubt {self.z[0]:g} and at {peaks[-1]:.3f} for doubt "
            f"{self.z[-1]:g}, δ* falls from {self.stars[0]:.2f} to {self.stars[-1]:.2f}, and the bound is 0 at δ = 0 "
            f"and past δ*; the limits z → 0 and z → 1 are met to {error_0:.0e} and {error_1:.0e}"
        )
        return Verdict(all(shape) and error_0 < 1e-6 and error_1 < 1e-6, numbers, sentence)

    def _limit_errors(self) -> tuple[float, float]:
        """How far β and δ* at z = 1e-9 and at z = 1 - 1e-9 are from their limits, which are derived by hand."""
        inside = self.deltas[self.deltas > 0.0]
        root = np.sqrt(self.lambda_c * self.lambda_epsilon)
        by_hand = np.clip(1.0 - (inside * root / np.e) ** (2.0 * inside), 0.0, 1.0)
        constants = self.lambda_c, self.lambda_epsilon
        at_0, at_1 = (theory.scaled_beta_lower_bound(inside, z, *constants) for z in (1e-9, 1 - 1e-9))
        star_0, star_1 = theory.delta_star([1e-9, 1.0 - 1e-9], *constants)
        error_0 = max(float(np.abs(at_0 - by_hand).max()), abs(float(star_0) - np.e / root))
        error_1 = max(float(np.abs(at_1).max()), abs(float(star_1) - 1.0 / root))
        return error_0, error_1


# The discussion's claim: scaling gains most where δ is small, with δ·λ_c < 1, but not yet near 0.

PLAIN, SCALED = "coreset", "doubt-coreset"


@dataclass(frozen=True, slots=True)
class DiscussionStudy:
    """scikit-learn's digits with a linear probe, from a few labels to most of them."""

    initial: int = 20
    batch: int = 40
    rounds: int = 24
    seeds: int = 10

    def __post_init__(self) -> None:
        for name in ("initial", "batch", "rounds", "seeds"):
            check_integer(name, getattr(self, name), least=1)

    def measure(self, seed: int) -> "Discussion":
        """Take δ from the records; bound λ_c from above by the head, and from below by the doubts of the pool."""
        schedule = Schedule(initial=self.initial, budget=self.batch, rounds=self.rounds, from_scratch=True)
        seeds = tuple(range(seed, seed + self.seeds))
        plan = Experiment("discussion", (Arm(PLAIN), Arm(SCALED)), Data(), schedule, Linear(), seeds=seeds)
        data = builtin_dataset("digits", seed)
        with TemporaryDirectory() as folder:
            rounds = run_experiment(plan, Path(folder), dataset=data)
        slopes = np.array([slopes_of(plan, data, rounds, each) for each in plan.seeds])
        return Discussion(
            labels=plan.schedule.labels,
            gains=_table(rounds, SCALED, plan.seeds, "test_accuracy")
            - _table(rounds, PLAIN, plan.seeds, "test_accuracy"),
            delta=_table(rounds, PLAIN, plan.seeds, "radius"),
            by_data=slopes[:, :, 0],
            by_head=slopes[:, :, 1],
        )


@dataclass(frozen=True, slots=True, eq=False)
class Discussion:
    """Gain, δ and both bounds on λ_c, for each seed (rows) and number of labels (columns)."""

    labels: IntArray
    gains: FloatArray
    """Accuracy of the scaled core-set, less the plain one's."""
    delta: FloatArray
    by_data: FloatArray
    """λ_c is at least this."""
    by_head: FloatArray
    """λ_c is at most this."""

    def verdict(self) -> Verdict:
        """The largest mean gain must lie where δ·λ_c < 1 for sure, with larger and smaller δ around it."""
        gains, peak = self.gains.mean(axis=0), int(self.gains.mean(axis=0).argmax())
        lower, upper = ((self.delta * slope).mean(axis=0) for slope in (self.by_data, self.by_head))
        is_between = 0 < peak < len(gains) - 1
        regime = "< 1" if upper[peak] < 1 else ">= 1" if lower[peak] >= 1 else "not decided against 1"
        numbers = {
            "labels at the largest gain": float(self.labels[peak]),
            "largest gain": float(gains[peak]),
            "gain in the end": float(gains[-1]),
            "δ at the largest gain": float(self.delta.mean(axis=0)[peak]),
            "δ·λ_c there, at least": float(lower[peak]),
            "δ·λ_c there, at most": float(upper[peak]),
            "least δ·λ_c of all turns, at least": float(lower.min()),
        }
        sentence = (
            f"the gain is largest at {self.labels[peak]:,} labels ({100 * gains[peak]:+.1f} points, δ = "
            f"{numbers['δ at the largest gain']:.2f}) and {100 * gains[-1]:+.1f} at {self.labels[-1]:,}: "
            f"{'largest in between' if is_between else 'largest at an end'}; but δ·λ_c there is between "
            f"{lower[peak]:.2g} and {upper[peak]:.2g}, so {regime}"
        )
        return Verdict(is_between and bool(upper[peak] < 1), numbers, sentence)


def slopes_of(plan: Experiment, data: Dataset, rounds: Sequence[Round], seed: int) -> FloatArray:
    """(turns, 2) λ_c by the data and by the head, at each turn of the plain core-set; its models are trained again."""
    seed_data = prepare_seed(plan, data, seed)
    picks = [np.array(rows, dtype=np.int64) for rows in picks_by_turn(rounds, PLAIN, seed)]
    return np.array([_slopes(plan, seed_data, picks, turn) for turn in range(plan.schedule.rounds + 1)])


def _slopes(plan: Experiment, seed_data: SeedData, picks: Sequence[IntArray], turn: int) -> tuple[float, float]:
    train_set = training_set(seed_data, labeled_at(seed_data, picks, turn), turn, {})
    model = plan.model.fit(train_set)
    doubt = doubt_from_probabilities(model.predict_proba(seed_data.data.features))
    radii = core_set_radii(seed_data.data.features, train_set.features)
    is_apart = radii > 0.0
    by_data = float((doubt[is_apart] / radii[is_apart]).max(initial=0.0))
    return by_data, theory.head_lipschitz(two_rows(model.state["coef"]))


def two_rows(head: AnyArray) -> AnyArray:
    """The head with a row of zeros for the first class if it is binary, with one row."""
    return np.vstack([np.zeros_like(head), head]) if len(head) == 1 else head


def _table(rounds: Sequence[Round], strategy: str, seeds: Sequence[int], field: str) -> FloatArray:
    """(seeds, turns) the values of a field of the records."""
    rows = [[each for each in rounds if each.strategy == strategy and each.seed == seed] for seed in seeds]
    ordered = [sorted(row, key=lambda each: each.turn) for row in rows]
    return np.array([[float(getattr(each, field)) for each in row] for row in ordered])


# The timing statement: time for a core-set of 5,000 with 5,000 to 15,000 labeled points, and for more picks.

NAMES = ("coreset", "doubt-coreset")
PAPER_SIZES, PAPER_SECONDS = (5_000, 15_000), (25.0, 50.0)
"""Core-set sizes and the seconds they took on the paper's NVIDIA Titan."""


@dataclass(frozen=True, slots=True)
class TimingStudy:
    """Times of ``budget`` picks from a generated pool of ``n`` × ``d``, with each of ``sizes`` labeled."""

    n: int = 50_000
    """Labeled and unlabeled points together."""
    d: int = 512
    budget: int = 5_000
    sizes: tuple[int, ...] = (5_000, 10_000, 15_000)
    repeats: int = 3
    budgets: tuple[int, ...] = ()
    """Numbers of picks with the first of ``sizes`` labeled: the other possible meaning of "core-set sizes"."""
    engine: str = "cpu"
    """The engine of all runs; ``"auto"`` is the one chosen for the largest run."""

    def __post_init__(self) -> None:
        for name in ("n", "d", "budget", "repeats"):
            check_integer(name, getattr(self, name), least=1)

    def measure(self, seed: int) -> "Timing":
        """Time all sizes and strategies in turn, after a warm-up, so that other load affects all equally."""
        pool, probabilities = feature_pool(seed, self.n, self.d)
        runs = [(size, self.budget) for size in self.sizes] + [(self.sizes[0], budget) for budget in self.budgets]
        engine = self._choose_engine(pool, probabilities, runs)
        for name in NAMES:
            _time(pool, probabilities, name, self.sizes[0], min(50, self.budget), engine)
        seconds = {name: np.empty((len(runs), self.repeats)) for name in NAMES}
        for turn in range(self.repeats):
            for at, (size, budget) in enumerate(runs):
                for name, times in seconds.items():
                    times[at, turn] = _time(pool, probabilities, name, size, budget, engine)
        n_sizes = len(self.sizes)
        return Timing(
            sizes=np.array(self.sizes, dtype=np.int64),
            seconds={name: times[:n_sizes] for name, times in seconds.items()},
            n=self.n,
            d=self.d,
            budget=self.budget,
            budgets=np.array(self.budgets, dtype=np.int64),
            picking={name: times[n_sizes:] for name, times in seconds.items()},
            engine=engine,
        )

    def _choose_engine(self, pool: AnyArray, probabilities: FloatArray, runs: list[tuple[int, int]]) -> str:
        if self.engine != "auto":
            return self.engine
        size, budget = max(runs, key=lambda each: (self.n - each[0]) * sum(each))
        picked = select(pool, budget, labeled=np.arange(size), probabilities=probabilities, strategy=NAMES[0])
        return str(picked.engine)


def _time(pool: AnyArray, probabilities: FloatArray, name: str, size: int, budget: int, engine: str) -> float:
    started = time.perf_counter()
    select(pool, budget, labeled=np.arange(size), probabilities=probabilities, strategy=name, engine=engine)
    return time.perf_counter() - started


@dataclass(frozen=True, slots=True, eq=False)
class Timing:
    sizes: IntArray
    seconds: dict[str, FloatArray]
    """(sizes, repeats) for each strategy."""
    n: int
    d: int
    budget: int
    budgets: IntArray = field(default_factory=lambda: np.empty(0, dtype=np.int64))
    picking: dict[str, FloatArray] = field(default_factory=dict)
    """(budgets, repeats) for each strategy, with the first of the sizes labeled."""
    engine: str = "cpu"
    """The engine of all runs."""

    @property
    def device(self) -> str:
        return "GPU" if self.engine == "cuda" else "CPU"

    def verdict(self) -> Verdict:
        """The fastest runs take no longer than in the paper and at most linear time; scaling adds at most 10%."""
        plain, scaled = (self.seconds[name].min(axis=1) for name in NAMES)
        cost_ratio = float((scaled / plain).max())
        is_quick = _is_quick(self.sizes, self.seconds) and _is_quick(self.budgets, self.picking)
        is_linear = _is_linear(self.sizes, self.seconds) and _is_linear(self.budgets, self.picking)
        pairs = zip(self.sizes, plain, scaled, strict=True)
        numbers = {
            f"seconds at {size:,} labelled, {name}": float(value)
            for size, *both in pairs
            for name, value in zip(("core-set", "scaled"), both, strict=True)
        }
        numbers["scaled over plain"] = cost_ratio
        sentence = (
            f"{self.budget:,} picks from {self.n:,} × {self.d} take {_span(scaled)} scaled and {_span(plain)} plain "
            f"with {self.sizes[0]:,} to {self.sizes[-1]:,} labeled, on this {self.device} (the paper: 25 to 50 s on a "
            f"Titan); scaling costs {cost_ratio:.2f} times the plain core-set at most{self._picks_described()}"
        )
        return Verdict(is_quick and is_linear and cost_ratio <= 1.1, numbers | self._picks_numbers(), sentence)

    def _picks_described(self) -> str:
        if not len(self.budgets):
            return ""
        plain, scaled = (self.picking[name].min(axis=1) for name in NAMES)
        return (
            f"; {self.budgets[0]:,} to {self.budgets[-1]:,} picks with {self.sizes[0]:,} labeled take {_span(scaled)} "
            f"scaled and {_span(plain)} plain"
        )

    def _picks_numbers(self) -> dict[str, float]:
        return {
            f"seconds for {budget:,} picks, {shown}": float(self.picking[name][at].min())
            for at, budget in enumerate(self.budgets)
            for name, shown in zip(NAMES, ("core-set", "scaled"), strict=True)
        }


def _span(seconds: FloatArray) -> str:
    """The first and the last value as text."""
    if seconds[-1] < 1.0:
        return f"{1e3 * seconds[0]:.0f} to {1e3 * seconds[-1]:.0f} ms"
    return f"{seconds[0]:.2f} to {seconds[-1]:.2f} s"


def _is_quick(sizes: IntArray, seconds: Mapping[str, FloatArray]) -> bool:
    """Whether no size takes longer than in the paper."""
    limits = np.interp(sizes, PAPER_SIZES, PAPER_SECONDS)
    return all(bool((times.min(axis=1) <= limits).all()) for times in seconds.values() if len(sizes))


def _is_linear(sizes: IntArray, seconds: Mapping[str, FloatArray]) -> bool:
    """Whether time grows at most linearly with the size."""
    fastest = [times.min(axis=1) for times in seconds.values() if len(sizes)]
    return all(bool(each[-1] / each[0] <= sizes[-1] / sizes[0]) for each in fastest)
