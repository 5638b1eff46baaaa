"""Training of one network with Adam; each step reads all of its inputs on the device.

`Learner` trains every network, alone (`train`) or side by side with others on a GPU.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from dubito.doubt import softmax
from dubito.errors import DubitoError, InvalidArgument, InvalidData
from dubito.experiments.models.base import State, TrainingSet, flat
from dubito.experiments.models.networks.checks import (
    check_converged,
    check_form,
    check_head,
    check_learning,
    check_network,
    copy_network,
    full_state,
)
from dubito.experiments.models.networks.training import (
    Steps,
    Training,
    color_normalization,
    deterministic,
    normalized,
    on_device,
)
from dubito.experiments.seeds import derive_seed
from dubito.matrix import AnyArray, FloatArray

if TYPE_CHECKING:
    import torch

# A network in two parts without weights: the body computes features, and the head computes logits from them. The
# weights are passed with every call, so that one compiled function serves all networks of an experiment.

Weights = Mapping[str, "torch.Tensor"]
"""Parameters and buffers of a network by name."""


class Split:
    """Computes features and logits of a batch: the body in the precision of the training, the head in float32.

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
        self.body = copy_network(network).to(training.device).train(is_training)
        self.head = self.body.get_submodule(head)
        for module in list(self.body.modules()):
            for name, child in list(vars(module)["_modules"].items()):
                if child is self.head:  # It may have two names.
                    setattr(module, name, torch.nn.Identity())
        self.body_names = list({id(each): name for name, each in reversed(full_state(self.body).items())}.values())
        """Names of the tensors of the body, with one name for a shared tensor."""
        self.device, self.batch = training.device, training.batch
        self.uses_bfloat16 = training.resolved_precision == "bfloat16"
        self.normalization = color_normalization(self.device)

    def __call__(self, weights: Weights, rows: "torch.Tensor") -> "tuple[torch.Tensor, torch.Tensor]":
        """(b, ...) features and (b, c) logits, both float32, of unscaled rows of the data."""
        import torch

        prefix = self.head_name + "."
        head_weights = {name.removeprefix(prefix): each for name, each in weights.items() if name.startswith(prefix)}
        body_weights = {name: weights[name] for name in self.body_names}
        with torch.autocast(self.device.partition(":")[0], torch.bfloat16, enabled=self.uses_bfloat16):
            features = torch.func.functional_call(self.body, body_weights, (self._inputs(rows),))
        features = features.float()
        return features, torch.func.functional_call(self.head, head_weights, (features,))

    def _inputs(self, rows: "torch.Tensor") -> "torch.Tensor":
        """Rows of the data as inputs of the network: images are normalized."""
        import torch

        return normalized(rows, *self.normalization) if rows.dtype == torch.uint8 else rows.float()

    def check(self, network: "torch.nn.Module", rows: "torch.Tensor", n_classes: int) -> None:
        """Raise if the network cannot be trained or returns no logits, or if the head is not what computes them."""
        try:
            self._check(network, rows, n_classes)
        except DubitoError:
            raise
        except Exception as error:
            problem = f"the network cannot be used: {type(error).__name__}: {error}. Fix the network."
            raise InvalidArgument(problem) from error

    def _check(self, network: "torch.nn.Module", rows: "torch.Tensor", n_classes: int) -> None:
        import torch

        whole = copy_network(network).to(self.device).eval()
        inputs = self._inputs(rows)
        check_network(whole, inputs, n_classes)
        check_head(whole, self.head_name, inputs)
        with torch.no_grad():
            expected = whole(inputs)
        logits = self._logits(dict(full_state(whole)), rows)
        scale = expected.abs().max().clamp_min(1e-6)
        if expected.shape != logits.shape or float((expected - logits).abs().max() / scale) > 0.1:
            problem = "is not the last module of the network: its output is not the logits (a softmax may follow it)"
            hint = "name the module that computes the logits."
            raise InvalidArgument(problem, argument="head", value=self.head_name, hint=hint)
        check_learning(copy_network(network).to(self.device), inputs, n_classes, self.batch)

    def _logits(self, weights: Weights, rows: "torch.Tensor") -> "torch.Tensor":
        """The head's output. Raises if the network does not work without its head."""
        import torch

        self.body.eval()
        try:
            with torch.no_grad():
                return self(weights, rows)[1]
        except Exception as error:
            problem = f"cannot be separated from the network: {type(error).__name__}: {error}"
            hint = "name the last module, which computes the logits; forward may only call it."
            raise InvalidArgument(problem, argument="head", value=self.head_name, hint=hint) from error


def state_of(network: Any) -> dict[str, "torch.Tensor"]:
    """A copy of the parameters and buffers of a network."""
    return {name: each.detach().clone() for name, each in full_state(network).items()}


Forward = Callable[..., "tuple[torch.Tensor, torch.Tensor]"]
"""A `Split`, compiled or not: returns features and logits for weights and rows."""


