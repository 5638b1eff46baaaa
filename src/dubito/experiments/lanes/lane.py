"""Networks in training side by side, each in a `Lane` of its own.

A step reads its minibatch, its images and its learning rate on the device, so the host hands it nothing. On a GPU a
step is captured once as a CUDA graph, and lanes replay theirs in lock-step, each on its own stream: one small network
leaves most of a GPU idle, twenty do not.
"""

import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager, nullcontext
from typing import TYPE_CHECKING, Any

import numpy as np

from dubito.errors import InvalidData
from dubito.experiments.datasets.dataset import Dataset
from dubito.experiments.models.networks.refusals import whole_state
from dubito.experiments.models.networks.split import Weights
from dubito.experiments.models.networks.training import Training
from dubito.matrix import AnyArray, IntArray

if TYPE_CHECKING:
    import torch

WARM_UP = 2
"""Steps before a capture: libraries choose their algorithms, and the optimizer makes its state."""


class Bank:
    """The data of every seed on the device, each array once."""

    def __init__(self, data: Mapping[int, Dataset], device: str) -> None:
        import torch

        self.start: dict[int, int] = {}
        """Where the rows of a seed begin."""
        rows, labels, places = list[AnyArray](), list[IntArray](), dict[tuple[int, int], int]()
        for seed, each in data.items():
            key = id(each.features), id(each.labels)
            if key not in places:
                places[key] = sum(len(part) for part in labels)
                rows.append(each.features)
                labels.append(each.labels)
            self.start[seed] = places[key]
        self.rows = torch.cat([torch.from_numpy(np.array(each)) for each in rows]).to(device)
        self.labels = torch.cat([torch.from_numpy(np.array(each)) for each in labels]).to(device)

    def of(self, seed: int, n: int) -> "torch.Tensor":
        """The ``n`` training rows of a seed."""
        return self.rows[self.start[seed] : self.start[seed] + n]


