"""Parquet and Arrow (Feather) files behind one face, read within the bound and checked (extra ``files``).

Decimals, categories of numbers and extension types are handed on as what they are made of.
"""

import struct
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property
from types import TracebackType
from typing import Any, NamedTuple, Self

import numpy as np

from dubito.errors import InvalidData
from dubito.io.limits import hold
from dubito.io.source import suffix_of
from dubito.matrix import IntArray
from dubito.registry import require

# What the batches of an Arrow file unpack to, by its headers alone.
#
# An Arrow file ends with a footer that says where its batches stand; the head of each says where its buffers stand,
# and every compressed buffer begins with the number of bytes it unpacks to. All heads are FlatBuffers, of which a few
# tables and vectors are followed here. A damaged file leads to places that do not exist: that is a ValueError or a
# struct.error, for `reading` to explain.

MAGIC, END = b"ARROW1", 10
"""How the file ends: the length of the footer, and this."""
DICTIONARIES, BATCHES = 2, 3
"""Fields of the footer, of blocks each: offset, length of the head, length of the body."""
HEADER, HEADER_DATA = 2, 1
"""Fields of a message and of a dictionary: the batch in it."""
LENGTH, BUFFERS, COMPRESSION = 0, 2, 3
"""Fields of a batch."""
AS_IT_IS = -1
"""For the length of a compressed buffer: it is not compressed after all."""


class Batch(NamedTuple):
    """What a batch becomes."""

    n_rows: int
    sizes: list[int]
    """Bytes of its buffers, in their order."""


def read_sizes(content: memoryview) -> tuple[list[Batch], int]:
    """The batches of rows in an Arrow file, and the bytes of all its dictionaries."""
    if bytes(content[-len(MAGIC) :]) != MAGIC:
        raise ValueError("it does not end as an Arrow file does")
    (length,) = struct.unpack_from("<i", content, len(content) - END)
    if not 0 < length <= len(content) - END:
        raise ValueError(f"its footer is said to have {length} bytes")
    footer = Heads(content[len(content) - END - length : len(content) - END]).root()
    dictionaries = [_batch(content, *block, is_dictionary=True) for block in _blocks(footer, DICTIONARIES)]
    batches = [_batch(content, *block, is_dictionary=False) for block in _blocks(footer, BATCHES)]
    return batches, sum(sum(each.sizes) for each in dictionaries)


def size_of(batch: Batch, n_buffers: Sequence[int], wanted: Sequence[bool]) -> int:
    """Bytes of the columns that are wanted, which have so many buffers each; of all where that does not add up.

    Examples
    --------
    >>> size_of(Batch(1, [0, 8, 0, 80]), [2, 2], [False, True]), size_of(Batch(1, [0, 8, 80]), [2, 2], [False, True])
    (80, 88)
    """
    if sum(n_buffers) != len(batch.sizes):
        return sum(batch.sizes)
    ends = np.cumsum([0, *n_buffers]).tolist()
    return sum(sum(batch.sizes[ends[place] : ends[place + 1]]) for place, is_wanted in enumerate(wanted) if is_wanted)


@dataclass(frozen=True, slots=True)
class Heads:
    """Tables of FlatBuffers in a piece of a file."""

    content: memoryview

    def at(self, form: str, place: int) -> int:
        """A number at a place, which must be within."""
        if place < 0:
            raise ValueError("a head of it points outside")
        number: int = struct.unpack_from(form, self.content, place)[0]
        return number

    def root(self) -> "Head":
        """The outermost table."""
        return Head(self, self.at("<I", 0))


@dataclass(frozen=True, slots=True)
class Head:
    """One table."""

    heads: Heads
    place: int

    def field(self, number: int) -> int | None:
        """Where a field stands; None where it has its default."""
        names = self.place - self.heads.at("<i", self.place)
        if 4 + 2 * number + 2 > self.heads.at("<H", names):
            return None
        offset = self.heads.at("<H", names + 4 + 2 * number)
        return self.place + offset if offset else None

    def table(self, number: int) -> "Head | None":
        """A field that is a table."""
        place = self.field(number)
        return None if place is None else Head(self.heads, place + self.heads.at("<I", place))

    def number(self, number: int) -> int:
        """A field of 64 bits; 0 where it is left out."""
        place = self.field(number)
        return 0 if place is None else self.heads.at("<q", place)

    def records(self, number: int, width: int) -> IntArray:
        """A field that is a vector of records of so many numbers of 64 bits."""
        place = self.field(number)
        if place is None:
            return np.empty((0, width), dtype=np.int64)
        start = place + self.heads.at("<I", place)
        count = self.heads.at("<I", start)
        values: IntArray = np.frombuffer(self.heads.content, "<i8", count * width, start + 4)
        return values.reshape(count, width)


