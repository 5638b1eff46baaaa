"""What networks by name have in common: how they are trained, and what the runner asks of them. Extra ``torch``.

Distances are measured between what goes into the last layer, the head. On a GPU the cells of an experiment are trained
side by side (`dubito.experiments.lanes`); on a CPU each is trained by itself (`fitting.train`), by the same steps.
"""

from dataclasses import dataclass
from typing import TYPE_CHECKING, ClassVar, Protocol, runtime_checkable

from dubito.experiments.chance import draw
from dubito.experiments.models.base import Facts, Fitted, Lesson, Model, OnHost, check_samples
from dubito.experiments.models.networks.devices import found_device, steady
from dubito.experiments.models.networks.fitting import train
from dubito.experiments.models.networks.inputs import on_device
from dubito.experiments.models.networks.resuming import by_epoch_too, training_facts, training_refusal
from dubito.experiments.models.networks.split import Split
from dubito.experiments.models.networks.training import Precision, Training
from dubito.matrix import IntArray
from dubito.optional import require

if TYPE_CHECKING:
    import torch


class Trainable(Model, Protocol):
    """A model whose cells can be trained side by side: a network, its head, and how it is trained."""

    @property
    def head(self) -> str:
        """Name of its last module: its input is the feature, its output the logits."""
        ...

    @property
    def training(self) -> Training:
        """How a turn trains."""
        ...

    def network(self, n_classes: int, seed: int) -> "torch.nn.Module":
        """The module before any training, with weights drawn by the seed."""
        ...


@runtime_checkable
class Slow(Trainable, Protocol):
    """A network that takes hours or days without a GPU: whoever trains it there is told so first."""

    @property
    def rows_a_second(self) -> float:
        """Rows that one core trains on in a second."""
        ...

    @property
    def device(self) -> str:
        """The device that was asked for, or ``auto``."""
        ...


@dataclass(frozen=True, slots=True)
class Network(OnHost):
    """How VGG16 and modules of one's own are trained: as the paper does by default."""

    epochs: int = 30
    """Passes over the labels in the first turn."""
    later_epochs: int = 12
    """Passes in every later turn, which goes on from the weights before it."""
    learning_rate: float = 1e-4
    decay: bool = False
    """Let the learning rate fall to 0 within each turn, along a cosine."""
    batch: int = 64
    device: str = "auto"
    """``cpu``, ``cuda``, or a GPU where torch finds one."""
    precision: Precision = "auto"
    """Of the layers before the last: ``float32``, ``bfloat16``, or the latter on a GPU."""
    samples: int = 0
    """Members of the committee that ``bald`` and ``batchbald`` ask."""
    goes_on: ClassVar[bool] = True
    moves: ClassVar[bool] = True
    takes_images: ClassVar[bool] = True
    packages: ClassVar[tuple[str, ...]] = ("torch",)

    def __post_init__(self) -> None:
        require("torch", extra="torch")
        check_samples(self.samples)
        _ = self.training

    @property
    def training(self) -> Training:
        """How a turn trains."""
        return Training(
            epochs=self.epochs,
            later_epochs=self.later_epochs,
            learning_rate=self.learning_rate,
            decay=self.decay,
            batch=self.batch,
            device=found_device(self.device),
            precision=self.precision,
        )

    @property
    def on_gpu(self) -> bool:
        """As the device that was found."""
        return self.training.is_on_gpu

    @property
    def side_by_side(self) -> bool:
        """On a GPU."""
        return self.on_gpu

    def facts(self) -> dict[str, str]:
        """The device that was found, the precision, and how minibatches follow one another."""
        return training_facts(self.training)

    def refusal(self, begun: Facts, now: Facts, labels: IntArray) -> str | None:
        """On another device, in another precision, or by the steps of earlier versions."""
        return training_refusal(begun, now, is_the_same=by_epoch_too(self.training, labels), were_lanes=True)


def fit_network(model: Trainable, lesson: Lesson) -> Fitted:
    """A network by name trained on a lesson; at first it is tried out, and refused by what is wrong with it."""
    network, training = model.network(lesson.n_classes, lesson.seed), model.training
    if not lesson.state:
        first = on_device(lesson.features[:2], training.device)
        Split(network, model.head, training, is_training=False).check(network, first, lesson.n_classes)
    with steady(draw(lesson.seed, "weights", 1), training.device):
        return train(network, model.head, training, lesson, moves=True)
