"""Shared by all studies: verdicts on claims, and active learning on toy data."""

import warnings
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Protocol

from dubito.experiments.data import Dataset
from dubito.experiments.models.linear import Sklearn
from dubito.experiments.plan import Arm, Data, Experiment, Schedule
from dubito.experiments.records import Round
from dubito.experiments.runner import run_experiment


@dataclass(frozen=True, slots=True)
class Verdict:
    """Whether a claim of the paper held in a measurement.

    Examples
    --------
    >>> result = Verdict(True, {"greedy": 1.4, "optimal": 1.0}, "greedy stays under twice the optimum")
    >>> str(result)
    'holds: greedy stays under twice the optimum'
    >>> str(Verdict(True, {}, "above random", scope="CIFAR-10 alone"))
    'holds (CIFAR-10 alone): above random'
    """

    holds: bool
    numbers: Mapping[str, float]
    """Measured values by name."""
    sentence: str
    """The result in words."""
    scope: str | None = None
    """What was measured, if that is only a part of what the claim names."""

    @property
    def outcome(self) -> str:
        return outcome_of(self.holds, self.scope)

    def __str__(self) -> str:
        return f"{self.outcome}: {self.sentence}"


def outcome_of(holds: bool, scope: str | None) -> str:
    """The outcome in a few words, limited to what was measured.

    Examples
    --------
    >>> outcome_of(True, None), outcome_of(False, "SVHN alone")
    ('holds', 'does not hold (SVHN alone)')
    """
    return ("holds" if holds else "does not hold") + (f" ({scope})" if scope else "")


class Finding(Protocol):
    """The result of a study: the data of a plot, and the verdict on the claim."""

    def verdict(self) -> Verdict:
        """Check the claim on these data."""


class Study(Protocol):
    """Measures an exhibit: a frozen dataclass of parameters."""

    def measure(self, seed: int) -> Finding:
        """The same seed gives the same finding, except for times."""


# Active learning on toy data, with the small network that the paper uses for it.

ITERATIONS = 200
"""Maximum number of L-BFGS iterations; enough to fit the labels."""
EXPLOITIVE = "probabilistic-coreset:exploit"
"""Name of the exploitive variant of the appendix in records and plots."""


def run_arms(
    data: Dataset, arms: Sequence[Arm], schedule: Schedule, seeds: Sequence[int], iterations: int = ITERATIONS
) -> list[Round]:
    """All rounds of all arms and seeds. Seeds share the data, but not the initial labels and weights.

    The model has two hidden layers of 64, and is trained from scratch in each round.
    """
    options = {"hidden_layer_sizes": (64, 64), "solver": "lbfgs", "max_iter": iterations, "alpha": 1e-3}
    model = Sklearn("sklearn.neural_network.MLPClassifier", options)
    plan = Experiment(data.name, tuple(arms), Data(standardize=True), schedule, model, seeds=tuple(seeds))
    with TemporaryDirectory() as folder, warnings.catch_warnings():
        # The weights after the last iteration are used even if training has not converged.
        warnings.filterwarnings("ignore", message="lbfgs failed to converge")
        return run_experiment(plan, Path(folder), dataset=data)


def picks_by_turn(rounds: Sequence[Round], strategy: str, seed: int) -> list[tuple[int, ...]]:
    """The rows that a strategy picked with a seed, turn by turn."""
    run = [each for each in rounds if each.strategy == strategy and each.seed == seed and each.picked]
    return [each.picked for each in sorted(run, key=lambda each: each.turn)]
