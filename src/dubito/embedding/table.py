"""A table of texts or pictures as a source of items: its shards have ids, the items and all other columns."""

import hashlib
import json
import math
import os
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import Any, Literal

import numpy as np

from dubito.embedding.embedder import Takes
from dubito.embedding.source import SHARD_BYTES, Content, LeftOut, ShardItems
from dubito.errors import PASS, InvalidArgument, InvalidData, MissingFile, keyword, named
from dubito.experiments.images import SUFFIXES
from dubito.io.cells import CODE, as_number, is_missing, plain_cell
from dubito.io.formats.arrow import ARROW, read_sizes
from dubito.io.formats.delimited import Text, detect_encoding, open_rows
from dubito.io.formats.json_rows import unique_names
from dubito.io.formats.parquet import COLUMN
from dubito.io.limits import GZIP_SUFFIX, reserve_memory
from dubito.io.opening import open_source
from dubito.io.source import Source, did_you_mean, reading, suffix_of
from dubito.matrix import AnyArray
from dubito.registry import require
from dubito.request.columns import IDS, find_name, non_features
from dubito.request.ids import Ids
from dubito.request.labels import PLAIN_INTEGER

# Tables are read a block of rows at a time; every block is an Arrow table of the same columns (extra ``files``).
#
# Parquet and Arrow files have types. In other tables, a first pass over all cells finds the type of each column, which
# is numbers if all of its cells are numbers, else text.

DELIMITED = {".csv": ",", ".tsv": "\t"}
JSON_LINES = ".jsonl"
BLOCK_ROWS = 1024
LARGEST_WHOLE = 2**63

Cells = dict[str, list[object]]
"""Some rows of every column."""


@dataclass(frozen=True, slots=True)
class TableRows:
    """A table that can be read several times, as blocks of rows."""

    path: str
    schema: Any
    """The Arrow schema."""
    n_rows: int
    blocks: Callable[[], Iterator[Any]]
    """Arrow tables, in order."""
    notes: tuple[str, ...] = ()
    classes: Mapping[str, Sequence[str]] | None = None
    """The class names of columns that hold class numbers."""
    broken: Mapping[int, LeftOut] = field(default_factory=dict)
    """Rows that could not be read and are in no block, by row number."""


def read_cells(path: str) -> TableRows:
    """Read a table whose cells have no types: CSV, TSV, JSON, JSON lines, workbooks."""
    suffix = suffix_of(path).removesuffix(GZIP_SUFFIX)
    if suffix in DELIMITED:
        return _read_delimited(path, DELIMITED[suffix])
    if suffix == JSON_LINES:
        return _read_json_lines(detect_encoding(path))
    source = open_source(path)
    if not source.is_table:
        raise InvalidData(f"{path} holds no table", hint="a table of texts or pictures has named columns.")
    return _with_types(path, lambda: _source_cells(source), source.notes, _json_kind)


def _read_delimited(path: str, delimiter: str) -> TableRows:
    table, _, notes = open_rows(path, delimiter)

    def cells() -> Iterator[Cells]:
        with reading(path):
            for block in table.blocks():
                yield {name: [plain_cell(row[i]) for _, row in block] for name, i in table.positions.items()}

    comma = table.dialect.decimal_comma
    return _with_types(path, cells, notes, lambda cell: _text_kind(cell, comma), comma)


def _read_json_lines(text: Text) -> TableRows:
    """JSON lines; broken ones are left out, unless all are broken."""
    broken: dict[int, LeftOut] = {}
    if next(_json_lines(text, broken), None) is None and broken:
        first = broken[0]
        raise InvalidData(f"{first.id} of {text.path} {first.problem}", hint="every line must be an object of JSON.")
    return replace(_with_types(text.path, lambda: _json_lines(text, broken), text.notes, _json_kind), broken=broken)


