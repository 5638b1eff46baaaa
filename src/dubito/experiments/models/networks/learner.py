"""One network in training: weights of its own, Adam, and a step that finds all it needs on the device.

Every network is trained by this class, alone (`fitting.train`) or in a lane of a GPU (`dubito.experiments.lanes`): what
a step means is written here once.
"""

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from dubito.errors import InvalidData
from dubito.experiments.models.networks.refusals import whole_state
from dubito.experiments.models.networks.split import Weights
from dubito.experiments.models.networks.steps import Steps
from dubito.experiments.models.networks.training import Training

if TYPE_CHECKING:
    import torch

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
                        f"what is kept of {name!r} does not fit the network", mend="was its code changed?"
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
