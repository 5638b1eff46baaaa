"""The interface of an embedder, which turns a batch of pictures or texts into rows of numbers."""

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from difflib import get_close_matches
from typing import Literal, NoReturn, Protocol, TypeVar, get_args, runtime_checkable

from dubito.errors import InvalidArgument
from dubito.matrix import AnyArray
from dubito.request.arrays import check_choice, check_integer, read_number

Takes = Literal["pictures", "texts"]
Fit = Literal["squash", "crop"]


@dataclass(frozen=True, slots=True)
class Framing:
    """How pictures are resized before they are embedded: to bytes of shape (height, width, channels)."""

    height: int
    width: int
    fit: Fit = "squash"
    """``squash`` resizes the whole picture, changing its aspect ratio; ``crop`` resizes and crops the center."""
    channels: int = 3
    """3 for red, green and blue; 1 for gray."""


class Embedder(Protocol):
    """Turns a batch into rows of numbers. It is immutable, and the same batch gives the same numbers."""

    @property
    def name(self) -> str:
        """The name that the user passed, such as ``pixels`` or ``onnx:model.onnx``."""

    @property
    def version(self) -> str:
        """Text that changes whenever the numbers would; pools of two versions are never mixed."""

    @property
    def takes(self) -> Takes:
        """The kind of items in a batch."""

    @property
    def width(self) -> int:
        """The number of features per row."""

    @property
    def batch(self) -> int:
        """The default batch size."""

    @property
    def framing(self) -> Framing | None:
        """The size of the pictures in a batch; None for texts."""

    def __call__(self, batch: AnyArray | Sequence[str], /) -> AnyArray:
        """Embed pictures, given as bytes (k, height, width, channels), or k texts, as rows (k, width)."""


@runtime_checkable
class LearningEmbedder(Protocol):
    """An embedder that is fitted on the source first. The arrays it learns are stored, so that a run can resume."""

    @property
    def name(self) -> str:
        """The name that the user passed."""

    @property
    def version(self) -> str:
        """Text that changes whenever the same source would give different arrays."""

    @property
    def takes(self) -> Takes:
        """The kind of items it embeds."""

    def learn(self, contents: Callable[[], Iterator[object]], /) -> dict[str, AnyArray]:
        """Return arrays learned from all items: texts, or paths or bytes of pictures; None for a missing item.

        ``contents`` may be called several times. The same items must give the same arrays.
        """

    def ready(self, learned: Mapping[str, AnyArray], /) -> Embedder:
        """The embedder that uses the learned arrays."""


Maker = Callable[[str, "Options"], Embedder | LearningEmbedder]
"""Makes an embedder from the text after the colon in its name, and its options."""


# Options of an embedder, given as ``KEY=VALUE``.

Choice = TypeVar("Choice", bound=str)
BOOLEANS = {"yes": True, "no": False, "true": True, "false": False, "1": True, "0": False}
MEANS = {"imagenet": (0.485, 0.456, 0.406), "clip": (0.48145466, 0.4578275, 0.40821073), "half": (0.5, 0.5, 0.5)}
DEVIATIONS = {"imagenet": (0.229, 0.224, 0.225), "clip": (0.26862954, 0.26130258, 0.27577711), "half": (0.5, 0.5, 0.5)}
PRESETS = {"mean": MEANS, "std": DEVIATIONS}
"""Means and standard deviations for the normalization of pictures, by name."""


class Options:
    """The options given to an embedder, which its maker reads by name, each with a default value.

    An option that the maker does not read is an error.

    Examples
    --------
    >>> options = Options("onnx", {"size": "64", "mean": "imagenet"})
    >>> options.side("size", 224), options.triple("mean", (0.0, 0.0, 0.0))
    ((64, 64), (0.485, 0.456, 0.406))
    """

    def __init__(self, embedder: str, given: Mapping[str, object]) -> None:
        self.embedder = embedder
        self.given = given
        self.used: dict[str, None] = {}

    def _value(self, name: str, default: object) -> object:
        self.used[name] = None
        value = self.given.get(name, default)
        return value.strip() if isinstance(value, str) else value

    def whole(self, name: str, default: int, least: int = 1) -> int:
        value = self._value(name, default)
        return check_integer(name, read_number(value) if isinstance(value, str) else value, least=least)

    def text(self, name: str, default: str = "") -> str:
        return str(self._value(name, default))

    def truth(self, name: str, default: bool) -> bool:
        value = self._value(name, default)
        return value if isinstance(value, bool) else BOOLEANS[check_choice(name, value, tuple(BOOLEANS))]

    def choice(self, name: str, default: Choice, known: Sequence[Choice]) -> Choice:
        return check_choice(name, self._value(name, default), known)

    def triple(self, name: str, default: Sequence[float]) -> tuple[float, float, float]:
        """Three numbers separated by commas, one number for all three, or ``imagenet``, ``clip`` or ``half``."""
        value = self._value(name, default)
        if isinstance(value, str) and value in PRESETS.get(name, {}):
            return PRESETS[name][value]
        parts = value.split(",") if isinstance(value, str) else value if isinstance(value, Sequence) else [value]
        try:
            numbers = [float(str(part)) for part in parts]
        except ValueError:
            numbers = []
        if len(numbers) == 1:
            numbers *= 3
        if len(numbers) != 3 or (name == "std" and 0.0 in numbers):
            self._refuse(name, value, "write one number or three, such as 0.5,0.5,0.5, or imagenet, clip or half.")
        return numbers[0], numbers[1], numbers[2]

    def side(self, name: str, default: int | tuple[int, int]) -> tuple[int, int]:
        """Height and width, from ``224`` or ``224x320``."""
        value = self._value(name, default)
        parts = value.lower().split("x") if isinstance(value, str) else value
        numbers = [read_number(str(part)) for part in (parts if isinstance(parts, list | tuple) else [parts])]
        if len(numbers) == 1:
            numbers *= 2
        if len(numbers) != 2 or not all(type(number) is int and 0 < number <= 4096 for number in numbers):
            self._refuse(name, value, "write the side in pixels, 224, or height and width, 224x320.")
        return int(numbers[0]), int(numbers[1])

    def framing(self, default: int | tuple[int, int]) -> Framing:
        """The size of pictures, from the options ``size`` and ``fit``."""
        height, width = self.side("size", default)
        return Framing(height, width, self.choice("fit", "crop", get_args(Fit)))

    def _refuse(self, name: str, value: object, hint: str) -> NoReturn:
        raise InvalidArgument("cannot be used", argument=name, value=value, hint=hint)

    def reject_unused(self) -> None:
        """Raise if an option was given that the maker did not read."""
        unknown = next((name for name in self.given if name not in self.used), None)
        if unknown is None:
            return
        close = get_close_matches(unknown, self.used, n=1)
        it = f"did you mean {close[0]!r}? It" if close else "it"
        known = f"takes {', '.join(self.used)}" if self.used else "takes none"
        raise InvalidArgument(f"{self.embedder} has no option {unknown!r}", hint=f"{it} {known}.")