def _json_lines(text: Text, broken: dict[int, LeftOut]) -> Iterator[Cells]:
    """Yield blocks of lines; a broken line goes to ``broken`` instead."""
    rows: list[dict[str, object]] = []
    with reading(text.path), text.open() as file:
        filled = ((number, line) for number, line in enumerate(file, start=1) if line.strip())
        for i, (number, line) in enumerate(filled):
            row = _parsed(line)
            if isinstance(row, str):
                broken[i] = LeftOut(f"line {number}", row)
                continue
            rows.append(row)
            if len(rows) == BLOCK_ROWS:
                yield _by_column(rows)
                rows = []
    if rows:
        yield _by_column(rows)


def _parsed(line: str) -> dict[str, object] | str:
    """The object on a line, or a description of the problem."""
    try:
        row = json.loads(line.removeprefix("\ufeff"), object_pairs_hook=unique_names)
    except (ValueError, RecursionError) as error:
        return f"is not valid JSON ({error})"
    return row if isinstance(row, dict) and row else "is not an object with at least one name"


def _by_column(rows: list[dict[str, object]]) -> Cells:
    names = dict.fromkeys(name for row in rows for name in row)
    return {name: [row.get(name) for row in rows] for name in names}


def _source_cells(source: Source) -> Iterator[Cells]:
    columns = {name: entry.values() for name, entry in source.entries.items() if entry.ndim == 1}
    n_rows = len(next(iter(columns.values()), ()))
    for start in range(0, n_rows, BLOCK_ROWS):
        yield {name: list(values[start : start + BLOCK_ROWS]) for name, values in columns.items()}


def _text_kind(cell: object, decimal_comma: bool) -> str:
    """The kind of a CSV cell: ``nothing``, ``whole``, ``number`` or ``text``."""
    text = str(cell)
    if is_missing(text):
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


def _with_types(
    path: str,
    cells: Callable[[], Iterator[Cells]],
    notes: Sequence[str],
    kind_of: Callable[[object], str],
    decimal_comma: bool = False,
) -> TableRows:
    """The table with a type for every column, from a first pass over all cells."""
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
    """A cell in the type of its column; other values in a column of text become JSON."""
    if cell is None or (isinstance(cell, float) and math.isnan(cell)):
        return None
    if str(kind) == "string":
        if isinstance(cell, str):
            return cell.encode("utf-8", "replace").decode()
        return json.dumps(cell.item() if isinstance(cell, np.generic) else cell, ensure_ascii=False, default=str)
    if isinstance(cell, str):
        if is_missing(cell):
            return None
        return int(cell) if str(kind) == "int64" else as_number(cell, decimal_comma)
    return cell.item() if isinstance(cell, np.generic) else cell


# The column of a table that is embedded, and the column of ids: as given, by their names, or by their values.

TEXTS = ("text", "texts", "sentence", "document", "content", "review", "comment", "question", "message", "utterance")
PICTURES = ("image", "images", "img", "picture", "photo", "image_path", "path", "file", "file_name", "filename")
"""Conventional names, in order of preference."""
SAMPLED = 100
"""Rows that are inspected to find out what a column holds."""

Holds = Literal["texts", "paths", "bytes", "records"]
"""Texts, paths of pictures, bytes of pictures, or Hugging Face's records of bytes and path."""


@dataclass(frozen=True, slots=True)
class Chosen:
    content: str
    holds: Holds
    id: str | None


def choose_columns(rows: TableRows, text: str | None, image: str | None, id_column: str | None) -> Chosen:
    """The columns to use; raises if one is missing, has the wrong type or is ambiguous."""
    if text is not None and image is not None:
        raise InvalidArgument(f"{named('text')} and {named('image')} are both given", hint=f"{PASS} one of them.")
    names = list(rows.schema.names)
    for argument, name in (("text", text), ("image", image), ("id_column", id_column)):
        if name is not None and name not in names:
            raise MissingFile(
                f"{rows.path} has no column {name!r}",
                argument=None,
                hint=f"{did_you_mean(name, names)} {PASS} {named(argument)} with one of {', '.join(names)}.".strip(),
            )
    ids = id_column or find_name(names, IDS)
    sample = next(iter(rows.blocks())).slice(0, SAMPLED)
    kinds = {name: holds(sample, name) for name in names if name != ids}
    if text is not None:
        return Chosen(text, "texts", ids) if _holds_text(rows.schema.field(text).type) else _refuse(rows, "text", text)
    if image is not None:
        found = kinds.get(image) or holds(sample, image)
        found = "paths" if found == "texts" else found
        return _refuse(rows, "image", image) if found is None else Chosen(image, found, ids)
    return _found(rows, kinds, ids)


