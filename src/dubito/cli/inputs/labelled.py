"""What is labelled so far, from whatever file a person keeps it in.

The round trip: ``picks.csv`` gets a column of labels and comes back as ``--labelled picks.csv``. Rows are found by
their ids where the pool has ids, else by ``index``; rows whose label is still empty do not count.
"""

from dataclasses import dataclass

import numpy as np

from dubito.checks import check_rows, unlike_features
from dubito.cli.inputs.tables import ID_NAMES, Note, Table, read_table
from dubito.errors import DubitoError, InvalidArgument, InvalidData, MissingFile
from dubito.files import Columns, PoolFile, read_array, split_spec
from dubito.files.choosing import usual_name
from dubito.matrix import BoolArray, IntArray, Matrix, Rows, Stack, len_of


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
            return np.isin(np.arange(len_of(pool)), self.rows)
        parts = [*self.foreign, *([Rows(pool, self.rows)] if len(self.rows) else [])]
        for part in parts:
            if part.shape[1] != pool.shape[1]:
                raise unlike_features(part.shape[1], pool.shape[1])
        return parts[0] if len(parts) == 1 else Stack(parts)


NOTHING = Labelled(np.empty(0, dtype=np.int64))


def read_labelled(spec: str, pool: PoolFile, columns: Columns, note: Note) -> Labelled:
    """What one file says is labelled: rows by id or index, row numbers, a mask, or features."""
    path, key = split_spec(spec)
    table = read_table(path, "index" if pool.ids is None else "id", columns) if key is None else None
    if table is None:
        return read_plain(spec, pool, columns)
    elsewhere = pool.source.is_table and columns.label in pool.source.names
    id_column = table.column(columns.id, ID_NAMES)
    if pool.ids is not None and id_column is not None:
        table = table.only_labelled(columns.label, note, elsewhere=elsewhere)
        note_conflict(table, id_column, pool, note)
        return read_by_id(table, id_column, pool, columns)
    if "index" in table.header:
        table = table.only_labelled(columns.label, note, elsewhere=elsewhere)
        return Labelled(np.unique(rows_by_index(table, len_of(pool.features))))
    try:
        return read_plain(spec, pool, columns)
    except DubitoError as error:
        if id_column is None:
            raise
        raise InvalidArgument(
            f"{path} names rows by {id_column}, and the pool has no ids",
            mend=f"name them with --id-column, or give {path} an index column of row numbers.",
        ) from error


def note_conflict(table: Table, column: str, pool: PoolFile, note: Note) -> None:
    """Say where an id and an index name different rows of the pool: the id counts."""
    if "index" not in table.header:
        return
    places = places_of(pool)
    for number, record in enumerate(table.records, start=1):
        name, index = (str(record.get(key) if record.get(key) is not None else "").strip() for key in (column, "index"))
        if name in places and index and index != str(places[name]):
            note(
                f"{table.path}: in row {number} the {column} {name!r} is row {places[name]} of the pool, but "
                f"index says {index}; the {column} counts, here and below."
            )
            return


def own_labels(pool: PoolFile, columns: Columns, note: Note) -> Labelled:
    """Rows of a pool's own table whose label is filled in."""
    source = pool.source
    name = columns.label if columns.label in source.names else usual_name(source, "labels")
    if not source.is_table or name is None or name in pool.feature_names:
        return NOTHING
    rows = np.flatnonzero(source.entry(name).filled())
    if len(rows):
        note(f"{source.path}: {len(rows)} of {len_of(pool.features)} rows have a {name} and count as labelled.")
    return Labelled(rows)


def read_candidate_rows(spec: str, pool: PoolFile, columns: Columns) -> IntArray:
    """Rows of the pool from a table with an id or index, from row numbers or from a mask."""
    path, key = split_spec(spec)
    table = read_table(path, "index" if pool.ids is None else "id", columns) if key is None else None
    if table is None or "candidates" in table.header:
        return check_rows("candidates", read_array(spec, "candidates"), len_of(pool.features))
    return np.unique(named_rows(table, columns.id, pool))


def named_rows(table: Table, id_column: str | None, pool: PoolFile) -> IntArray:
    """The pool's row for each record, by id where both have ids, else by index."""
    column = table.column(id_column, ID_NAMES)
    if pool.ids is not None and column is not None:
        return rows_by_id(table, column, pool)
    if "index" in table.header:
        return rows_by_index(table, len_of(pool.features))
    raise MissingFile(f"{table.path} has no column that names rows of the pool", mend="give it an id or index.")


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
                f"{table.path} holds the {column} {name!r} in row {number}, which is none of the {len(places)} "
                "ids of the pool",
                mend="correct or drop it.",
            )
    return np.array([places[name] for name in names], dtype=np.int64)


def rows_by_index(table: Table, n_pool: int) -> IntArray:
    """The row number of each record, from the column ``index``."""
    try:
        rows = np.array([int(text) for text in table.named("index")], dtype=np.int64)
    except (ValueError, OverflowError) as error:
        raise InvalidData(
            f"{table.path} holds an index that is no row number ({error})", mend="pass integers."
        ) from None
    check_rows(table.path, rows, n_pool)
    return rows


def read_outcomes(path: str, pool: PoolFile, id_column: str | None) -> tuple[IntArray, BoolArray]:
    """Rows that were checked, and whether the model was wrong there: a table with ``wrong`` and an id or index."""
    table = read_table(path, "index", Columns(id=id_column))
    if table is None or "wrong" not in table.header:
        raise MissingFile(f"{path} has no column wrong", mend="pass a table with an id or index, and 0 or 1 in wrong.")
    rows = named_rows(table, id_column, pool)
    return rows, np.array([truth(text, path) for text in table.named("wrong")], dtype=np.bool_)


def truth(text: str, path: str) -> bool:
    """Yes or no, as people write it."""
    if text.lower() not in ("0", "1", "true", "false", "yes", "no"):
        raise InvalidData(
            f"{path} holds {text!r} in wrong", mend="write 1 where the model was wrong and 0 where it was right."
        )
    return text.lower() in ("1", "true", "yes")
