"""The contact sheet: one HTML page with the texts or pictures of the picks, in order.

The page is self-contained: its content security policy allows only embedded pictures and its own style sheet.
"""

import base64
import hashlib
import io
import warnings
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from html import escape
from importlib.resources import files
from math import isfinite
from pathlib import Path
from typing import Any

from dubito.experiments.images import SUFFIXES
from dubito.io.durable import open_regular
from dubito.io.limits import PICTURE_FORMATS

# Embedded thumbnails, made with Pillow.

SIDE, JPEG_QUALITY = 320, 80
"""SIDE: maximum length of the longer side in pixels."""
MAX_PIXELS = 200_000_000
"""Larger pictures are not decoded, as a small file can claim any size."""


Rectangle = tuple[float, float, float, float]
"""Left, top, width and height, as shares of the picture."""
FIRST_COLOR, OTHER_COLOR = "#e6194b", "#ffe119"
"""Colors of the first box and of the others."""


def thumbnail(path: Path, boxes: Sequence[Rectangle] = ()) -> str | None:
    """A JPEG of a picture file as a ``data:`` URL, rotated as its EXIF data says; None if it cannot be read.

    Transparent parts become white, and of an animation the first frame is used. No metadata is kept, such as the
    location that a camera stored. Boxes are drawn, the first one thicker and in another color.
    """
    from PIL import Image, ImageOps, UnidentifiedImageError

    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            with open_regular(path) as file, Image.open(file, formats=PICTURE_FORMATS) as opened:
                if opened.width * opened.height > MAX_PIXELS:
                    return None
                opened.draft("RGB", (SIDE, SIDE))
                upright = ImageOps.exif_transpose(opened)
                upright.thumbnail((SIDE, SIDE))
                picture = Image.new("RGBA", upright.size, "white")
                picture.alpha_composite(upright.convert("RGBA"))
                _draw_boxes(picture, boxes)
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
    picture.convert("RGB").save(buffer, "JPEG", quality=JPEG_QUALITY)
    return "data:image/jpeg;base64," + base64.b64encode(buffer.getvalue()).decode("ascii")


def _draw_boxes(picture: Any, boxes: Sequence[Rectangle]) -> None:
    """Draw boxes, the first one last, so that it is on top."""
    from PIL import ImageDraw

    pen = ImageDraw.Draw(picture)
    for number in reversed(range(len(boxes))):
        left, top, width, height = boxes[number]
        corners = [(left * picture.width, top * picture.height)]
        corners.append(((left + width) * picture.width, (top + height) * picture.height))
        pen.rectangle(corners, outline=OTHER_COLOR if number else FIRST_COLOR, width=1 if number else 3)


MAX_ITEMS = 1000
MAX_CHARACTERS = 2000
"""Maximum length of a text; longer ones are truncated."""
MAX_PICTURE_BYTES = 60_000_000
"""Maximum size of all pictures on a page; for further ones, only the name is shown."""


@dataclass(frozen=True, slots=True)
class Sheet:
    """The content of a contact sheet; every list has one entry per pick."""

    title: str
    names: Sequence[str]
    """The ids or row numbers of the picks."""
    priorities: Sequence[float]
    texts: Mapping[str, Sequence[str]]
    """The columns to show for each pick, as text."""
    pictures: Sequence[Path | None] | None = None
    """The path of each pick's picture; None for a page of texts."""
    boxes: Sequence[Sequence[Rectangle]] | None = None
    """The boxes of each pick's picture, most important first; None without boxes."""


def picture_column(columns: Mapping[str, Sequence[str]]) -> str | None:
    """The first column in which most values have the suffix of a picture.

    Examples
    --------
    >>> picture_column({"text": ["a", "b"], "path": ["one.JPG", "two.png"]})
    'path'
    """
    for name, values in columns.items():
        if sum(value.lower().endswith(SUFFIXES) for value in values) * 2 > len(values):
            return name
    return None


def picture_paths(values: Sequence[str], folders: Sequence[Path]) -> list[Path | None]:
    """The path of each picture in the first folder that has it; None if no folder does."""
    return [next((path for folder in folders if (path := folder / value).is_file()), None) for value in values]


def render_sheet(sheet: Sheet) -> str:
    style = files("dubito.experiments").joinpath("report_files").joinpath("sheet.css").read_text(encoding="utf-8")
    digest = base64.b64encode(hashlib.sha256(style.encode()).digest()).decode()
    policy = f"default-src 'none'; img-src data:; style-src 'sha256-{digest}'; base-uri 'none'; form-action 'none'"
    n_shown = min(len(sheet.names), MAX_ITEMS)
    truncated = f" The first {n_shown:,} of {len(sheet.names):,} are shown." if n_shown < len(sheet.names) else ""
    kind = ' class="texts"' if sheet.pictures is None else ""
    return (
        '<!doctype html>\n<html lang="en">\n<head>\n<meta charset="utf-8">\n'
        f'<meta http-equiv="Content-Security-Policy" content="{policy}">\n'
        '<meta name="viewport" content="width=device-width, initial-scale=1">\n'
        f"<title>{html_text(sheet.title)}</title>\n<style>{style}</style>\n</head>\n<body>\n<h1>{html_text(sheet.title)}</h1>\n"
        f'<p class="quiet">In the order of the picks.{truncated} This page needs no network.</p>\n<ol{kind}>\n'
        + "\n".join(_items(sheet, n_shown))
        + "\n</ol>\n</body>\n</html>\n"
    )


def html_text(text: str, limit: int = MAX_CHARACTERS) -> str:
    """Text for the page: markup escaped, control and direction characters made visible, and truncated if long.

    Examples
    --------
    >>> html_text("<b> & co"), html_text("abcdef", 3)
    ('&lt;b&gt; &amp; co', 'abc …')
    """
    shown = text if len(text) <= limit else text[:limit] + " …"
    return escape("".join(letter if letter.isprintable() or letter in "\n\t" else "\ufffd" for letter in shown))


def _items(sheet: Sheet, n_shown: int) -> Iterator[str]:
    bytes_left = MAX_PICTURE_BYTES
    for position in range(n_shown):
        picture = ""
        if sheet.pictures is not None:
            boxes = () if sheet.boxes is None else sheet.boxes[position]
            path = sheet.pictures[position]
            source = thumbnail(path, boxes) if path is not None and bytes_left > 0 else None
            bytes_left -= len(source or "")
            if source is not None:
                picture = f'<img src="{source}" alt="{html_text(sheet.names[position], 200)}">'
            else:
                why = (
                    "not found"
                    if path is None
                    else "cannot be read"
                    if bytes_left > 0
                    else "not shown, the page is full"
                )
                picture = f'<p class="broken">picture {why}</p>'
        texts = "".join(
            f"<dt>{html_text(name)}</dt><dd><bdi>{html_text(values[position])}</bdi></dd>"
            for name, values in sheet.texts.items()
            if values[position].strip()
        )
        priority = sheet.priorities[position]
        rank = f"{position + 1} · {priority:.4g}" if isfinite(priority) else f"{position + 1}"
        head = f"<b><bdi>{html_text(sheet.names[position], 200)}</bdi></b><span>{rank}</span>"
        yield f"<li><header>{head}</header>{picture}{f'<dl>{texts}</dl>' if texts else ''}</li>"
