"""Parquet and Arrow (Feather) files with one interface, checked and read within the memory limit (extra ``files``).

Decimals, categories of numbers and extension types are converted to their storage types.
"""

import struct
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from functools import cached_property
from typing import Any, NamedTuple

import numpy as np

from dubito.errors import InvalidData
from dubito.io.limits import reserve_memory
from dubito.io.source import suffix_of
from dubito.matrix import IntArray
from dubito.registry import require

# The sizes of the batches of an Arrow file, from its headers. pyarrow knows them only after unpacking a batch: for a
# file of 17 kB that holds one batch of zeros, get_batch allocates 537 MB, and memory pools of pyarrow have no limit.
#
# The footer lists the position of every batch; the header of a batch lists its buffers, and a compressed buffer begins
# with its unpacked size. Headers are FlatBuffers, which `Table` reads. Wrong offsets in a damaged file raise ValueError
# or struct.error, which `reading` converts to `InvalidData`.

MAGIC, END = b"ARROW1", 10
"""The last bytes of the file, and their number together with the length of the footer before them."""
DICTIONARIES, BATCHES = 2, 3
"""Fields of the footer: lists of blocks with offset, length of the header and length of the body."""
HEADER, HEADER_DATA = 2, 1
"""Fields that contain the batch, in a message and in a dictionary."""
LENGTH, BUFFERS, COMPRESSION = 0, 2, 3
"""Fields of a batch."""
UNCOMPRESSED = -1
"""Unpacked length of a buffer that is not compressed although its batch is."""


class Batch(NamedTuple):
    n_rows: int
    sizes: list[int]
    """Bytes of its buffers, in order."""


def read_sizes(content: memoryview) -> tuple[list[Batch], int]:
    """The batches of rows in an Arrow file, and the bytes of all its dictionaries."""
    if bytes(content[-len(MAGIC) :]) != MAGIC:
        raise ValueError("it does not end as an Arrow file does")
    (length,) = struct.unpack_from("<i", content, len(content) - END)
    if not 0 < length <= len(content) - END:
        raise ValueError(f"its footer claims a length of {length} bytes")
    footer = Table.root(content[len(content) - END - length : len(content) - END])
    dictionaries = [_batch(content, *block, is_dictionary=True) for block in _blocks(footer, DICTIONARIES)]
    batches = [_batch(content, *block, is_dictionary=False) for block in _blocks(footer, BATCHES)]
    return batches, sum(sum(each.sizes) for each in dictionaries)


def size_of(batch: Batch, n_buffers: Sequence[int], wanted: Sequence[bool]) -> int:
    """Bytes of the wanted columns, given the number of buffers of each column; of all if the numbers do not match.

    Examples
    --------
    >>> size_of(Batch(1, [0, 8, 0, 80]), [2, 2], [False, True]), size_of(Batch(1, [0, 8, 80]), [2, 2], [False, True])
    (80, 88)
    """
    if sum(n_buffers) != len(batch.sizes):
        return sum(batch.sizes)
    ends = np.cumsum([0, *n_buffers]).tolist()
    return sum(
        sum(batch.sizes[ends[position] : ends[position + 1]]) for position, is_wanted in enumerate(wanted) if is_wanted
    )


@dataclass(frozen=True, slots=True)
class Table:
    """A FlatBuffers table at a position in a header."""

    content: memoryview
    position: int

    @classmethod
    def root(cls, content: memoryview) -> "Table":
        return cls(content, _unpack("<I", content, 0))

    def field(self, number: int) -> int | None:
        """The position of a field, or None if it is left out."""
        names = self.position - _unpack("<i", self.content, self.position)
        if 4 + 2 * number + 2 > _unpack("<H", self.content, names):
            return None
        offset = _unpack("<H", self.content, names + 4 + 2 * number)
        return self.position + offset if offset else None

    def table(self, number: int) -> "Table | None":
        position = self.field(number)
        return None if position is None else Table(self.content, position + _unpack("<I", self.content, position))

    def int64(self, number: int) -> int:
        position = self.field(number)
        return 0 if position is None else _unpack("<q", self.content, position)

    def records(self, number: int, width: int) -> IntArray:
        """A field that is a vector of records of ``width`` int64 each."""
        position = self.field(number)
        if position is None:
            return np.empty((0, width), dtype=np.int64)
        start = position + _unpack("<I", self.content, position)
        count = _unpack("<I", self.content, start)
        values: IntArray = np.frombuffer(self.content, "<i8", count * width, start + 4)
        return values.reshape(count, width)


