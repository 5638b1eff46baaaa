"""``pixels``: the pixels of a picture, resized if it is large, as its embedding. For small or simple pictures."""

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import islice

import numpy as np

from dubito.embedding.decoder import measure
from dubito.embedding.embedder import Framing, Options, Takes
from dubito.matrix import AnyArray

SIDE = 32
"""Larger pictures are resized to a square with this side."""
N_INSPECTED = 256
"""Number of pictures, from the first on, that decide the frame."""


@dataclass(frozen=True, slots=True)
class Pixels:
    """Pixels from 0 to 1, row by row."""

    framing: Framing
    name: str = "pixels"
    takes: Takes = "pictures"
    batch: int = 256

    @property
    def version(self) -> str:
        frame = self.framing
        return f"1, {frame.height} x {frame.width} x {frame.channels}"

    @property
    def width(self) -> int:
        return self.framing.height * self.framing.width * self.framing.channels

    def __call__(self, batch: AnyArray | Sequence[str], /) -> AnyArray:
        pictures = np.asarray(batch)
        return pictures.reshape(len(pictures), -1).astype(np.float32) / np.float32(255)


@dataclass(frozen=True, slots=True)
class PixelsLearner:
    """Keeps the size of small pictures if the first few hundred have the same; otherwise resizes all to ``side``."""

    side: tuple[int, int] | None = None
    name: str = "pixels"
    version: str = "1"
    takes: Takes = "pictures"

    def learn(self, contents: Callable[[], Iterator[object]], /) -> dict[str, AnyArray]:
        """The frame, from the headers of the first pictures; gray if all of them are."""
        found = [
            measured
            for each in islice(contents(), N_INSPECTED)
            if isinstance(each, str | bytes) and (measured := measure(each)) is not None
        ]
        channels = 1 if found and all(gray for _, _, gray in found) else 3
        sizes = {(height, width) for height, width, _ in found}
        own = next(iter(sizes)) if len(sizes) == 1 and max(next(iter(sizes))) <= SIDE else (SIDE, SIDE)
        height, width = self.side or own
        return {"frame": np.array([height, width, channels], dtype=np.int64)}

    def ready(self, learned: Mapping[str, AnyArray], /) -> Pixels:
        height, width, channels = learned["frame"].tolist()
        return Pixels(Framing(height, width, "squash", channels))


def make_pixels(rest: str, options: Options) -> PixelsLearner:
    """``pixels``; the option ``size`` is the side."""
    return PixelsLearner(options.side("size", SIDE) if options.text("size") else None)
