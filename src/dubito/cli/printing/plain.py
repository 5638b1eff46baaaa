"""Text that came from a file, made safe to show: what would steer a terminal is written out instead of done.

Names of columns, labels, ids and paths are whatever their author put there; so are messages of libraries that quote
them. Control characters (of ASCII and of Latin-1) move the cursor, change colours or rename the window; marks of
direction show text in another order than it is read; rich takes brackets for markup.
"""

import re
import sys
from collections.abc import Iterable
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from rich.text import Text

STEERING = re.compile(
    "[\x00-\x1f\x7f-\x9f"  # Controls: C0, delete, C1.
    "\u061c\u200e\u200f\u202a-\u202e\u2066-\u2069"  # Marks of direction.
    "\u2028\u2029\ufeff"  # Ends of lines and paragraphs, and a mark that no one sees.
    "\ud800-\udfff\U000e0000-\U000e007f]"  # Bytes that were no text, and letters that no one sees.
)


def plain(text: str) -> str:
    r"""The text in one line, with whatever steers a terminal written as Python would write it.

    Examples
    --------
    >>> print(plain("red \x1b[31m, back\u202eward"), plain("Größe"))
    red \x1b[31m, back\u202eward Größe
    """
    return STEERING.sub(lambda match: repr(match.group())[1:-1], text)


def plain_data(text: str) -> str:
    """The same for a table of data: its lines and tabs stay."""
    return STEERING.sub(lambda match: match.group() if match.group() in "\n\t" else plain(match.group()), text)


def put(lines: Iterable[str]) -> None:
    """Lines for a person, on stdout."""
    for line in lines:
        print(plain(line))
    sys.stdout.flush()


def put_data(data: bytes) -> None:
    """Data on stdout: as it is, but on a terminal nothing in it steers."""
    if sys.stdout.isatty():
        data = plain_data(data.decode("utf-8", "replace")).encode()
    sys.stdout.buffer.write(data)
    sys.stdout.buffer.flush()


def plain_cells(*texts: str) -> "list[Text]":
    """Cells of a table as they are read: no markup, nothing that steers."""
    from rich.text import Text

    return [Text(plain(text)) for text in texts]
