"""What is labelled so far, from whatever file a person keeps it in.

The round trip: ``picks.csv`` gets a column of labels and comes back as ``--labelled picks.csv``. Rows are found by
their ids where the pool has ids, else by ``index``; rows whose label is still empty do not count.
"""

import csv
import json
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from dubito.checks import check_rows
from dubito.errors import DubitoError, InvalidArgument, InvalidData, MissingFile
from dubito.files import Columns, PoolFile, open_source, read_array, split_spec
from dubito.files.entries import reading, suffix_of
from dubito.matrix import BoolArray, IntArray, Matrix, Rows, Stack, len_of

DELIMITERS = {".csv": ",", ".tsv": "\t"}
ID_NAMES = ("id", "ids")
LABEL_NAMES = ("label", "labels", "class", "classes")

Note = Callable[[str], None]
"""Where a remark goes."""


@dataclass(frozen=True, slots=True)
class Labelled:
    """Everything labelled: rows of the pool, and features of points that are not in it."""

    rows: IntArray
    foreign: tuple[Matrix, ...] = ()

    def joined(self, other: "Labelled") -> "Labelled":
        """Both together, each row once."""
        return Labelled(np.union1d(self.rows, other.rows), self.foreign + other.foreign)

    def argument(self, pool: Matrix) -> object:
        """What `dubito.select` takes as ``labelled``; where features are among it, keep `rows` from being picked."""
        if not self.foreign:
            return self.rows
        parts = [*self.foreign, *([Rows(pool, self.rows)] if len(self.rows) else [])]
        for part in parts:
            if part.shape[1] != pool.shape[1]:
                raise InvalidArgument(
                    f"labelled has {part.shape[1]} features and pool has {pool.shape[1]}; pass features of one kind."
                )
        return parts[0] if len(parts) == 1 else Stack(parts)


NOTHING = Labelled(np.empty(0, dtype=np.int64))


@dataclass(frozen=True, slots=True)
class Table:
    """A small table of names and labels, as it is written in a file."""

    path: str
    header: tuple[str, ...]
    records: Sequence[Mapping[str, object]]

    def column(self, wanted: str | None, usual: Sequence[str]) -> str | None:
        """The column of that name, or the first with a usual name."""
        return next((name for name in (wanted, *usual) if name in self.header), None)

    def named(self, name: str) -> list[str]:
        """The values of a column as text."""
        for number, record in enumerate(self.records, start=1):
            if record.get(name) in (None, ""):
                raise InvalidData(f"{self.path} has no {name} in row {number}; fill it in or drop the row.")
        return [str(record[name]).strip() for record in self.records]

    def only_labelled(self, wanted: str | None, note: Note) -> "Table":
        """Without the rows whose label is still empty; all of them where there is no column of labels."""
        name = self.column(wanted, LABEL_NAMES)
        if name is None:
            return self
        kept = [record for record in self.records if str(record.get(name) or "").strip() or record.get(name) == 0]
        if len(kept) < len(self.records):
            note(f"{len(kept)} of the {len(self.records)} rows in {self.path} have a {name}; the others do not count.")
        return Table(self.path, self.header, kept)


def read_labelled(spec: str, pool: PoolFile, columns: Columns, note: Note) -> Labelled:
    """What one file says is labelled: rows by id or index, row numbers, a mask, or features."""
    path, key = split_spec(spec)
    table = read_table(path, "index" if pool.ids is None else "id") if key is None else None
    if table is None:
        return read_plain(spec, pool, columns)
    id_column = table.column(columns.id, ID_NAMES)
    if pool.ids is not None and id_column is not None:
        return read_by_id(table.only_labelled(columns.label, note), id_column, pool, columns)
    if "index" in table.header:
        table = table.only_labelled(columns.label, note)
        return Labelled(np.unique(rows_by_index(table, len_of(pool.features))))
    try:
        return read_plain(spec, pool, columns)
    except DubitoError as error:
        if id_column is None:
            raise
        raise InvalidArgument(
            f"{path} names rows by {id_column}, and the pool has no ids; name them with --id-column, or give {path} an "
            "index column of row numbers."
        ) from error


def read_plain(spec: str, pool: PoolFile, columns: Columns) -> Labelled:
    """A file that holds one array."""
    return as_labelled(read_array(spec, "labelled", columns=columns), len_of(pool.features))


def as_labelled(array: Matrix, n_pool: int) -> Labelled:
    """1-D names rows of the pool, 2-D holds features; nothing at all is nothing labelled."""
    if len(array.shape) == 1:
        return Labelled(check_rows("labelled", np.asarray(array[:]), n_pool))
    return Labelled(NOTHING.rows, (array,) if len_of(array) else ())


