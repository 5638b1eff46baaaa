"""Models that are PyTorch networks: ``torch`` (any module) and ``mlp`` (a small perceptron). Extra ``torch``.

Distances are measured between the inputs of the last layer, the head; for ``mlp``, between the features themselves
unless ``features = "hidden"``.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field
from itertools import pairwise
from typing import TYPE_CHECKING, Any, ClassVar, Literal, Protocol, cast, get_args, runtime_checkable

from dubito.errors import DubitoError, InvalidArgument
from dubito.experiments.models.base import Facts, Fitted, Model, ModelDefaults, TrainingSet, check_samples, flat
from dubito.experiments.models.networks.checks import epochs_are_full, training_facts, training_refusal
from dubito.experiments.models.networks.learner import Split, train
from dubito.experiments.models.networks.training import (
    Precision,
    Training,
    check_device,
    deterministic,
    on_device,
    resolve_device,
)
from dubito.experiments.seeds import derive_seed
from dubito.matrix import IntArray
from dubito.registry import Registry, check_options, import_object, require
from dubito.request.arrays import check_choice, check_integer

if TYPE_CHECKING:
    import torch


PARALLEL_RUNNER = "side-by-side"
"""The runner that trains several networks on one GPU; `dubito.paper` registers it."""


class Trainable(Model, Protocol):
    """A model that is a network whose runs can be trained side by side."""

    @property
    def head(self) -> str:
        """Name of the last module, whose input is the features and whose output is the logits."""

    @property
    def training(self) -> Training:
        """The training settings."""

    def network(self, n_classes: int, seed: int) -> "torch.nn.Module":
        """The untrained module, with weights drawn with the seed."""


@runtime_checkable
class Slow(Trainable, Protocol):
    """A network that takes hours or days to train without a GPU, so that users are warned."""

    @property
    def rows_per_second(self) -> float:
        """Rows per second that one core trains on."""

    @property
    def device(self) -> str:
        """The device in the settings, which may be ``auto``."""


@dataclass(frozen=True, slots=True)
class Network(ModelDefaults):
    """Training settings of a module; the defaults are those of the paper."""

    epochs: int = 30
    """Passes over the labels in the first turn."""
    later_epochs: int = 12
    """Passes over the labels in later turns, which continue from the weights of the previous one."""
    learning_rate: float = 1e-4
    decay: bool = False
    """Whether the learning rate falls to 0 within each turn, along a cosine."""
    batch: int = 64
    device: str = "auto"
    """``cpu``, ``cuda``, or ``auto`` for a GPU if torch finds one."""
    precision: Precision = "auto"
    """Precision of the layers before the head: ``float32``, ``bfloat16``, or ``auto`` for bfloat16 on a GPU."""
    samples: int = 0
    """Number of members of the committee for ``bald`` and ``batchbald``."""
    continues: ClassVar[bool] = True
    learns_features: ClassVar[bool] = True
    takes_images: ClassVar[bool] = True
    packages: ClassVar[tuple[str, ...]] = ("torch",)

    def __post_init__(self) -> None:
        require("torch", extra="torch")
        check_samples(self.samples)
        _ = self.training

    @property
    def training(self) -> Training:
        return training_of(self, resolve_device(self.device), self.precision)

    @property
    def on_gpu(self) -> bool:
        return self.training.is_on_gpu

    @property
    def runner(self) -> str:
        """`PARALLEL_RUNNER` on a GPU if an installed package registers it, else ``one-by-one``."""
        is_installed = PARALLEL_RUNNER in Registry("dubito.runners", {}).names()
        return PARALLEL_RUNNER if self.on_gpu and is_installed else "one-by-one"

    def facts(self) -> dict[str, str]:
        return training_facts(self.training)

    def refusal(self, begun: Facts, now: Facts, labels: IntArray) -> str | None:
        return training_refusal(
            begun, now, minibatches_coincide=epochs_are_full(self.training, labels), was_side_by_side=True
        )


def training_of(model: "Network | Mlp", device: str, precision: Precision) -> Training:
    names = ("epochs", "later_epochs", "learning_rate", "decay", "batch")
    return Training(**{name: getattr(model, name) for name in names}, device=device, precision=precision)


def fit_network(model: Trainable, train_set: TrainingSet) -> Fitted:
    """Train a network; before the first turn, check that it can be trained."""
    network, training = model.network(train_set.n_classes, train_set.seed), model.training
    if not train_set.state:
        first = on_device(train_set.features[:2], training.device)
        Split(network, model.head, training, is_training=False).check(network, first, train_set.n_classes)
    with deterministic(derive_seed(train_set.seed, "weights", 1), training.device):
        return train(network, model.head, training, train_set, learns_features=True)


# ``torch``: any network, by the import path of the function or class that makes it.


@dataclass(frozen=True, slots=True, kw_only=True)
class Torch(Network):
    """Any module, by the import path of a function or class that makes it."""

    factory: str
    """Called with ``n_classes`` and the options; returns a ``torch.nn.Module`` that returns logits (n, c)."""
    head: str
    """Name of the last module in ``named_modules``: its input is the features, its output the logits."""
    options: Mapping[str, object] = field(default_factory=dict)
    kind: ClassVar[str] = "torch"

    def __post_init__(self) -> None:
        Network.__post_init__(self)
        factory = import_object("factory", self.factory)
        check_options("factory", self.factory, factory, self.options)

    def network(self, n_classes: int, seed: int) -> "torch.nn.Module":
        """The untrained module, with weights drawn with the seed."""
        with deterministic(derive_seed(seed, "weights"), self.training.device):
            network = self._call_factory(n_classes)
        names = [name for name, _ in network.named_modules(remove_duplicate=False) if name]
        if self.head not in names:
            hint = f"it has {', '.join(names)}."
            raise InvalidArgument(f"is not a module of {self.factory}", argument="head", value=self.head, hint=hint)
        return cast("torch.nn.Module", network)

    def _call_factory(self, n_classes: int) -> Any:
        import torch

        try:
            network = import_object("factory", self.factory)(n_classes=n_classes, **self.options)
        except DubitoError:
            raise
        except Exception as error:
            problem = (
                f"failed when called with n_classes={n_classes}{' and the options' if self.options else ''}: "
                f"{type(error).__name__}: {error}. Fix it there."
            )
            raise InvalidArgument(problem, argument="factory", value=self.factory) from error
        if not isinstance(network, torch.nn.Module):
            hint = "return a torch.nn.Module."
            raise InvalidArgument(
                f"returned {type(network).__name__}", argument="factory", value=self.factory, hint=hint
            )
        return network

    def fit(self, train_set: TrainingSet) -> Fitted:
        return fit_network(self, train_set)


# ``mlp``: a small multilayer perceptron.
#
# Each turn continues from the weights of the previous one with a new optimizer, as in the paper. One thread and
# deterministic algorithms, so that the same training set gives bit-identical results on one machine.

FeatureLayer = Literal["input", "hidden"]
HEAD = "head"
"""Name of the last layer."""


@dataclass(frozen=True, slots=True)
class Mlp(ModelDefaults):
    """A multilayer perceptron with ReLUs, in float32."""

    hidden: tuple[int, ...] = (128,)
    """Widths of the hidden layers."""
    epochs: int = 60
    """Passes over the labels in the first turn."""
    later_epochs: int = 30
    """Passes over the labels in later turns, which continue from the weights of the previous one."""
    learning_rate: float = 1e-3
    decay: bool = False
    """Whether the learning rate falls to 0 within each turn, along a cosine."""
    batch: int = 64
    features: FeatureLayer = "input"
    """The layer in which distances are measured: the input, or the last hidden layer."""
    device: str = "cpu"
    samples: int = 0
    kind: ClassVar[str] = "mlp"
    continues: ClassVar[bool] = True
    packages: ClassVar[tuple[str, ...]] = ("torch",)

    def __post_init__(self) -> None:
        require("torch", extra="torch")
        for width in self.widths or (0,):
            check_integer("hidden", width, least=1)
        check_choice("features", self.features, get_args(FeatureLayer))
        check_samples(self.samples)
        _ = self.training

    @property
    def widths(self) -> tuple[int, ...]:
        """Widths of the hidden layers; a single one may be given without a list."""
        return self.hidden if isinstance(self.hidden, tuple) else (self.hidden,)

    @property
    def learns_features(self) -> bool:
        """Whether distances are measured in a hidden layer."""
        return self.features == "hidden"

    @property
    def on_gpu(self) -> bool:
        return self.training.is_on_gpu

    @property
    def training(self) -> Training:
        return training_of(self, check_device(self.device), "float32")

    def fit(self, train_set: TrainingSet) -> Fitted:
        """Take O(m·number of weights) time per epoch."""
        n_inputs = flat(train_set.features).shape[1]
        with deterministic(derive_seed(train_set.seed, "weights"), self.device):
            network = perceptron((n_inputs, *self.widths, train_set.n_classes))
            return train(network, HEAD, self.training, train_set, learns_features=self.learns_features)

    def facts(self) -> dict[str, str]:
        return training_facts(self.training)

    def refusal(self, begun: Facts, now: Facts, labels: IntArray) -> str | None:
        return training_refusal(
            begun, now, minibatches_coincide=epochs_are_full(self.training, labels), was_side_by_side=False
        )


def perceptron(widths: tuple[int, ...]) -> "torch.nn.Module":
    """Linear layers of these widths with ReLUs between them; the last is called ``head``."""
    import torch

    layers: dict[str, torch.nn.Module] = {"flat": torch.nn.Flatten()}
    for position, (n_in, n_out) in enumerate(pairwise(widths[:-1])):
        layers[f"hidden{position}"], layers[f"relu{position}"] = torch.nn.Linear(n_in, n_out), torch.nn.ReLU()
    layers[HEAD] = torch.nn.Linear(widths[-2], widths[-1])
    network = torch.nn.Sequential()
    for name, layer in layers.items():
        network.add_module(name, layer)
    return network
