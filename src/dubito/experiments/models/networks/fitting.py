"""One network trained alone, on a CPU or a GPU, and asked."""

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from dubito.doubt import softmax
from dubito.experiments.chance import draw
from dubito.experiments.models.base import Lesson, State, flat
from dubito.experiments.models.networks.devices import steady
from dubito.experiments.models.networks.inputs import on_device
from dubito.experiments.models.networks.learner import Learner
from dubito.experiments.models.networks.refusals import check_converged
from dubito.experiments.models.networks.split import Split, Weights, state_of
from dubito.experiments.models.networks.steps import Steps
from dubito.experiments.models.networks.training import Training
from dubito.matrix import AnyArray, FloatArray

if TYPE_CHECKING:
    import torch

READ_ROWS = 1024
"""Rows that go through a network at once when it only answers."""


@dataclass(frozen=True, slots=True, eq=False)
class NetworkFit:
    """A trained network, which answers in blocks of rows."""

    split: Split
    weights: Weights
    moves: bool
    """Whether features are what goes into the head; else they are the network's own inputs."""

    @property
    def state(self) -> State:
        """Every weight and buffer by its name."""
        return as_state(self.weights)

    def predict_proba(self, features: AnyArray) -> FloatArray:
        """(n, c) softmax of the logits, in float64."""
        return softmax(self._read(features)[1])

    def embed(self, features: AnyArray) -> AnyArray:
        """(n, e) inputs of the head, or the features themselves."""
        return self._read(features)[0] if self.moves else flat(features)

    def _read(self, features: AnyArray) -> tuple[AnyArray, AnyArray]:
        """What goes into the head, and the logits, of every row."""
        import torch

        device, seen, said = self.split.device, list[AnyArray](), list[AnyArray]()
        with steady(0, device), torch.no_grad():
            for start in range(0, len(features), READ_ROWS):
                body, logits = self.split(self.weights, on_device(features[start : start + READ_ROWS], device))
                seen.append(body.flatten(1).cpu().numpy())
                said.append(logits.cpu().numpy())
        return np.concatenate(seen), np.concatenate(said)


def train(network: "torch.nn.Module", head: str, training: Training, lesson: Lesson, *, moves: bool) -> NetworkFit:
    """Train a network on a lesson, from the weights the lesson brings or from its own.

    The steps are those of a lane (`Steps`), so that a turn means the same on every device.
    """
    network.to(training.device)
    rows, labels = on_device(lesson.features, training.device), on_device(lesson.labels, training.device)
    chance = draw(lesson.seed, "batches", lesson.turn)
    steps = Steps(np.arange(len(lesson.labels)), training, is_first=not lesson.state, seed=chance)
    split = Split(network, head, training, is_training=True)
    learner = Learner(network, split, rows, labels, training, steps.count)
    learner.begin(as_weights(lesson.state, training.device) if lesson.state else state_of(network), steps)
    for _ in range(steps.count):
        learner.step()
    check_converged(learner.learned, lesson.turn, training.learning_rate)
    return NetworkFit(Split(network, head, training, is_training=False), learner.finish(), moves)


def as_state(weights: Weights) -> State:
    """Weights as a checkpoint holds them."""
    return {name: each.detach().cpu().contiguous().numpy() for name, each in weights.items()}


def as_weights(state: State, device: str) -> Weights:
    """Weights out of a checkpoint, on the device."""
    return {name: on_device(array, device) for name, array in state.items()}
