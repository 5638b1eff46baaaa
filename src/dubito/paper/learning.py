"""Rounds of active learning on a toy, with the small network that the paper's toys are learned by."""

import warnings
from collections.abc import Sequence
from pathlib import Path
from tempfile import TemporaryDirectory

from dubito.experiments.data import Dataset
from dubito.experiments.models.base import Model
from dubito.experiments.models.linear import Sklearn
from dubito.experiments.plan import Arm, Data, Experiment, Schedule
from dubito.experiments.records import Round
from dubito.experiments.runner import run_experiment

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
