"""Which rows of the pool a file names: by id, by the index of a frame, or by number."""

import numpy as np

from dubito.checks import check_rows, refuse_ids
from dubito.cli.inputs.tables import NameTable, Note, read_table, table_of_source
from dubito.errors import InvalidArgument, InvalidData, MissingFile
from dubito.files import Columns, PoolFile, find_array, read_array, split_spec
from dubito.files.choosing import usual_name
from dubito.files.naming import index_columns
from dubito.matrix import BoolArray, IntArray, Matrix, len_of
from dubito.names import Ids, rows_of
from dubito.names.columns import CANDIDATES, ROW, usual
from dubito.names.labels import label_keys


def named_rows(table: NameTable, pool: PoolFile, columns: Columns, kept: BoolArray | None = None) -> IntArray | None:
    """The pool's row for each row of the table that is kept; None where nothing in the table names rows.

    Ids count before row numbers. A column ``index`` holds row numbers, as in dubito's own tables, unless the pool has
    its ids in a column of that name.
    """
    theirs = table_ids(table, pool, columns, kept)
    index = usual(table.header, (ROW,))
    known = ids_known(theirs, pool) if theirs is not None and index is None else pool.names.ids
    if theirs is not None and known is not None:
        return rows_of(theirs, known)
    if theirs is None and table.index is not None and pool.names.index is not None:
        return rows_of(Ids(table.path, table.values(table.index, kept)), pool.names.index)
    return None if index is None else rows_by_number(table, index, pool, kept)


def can_name_rows(table: NameTable, pool: PoolFile, columns: Columns) -> bool:
    """Whether a column of the table can name rows of this pool."""
    has_ids = table.id_column(columns.id) is not None or table.index is not None
    by_index = table.index is not None and pool.names.index is not None
    if usual(table.header, (ROW,)) is not None or by_index or (has_ids and pool.names.ids is not None):
        return True
    theirs = table_ids(table, pool, columns) if has_ids and pool.names.index is not None else None
    return theirs is not None and ids_known(theirs, pool) is not None


def ids_known(theirs: Ids, pool: PoolFile) -> Ids | None:
    """The pool's ids; or the row numbers that its file writes down, where they are meant by who names some of them."""
    ids, index = pool.names.ids, pool.names.index
    if ids is not None or index is None or index.places.keys().isdisjoint(theirs.keys):
        return ids
    return index


def table_ids(table: NameTable, pool: PoolFile, columns: Columns, kept: BoolArray | None = None) -> Ids | None:
    """The ids in a table: its column of ids, or an index that is the pool's."""
    column = table.id_column(columns.id)
    index = usual(table.header, (ROW,))
    if (
        column is None
        and index is not None
        and pool.names.ids is pool.names.index
        and index_columns(pool.source) == [ROW]
    ):
        column = index
    if column is None and pool.names.index is None:
        column = table.index
    return None if column is None else Ids(table.path, table.values(column, kept))


def rows_by_number(table: NameTable, index: str, pool: PoolFile, kept: BoolArray | None = None) -> IntArray:
    """The row number of each row, from a column of the table."""
    n_pool = len_of(pool.features)
    try:
        rows = np.array([int(str(text)) for text in table.values(index, kept).tolist()], dtype=np.int64)
    except (ValueError, OverflowError) as error:
        raise InvalidData(f"{table.path} holds an {index} that is no row number ({error}); pass integers.") from None
    wrong = (rows < 0) | (rows >= n_pool)
    if wrong.any():
        problem = f"{table.path} holds the {index} {rows[wrong][0]}, which is no row of the pool"
        raise InvalidData(problem, mend=f"row numbers go from 0 to {n_pool - 1}.")
    values, counts = np.unique(rows, return_counts=True)
    if len(values) < len(rows):
        raise InvalidData(
            f"{table.path} names row {values[np.argmax(counts > 1)]} twice", mend="each must be there once."
        )
    refuse_ids(table.path, rows, pool.names.ids)
    return rows


def note_conflict(table: NameTable, pool: PoolFile, columns: Columns, kept: BoolArray, note: Note) -> None:
    """Say where an id and an index name different rows of the pool: the id counts."""
    column, index = table.id_column(columns.id), usual(table.header, (ROW,))
    ids = pool.names.ids
    if column is None or index is None or ids is None:
        return
    theirs = Ids(table.path, table.values(column, kept))
    numbers = np.flatnonzero(kept) + 1
    for number, key, said in zip(numbers, theirs.keys, table.columns[index]()[kept].tolist(), strict=True):
        if key in ids.places and str(said or "0").strip() != str(ids.places[key]):
            note(
                f"{table.path}: in row {number} the {column} {key!r} is row {ids.places[key]} of the pool, but "
                f"{index} says {said}; the {column} counts, here and below."
            )
            return


def note_numbers(table: NameTable, pool: PoolFile, columns: Columns, note: Note) -> None:
    """Say that a table goes by row numbers, where the pool has ids: another order of the pool would mean others."""
    index = usual(table.header, (ROW,))
    if pool.names.ids is not None and index is not None and table_ids(table, pool, columns) is None:
        note(
            f"{pool.source.path} has ids and {table.path} none: rows are matched by their {index}, "
            "the row numbers of the pool as it is now."
        )


