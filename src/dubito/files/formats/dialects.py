"""How a delimited file is written: what stands between fields, and whether numbers have a decimal comma."""

import csv
import re
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import TextIO

from dubito.files.cells import DECIMAL_COMMA, GROUPED, is_number

SAMPLED_ROWS = 100
SAMPLED_LETTERS, FEWEST_ROWS = 1 << 18, 3
"""What is judged by: this many rows, or letters where rows are long, but no fewer than these rows."""

DELIMITERS = {",": "commas", ";": "semicolons", "\t": "tabs", "|": "bars"}
SPACED_QUOTE = re.compile(r'[,;|\t] +"')
LONGEST_FIELD = 1 << 30


@dataclass(frozen=True, slots=True)
class Dialect:
    """How a delimited file is written."""

    delimiter: str
    decimal_comma: bool = False
    skips_spaces: bool = False
    """Whether spaces stand between a delimiter and a quote; they mean nothing."""
    skipped_lines: int = 0
    """1 where the first line is ``sep=;``, a word to Excel."""

    def parse(self, lines: Sequence[str]) -> list[list[str]]:
        """A sample as rows, blank ones left out; a quote that is out of place is no matter here."""
        reader = csv.reader(lines, delimiter=self.delimiter, skipinitialspace=self.skips_spaces)
        with long_fields():
            return [row for row in reader if row]


def guess_dialect(file: TextIO, own: str) -> Dialect:
    """The dialect by a sample of the file; ``own`` is the delimiter its name promises."""
    lines, is_cut = _sample(file)
    mark = re.fullmatch(r"sep=([,;|\t])\s*", lines[0]) if lines else None
    lines = lines[1:] if mark else lines
    spaces = any(SPACED_QUOTE.search(line) for line in lines)
    choices = [mark.group(1)] if mark else [own, *(each for each in DELIMITERS if each != own)]
    parsed = {each: _parsed(Dialect(each, skips_spaces=spaces), lines, is_cut) for each in choices}
    chosen = choices[0] if mark else _best(parsed, own)
    comma = chosen != "," and _has_decimal_commas(parsed[chosen])
    return Dialect(chosen, comma, spaces, 1 if mark else 0)


def told_dialect(path: str, dialect: Dialect, own: str) -> tuple[str, ...]:
    """What a person should know of a dialect that is not the one its name promises."""
    notes = []
    if dialect.delimiter != own:
        notes.append(f"{path} was read with {DELIMITERS[dialect.delimiter]} between its fields.")
    if dialect.decimal_comma:
        notes.append(f"{path} was read with decimal commas: 1,5 is one and a half.")
    return tuple(notes)


@contextmanager
def long_fields() -> Iterator[None]:
    """Let fields be as long as the features of a row in one text; the csv module keeps the bound for all at once."""
    before = csv.field_size_limit(LONGEST_FIELD)
    try:
        yield
    finally:
        csv.field_size_limit(before)


def _sample(file: TextIO) -> tuple[list[str], bool]:
    """The first lines, and whether there are more."""
    lines: list[str] = []
    n_letters = 0
    for line in file:
        if len(lines) > SAMPLED_ROWS or (n_letters > SAMPLED_LETTERS and len(lines) >= FEWEST_ROWS):
            return lines, True
        lines.append(line)
        n_letters += len(line)
    return lines, False


def _parsed(dialect: Dialect, lines: list[str], is_cut: bool) -> list[list[str]]:
    """The sample as rows; the last may be half a row where a quoted field goes on."""
    rows = dialect.parse(lines)
    return rows[:-1] if is_cut and len(rows) > FEWEST_ROWS - 1 else rows


def _best(parsed: dict[str, list[list[str]]], own: str) -> str:
    """The delimiter that cuts every row into equally many fields, most of them numbers; the own one if in doubt."""
    even = [each for each, rows in parsed.items() if rows and _is_even(rows)]
    if not even:
        # A row is broken: the header tells, unless the file's own delimiter is in it.
        widths = {each: len(rows[0]) for each, rows in parsed.items() if rows}
        return own if widths.get(own, 1) > 1 else max(widths, key=lambda each: widths[each], default=own)
    return max(even, key=lambda each: (_share_of_numbers(parsed[each], each), each == own))


def _is_even(rows: list[list[str]]) -> bool:
    """More than one field, and equally many in every row, empty ones at the end aside."""
    width = _width(rows[0])
    return width > 1 and all(len(row) >= width and not any(row[width:]) for row in rows)


def _width(row: list[str]) -> int:
    """Fields up to the last that holds anything."""
    return max((place for place, field in enumerate(row, start=1) if field.strip()), default=0)


def _share_of_numbers(rows: list[list[str]], delimiter: str) -> float:
    cells = [cell for row in rows[1:] or rows for cell in row]
    numbers = sum(is_number(cell) or (delimiter != "," and DECIMAL_COMMA.fullmatch(cell) is not None) for cell in cells)
    return numbers / max(1, len(cells))


def _has_decimal_commas(rows: list[list[str]]) -> bool:
    """Whether a number has one; 1,234 alone proves nothing, as it may be thousands."""
    found = [cell for row in rows for cell in row if DECIMAL_COMMA.fullmatch(cell)]
    return any(not GROUPED.fullmatch(cell) for cell in found)
