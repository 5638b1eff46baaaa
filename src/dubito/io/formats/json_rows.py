"""JSON and JSON lines: objects that are the rows or columns of a table, or lists of numbers."""

import json
import os
from collections.abc import Mapping, Sequence
from functools import partial
from typing import Any, NoReturn

import numpy as np

from dubito.errors import InvalidData
from dubito.io.formats.delimited import detect_encoding
from dubito.io.formats.tables import Grid
from dubito.io.limits import GZIP_SUFFIX, reserve_memory
from dubito.io.source import Entry, Source, content_of, reading

BYTES_PER_CHARACTER = 5
"""Upper bound on the memory for parsing, per character of JSON; 2 to 3 bytes were measured."""
BYTES_PER_CELL = 100
ROWS_PER_CHECK = 1000

NumberedRows = list[tuple[int, Any]]


def open_json(path: str) -> Source:
    """Open a ``.json`` file: a list of objects or an object of columns, as pandas writes them, or lists of numbers."""
    with reading(path):
        text = detect_encoding(path)
        if not path.lower().endswith(GZIP_SUFFIX):
            reserve_memory(path, "", BYTES_PER_CHARACTER * os.path.getsize(path))
        with text.open() as file:
            content = json.load(file, object_pairs_hook=unique_names)
    if isinstance(content, Mapping):
        return _from_columns(path, content, text.notes)
    if not isinstance(content, list):
        _refuse(path)
    return _from_rows(path, list(enumerate(content)), "item", text.notes)


def open_jsonl(path: str) -> Source:
    """Open a ``.jsonl`` file: an object or a list of numbers on every line. Blank lines are ignored."""
    rows: NumberedRows = []
    n_bytes = 0
    with reading(path):
        text = detect_encoding(path)
        with text.open() as file:
            for number, line in enumerate(file, start=1):
                if line.strip():
                    rows.append((number, _row(path, number, line)))
                    n_bytes += _size(rows[-1][1])
                if number % ROWS_PER_CHECK == 0:
                    reserve_memory(path, "", n_bytes)
    reserve_memory(path, "", n_bytes)
    return _from_rows(path, rows, "line", text.notes)


