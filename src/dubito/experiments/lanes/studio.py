"""The studio: an experiment's data on the device, its network in two forms, and lanes to train in."""

import warnings
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from dubito.experiments.cells.stage import Stage
from dubito.experiments.chance import draw
from dubito.experiments.lanes.lane import WARM_UP, Bank, Lane, train_side_by_side
from dubito.experiments.lanes.reading import LaneView, read_all
from dubito.experiments.models.networks.learner import Learner
from dubito.experiments.models.networks.network import Trainable
from dubito.experiments.models.networks.refusals import check_converged
from dubito.experiments.models.networks.split import Split, Weights, state_of
from dubito.experiments.models.networks.steps import Steps, n_steps
from dubito.experiments.plans.experiment import Experiment
from dubito.matrix import IntArray

if TYPE_CHECKING:
    import torch

LANES = 20
"""Networks trained at once: on an H200 twenty of VGG16 ran faster than ten, and than 35."""
WORTH_COMPILING = 5_000_000
"""Rows a run has to train on before compiling, which takes some 20 seconds, pays."""


@dataclass(frozen=True, slots=True, eq=False)
class Assignment:
    """A network to train for a turn."""

    seed: int
    turn: int
    rows: IntArray
    """The labelled rows of the seed's data, ascending."""
    weights: Weights | None
    """What the turn before left; None to begin anew."""


class Studio:
    """Where the cells of an experiment are trained and read."""

    def __init__(self, experiment: Experiment, model: Trainable, stages: Mapping[int, Stage], n_cells: int) -> None:
        import torch

        self.model, self.training = model, model.training
        self.stages = stages
        self.n_classes = len(next(iter(stages.values())).data.classes)
        self.bank = Bank({seed: stage.data for seed, stage in stages.items()}, self.training.device)
        kept = {id(stage.data.test_features): stage.data.test_features for stage in stages.values()}
        tests = {key: torch.from_numpy(np.array(each)).to(self.training.device) for key, each in kept.items()}
        self.tests = {seed: tests[id(stage.data.test_features)] for seed, stage in stages.items()}
        self.network = model.network(self.n_classes, next(iter(stages)))
        splits = {
            is_training: Split(self.network, model.head, self.training, is_training=is_training)
            for is_training in (True, False)
        }
        splits[False].check(self.network, self.bank.rows[:2], self.n_classes)
        is_long = n_cells * rows_trained(experiment, model) >= WORTH_COMPILING
        is_compiled = self.training.is_on_gpu and is_long
        self.learn, self.read = (
            torch.compile(splits[each].__call__) if is_compiled else splits[each] for each in (True, False)
        )
        self.capacity = max(
            n_steps(int(labels), epochs, self.training.batch)
            for labels in experiment.schedule.labels
            for epochs in (self.training.epochs, self.training.later_epochs)
        )
        self.lanes: list[Lane] = []

    def train(self, assignments: Sequence[Assignment]) -> list[dict[str, "torch.Tensor"]]:
        """The weights that each assignment ends with; all must have as many labels."""
        trained: list[dict[str, torch.Tensor]] = []
        n_groups = -(-len(assignments) // LANES)
        for group in np.array_split(np.arange(len(assignments)), max(n_groups, 1)) if assignments else ():
            trained += self._train([assignments[place] for place in group])
        return trained

    def _train(self, group: Sequence[Assignment]) -> list[dict[str, "torch.Tensor"]]:
        while len(self.lanes) < len(group):
            self.lanes.append(Lane(self._learner()))
        lanes = self.lanes[: len(group)]
        for lane, each in zip(lanes, group, strict=True):
            rows = each.rows + self.bank.start[each.seed]
            chance = draw(each.seed, "batches", each.turn)
            steps = Steps(rows, self.training, is_first=each.weights is None, seed=chance)
            lane.begin(self.first_weights(each.seed) if each.weights is None else each.weights, steps)
        with seeded(draw(group[0].seed, "weights", 1, group[0].turn), self.training.device):
            train_side_by_side(lanes, steps.count)
        trained = [lane.finish() for lane in lanes]
        for weights, each in zip(trained, group, strict=True):
            learned = [weights[name] for name, _ in self.network.named_parameters(remove_duplicate=False)]
            check_converged(learned, each.turn, self.training.learning_rate)
        return trained

    def _learner(self) -> Learner:
        """With room for the longest turn, and for the steps that a lane tries out."""
        capacity = max(self.capacity, WARM_UP + 1)
        return Learner(self.network, self.learn, self.bank.rows, self.bank.labels, self.training, capacity)

    def first_weights(self, seed: int) -> Weights:
        """What a seed's cells begin with."""
        return state_of(self.model.network(self.n_classes, seed).to(self.training.device))

    def look(self, assignment: Assignment, weights: Weights) -> LaneView:
        """What a network makes of the data it was trained on a part of."""
        seed = assignment.seed
        n = len(self.stages[seed].data.labels)
        return read_all(self.read, weights, self.bank.of(seed, n), self.tests[seed], assignment.rows)


def rows_trained(experiment: Experiment, model: Trainable) -> int:
    """Rows that a cell is trained on in all its turns, counting each time."""
    first, *later = (int(labels) for labels in experiment.schedule.labels)
    training = model.training
    epochs = training.epochs if experiment.schedule.from_scratch else training.later_epochs
    return training.epochs * first + epochs * sum(later)


@contextmanager
def seeded(seed: int, device: str) -> Iterator[None]:
    """Dropout and its like drawn by the seed; torch's generators as before afterwards."""
    import torch

    with torch.random.fork_rng([] if device == "cpu" else [torch.device(device)]):
        torch.manual_seed(seed)
        yield


@contextmanager
def tuned() -> Iterator[None]:
    """Let the library of convolutions try its algorithms and keep the fastest; as before afterwards."""
    import torch

    before = torch.backends.cudnn.benchmark
    torch.backends.cudnn.benchmark = True
    with warnings.catch_warnings():
        # Torch's compiler advises less exact products, which are the user's to choose, and imports deprecated parts.
        warnings.filterwarnings("ignore", "TensorFloat32")
        warnings.filterwarnings("ignore", "`torch.jit", DeprecationWarning)
        try:
            yield
        finally:
            torch.backends.cudnn.benchmark = before
