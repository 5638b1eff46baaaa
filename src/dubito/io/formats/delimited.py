"""CSV and TSV, read in blocks of rows with the standard library's parser."""

import codecs
import csv
import io
import re
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from functools import cache, partial
from itertools import islice
from math import nan
from typing import TextIO, TypeVar

import numpy as np

from dubito.errors import InvalidData
from dubito.io.cells import (
    CODE,
    COMMA_GROUPED,
    DECIMAL_COMMA,
    as_list,
    as_names,
    as_number,
    as_numbers,
    first_possible_thousands,
    is_boolean,
    is_missing,
    is_number,
    number_problem,
    plain_cell,
)
from dubito.io.limits import open_bytes, reserve_memory
from dubito.io.missing_values import PLAIN_NUMBER, reads_missing_as_nan
from dubito.io.source import Entry, Source, reading
from dubito.matrix import AnyArray, FloatArray
from dubito.request.labels import MISSING_TEXTS, PLAIN_INTEGER

# The dialect of a delimited file: the delimiter, and whether numbers have a decimal comma.

SAMPLED_ROWS, SAMPLED_CHARACTERS, FEWEST_ROWS = 100, 1 << 18, 3
"""Size of the sample: this many rows, or fewer if they are long, but never fewer than `FEWEST_ROWS`."""

DELIMITERS = {",": "commas", ";": "semicolons", "\t": "tabs", "|": "bars"}
SPACED_QUOTE = re.compile(r'[,;|\t] +"')
LONGEST_FIELD = 1 << 30


@dataclass(frozen=True, slots=True)
class Dialect:
    delimiter: str
    decimal_comma: bool = False
    skips_spaces: bool = False
    """Whether to ignore spaces between a delimiter and a quote."""
    skipped_lines: int = 0
    """1 if the first line is ``sep=;``, which tells Excel the delimiter."""


def guess_dialect(file: TextIO, default: str) -> Dialect:
    """Guess the dialect from a sample of the file; ``default`` is the delimiter that its suffix stands for."""
    lines: list[str] = []
    n_characters = 0
    is_truncated = False
    for line in file:
        is_truncated = len(lines) > SAMPLED_ROWS or (n_characters > SAMPLED_CHARACTERS and len(lines) >= FEWEST_ROWS)
        if is_truncated:
            break
        lines.append(line)
        n_characters += len(line)
    declared = re.fullmatch(r"sep=([,;|\t])\s*", lines[0]) if lines else None
    lines = lines[1:] if declared else lines
    spaces = any(SPACED_QUOTE.search(line) for line in lines)
    choices = [declared.group(1)] if declared else [default, *(each for each in DELIMITERS if each != default)]
    with long_fields():  # Misplaced quotes are not an error here.
        readers = {each: csv.reader(lines, delimiter=each, skipinitialspace=spaces) for each in choices}
        parsed = {each: [row for row in reader if row] for each, reader in readers.items()}
    if is_truncated:  # The last row may be incomplete, since a quoted field can span lines.
        parsed = {each: rows[:-1] if len(rows) >= FEWEST_ROWS else rows for each, rows in parsed.items()}
    chosen = choices[0] if declared else _best_delimiter(parsed, default)
    # A number like 1,234 does not count as one with a decimal comma, as it may have a thousands separator.
    with_comma = [cell for row in parsed[chosen] for cell in row if DECIMAL_COMMA.fullmatch(cell)]
    comma = chosen != "," and not all(map(COMMA_GROUPED.fullmatch, with_comma))
    return Dialect(chosen, comma, spaces, 1 if declared else 0)


@contextmanager
def long_fields() -> Iterator[None]:
    """Allow long fields, such as a list of all features of a row. The limit of the csv module is global."""
    before = csv.field_size_limit(LONGEST_FIELD)
    try:
        yield
    finally:
        csv.field_size_limit(before)