def _found(rows: TableRows, kinds: dict[str, Holds | None], ids: str | None) -> Chosen:
    """The columns with conventional names, or else the only possible ones."""
    free = [name for name in kinds if name not in non_features(list(kinds))]
    pictures = [name for name in free if kinds[name] in ("paths", "bytes", "records")]
    texts = [name for name in free if kinds[name] == "texts"]
    picture = find_name(pictures, PICTURES) or (pictures[0] if len(pictures) == 1 else None)
    written = find_name(texts, TEXTS) or (texts[0] if len(texts) == 1 and not pictures else None)
    if picture is not None and written is None:
        kind = kinds[picture]
        assert kind is not None
        return Chosen(picture, kind, ids)
    if written is not None and picture is None:
        return Chosen(written, "texts", ids)
    both = picture is not None
    what = f"both pictures ({picture}) and texts ({written})" if both else "no single column that could be the texts"
    raise MissingFile(
        f"{rows.path} has {what}",
        hint=f"name the column to embed with {keyword('text')} or {keyword('image')}; it has {listed(rows)}.",
    )


def listed(rows: TableRows) -> str:
    return ", ".join(f"{field.name} ({field.type})" for field in rows.schema)


def holds(sample: Any, name: str) -> Holds | None:
    """The kind of contents in a column, by its type and its first values; None if neither pictures nor texts."""
    types, kind = require("pyarrow.types", extra="files"), sample.schema.field(name).type
    if types.is_binary(kind) or types.is_large_binary(kind):
        return "bytes"
    if types.is_struct(kind):
        return "records" if kind.get_field_index("bytes") >= 0 else None
    if not _holds_text(kind):
        return None
    return "paths" if are_paths(sample.column(name).to_pylist()) else "texts"


def are_paths(values: Sequence[str | None]) -> bool:
    """Whether most values end in the suffix of a picture file.

    Examples
    --------
    >>> are_paths(["a.JPG", "b.png", None]), are_paths(["a cat", "b.png"])
    (True, False)
    """
    filled = [value for value in values if value]
    return sum(value.lower().endswith(SUFFIXES) for value in filled) * 2 > len(filled)


def _holds_text(kind: Any) -> bool:
    types = require("pyarrow.types", extra="files")
    return bool(types.is_string(kind) or types.is_large_string(kind) or types.is_string_view(kind))


def _refuse(rows: TableRows, argument: str, name: str) -> Chosen:
    kind = rows.schema.field(name).type
    what = "texts" if argument == "text" else "pictures, as bytes or as paths of files"
    raise InvalidArgument(
        f"names a column of {rows.path} that holds {kind}, not {what}",
        argument=argument,
        value=name,
        hint=f"it has {listed(rows)}.",
    )


SHOWN = {"texts": "text", "paths": "path", "bytes": "image", "records": "image"}


