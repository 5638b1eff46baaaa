"""The discussion's claim: scaling gains most where δ is small, with δ·λ_c < 1, but not yet near 0."""

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from tempfile import TemporaryDirectory

import numpy as np

from dubito import theory
from dubito.core.distances import core_set_radii
from dubito.doubt import doubt_from_probabilities
from dubito.experiments.built_in_data import builtin_dataset
from dubito.experiments.data import Dataset
from dubito.experiments.models.linear import Linear
from dubito.experiments.plan import Arm, Data, Experiment, Schedule
from dubito.experiments.records import Round
from dubito.experiments.rounds import SeedData, labeled_at, lesson_on, prepare_seed
from dubito.experiments.runner import run_experiment
from dubito.matrix import AnyArray, FloatArray, IntArray
from dubito.paper.learning import picks_of
from dubito.paper.verdicts import Verdict
from dubito.request.arrays import check_integer

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
        """δ is the record's; λ_c is bounded by the head, from above, and by the pool's doubts, from below."""
        plan = self._plan(seed)
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

    def _plan(self, seed: int) -> Experiment:
        schedule = Schedule(initial=self.initial, budget=self.batch, rounds=self.rounds, from_scratch=True)
        seeds = tuple(range(seed, seed + self.seeds))
        return Experiment("discussion", (Arm(PLAIN), Arm(SCALED)), Data(), schedule, Linear(), seeds=seeds)


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
        least, most = ((self.delta * slope).mean(axis=0) for slope in (self.by_data, self.by_head))
        is_between = 0 < peak < len(gains) - 1
        regime = "< 1" if most[peak] < 1 else ">= 1" if least[peak] >= 1 else "not decided against 1"
        numbers = {
            "labels at the largest gain": float(self.labels[peak]),
            "largest gain": float(gains[peak]),
            "gain in the end": float(gains[-1]),
            "δ at the largest gain": float(self.delta.mean(axis=0)[peak]),
            "δ·λ_c there, at least": float(least[peak]),
            "δ·λ_c there, at most": float(most[peak]),
            "least δ·λ_c of all turns, at least": float(least.min()),
        }
        sentence = (
            f"the gain is largest at {self.labels[peak]:,} labels ({100 * gains[peak]:+.1f} points, δ = "
            f"{numbers['δ at the largest gain']:.2f}) and {100 * gains[-1]:+.1f} at {self.labels[-1]:,}: "
            f"{'largest in between' if is_between else 'largest at an end'}; but δ·λ_c there is between "
            f"{least[peak]:.2g} and {most[peak]:.2g}, so {regime}"
        )
        return Verdict(is_between and bool(most[peak] < 1), numbers, sentence)


def slopes_of(plan: Experiment, data: Dataset, rounds: Sequence[Round], seed: int) -> FloatArray:
    """(turns, 2) λ_c by the data and by the head, at each turn of the plain core-set; its models are trained again."""
    seed_data = prepare_seed(plan, data, seed)
    asked = [np.array(rows, dtype=np.int64) for rows in picks_of(rounds, PLAIN, seed)]
    return np.array([_slopes(plan, seed_data, asked, turn) for turn in range(plan.schedule.rounds + 1)])


def _slopes(plan: Experiment, seed_data: SeedData, asked: Sequence[IntArray], turn: int) -> tuple[float, float]:
    lesson = lesson_on(seed_data, labeled_at(seed_data, asked, turn), turn, {})
    model = plan.model.fit(lesson)
    doubt = doubt_from_probabilities(model.predict_proba(seed_data.data.features))
    radii = core_set_radii(seed_data.data.features, lesson.features)
    apart = radii > 0.0
    by_data = float((doubt[apart] / radii[apart]).max(initial=0.0))
    return by_data, theory.head_lipschitz(two_rows(model.state["coef"]))


def two_rows(head: AnyArray) -> AnyArray:
    """A binary head's one row of weights beside the zero row it stands against."""
    return np.vstack([np.zeros_like(head), head]) if len(head) == 1 else head


def _table(rounds: Sequence[Round], strategy: str, seeds: Sequence[int], field: str) -> FloatArray:
    """(seeds, turns) of one number of the records."""
    rows = [[each for each in rounds if each.strategy == strategy and each.seed == seed] for seed in seeds]
    ordered = [sorted(row, key=lambda each: each.turn) for row in rows]
    return np.array([[float(getattr(each, field)) for each in row] for row in ordered])
