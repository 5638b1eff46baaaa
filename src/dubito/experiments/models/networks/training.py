"""How a network is trained in a turn, as settings; what the steps are made of is in `steps`."""

from dataclasses import dataclass
from typing import Literal, get_args

from dubito.checks import check_choice, check_integer
from dubito.errors import InvalidArgument
from dubito.experiments.models.base import check_positive
from dubito.wording import TRUE_OR_FALSE

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
            raise InvalidArgument("is not allowed", argument="decay", value=self.decay, mend=TRUE_OR_FALSE)

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