def note_order(spec: str, array: Matrix, pool: PoolFile, note: Note) -> None:
    """Say that a mask has no ids, where the pool has some: its rows are the pool's by their order."""
    if pool.names.ids is not None and array.shape == (len_of(pool.features),):
        note(f"{pool.source.path} has ids and {spec} none: rows are matched by their order.")


def read_candidate_rows(spec: str, pool: PoolFile, columns: Columns, note: Note) -> IntArray:
    """Rows of the pool from a table with an id or index, from row numbers, ids or a mask."""
    path, key = split_spec(spec)
    table = read_table(path, ROW if pool.ids is None else "id", columns) if key is None else None
    mask = None if table is None else usual(table.header, CANDIDATES)
    rows = None if table is None else named_rows(table, pool, columns, None if mask is None else table.truths(mask))
    if table is not None and rows is not None:
        note_numbers(table, pool, columns, note)
        if mask is None and len(table.header) > 1:
            note(f"{path}: {len(rows)} rows, no column candidates: all may be picked.")
        return np.unique(rows)
    if table is not None and mask is None:
        named = table.id_column(columns.id)
        if named is not None:
            raise unknown_ids(table.path, named)
        raise MissingFile(f"{table.path} has no column that names rows of the pool; give it an id or index.")
    array = read_array(spec, "candidates", columns=columns)
    note_order(spec, array, pool, note)
    return check_rows("candidates", array, len_of(pool.features), pool.names)


def own_candidates(pool: PoolFile, columns: Columns, note: Note) -> IntArray | None:
    """Rows that the pool's own file says may be picked: a column of 0 and 1, or an array as a file may hold one."""
    source, n = pool.source, len_of(pool.features)
    name = usual_name(source, "candidates")
    if name is None or name in (*pool.feature_names, *columns.claimed):
        return None
    table = table_of_source(source, columns) if source.is_table else None
    mask = find_array(source, "candidates") if table is None else table.truths(name)
    rows = check_rows("candidates", mask, n, pool.names)
    note(f"{source.path}: {len(rows)} of {n} rows may be picked, by {name}; --ignore-columns {name} for all.")
    return rows


def unknown_ids(path: str, column: str) -> InvalidArgument:
    """Ids where the pool has none."""
    mend = f"name them with --id-column, or give {path} an index column of row numbers."
    return InvalidArgument(f"{path} names rows by {column}, and the pool has no ids", mend=mend)


def unnamed_rows(table: NameTable, pool: PoolFile, columns: Columns) -> InvalidData:
    """A table without ids or row numbers, and the column of it that holds ids of the pool, if there is one."""
    known, wanted = pool.names.ids, columns.id if columns.id in pool.source.names else "id"
    problem = f"{table.path} has no column that names rows of the pool; it holds {', '.join(table.header)}"
    rows = f"index, the row numbers from 0; points outside the pool need its {pool.features.shape[1]} features."
    if known is None:
        return InvalidData(problem, mend=f"give it a column {rows}")
    found = next((name for name in table.header if {*label_keys(table.columns[name]())} <= known.places.keys()), None)
    if found is not None:
        return InvalidData(problem, mend=f"{found} has the pool's ids: call it {wanted} there, as in the pool.")
    return InvalidData(problem, mend=f"give it a column {wanted}, the pool's ids, or {rows}")


def read_earlier(path: str, rows: IntArray, pool: PoolFile, columns: Columns) -> IntArray:
    """The rows of earlier picks, whose ids must still be those of the rows they name."""
    n_pool = len_of(pool.features)
    outside = rows[rows >= n_pool]
    if len(outside):
        problem = f"{path} holds row {outside[0]} among its picks, and the pool has {n_pool} rows"
        raise InvalidData(problem, mend="pass the pool it was picked from.")
    table = None if path.endswith(".npy") else read_table(path, ROW, columns)
    column = None if table is None else table.id_column(None)
    if table is None or column is None or pool.names.ids is None:
        return rows
    ids = Ids(path, table.values(column))
    moved = np.flatnonzero(rows_of(ids, pool.names.ids) != rows)
    if len(moved):
        problem = f"{path} has {ids.shown(moved[:1].tolist())} as row {rows[moved[0]]}, which is another row by now"
        raise InvalidData(problem, mend=f"write to another file, and pass --labelled {path}.")
    return rows


def read_outcomes(path: str, pool: PoolFile, columns: Columns) -> tuple[IntArray, BoolArray]:
    """Rows that were checked, and whether the model was wrong there: a table with ``wrong`` and an id or index."""
    table = read_table(path, ROW, columns)
    if table is None or "wrong" not in table.header:
        raise MissingFile(f"{path} has no column wrong; pass a table with an id or index, and 0 or 1 in wrong.")
    rows = named_rows(table, pool, columns)
    if rows is None:
        raise MissingFile(f"{table.path} has no column that names rows of the pool; give it an id or index.")
    return rows, table.truths("wrong")
