"""Excel's ``.xlsx``: the first sheet that holds anything, its first row as the header (extra ``excel``)."""

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
from dubito.io.limits import hold
from dubito.io.source import Source, reading
from dubito.registry import require

MOST_ROWS = 1_048_576
"""That a sheet of Excel can have."""
FORMULA = re.compile(rb"<f[ >/]")
CHUNK = 1 << 20

Row = tuple[int, list[object]]


def open_workbook(path: str) -> Source:
    """An ``.xlsx`` file. Formulas count with the values that Excel last worked out for them."""
    openpyxl = require("openpyxl", extra="excel")
    with reading(path), warnings.catch_warnings():
        warnings.simplefilter("ignore")  # What openpyxl cannot keep of a workbook is no matter where it is only read.
        with zipfile.ZipFile(path) as archive:
            hold(path, "", sum(member.file_size for member in archive.infolist()))
        name, rows, others = _first_filled(path, openpyxl)
    if not rows:
        raise InvalidData(f"{path} holds no rows.")
    notes = [f"{path}: the sheet {name!r} was read; it has {', '.join(map(repr, others))} beside it."] if others else []
    return _table(path, rows).source(notes)


def _first_filled(path: str, openpyxl: ModuleType) -> tuple[str, list[Row], list[str]]:
    """The first sheet with anything in it: its name, its rows, and the names of those behind it."""
    book = openpyxl.load_workbook(path, read_only=True, data_only=True)
    plain = openpyxl.load_workbook(path, read_only=True) if _has_formulas(path) else None
    try:
        sheets = [sheet for sheet in book.worksheets if sheet.sheet_state == "visible"] or book.worksheets
        for place, sheet in enumerate(sheets):
            rows = _filled(_rows(path, sheet, None if plain is None else plain[sheet.title]))
            if rows or place == len(sheets) - 1:
                return sheet.title, rows, [other.title for other in sheets[place + 1 :]]
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
    """The rows, each with its number; a formula that was never worked out is refused."""
    sheet.reset_dimensions()  # What a sheet says of its size may be anything.
    if formulas is not None:
        formulas.reset_dimensions()
    written: Iterator[Sequence[object]] = iter(()) if formulas is None else formulas.iter_rows(values_only=True)
    pairs = zip_longest(sheet.iter_rows(values_only=True), written, fillvalue=())
    for number, (row, texts) in enumerate(pairs, start=1):
        if number > MOST_ROWS:
            raise InvalidData(f"{path} has more than the {MOST_ROWS:,} rows that a sheet can have.")
        for place, text in enumerate(texts):
            if isinstance(text, str) and text.startswith("=") and (place >= len(row) or row[place] is None):
                raise InvalidData(
                    f"row {number} of {path} holds the formula {text:.40} and no value for it",
                    hint="open it in Excel, which works it out, and save it again.",
                )
        yield number, [_as_cell(cell) for cell in row]


def _filled(rows: Iterator[Row]) -> list[Row]:
    """From the first row that holds anything to the last."""
    kept: list[Row] = []
    n_filled = 0
    for number, cells in rows:
        is_filled = any(kind_of(cell) != "nothing" for cell in cells)
        if is_filled or kept:
            kept.append((number, cells))
        n_filled = len(kept) if is_filled else n_filled
    return kept[:n_filled]


def _as_cell(cell: object) -> object:
    """Dates and times as text; whole numbers that no workbook keeps to the last digit as what they are, floats."""
    if isinstance(cell, int) and LARGEST_WHOLE <= abs(cell) <= LARGEST_NUMBER:
        return float(cell)
    return cell.isoformat() if isinstance(cell, datetime.date | datetime.time) else cell


def _table(path: str, rows: list[Row]) -> Grid:
    """The first row as names above the others; columns without a name must be empty."""
    (_, header), data = rows[0], rows[1:]
    if all(kind_of(cell) == "number" for cell in header) and header != list(range(len(header))):
        header, data = [f"column{place + 1}" for place in range(len(header))], rows
    columns: dict[str, list[object]] = {}
    for place in range(max(len(row) for _, row in rows)):
        name = str(header[place]).strip() if place < len(header) and kind_of(header[place]) != "nothing" else ""
        cells = [row[place] if place < len(row) else None for _, row in data]
        if name in columns:
            raise InvalidData(f"{path} has two columns called {name!r}", hint="rename one.")
        if not name and place > 0:
            _refuse_nameless(path, place, data, cells)
        elif name or any(kind_of(cell) != "nothing" for cell in cells):
            columns[name] = cells
    return Grid(path, columns, [number for number, _ in data], "row")


def _refuse_nameless(path: str, place: int, data: list[Row], cells: list[object]) -> None:
    filled = next((number for (number, _), cell in zip(data, cells, strict=True) if kind_of(cell) != "nothing"), None)
    if filled is not None:
        raise InvalidData(
            f"row {filled} of {path} has a value in column {place + 1}, and the first row no name there",
            hint="name that column, or remove what stands above the names.",
        )
