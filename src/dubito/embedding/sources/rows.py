"""Tables read a block of rows at a time, every block an Arrow table of the same columns (extra ``files``).

Parquet and Arrow have their types. The cells of other tables are looked through once before: a column is numbers where
all of its cells are, and else text.
"""

import json
import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np

from dubito.embedding.embedded import LeftOut
from dubito.errors import InvalidData
from dubito.files.cells import CODE, PLAIN_INTEGER, as_number, is_gap
from dubito.files.entries import Source, reading, suffix_of
from dubito.files.formats.delimited import open_rows
from dubito.files.formats.json_rows import each_once
from dubito.files.formats.text import Text, find_text
from dubito.files.formulas import plain_cell
from dubito.files.opening import open_source
from dubito.files.unpacking import PACKED
from dubito.optional import require

DELIMITED = {".csv": ",", ".tsv": "\t"}
JSON_LINES = ".jsonl"
BLOCK_ROWS = 1024
LARGEST_WHOLE = 2**63

Cells = dict[str, list[object]]
"""Some rows of every column."""


@dataclass(frozen=True, slots=True)
class TableRows:
    """A table that can be gone through time and again."""

    path: str
    schema: Any
    """Names and types of its columns."""
    n_rows: int
    blocks: Callable[[], Iterator[Any]]
    """Arrow tables, in order."""
    notes: tuple[str, ...] = ()
    classes: Mapping[str, Sequence[str]] | None = None
    """Names of the classes that stand as numbers in a column."""
    broken: Mapping[int, LeftOut] = field(default_factory=dict)
    """What is in no block, by its number among all rows."""


def read_cells(path: str) -> TableRows:
    """A table whose cells have no types of their own: CSV, TSV, JSON and JSON lines, workbooks."""
    suffix = suffix_of(path).removesuffix(PACKED)
    if suffix in DELIMITED:
        return _delimited(path, DELIMITED[suffix])
    if suffix == JSON_LINES:
        return _lines(find_text(path))
    source = open_source(path)
    if not source.is_table:
        raise InvalidData(f"{path} holds no table", mend="a table of texts or pictures has named columns.")
    return _typed(path, lambda: _whole(source), source.notes, _json_kind)


def _delimited(path: str, delimiter: str) -> TableRows:
    table, _, notes = open_rows(path, delimiter)

    def cells() -> Iterator[Cells]:
        with reading(path):
            for block in table.blocks():
                yield {name: [plain_cell(row[place]) for _, row in block] for name, place in table.places.items()}

    comma = table.dialect.decimal_comma
    return _typed(path, cells, notes, lambda cell: _text_kind(cell, comma), comma)


def _lines(text: Text) -> TableRows:
    """JSON lines; those that are broken are left out, unless all are."""
    broken: dict[int, LeftOut] = {}
    if next(_json_lines(text, broken), None) is None and broken:
        first = broken[0]
        raise InvalidData(f"{first.id} of {text.path} {first.problem}", mend="every line must be an object of JSON.")
    return replace(_typed(text.path, lambda: _json_lines(text, broken), text.notes, _json_kind), broken=broken)


def _json_lines(text: Text, broken: dict[int, LeftOut]) -> Iterator[Cells]:
    """Objects line by line; a name that only later lines have is a column all the same."""
    rows: list[dict[str, object]] = []
    with reading(text.path), text.open() as file:
        written = ((number, line) for number, line in enumerate(file, start=1) if line.strip())
        for place, (number, line) in enumerate(written):
            row = _parsed(line)
            if isinstance(row, str):
                broken[place] = LeftOut(f"line {number}", row)
                continue
            rows.append(row)
            if len(rows) == BLOCK_ROWS:
                yield _by_column(rows)
                rows = []
    if rows:
        yield _by_column(rows)


