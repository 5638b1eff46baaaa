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
from typing import NoReturn, TextIO, TypeVar

import numpy as np

from dubito.errors import InvalidData
from dubito.io.cells import (
    CODE,
    DECIMAL_COMMA,
    GROUPED,
    PLAIN_INTEGER,
    as_list,
    as_names,
    as_number,
    as_numbers,
    is_gap,
    is_number,
    is_truth,
    may_be_thousands,
    plain_cell,
    what_is_odd,
)
from dubito.io.limits import hold, open_bytes
from dubito.io.missing_values import PLAIN_NUMBER, gaps_are_kept
from dubito.io.source import Entry, Source, reading
from dubito.matrix import AnyArray, FloatArray
from dubito.request.labels import NO_TEXTS

# How a delimited file is written: what stands between fields, and whether numbers have a decimal comma.

SAMPLED_ROWS = 100
SAMPLED_LETTERS, FEWEST_ROWS = 1 << 18, 3
"""What is judged by: this many rows, or letters where rows are long, but no fewer than these rows."""

DELIMITERS = {",": "commas", ";": "semicolons", "\t": "tabs", "|": "bars"}
SPACED_QUOTE = re.compile(r'[,;|\t] +"')
LONGEST_FIELD = 1 << 30


@dataclass(frozen=True, slots=True)
class Dialect:
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
    lines, is_cut = _sample_dialects(file)
    mark = re.fullmatch(r"sep=([,;|\t])\s*", lines[0]) if lines else None
    lines = lines[1:] if mark else lines
    spaces = any(SPACED_QUOTE.search(line) for line in lines)
    choices = [mark.group(1)] if mark else [own, *(each for each in DELIMITERS if each != own)]
    parsed = {each: _parsed(Dialect(each, skips_spaces=spaces), lines, is_cut) for each in choices}
    chosen = choices[0] if mark else _best(parsed, own)
    comma = chosen != "," and _has_decimal_commas(parsed[chosen])
    return Dialect(chosen, comma, spaces, 1 if mark else 0)


def describe_dialect(path: str, dialect: Dialect, own: str) -> tuple[str, ...]:
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


def _sample_dialects(file: TextIO) -> tuple[list[str], bool]:
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


# Text out of bytes: which encoding a file is in, and what a person is reported where that was guessed.
#
# UTF-8 is the rule. A mark at the start tells UTF-16 and UTF-32; NULs at every other byte tell UTF-16 without one.
# What is no UTF-8 and looks like text is Western European, as Excel and old programs write it.

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
                f"{text.path} holds a NUL in line {line}: it is damaged, or no text", hint="write it again."
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
            hint="write it again.",
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


ROWS_PER_BLOCK = 4096
CELLS_PER_BLOCK, SAMPLED_CELLS = 1 << 20, 1 << 18
"""Rows of many columns are read fewer at a time."""

Line = tuple[int, list[str]]
Value = TypeVar("Value")


