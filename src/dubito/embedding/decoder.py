"""Decode pictures with Pillow in a separate process, which runs `main`.

A request on stdin is a line of JSON and then bytes of pictures. The line has the framing, the CPU seconds that a
picture may take, and for every picture its path or its number of bytes. The answer on stdout is a line of JSON with the
problems by position, and then the pixels of all other pictures. Nothing is pickled. The process ends when its stdin
ends. A picture that takes too long kills the process; one that needs more memory than `MEMORY` is reported.
"""

import io
import json
import math
import os
import sys
import warnings
from collections.abc import Sequence
from functools import lru_cache
from typing import IO, Any, BinaryIO

import numpy as np

from dubito.embedding.embedder import Framing
from dubito.io.durable import NotRegularFile, open_regular
from dubito.io.limits import PICTURE_FORMATS
from dubito.io.picture_worker import alarm, limit_process
from dubito.matrix import AnyArray

MOST_PIXELS = 178_956_970
"""Larger pictures are not decoded, since a few bytes can claim any size. Pillow refuses them as well."""
MEMORY = 4_000_000_000
"""Limit on the address space of the process in bytes: decoding takes up to 20 bytes per pixel."""
DRAFT_FACTOR = 2
"""A JPEG is decoded at the smallest scale that is at least this many times the frame, then resized."""


class BrokenPicture(Exception):
    """Raised for a picture that cannot be decoded; the message completes a sentence about it."""


# Boxes of pictures are cut out where pictures are decoded.


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
    from PIL import Image, ImageOps

    with _open(path) as file, Image.open(file, formats=PICTURE_FORMATS) as opened:
        _check_pixels(opened)
        return _plain(ImageOps.exif_transpose(opened), channels)


def decode(content: str | bytes, framing: Framing) -> AnyArray:
    """The picture as bytes (height, width, channels).

    Gray becomes RGB or the reverse, as the frame requires. Transparent parts become white, the picture is rotated as
    its EXIF data says, and only the first frame of an animation is used. Raises BrokenPicture.
    """
    from PIL import Image, UnidentifiedImageError

    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            if isinstance(content, Crop):
                found = cut(last_picture(str(content), framing.channels), content.box, (framing.width, framing.height))
                return np.asarray(found, dtype=np.uint8).reshape(framing.height, framing.width, framing.channels)
            with _open(content) as file, Image.open(file, formats=PICTURE_FORMATS) as opened:
                _check_pixels(opened)
                return np.asarray(_resized(opened, framing), dtype=np.uint8).reshape(
                    framing.height, framing.width, framing.channels
                )
    except BrokenPicture:
        raise
    except UnidentifiedImageError:
        n_bytes = len(content) if isinstance(content, bytes) else os.path.getsize(content)
        raise BrokenPicture("is empty (0 bytes)" if not n_bytes else "is not a picture of a known format") from None
    except FileNotFoundError:
        raise BrokenPicture("does not exist") from None
    except NotRegularFile as error:
        raise BrokenPicture(str(error)) from None
    except Image.DecompressionBombError:
        raise BrokenPicture(f"claims more than the {MOST_PIXELS:,} pixels that are decoded") from None
    except MemoryError:
        raise BrokenPicture("takes more memory than there is") from None
    except Exception as error:
        # Broad on purpose: on a damaged picture the decoders raise a dozen unrelated kinds.
        raise BrokenPicture(_damage(error)) from None


def measure(content: str | bytes) -> tuple[int, int, bool] | None:
    """Height, width and whether the picture is gray, from the header alone; None if it cannot be read."""
    from PIL import Image

    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            with _open(content) as file, Image.open(file, formats=PICTURE_FORMATS) as opened:
                return opened.height, opened.width, opened.mode in ("1", "L")
    except Exception:  # As above; decoding it reports what is wrong.
        return None