def _blocks(footer: Head, number: int) -> Iterator[tuple[int, int]]:
    """Where each message of the footer begins, and how long its head is."""
    for offset, head, _ in footer.records(number, 3).tolist():
        yield offset, head & 0xFFFFFFFF  # 32 bits, and as many of padding.


def _batch(content: memoryview, offset: int, length: int, *, is_dictionary: bool) -> Batch:
    if not 0 <= offset <= offset + length <= len(content):
        raise ValueError("its footer points outside")
    (mark,) = struct.unpack_from("<i", content, offset)
    before = 8 if mark == -1 else 4  # Older files have no mark before the length.
    table = Heads(content[offset + before : offset + length]).root().table(HEADER)
    table = table.table(HEADER_DATA) if table is not None and is_dictionary else table
    if table is None:
        raise ValueError("a message of it is empty")
    body = content[offset + length :]
    is_packed = table.table(COMPRESSION) is not None
    sizes = [_size(body, place, n_bytes, is_packed) for place, n_bytes in table.records(BUFFERS, 2).tolist()]
    return Batch(table.number(LENGTH), sizes)


def _size(body: memoryview, place: int, n_bytes: int, is_packed: bool) -> int:
    if n_bytes == 0:
        return 0
    if place < 0 or n_bytes < 0 or place + n_bytes > len(body):
        raise ValueError("a buffer of it lies outside")
    if not is_packed:
        return n_bytes
    (unpacked,) = struct.unpack_from("<q", body, place)
    if unpacked < AS_IT_IS:
        raise ValueError(f"a buffer of it is said to unpack to {unpacked} bytes")
    return n_bytes if unpacked == AS_IT_IS else unpacked


ARROW = (".feather", ".arrow")
SAMPLED_ROWS, MOST_SAMPLED = 20, 1 << 26
"""Rows by which a column of text is judged, and the bytes beyond which it is taken as it is."""
BYTES = {"BOOLEAN": 1, "INT32": 4, "FLOAT": 4, "INT64": 8, "DOUBLE": 8, "INT96": 8}
"""Memory of a value of each kind of Parquet; of any other kind at least an offset and a length."""


class StoredRows(NamedTuple):
    """Rows that are stored together."""

    num_rows: int


class Groups(NamedTuple):
    """The batches of an Arrow file, in the words of Parquet."""

    groups: list[StoredRows]

    @property
    def num_rows(self) -> int:
        """All of them."""
        return sum(group.num_rows for group in self.groups)

    @property
    def num_row_groups(self) -> int:
        """How many batches there are."""
        return len(self.groups)

    def row_group(self, place: int) -> StoredRows:
        """One of them."""
        return self.groups[place]


def opened(path: str) -> "ParquetFile | ArrowFile":
    """The file, to be closed; its suffix tells the kind."""
    return ArrowFile(path) if suffix_of(path) in ARROW else ParquetFile(path)


class ParquetFile:
    """A Parquet file; where it has checksums they are compared."""

    def __init__(self, path: str) -> None:
        self.path = path
        self.file = require("pyarrow.parquet", extra="files").ParquetFile(path, page_checksum_verification=True)
        self.metadata = self.file.metadata
        self.schema_arrow = plain_schema(self.file.schema_arrow)

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.file.close()

    def read(self, columns: Sequence[str]) -> Any:
        """Columns as a table."""
        return self.read_row_groups(range(self.metadata.num_row_groups), columns)

    def read_row_groups(self, groups: Sequence[int], columns: Sequence[str]) -> Any:
        """Columns of some groups of rows as a table."""
        hold(self.path, _reported(columns), self._size(columns))
        table = self.file.read_row_groups(list(groups), columns=list(columns))
        return plain_table(table, self.schema_arrow)

    def first_texts(self, name: str) -> list[Any]:
        """The first few values of a column."""
        if not self.metadata.num_row_groups or self._size([name]) > MOST_SAMPLED:
            return []
        # Not by batches: one that is left before its end may still read when the file is closed.
        group = self.file.read_row_group(0, columns=[name])
        return list(group.column(0).slice(0, SAMPLED_ROWS).to_pylist())

    def _size(self, columns: Sequence[str]) -> int:
        """Memory of whole columns, by what the file says of them: a value repeated a million times is stored once."""
        paths = [self.metadata.schema.column(place).path for place in range(self.metadata.num_columns)]
        wanted = set(columns)
        places = [place for place, path in enumerate(paths) if path in wanted or path.partition(".")[0] in wanted]
        total = 0
        for group in range(self.metadata.num_row_groups):
            self._try(group, columns)
            for column in map(self.metadata.row_group(group).column, places):
                total += max(column.num_values * BYTES.get(column.physical_type, 8), column.total_uncompressed_size)
        return total

    def _try(self, group: int, columns: Sequence[str]) -> None:
        """Read a row. pyarrow 26 ends the process where it is asked for sizes that are damaged; here it raises."""
        rows = self.file.iter_batches(batch_size=1, row_groups=[group], columns=list(columns), use_threads=False)
        next(rows, None)
        rows.close()


