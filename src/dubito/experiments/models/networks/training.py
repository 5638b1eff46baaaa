"""How a network is trained in a turn, as settings; what the steps are made of is in `steps`."""

import math
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Literal, get_args

import numpy as np

from dubito.errors import PASS, TRUE_OR_FALSE, InvalidArgument, named
from dubito.experiments.models.base import check_positive
from dubito.matrix import AnyArray, IntArray
from dubito.request.arrays import check_choice, check_integer

if TYPE_CHECKING:
    import torch

Stated = Literal["bfloat16", "float32"]
Precision = Literal["auto"] | Stated


@dataclass(frozen=True, slots=True)
class Training:
    """How a network is trained in a turn: cross-entropy and Adam, on a CPU and on a GPU alike.

    Examples
    --------
    >>> [Training(30, 12, 1e-4, False, 64, device).stated_precision for device in ("cpu", "cuda")]
    ['float32', 'bfloat16']
    """

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
    """Of the layers before the last; ``auto`` is bfloat16 on a GPU and float32 on a CPU. The last layer and the weights
    themselves are float32 always."""

    def __post_init__(self) -> None:
        for name in ("epochs", "later_epochs", "batch"):
            check_integer(name, getattr(self, name), least=1)
        check_choice("precision", self.precision, ("auto", *get_args(Stated)))
        check_positive("learning_rate", self.learning_rate)
        if not isinstance(self.decay, bool):
            raise InvalidArgument("is not allowed", argument="decay", value=self.decay, hint=TRUE_OR_FALSE)

    @property
    def is_on_gpu(self) -> bool:
        """Whether the device is a GPU."""
        return self.device != "cpu"

    @property
    def stated_precision(self) -> Stated:
        """What ``auto`` comes to on this device."""
        if self.precision == "auto":
            return "bfloat16" if self.is_on_gpu else "float32"
        return self.precision


# The steps of a turn: which rows are in each minibatch, and at which learning rate it is learned from.
#
# One meaning for every network, trained alone on a CPU or side by side on a GPU.


class Steps:
    """What a turn trains on, step by step.

    Parameters
    ----------
    rows : array (m,)
        The labeled rows.
    training : Training
        How to train.
    is_first : bool
        Whether nothing was trained before: then there are `Training.epochs` passes, else `Training.later_epochs`.
    seed : int
        The same seed gives the same minibatches, on every device.

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
        """(steps, batch) the rows of every minibatch."""
        self.rates = learning_rates(self.count, training)
        """(steps,) the learning rate of every step."""


def n_steps(labels: int, epochs: int, batch: int) -> int:
    """Minibatches of a turn, at least one an epoch."""
    return max(epochs, epochs * labels // batch)


def rows_trained(labels: IntArray, training: Training, *, from_scratch: bool) -> int:
    """Rows that a run with these labels (rounds + 1,) trains on in all turns, counted once per epoch.

    Examples
    --------
    >>> rows_trained(np.array([20, 30]), Training(3, 2, 0.1, False, 8, "cpu"), from_scratch=False)
    120
    """
    later_epochs = training.epochs if from_scratch else training.later_epochs
    return int(training.epochs * labels[0] + later_epochs * labels[1:].sum())


def minibatches(rows: IntArray, epochs: int, batch: int, seed: int) -> "torch.Tensor":
    """(steps, batch) rows in random order, epoch after epoch.

    Epochs follow one another without a gap: a minibatch may hold the end of one and the beginning of the next, and all
    are of one size. What is left of the last epoch, less than a minibatch, is passed over. Labels that are fewer than a
    minibatch are repeated in it.
    """
    import torch

    generator = torch.Generator().manual_seed(seed)
    labeled = torch.from_numpy(rows)
    count = n_steps(len(rows), epochs, batch)
    passes = max(epochs, -(-count * batch // len(rows)))
    stream = torch.cat([labeled[torch.randperm(len(rows), generator=generator)] for _ in range(passes)])
    return stream[: count * batch].view(count, batch)


def learning_rates(count: int, training: Training) -> "torch.Tensor":
    """(steps,) the learning rate of every step: the same, or with ``decay`` falling to 0 along a cosine."""
    import torch

    places = torch.arange(count, dtype=torch.float64) / count
    falling = 0.5 * (1.0 + torch.cos(math.pi * places)) if training.decay else torch.ones_like(places)
    return (training.learning_rate * falling).float()


# What goes into a network: rows of the data on a device, and images in the units that networks take them in.

MEAN, DEVIATION = (0.485, 0.456, 0.406), (0.229, 0.224, 0.225)
"""Of red, green and blue over ImageNet: networks trained there take images in these units."""


def on_device(array: AnyArray, device: str) -> "torch.Tensor":
    """A copy on the device, in the type it has."""
    import torch

    return torch.from_numpy(np.array(array)).to(device)


def color_units(device: str) -> "tuple[torch.Tensor, torch.Tensor]":
    """What to multiply pixels by, and what to take away then, for each color."""
    import torch

    deviation = torch.tensor(DEVIATION)
    return (1.0 / (255.0 * deviation)).to(device), (torch.tensor(MEAN) / deviation).to(device)


def normalized(images: "torch.Tensor", scale: "torch.Tensor", shift: "torch.Tensor") -> "torch.Tensor":
    """(n, 3, h, w) in ImageNet's units, out of pixels (n, h, w, 3); in memory the colors stay last."""
    return (images.float() * scale - shift).permute(0, 3, 1, 2)


# Where a network is trained: the device that is meant, and a CPU that gives the same bits again.


def check_device(device: Any) -> str:
    """``cpu``, or ``cuda`` where there is one."""
    import torch

    kind, _, number = device.partition(":") if isinstance(device, str) else (device, "", "")
    if check_choice("device", kind, ("cpu", "cuda")) == "cpu":
        return "cpu"
    if number and not (number.isdecimal() and int(number) < max(1, torch.cuda.device_count())):
        raise InvalidArgument(
            "is not there", argument="device", value=device, hint=f"{PASS} {named('device', 'cuda')}."
        )
    if not torch.cuda.is_available():
        raise InvalidArgument(
            "is not there: torch finds no GPU",
            argument="device",
            value=device,
            hint=f"{PASS} {named('device', 'cpu')}.",
        )
    return str(device)


def found_device(device: Any) -> str:
    """The device meant: ``auto`` is a GPU where torch finds one."""
    if device != "auto":
        return check_device(device)
    import torch

    return "cuda" if torch.cuda.is_available() else "cpu"


def device_facts(device: str) -> dict[str, str]:
    """What a journal's header says of a device: its name for torch, and which GPU it is."""
    import torch

    return {"device": device} if device == "cpu" else {"device": device, "gpu": torch.cuda.get_device_name(device)}


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