@dataclass(frozen=True, slots=True)
class DelimitedTable:
    """A delimited file whose header is known.

    Whether a column holds numbers is decided on a sample; a later row that disagrees is an error.
    """

    text: Text
    dialect: Dialect
    places: dict[str, int]
    """Where each column stands in a row."""
    has_header: bool
    nameless: tuple[int, ...] = ()
    """Places within a row that have no name; nothing may stand there."""
    width: int = field(default=0)
    """Fields up to the last column that has a name."""
    truths: frozenset[int] = frozenset()
    """Places of the columns that hold truth values, by the sample."""

    @property
    def path(self) -> str:
        return self.text.path

    def blocks(self) -> Iterator[list[Line]]:
        """The data rows with their line numbers, a few thousand at a time; empty ones at the end are left out."""
        n_rows = max(1, min(ROWS_PER_BLOCK, CELLS_PER_BLOCK // max(1, self.width)))
        lines = islice(read_lines(self.text, self.dialect), int(self.has_header), None)
        empty: list[Line] = []
        while block := take(lines, n_rows):
            block = empty + block
            filled = next((place for place in range(len(block), 0, -1) if any(block[place - 1][1])), 0)
            block, empty = block[:filled], block[filled:]
            for number, row in block:
                self._check_row(number, row)
            if block:
                yield block

    def _check_row(self, number: int, row: list[str]) -> None:
        if len(row) < self.width or any(map(str.strip, row[self.width :])):
            one_more = len(row) == self.width + 1 and number > 1
            name = "if its first field is a row's name, give that a name in the header."
            hint = name if one_more else f"fix or drop it; a field with {self.dialect.delimiter!r} in it needs quotes."
            problem = f"line {number} of {self.path} has {len(row)} fields instead of {self.width}"
            raise InvalidData(problem, hint=hint)
        for place in self.nameless:
            if row[place].strip():
                _refuse_nameless(self.path, place, number)

    def numbers(self, names: Sequence[str]) -> FloatArray:
        """Columns of numbers as an array (n, number of names)."""
        places = [self.places[name] for name in names]
        parts = [np.empty((0, len(places)))]
        n_bytes = 0
        with reading(self.path):
            for block in self.blocks():
                parts.append(self._parse(block, places))
                n_bytes += parts[-1].nbytes
                hold(self.path, f"{names[0]} and {len(names)} columns", n_bytes)
        return np.concatenate(parts)

    def column(self, name: str) -> FloatArray:
        values: FloatArray = self.numbers([name])[:, 0]
        return values

    def labels(self, name: str) -> AnyArray:
        """One column of names: integers where every value is written as a plain one, else text."""
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
                    hint="every list must be equally long.",
                )
        return np.stack([values for _, values in rows]) if rows else np.empty((0, 0))

    def _list(self, number: int, text: str) -> tuple[int, FloatArray]:
        values = as_list(text)
        if values is None:
            shown = text if len(text) <= 40 else text[:20] + " ... " + text[-15:]
            why = "; it was cut when it was printed" if "..." in text else ""
            raise InvalidData(f"line {number} of {self.path} holds {shown!r}, which is no list of numbers{why}.")
        return number, values

    def _each(self, name: str, take: Callable[[int, str], Value]) -> list[Value]:
        place = self.places[name]
        with reading(self.path):
            return [take(number, plain_cell(row[place])) for block in self.blocks() for number, row in block]

    def _parse(self, block: list[Line], places: list[int]) -> FloatArray:
        if self.truths.isdisjoint(places):
            numbers = as_numbers([[row[place] for place in places] for _, row in block], self.dialect.decimal_comma)
            if numbers is not None:
                return numbers
        # Truth values, gaps, or a field to complain of: slower, one by one.
        return np.array([[self._number(number, row, place) for place in places] for number, row in block])

    def _number(self, line: int, row: list[str], place: int) -> float:
        text = row[place]
        if gaps_are_kept() and is_gap(text):
            return nan
        number = as_number(text, self.dialect.decimal_comma)
        if number is not None and is_truth(text) == (place in self.truths):
            return number
        name = next(name for name, other in self.places.items() if other == place)
        what = f"holds {text!r}, {self._what_is_wrong(text, place)}," if text.strip() else "is empty"
        hint = f"{PLAIN_NUMBER}." if text.strip() else "fix or drop that row."
        raise InvalidData(f"column {name!r} of {self.path} {what} in line {line}", hint=hint)

    def _what_is_wrong(self, text: str, place: int) -> str:
        if is_number(text, self.dialect.decimal_comma):
            return "a truth value among numbers" if is_truth(text) else "a number among truth values"
        odd = what_is_odd(text)
        return f"which has {odd}" if odd else "which is no number"


def open_delimited(path: str, delimiter: str) -> Source:
    """A CSV or TSV file, whatever stands between its fields.

    A first row that is all numbers is data, and the columns are then called column1, column2, and so on.
    """
    table, data, notes = open_rows(path, delimiter)
    entries = {
        name: _entry(table, name, [row[place] for row in data if place < len(row)])
        for name, place in table.places.items()
    }
    return Source(path, entries, table.numbers, notes)


def open_rows(path: str, delimiter: str) -> tuple[DelimitedTable, list[list[str]], tuple[str, ...]]:
    """The table, to be read row by row; the rows of data in a sample, and the remarks on how it is read."""
    with reading(path):
        text = find_text(path)
        with text.open() as file:
            dialect = guess_dialect(file, delimiter)
        sample = _sample(text, dialect)
    if not any(any(row) for row in sample):
        raise InvalidData(f"{path} holds no rows.")
    table, data = _with_header(text, dialect, sample)
    return table, data, (*text.notes, *describe_dialect(path, dialect, delimiter))


def read_lines(text: Text, dialect: Dialect) -> Iterator[Line]:
    """The rows that are not blank, each with the number of its last line. To be read with `take`."""
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
                f"line {reader.line_num + dialect.skipped_lines} of {text.path} is cut short, or has a quote out "
                f"of place ({error})",
                hint="fix it.",
            ) from error