def _unpack(form: str, content: memoryview, position: int) -> int:
    if position < 0:
        raise ValueError("a header points outside the file")
    number: int = struct.unpack_from(form, content, position)[0]
    return number


def _blocks(footer: Table, number: int) -> Iterator[tuple[int, int]]:
    """Yield the offset of each message in the footer, and the length of its header."""
    for offset, length, _ in footer.records(number, 3).tolist():
        yield offset, length & 0xFFFFFFFF  # 32 bits, followed by 32 bits of padding.


def _batch(content: memoryview, offset: int, length: int, *, is_dictionary: bool) -> Batch:
    if not 0 <= offset <= offset + length <= len(content):
        raise ValueError("its footer points outside the file")
    (mark,) = struct.unpack_from("<i", content, offset)
    before = 8 if mark == -1 else 4  # Older files have no mark before the length.
    table = Table.root(content[offset + before : offset + length]).table(HEADER)
    table = table.table(HEADER_DATA) if table is not None and is_dictionary else table
    if table is None:
        raise ValueError("one of its messages is empty")
    body = content[offset + length :]
    is_packed = table.table(COMPRESSION) is not None
    sizes = [_size(body, position, n_bytes, is_packed) for position, n_bytes in table.records(BUFFERS, 2).tolist()]
    return Batch(table.int64(LENGTH), sizes)


def _size(body: memoryview, position: int, n_bytes: int, is_packed: bool) -> int:
    if n_bytes == 0:
        return 0
    if position < 0 or n_bytes < 0 or position + n_bytes > len(body):
        raise ValueError("one of its buffers is outside the file")
    if not is_packed:
        return n_bytes
    (unpacked,) = struct.unpack_from("<q", body, position)
    if unpacked < UNCOMPRESSED:
        raise ValueError(f"one of its buffers claims an unpacked size of {unpacked} bytes")
    return n_bytes if unpacked == UNCOMPRESSED else unpacked


ARROW = (".feather", ".arrow")
SAMPLED_ROWS, MOST_SAMPLED = 20, 1 << 26
"""Number of rows that are inspected of a column of text; columns of more bytes are not inspected."""
BYTES = {"BOOLEAN": 1, "INT32": 4, "FLOAT": 4, "INT64": 8, "DOUBLE": 8, "INT96": 8}
"""Memory of a value by its type in Parquet; other types take at least 8 bytes, an offset and a length."""


@contextmanager
def opened(path: str) -> Iterator["ParquetFile | ArrowFile"]:
    file = ArrowFile(path) if suffix_of(path) in ARROW else ParquetFile(path)
    try:
        yield file
    finally:
        file.close()


class ParquetFile:
    """A Parquet file. Its checksums, if any, are verified."""

    def __init__(self, path: str) -> None:
        self.path = path
        self.file = require("pyarrow.parquet", extra="files").ParquetFile(path, page_checksum_verification=True)
        self.metadata = self.file.metadata
        self.schema_arrow = plain_schema(self.file.schema_arrow)

    @property
    def group_sizes(self) -> list[int]:
        return [self.metadata.row_group(group).num_rows for group in range(self.metadata.num_row_groups)]

    def close(self) -> None:
        self.file.close()

    def read(self, columns: Sequence[str], groups: Sequence[int] | None = None) -> Any:
        """Columns of all rows, or of some row groups, as a table."""
        reserve_memory(self.path, _reported(columns), self._size(columns))
        rows = range(len(self.group_sizes)) if groups is None else groups
        return plain_table(self.file.read_row_groups(list(rows), columns=list(columns)), self.schema_arrow)

    def first_texts(self, name: str) -> list[Any]:
        if not self.group_sizes or self._size([name]) > MOST_SAMPLED:
            return []
        # Not with iter_batches: an unfinished iterator may still be reading when the file is closed.
        group = self.file.read_row_group(0, columns=[name])
        return list(group.column(0).slice(0, SAMPLED_ROWS).to_pylist())

    def _size(self, columns: Sequence[str]) -> int:
        """Memory of whole columns, from the metadata: a value that is repeated many times is stored once."""
        paths = [self.metadata.schema.column(position).path for position in range(self.metadata.num_columns)]
        wanted = set(columns)
        positions = [
            position for position, path in enumerate(paths) if path in wanted or path.partition(".")[0] in wanted
        ]
        total = 0
        for group in range(len(self.group_sizes)):
            self._read_one_row(group, columns)
            for column in map(self.metadata.row_group(group).column, positions):
                total += max(column.num_values * BYTES.get(column.physical_type, 8), column.total_uncompressed_size)
        return total

    def _read_one_row(self, group: int, columns: Sequence[str]) -> None:
        """Read one row, which raises if the metadata is damaged. Reading all rows could crash pyarrow 26."""
        rows = self.file.iter_batches(batch_size=1, row_groups=[group], columns=list(columns), use_threads=False)
        next(rows, None)
        rows.close()