def _best_delimiter(parsed: dict[str, list[list[str]]], default: str) -> str:
    """The delimiter that splits every row into the same number of fields, most of them numbers."""
    shares: dict[str, float] = {}
    for delimiter, rows in parsed.items():
        # Empty fields at the end do not count.
        width = max((i for i, field in enumerate(rows[0], start=1) if field.strip()), default=0) if rows else 0
        if width > 1 and all(len(row) >= width and not any(row[width:]) for row in rows):
            cells = [cell for row in rows[1:] or rows for cell in row]
            may_have_comma = delimiter != ","
            n_numbers = sum(
                is_number(cell) or (may_have_comma and DECIMAL_COMMA.fullmatch(cell) is not None) for cell in cells
            )
            shares[delimiter] = n_numbers / len(cells)
    if not shares:
        # Some row is malformed. Keep the default if the header contains it, else the delimiter of the widest header.
        widths = {each: len(rows[0]) for each, rows in parsed.items() if rows}
        return default if widths.get(default, 1) > 1 else max(widths, key=lambda each: widths[each], default=default)
    return max(shares, key=lambda each: (shares[each], each == default))


# The encoding of a file, and a note for the user if it was guessed.
#
# UTF-8 is the default. UTF-16 and UTF-32 are recognized by a byte order mark, and UTF-16 without one by a NUL in every
# other byte. Other files that look like text are taken as Western European, which Excel and old programs write.

CHUNK = 1 << 20

BYTE_ORDER_MARKS = (
    (codecs.BOM_UTF8, "utf-8-sig"),
    (codecs.BOM_UTF32_LE, "utf-32"),
    (codecs.BOM_UTF32_BE, "utf-32"),
    (codecs.BOM_UTF16_LE, "utf-16"),
    (codecs.BOM_UTF16_BE, "utf-16"),
)
"""Longer marks first, because the mark of UTF-32 begins with that of UTF-16."""

MULTIBYTE = re.compile(rb"[\xc2-\xdf][\x80-\xbf]|[\xe0-\xef][\x80-\xbf]{2}|[\xf0-\xf4][\x80-\xbf]{3}")
"""A non-ASCII character in UTF-8."""
ASCII = bytes(range(128))
CONTROLS = re.compile(rb"[\x00-\x08\x0b\x0e-\x19\x1b-\x1f\x7f]")
"""Control characters that do not occur in text."""
WINDOWS_ONLY = re.compile(rb"[\x80-\x9f]")
UNDEFINED = re.compile(rb"[\x81\x8d\x8f\x90\x9d]")
"""Bytes that Windows-1252 does not define."""


@dataclass(frozen=True, slots=True)
class Text:
    """A text file whose encoding is known."""

    path: str
    encoding: str
    notes: tuple[str, ...] = ()

    def open(self) -> TextIO:
        return io.TextIOWrapper(open_bytes(self.path), self.encoding, newline="")


def detect_encoding(path: str) -> Text:
    """Find the encoding of a file. Reads all of its bytes, and raises `InvalidData` if they are not text."""
    with open_bytes(path) as file:
        head = file.read(CHUNK)
    for mark, name in BYTE_ORDER_MARKS:
        if head.startswith(mark):
            notes = (
                () if name == "utf-8-sig" else (f"{path} was read as {name.upper()} because of its byte order mark.",)
            )
            return _checked(Text(path, name, notes))
    # Most characters are ASCII, so that every other byte of UTF-16 is a NUL.
    even, odd, half = head[0::2].count(0), head[1::2].count(0), len(head) // 2
    if half and max(even, odd) > 0.6 * half and min(even, odd) < 0.1 * half:
        utf16 = "utf-16-le" if odd > even else "utf-16-be"
        return _checked(Text(path, utf16, (f"{path} was read as UTF-16: every other byte is a NUL.",)))
    try:
        return _checked(Text(path, "utf-8"))
    except UnicodeDecodeError:
        return _western_european(path)


def _chunks(path: str) -> Iterator[bytes]:
    with open_bytes(path) as file:
        while chunk := file.read(CHUNK):
            yield chunk


def _checked(text: Text) -> Text:
    """Decode the whole file to check it; raises `InvalidData` if it contains a NUL character."""
    decoder = codecs.getincrementaldecoder(text.encoding)()
    line = 1
    for chunk in _chunks(text.path):
        characters = decoder.decode(chunk)
        if "\0" in characters:
            line += characters[: characters.index("\0")].count("\n")
            problem = f"{text.path} has a NUL character in line {line}: it is damaged, or not a text file"
            raise InvalidData(problem, hint="export it again.")
        line += characters.count("\n")
    decoder.decode(b"", final=True)
    return text


