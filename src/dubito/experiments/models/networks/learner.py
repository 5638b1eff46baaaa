"""One network in training: weights of its own, Adam, and a step that finds all it needs on the device.

Every network is trained by this class, alone (`train`) or beside others on a GPU: what
a step means is written here once.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from dubito.doubt import softmax
from dubito.errors import DubitoError, InvalidArgument, InvalidData
from dubito.experiments.models.base import Lesson, State, flat
from dubito.experiments.models.networks.refusals import (
    check_converged,
    check_form,
    check_head,
    check_learning,
    check_network,
    copied,
    whole_state,
)
from dubito.experiments.models.networks.training import Steps, Training, color_units, normalized, on_device, steady
from dubito.experiments.seeds import draw
from dubito.matrix import AnyArray, FloatArray

if TYPE_CHECKING:
    import torch

# A network in two parts, the body that makes features and the head that makes logits of them, without weights.
#
# The weights are handed in with every call, so that one compiled function serves every network of an experiment.

Weights = Mapping[str, "torch.Tensor"]
"""Parameters and buffers of a whole network, by their names."""


class Split:
    """Features and logits of a batch: the body in the training's precision, the head in float32.

    Examples
    --------
    >>> import torch
    >>> network = torch.nn.Sequential(torch.nn.Linear(2, 3), torch.nn.Linear(3, 4))
    >>> split = Split(network, "1", Training(1, 1, 0.1, False, 8, "cpu"), is_training=False)
    >>> features, logits = split(dict(network.state_dict()), torch.ones(5, 2))
    >>> features.shape, torch.equal(logits, network(torch.ones(5, 2)))
    (torch.Size([5, 3]), True)
    """

    def __init__(self, network: "torch.nn.Module", head: str, training: Training, *, is_training: bool) -> None:
        import torch

        check_form(network)
        self.head_name = head
        self.body = copied(network).to(training.device).train(is_training)
        self.head = self.body.get_submodule(head)
        for module in list(self.body.modules()):
            for name, child in list(vars(module)["_modules"].items()):
                if child is self.head:  # It may have two names.
                    setattr(module, name, torch.nn.Identity())
        self.of_body = list({id(each): name for name, each in reversed(whole_state(self.body).items())}.values())
        """Names of what the body holds, one where several share a tensor."""
        self.device, self.batch = training.device, training.batch
        self.is_narrow = training.stated_precision == "bfloat16"
        self.units = color_units(self.device)

    def __call__(self, weights: Weights, rows: "torch.Tensor") -> "tuple[torch.Tensor, torch.Tensor]":
        """(b, ...) features and (b, c) logits, both float32, of rows as the data has them."""
        import torch

        own = self.head_name + "."
        of_head = {name.removeprefix(own): each for name, each in weights.items() if name.startswith(own)}
        of_body = {name: weights[name] for name in self.of_body}
        given = normalized(rows, *self.units) if rows.dtype == torch.uint8 else rows.float()
        with torch.autocast(self.device.partition(":")[0], torch.bfloat16, enabled=self.is_narrow):
            features = torch.func.functional_call(self.body, of_body, (given,))
        features = features.float()
        return features, torch.func.functional_call(self.head, of_head, (features,))

    def check(self, network: "torch.nn.Module", rows: "torch.Tensor", n_classes: int) -> None:
        """Refuse a network that gives no logits or cannot be trained, and a head whose output is not the logits."""
        try:
            self._check(network, rows, n_classes)
        except DubitoError:
            raise
        except Exception as error:
            raise InvalidArgument(
                f"the network cannot be used: {type(error).__name__}: {error}. Fix the network."
            ) from error

    def _check(self, network: "torch.nn.Module", rows: "torch.Tensor", n_classes: int) -> None:
        import torch

        whole = copied(network).to(self.device).eval()
        given = normalized(rows, *self.units) if rows.dtype == torch.uint8 else rows.float()
        check_network(whole, given, n_classes)
        check_head(whole, self.head_name, given)
        with torch.no_grad():
            expected = whole(given)
        found = self._logits(dict(whole_state(whole)), rows)
        scale = expected.abs().max().clamp_min(1e-6)
        if expected.shape != found.shape or float((expected - found).abs().max() / scale) > 0.1:
            raise InvalidArgument(
                "is not the last module of the network: its output is not the logits, as where a softmax follows",
                argument="head",
                value=self.head_name,
                hint="name the module that makes them.",
            )
        check_learning(copied(network).to(self.device), given, n_classes, self.batch)

    def _logits(self, weights: Weights, rows: "torch.Tensor") -> "torch.Tensor":
        """The head's output; an error where the network does not work without its head."""
        import torch

        self.body.eval()
        try:
            with torch.no_grad():
                return self(weights, rows)[1]
        except Exception as error:
            raise InvalidArgument(
                f"cannot be taken off the network: {type(error).__name__}: {error}",
                argument="head",
                value=self.head_name,
                hint="name the last module, the one that makes the logits; forward may only call it.",
            ) from error


