"""Pictures of the usual formats as arrays of one size (Pillow)."""

import io
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from pathlib import Path
from typing import NamedTuple, NoReturn

import numpy as np

from dubito.errors import DubitoError, InvalidArgument, InvalidData
from dubito.experiments.datasets.images.record import ImageArray
from dubito.files.disk import NotRegularFile, open_regular
from dubito.files.limits import PICTURE_FORMATS, Allowance, allowance
from dubito.wording import PASS, by_door

SUFFIXES = (".bmp", ".gif", ".jpeg", ".jpg", ".pgm", ".png", ".ppm", ".tif", ".tiff", ".webp")
"""Files of a folder that count as pictures."""

BATCH = 1024
"""Pictures in flight: decoded by several threads, and not yet in the array."""

Size = tuple[int, int]
"""Height and width."""


class Picture(NamedTuple):
    """A picture that has not been decoded."""

    name: str
    """What messages call it."""
    content: Path | bytes


RESIZED = by_door("size=(height, width)", toml="size = [height, width]")


def read_pictures(pictures: Sequence[Picture], size: Size | None = None) -> ImageArray:
    """Decode pictures into one array (n, h, w, 3).

    Grey becomes RGB, transparency is dropped, and a camera's note of how it was held is followed.

    Parameters
    ----------
    pictures : sequence of Picture
        At least one.
    size : tuple (height, width), optional
        Resize every picture to this, whatever its shape; without it all must be of the first one's size.
    """
    check_size(size)
    allowed = allowance()
    decode = partial(_decode, size=size, allowed=allowed)
    first = decode(pictures[0])
    allowed.hold(f"the array of {len(pictures):,} pictures", "", len(pictures) * first.nbytes)
    pixels = np.empty((len(pictures), *first.shape), dtype=np.uint8)
    pixels[0] = first
    with ThreadPoolExecutor() as threads:
        for start in range(1, len(pictures), BATCH):
            batch = pictures[start : start + BATCH]
            for row, (picture, image) in enumerate(zip(batch, threads.map(decode, batch), strict=True), start):
                if image.shape != first.shape:
                    _refuse_size(picture, image, pictures[0], first)
                pixels[row] = image
    return pixels


def check_size(size: object) -> None:
    """Refuse what is no height and width."""
    if size is None:
        return
    if not isinstance(size, tuple) or len(size) != 2 or not all(type(side) is int and side > 0 for side in size):
        raise InvalidArgument(
            "is no height and width in pixels",
            argument="size",
            value=size,
            mend=f"{PASS} two whole numbers, height and width, such as 32 and 32.",
        )


def _refuse_size(picture: Picture, image: ImageArray, first: Picture, expected: ImageArray) -> NoReturn:
    raise InvalidData(
        f"{picture.name} is {image.shape[0]} pixels high and {image.shape[1]} wide, and {first.name} "
        f"{expected.shape[0]} and {expected.shape[1]}",
        mend=f"all must be equal, or {PASS} {RESIZED} to resize them.",
    )


def _decode(picture: Picture, size: Size | None, allowed: Allowance) -> ImageArray:
    from PIL import Image, ImageOps, UnidentifiedImageError

    content = picture.content
    try:
        with (
            io.BytesIO(content) if isinstance(content, bytes) else open_regular(content) as file,
            Image.open(file, formats=PICTURE_FORMATS) as opened,
        ):
            allowed.check_unpacking(picture.name, 4 * opened.width * opened.height)
            if opened.mode.startswith(("I", "F")):
                raise InvalidData(f"{picture.name} has more than 8 bits a channel", mend="save it with 8.")
            upright = ImageOps.exif_transpose(opened)
            # By way of RGBA: a palette with transparency has no direct way that Pillow does not warn of.
            plain = upright.convert("RGBA").convert("RGB") if upright.mode in ("P", "PA") else upright.convert("RGB")
            return np.asarray(plain if size is None else plain.resize(size[::-1], Image.Resampling.BILINEAR))
    except DubitoError:
        raise
    except NotRegularFile as error:
        raise InvalidData(f"{picture.name} {error}", mend="remove it, or put a picture in its place.") from error
    except UnidentifiedImageError as error:
        raise InvalidData(f"{picture.name} is no picture of a known format", mend="mend or remove it.") from error
    except Exception as error:
        # Broad on purpose: on a damaged picture the decoders raise a dozen unrelated kinds.
        detail = " ".join(str(error).split()) or type(error).__name__
        raise InvalidData(
            f"{picture.name} cannot be read as a picture ({detail})", mend="mend or remove it."
        ) from error
