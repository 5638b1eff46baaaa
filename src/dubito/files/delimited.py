"""CSV and TSV, read in blocks of rows with the standard library's parser."""

import csv
import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import partial
from itertools import islice

import numpy as np

from dubito.errors import InvalidData
from dubito.files.entries import Entry, Source, reading
from dubito.matrix import AnyArray, BoolArray, FloatArray

ROWS_PER_BLOCK = 4096
SAMPLED_ROWS = 100
"""Whether a column holds numbers is decided on this many rows; a later row that disagrees is an error."""

TRUTH = {"true": 1.0, "false": 0.0}
PLAIN_INTEGER = re.compile(r"0|-?[1-9][0-9]{0,17}")
"""Text that an int64 gives back unchanged; ``007`` is a name, not a number."""

Line = tuple[int, list[str]]


@dataclass(frozen=True, slots=True)
class Table:
    """A delimited file whose header is known."""

    path: str
    delimiter: str
    header: tuple[str, ...]
    has_header: bool

    def blocks(self) -> Iterator[list[Line]]:
        """The data rows with their line numbers, a few thousand at a time."""
        lines = islice(_lines(self.path, self.delimiter), int(self.has_header), None)
        while block := list(islice(lines, ROWS_PER_BLOCK)):
            for number, row in block:
                if len(row) != len(self.header):
                    raise InvalidData(
                        f"line {number} of {self.path} has {len(row)} fields instead of {len(self.header)}."
                    )
            yield block

    def numbers(self, names: Sequence[str]) -> FloatArray:
        """Columns of numbers as an array (n, number of names)."""
        places = [self.header.index(name) for name in names]
        with reading(self.path):
            parts = [self._parse(block, places) for block in self.blocks()]
        return np.concatenate([np.empty((0, len(places))), *parts])

    def column(self, name: str) -> FloatArray:
        """One column of numbers (n,)."""
        values: FloatArray = self.numbers([name])[:, 0]
        return values

    def labels(self, name: str) -> AnyArray:
        """One column of names: integers where every value is written as a plain one, else text."""
        place = self.header.index(name)
        values: list[str] = []
        with reading(self.path):
            for block in self.blocks():
                for number, row in block:
                    if not row[place]:
                        raise InvalidData(f"column {name!r} of {self.path} is empty in line {number}; fill it in.")
                    values.append(row[place])
        if all(map(PLAIN_INTEGER.fullmatch, values)):
            return np.array(values, dtype=np.int64)
        return np.array(values, dtype=np.str_)

    def filled(self, name: str) -> BoolArray:
        """Which rows hold anything in a column."""
        place = self.header.index(name)
        with reading(self.path):
            return np.array([bool(row[place].strip()) for block in self.blocks() for _, row in block], dtype=np.bool_)

    def _parse(self, block: list[Line], places: list[int]) -> FloatArray:
        try:
            return np.array([[row[place] for place in places] for _, row in block], dtype=np.float64)
        except ValueError:
            # Truth values, or a field to complain of: slower, one by one.
            return np.array([[self._number(number, row, place) for place in places] for number, row in block])

    def _number(self, line: int, row: list[str], place: int) -> float:
        if is_number(row[place]):
            return TRUTH[row[place].lower()] if row[place].lower() in TRUTH else float(row[place])
        what = f"holds {row[place]!r}, which is no number," if row[place] else "is empty"
        raise InvalidData(f"column {self.header[place]!r} of {self.path} {what} in line {line}; mend or drop that row.")


def open_delimited(path: str, delimiter: str) -> Source:
    """A CSV or TSV file.

    A first row that is all numbers is data, and the columns are then called column1, column2, and so on.
    """
    with reading(path):
        sample = [row for _, row in islice(_lines(path, delimiter), SAMPLED_ROWS + 1)]
    if not sample:
        raise InvalidData(f"{path} holds no rows.")
    has_header = _is_header(sample[0])
    header = tuple(sample[0]) if has_header else tuple(f"column{place}" for place in range(1, len(sample[0]) + 1))
    _check_header(path, header)
    table = Table(path, delimiter, header, has_header)
    data = sample[int(has_header) :]
    entries = {
        name: _entry(table, name, [row[place] for row in data if place < len(row)]) for place, name in enumerate(header)
    }
    return Source(path, entries, table.numbers)


def is_number(text: str) -> bool:
    """Whether text is a number or a truth value.

    Examples
    --------
    >>> [is_number(text) for text in ("1e-3", "nan", "True", "007a", "1_000", "")]
    [True, True, True, False, False, False]
    """
    if text.lower() in TRUTH:
        return True
    try:
        float(text)
    except ValueError:
        return False
    return "_" not in text


def _lines(path: str, delimiter: str) -> Iterator[Line]:
    """The rows that are not blank, each with the number of its last line."""
    with open(path, newline="", encoding="utf-8-sig") as file:
        reader = csv.reader(file, delimiter=delimiter, strict=True)
        for row in reader:
            if row:
                yield reader.line_num, row


def _is_header(row: list[str]) -> bool:
    # pandas writes 0, 1, 2, ... above columns that have no names.
    counted = len(row) > 1 and row == [str(place) for place in range(len(row))]
    return counted or not all(map(is_number, row))


def _check_header(path: str, header: tuple[str, ...]) -> None:
    seen: set[str] = set()
    for name in header:
        if name and name in seen:
            raise InvalidData(f"{path} has two columns called {name!r}; rename one.")
        seen.add(name)


def _entry(table: Table, name: str, sample: list[str]) -> Entry:
    values = [value for value in sample if value]
    strange = next((value for value in values if not is_number(value)), None)
    reads = partial(table.column, name), partial(table.labels, name), partial(table.filled, name)
    if strange is None and (values or not sample):
        return Entry(1, "numbers", "(numbers)", *reads)
    return Entry(1, "text", f"(text such as {strange!r})" if strange else "(nothing)", *reads)