def _western_european(path: str) -> Text:
    """Windows-1252 or Latin-1; raises `InvalidData` if the file is damaged UTF-8, or not text."""
    n_multibyte = n_others = 0
    is_windows = is_binary = False
    for chunk in _chunks(path):
        multibyte = MULTIBYTE.findall(chunk)
        n_multibyte += len(multibyte)
        n_others += len(chunk.translate(None, ASCII)) - sum(map(len, multibyte))
        is_windows = is_windows or WINDOWS_ONLY.search(chunk) is not None
        is_binary = is_binary or (CONTROLS.search(chunk) or UNDEFINED.search(chunk)) is not None
    if n_multibyte and 2 * n_multibyte >= n_others:  # Western European text rarely contains valid UTF-8 sequences.
        raise InvalidData(
            f"{path} is UTF-8 with {n_others} damaged byte{'s' * (n_others != 1)}, the first in line "
            f"{_first_damaged_line(path)}",
            hint="export it again.",
        )
    if is_binary:
        raise InvalidData(f"{path} has bytes that text files do not contain: it is damaged, or not a text file.")
    note = (
        f"{path} is not UTF-8: it was read as Western European ({'Windows-1252' if is_windows else 'Latin-1'}); "
        "if characters look wrong, save it as UTF-8."
    )
    return Text(path, "cp1252" if is_windows else "latin-1", (note,))


def _first_damaged_line(path: str) -> int:
    decoder = codecs.getincrementaldecoder("utf-8")()
    line = 1
    for chunk in _chunks(path):
        try:
            line += decoder.decode(chunk).count("\n")
        except UnicodeDecodeError as error:
            return line + chunk[: error.start].count(b"\n")
    return line


ROWS_PER_BLOCK = 4096
CELLS_PER_BLOCK, SAMPLED_CELLS = 1 << 20, 1 << 18
"""The more columns a row has, the fewer rows are read at a time."""

Line = tuple[int, list[str]]
Value = TypeVar("Value")


