"""The settings of a training, the minibatches of a turn, and the device."""

import math
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Literal, get_args

import numpy as np

from dubito.errors import PASS, TRUE_OR_FALSE, InvalidArgument, named
from dubito.matrix import AnyArray, IntArray
from dubito.request.arrays import check_choice, check_integer, check_positive

if TYPE_CHECKING:
    import torch

ResolvedPrecision = Literal["bfloat16", "float32"]
Precision = Literal["auto"] | ResolvedPrecision


@dataclass(frozen=True, slots=True)
class Training:
    """The settings of a training with cross-entropy and Adam, on a CPU or a GPU.

    Examples
    --------
    >>> [Training(30, 12, 1e-4, False, 64, device).resolved_precision for device in ("cpu", "cuda")]
    ['float32', 'bfloat16']
    """

    epochs: int
    """Passes over the labels in the first turn."""
    later_epochs: int
    """Passes over the labels in later turns."""
    learning_rate: float
    decay: bool
    """Whether the learning rate falls to 0 within each turn, along a cosine."""
    batch: int
    device: str
    precision: Precision = "auto"
    """Precision of the layers before the head; ``auto`` is bfloat16 on a GPU and float32 on a CPU. The head and all
    weights are float32."""

    def __post_init__(self) -> None:
        for name in ("epochs", "later_epochs", "batch"):
            check_integer(name, getattr(self, name), least=1)
        check_choice("precision", self.precision, ("auto", *get_args(ResolvedPrecision)))
        check_positive("learning_rate", self.learning_rate)
        if not isinstance(self.decay, bool):
            raise InvalidArgument("is not allowed", argument="decay", value=self.decay, hint=TRUE_OR_FALSE)

    @property
    def is_on_gpu(self) -> bool:
        return self.device != "cpu"

    @property
    def resolved_precision(self) -> ResolvedPrecision:
        """The precision, where ``auto`` is resolved by the device."""
        if self.precision == "auto":
            return "bfloat16" if self.is_on_gpu else "float32"
        return self.precision


# The steps of a turn, which are the same for networks trained alone on a CPU and side by side on a GPU.


class Steps:
    """The minibatches of a turn and their learning rates; the same seed gives the same ones on every device.

    There are `Training.epochs` passes over the labeled rows (m,) in the first turn, later `Training.later_epochs`.

    Examples
    --------
    >>> import numpy as np
    >>> steps = Steps(np.arange(12), Training(2, 1, 0.5, True, 8, "cpu"), is_first=True, seed=0)
    >>> steps.count, steps.order.shape, steps.rates.tolist()
    (3, torch.Size([3, 8]), [0.5, 0.375, 0.125])
    """

    def __init__(self, rows: IntArray, training: Training, *, is_first: bool, seed: int) -> None:
        epochs = training.epochs if is_first else training.later_epochs
        self.count = n_steps(len(rows), epochs, training.batch)
        self.order = minibatches(rows, epochs, training.batch, seed)
        """(steps, batch) the rows of each minibatch."""
        self.rates = learning_rates(self.count, training)
        """(steps,) the learning rate of each step."""


def n_steps(labels: int, epochs: int, batch: int) -> int:
    """Number of minibatches of a turn, at least one per epoch."""
    return max(epochs, epochs * labels // batch)


def rows_trained(labels: IntArray, training: Training, *, from_scratch: bool) -> int:
    """Number of rows that a run trains on, counted once per epoch; ``labels`` (rounds + 1,) are those of each turn.

    Examples
    --------
    >>> rows_trained(np.array([20, 30]), Training(3, 2, 0.1, False, 8, "cpu"), from_scratch=False)
    120
    """
    later_epochs = training.epochs if from_scratch else training.later_epochs
    return int(training.epochs * labels[0] + later_epochs * labels[1:].sum())


def minibatches(rows: IntArray, epochs: int, batch: int, seed: int) -> "torch.Tensor":
    """(steps, batch) rows in random order, epoch after epoch.

    Minibatches have the same size, so that one may contain the end of an epoch and the beginning of the next. The
    remaining rows of the last epoch, fewer than a minibatch, are ignored. If there are fewer labels than a minibatch
    needs, they are repeated.
    """
    import torch

    generator = torch.Generator().manual_seed(seed)
    labeled = torch.from_numpy(rows)
    count = n_steps(len(rows), epochs, batch)
    passes = max(epochs, -(-count * batch // len(rows)))
    stream = torch.cat([labeled[torch.randperm(len(rows), generator=generator)] for _ in range(passes)])
    return stream[: count * batch].view(count, batch)


def learning_rates(count: int, training: Training) -> "torch.Tensor":
    """(steps,) the learning rate of each step: constant, or with ``decay`` falling to 0 along a cosine."""
    import torch

    progress = torch.arange(count, dtype=torch.float64) / count
    factors = 0.5 * (1.0 + torch.cos(math.pi * progress)) if training.decay else torch.ones_like(progress)
    return (training.learning_rate * factors).float()


# The inputs of a network: rows of the data on a device, with images normalized.

MEAN, DEVIATION = (0.485, 0.456, 0.406), (0.229, 0.224, 0.225)
"""Mean and standard deviation of red, green and blue in ImageNet, by which images are normalized."""


def on_device(array: AnyArray, device: str) -> "torch.Tensor":
    """A copy on the device, of the same type."""
    import torch

    return torch.from_numpy(np.array(array)).to(device)


def color_normalization(device: str) -> "tuple[torch.Tensor, torch.Tensor]":
    """The factor for the pixels of each color, and the shift to subtract afterwards."""
    import torch

    deviation = torch.tensor(DEVIATION)
    return (1.0 / (255.0 * deviation)).to(device), (torch.tensor(MEAN) / deviation).to(device)


def normalized(images: "torch.Tensor", scale: "torch.Tensor", shift: "torch.Tensor") -> "torch.Tensor":
    """Normalized pixels (n, h, w, 3) as (n, 3, h, w); in memory, the colors stay last."""
    return (images.float() * scale - shift).permute(0, 3, 1, 2)


# The device, and deterministic results on a CPU.


def check_device(device: Any) -> str:
    """The device: ``cpu``, or ``cuda`` if torch finds a GPU."""
    import torch

    kind, _, number = device.partition(":") if isinstance(device, str) else (device, "", "")
    if check_choice("device", kind, ("cpu", "cuda")) == "cpu":
        return "cpu"
    if number and not (number.isdecimal() and int(number) < max(1, torch.cuda.device_count())):
        hint = f"{PASS} {named('device', 'cuda')}."
        raise InvalidArgument("does not exist", argument="device", value=device, hint=hint)
    if not torch.cuda.is_available():
        hint = f"{PASS} {named('device', 'cpu')}."
        raise InvalidArgument("is not available: torch finds no GPU", argument="device", value=device, hint=hint)
    return str(device)


def resolve_device(device: Any) -> str:
    """The device, where ``auto`` is a GPU if torch finds one."""
    if device != "auto":
        return check_device(device)
    import torch

    return "cuda" if torch.cuda.is_available() else "cpu"


def device_facts(device: str) -> dict[str, str]:
    """The entries for the header of a journal: torch's name of the device, and the model of the GPU."""
    import torch

    return {"device": device} if device == "cpu" else {"device": device, "gpu": torch.cuda.get_device_name(device)}


@contextmanager
def deterministic(seed: int, device: str) -> Iterator[None]:
    """Use one thread, deterministic algorithms and a seeded global generator of torch in the block.

    Results are reproducible on a CPU only, as some operations have no deterministic form on a GPU.
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
