"""Networks in PyTorch: how one is trained and asked, and a small multilayer perceptron. Extra ``torch``.

The weights go on from turn to turn and the optimizer starts anew, as in the paper. One thread and deterministic
algorithms, so that the same lesson gives the same bits on one machine.
"""

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from itertools import pairwise
from typing import TYPE_CHECKING, Any, ClassVar, Literal, get_args

import numpy as np

from dubito.checks import check_choice, check_integer
from dubito.doubt import softmax
from dubito.errors import InvalidArgument, InvalidData
from dubito.experiments.chance import draw
from dubito.experiments.models.base import Fitted, Lesson, State, check_samples
from dubito.experiments.models.networks.refusals import check_converged, check_network, whole_state
from dubito.experiments.models.scikit import check_positive, flat
from dubito.matrix import AnyArray, FloatArray
from dubito.optional import require

if TYPE_CHECKING:
    import torch

Seen = Literal["input", "hidden"]
Precision = Literal["auto", "bfloat16", "float32"]
READ_ROWS = 1024
"""Rows that go through a network at once when it only answers."""
MEAN, DEVIATION = (0.485, 0.456, 0.406), (0.229, 0.224, 0.225)
"""Of red, green and blue over ImageNet: networks trained there take images in these units."""


@dataclass(frozen=True, slots=True)
class Training:
    """How a network is trained in a turn: cross-entropy and Adam."""

    epochs: int
    """Passes over the labels in the first turn."""
    later_epochs: int
    """Passes in every turn after it, where the weights go on."""
    learning_rate: float
    decay: bool
    """Let the learning rate fall to 0 within each turn, along a cosine."""
    batch: int
    device: str
    precision: Precision = "auto"
    """Of the layers before the last; ``auto`` is bfloat16 where cells are trained side by side, and float32 elsewhere.
    The last layer and the weights themselves are float32 always."""

    def __post_init__(self) -> None:
        for name in ("epochs", "later_epochs", "batch"):
            check_integer(name, getattr(self, name), least=1)
        check_choice("precision", self.precision, get_args(Precision))
        check_positive("learning_rate", self.learning_rate)
        if not isinstance(self.decay, bool):
            raise InvalidArgument(f"decay={self.decay!r} is not allowed; pass true or false.")


@dataclass(frozen=True, slots=True)
class Mlp:
    """A multilayer perceptron with ReLUs."""

    hidden: tuple[int, ...] = (128,)
    """Widths of its hidden layers."""
    epochs: int = 60
    later_epochs: int = 30
    learning_rate: float = 1e-3
    decay: bool = False
    batch: int = 64
    features: Seen = "input"
    """What distances are measured between: the input, or the last hidden layer."""
    device: str = "cpu"
    samples: int = 0
    kind: ClassVar[str] = "mlp"
    is_convex: ClassVar[bool] = False
    goes_on: ClassVar[bool] = True

    def __post_init__(self) -> None:
        require("torch", extra="torch")
        widths = self.hidden if isinstance(self.hidden, tuple) else (self.hidden,)
        for width in widths or (0,):
            check_integer("hidden", width, least=1)
        check_choice("features", self.features, get_args(Seen))
        check_samples(self.samples)
        _training(self)

    @property
    def moves(self) -> bool:
        """Only a hidden layer moves."""
        return self.features == "hidden"

    def fit(self, lesson: Lesson) -> Fitted:
        """O(m·width) an epoch."""
        widths = self.hidden if isinstance(self.hidden, tuple) else (self.hidden,)
        n_inputs = flat(lesson.features).shape[1]
        with steady(draw(lesson.seed, "weights"), self.device):
            network = perceptron((n_inputs, *widths, lesson.n_classes))
            return train(network, "head" if self.features == "hidden" else None, _training(self), lesson)


@dataclass(frozen=True, slots=True, eq=False)
class Network:
    """A trained network, which answers in blocks of rows."""

    module: Any
    head: str | None
    """The module whose input is the feature; None where features are the network's own inputs."""
    device: str

    @property
    def state(self) -> State:
        """Every weight and buffer by its name."""
        return {name: tensor.detach().cpu().numpy().copy() for name, tensor in whole_state(self.module).items()}

    def predict_proba(self, features: AnyArray) -> FloatArray:
        """(n, c) softmax of the logits, in float64."""
        return softmax(self._read(features, None))

    def embed(self, features: AnyArray) -> AnyArray:
        """(n, e) inputs of the head."""
        return flat(features if self.head is None else self._read(features, self.head))

    def _read(self, features: AnyArray, head: str | None) -> AnyArray:
        """Logits of every row, or what goes into the head."""
        import torch

        seen: list[torch.Tensor] = []
        parts = []
        hook = (
            None
            if head is None
            else self.module.get_submodule(head).register_forward_pre_hook(
                lambda module, inputs, named: seen.append((*inputs, *named.values())[0].flatten(1)), with_kwargs=True
            )
        )
        with steady(0, self.device), torch.no_grad():
            for start in range(0, len(features), READ_ROWS):
                logits = self.module(as_input(features[start : start + READ_ROWS], self.device))
                parts.append((logits if head is None else seen.pop()).cpu().numpy())
        if hook is not None:
            hook.remove()
        return np.concatenate(parts)


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


