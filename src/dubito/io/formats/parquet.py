"""Parquet and Arrow files: features are a list column, or several columns of numbers (extra ``files``)."""

import json
import os
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, fields
from functools import partial
from types import ModuleType
from typing import Any

import numpy as np

from dubito.errors import InvalidData
from dubito.io.cells import as_list
from dubito.io.formats.arrow import opened
from dubito.io.formats.tables import Grid
from dubito.io.missing_values import reads_missing_as_nan
from dubito.io.source import Entry, Source, reading, stack_rows
from dubito.matrix import AnyArray, Matrix
from dubito.registry import require
from dubito.request.ids import tidy_date

# The index of a pandas data frame; the metadata of the schema describes it.

COUNTED = "__index_level_0__"
"""The name of an index that pandas stores only as a range, because the index has no name."""


def index_of(metadata: Mapping[bytes, bytes] | None, n_rows: int) -> tuple[tuple[str, ...], dict[str, Entry]]:
    """The names of the index columns, and an entry for an index that is a range, unless it is just row numbers.

    Examples
    --------
    >>> index_of({b"pandas": b'{"index_columns": ["file"]}'}, 3)[0]
    ('file',)
    >>> counted = b'{"index_columns": [{"kind": "range", "start": 5, "stop": 8, "step": 1}]}'
    >>> names, entries = index_of({b"pandas": counted}, 3)
    >>> entries[names[0]].read().tolist()
    [5, 6, 7]
    """
    described = json.loads((metadata or {}).get(b"pandas", b"{}"))  # `reading` explains errors in the JSON.
    found = described.get("index_columns") if isinstance(described, dict) else None
    levels: list[Any] = found if isinstance(found, list) else []
    names = tuple(level for level in levels if isinstance(level, str))
    if names or len(levels) != 1:
        return names, {}
    rows = _range(levels[0])
    if len(rows) != n_rows or rows == range(n_rows):
        return (), {}
    return (COUNTED,), {
        COUNTED: Entry(1, "numbers", "(int64)", partial(np.arange, rows.start, rows.stop, rows.step, np.int64))
    }


def _range(level: object) -> range:
    if not isinstance(level, dict):
        return range(0)
    start, stop, step = (level.get(key) for key in ("start", "stop", "step"))
    if not (type(start) is int and type(stop) is int and type(step) is int and step):
        return range(0)
    return range(start, stop, step)


# The description of the embeddings in a pool file: embedder, source and width, in the metadata of the schema.
#
# A pool file is Parquet with the columns ``id``, ``embedding``, one to show (``path``, ``text`` or ``image``), and the
# other columns of its source. Distances are meaningful only between embeddings of one embedder, so shards with
# different embedders are an error.

KEY = b"dubito"
"""The key in the metadata of a schema."""
COLUMN = "embedding"
HASH = "content_hash"
"""The column of a pool with the hashes of its picture files."""


@dataclass(frozen=True, slots=True)
class Embeddings:
    """The embedder and the source of the embeddings in a pool file.

    Examples
    --------
    >>> made = Embeddings("pixels", "1", 64, "path", "photos")
    >>> Embeddings.of(made.metadata()) == made, Embeddings.of({}), made.title
    (True, None, 'pixels (version 1, 64 wide)')
    """

    embedder: str
    version: str
    """Changes whenever its numbers would."""
    width: int
    shown: str
    """The column to show to annotators: ``path``, ``text`` or ``image``."""
    source: str
    """The folder that paths are relative to, or the table; relative to the folder of the pool if inside it."""
    dubito: str = ""
    """The version of dubito that wrote it."""
    fingerprint: str = ""
    """Changes with the settings and the source."""

    @property
    def title(self) -> str:
        return f"{self.embedder} (version {self.version}, {self.width} wide)"

    def metadata(self) -> dict[bytes, bytes]:
        return {KEY: json.dumps({"schema": 1, **asdict(self)}, sort_keys=True).encode()}

    @classmethod
    def of(cls, metadata: Mapping[bytes, bytes] | None) -> "Embeddings | None":
        """The description in a schema; None if dubito did not write the file. Raises ValueError if it is damaged."""
        text = (metadata or {}).get(KEY)
        if text is None:
            return None
        record = json.loads(text)
        kinds = {field.name: int if field.name == "width" else str for field in fields(cls)}
        if not isinstance(record, dict) or not all(type(record.get(name)) is kind for name, kind in kinds.items()):
            raise ValueError("the description of the embeddings in its metadata is damaged")
        return cls(**{name: record[name] for name in kinds})

    def root(self, path: str) -> str:
        """The folder that the paths in a pool file are relative to, given the path of the file."""
        root = os.path.join(os.path.dirname(os.path.abspath(path)), self.source)
        return root if os.path.isdir(root) else os.path.dirname(root)