def upright_size(path: str) -> tuple[int, int] | None:
    """Width and height of the rotated picture, from its header alone; None if it cannot be read."""
    from PIL import ExifTags, Image

    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            with _open(path) as file, Image.open(file, formats=PICTURE_FORMATS) as opened:
                is_turned = opened.getexif().get(ExifTags.Base.Orientation, 1) in (5, 6, 7, 8)
                return (opened.height, opened.width) if is_turned else (opened.width, opened.height)
    except Exception:  # As in `measure`.
        return None


def _open(content: str | bytes) -> BinaryIO:
    return io.BytesIO(content) if isinstance(content, bytes) else open_regular(content)


def _check_pixels(opened: Any) -> None:
    if opened.width * opened.height > MOST_PIXELS:
        raise BrokenPicture(
            f"is {opened.width:,} x {opened.height:,} pixels, more than the {MOST_PIXELS:,} that are decoded"
        )


def _resized(opened: Any, framing: Framing) -> Any:
    from PIL import Image, ImageOps

    wanted = framing.width, framing.height
    opened.draft("RGB" if framing.channels == 3 else "L", (DRAFT_FACTOR * wanted[0], DRAFT_FACTOR * wanted[1]))
    upright = ImageOps.exif_transpose(opened)
    plain = _plain(upright, framing.channels)
    if plain.size == wanted:
        return plain
    box = _centered_box(plain.size, wanted) if framing.fit == "crop" else None
    resampling = Image.Resampling.BICUBIC if framing.fit == "crop" else Image.Resampling.BILINEAR
    return plain.resize(wanted, resampling, box=box, reducing_gap=3.0)


def _plain(picture: Any, channels: int) -> Any:
    from PIL import Image

    mode = "RGB" if channels == 3 else "L"
    if picture.mode.startswith(("I", "F")):
        values = np.asarray(picture, dtype=np.float64)
        most = 65535.0 if picture.mode.startswith("I") else 1.0
        if not np.isfinite(values).all() or values.min() < 0 or values.max() > most:
            raise BrokenPicture(f"holds values outside 0 to {most:g}")
        return Image.fromarray(np.round(values * (255.0 / most)).astype(np.uint8)).convert(mode)
    if picture.mode in ("P", "PA", "LA", "RGBA", "La", "RGBa") or "transparency" in picture.info:
        paper = Image.new("RGBA", picture.size, "white")
        paper.alpha_composite(picture.convert("RGBA"))
        return paper.convert(mode)
    return picture.convert(mode)


def _centered_box(size: tuple[int, int], wanted: tuple[int, int]) -> tuple[float, float, float, float]:
    """The largest centered box with the aspect ratio of ``wanted``."""
    scale = min(size[0] / wanted[0], size[1] / wanted[1])
    wide, high = wanted[0] * scale, wanted[1] * scale
    left, top = (size[0] - wide) / 2, (size[1] - high) / 2
    return left, top, left + wide, top + high


def _damage(error: Exception) -> str:
    if isinstance(error, OSError) and error.errno is not None:
        return f"cannot be opened: {(error.strerror or str(error)).lower()}"
    detail = " ".join(str(error).split()) or type(error).__name__
    return f"is cut short or damaged ({detail[:100]})"


def answer(question: bytes, stdin: IO[bytes], stdout: IO[bytes]) -> None:
    request = json.loads(question)
    framing = Framing(*request["framing"])
    problems: dict[int, str] = {}
    decoded: list[bytes] = []
    for position, item in enumerate(request["items"]):
        if isinstance(item, list):
            content: str | bytes = Crop(item[0], item[1:])
        else:
            content = item if isinstance(item, str) else stdin.read(item)
        try:
            with alarm(request["seconds"], is_cpu_time=True):
                decoded.append(decode(content, framing).tobytes())
        except BrokenPicture as error:
            problems[position] = str(error)
    stdout.write(json.dumps({"problems": problems}).encode() + b"\n")
    stdout.writelines(decoded)
    stdout.flush()


def main() -> None:
    stdin, stdout = sys.stdin.buffer, sys.stdout.buffer
    limit_process(MEMORY)
    sys.stdout = sys.stderr  # Keep printed text out of the answers.
    while question := stdin.readline():
        answer(question, stdin, stdout)
