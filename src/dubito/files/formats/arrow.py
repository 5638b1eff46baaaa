"""Parquet and Arrow (Feather) files behind one face, read within the bound and checked (extra ``files``).

Decimals, categories of numbers and extension types are handed on as what they are made of.
"""

from collections.abc import Sequence
from functools import cached_property
from types import TracebackType
from typing import Any, NamedTuple, Self

from dubito.errors import InvalidData
from dubito.files.entries import suffix_of
from dubito.files.formats.arrow_sizes import Batch, read_sizes, size_of
from dubito.files.limits import hold
from dubito.optional import require

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
        hold(self.path, _told(columns), self._size(columns))
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
            raise InvalidData(f"{path} is Feather of the first version", mend="write it again with pyarrow or pandas.")
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
        hold(self.path, _told(columns), self.size(self.sizes[0], columns))
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


def _told(columns: Sequence[str]) -> str:
    return columns[0] if len(columns) == 1 else f"{columns[0]} and {len(columns)} columns" if columns else ""