@dataclass(frozen=True)
class PoolTable:
    """A table as a source of items, with the columns of items and ids."""

    rows: TableRows
    chosen: Chosen
    split: str | None = None
    """How texts were split into rows."""

    @property
    def left_out(self) -> tuple[LeftOut, ...]:
        return tuple(self.rows.broken.values())

    @property
    def path(self) -> str:
        return self.rows.path

    @property
    def takes(self) -> Takes:
        return "texts" if self.chosen.holds == "texts" else "pictures"

    @property
    def shown(self) -> str:
        return SHOWN[self.chosen.holds]

    @property
    def n_items(self) -> int:
        return self.rows.n_rows

    @property
    def has_ids(self) -> bool:
        return self.chosen.id is not None

    @property
    def columns(self) -> dict[str, str]:
        split = {} if self.split is None else {"split": self.split}
        return {"column": self.chosen.content, "id_column": self.chosen.id or "the number of the row", **split}

    @property
    def notes(self) -> tuple[str, ...]:
        ids = "ids are row numbers" if self.chosen.id is None else f"ids are in {self.chosen.id!r}"
        renamed = [f"{old!r} is called {new!r}" for old, new in self._names.items() if old != new]
        described = f"{self.path}: {self.takes} are in {self.chosen.content!r}, {ids}"
        return (*self.rows.notes, f"{described}{'; in the pool ' + ', '.join(renamed) if renamed else ''}.")

    @cached_property
    def fingerprint(self) -> str:
        """Names, sizes and times of the table's files."""
        paths = [self.path]
        if os.path.isdir(self.path):
            paths = sorted(os.path.join(self.path, name) for name in os.listdir(self.path))
        digest = hashlib.blake2b(digest_size=16)
        for path in paths:
            with reading(path):
                found = os.stat(path)
            facts = f"{os.path.basename(path)}\0{found.st_size} {found.st_mtime_ns}\n"
            digest.update(facts.encode("utf-8", "surrogateescape"))
        return digest.hexdigest()

    @cached_property
    def _names(self) -> dict[str, str]:
        """The name in the pool of every other column: ``_source`` is added to names with another meaning there."""
        taken = {"id", COLUMN, self.shown}
        names: dict[str, str] = {}
        for name in self.rows.schema.names:
            if name in (self.chosen.content, self.chosen.id):
                continue
            new = name
            while new in taken or (new != name and new in self.rows.schema.names):
                new += "_source"
            taken.add(new)
            names[name] = new
        return names

    def check_ids(self) -> None:
        if self.chosen.id is None:
            return
        values = [each for block in self.rows.blocks() for each in block.column(self.chosen.id).to_pylist()]
        array = np.empty(len(values), dtype=np.object_)
        array[:] = values
        ids = Ids(f"column {self.chosen.id!r} of {self.path}", array)
        if ids.repeated is not None:
            first, second = ids.repeated
            problem = f"repeats the id {ids.shown([first])} (rows {first} and {second})"
            raise ids.error(problem, f"each must occur once, or {PASS} {named('id_column')} with another column.")

    def shards(self, n_rows: int) -> Iterator[ShardItems]:
        """Yield up to ``n_rows`` rows at a time, fewer if they are large."""
        first = 0
        # Blocks, with the size in bytes of the content of each row.
        sized = ((block, [len(each or "") for each in self._contents(block)]) for block in self.rows.blocks())
        for part in cut(sized, n_rows, SHARD_BYTES):
            pyarrow = require("pyarrow", extra="files")
            columns = {"id": self._ids(pyarrow, part, first), self.shown: self._shown(pyarrow, part)}
            columns |= {new: self._named(pyarrow, part, old) for old, new in self._names.items()}
            yield ShardItems(self._contents(part), pyarrow.table(columns))
            first += len(part)

    def contents(self) -> Iterator[Content]:
        for block in self.rows.blocks():
            yield from self._contents(block)

    def _contents(self, block: Any) -> list[Content]:
        values = block.column(self.chosen.content).to_pylist()
        if self.chosen.holds == "records":
            values = [None if each is None else each["bytes"] or each.get("path") for each in values]
        if self.chosen.holds in ("texts", "bytes"):
            return list(values)
        return [os.path.join(self._root, each) if isinstance(each, str) and each else each or None for each in values]

    @property
    def _root(self) -> str:
        return self.path if os.path.isdir(self.path) else os.path.dirname(self.path)

    def _ids(self, pyarrow: Any, part: Any, first: int) -> Any:
        if self.chosen.id is None:
            return pyarrow.array(self.row_numbers[first : first + len(part)])
        column = part.column(self.chosen.id)
        return column.cast(pyarrow.int64() if pyarrow.types.is_integer(column.type) else pyarrow.string())

    @cached_property
    def row_numbers(self) -> AnyArray:
        """Row numbers, which count broken rows as well."""
        n_all = self.rows.n_rows + len(self.rows.broken)
        return np.delete(np.arange(n_all), list(self.rows.broken)) if self.rows.broken else np.arange(n_all)

    def _shown(self, pyarrow: Any, part: Any) -> Any:
        column = part.column(self.chosen.content)
        if self.chosen.holds != "records":
            return column
        return pyarrow.chunked_array([pyarrow.array([each and each["bytes"] for each in column.to_pylist()], "binary")])

    def _named(self, pyarrow: Any, part: Any, name: str) -> Any:
        """A column, with class names instead of class numbers, and null instead of -1."""
        names = (self.rows.classes or {}).get(name)
        column = part.column(name)
        if names is None or not pyarrow.types.is_integer(column.type):
            return column
        known = [names[each] if each is not None and 0 <= each < len(names) else None for each in column.to_pylist()]
        return pyarrow.array(known, pyarrow.string())