def read_by_id(table: Table, column: str, pool: PoolFile, columns: Columns) -> Labelled:
    """Rows with these ids; where the pool knows none of them, features of other points if the table has any."""
    try:
        return Labelled(np.unique(rows_by_id(table, column, pool)))
    except InvalidData as unknown:
        if not set(table.named(column)).isdisjoint(places_of(pool)):
            raise
        try:
            return read_plain(table.path, pool, columns)
        except DubitoError:
            raise unknown from None


def places_of(pool: PoolFile) -> dict[str, int]:
    """The row of each id, by the id as text."""
    return {str(name): row for row, name in enumerate(() if pool.ids is None else pool.ids.tolist())}


def rows_by_id(table: Table, column: str, pool: PoolFile) -> IntArray:
    """The pool's row for each record."""
    places = places_of(pool)
    names = table.named(column)
    for number, name in enumerate(names, start=1):
        if name not in places:
            raise InvalidData(
                f"{table.path} holds the {column} {name!r} in row {number}, which is none of the {len(places)} ids of "
                "the pool; correct or drop it."
            )
    return np.array([places[name] for name in names], dtype=np.int64)


def rows_by_index(table: Table, n_pool: int) -> IntArray:
    """The row number of each record, from the column ``index``."""
    try:
        rows = np.array([int(text) for text in table.named("index")], dtype=np.int64)
    except ValueError as error:
        raise InvalidData(f"{table.path} holds an index that is no row number ({error}); pass integers.") from None
    check_rows(table.path, rows, n_pool)
    return rows


def read_table(path: str, only_column: str) -> Table | None:
    """The file as a table of names where it is one: it has an ``id``, ``ids`` or ``index``, or is plain text.

    ``only_column`` says what the lines of a ``.txt`` are.
    """
    suffix = suffix_of(path)
    if suffix in DELIMITERS:
        with reading(path), open(path, encoding="utf-8-sig", newline="") as file:
            reader = csv.DictReader(file, delimiter=DELIMITERS[suffix])
            return Table(path, tuple(reader.fieldnames or ()), list(reader))
    if suffix in (".json", ".jsonl"):
        return table_of_records(path, json_records(path))
    if suffix == ".txt":
        with reading(path), open(path, encoding="utf-8-sig") as file:
            return Table(path, (only_column,), [{only_column: line.strip()} for line in file if line.strip()])
    if suffix == ".parquet":
        source = open_source(path)
        names = [name for name in source.names if name in ("index", *ID_NAMES, *LABEL_NAMES)]
        values = [source.entry(name).names().tolist() for name in names]
        return Table(path, tuple(names), [dict(zip(names, row, strict=True)) for row in zip(*values, strict=True)])
    return None


def json_records(path: str) -> list[object]:
    """The objects of a JSONL file, or the picks of a JSON one."""
    with reading(path), open(path, encoding="utf-8") as file:
        if suffix_of(path) == ".jsonl":
            return [json.loads(line) for line in file if line.strip()]
        content = json.load(file)
    records = content.get("picks") if isinstance(content, dict) else content
    if not isinstance(records, list):
        raise InvalidData(f"{path} holds no list of labelled items; pass a list of objects with an id or index.")
    return records


def table_of_records(path: str, records: Sequence[object]) -> Table:
    """Objects as a table; each must be one and name its row."""
    rows: list[dict[str, object]] = []
    for number, record in enumerate(records, start=1):
        if not isinstance(record, dict):
            raise InvalidData(f"{path} holds {record!r} as item {number}; pass objects with an id or index.")
        rows.append(record)
    header = tuple(dict.fromkeys(name for row in rows for name in row))
    return Table(path, header, rows)


def read_outcomes(path: str, pool: PoolFile, id_column: str | None) -> tuple[IntArray, BoolArray]:
    """Rows that were checked, and whether the model was wrong there: a table with ``wrong`` and an id or index."""
    table = read_table(path, "index")
    if table is None or "wrong" not in table.header:
        raise MissingFile(f"{path} has no column wrong; pass a table with an id or index, and 0 or 1 in wrong.")
    column = table.column(id_column, ID_NAMES)
    if pool.ids is not None and column is not None:
        rows = rows_by_id(table, column, pool)
    elif "index" in table.header:
        rows = rows_by_index(table, len_of(pool.features))
    else:
        raise MissingFile(f"{path} has no column that names rows of the pool; give it an id or index.")
    return rows, np.array([truth(text, path) for text in table.named("wrong")], dtype=np.bool_)


def truth(text: str, path: str) -> bool:
    """Yes or no, as people write it."""
    if text.lower() not in ("0", "1", "true", "false", "yes", "no"):
        raise InvalidData(
            f"{path} holds {text!r} in wrong; write 1 where the model was wrong and 0 where it was right."
        )
    return text.lower() in ("1", "true", "yes")
