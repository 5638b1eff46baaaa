"""Decode pictures with Pillow in a separate process, which runs `main`.

A request on stdin is a line of JSON and then bytes of pictures. The line has the framing, the CPU seconds that a
picture may take, and for every picture its path or its number of bytes. The answer on stdout is a line of JSON with the
problems by position, and then the pixels of all other pictures. Nothing is pickled. The process exits when its stdin
is closed. A picture that takes too long kills the process; one that needs more memory than `MEMORY` is reported.
"""

import io
import json
import math
import os
import sys
import warnings
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from functools import lru_cache
from typing import IO, Any

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
    """Raised for a picture that cannot be decoded. The message completes a sentence, such as "is empty (0 bytes)"."""


class Crop(str):
    """The path of a picture, with a box to cut out of it: left, top, right and bottom in pixels."""

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


def cropped(picture: Any, box: Sequence[float], size: tuple[int, int]) -> Any:
    """All pixels of a Pillow image that the box touches, resized to (width, height)."""
    from PIL import Image

    left, top = min(math.floor(box[0]), picture.width - 1), min(math.floor(box[1]), picture.height - 1)
    right, bottom = max(math.ceil(box[2]), left + 1), max(math.ceil(box[3]), top + 1)
    part = picture.crop((left, top, min(right, picture.width), min(bottom, picture.height)))
    return part.resize(size, Image.Resampling.BILINEAR, reducing_gap=3.0)


@lru_cache(maxsize=1)
def last_picture(path: str, channels: int) -> Any:
    """The upright picture of a file; cached, because the boxes of a picture follow each other."""
    from PIL import ImageOps

    with _opened(path) as picture:
        _check_pixels(picture)
        return _converted(ImageOps.exif_transpose(picture), channels)


def decode(content: str | bytes, framing: Framing) -> AnyArray:
    """The picture as bytes (height, width, channels).

    Gray becomes RGB or the reverse, as the frame requires. Transparent parts become white, the picture is rotated as
    its EXIF data says, and only the first frame of an animation is used. Raises BrokenPicture.
    """
    from PIL import Image, UnidentifiedImageError

    try:
        if isinstance(content, Crop):
            picture = last_picture(str(content), framing.channels)
            resized = cropped(picture, content.box, (framing.width, framing.height))
        else:
            with _opened(content) as picture:
                _check_pixels(picture)
                resized = _resized(picture, framing)
        return np.asarray(resized, dtype=np.uint8).reshape(framing.height, framing.width, framing.channels)
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
        raise BrokenPicture(f"has more than the {MOST_PIXELS:,} pixels that are decoded") from None
    except MemoryError:
        raise BrokenPicture("needs more memory than is available") from None
    except Exception as error:
        # Broad on purpose: decoders raise a dozen unrelated exceptions for damaged pictures.
        raise BrokenPicture(_damage(error)) from None


def measure(content: str | bytes) -> tuple[int, int, bool] | None:
    """Height, width and whether the picture is gray, from the header alone; None if it cannot be read."""
    try:
        with _opened(content) as picture:
            return picture.height, picture.width, picture.mode in ("1", "L")
    except Exception:  # As above. `decode` reports the problem.
        return None


def upright_size(path: str) -> tuple[int, int] | None:
    """Width and height of the upright picture, from its header alone; None if it cannot be read."""
    from PIL import ExifTags

    try:
        with _opened(path) as picture:
            is_sideways = picture.getexif().get(ExifTags.Base.Orientation, 1) in (5, 6, 7, 8)
            return (picture.height, picture.width) if is_sideways else (picture.width, picture.height)
    except Exception:  # As in `measure`.
        return None


@contextmanager
def _opened(content: str | bytes) -> Iterator[Any]:
    """The Pillow image of a path or of bytes, without Pillow's warnings."""
    from PIL import Image

    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        with (
            io.BytesIO(content) if isinstance(content, bytes) else open_regular(content) as file,
            Image.open(file, formats=PICTURE_FORMATS) as picture,
        ):
            yield picture


def _check_pixels(picture: Any) -> None:
    if picture.width * picture.height > MOST_PIXELS:
        size = f"{picture.width:,} x {picture.height:,}"
        raise BrokenPicture(f"is {size} pixels, more than the {MOST_PIXELS:,} that are decoded")


def _resized(picture: Any, framing: Framing) -> Any:
    from PIL import Image, ImageOps

    size = framing.width, framing.height
    picture.draft("RGB" if framing.channels == 3 else "L", (DRAFT_FACTOR * size[0], DRAFT_FACTOR * size[1]))
    converted = _converted(ImageOps.exif_transpose(picture), framing.channels)
    if converted.size == size:
        return converted
    box = _centered_box(converted.size, size) if framing.fit == "crop" else None
    resampling = Image.Resampling.BICUBIC if framing.fit == "crop" else Image.Resampling.BILINEAR
    return converted.resize(size, resampling, box=box, reducing_gap=3.0)


def _converted(picture: Any, channels: int) -> Any:
    """The picture in RGB or gray, on white where it is transparent; raises BrokenPicture for values out of range."""
    from PIL import Image

    mode = "RGB" if channels == 3 else "L"
    if picture.mode.startswith(("I", "F")):
        values = np.asarray(picture, dtype=np.float64)
        white = 65535.0 if picture.mode.startswith("I") else 1.0
        if not np.isfinite(values).all() or values.min() < 0 or values.max() > white:
            raise BrokenPicture(f"holds values outside 0 to {white:g}")
        return Image.fromarray(np.round(values * (255.0 / white)).astype(np.uint8)).convert(mode)
    if picture.mode in ("P", "PA", "LA", "RGBA", "La", "RGBa") or "transparency" in picture.info:
        background = Image.new("RGBA", picture.size, "white")
        background.alpha_composite(picture.convert("RGBA"))
        return background.convert(mode)
    return picture.convert(mode)


def _centered_box(size: tuple[int, int], target: tuple[int, int]) -> tuple[float, float, float, float]:
    """The largest centered box in a picture of this size with the aspect ratio of ``target``."""
    scale = min(size[0] / target[0], size[1] / target[1])
    width, height = target[0] * scale, target[1] * scale
    left, top = (size[0] - width) / 2, (size[1] - height) / 2
    return left, top, left + width, top + height


def _damage(error: Exception) -> str:
    if isinstance(error, OSError) and error.errno is not None:
        return f"cannot be opened: {(error.strerror or str(error)).lower()}"
    detail = " ".join(str(error).split()) or type(error).__name__
    return f"is cut short or damaged ({detail[:100]})"


def answer(line: bytes, stdin: IO[bytes], stdout: IO[bytes]) -> None:
    """Answer one request, of which ``line`` is the first line."""
    request = json.loads(line)
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
    while line := stdin.readline():
        answer(line, stdin, stdout)
