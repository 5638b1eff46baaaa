"""What an embedder is: something with a name that turns a batch of pictures or of texts into rows of numbers."""

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from difflib import get_close_matches
from typing import Literal, NoReturn, Protocol, runtime_checkable

from dubito.errors import InvalidArgument
from dubito.matrix import AnyArray
from dubito.request.arrays import check_choice, check_integer, read_number

Takes = Literal["pictures", "texts"]


@dataclass(frozen=True, slots=True)
class Framing:
    """How pictures are brought to one size before an embedder sees them: as bytes (height, width, channels)."""

    height: int
    width: int
    fit: Literal["squash", "crop"] = "squash"
    """Whether the whole picture is squashed into the frame, or its middle cut out in the frame's shape."""
    channels: int = 3
    """3 for red, green and blue; 1 for gray."""


class Embedder(Protocol):
    """Turns a batch into rows of numbers. Its facts never change, and the same batch gives the same numbers."""

    @property
    def name(self) -> str:
        """As a person asked for it, such as ``pixels`` or ``onnx:model.onnx``."""

    @property
    def version(self) -> str:
        """Text that changes whenever the numbers would: pools of two versions are never mixed."""

    @property
    def takes(self) -> Takes:
        """What a batch holds."""

    @property
    def width(self) -> int:
        """Numbers a row."""

    @property
    def batch(self) -> int:
        """Items at a time, where nothing else is asked for."""

    @property
    def framing(self) -> Framing | None:
        """For pictures, the size they come in; None for texts."""

    def __call__(self, batch: AnyArray | Sequence[str], /) -> AnyArray:
        """Rows (k, width) for pictures (k, height, width, channels) of bytes, or for k texts."""


@runtime_checkable
class LearningEmbedder(Protocol):
    """An embedder that must see its source first. What it learns are arrays, which are kept for going on."""

    @property
    def name(self) -> str:
        """As a person asked for it."""

    @property
    def version(self) -> str:
        """Text that changes whenever it would learn something else from the same source."""

    @property
    def takes(self) -> Takes:
        """What it embeds."""

    def learn(self, contents: Callable[[], Iterator[object]], /) -> dict[str, AnyArray]:
        """Look at all that will be embedded, as often as need be: texts, or paths and bytes of pictures; None for none.

        The same contents give the same arrays.
        """

    def ready(self, learnt: Mapping[str, AnyArray], /) -> Embedder:
        """The embedder that knows this."""


Maker = Callable[[str, "Options"], Embedder | LearningEmbedder]
"""Makes an embedder out of what stands behind its name's colon, and of its options."""


# Options of an embedder, given as ``KEY=VALUE``: read by whoever needs them, and refused where nobody does.

TRUTHS = {"yes": True, "no": False, "true": True, "false": False, "1": True, "0": False}
MEANS = {"imagenet": (0.485, 0.456, 0.406), "clip": (0.48145466, 0.4578275, 0.40821073), "half": (0.5, 0.5, 0.5)}
DEVIATIONS = {"imagenet": (0.229, 0.224, 0.225), "clip": (0.26862954, 0.26130258, 0.27577711), "half": (0.5, 0.5, 0.5)}
PRESETS = {"mean": MEANS, "std": DEVIATIONS}
"""What pictures are normalized with, by the usual names."""


class Options:
    """The options given to an embedder, and which of them its maker asked for.

    A maker reads each option by name, with the value it has if it was not given.

    Examples
    --------
    >>> options = Options("onnx", {"size": "64", "mean": "imagenet"})
    >>> options.side("size", 224), options.triple("mean", (0.0, 0.0, 0.0))
    ((64, 64), (0.485, 0.456, 0.406))
    """

    def __init__(self, embedder: str, given: Mapping[str, object]) -> None:
        self.embedder = embedder
        self.given = given
        self.asked: dict[str, None] = {}

    def _value(self, name: str, default: object) -> object:
        self.asked[name] = None
        value = self.given.get(name, default)
        return value.strip() if isinstance(value, str) else value

    def whole(self, name: str, default: int, least: int = 1) -> int:
        value = self._value(name, default)
        return check_integer(name, read_number(value) if isinstance(value, str) else value, least=least)

    def text(self, name: str, default: str = "") -> str:
        return str(self._value(name, default))

    def truth(self, name: str, default: bool) -> bool:
        value = self._value(name, default)
        return value if isinstance(value, bool) else TRUTHS[check_choice(name, value, tuple(TRUTHS))]

    def choice(self, name: str, default: str, known: Sequence[str]) -> str:
        return check_choice(name, self._value(name, default), known)

    def triple(self, name: str, default: Sequence[float]) -> tuple[float, float, float]:
        """Three numbers with commas between, one for all three, or ``imagenet``, ``clip`` or ``half``."""
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
        """Height and width: ``224``, or ``224x320``."""
        value = self._value(name, default)
        parts = value.lower().split("x") if isinstance(value, str) else value
        numbers = [read_number(str(part)) for part in (parts if isinstance(parts, list | tuple) else [parts])]
        if len(numbers) == 1:
            numbers *= 2
        if len(numbers) != 2 or not all(type(number) is int and 0 < number <= 4096 for number in numbers):
            self._refuse(name, value, "write the side in pixels, 224, or height and width, 224x320.")
        return int(numbers[0]), int(numbers[1])

    def _refuse(self, name: str, value: object, hint: str) -> NoReturn:
        raise InvalidArgument("cannot be used", argument=name, value=value, hint=hint)

    def finish(self) -> None:
        """Refuse what nobody asked for."""
        odd = next((name for name in self.given if name not in self.asked), None)
        if odd is None:
            return
        near = get_close_matches(odd, self.asked, n=1)
        meant = f"did you mean {near[0]!r}? It" if near else "it"
        takes = f"takes {', '.join(self.asked)}" if self.asked else "takes none"
        raise InvalidArgument(f"{self.embedder} has no option {odd!r}", hint=f"{meant} {takes}.")