def cut(blocks: Iterator[tuple[Any, list[int]]], most_rows: int, most_bytes: int) -> Iterator[Any]:
    """Divide blocks of any length into tables of at most so many rows and bytes."""
    pyarrow = require("pyarrow", extra="files")
    pending: list[Any] = []
    n_rows = n_bytes = 0
    for block, sizes in blocks:
        start = 0
        for row, size in enumerate(sizes):
            if n_rows and (n_rows == most_rows or n_bytes + size > most_bytes):
                yield pyarrow.concat_tables([*pending, block.slice(start, row - start)])
                pending, start, n_rows, n_bytes = [], row, 0, 0
            n_rows, n_bytes = n_rows + 1, n_bytes + size
        pending.append(block.slice(start))
    if n_rows:
        yield pyarrow.concat_tables(pending)


# Arrow tables: Parquet, Feather, and data sets that ``save_to_disk`` of Hugging Face's ``datasets`` wrote to a folder.
#
# Types are kept, except that categories and extension types are replaced by the types of their values. Nothing is
# unpickled, and the package ``datasets`` is not needed.

STATE, INFO, SPLITS = "state.json", "dataset_info.json", "dataset_dict.json"


def read_arrow(path: str) -> TableRows:
    is_parquet = suffix_of(path) not in ARROW
    pyarrow = require("pyarrow", extra="files")
    with reading(path):
        if is_parquet:
            with require("pyarrow.parquet", extra="files").ParquetFile(path) as file:
                schema, n_rows = file.schema_arrow, file.metadata.num_rows
        else:
            with pyarrow.memory_map(path) as mapped:
                schema, n_rows = pyarrow.ipc.open_file(mapped).schema, sum(n for n, _ in _batch_sizes(mapped))
    plain = castable_schema(schema)
    blocks = _parquet_blocks if is_parquet else _feather_blocks
    return TableRows(path, plain, n_rows, lambda: blocks(path, plain))


def _batch_sizes(mapped: Any) -> list[tuple[int, int]]:
    """The rows of each batch, and the bytes that it and all dictionaries unpack to."""
    mapped.seek(0)
    batches, dictionaries = read_sizes(memoryview(mapped.read_buffer()))
    return [(batch.n_rows, dictionaries + sum(batch.sizes)) for batch in batches]


def _parquet_blocks(path: str, schema: Any) -> Iterator[Any]:
    """Yield row groups, each of which counts toward the limit on inputs."""
    with reading(path):
        parquet = require("pyarrow.parquet", extra="files")
        with parquet.ParquetFile(path, page_checksum_verification=True) as file:
            for group in range(file.metadata.num_row_groups):
                reserve_memory(path, f"group {group}", file.metadata.row_group(group).total_byte_size)
                yield file.read_row_group(group).cast(schema)