def take(lines: Iterator[Line], n_rows: int) -> list[Line]:
    with long_fields():
        return list(islice(lines, n_rows))


def _sample(text: Text, dialect: Dialect) -> list[list[str]]:
    """The first rows: those of many columns fewer, down to ten."""
    lines = read_lines(text, dialect)
    first = take(lines, 1)
    width = max(1, len(first[0][1])) if first else 1
    return [row for _, row in first + take(lines, min(SAMPLED_ROWS, max(10, SAMPLED_CELLS // width)))]


def _with_header(text: Text, dialect: Dialect, sample: list[list[str]]) -> tuple[DelimitedTable, list[list[str]]]:
    """The table whose header the first row is, or which has none; and the rows of data in the sample."""
    first = [plain_cell(name.strip()) for name in sample[0]]
    if not _is_header(first, sample[1:], dialect.decimal_comma):
        places = {f"column{place}": place - 1 for place in range(1, len(first) + 1)}
        return DelimitedTable(text, dialect, places, False, (), len(first), _truths(sample, places.values())), sample
    data, places = sample[1:], {}
    nameless: list[int] = []
    for place, name in enumerate(first):
        if name in places and name:
            raise InvalidData(f"{text.path} has two columns called {name!r}", hint="rename one.")
        # An index that pandas writes stands first and has no name.
        if name or (place == 0 and any(row[0].strip() for row in data)):
            places[name] = place
        else:
            nameless.append(place)
    width = max(places.values(), default=-1) + 1
    nameless = [place for place in nameless if place < width]
    return DelimitedTable(text, dialect, places, True, tuple(nameless), width, _truths(data, places.values())), data


def _truths(data: list[list[str]], places: Iterable[int]) -> frozenset[int]:
    """The places of columns in which every value is true or false."""
    columns = {place: [row[place] for row in data if place < len(row) and not is_gap(row[place])] for place in places}
    return frozenset(place for place, values in columns.items() if values and all(map(is_truth, values)))


def _is_header(row: list[str], data: list[list[str]], decimal_comma: bool) -> bool:
    # pandas writes 0, 1, 2, ... above columns that have no names; a lone 0 above whole numbers may be one of them.
    is_alone = len(row) == 1 and any(PLAIN_INTEGER.fullmatch(cell.strip()) for other in data for cell in other)
    counted = row == [str(place) for place in range(len(row))] and bool(data) and not is_alone
    return counted or not all(is_number(cell, decimal_comma) or cell in NO_TEXTS for cell in row)


def _refuse_nameless(path: str, place: int, number: int) -> NoReturn:
    raise InvalidData(
        f"line {number} of {path} has a value in field {place + 1}, and the header no name there",
        hint="name that column.",
    )


def _name(path: str, name: str, number: int, text: str) -> str:
    if not text:
        raise InvalidData(f"column {name!r} of {path} is empty in line {number}", hint="fill it in.")
    return text


def _entry(table: DelimitedTable, name: str, sample: list[str]) -> Entry:
    values = [value for value in sample if not is_gap(value)]
    strange, odd = _strange(values, table.dialect)
    # Kept once read: labels are read for training and again for what is reported of them.
    names, texts = partial(table.labels, name), cache(partial(table.texts, name))
    if strange is None and (values or not sample):
        is_code = any(CODE.fullmatch(value.strip()) for value in values)
        return Entry(1, "numbers", "(numbers)", partial(table.column, name), names, texts, is_code)
    if values and all(as_list(value) is not None for value in values):
        return Entry(2, "numbers", "(lists of numbers)", partial(table.lists, name), names, texts)
    summary = f"(text such as {strange!r}{odd})" if strange else "(nothing)"
    return Entry(1, "text", summary, partial(table.column, name), names, texts)


def _strange(values: list[str], dialect: Dialect) -> tuple[str | None, str]:
    """The first value that is no number, and what is odd about it."""
    comma = dialect.decimal_comma
    thousands = may_be_thousands(values) if dialect.delimiter != "," and not comma else None
    if thousands is not None:
        return thousands, ", whose point may be a decimal one or stand between thousands: write all with it or none"
    strange = next((value for value in values if not is_number(value, comma)), None)
    if strange is not None and comma and is_number(strange):
        return strange, ", which has a point where others have decimal commas"
    odd = None if strange is None else what_is_odd(strange)
    return strange, "" if odd is None else f", which has {odd}"
