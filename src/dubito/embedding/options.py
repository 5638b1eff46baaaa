"""Options of an embedder, given as ``KEY=VALUE``: read by whoever needs them, and refused where nobody does."""

from collections.abc import Mapping, Sequence
from difflib import get_close_matches
from typing import NoReturn

from dubito.checks import check_choice, check_integer, read_number
from dubito.errors import InvalidArgument

TRUTHS = {"yes": True, "no": False, "true": True, "false": False, "1": True, "0": False}
MEANS = {"imagenet": (0.485, 0.456, 0.406), "clip": (0.48145466, 0.4578275, 0.40821073), "half": (0.5, 0.5, 0.5)}
DEVIATIONS = {"imagenet": (0.229, 0.224, 0.225), "clip": (0.26862954, 0.26130258, 0.27577711), "half": (0.5, 0.5, 0.5)}
PRESETS = {"mean": MEANS, "std": DEVIATIONS}
"""What pictures are normalised with, by the usual names."""


class Options:
    """What was given, and which of it was asked for.

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
        """A whole number."""
        value = self._value(name, default)
        return check_integer(name, read_number(value) if isinstance(value, str) else value, least=least)

    def text(self, name: str, default: str = "") -> str:
        """Text."""
        return str(self._value(name, default))

    def truth(self, name: str, default: bool) -> bool:
        """Yes or no."""
        value = self._value(name, default)
        return value if isinstance(value, bool) else TRUTHS[check_choice(name, value, tuple(TRUTHS))]

    def choice(self, name: str, default: str, known: Sequence[str]) -> str:
        """One of some names."""
        return check_choice(name, self._value(name, default), known)

    def triple(self, name: str, default: Sequence[float]) -> tuple[float, float, float]:
        """Three numbers, one for all three, or the name of a preset."""
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
        """Height and width."""
        value = self._value(name, default)
        parts = value.lower().split("x") if isinstance(value, str) else value
        numbers = [read_number(str(part)) for part in (parts if isinstance(parts, list | tuple) else [parts])]
        if len(numbers) == 1:
            numbers *= 2
        if len(numbers) != 2 or not all(type(number) is int and 0 < number <= 4096 for number in numbers):
            self._refuse(name, value, "write the side in pixels, 224, or height and width, 224x320.")
        return int(numbers[0]), int(numbers[1])

    def _refuse(self, name: str, value: object, mend: str) -> NoReturn:
        raise InvalidArgument("cannot be used", argument=name, value=value, mend=mend)

    def finish(self) -> None:
        """Refuse what nobody asked for."""
        odd = next((name for name in self.given if name not in self.asked), None)
        if odd is None:
            return
        near = get_close_matches(odd, self.asked, n=1)
        meant = f"did you mean {near[0]!r}? It" if near else "it"
        takes = f"takes {', '.join(self.asked)}" if self.asked else "takes none"
        raise InvalidArgument(f"{self.embedder} has no option {odd!r}", mend=f"{meant} {takes}.")