def _parsed(line: str) -> dict[str, object] | str:
    """The object on a line, or what is wrong with it."""
    try:
        row = json.loads(line.removeprefix("\ufeff"), object_pairs_hook=each_once)
    except (ValueError, RecursionError) as error:
        return f"is no JSON ({error})"
    return row if isinstance(row, dict) and row else "holds no object with a name in it"


def _by_column(rows: list[dict[str, object]]) -> Cells:
    names = dict.fromkeys(name for row in rows for name in row)
    return {name: [row.get(name) for row in rows] for name in names}


def _whole(source: Source) -> Iterator[Cells]:
    columns = {name: entry.values() for name, entry in source.entries.items() if entry.ndim == 1}
    n_rows = len(next(iter(columns.values()), ()))
    for start in range(0, n_rows, BLOCK_ROWS):
        yield {name: list(values[start : start + BLOCK_ROWS]) for name, values in columns.items()}


def _text_kind(cell: object, decimal_comma: bool) -> str:
    """What a cell of a CSV file could be: nothing, whole, number or text."""
    text = str(cell)
    if is_gap(text):
        return "nothing"
    if PLAIN_INTEGER.fullmatch(text):
        return "whole"
    number = None if CODE.match(text.strip()) else as_number(text, decimal_comma)
    return "text" if number is None or not math.isfinite(number) or text.strip().isalpha() else "number"


def _json_kind(cell: object) -> str:
    if cell is None or (isinstance(cell, float) and math.isnan(cell)):
        return "nothing"
    if isinstance(cell, bool | np.bool_):
        return "truth"
    if isinstance(cell, int | np.integer):
        return "whole" if -LARGEST_WHOLE <= int(cell) < LARGEST_WHOLE else "text"
    return "number" if isinstance(cell, float | np.floating) else "text"


def _typed(
    path: str,
    cells: Callable[[], Iterator[Cells]],
    notes: Sequence[str],
    kind_of: Callable[[object], str],
    decimal_comma: bool = False,
) -> TableRows:
    """The table with a type for every column, after one look at all of its cells."""
    pyarrow = require("pyarrow", extra="files")
    kinds: dict[str, set[str]] = {}
    n_rows = 0
    for block in cells():
        n_rows += len(next(iter(block.values())))
        for name, column in block.items():
            seen = kinds.setdefault(name, set())
            if "text" not in seen:
                seen.update(map(kind_of, column))
    if not n_rows:
        raise InvalidData(f"{path} holds no rows.")
    types = {name: _type_of(pyarrow, seen - {"nothing"}) for name, seen in kinds.items()}
    schema = pyarrow.schema(list(types.items()))

    def blocks() -> Iterator[Any]:
        for block in cells():
            length = len(next(iter(block.values())))
            columns = [
                pyarrow.array([_cell(cell, kind, decimal_comma) for cell in block.get(name, [None] * length)], kind)
                for name, kind in types.items()
            ]
            yield pyarrow.table(columns, schema=schema)

    return TableRows(path, schema, n_rows, blocks, tuple(notes))


def _type_of(pyarrow: Any, kinds: set[str]) -> Any:
    if kinds == {"truth"}:
        return pyarrow.bool_()
    if kinds == {"whole"}:
        return pyarrow.int64()
    return pyarrow.float64() if kinds and kinds <= {"whole", "number"} else pyarrow.string()


def _cell(cell: object, kind: Any, decimal_comma: bool) -> object:
    """A cell in the type of its column; what is no text there is written as JSON."""
    if cell is None or (isinstance(cell, float) and math.isnan(cell)):
        return None
    if str(kind) == "string":
        if isinstance(cell, str):
            return cell.encode("utf-8", "replace").decode()
        return json.dumps(cell.item() if isinstance(cell, np.generic) else cell, ensure_ascii=False, default=str)
    if isinstance(cell, str):
        if is_gap(cell):
            return None
        return int(cell) if str(kind) == "int64" else as_number(cell, decimal_comma)
    return cell.item() if isinstance(cell, np.generic) else cell
