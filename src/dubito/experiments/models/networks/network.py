"""What networks by name have in common: how they are trained, and what the runner asks of them. Extra ``torch``.

Distances are measured between what goes into the last layer, the head. On a GPU the runs of an experiment are trained
side by side (the runner of that name); on a CPU each is trained by itself (`learner.train`), by the same steps.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field
from itertools import pairwise
from typing import TYPE_CHECKING, Any, ClassVar, Literal, Protocol, cast, get_args, runtime_checkable

from dubito.errors import DubitoError, InvalidArgument
from dubito.experiments.models.base import Facts, Fitted, Lesson, Model, OnHost, check_samples, flat
from dubito.experiments.models.networks.learner import Split, train
from dubito.experiments.models.networks.refusals import by_epoch_too, training_facts, training_refusal
from dubito.experiments.models.networks.training import (
    Precision,
    Training,
    check_device,
    found_device,
    on_device,
    steady,
)
from dubito.experiments.seeds import draw
from dubito.matrix import IntArray
from dubito.registry import check_options, import_object, require
from dubito.request.arrays import check_choice, check_integer

if TYPE_CHECKING:
    import torch


class Trainable(Model, Protocol):
    """A model whose runs can be trained side by side: a network, its head, and how it is trained."""

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
    """A network that takes hours or days without a GPU: whoever trains it there is reported so first."""

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
    """How modules of one's own are trained: as the paper does by default."""

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
    def runner(self) -> str:
        """On a GPU all networks of an experiment train together."""
        return "side-by-side" if self.on_gpu else "one-by-one"

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


# ``torch``: any network of one's own, by the import path of what makes it.


@dataclass(frozen=True, slots=True, kw_only=True)
class Torch(Network):
    """Any module, by the import path of what makes it."""

    factory: str
    """Called with ``n_classes`` and the options; returns a ``torch.nn.Module`` that gives logits (n, c)."""
    head: str
    """Name of its last module, as ``named_modules`` has it: its input is the feature, its output the logits."""
    options: Mapping[str, object] = field(default_factory=dict)
    kind: ClassVar[str] = "torch"

    def __post_init__(self) -> None:
        Network.__post_init__(self)
        factory = import_object("factory", self.factory)
        check_options("factory", self.factory, factory, self.options)

    def network(self, n_classes: int, seed: int) -> "torch.nn.Module":
        """The module before any training, with weights drawn by the seed."""
        with steady(draw(seed, "weights"), self.training.device):
            made = self._make(n_classes)
        names = [name for name, _ in made.named_modules(remove_duplicate=False) if name]
        if self.head not in names:
            raise InvalidArgument(
                f"is no module of {self.factory}", argument="head", value=self.head, hint=f"it has {', '.join(names)}."
            )
        return cast("torch.nn.Module", made)

    def _make(self, n_classes: int) -> Any:
        import torch

        try:
            made = import_object("factory", self.factory)(n_classes=n_classes, **self.options)
        except DubitoError:
            raise
        except Exception as error:
            raise InvalidArgument(
                f"failed when called with n_classes={n_classes}{' and the options' if self.options else ''}: "
                f"{type(error).__name__}: {error}. Fix it there.",
                argument="factory",
                value=self.factory,
            ) from error
        if not isinstance(made, torch.nn.Module):
            raise InvalidArgument(
                f"returned {type(made).__name__}",
                argument="factory",
                value=self.factory,
                hint="return a torch.nn.Module.",
            )
        return made

    def fit(self, lesson: Lesson) -> Fitted:
        """As long as the module takes."""
        return fit_network(self, lesson)


# ``mlp``: a small multilayer perceptron. Extra ``torch``.
#
# The weights go on from turn to turn and the optimizer starts anew, as in the paper. One thread and deterministic
# algorithms, so that the same lesson gives the same bits on one machine.

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
