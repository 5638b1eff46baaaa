"""What an embedder is: something with a name that turns a batch of pictures or of texts into rows of numbers."""

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Literal, Protocol, runtime_checkable

from dubito.matrix import AnyArray

Takes = Literal["pictures", "texts"]


@dataclass(frozen=True, slots=True)
class Framing:
    """How pictures are brought to one size before an embedder sees them: as bytes (height, width, channels)."""

    height: int
    width: int
    fit: Literal["squash", "crop"] = "squash"
    """Whether the whole picture is squashed into the frame, or its middle cut out in the frame's shape."""
    channels: int = 3
    """3 for red, green and blue; 1 for grey."""


class Embedder(Protocol):
    """Turns a batch into rows of numbers. Its facts never change, and the same batch gives the same numbers."""

    @property
    def name(self) -> str:
        """As a person asked for it, such as ``pixels`` or ``onnx:model.onnx``."""
        ...

    @property
    def version(self) -> str:
        """Text that changes whenever the numbers would: pools of two versions are never mixed."""
        ...

    @property
    def takes(self) -> Takes:
        """What a batch holds."""
        ...

    @property
    def width(self) -> int:
        """Numbers a row."""
        ...

    @property
    def batch(self) -> int:
        """Items at a time, where nothing else is asked for."""
        ...

    @property
    def framing(self) -> Framing | None:
        """For pictures, the size they come in; None for texts."""
        ...

    def __call__(self, batch: AnyArray | Sequence[str], /) -> AnyArray:
        """Rows (k, width) for pictures (k, height, width, channels) of bytes, or for k texts."""
        ...


@runtime_checkable
class LearningEmbedder(Protocol):
    """An embedder that must see its source first. What it learns are arrays, which are kept for going on."""

    @property
    def name(self) -> str:
        """As a person asked for it."""
        ...

    @property
    def version(self) -> str:
        """Text that changes whenever it would learn something else from the same source."""
        ...

    @property
    def takes(self) -> Takes:
        """What it embeds."""
        ...

    def learn(self, contents: Callable[[], Iterator[object]], /) -> dict[str, AnyArray]:
        """Look at all that will be embedded, as often as need be: texts, or paths and bytes of pictures; None for none.

        The same contents give the same arrays.
        """
        ...

    def ready(self, learnt: Mapping[str, AnyArray], /) -> Embedder:
        """The embedder that knows this."""
        ...


Maker = Callable[[str, "OptionsLike"], Embedder | LearningEmbedder]
"""Makes an embedder out of what stands behind its name's colon, and of its options."""


class OptionsLike(Protocol):
    """What a maker reads its options from: each by name, with what it is where nothing is given."""

    def whole(self, name: str, default: int, least: int = 1) -> int:
        """A whole number."""
        ...

    def text(self, name: str, default: str = "") -> str:
        """Text."""
        ...

    def truth(self, name: str, default: bool) -> bool:
        """Yes or no."""
        ...

    def choice(self, name: str, default: str, known: Sequence[str]) -> str:
        """One of some names."""
        ...

    def triple(self, name: str, default: Sequence[float]) -> tuple[float, float, float]:
        """Three numbers with commas between, one for all three, or ``imagenet``, ``clip`` or ``half``."""
        ...

    def side(self, name: str, default: int | tuple[int, int]) -> tuple[int, int]:
        """Height and width: ``224``, or ``224x320``."""
        ...