def train(network: Any, head: str | None, training: Training, lesson: Lesson) -> Network:
    """Train a network on a lesson, from the weights the lesson brings or from its own."""
    import torch

    network.to(training.device)
    if lesson.state:
        set_state(network, lesson.state)
    features, labels = as_input(lesson.features, training.device), torch.from_numpy(lesson.labels).to(training.device)
    check_network(network, features[:2], lesson.n_classes)
    optimizer = torch.optim.Adam(network.parameters(), lr=training.learning_rate)
    epochs = training.later_epochs if lesson.state else training.epochs
    falling = torch.optim.lr_scheduler.CosineAnnealingLR(optimizer, epochs) if training.decay else None
    generator = torch.Generator().manual_seed(draw(lesson.seed, "batches", lesson.turn))
    network.train()
    for _ in range(epochs):
        for rows in batches(len(labels), training.batch, generator):
            loss = torch.nn.functional.cross_entropy(network(features[rows]), labels[rows])
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
        if falling is not None:
            falling.step()
    network.eval()
    check_converged(network.parameters(), lesson.turn, training.learning_rate)
    return Network(network, head, training.device)


def set_state(network: Any, state: State) -> None:
    """Give a network every weight and buffer that was kept of it."""
    import torch

    held = whole_state(network)
    for name in {**held, **state}:
        if name not in held or name not in state or held[name].shape != state[name].shape:
            raise InvalidData(f"what is kept of {name!r} does not fit the network; was its code changed?")
    with torch.no_grad():
        for name, each in held.items():
            each.copy_(torch.from_numpy(np.array(state[name])))


def batches(n: int, size: int, generator: "torch.Generator") -> "list[torch.Tensor]":
    """Row numbers in random order, ``size`` at a time; a lone last one joins those before it."""
    import torch

    parts = list(torch.randperm(n, generator=generator).split(size))
    if len(parts) > 1 and len(parts[-1]) == 1:
        parts[-2:] = [torch.cat(parts[-2:])]
    return parts


def as_input(features: AnyArray, device: str) -> "torch.Tensor":
    """float32 on the device; images (n, h, w, 3) of 8 bits become what `normalised` makes of them."""
    import torch

    if is_images(features):
        return normalised(torch.from_numpy(np.array(features)).to(device), *colour_units(device))
    return torch.from_numpy(np.array(features, dtype=np.float32)).to(device)


def is_images(features: AnyArray) -> bool:
    """Whether these are 8-bit colour images."""
    return features.dtype == np.uint8 and features.ndim == 4


def colour_units(device: str) -> "tuple[torch.Tensor, torch.Tensor]":
    """What to multiply pixels by, and what to take away then, for each colour."""
    import torch

    deviation = torch.tensor(DEVIATION)
    return (1.0 / (255.0 * deviation)).to(device), (torch.tensor(MEAN) / deviation).to(device)


def normalised(images: "torch.Tensor", scale: "torch.Tensor", shift: "torch.Tensor") -> "torch.Tensor":
    """(n, 3, h, w) in ImageNet's units, out of pixels (n, h, w, 3); in memory the colours stay last."""
    return (images.float() * scale - shift).permute(0, 3, 1, 2)


@contextmanager
def steady(seed: int, device: str) -> Iterator[None]:
    """One thread, deterministic algorithms, and torch's global generator seeded; all as before afterwards.

    A GPU is left as it is: it has no deterministic form of some operations, and results are the same only on a CPU.
    """
    import torch

    threads, deterministic = torch.get_num_threads(), torch.are_deterministic_algorithms_enabled()
    with torch.random.fork_rng():
        torch.manual_seed(seed)
        torch.set_num_threads(1)
        torch.use_deterministic_algorithms(device == "cpu")
        try:
            yield
        finally:
            torch.set_num_threads(threads)
            torch.use_deterministic_algorithms(deterministic)


def _training(model: Mlp) -> Training:
    return Training(
        model.epochs, model.later_epochs, model.learning_rate, model.decay, model.batch, check_device(model.device)
    )


def check_device(device: str) -> str:
    """``cpu``, or ``cuda`` where there is one."""
    import torch

    kind, _, number = device.partition(":") if isinstance(device, str) else (device, "", "")
    if check_choice("device", kind, ("cpu", "cuda")) == "cpu":
        return "cpu"
    if number and not (number.isdecimal() and int(number) < max(1, torch.cuda.device_count())):
        raise InvalidArgument(f'device={device!r} is not there; write device = "cuda".')
    if not torch.cuda.is_available():
        raise InvalidArgument(f'device={device!r} is not there: torch finds no GPU; write device = "cpu".')
    return device
