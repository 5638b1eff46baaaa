"""An embedder from outside dubito, found by its entry point."""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from dubito.embedding.embedder import Framing, Options, Takes
from dubito.matrix import AnyArray


@dataclass(frozen=True)
class Lengths:
    """Texts by how long they are, times a factor."""

    factor: int
    name: str = "lengths"
    version: str = "1"
    takes: Takes = "texts"
    width: int = 1
    batch: int = 64
    framing: Framing | None = None

    def __call__(self, batch: AnyArray | Sequence[str], /) -> AnyArray:
        """Rows (k, 1)."""
        return np.array([[self.factor * len(str(text))] for text in batch], dtype=np.float32)


def make_lengths(rest: str, options: Options) -> Lengths:
    """``lengths``; ``factor`` is what they are multiplied by."""
    return Lengths(options.whole("factor", 1))