class Learner:
    """A network in training, one step at a time.

    A step reads its minibatch and its learning rate on the device, so that a GPU can record it once as a graph. The
    minibatches are read from ``rows`` (n, ...) and ``labels`` (n,) on the device; ``capacity`` is the maximum number of
    steps of a turn.
    """

    def __init__(
        self,
        network: "torch.nn.Module",
        forward: Forward,
        rows: "torch.Tensor",
        labels: "torch.Tensor",
        training: Training,
        capacity: int,
    ) -> None:
        import torch

        self.forward, self.rows, self.labels, self.is_on_gpu = forward, rows, labels, training.is_on_gpu
        self.device = rows.device
        layout = torch.channels_last if rows.ndim == 4 else torch.preserve_format
        tensors = full_state(network)
        copies = {id(each): _copied(each, self.device, layout) for each in tensors.values()}
        self.weights = {name: copies[id(each)] for name, each in tensors.items()}  # Two names may share a tensor.
        self.trainable = [copies[id(each)].requires_grad_() for each in network.parameters() if each.requires_grad]
        self.order = torch.zeros(capacity, training.batch, dtype=torch.int64, device=self.device)
        self.rates = torch.zeros(capacity, device=self.device)
        self.position = torch.zeros(1, dtype=torch.int64, device=self.device)
        self.rate = torch.zeros((), device=self.device)  # Every step first copies its rate from `rates`.
        self.optimizer = torch.optim.Adam(
            self.trainable, lr=self.rate, fused=self.is_on_gpu or None, capturable=self.is_on_gpu
        )

    def begin(self, weights: Weights, steps: Steps) -> None:
        """Start a turn with these weights, a new optimizer and the steps of the turn."""
        import torch

        with torch.no_grad():
            for name in {**self.weights, **weights}:
                if name not in self.weights or name not in weights or weights[name].shape != self.weights[name].shape:
                    hint = "restore the code of the network that the run was started with."
                    raise InvalidData(f"the saved {name!r} does not fit the network", hint=hint)
            for name, each in self.weights.items():
                each.copy_(weights[name])
            for state in self.optimizer.state.values():
                for each in state.values():
                    each.zero_()
            self.order[: steps.count] = steps.order.to(self.device)
            self.rates[: steps.count] = steps.rates.to(self.device)
            self.position.zero_()

    def step(self) -> None:
        import torch

        rows = self.order.index_select(0, self.position).view(-1)
        self.rate.copy_(self.rates.index_select(0, self.position).view(()))
        self.position += 1
        _, logits = self.forward(self.weights, self.rows.index_select(0, rows))
        loss = torch.nn.functional.cross_entropy(logits, self.labels.index_select(0, rows))
        gradients = torch.autograd.grad(loss, self.trainable, allow_unused=True)
        for each, gradient in zip(self.trainable, gradients, strict=True):
            each.grad = gradient
        self.optimizer.step()

    def finish(self) -> dict[str, "torch.Tensor"]:
        """A copy of the current weights."""
        return {name: each.detach().clone() for name, each in self.weights.items()}


def _copied(tensor: "torch.Tensor", device: Any, layout: Any) -> "torch.Tensor":
    """A copy on the device; the layout is only used for the weights of convolutions."""
    import torch

    memory_format = layout if tensor.ndim == 4 else torch.preserve_format
    return tensor.detach().to(device, memory_format=memory_format).clone()


# One network trained alone, on a CPU or a GPU.

READ_ROWS = 1024
"""Batch size for predictions."""


@dataclass(frozen=True, slots=True, eq=False)
class NetworkFit:
    split: Split
    weights: Weights
    learns_features: bool
    """Whether distances are measured between the inputs of the head; otherwise between those of the network."""

    @property
    def state(self) -> State:
        return as_state(self.weights)

    def predict_proba(self, features: AnyArray) -> FloatArray:
        return softmax(self._read(features)[1])

    def embed(self, features: AnyArray) -> AnyArray:
        """(n, e) inputs of the head, or the features themselves."""
        return self._read(features)[0] if self.learns_features else flat(features)

    def _read(self, features: AnyArray) -> tuple[AnyArray, AnyArray]:
        """The inputs of the head, and the logits, of every row."""
        import torch

        device, inputs_of_head, all_logits = self.split.device, list[AnyArray](), list[AnyArray]()
        with deterministic(0, device), torch.no_grad():
            for start in range(0, len(features), READ_ROWS):
                body, logits = self.split(self.weights, on_device(features[start : start + READ_ROWS], device))
                inputs_of_head.append(body.flatten(1).cpu().numpy())
                all_logits.append(logits.cpu().numpy())
        return np.concatenate(inputs_of_head), np.concatenate(all_logits)


def train(
    network: "torch.nn.Module", head: str, training: Training, train_set: TrainingSet, *, learns_features: bool
) -> NetworkFit:
    """Train a network, starting from the state of the training set or, if that is empty, from its own weights.

    `Steps` defines the minibatches, which are the same on every device.
    """
    network.to(training.device)
    rows, labels = on_device(train_set.features, training.device), on_device(train_set.labels, training.device)
    seed = derive_seed(train_set.seed, "batches", train_set.turn)
    steps = Steps(np.arange(len(train_set.labels)), training, is_first=not train_set.state, seed=seed)
    split = Split(network, head, training, is_training=True)
    learner = Learner(network, split, rows, labels, training, steps.count)
    learner.begin(as_weights(train_set.state, training.device) if train_set.state else state_of(network), steps)
    for _ in range(steps.count):
        learner.step()
    check_converged(learner.trainable, train_set.turn, training.learning_rate)
    return NetworkFit(Split(network, head, training, is_training=False), learner.finish(), learns_features)


def as_state(weights: Weights) -> State:
    return {name: each.detach().cpu().contiguous().numpy() for name, each in weights.items()}


def as_weights(state: State, device: str) -> Weights:
    return {name: on_device(array, device) for name, array in state.items()}
