"""Networks by name: VGG16 as the paper has it, and any module of one's own. Extra ``torch``.

Distances are measured between what goes into the last layer, the head. On a GPU the cells of an experiment are trained
side by side (`dubito.experiments.lanes.players`); on a CPU each is trained by itself (`training.train`).
"""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, ClassVar, cast

import numpy as np

from dubito.errors import DubitoError, InvalidArgument
from dubito.experiments.chance import draw
from dubito.experiments.models.base import Fitted, Lesson, check_samples
from dubito.experiments.models.networks.split import Split
from dubito.experiments.models.networks.training import Precision, Training, check_device, steady, train
from dubito.experiments.models.scikit import check_options, import_object
from dubito.optional import require

if TYPE_CHECKING:
    import torch


@dataclass(frozen=True, slots=True)
class _Network:
    """What VGG16 and modules of one's own have in common: how they are trained, as the paper does by default."""

    epochs: int = 30
    later_epochs: int = 12
    learning_rate: float = 1e-4
    decay: bool = False
    batch: int = 64
    device: str = "auto"
    precision: Precision = "auto"
    samples: int = 0
    is_convex: ClassVar[bool] = False
    goes_on: ClassVar[bool] = True
    moves: ClassVar[bool] = True

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

    def described(self) -> dict[str, str]:
        """What else a journal's header says: the device that was found, and which GPU it is."""
        import torch

        device = self.training.device
        return {"device": device} if device == "cpu" else {"device": device, "gpu": torch.cuda.get_device_name(device)}


@dataclass(frozen=True, slots=True, kw_only=True)
class Torch(_Network):
    """Any module, by the import path of what makes it."""

    factory: str
    """Called with ``n_classes`` and the options; returns a ``torch.nn.Module`` that gives logits (n, c)."""
    head: str
    """Name of its last module, as ``named_modules`` has it: its input is the feature, its output the logits."""
    options: Mapping[str, object] = field(default_factory=dict)
    kind: ClassVar[str] = "torch"

    def __post_init__(self) -> None:
        _Network.__post_init__(self)
        factory = import_object("factory", self.factory)
        check_options("factory", self.factory, factory, self.options)

    def network(self, n_classes: int, seed: int) -> "torch.nn.Module":
        """The module before any training, with weights drawn by the seed."""
        with steady(draw(seed, "weights"), self.training.device):
            made = self._make(n_classes)
        names = [name for name, _ in made.named_modules(remove_duplicate=False) if name]
        if self.head not in names:
            raise InvalidArgument(f"head={self.head!r} is no module of {self.factory}; it has {', '.join(names)}.")
        return cast("torch.nn.Module", made)

    def _make(self, n_classes: int) -> Any:
        import torch

        try:
            made = import_object("factory", self.factory)(n_classes=n_classes, **self.options)
        except DubitoError:
            raise
        except Exception as error:
            raise InvalidArgument(
                f"factory={self.factory!r} failed when called with n_classes={n_classes}"
                f"{' and the options' if self.options else ''}: "
                f"{type(error).__name__}: {error}. Mend it there."
            ) from error
        if not isinstance(made, torch.nn.Module):
            raise InvalidArgument(f"factory={self.factory!r} returned {type(made).__name__}; return a torch.nn.Module.")
        return made

    def fit(self, lesson: Lesson) -> Fitted:
        """As long as the module takes."""
        return _fit(self, lesson)


@dataclass(frozen=True, slots=True, kw_only=True)
class Vgg16(_Network):
    """VGG16's convolutions and one linear layer on their 512 features, as in the paper."""

    weights: str = "imagenet"
    """What the convolutions start from: ``imagenet``, a ``.safetensors`` or ``.pth`` file, or ``none``."""
    kind: ClassVar[str] = "vgg16"
    head: ClassVar[str] = "head"

    def network(self, n_classes: int, seed: int) -> "torch.nn.Module":
        """The network before any training; the seed draws its last layer."""
        from dubito.experiments.models.networks.vgg16 import vgg16

        with steady(draw(seed, "weights"), self.training.device):
            return vgg16(n_classes, self.weights)

    def described(self) -> dict[str, str]:
        """And which weights."""
        from dubito.experiments.published.weights import describe_weights

        return {**_Network.described(self), "weights": describe_weights(self.weights)}

    def fit(self, lesson: Lesson) -> Fitted:
        """O(m) passes forward and back: days of a CPU for the paper's experiments, minutes of a GPU."""
        return _fit(self, lesson)


Trainable = Torch | Vgg16


def _fit(model: Trainable, lesson: Lesson) -> Fitted:
    import torch

    network = model.network(lesson.n_classes, lesson.seed)
    if not lesson.state:
        first = torch.from_numpy(np.array(lesson.features[:2])).to(model.training.device)
        Split(network, model.head, model.training, is_training=False).check(network, first, lesson.n_classes)
    with steady(draw(lesson.seed, "weights", 1), model.training.device):
        return train(network, model.head, model.training, lesson)


def found_device(device: Any) -> str:
    """The device meant: ``auto`` is a GPU where torch finds one."""
    if device != "auto":
        return check_device(device)
    import torch

    return "cuda" if torch.cuda.is_available() else "cpu"