ROWS_PER_BATCH = 16_384
"""A list column is read in batches of at least this many rows."""


def open_parquet(path: str) -> Source:
    """Open a Parquet or Arrow file. Reads the schema; columns are read when they are needed."""
    with reading(path), opened(path) as file:
        schema, n_rows = file.schema_arrow, sum(file.group_sizes)
    twice = next((name for name, count in Counter(schema.names).items() if count > 1), None)
    if twice is not None:
        raise InvalidData(f"{path} has two columns called {twice!r}", hint="rename one.")
    entries = {field.name: _entry(path, field.name, field.type) for field in schema}
    for name in _lists_as_text(path, entries):
        entries[name] = Entry(2, "numbers", "(lists of numbers, as text)", partial(_text_lists, path, name))
    if not entries:
        raise InvalidData(f"{path} holds no columns.")
    with reading(path):
        index, counted = index_of(schema.metadata, n_rows)
        made = Embeddings.of(schema.metadata)
    index = tuple(name for name in index if name in entries or name in counted)
    embedder, root = ("", "") if made is None else (made.title, made.root(path))
    return Source(path, {**counted, **entries}, partial(_numbers, path), index=index, embedder=embedder, root=root)


def read_bytes(path: str, name: str) -> list[bytes]:
    """A column of bytes, such as pictures: bytes themselves, or records whose field ``bytes`` holds them."""
    (column,) = _read(path, [name])
    types, kind = _pyarrow("types"), column.type
    if types.is_struct(kind) and kind.get_field_index("bytes") >= 0:
        column = _pyarrow("compute").struct_field(column, "bytes")
        _refuse_nulls(column, path, name, 0)
    if not (types.is_binary(column.type) or types.is_large_binary(column.type)):
        hint = "use bytes, or records with a field bytes."
        raise InvalidData(f"column {name!r} of {path} is of type {kind}", hint=hint)
    values: list[bytes] = column.to_pylist()
    return values


def _pyarrow(module: str) -> ModuleType:
    return require(f"pyarrow.{module}", extra="files")


def _entry(path: str, name: str, kind: Any) -> Entry:
    types = _pyarrow("types")
    if types.is_list(kind) or types.is_large_list(kind) or types.is_fixed_size_list(kind):
        if _is_numeric(types, kind.value_type):
            return Entry(2, "numbers", f"(lists of {kind.value_type})", partial(_lists, path, name))
    elif _is_numeric(types, kind):
        return Entry(1, "numbers", f"({kind})", partial(_column, path, name), None, partial(_values, path, name))
    elif types.is_temporal(kind) and not types.is_duration(kind):
        dates = partial(_dates, path, name)
        return Entry(1, "other", f"({kind})", partial(_refuse, path, name, kind), dates, partial(_values, path, name))
    elif types.is_dictionary(kind) or types.is_string(kind) or types.is_large_string(kind):
        return Entry(1, "text", "(text)", partial(_texts, path, name), None, partial(_values, path, name))
    return Entry(1, "other", f"({kind})", partial(_refuse, path, name, kind), None, partial(_values, path, name))


def _lists_as_text(path: str, entries: Mapping[str, Entry]) -> list[str]:
    """The columns of text that contain lists of numbers, in a table without list columns."""
    texts = [name for name, entry in entries.items() if entry.content == "text"]
    if not texts or any(entry.ndim == 2 for entry in entries.values()):
        return []
    with reading(path), opened(path) as file:
        return [name for name in texts if _are_lists(file.first_texts(name))]


def _are_lists(values: list[Any]) -> bool:
    present = [value for value in values if value is not None]
    return bool(present) and all(isinstance(value, str) and as_list(value) is not None for value in present)


def _text_lists(path: str, name: str) -> AnyArray:
    column = _read(path, [name])[0]
    with reading(path):
        values = column.to_pylist()
    return Grid(path, {name: values}, range(len(values)), "row").lists(name)


