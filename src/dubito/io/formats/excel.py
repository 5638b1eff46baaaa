"""Excel's ``.xlsx``: the first sheet that is not empty, with its first row as header (extra ``excel``)."""

import datetime
import re
import warnings
import zipfile
from collections.abc import Iterator, Sequence
from itertools import zip_longest
from types import ModuleType
from typing import Any

from dubito.errors import InvalidData
from dubito.io.formats.tables import LARGEST_NUMBER, LARGEST_WHOLE, Grid, kind_of
from dubito.io.limits import reserve_memory
from dubito.io.source import Source, reading
from dubito.registry import require

MOST_ROWS = 1_048_576
"""Maximum number of rows of a sheet in Excel."""
FORMULA = re.compile(rb"<f[ >/]")
CHUNK = 1 << 20

Row = tuple[int, list[object]]


def open_workbook(path: str) -> Source:
    """Open an ``.xlsx`` file. A formula has the value that Excel last computed."""
    openpyxl = require("openpyxl", extra="excel")
    with reading(path), warnings.catch_warnings():
        warnings.simplefilter("ignore")  # openpyxl warns about features that it would lose on saving.
        with zipfile.ZipFile(path) as archive:
            reserve_memory(path, "", sum(member.file_size for member in archive.infolist()))
        name, rows, others = _first_filled(path, openpyxl)
    if not rows:
        raise InvalidData(f"{path} holds no rows.")
    notes = [f"{path}: the sheet {name!r} was read; other sheets: {', '.join(map(repr, others))}."] if others else []
    return _table(path, rows).source(notes)


def _first_filled(path: str, openpyxl: ModuleType) -> tuple[str, list[Row], list[str]]:
    """The first sheet that is not empty: its name, its rows, and the names of the sheets after it."""
    book = openpyxl.load_workbook(path, read_only=True, data_only=True)
    plain = openpyxl.load_workbook(path, read_only=True) if _has_formulas(path) else None
    try:
        sheets = [sheet for sheet in book.worksheets if sheet.sheet_state == "visible"] or book.worksheets
        for position, sheet in enumerate(sheets):
            rows = _without_empty_ends(_rows(path, sheet, None if plain is None else plain[sheet.title]))
            if rows or position == len(sheets) - 1:
                return sheet.title, rows, [other.title for other in sheets[position + 1 :]]
        raise InvalidData(f"{path} holds no sheets.")
    finally:
        book.close()
        if plain is not None:
            plain.close()


def _has_formulas(path: str) -> bool:
    with zipfile.ZipFile(path) as archive:
        for member in archive.namelist():
            if member.startswith("xl/worksheets/") and member.endswith(".xml"):
                with archive.open(member) as file:
                    tail = b""
                    while chunk := file.read(CHUNK):
                        if FORMULA.search(tail + chunk):
                            return True
                        tail = chunk[-2:]
    return False


def _rows(path: str, sheet: Any, formulas: Any) -> Iterator[Row]:
    """Yield the rows with their numbers. Raises `InvalidData` for a formula without a computed value."""
    sheet.reset_dimensions()  # The stored dimensions of a sheet may be wrong.
    if formulas is not None:
        formulas.reset_dimensions()
    written: Iterator[Sequence[object]] = iter(()) if formulas is None else formulas.iter_rows(values_only=True)
    pairs = zip_longest(sheet.iter_rows(values_only=True), written, fillvalue=())
    for number, (row, texts) in enumerate(pairs, start=1):
        if number > MOST_ROWS:
            raise InvalidData(f"{path} has more than the {MOST_ROWS:,} rows that a sheet can have.")
        for position, text in enumerate(texts):
            if isinstance(text, str) and text.startswith("=") and (position >= len(row) or row[position] is None):
                hint = "open it in Excel, which computes the value, and save it again."
                raise InvalidData(f"row {number} of {path} holds the formula {text:.40} without a value", hint=hint)
        yield number, [_as_cell(cell) for cell in row]


def _without_empty_ends(rows: Iterator[Row]) -> list[Row]:
    """The rows from the first to the last that is not empty."""
    kept: list[Row] = []
    n_filled = 0
    for number, cells in rows:
        is_filled = any(kind_of(cell) != "nothing" for cell in cells)
        if is_filled or kept:
            kept.append((number, cells))
        n_filled = len(kept) if is_filled else n_filled
    return kept[:n_filled]


def _as_cell(cell: object) -> object:
    """Convert dates and times to text, and integers too large for Excel's precision to floats."""
    if isinstance(cell, int) and LARGEST_WHOLE <= abs(cell) <= LARGEST_NUMBER:
        return float(cell)
    return cell.isoformat() if isinstance(cell, datetime.date | datetime.time) else cell


def _table(path: str, rows: list[Row]) -> Grid:
    """The table with the first row as header; columns without a name must be empty."""
    (_, header), data = rows[0], rows[1:]
    if all(kind_of(cell) == "number" for cell in header) and header != list(range(len(header))):
        header, data = [f"column{position + 1}" for position in range(len(header))], rows
    columns: dict[str, list[object]] = {}
    for position in range(max(len(row) for _, row in rows)):
        name = (
            str(header[position]).strip() if position < len(header) and kind_of(header[position]) != "nothing" else ""
        )
        cells = [row[position] if position < len(row) else None for _, row in data]
        if name in columns:
            raise InvalidData(f"{path} has two columns called {name!r}", hint="rename one.")
        if not name and position > 0:
            filled = next(
                (number for (number, _), cell in zip(data, cells, strict=True) if kind_of(cell) != "nothing"), None
            )
            if filled is not None:
                problem = (
                    f"row {filled} of {path} has a value in column {position + 1}, for which the first row has no name"
                )
                raise InvalidData(problem, hint="name that column, or remove the rows above the header.")
        elif name or any(kind_of(cell) != "nothing" for cell in cells):
            columns[name] = cells
    return Grid(path, columns, [number for number, _ in data], "row")