def state_of(network: Any) -> dict[str, "torch.Tensor"]:
    """Parameters and buffers of a network, copied."""
    return {name: each.detach().clone() for name, each in whole_state(network).items()}


Answer = Callable[..., "tuple[torch.Tensor, torch.Tensor]"]
"""A `Split`, compiled or not: features and logits out of weights and rows."""


class Learner:
    """A network that makes one step after another.

    A step reads its minibatch and its learning rate on the device, so that the host hands it nothing: a GPU can record
    it once as a graph.

    Parameters
    ----------
    network : torch.nn.Module
        Gives the parameters their shapes.
    answer : callable
        A `Split` in training.
    rows, labels : torch.Tensor (n, ...), (n,)
        The data on the device, which minibatches are read from.
    training : Training
        How to train.
    capacity : int
        Most steps of a turn.
    """

    def __init__(
        self,
        network: "torch.nn.Module",
        answer: Answer,
        rows: "torch.Tensor",
        labels: "torch.Tensor",
        training: Training,
        capacity: int,
    ) -> None:
        import torch

        self.answer, self.rows, self.labels, self.is_on_gpu = answer, rows, labels, training.is_on_gpu
        self.device = rows.device
        layout = torch.channels_last if rows.ndim == 4 else torch.preserve_format
        held = whole_state(network)
        own = {id(each): _copied(each, self.device, layout) for each in held.values()}
        self.weights = {name: own[id(each)] for name, each in held.items()}  # Two names may share a tensor.
        self.learned = [own[id(each)].requires_grad_() for each in network.parameters() if each.requires_grad]
        self.order = torch.zeros(capacity, training.batch, dtype=torch.int64, device=self.device)
        self.rates = torch.zeros(capacity, device=self.device)
        self.place = torch.zeros(1, dtype=torch.int64, device=self.device)
        self.rate = torch.zeros((), device=self.device)  # Every step sets it first, to its own of `rates`.
        self.optimizer = torch.optim.Adam(
            self.learned, lr=self.rate, fused=self.is_on_gpu or None, capturable=self.is_on_gpu
        )

    def begin(self, weights: Weights, steps: Steps) -> None:
        """Make ready for a turn: these weights, a new optimizer, the turn's steps."""
        import torch

        with torch.no_grad():
            for name in {**self.weights, **weights}:
                if name not in self.weights or name not in weights or weights[name].shape != self.weights[name].shape:
                    raise InvalidData(
                        f"what is kept of {name!r} does not fit the network", hint="was its code changed?"
                    )
            for name, each in self.weights.items():
                each.copy_(weights[name])
            for state in self.optimizer.state.values():
                for each in state.values():
                    each.zero_()
            self.order[: steps.count] = steps.order.to(self.device)
            self.rates[: steps.count] = steps.rates.to(self.device)
            self.place.zero_()

    def step(self) -> None:
        """One minibatch, at its learning rate."""
        import torch

        rows = self.order.index_select(0, self.place).view(-1)
        self.rate.copy_(self.rates.index_select(0, self.place).view(()))
        self.place += 1
        _, logits = self.answer(self.weights, self.rows.index_select(0, rows))
        loss = torch.nn.functional.cross_entropy(logits, self.labels.index_select(0, rows))
        gradients = torch.autograd.grad(loss, self.learned, allow_unused=True)
        for each, gradient in zip(self.learned, gradients, strict=True):
            each.grad = gradient
        self.optimizer.step()

    def finish(self) -> dict[str, "torch.Tensor"]:
        """The weights as they are now, copied."""
        return {name: each.detach().clone() for name, each in self.weights.items()}


def _copied(tensor: "torch.Tensor", device: Any, layout: Any) -> "torch.Tensor":
    """A copy on the device; the layout means something for weights of convolutions."""
    import torch

    fitting = layout if tensor.ndim == 4 else torch.preserve_format
    return tensor.detach().to(device, memory_format=fitting).clone()


# One network trained alone, on a CPU or a GPU, and asked.

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