class ArrowFile:
    """An Arrow file, memory-mapped if it is not compressed. Every batch is validated."""

    def __init__(self, path: str) -> None:
        pyarrow, self.ipc = require("pyarrow", extra="files"), require("pyarrow.ipc", extra="files")
        self.path = path
        self.map = pyarrow.memory_map(path)
        if self.map.read(4) == b"FEA1":
            raise InvalidData(f"{path} is Feather version 1", hint="write it again with pyarrow or pandas.")
        self.map.seek(0)
        self.names: list[str] = self.ipc.open_file(self.map).schema.names
        self.schema_arrow = plain_schema(self.ipc.open_file(self.map).schema)

    def close(self) -> None:
        self.map.close()

    @cached_property
    def sizes(self) -> tuple[list[Batch], int]:
        """The unpacked sizes of the batches and of all dictionaries, from the headers."""
        self.map.seek(0)
        return read_sizes(memoryview(self.map.read_buffer()))

    @property
    def group_sizes(self) -> list[int]:
        return [batch.n_rows for batch in self.sizes[0]]

    def read(self, columns: Sequence[str], groups: Sequence[int] | None = None) -> Any:
        """Columns of all rows, or of some batches, as a table."""
        reserve_memory(self.path, _reported(columns), self.size(self.sizes[0], columns))
        return self._table(range(len(self.sizes[0])) if groups is None else groups, columns)

    def first_texts(self, name: str) -> list[Any]:
        first = self.sizes[0][:1]
        if not first or self.size(first, [name]) > MOST_SAMPLED:
            return []
        return list(self._table([0], [name]).column(0).slice(0, SAMPLED_ROWS).to_pylist())

    def _table(self, groups: Sequence[int], columns: Sequence[str]) -> Any:
        positions = [self.names.index(name) for name in columns] if len(columns) < len(self.names) else []
        options = self.ipc.IpcReadOptions(included_fields=sorted(positions))
        pyarrow, reader = require("pyarrow", extra="files"), self.ipc.open_file(self.map, options=options)
        batches = []
        for position in groups:
            batches.append(reader.get_batch(position))
            batches[-1].validate(full=True)  # Offsets in a damaged file may be wrong.
        table = pyarrow.Table.from_batches(batches, reader.schema if not batches else batches[0].schema)
        return plain_table(table, self.schema_arrow)

    def size(self, batches: Sequence[Batch], columns: Sequence[str]) -> int:
        """Memory of columns in some batches and of all dictionaries, from the headers."""
        n_buffers = [_n_buffers(field.type) for field in self.ipc.open_file(self.map).schema]
        wanted = [name in columns for name in self.names]
        return self.sizes[1] + sum(size_of(batch, n_buffers, wanted) for batch in batches)


def _n_buffers(kind: Any) -> int:
    pyarrow = require("pyarrow", extra="files")
    storage = kind.storage_type if isinstance(kind, pyarrow.BaseExtensionType) else kind
    return len(pyarrow.array([], storage).buffers())


def plain_schema(schema: Any) -> Any:
    """The schema with decimals, categories and extension types replaced by plain types."""
    for position, field in enumerate(schema):
        kind = _plain(field.type)
        if kind != field.type:
            schema = schema.set(position, field.with_type(kind))
    return schema


def _plain(kind: Any) -> Any:
    pyarrow, types = require("pyarrow", extra="files"), require("pyarrow.types", extra="files")
    if isinstance(kind, pyarrow.BaseExtensionType):
        return _plain(kind.storage_type)
    if types.is_decimal(kind):
        return pyarrow.float64()
    if types.is_dictionary(kind) and types.is_primitive(kind.value_type):
        return kind.value_type
    return kind


def plain_table(table: Any, schema: Any) -> Any:
    """The table, cast to the types of the schema."""
    pyarrow = require("pyarrow", extra="files")
    for position, field in enumerate(table.schema):
        wanted = schema.field(field.name)
        if field.type != wanted.type:
            column = table.column(position)
            if isinstance(field.type, pyarrow.BaseExtensionType):
                column = pyarrow.chunked_array([chunk.storage for chunk in column.chunks], field.type.storage_type)
            table = table.set_column(position, wanted, column.cast(wanted.type))
    return table


def _reported(columns: Sequence[str]) -> str:
    return columns[0] if len(columns) == 1 else f"{columns[0]} and {len(columns)} columns" if columns else ""
