"""``mlp``: a small multilayer perceptron. Extra ``torch``.

The weights go on from turn to turn and the optimizer starts anew, as in the paper. One thread and deterministic
algorithms, so that the same lesson gives the same bits on one machine.
"""

from dataclasses import dataclass
from itertools import pairwise
from typing import TYPE_CHECKING, ClassVar, Literal, get_args

from dubito.checks import check_choice, check_integer
from dubito.experiments.chance import draw
from dubito.experiments.models.base import Facts, Fitted, Lesson, OnHost, check_samples, flat
from dubito.experiments.models.networks.devices import check_device, steady
from dubito.experiments.models.networks.fitting import train
from dubito.experiments.models.networks.resuming import by_epoch_too, training_facts, training_refusal
from dubito.experiments.models.networks.training import Training
from dubito.matrix import IntArray
from dubito.optional import require

if TYPE_CHECKING:
    import torch

Seen = Literal["input", "hidden"]
HEAD = "head"
"""Name of its last layer."""


@dataclass(frozen=True, slots=True)
class Mlp(OnHost):
    """A multilayer perceptron with ReLUs, in float32."""

    hidden: tuple[int, ...] = (128,)
    """Widths of its hidden layers."""
    epochs: int = 60
    """Passes over the labels in the first turn."""
    later_epochs: int = 30
    """Passes in every later turn, which goes on from the weights before it."""
    learning_rate: float = 1e-3
    decay: bool = False
    """Let the learning rate fall to 0 within each turn, along a cosine."""
    batch: int = 64
    features: Seen = "input"
    """What distances are measured between: the input, or the last hidden layer."""
    device: str = "cpu"
    samples: int = 0
    kind: ClassVar[str] = "mlp"
    goes_on: ClassVar[bool] = True
    packages: ClassVar[tuple[str, ...]] = ("torch",)

    def __post_init__(self) -> None:
        require("torch", extra="torch")
        for width in self.widths or (0,):
            check_integer("hidden", width, least=1)
        check_choice("features", self.features, get_args(Seen))
        check_samples(self.samples)
        _ = self.training

    @property
    def widths(self) -> tuple[int, ...]:
        """Of its hidden layers; one may stand without a list."""
        return self.hidden if isinstance(self.hidden, tuple) else (self.hidden,)

    @property
    def moves(self) -> bool:
        """Only a hidden layer moves."""
        return self.features == "hidden"

    @property
    def on_gpu(self) -> bool:
        """As its device says."""
        return self.training.is_on_gpu

    @property
    def training(self) -> Training:
        """How a turn trains."""
        return Training(
            epochs=self.epochs,
            later_epochs=self.later_epochs,
            learning_rate=self.learning_rate,
            decay=self.decay,
            batch=self.batch,
            device=check_device(self.device),
            precision="float32",
        )

    def fit(self, lesson: Lesson) -> Fitted:
        """O(m·width) an epoch."""
        n_inputs = flat(lesson.features).shape[1]
        with steady(draw(lesson.seed, "weights"), self.device):
            network = perceptron((n_inputs, *self.widths, lesson.n_classes))
            return train(network, HEAD, self.training, lesson, moves=self.moves)

    def facts(self) -> dict[str, str]:
        """The device, the precision, and how minibatches follow one another."""
        return training_facts(self.training)

    def refusal(self, begun: Facts, now: Facts, labels: IntArray) -> str | None:
        """On another device, or by the steps of earlier versions where they were others."""
        return training_refusal(begun, now, is_the_same=by_epoch_too(self.training, labels), were_lanes=False)


def perceptron(widths: tuple[int, ...]) -> "torch.nn.Module":
    """Linear layers of these widths with ReLUs between them; the last is called ``head``."""
    import torch

    layers: dict[str, torch.nn.Module] = {"flat": torch.nn.Flatten()}
    for place, (narrow, wide) in enumerate(pairwise(widths[:-1])):
        layers[f"hidden{place}"], layers[f"relu{place}"] = torch.nn.Linear(narrow, wide), torch.nn.ReLU()
    layers["head"] = torch.nn.Linear(widths[-2], widths[-1])
    network = torch.nn.Sequential()
    for name, layer in layers.items():
        network.add_module(name, layer)
    return network
