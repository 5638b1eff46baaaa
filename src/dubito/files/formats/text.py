"""Text out of bytes: which encoding a file is in, and what a person is told where that was guessed.

UTF-8 is the rule. A mark at the start tells UTF-16 and UTF-32; NULs at every other byte tell UTF-16 without one. What
is no UTF-8 and looks like text is Western European, as Excel and old programs write it.
"""

import codecs
import io
import re
from collections.abc import Iterator
from dataclasses import dataclass
from typing import TextIO

from dubito.errors import InvalidData
from dubito.files.unpacking import open_bytes

CHUNK = 1 << 20

MARKS = (
    (codecs.BOM_UTF8, "utf-8-sig"),
    (codecs.BOM_UTF32_LE, "utf-32"),
    (codecs.BOM_UTF32_BE, "utf-32"),
    (codecs.BOM_UTF16_LE, "utf-16"),
    (codecs.BOM_UTF16_BE, "utf-16"),
)
"""The longer ones first: that of UTF-32 begins with that of UTF-16."""

LETTERS = re.compile(rb"[\xc2-\xdf][\x80-\xbf]|[\xe0-\xef][\x80-\xbf]{2}|[\xf0-\xf4][\x80-\xbf]{3}")
"""Letters beyond ASCII as UTF-8 has them."""
ASCII = bytes(range(128))
CONTROLS = re.compile(rb"[\x00-\x08\x0b\x0e-\x19\x1b-\x1f\x7f]")
"""Bytes that no text of one byte a letter holds."""
WINDOWS_ONLY = re.compile(rb"[\x80-\x9f]")
NOBODY_S = re.compile(rb"[\x81\x8d\x8f\x90\x9d]")
"""Bytes that mean nothing in Windows' Western European."""


@dataclass(frozen=True, slots=True)
class Text:
    """A file of text whose encoding is known."""

    path: str
    encoding: str
    notes: tuple[str, ...] = ()

    def open(self) -> TextIO:
        """The file to read letters from, with its line ends as they are."""
        return io.TextIOWrapper(open_bytes(self.path), self.encoding, newline="")


def find_text(path: str) -> Text:
    """The encoding of a file, after a look at all of its bytes: what is no text is refused here."""
    with open_bytes(path) as file:
        head = file.read(CHUNK)
    for mark, name in MARKS:
        if head.startswith(mark):
            notes = () if name == "utf-8-sig" else (f"{path} was read as {name.upper()}, by the mark it begins with.",)
            return _checked(Text(path, name, notes))
    wide = _wide_encoding(head)
    if wide is not None:
        return _checked(Text(path, wide, (f"{path} was read as UTF-16: every other byte is a NUL.",)))
    try:
        return _checked(Text(path, "utf-8"))
    except UnicodeDecodeError:
        return _eight_bit(path)


def _wide_encoding(head: bytes) -> str | None:
    """UTF-16 without a mark: most letters are ASCII, and the other half of each is a NUL."""
    even, odd = head[0::2].count(0), head[1::2].count(0)
    half = len(head) // 2
    if half and odd > 0.6 * half and even < 0.1 * half:
        return "utf-16-le"
    return "utf-16-be" if half and even > 0.6 * half and odd < 0.1 * half else None


def _chunks(path: str) -> Iterator[bytes]:
    with open_bytes(path) as file:
        while chunk := file.read(CHUNK):
            yield chunk


def _checked(text: Text) -> Text:
    """The text, every byte of which was decoded; a NUL letter in it is damage."""
    decoder = codecs.getincrementaldecoder(text.encoding)()
    line = 1
    for chunk in _chunks(text.path):
        letters = decoder.decode(chunk)
        if "\0" in letters:
            line += letters[: letters.index("\0")].count("\n")
            raise InvalidData(
                f"{text.path} holds a NUL in line {line}: it is damaged, or no text", mend="write it again."
            )
        line += letters.count("\n")
    decoder.decode(b"", final=True)
    return text


def _eight_bit(path: str) -> Text:
    """Western European, unless the file is UTF-8 with a few bytes damaged, or no text at all."""
    n_letters = n_others = 0
    is_windows = is_binary = False
    for chunk in _chunks(path):
        letters = LETTERS.findall(chunk)
        n_letters += len(letters)
        n_others += len(chunk.translate(None, ASCII)) - sum(map(len, letters))
        is_windows = is_windows or WINDOWS_ONLY.search(chunk) is not None
        is_binary = is_binary or (CONTROLS.search(chunk) or NOBODY_S.search(chunk)) is not None
    if n_letters and 2 * n_letters >= n_others:  # Hardly a word of Western European looks like one letter of UTF-8.
        raise InvalidData(
            f"{path} is UTF-8 with {n_others} damaged byte{'s' * (n_others != 1)}, the first in line "
            f"{_first_bad(path)}",
            mend="write it again.",
        )
    if is_binary:
        raise InvalidData(f"{path} holds bytes that no text has: it is damaged, or a file of another kind.")
    note = (
        f"{path} is not UTF-8: it was read as Western European ({'Windows-1252' if is_windows else 'Latin-1'}); "
        "if letters look wrong save it as UTF-8."
    )
    return Text(path, "cp1252" if is_windows else "latin-1", (note,))


def _first_bad(path: str) -> int:
    decoder = codecs.getincrementaldecoder("utf-8")()
    line = 1
    for chunk in _chunks(path):
        try:
            line += decoder.decode(chunk).count("\n")
        except UnicodeDecodeError as error:
            return line + chunk[: error.start].count(b"\n")
    return line
