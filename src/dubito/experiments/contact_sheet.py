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

SIDE, QUALITY = 320, 80
"""Maximum length of the longer side in pixels, and the quality of JPEG."""
MOST_PIXELS = 200_000_000
"""Larger pictures are not decoded, as a small file can claim any size."""


Rectangle = tuple[float, float, float, float]
"""Left, top, width and height, as shares of the picture."""
FIRST_COLOR, OTHER_COLOR = "#e6194b", "#ffe119"
"""Of the first box, and of all others."""


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
                if opened.width * opened.height > MOST_PIXELS:
                    return None
                opened.draft("RGB", (SIDE, SIDE))
                turned = ImageOps.exif_transpose(opened)
                turned.thumbnail((SIDE, SIDE))
                paper = Image.new("RGBA", turned.size, "white")
                paper.alpha_composite(turned.convert("RGBA"))
                _draw(paper, boxes)
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


def _draw(picture: Any, boxes: Sequence[Rectangle]) -> None:
    """Draw boxes, the first one last, so that it is on top."""
    from PIL import ImageDraw

    pen = ImageDraw.Draw(picture)
    for number in reversed(range(len(boxes))):
        left, top, width, height = boxes[number]
        ends = (
            left * picture.width,
            top * picture.height,
            (left + width) * picture.width,
            (top + height) * picture.height,
        )
        pen.rectangle(ends, outline=OTHER_COLOR if number else FIRST_COLOR, width=1 if number else 3)


MOST_ITEMS = 1000
MOST_CHARACTERS = 2000
"""Maximum length of a text; longer ones are truncated."""
MOST_BYTES = 60_000_000
"""Maximum size of all pictures on a page; of further pictures, only the name is shown."""


@dataclass(frozen=True, slots=True)
class Sheet:
    """The content of a contact sheet; every list has one entry per pick."""

    title: str
    names: Sequence[str]
    """The ids or row numbers of the picks."""
    priorities: Sequence[float]
    texts: Mapping[str, Sequence[str]]
    """Columns to label from, as text."""
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
    shown = min(len(sheet.names), MOST_ITEMS)
    rest = f" The first {shown:,} of {len(sheet.names):,} are shown." if shown < len(sheet.names) else ""
    kind = ' class="texts"' if sheet.pictures is None else ""
    return (
        '<!doctype html>\n<html lang="en">\n<head>\n<meta charset="utf-8">\n'
        f'<meta http-equiv="Content-Security-Policy" content="{policy}">\n'
        '<meta name="viewport" content="width=device-width, initial-scale=1">\n'
        f"<title>{plain(sheet.title)}</title>\n<style>{style}</style>\n</head>\n<body>\n<h1>{plain(sheet.title)}</h1>\n"
        f'<p class="quiet">In the order of the picks.{rest} This page needs no network.</p>\n<ol{kind}>\n'
        + "\n".join(_items(sheet, shown))
        + "\n</ol>\n</body>\n</html>\n"
    )


def plain(text: str, most: int = MOST_CHARACTERS) -> str:
    """Text for the page: markup escaped, control and direction characters made visible, and truncated if long.

    Examples
    --------
    >>> plain("<b> & co"), plain("abcdef", 3)
    ('&lt;b&gt; &amp; co', 'abc …')
    """
    cut = text if len(text) <= most else text[:most] + " …"
    return escape("".join(each if each.isprintable() or each in "\n\t" else "\ufffd" for each in cut))


def _items(sheet: Sheet, shown: int) -> Iterator[str]:
    left = MOST_BYTES
    for position in range(shown):
        picture = ""
        if sheet.pictures is not None:
            boxes = () if sheet.boxes is None else sheet.boxes[position]
            source = thumbnail(path, boxes) if (path := sheet.pictures[position]) is not None and left > 0 else None
            left -= len(source or "")
            picture = _picture(source, path, sheet.names[position], left)
        texts = "".join(
            f"<dt>{plain(name)}</dt><dd><bdi>{plain(values[position])}</bdi></dd>"
            for name, values in sheet.texts.items()
            if values[position].strip()
        )
        worth = sheet.priorities[position]
        rank = f"{position + 1} · {worth:.4g}" if isfinite(worth) else f"{position + 1}"
        head = f"<b><bdi>{plain(sheet.names[position], 200)}</bdi></b><span>{rank}</span>"
        yield f"<li><header>{head}</header>{picture}{f'<dl>{texts}</dl>' if texts else ''}</li>"


def _picture(source: str | None, path: Path | None, name: str, left: int) -> str:
    if source is not None:
        return f'<img src="{source}" alt="{plain(name, 200)}">'
    why = "not found" if path is None else "not shown, the page is full" if left <= 0 else "cannot be read"
    return f'<p class="broken">picture {why}</p>'