class Plan:
    """What a turn trains on: the rows of every minibatch, and the learning rate of every step.

    Epochs follow one another without a gap: a minibatch may hold the end of one and the beginning of the next, and all
    are of one size. What is left of the last epoch, less than a minibatch, is passed over. Labels that are fewer than a
    minibatch are repeated in it.
    """

    def __init__(self, rows: IntArray, training: Training, *, is_first: bool, seed: int) -> None:
        import torch

        generator = torch.Generator().manual_seed(seed)
        labelled = torch.from_numpy(rows)
        epochs = training.epochs if is_first else training.later_epochs
        self.steps = n_steps(len(rows), epochs, training.batch)
        wanted = self.steps * training.batch
        times = max(epochs, -(-wanted // len(rows)))
        stream = torch.cat([labelled[torch.randperm(len(rows), generator=generator)] for _ in range(times)])
        self.order = stream[:wanted].view(self.steps, training.batch)
        places = torch.arange(self.steps, dtype=torch.float64) / self.steps
        falling = 0.5 * (1.0 + torch.cos(math.pi * places)) if training.decay else torch.ones_like(places)
        self.rates = (training.learning_rate * falling).float()


def n_steps(labels: int, epochs: int, batch: int) -> int:
    """Minibatches of a turn, at least one an epoch."""
    return max(epochs, epochs * labels // batch)


class Lane:
    """One network in training.

    Parameters
    ----------
    network : torch.nn.Module
        Gives the parameters their shapes.
    answer : callable
        A `Split`, compiled or not.
    bank : Bank
        Where minibatches are read from.
    training : Training
        How to train.
    capacity : int
        Most steps of a turn.
    """

    def __init__(
        self,
        network: "torch.nn.Module",
        answer: Callable[..., "tuple[torch.Tensor, torch.Tensor]"],
        bank: Bank,
        training: Training,
        capacity: int,
    ) -> None:
        import torch

        self.answer, self.bank, self.is_on_gpu = answer, bank, training.device != "cpu"
        device = bank.rows.device
        layout = torch.channels_last if bank.rows.ndim == 4 else torch.preserve_format
        held = whole_state(network)
        own = {id(each): _copied(each, device, layout) for each in held.values()}
        self.weights = {name: own[id(each)] for name, each in held.items()}  # Two names may share a tensor.
        self.learned = [own[id(each)].requires_grad_() for each in network.parameters() if each.requires_grad]
        places = max(capacity, WARM_UP + 1)
        self.order = torch.zeros(places, training.batch, dtype=torch.int64, device=device)
        self.rates = torch.zeros(places, device=device)
        self.place = torch.zeros(1, dtype=torch.int64, device=device)
        self.rate = torch.tensor(training.learning_rate, device=device)
        self.loss = torch.zeros((), device=device)
        self.optimizer = torch.optim.Adam(
            self.learned, lr=self.rate, fused=self.is_on_gpu or None, capturable=self.is_on_gpu
        )
        self.stream = torch.cuda.Stream(device) if self.is_on_gpu else None
        self.replay: Callable[[], None] = self._capture() if self.is_on_gpu else self._step

    def begin(self, weights: Weights, plan: Plan) -> None:
        """Make ready for a turn: these weights, a new optimizer, the turn's minibatches."""
        import torch

        with self._in_order(), torch.no_grad():
            for name, each in self.weights.items():
                if name not in weights or weights[name].shape != each.shape:
                    raise InvalidData(f"what is kept of {name!r} does not fit the network; was its code changed?")
                each.copy_(weights[name])
            for state in self.optimizer.state.values():
                for each in state.values():
                    each.zero_()
            self.order[: plan.steps] = plan.order.to(self.order.device)
            self.rates[: plan.steps] = plan.rates.to(self.rates.device)
            self.place.zero_()

    def step(self) -> None:
        """One minibatch; on a GPU only asked for, not waited for."""
        with self._on_stream():
            self.replay()

    def finish(self) -> dict[str, "torch.Tensor"]:
        """The weights as they are now, copied."""
        with self._in_order():
            return {name: each.detach().clone() for name, each in self.weights.items()}

    def _step(self) -> None:
        import torch

        rows = self.order.index_select(0, self.place).view(-1)
        self.rate.copy_(self.rates.index_select(0, self.place).view(()))
        self.place += 1
        _, logits = self.answer(self.weights, self.bank.rows.index_select(0, rows))
        loss = torch.nn.functional.cross_entropy(logits, self.bank.labels.index_select(0, rows))
        gradients = torch.autograd.grad(loss, self.learned, allow_unused=True)
        for each, gradient in zip(self.learned, gradients, strict=True):
            each.grad = gradient
        self.optimizer.step()
        self.loss.copy_(loss.detach())

    def _capture(self) -> Callable[[], None]:
        """The step as a graph; what trying it out did to the weights, `begin` undoes."""
        import torch

        with self._in_order():
            for _ in range(WARM_UP):
                self._step()
        torch.cuda.synchronize(self.order.device)
        graph = torch.cuda.CUDAGraph()
        with torch.cuda.graph(graph, stream=self.stream):
            self._step()
        replay: Callable[[], None] = graph.replay
        return replay

    def _on_stream(self) -> Any:
        import torch

        return nullcontext() if self.stream is None else torch.cuda.stream(self.stream)

    @contextmanager
    def _in_order(self) -> Iterator[None]:
        """On the lane's stream, after what was asked of the caller's stream before and before what comes after it.

        Streams do not wait for one another by themselves: weights would be copied before they are there.
        """
        import torch

        if self.stream is None:
            yield
            return
        callers = torch.cuda.current_stream(self.stream.device)
        self.stream.wait_stream(callers)
        with torch.cuda.stream(self.stream):
            yield
        callers.wait_stream(self.stream)


def train_side_by_side(lanes: Sequence[Lane], steps: int) -> None:
    """All lanes through a turn in lock-step; waits for the end."""
    import torch

    for _ in range(steps):
        for lane in lanes:
            lane.step()
    if lanes[0].is_on_gpu:
        torch.cuda.synchronize(lanes[0].order.device)


def _copied(tensor: "torch.Tensor", device: Any, layout: Any) -> "torch.Tensor":
    """A copy on the device; the layout means something for weights of convolutions."""
    import torch

    fitting = layout if tensor.ndim == 4 else torch.preserve_format
    return tensor.detach().to(device, memory_format=fitting).clone()