def _feather_blocks(path: str, schema: Any) -> Iterator[Any]:
    pyarrow = require("pyarrow", extra="files")
    with reading(path), pyarrow.memory_map(path) as mapped:
        file = pyarrow.ipc.open_file(mapped)
        for number, (_, n_bytes) in enumerate(_batch_sizes(mapped)):
            reserve_memory(path, "a batch", n_bytes)
            batch = file.get_batch(number)
            batch.validate(full=True)
            yield pyarrow.Table.from_batches([batch]).cast(schema)


def castable_schema(schema: Any) -> Any:
    """The schema without categories, extension types and metadata, to which every block can be cast."""
    pyarrow = require("pyarrow", extra="files")

    def plain(kind: Any) -> Any:
        if isinstance(kind, pyarrow.BaseExtensionType):
            return plain(kind.storage_type)
        return kind.value_type if pyarrow.types.is_dictionary(kind) else kind

    return pyarrow.schema([pyarrow.field(field.name, plain(field.type)) for field in schema])


def is_saved(path: str) -> bool:
    """Whether a folder is a data set of Hugging Face, or several splits of one."""
    has = {name for name in (STATE, INFO, SPLITS) if os.path.isfile(os.path.join(path, name))}
    return SPLITS in has or {STATE, INFO} <= has


def read_saved(path: str) -> TableRows:
    """A data set that ``save_to_disk`` wrote; one split of several must be named."""
    if os.path.isfile(os.path.join(path, SPLITS)):
        splits = _read_json(os.path.join(path, SPLITS)).get("splits")
        names = [os.path.join(path, str(name)) for name in splits] if isinstance(splits, list) else []
        raise InvalidArgument(f"{path} holds {len(names)} splits", hint=f"name one: {', '.join(names)}.")
    state, info = _read_json(os.path.join(path, STATE)), _read_json(os.path.join(path, INFO))
    if state.get("_indices_files") or state.get("_indices_data_files"):
        raise InvalidData(
            f"{path} stores the order of its rows separately", hint="call flatten_indices() before saving it."
        )
    files = [os.path.join(path, os.path.basename(str(each["filename"]))) for each in _listed(state, "_data_files")]
    if not files:
        raise InvalidData(f"{path} names no files of data in {STATE}.")
    schema, n_rows = None, 0
    for file in files:
        for batch in _stream(file):
            schema, n_rows = schema or castable_schema(batch.schema), n_rows + batch.num_rows
    if schema is None or not n_rows:
        raise InvalidData(f"{path} holds no rows.")
    from_batches = require("pyarrow", extra="files").Table.from_batches

    def blocks() -> Iterator[Any]:
        return (from_batches([batch]).cast(schema) for file in files for batch in _stream(file))

    return TableRows(path, schema, n_rows, blocks, classes=_class_names(info))


def _stream(path: str) -> Iterator[Any]:
    """The record batches of an Arrow stream, validated."""
    pyarrow = require("pyarrow", extra="files")
    with reading(path), pyarrow.memory_map(path) as mapped:
        for batch in pyarrow.ipc.open_stream(mapped):
            batch.validate(full=True)
            yield batch


def _read_json(path: str) -> Mapping[str, Any]:
    with reading(path), open(path, encoding="utf-8") as file:
        content = json.load(file)
        if not isinstance(content, dict):
            raise ValueError("it holds no object")
        return content


def _listed(record: Mapping[str, Any], name: str) -> list[Mapping[str, Any]]:
    found = record.get(name)
    return [each for each in found if isinstance(each, dict) and "filename" in each] if isinstance(found, list) else []


def _class_names(info: Mapping[str, Any]) -> dict[str, Sequence[str]]:
    """The class names of the columns that hold class numbers."""
    features = info.get("features")
    found = features.items() if isinstance(features, dict) else ()
    return {
        str(name): [str(each) for each in kind["names"]]
        for name, kind in found
        if isinstance(kind, dict) and kind.get("_type") == "ClassLabel" and isinstance(kind.get("names"), list)
    }