class ArrowFile:
    """An Arrow file, memory-mapped where it is not compressed; every batch is checked before it is used."""

    def __init__(self, path: str) -> None:
        pyarrow, self.ipc = require("pyarrow", extra="files"), require("pyarrow.ipc", extra="files")
        self.path = path
        self.map = pyarrow.memory_map(path)
        if self.map.read(4) == b"FEA1":
            raise InvalidData(f"{path} is Feather of the first version", hint="write it again with pyarrow or pandas.")
        self.map.seek(0)
        self.names: list[str] = self.ipc.open_file(self.map).schema.names
        self.schema_arrow = plain_schema(self.ipc.open_file(self.map).schema)

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.map.close()

    @cached_property
    def sizes(self) -> tuple[list[Batch], int]:
        """What each batch unpacks to, and the dictionaries; nothing is unpacked for it."""
        self.map.seek(0)
        return read_sizes(memoryview(self.map.read_buffer()))

    @cached_property
    def metadata(self) -> Groups:
        """How many rows each batch has."""
        return Groups([StoredRows(batch.n_rows) for batch in self.sizes[0]])

    def read(self, columns: Sequence[str]) -> Any:
        """Columns as a table."""
        return self.read_row_groups(range(self.metadata.num_row_groups), columns)

    def read_row_groups(self, groups: Sequence[int], columns: Sequence[str]) -> Any:
        """Columns of some batches as a table."""
        hold(self.path, _reported(columns), self.size(self.sizes[0], columns))
        return self._table(groups, columns)

    def first_texts(self, name: str) -> list[Any]:
        """The first few values of a column."""
        first = self.sizes[0][:1]
        if not first or self.size(first, [name]) > MOST_SAMPLED:
            return []
        return list(self._table([0], [name]).column(0).slice(0, SAMPLED_ROWS).to_pylist())

    def _table(self, groups: Sequence[int], columns: Sequence[str]) -> Any:
        pyarrow, reader = require("pyarrow", extra="files"), self._reader(columns)
        batches = []
        for place in groups:
            batches.append(reader.get_batch(place))
            batches[-1].validate(full=True)  # Offsets in a damaged file lead anywhere.
        table = pyarrow.Table.from_batches(batches, reader.schema if not batches else batches[0].schema)
        return plain_table(table, self.schema_arrow)

    def size(self, batches: Sequence[Batch], columns: Sequence[str]) -> int:
        """Memory of columns in some batches and of all dictionaries, by what the file says of them."""
        n_buffers = [_n_buffers(field.type) for field in self.ipc.open_file(self.map).schema]
        wanted = [name in columns for name in self.names]
        return self.sizes[1] + sum(size_of(batch, n_buffers, wanted) for batch in batches)

    def _reader(self, columns: Sequence[str]) -> Any:
        places = [self.names.index(name) for name in columns] if len(columns) < len(self.names) else []
        options = self.ipc.IpcReadOptions(included_fields=sorted(places))
        return self.ipc.open_file(self.map, options=options)


def _n_buffers(kind: Any) -> int:
    """How many pieces of memory a column has."""
    pyarrow = require("pyarrow", extra="files")
    storage = kind.storage_type if isinstance(kind, pyarrow.BaseExtensionType) else kind
    return len(pyarrow.array([], storage).buffers())


def plain_schema(schema: Any) -> Any:
    """The schema with each type as what it is made of."""
    for place, field in enumerate(schema):
        kind = _plain(field.type)
        if kind != field.type:
            schema = schema.set(place, field.with_type(kind))
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
    """The table with its columns of the types that the schema says."""
    pyarrow = require("pyarrow", extra="files")
    for place, field in enumerate(table.schema):
        wanted = schema.field(field.name)
        if field.type != wanted.type:
            column = table.column(place)
            if isinstance(field.type, pyarrow.BaseExtensionType):
                column = pyarrow.chunked_array([chunk.storage for chunk in column.chunks], field.type.storage_type)
            table = table.set_column(place, wanted, column.cast(wanted.type))
    return table


def _reported(columns: Sequence[str]) -> str:
    return columns[0] if len(columns) == 1 else f"{columns[0]} and {len(columns)} columns" if columns else ""
