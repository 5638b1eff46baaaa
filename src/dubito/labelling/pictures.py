"""A picture of the pool as a page may show it: from inside the source, and decoded within bounds."""

import io
import os
import stat
import threading
import warnings
from typing import Any, NamedTuple

from dubito.errors import InvalidData, MissingFile
from dubito.files.limits import PICTURE_FORMATS
from dubito.labelling.contents import Contents

MOST_PIXELS = 50_000_000
"""A picture with more is not decoded here."""
MOST_BYTES = 64_000_000
LARGEST_EDGE = 4096
LOSSLESS = 1_000_000
"""A picture of no more pixels that came lossless goes out lossless."""

_few = threading.Semaphore(2)
"""Pictures that are decoded at once: each may take a quarter of a gigabyte."""


class Unshowable(InvalidData):
    """A picture that cannot be shown."""


class ShownPicture(NamedTuple):
    """Bytes, and what they are."""

    data: bytes
    media: str


def show_picture(contents: Contents, item: int, edge: int) -> ShownPicture:
    """The picture of a row, turned as the camera was held, without anything but its pixels."""
    if contents.what != "pictures" or contents.shown is None:
        raise MissingFile(f"item {item} has no picture", mend="it is shown by its text or its columns.")
    name = contents.ids[item]
    shown = contents.shown[item]
    data = bytes(shown) if isinstance(shown, bytes) else _read(contents.root, str(shown), name)
    if not data:
        raise Unshowable(f"the picture {name} is empty (0 bytes)", mend="skip it, or mend the file.")
    with _few:
        return _encoded(data, name, edge)


def _read(root: str, path: str, name: str) -> bytes:
    """The file's bytes; only a plain file inside the source, whatever links lead to."""
    place, home = os.path.realpath(os.path.join(root, path)), os.path.realpath(root)
    if os.path.commonpath([place, home]) != home:
        raise MissingFile(f"the picture {name} lies outside the source", mend="only what is inside it is shown.")
    try:
        file = os.open(place, os.O_RDONLY | os.O_NONBLOCK | os.O_NOFOLLOW | os.O_CLOEXEC)
    except OSError as error:
        problem = f"the picture {name} cannot be opened: {(error.strerror or str(error)).lower()}"
        raise MissingFile(problem, mend="put it back, or skip it.") from None
    with os.fdopen(file, "rb") as opened:
        found = os.fstat(opened.fileno())
        if not stat.S_ISREG(found.st_mode):
            raise MissingFile(f"the picture {name} is no plain file", mend="skip it.")
        if found.st_size > MOST_BYTES:
            problem = f"the picture {name} has {found.st_size:,} bytes, more than the {MOST_BYTES:,} that are shown"
            raise Unshowable(problem, mend="skip it, or make it smaller.")
        return opened.read()


def _encoded(data: bytes, name: str, edge: int) -> ShownPicture:
    from PIL import Image, UnidentifiedImageError

    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            with Image.open(io.BytesIO(data), formats=PICTURE_FORMATS) as opened:
                return _shrunk(opened, name, edge)
    except InvalidData:
        raise
    except UnidentifiedImageError:
        problem = f"the file {name} is no picture of a known format"
    except Image.DecompressionBombError:
        problem = f"the picture {name} claims more than the {MOST_PIXELS:,} pixels that are shown"
    except MemoryError:
        problem = f"the picture {name} takes more memory than there is"
    except Exception as error:
        # Broad on purpose: on a damaged picture the decoders raise a dozen unrelated kinds.
        problem = f"the picture {name} is cut short or damaged ({' '.join(str(error).split())[:100]})"
    raise Unshowable(problem, mend="skip it, or mend the file.")


def _shrunk(opened: Any, name: str, edge: int) -> ShownPicture:
    from PIL import ImageOps

    if opened.width * opened.height > MOST_PIXELS:
        size = f"{opened.width:,} x {opened.height:,}"
        problem = f"the picture {name} is {size} pixels, more than the {MOST_PIXELS:,} that are shown"
        raise Unshowable(problem, mend="skip it, or make it smaller.")
    lossless = opened.format in ("PNG", "GIF", "BMP", "WEBP", "TIFF")
    opened.draft("RGB", (edge, edge))
    turned = ImageOps.exif_transpose(opened)
    plain = _plain(turned)
    plain.thumbnail((edge, edge), reducing_gap=3.0)
    plain.info.clear()
    buffer = io.BytesIO()
    if plain.mode == "RGBA" or (lossless and plain.width * plain.height <= LOSSLESS):
        plain.save(buffer, "PNG")
        return ShownPicture(buffer.getvalue(), "image/png")
    plain.save(buffer, "JPEG", quality=88)
    return ShownPicture(buffer.getvalue(), "image/jpeg")


def _plain(picture: Any) -> Any:
    """Grey, RGB or RGBA of eight bits."""
    if picture.mode.startswith(("I", "F")):
        low, high = picture.getextrema()
        spread = (high - low) or 1
        return picture.point(lambda value: (value - low) * (255.0 / spread)).convert("L")
    if "A" in picture.mode or "transparency" in picture.info:
        return picture.convert("RGBA")
    return picture.copy() if picture.mode in ("L", "RGB") else picture.convert("RGB")