def unique_names(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    """A JSON object as a dictionary. Raises ValueError for a duplicate name, of which `json` would keep the last."""
    found = dict(pairs)
    if len(found) < len(pairs):
        names = [name for name, _ in pairs]
        twice = next(name for name in names if names.count(name) > 1)
        raise ValueError(f"the name {twice!r} occurs twice in an object")
    return found


def _row(path: str, number: int, line: str) -> Any:
    try:
        row = json.loads(line.removeprefix("\ufeff"), object_pairs_hook=unique_names)
    except (ValueError, RecursionError) as error:
        hint = "fix or remove that line."
        raise InvalidData(f"line {number} of {path} is not valid JSON ({error})", hint=hint) from error
    return {name: _as_array(value) for name, value in row.items()} if isinstance(row, Mapping) else _as_array(row)


def _as_array(value: Any) -> Any:
    """Nested lists of numbers as arrays, which take a quarter of the memory; other values unchanged."""
    if not isinstance(value, list) or not value:
        return value
    flat: list[Any] = value
    while flat and all(isinstance(each, list) for each in flat):
        flat = [each for part in flat for each in part]
    if not all(type(each) in (int, float) for each in flat):
        return value
    try:
        return np.array(value, dtype=np.float64)
    except (ValueError, OverflowError):  # Lists of unequal length, or a number of hundreds of digits.
        return value


def _size(row: Any) -> int:
    cells = row.values() if isinstance(row, Mapping) else (row,)
    return sum(BYTES_PER_CELL + (cell.nbytes if isinstance(cell, np.ndarray) else 0) for cell in cells)


def _from_rows(path: str, rows: NumberedRows, noun: str, notes: Sequence[str]) -> Source:
    """A table if every row is an object, one array if none is."""
    if not rows:
        raise InvalidData(f"{path} holds no rows.")
    named = [isinstance(row, Mapping) for _, row in rows]
    if not any(named):
        return _from_lists(path, [row for _, row in rows])
    if not all(named):
        number, row = rows[named.index(False)]
        raise InvalidData(f"{path} holds {row!r:.40} as {noun} {number}", hint="every one must be an object.")
    header = dict.fromkeys(name for _, row in rows for name in row)
    columns = {name: [_as_array(row.get(name)) for _, row in rows] for name in header}
    return Grid(path, columns, [number for number, _ in rows], noun).source(notes)


def _from_lists(path: str, rows: list[Any]) -> Source:
    """Numbers or lists of numbers as one array without a name."""
    try:
        array = np.array([row.tolist() if isinstance(row, np.ndarray) else row for row in rows])
    except ValueError:
        _refuse(path)
    if array.dtype.kind not in "biufU":
        _refuse(path)
    if array.dtype.kind == "U" and not all(isinstance(row, str) for row in rows):
        _refuse(path)
    summary = f"{array.shape} {array.dtype}"
    return Source(path, {"": Entry(array.ndim, content_of(array.dtype), summary, partial(np.asarray, array))})


def _from_columns(path: str, content: Mapping[str, Any], notes: Sequence[str]) -> Source:
    """An object of columns in one of the layouts of pandas, or picks written by dubito."""
    if content.get("picks") == []:
        return _from_equal_columns(path, {"index": []}, notes)
    if isinstance(content.get("picks"), list):
        return _from_rows(path, list(enumerate(content["picks"])), "item", notes)
    if content.keys() == {"columns", "index", "data"}:
        return _from_split(path, content, notes)
    if content and all(isinstance(column, Mapping) for column in content.values()):
        return _from_indexed_columns(path, content, notes)
    if not content or not all(isinstance(column, list) for column in content.values()):
        _refuse(path)
    return _from_equal_columns(
        path, {name: [_as_array(cell) for cell in column] for name, column in content.items()}, notes
    )


def _from_equal_columns(path: str, columns: Mapping[str, Sequence[Any]], notes: Sequence[str]) -> Source:
    lengths = {name: len(column) for name, column in columns.items()}
    odd = next((name for name in lengths if lengths[name] != next(iter(lengths.values()))), None)
    if odd is not None:
        first = next(iter(lengths))
        hint = "all columns must have the same length."
        raise InvalidData(f"{path} has {lengths[odd]} values in {odd!r} and {lengths[first]} in {first!r}", hint=hint)
    return Grid(path, columns, range(max(lengths.values(), default=0)), "item").source(notes)


def _from_split(path: str, content: Mapping[str, Any], notes: Sequence[str]) -> Source:
    """The layout of pandas with ``orient="split"``."""
    names, index, rows = content["columns"], content["index"], content["data"]
    is_frame = all(isinstance(part, list) for part in (names, index, rows)) and len(index) == len(rows)
    if not is_frame or not all(isinstance(row, list) and len(row) == len(names) for row in rows):
        _refuse(path)
    columns = {str(name): [_as_array(row[position]) for row in rows] for position, name in enumerate(names)}
    if len(columns) < len(names):
        raise InvalidData(f"{path} has two columns with the same name", hint="rename one.")
    return _from_equal_columns(path, _with_index(columns, [str(each) for each in index]), notes)


def _from_indexed_columns(path: str, content: Mapping[str, Mapping[str, Any]], notes: Sequence[str]) -> Source:
    """The default layout of pandas: for every column, an object whose keys are the index."""
    first, index = next(iter(content.items()))
    odd = next((name for name, column in content.items() if column.keys() != index.keys()), None)
    if odd is not None:
        hint = "all columns must have the same rows."
        raise InvalidData(f"{path} has other rows in {odd!r} than in {first!r}", hint=hint)
    columns = {name: [_as_array(column[key]) for key in index] for name, column in content.items()}
    return _from_equal_columns(path, _with_index(columns, list(index)), notes)


def _with_index(columns: dict[str, list[Any]], index: list[str]) -> dict[str, list[Any]]:
    """The columns after the index, which is a column without a name as in CSV; row numbers are kept as numbers."""
    if "" in columns:
        return columns
    counted = [str(row) for row in range(len(index))]
    return {"": list(range(len(index))) if index == counted else index, **columns}


def _refuse(path: str) -> NoReturn:
    hint = 'write a list of objects such as {"id": "a", "x": 1.5}, or an object of columns.'
    raise InvalidData(f"{path} is JSON, but not a table", hint=hint)
