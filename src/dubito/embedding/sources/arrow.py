"""Tables of Arrow's: Parquet, Feather, and data sets that Hugging Face's ``save_to_disk`` left in a folder.

Types are kept, but for categories and extensions, which become what they are made of. Nothing is unpickled, and the
package of that name is not needed.
"""

import json
import os
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from dubito.embedding.sources.rows import TableRows
from dubito.errors import InvalidArgument, InvalidData
from dubito.files.entries import reading, suffix_of
from dubito.files.formats.arrow import ARROW
from dubito.files.limits import hold
from dubito.optional import require

STATE, INFO, SPLITS = "state.json", "dataset_info.json", "dataset_dict.json"


def read_arrow(path: str) -> TableRows:
    """A Parquet or Feather file."""
    is_parquet = suffix_of(path) not in ARROW
    pyarrow = require("pyarrow", extra="files")
    with reading(path):
        if is_parquet:
            with require("pyarrow.parquet", extra="files").ParquetFile(path) as file:
                schema, n_rows = file.schema_arrow, file.metadata.num_rows
        else:
            with pyarrow.memory_map(path) as mapped:
                schema, n_rows = _sized(pyarrow.ipc.open_file(mapped))
    plain = plain_schema(schema)
    blocks = _parquet_blocks if is_parquet else _feather_blocks
    return TableRows(path, plain, n_rows, lambda: blocks(path, plain))


def _sized(file: Any) -> tuple[Any, int]:
    return file.schema, sum(file.get_batch(place).num_rows for place in range(file.num_record_batches))


def _parquet_blocks(path: str, schema: Any) -> Iterator[Any]:
    """A group of rows at a time, each held against the bound on inputs."""
    with reading(path):
        parquet = require("pyarrow.parquet", extra="files")
        with parquet.ParquetFile(path, page_checksum_verification=True) as file:
            for group in range(file.metadata.num_row_groups):
                hold(path, f"group {group}", file.metadata.row_group(group).total_byte_size)
                yield file.read_row_group(group).cast(schema)


def _feather_blocks(path: str, schema: Any) -> Iterator[Any]:
    pyarrow = require("pyarrow", extra="files")
    with reading(path), pyarrow.memory_map(path) as mapped:
        file = pyarrow.ipc.open_file(mapped)
        for place in range(file.num_record_batches):
            batch = file.get_batch(place)
            batch.validate(full=True)
            yield pyarrow.Table.from_batches([batch]).cast(schema)


def plain_schema(schema: Any) -> Any:
    """The schema without categories, extensions and metadata: what every block can be cast to."""
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
        raise InvalidArgument(f"{path} holds {len(names)} splits", mend=f"name one: {', '.join(names)}.")
    state, info = _read_json(os.path.join(path, STATE)), _read_json(os.path.join(path, INFO))
    if state.get("_indices_files") or state.get("_indices_data_files"):
        raise InvalidData(
            f"{path} holds rows in an order of their own beside it", mend="call flatten_indices() before saving it."
        )
    files = [os.path.join(path, os.path.basename(str(each["filename"]))) for each in _listed(state, "_data_files")]
    if not files:
        raise InvalidData(f"{path} names no files of data in {STATE}.")
    schema, n_rows = None, 0
    for file in files:
        for batch in _stream(file):
            schema, n_rows = schema or plain_schema(batch.schema), n_rows + batch.num_rows
    if schema is None or not n_rows:
        raise InvalidData(f"{path} holds no rows.")
    return TableRows(path, schema, n_rows, lambda: _saved_blocks(files, schema), classes=_class_names(info))


def _saved_blocks(files: Sequence[str], schema: Any) -> Iterator[Any]:
    pyarrow = require("pyarrow", extra="files")
    for file in files:
        for batch in _stream(file):
            yield pyarrow.Table.from_batches([batch]).cast(schema)


def _stream(path: str) -> Iterator[Any]:
    """The batches of a stream, as these files are; each is checked before it is used."""
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
    """The names of classes that stand as numbers, by column."""
    features = info.get("features")
    found = features.items() if isinstance(features, dict) else ()
    return {
        str(name): [str(each) for each in kind["names"]]
        for name, kind in found
        if isinstance(kind, dict) and kind.get("_type") == "ClassLabel" and isinstance(kind.get("names"), list)
    }
