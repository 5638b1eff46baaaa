"""Small copies of pictures, as a page holds them inside itself (Pillow)."""

import base64
import io
import warnings
from pathlib import Path

from dubito.files.disk import open_regular
from dubito.files.limits import PICTURE_FORMATS

SIDE, QUALITY = 320, 80
"""The longer side in pixels at most, and the quality of JPEG."""
MOST_PIXELS = 200_000_000
"""A picture with more is not decoded: a few bytes can claim any size."""


def thumbnail(path: Path) -> str | None:
    """A JPEG of a picture file as a ``data:`` address, turned as the camera was held; None where it cannot be read.

    Transparent parts become white. Of an animation the first picture is shown. Nothing of the file but its pixels is
    kept, so neither a place nor a name that a camera wrote down.
    """
    from PIL import Image, ImageOps, UnidentifiedImageError

    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            with open_regular(path) as file, Image.open(file, formats=PICTURE_FORMATS) as opened:
                if opened.width * opened.height > MOST_PIXELS:
                    return None
                opened.draft("RGB", (SIDE, SIDE))
                turned = ImageOps.exif_transpose(opened)
                turned.thumbnail((SIDE, SIDE))
                paper = Image.new("RGBA", turned.size, "white")
                paper.alpha_composite(turned.convert("RGBA"))
    except (
        OSError,
        ValueError,
        SyntaxError,
        EOFError,
        UnidentifiedImageError,
        Image.DecompressionBombError,
        MemoryError,
    ):
        return None
    buffer = io.BytesIO()
    paper.convert("RGB").save(buffer, "JPEG", quality=QUALITY)
    return "data:image/jpeg;base64," + base64.b64encode(buffer.getvalue()).decode("ascii")
