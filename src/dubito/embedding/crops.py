"""Boxes of pictures, cut out where pictures are decoded."""

import math
from collections.abc import Sequence
from functools import lru_cache
from typing import Any


class Crop(str):
    """The path of a picture, and the box of it that is meant: left, top, right and bottom in pixels."""

    box: tuple[float, ...]

    def __new__(cls, path: str, box: Sequence[float]) -> "Crop":
        made = super().__new__(cls, path)
        made.box = tuple(box)
        return made


def with_margin(box: Sequence[float], margin: float, width: int, height: int) -> tuple[float, float, float, float]:
    """The box with a margin on each side, a share of its own size, inside a picture of this size.

    Examples
    --------
    >>> with_margin((10, 10, 30, 20), 0.1, 100, 20)
    (8.0, 9.0, 32.0, 20)
    """
    left, top, right, bottom = box
    across, down = margin * (right - left), margin * (bottom - top)
    return max(0.0, left - across), max(0.0, top - down), min(width, right + across), min(height, bottom + down)


def cut(picture: Any, box: Sequence[float], size: tuple[int, int]) -> Any:
    """All pixels of a Pillow picture that the box touches, resized to (width, height)."""
    from PIL import Image

    left, top = min(math.floor(box[0]), picture.width - 1), min(math.floor(box[1]), picture.height - 1)
    right, bottom = max(math.ceil(box[2]), left + 1), max(math.ceil(box[3]), top + 1)
    part = picture.crop((left, top, min(right, picture.width), min(bottom, picture.height)))
    return part.resize(size, Image.Resampling.BILINEAR, reducing_gap=3.0)


@lru_cache(maxsize=1)
def last_picture(path: str, channels: int) -> Any:
    """The upright picture of a file; kept, because the boxes of a picture follow each other."""
    from dubito.embedding.decoder import open_upright

    return open_upright(path, channels)