def _is_numeric(types: ModuleType, kind: Any) -> bool:
    return bool(types.is_integer(kind) or types.is_floating(kind) or types.is_boolean(kind))


def _refuse(path: str, name: str, kind: Any) -> AnyArray:
    raise InvalidData(f"column {name!r} of {path} is of type {kind}", hint="use numbers, lists of numbers or text.")


def _read(path: str, names: Sequence[str], gaps: bool = False) -> list[Any]:
    """Columns as Arrow chunked arrays. Raises `InvalidData` for nulls unless ``gaps`` is true."""
    with reading(path), opened(path) as file:
        table = file.read(names)
        columns = [table.column(name) for name in names]
        for name, column in () if gaps else zip(names, columns, strict=True):
            _refuse_nulls(column, path, name, 0)
        return columns


def _refuse_nulls(values: Any, path: str, name: str, first_row: int, width: int = 1) -> None:
    if values.null_count:
        row = first_row + int(np.argmax(np.asarray(values.is_null()))) // width
        raise InvalidData(f"column {name!r} of {path} has no value in row {row}", hint="fill it in or remove the row.")


def _column(path: str, name: str) -> AnyArray:
    array: AnyArray = _read(path, [name])[0].to_numpy()
    return array


def _values(path: str, name: str) -> AnyArray:
    """A column as objects, None for null."""
    with reading(path), opened(path) as file:
        listed = file.read([name]).column(name).to_pylist()
    values = np.empty(len(listed), dtype=np.object_)
    values[:] = listed
    return values


def _dates(path: str, name: str) -> AnyArray:
    """Dates and times as text, which can be ids."""
    return np.array([tidy_date(str(value)) for value in _read(path, [name])[0].to_pylist()], dtype=np.str_)


def _texts(path: str, name: str) -> AnyArray:
    column = _read(path, [name])[0]
    with reading(path):  # Damaged text is detected only here.
        values = column.to_pylist()
    return np.array(values) if values else np.empty(0, np.str_)


def _numbers(path: str, names: Sequence[str]) -> AnyArray:
    """Columns of numbers as one array, in the smallest common type."""
    return np.stack([_as_numbers(column) for column in _read(path, names, gaps=reads_missing_as_nan())], axis=1)


def _as_numbers(column: Any) -> AnyArray:
    """The values of a column, with NaN for nulls."""
    if column.null_count:
        return np.array([np.nan if value is None else float(value) for value in column.to_pylist()])
    array: AnyArray = column.to_numpy()
    return array


def _lists(path: str, name: str) -> Matrix:
    """A list column (n, d), without copying the values of the batches."""
    parts: list[Matrix] = []
    first_row, width = 0, -1
    with reading(path), opened(path) as file:
        for groups in _batches(file.group_sizes):
            column = file.read([name], groups).column(name)
            _refuse_nulls(column, path, name, first_row)
            for chunk in filter(len, column.chunks):
                parts.append(_rows(chunk, path, name, first_row, width))
                first_row, width = first_row + len(chunk), parts[-1].shape[1]
    return stack_rows(parts, [path] * len(parts)) if parts else np.empty((0, 0))


def _batches(group_sizes: Sequence[int]) -> Iterator[list[int]]:
    """Yield row groups to read together. Reading all at once would copy them; one by one, there may be too many."""
    batch: list[int] = []
    n_rows = 0
    for group, size in enumerate(group_sizes):
        batch.append(group)
        n_rows += size
        if n_rows >= ROWS_PER_BATCH:
            yield batch
            batch, n_rows = [], 0
    if batch:
        yield batch


def _rows(chunk: Any, path: str, name: str, first_row: int, width: int) -> AnyArray:
    """One chunk as an array. Raises `InvalidData` if a list is not as long as the first of the column."""
    lengths = chunk.value_lengths().to_numpy()
    width = int(lengths[0]) if width < 0 else width
    odd = np.flatnonzero(lengths != width)
    if len(odd):
        raise InvalidData(
            f"column {name!r} of {path} has {lengths[odd[0]]} numbers in row {first_row + odd[0]} and {width} in "
            "the rows before it",
            hint="all lists must have the same length.",
        )
    values = chunk.flatten()
    _refuse_nulls(values, path, name, first_row, width)
    array: AnyArray = values.to_numpy(zero_copy_only=False)
    return array.reshape(len(chunk), width)