@dataclass(frozen=True, slots=True)
class DelimitedTable:
    """A delimited file whose header is known.

    A sample decides whether a column contains numbers; a later row that disagrees is an error.
    """

    text: Text
    dialect: Dialect
    positions: dict[str, int]
    """The index of each column in a row."""
    has_header: bool
    unnamed: tuple[int, ...] = ()
    """Indices of columns without a name; these must be empty."""
    width: int = field(default=0)
    """Number of fields up to the last column with a name."""
    booleans: frozenset[int] = frozenset()
    """Indices of the columns whose values are true or false in the sample."""

    @property
    def path(self) -> str:
        return self.text.path

    def blocks(self) -> Iterator[list[Line]]:
        """Yield the data rows with their line numbers, a few thousand at a time, without empty rows at the end."""
        n_rows = max(1, min(ROWS_PER_BLOCK, CELLS_PER_BLOCK // max(1, self.width)))
        lines = islice(read_lines(self.text, self.dialect), int(self.has_header), None)
        empty: list[Line] = []
        while block := take(lines, n_rows):
            block = empty + block
            n_filled = next((i for i in range(len(block), 0, -1) if any(block[i - 1][1])), 0)
            block, empty = block[:n_filled], block[n_filled:]
            for number, row in block:
                if len(row) != self.width or self.unnamed:
                    self._check_row(number, row)
            if block:
                yield block

    def _check_row(self, number: int, row: list[str]) -> None:
        if len(row) < self.width or any(map(str.strip, row[self.width :])):
            hint = f"fix or remove the line; put quotes around a field with {self.dialect.delimiter!r}."
            if len(row) == self.width + 1 and number > 1:
                hint = "if its first field names the row, add a name for that column to the header."
            problem = f"line {number} of {self.path} has {len(row)} fields instead of {self.width}"
            raise InvalidData(problem, hint=hint)
        for position in self.unnamed:
            if row[position].strip():
                field_name = f"field {position + 1}, for which the header has no name"
                problem = f"line {number} of {self.path} has a value in {field_name}"
                raise InvalidData(problem, hint="name that column.")

    def numbers(self, names: Sequence[str]) -> FloatArray:
        """Columns of numbers as an array (n, len(names))."""
        positions = [self.positions[name] for name in names]
        parts = [np.empty((0, len(positions)))]
        n_bytes = 0
        with reading(self.path):
            for block in self.blocks():
                rows = [[row[position] for position in positions] for _, row in block]
                numbers = as_numbers(rows, self.dialect.decimal_comma) if self.booleans.isdisjoint(positions) else None
                if numbers is None:
                    # Booleans, missing values or an invalid field: parse cell by cell, which is slower.
                    numbers = np.array(
                        [[self._number(line, row, position) for position in positions] for line, row in block]
                    )
                parts.append(numbers)
                n_bytes += parts[-1].nbytes
                reserve_memory(self.path, f"{names[0]} and {len(names)} columns", n_bytes)
        return np.concatenate(parts)

    def column(self, name: str) -> FloatArray:
        values: FloatArray = self.numbers([name])[:, 0]
        return values

    def labels(self, name: str) -> AnyArray:
        """One column of names: as integers if every value is a plain integer, else as text."""
        return as_names(self._each(name, partial(_name, self.path, name)), self.path, name)

    def texts(self, name: str) -> AnyArray:
        return np.array(self._each(name, lambda _, text: text), dtype=np.str_)

    def lists(self, name: str) -> FloatArray:
        """A column of lists of numbers as an array (n, d)."""
        rows = self._each(name, self._list)
        for row in rows:
            if len(row[1]) != len(rows[0][1]):
                raise InvalidData(
                    f"column {name!r} of {self.path} has {len(row[1])} numbers in line {row[0]} and "
                    f"{len(rows[0][1])} in line {rows[0][0]}",
                    hint="all lists must have the same length.",
                )
        return np.stack([values for _, values in rows]) if rows else np.empty((0, 0))

    def _list(self, number: int, text: str) -> tuple[int, FloatArray]:
        values = as_list(text)
        if values is None:
            shown = text if len(text) <= 40 else text[:20] + " ... " + text[-15:]
            why = "; it was truncated when it was printed" if "..." in text else ""
            raise InvalidData(f"line {number} of {self.path} holds {shown!r}, which is not a list of numbers{why}.")
        return number, values

    def _each(self, name: str, parse: Callable[[int, str], Value]) -> list[Value]:
        position = self.positions[name]
        with reading(self.path):
            return [parse(number, plain_cell(row[position])) for block in self.blocks() for number, row in block]

    def _number(self, line: int, row: list[str], position: int) -> float:
        text = row[position]
        if reads_missing_as_nan() and is_missing(text):
            return nan
        number = as_number(text, self.dialect.decimal_comma)
        if number is not None and is_boolean(text) == (position in self.booleans):
            return number
        name = next(name for name, other in self.positions.items() if other == position)
        if not text.strip():
            problem = f"column {name!r} of {self.path} is empty in line {line}"
            raise InvalidData(problem, hint="fix or remove that row.")
        odd = number_problem(text)
        why = f"which has {odd}" if odd else "which is not a number"
        if number is not None:
            why = "a boolean among numbers" if is_boolean(text) else "a number among booleans"
        problem = f"column {name!r} of {self.path} holds {text!r}, {why}, in line {line}"
        raise InvalidData(problem, hint=f"{PLAIN_NUMBER}.")


def open_delimited(path: str, delimiter: str) -> Source:
    """Open a CSV or TSV file; ``delimiter`` is the one its suffix stands for, and the file may use another.

    If the first row has only numbers, it is data, and the columns are called column1, column2, and so on.
    """
    table, data, notes = open_rows(path, delimiter)
    entries = {
        name: _entry(table, name, [row[position] for row in data if position < len(row)])
        for name, position in table.positions.items()
    }
    return Source(path, entries, table.numbers, notes)


def open_rows(path: str, delimiter: str) -> tuple[DelimitedTable, list[list[str]], tuple[str, ...]]:
    """The table, the data rows of a sample, and notes for the user on how the file is read."""
    with reading(path):
        text = detect_encoding(path)
        with text.open() as file:
            dialect = guess_dialect(file, delimiter)
        lines = read_lines(text, dialect)
        first = take(lines, 1)
        width = max(1, len(first[0][1])) if first else 1
        # The more columns, the fewer rows, but at least ten.
        sample = [row for _, row in first + take(lines, min(SAMPLED_ROWS, max(10, SAMPLED_CELLS // width)))]
    if not any(any(row) for row in sample):
        raise InvalidData(f"{path} holds no rows.")
    notes = list(text.notes)
    if dialect.delimiter != delimiter:
        notes.append(f"{path} was read with {DELIMITERS[dialect.delimiter]} between its fields.")
    if dialect.decimal_comma:
        notes.append(f"{path} was read with decimal commas: 1,5 is one and a half.")
    return *_with_header(text, dialect, sample), tuple(notes)


def read_lines(text: Text, dialect: Dialect) -> Iterator[Line]:
    """Yield the non-blank rows with their line numbers; iterate with `take`, which allows long fields."""
    with text.open() as file:
        for _ in range(dialect.skipped_lines):
            file.readline()
        reader = csv.reader(file, delimiter=dialect.delimiter, strict=True, skipinitialspace=dialect.skips_spaces)
        try:
            for row in reader:
                if row:
                    yield reader.line_num + dialect.skipped_lines, row
        except csv.Error as error:
            raise InvalidData(
                f"line {reader.line_num + dialect.skipped_lines} of {text.path} is truncated, or has a misplaced "
                f"quote ({error})",
                hint="fix that line.",
            ) from error


def take(lines: Iterator[Line], n_rows: int) -> list[Line]:
    with long_fields():
        return list(islice(lines, n_rows))


def _with_header(text: Text, dialect: Dialect, sample: list[list[str]]) -> tuple[DelimitedTable, list[list[str]]]:
    """The table, with the first row as header if it looks like one, and the data rows of the sample."""
    first = [plain_cell(name.strip()) for name in sample[0]]
    # pandas writes 0, 1, 2, ... above unnamed columns. A 0 above one column of integers may itself be data.
    is_numbered = len(sample) > 1 and first == [str(position) for position in range(len(first))]
    if is_numbered and len(first) == 1:
        is_numbered = not any(PLAIN_INTEGER.fullmatch(cell.strip()) for row in sample[1:] for cell in row)
    if not is_numbered and all(is_number(cell, dialect.decimal_comma) or cell in MISSING_TEXTS for cell in first):
        positions = {f"column{position}": position - 1 for position in range(1, len(first) + 1)}
        return DelimitedTable(
            text, dialect, positions, False, (), len(first), _booleans(sample, positions.values())
        ), sample
    data, positions = sample[1:], {}
    unnamed: list[int] = []
    for position, name in enumerate(first):
        if name in positions and name:
            raise InvalidData(f"{text.path} has two columns called {name!r}", hint="rename one.")
        # pandas writes the index first, without a name.
        if name or (position == 0 and any(row[0].strip() for row in data)):
            positions[name] = position
        else:
            unnamed.append(position)
    width = max(positions.values(), default=-1) + 1
    unnamed = [position for position in unnamed if position < width]
    return DelimitedTable(
        text, dialect, positions, True, tuple(unnamed), width, _booleans(data, positions.values())
    ), data


def _booleans(data: list[list[str]], positions: Iterable[int]) -> frozenset[int]:
    """The indices of the columns in which every value is true or false."""
    columns = {
        position: [row[position] for row in data if position < len(row) and not is_missing(row[position])]
        for position in positions
    }
    return frozenset(position for position, values in columns.items() if values and all(map(is_boolean, values)))


def _name(path: str, name: str, number: int, text: str) -> str:
    if not text:
        raise InvalidData(f"column {name!r} of {path} is empty in line {number}", hint="fill it in.")
    return text


def _entry(table: DelimitedTable, name: str, sample: list[str]) -> Entry:
    values = [value for value in sample if not is_missing(value)]
    example, problem = _first_non_number(values, table.dialect)
    # Cached, because labels are read twice: for training, and for messages about them.
    names, texts = partial(table.labels, name), cache(partial(table.texts, name))
    if example is None and (values or not sample):
        is_code = any(CODE.fullmatch(value.strip()) for value in values)
        return Entry(1, "numbers", "(numbers)", partial(table.column, name), names, texts, is_code)
    if values and all(as_list(value) is not None for value in values):
        return Entry(2, "numbers", "(lists of numbers)", partial(table.lists, name), names, texts)
    summary = f"(text such as {example!r}{problem})" if example else "(nothing)"
    return Entry(1, "text", summary, partial(table.column, name), names, texts)


def _first_non_number(values: list[str], dialect: Dialect) -> tuple[str | None, str]:
    """The first value that is not a number, or None, and what is wrong with it."""
    comma = dialect.decimal_comma
    thousands = first_possible_thousands(values) if dialect.delimiter != "," and not comma else None
    if thousands is not None:
        return thousands, ", whose point may be a decimal point or a thousands separator: write all numbers alike"
    example = next((value for value in values if not is_number(value, comma)), None)
    if example is not None and comma and is_number(example):
        return example, ", which has a point where others have decimal commas"
    problem = None if example is None else number_problem(example)
    return example, "" if problem is None else f", which has {problem}"
