"""What the studies share: a verdict on a claim, and rounds of active learning on a toy."""

import warnings
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Protocol

from dubito.experiments.data import Dataset
from dubito.experiments.models.base import Model
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
    """What was measured, by name."""
    sentence: str
    """The outcome in words, whichever way it went."""
    scope: str | None = None
    """What was measured, where that is only a part of what the claim names."""

    @property
    def outcome(self) -> str:
        """Whether it held, and on what part of the claim."""
        return outcome_of(self.holds, self.scope)

    def __str__(self) -> str:
        return f"{self.outcome}: {self.sentence}"


def outcome_of(holds: bool, scope: str | None) -> str:
    """An outcome in a few words, which never claims more than was measured.

    Examples
    --------
    >>> outcome_of(True, None), outcome_of(False, "SVHN alone")
    ('holds', 'does not hold (SVHN alone)')
    """
    return ("holds" if holds else "does not hold") + (f" ({scope})" if scope else "")


class Finding(Protocol):
    """The data of a picture, which knows what it says about the claim."""

    def verdict(self) -> Verdict:
        """Check the claim on these data alone."""
        ...


class Study(Protocol):
    """A frozen dataclass of parameters that can be measured."""

    def measure(self, seed: int) -> Finding:
        """The same seed gives the same finding, times apart."""
        ...


# Rounds of active learning on a toy, with the small network that the paper's toys are learned by.

ITERATIONS = 200
"""Steps of L-BFGS at most, enough to fit the labels."""
EXPLOITIVE = "probabilistic-coreset:exploit"
"""What pictures call the appendix's exploitive form."""


def network(iterations: int = ITERATIONS) -> Model:
    """Two hidden layers of 64, trained from scratch each round: the toys have two features."""
    options = {"hidden_layer_sizes": (64, 64), "solver": "lbfgs", "max_iter": iterations, "alpha": 1e-3}
    return Sklearn("sklearn.neural_network.MLPClassifier", options)


def learn(
    data: Dataset, arms: Sequence[Arm], schedule: Schedule, seeds: Sequence[int], iterations: int = ITERATIONS
) -> list[Round]:
    """Every round of every arm and seed; the same data, other first labels and weights for each seed."""
    model = network(iterations)
    plan = Experiment(data.name, tuple(arms), Data(standardize=True), schedule, model, seeds=tuple(seeds))
    with TemporaryDirectory() as folder, warnings.catch_warnings():
        # A network that stops at its last iteration is a model like any other.
        warnings.filterwarnings("ignore", message="lbfgs failed to converge")
        return run_experiment(plan, Path(folder), dataset=data)


def picks_of(rounds: Sequence[Round], strategy: str, seed: int) -> list[tuple[int, ...]]:
    """What a strategy asked for under one seed, turn by turn."""
    played = [each for each in rounds if each.strategy == strategy and each.seed == seed and each.picked]
    return [each.picked for each in sorted(played, key=lambda each: each.turn)]
