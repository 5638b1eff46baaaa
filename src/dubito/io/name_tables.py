"""Files that name rows of the pool by id, data frame index or row number; and pool columns that are copied to picks."""

import re
from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass

import numpy as np

from dubito.errors import InvalidArgument, InvalidData, MissingFile
from dubito.io.lookup import Columns, given_or_usual_name, index_columns, usual_name
from dubito.io.opening import open_source, split_spec
from dubito.io.roles import PoolFile, find_array, read_array
from dubito.io.source import Source, note, reading, suffix_of
from dubito.matrix import AnyArray, BoolArray, IntArray, Matrix, len_of
from dubito.request.columns import CANDIDATES, IDS, LABELED, LABELS, ROW, UNLABELED, find_name, non_features
from dubito.request.ids import Ids, rows_of
from dubito.request.labels import are_labels, label_keys
from dubito.request.rows import check_rows, refuse_ambiguous_rows

# Columns of the pool that are copied to the picks.

BOX_COLUMNS = ("left", "top", "width", "height", "picture_width", "picture_height", "confidence")
"""Columns of a pool of boxes, see `dubito.embedding.boxes`."""
PICK_COLUMNS = ("rank", "index", "id", "group", "group_priority", "priority")
"""Columns that every table of picks has."""
KEEP_NONE = "none"


def read_carried(spec: str, keep: str | None, pool: PoolFile, columns: Columns) -> dict[str, AnyArray]:
    """The columns named in ``keep``, or every text column of a table except ids and labels; (n,) each.

    Columns that are ignored as features are included, since they may still be useful for labeling.
    """
    source = open_source(split_spec(spec)[0]) if columns.ignore else pool.source
    if keep is not None:
        names = [name.strip() for name in keep.split(",") if name.strip() not in ("", KEEP_NONE)]
        for name in names:
            if name in PICK_COLUMNS or non_features([name]):
                problem = (
                    f"{source.path}: picks cannot contain a column called {name!r}, which has another meaning there"
                )
                raise InvalidArgument(problem, hint="leave it out of --keep, or rename it.")
    else:
        names = text_columns(source, columns)
    return {name: _texts(source, name, len_of(pool.features)) for name in names}


def text_columns(source: Source, columns: Columns) -> list[str]:
    """Text columns that have no other role, and the numbers of boxes."""
    if not source.is_table:
        return []
    roles = [given_or_usual_name(source, role, columns) for role in ("ids", "labels")]
    taken = {
        *roles,
        *PICK_COLUMNS,
        columns.id,
        columns.label,
        *non_features(list(source.names)),
        *index_columns(source),
    }
    boxes = BOX_COLUMNS if all(name in source.names for name in BOX_COLUMNS) else ()
    return [
        name
        for name, entry in source.entries.items()
        if (entry.content == "text" or name in boxes) and name and name not in taken
    ]


def _texts(source: Source, name: str, n_rows: int) -> AnyArray:
    values = source.entry(name).values()
    if values.shape != (n_rows,):
        problem = f"{source.noun} {name!r} of {source.path} has shape {values.shape} and the pool {n_rows} rows"
        raise InvalidArgument(problem, hint="name a column with a value for each row in --keep.")
    return values


def as_text(value: object) -> str:
    """A cell as text; empty for missing values."""
    return "" if value is None or value != value else str(value)


# Tables of ids and labels.

BOOLEANS = {"0": False, "1": True, "false": False, "true": True, "no": False, "yes": True}

MAX_SHOWN, MANY_CLASSES = 5, 10
FRACTION = re.compile(r"[+-]?\d*\.\d+(e[+-]?\d+)?", re.IGNORECASE)


@dataclass(frozen=True, slots=True)
class NameTable:
    """A table of ids and labels, with its values as written, including empty cells."""

    path: str
    columns: Mapping[str, Callable[[], AnyArray]]
    index: str | None = None
    """The column that holds the index of a data frame, if it is not called ``index``."""
    is_list: bool = False
    """Whether the file is plain text with one name on each line."""

    @property
    def header(self) -> tuple[str, ...]:
        return tuple(self.columns)

    def values(self, name: str, rows: BoolArray | None = None) -> AnyArray:
        """A column, or some of its rows; raises if a cell is empty."""
        values = self.columns[name]()
        rows = np.ones(len(values), dtype=np.bool_) if rows is None else rows
        empty = rows & np.array([not key for key in label_keys(values)], dtype=np.bool_)
        if empty.any():
            row = int(np.argmax(empty)) + 1
            raise InvalidData(f"{self.path} has no {name} in row {row}", hint="fill it in or drop the row.")
        return values[rows]

    def id_column(self, wanted: str | None) -> str | None:
        return wanted if wanted in self.header else find_name(self.header, IDS)

    def label_column(self, wanted: str | None, *, elsewhere: bool) -> str | None:
        """The label column. Raises if the column that the user named is missing, unless another file has it."""
        if wanted in self.header:
            return wanted
        if wanted is not None and not elsewhere:
            hint = f"it holds {', '.join(self.header)}."
            raise MissingFile(f"{self.path} has no column {wanted!r} (--label-column)", hint=hint)
        return find_name(self.header, LABELS)

    def hint_about_labels(self, columns: Columns, known: Collection[str]) -> str:
        """A hint that names columns that could be labels; ``known`` columns have another meaning."""
        taken = {*PICK_COLUMNS, self.id_column(columns.id), self.index, *known}
        free = [name for name in self.header if name not in taken and could_be_labels(self.columns[name]())]
        if not free:
            return ""
        given = free[0] if len(free) == 1 else "NAME"
        return f" If {' or '.join(free[:MAX_SHOWN])} holds their classes, pass --label-column {given}."

    def labeled(self, columns: Columns, *, elsewhere: bool = False, known: Collection[str] = ()) -> BoolArray:
        """Mask of the labeled rows: those with a label, or those marked in a mask column; all if there is neither.

        ``known`` are columns that cannot be labels, such as those of the pool.
        """
        n = len(next(iter(self.columns.values()))()) if self.columns else 0
        all_rows: BoolArray = np.ones(n, dtype=np.bool_)
        if not n:
            note(f"{self.path}: 0 rows, so nothing counts as labeled.")
        if self.is_list or not n:
            return all_rows
        name = self.label_column(columns.label, elsewhere=elsewhere)
        mask = find_name(self.header, (*LABELED, *UNLABELED))
        if name is None and mask is None:
            hint = self.hint_about_labels(columns, known)
            rows = f"{n} row{'s' * (n != 1)}, no label column"
            note(f"{self.path}: {rows}: all count as labeled, and no model is fitted on this file.{hint}")
            return all_rows
        kept, why = all_rows, ""
        if mask is not None:
            kept, why = self.booleans(mask), f"are labeled by {mask}"
            kept = ~kept if mask.lower() in UNLABELED else kept
        if name is not None:
            marked, kept = kept, are_labels(f"{self.path} ({name})", self.columns[name](), columns.no_label)
            why = f"have a {name}"
            if mask is not None:
                conflicts = int((marked != kept).sum())
                note(f"{self.path} has {name} and {mask}, which disagree in {conflicts} of {n} rows: {name} counts.")
        if not kept.all():
            note(f"{kept.sum()} of the {n} rows in {self.path} {why}; the others do not count.")
        return kept

    def mask(self, n_rows: int) -> BoolArray | None:
        """The mask column if it has a value for each of ``n_rows`` rows; None without one."""
        name = find_name(self.header, (*LABELED, *UNLABELED))
        texts = [] if name is None else label_keys(self.columns[name]())
        if name is None or len(texts) != n_rows or len(set(texts)) == len(texts):
            return None
        values = self.booleans(name)
        return ~values if name.lower() in UNLABELED else values

    def booleans(self, name: str) -> BoolArray:
        """A column of 0/1, true/false or yes/no as booleans."""
        texts = label_keys(self.columns[name]())
        invalid = next((row for row, text in enumerate(texts) if text.lower() not in BOOLEANS), None)
        if invalid is not None:
            found = f"holds {texts[invalid]!r}" if texts[invalid] else "has nothing"
            problem = f"{self.path} {found} in {name} (row {invalid + 1}), which is a mask"
            raise InvalidData(problem, hint="write 1 or 0, true or false, yes or no in every row.")
        return np.array([BOOLEANS[text.lower()] for text in texts], dtype=np.bool_)


def could_be_labels(values: AnyArray) -> bool:
    """Whether a column may hold classes: few distinct values, and no fractions.

    Examples
    --------
    >>> could_be_labels(np.array(["a", "b", "a"])), could_be_labels(np.array(["0.5", "0.25"]))
    (True, False)
    """
    keys = [key for key in label_keys(values) if key]
    if any(FRACTION.fullmatch(key) for key in keys):
        return False
    return 0 < len(set(keys)) <= max(MANY_CLASSES, len(keys) // 2)


def read_table(spec: str, columns: Columns, pool: PoolFile | None = None) -> NameTable | None:
    """Read a file as a table of names; None for arrays without names, and for ``path::key``.

    The lines of a ``.txt`` file are ids if the pool has ids, else row numbers.
    """
    path, key = split_spec(spec)
    if key is not None:
        return None
    if suffix_of(path) == ".txt":
        with reading(path), open(path, encoding="utf-8-sig") as file:
            lines = [line.strip() for line in file if line.strip()]
        only_column = ROW if pool is None or pool.ids is None else "id"
        return NameTable(path, {only_column: lambda: np.array(lines, dtype=np.str_)}, is_list=True)
    source = open_source(path).without(columns.ignore)
    return table_of_source(source, columns)


def table_of_source(source: Source, columns: Columns) -> NameTable | None:
    """The columns of a table, or the 1-D arrays of an archive that have the length of its ids."""
    arrays = {name: entry.values for name, entry in source.entries.items() if entry.ndim == 1}
    if source.is_table:
        index = [name for name in index_columns(source) if name.lower() != "index"]
        return NameTable(source.path, arrays, index[0] if len(index) == 1 else None)
    ids = columns.id if columns.id in arrays else find_name(list(arrays), IDS)
    if ids is None:
        return None
    n = len(arrays[ids]())
    table = {name: values for name, values in arrays.items() if name == ids or len(values()) == n}
    masks = (*LABELED, *UNLABELED, *CANDIDATES)
    if any(name.lower() in masks and name not in table for name in source.names):
        return None  # The ids are not those of the mask or row numbers.
    return NameTable(source.path, table)


def named_rows(table: NameTable, pool: PoolFile, columns: Columns, kept: BoolArray | None = None) -> IntArray | None:
    """The row of the pool for each kept row of the table; None if no column names rows.

    Ids take precedence over row numbers. A column ``index`` holds row numbers, as in dubito's own tables, unless the
    pool has its ids in a column of that name.
    """
    theirs = table_ids(table, pool, columns, kept)
    index = find_name(table.header, (ROW,))
    known = known_ids(theirs, pool) if theirs is not None and index is None else pool.row_ids.ids
    if theirs is not None and known is not None:
        return rows_of(theirs, known)
    if theirs is None and table.index is not None and pool.row_ids.index is not None:
        return rows_of(Ids(table.path, table.values(table.index, kept)), pool.row_ids.index)
    return None if index is None else rows_by_number(table, index, pool, kept)


def can_name_rows(table: NameTable, pool: PoolFile, columns: Columns) -> bool:
    has_ids = table.id_column(columns.id) is not None or table.index is not None
    by_index = table.index is not None and pool.row_ids.index is not None
    if find_name(table.header, (ROW,)) is not None or by_index or (has_ids and pool.row_ids.ids is not None):
        return True
    theirs = table_ids(table, pool, columns) if has_ids and pool.row_ids.index is not None else None
    return theirs is not None and known_ids(theirs, pool) is not None


def known_ids(theirs: Ids, pool: PoolFile) -> Ids | None:
    """The pool's ids, or else its index if the table contains values of it."""
    ids, index = pool.row_ids.ids, pool.row_ids.index
    if ids is not None or index is None or index.row_of_key.keys().isdisjoint(theirs.keys):
        return ids
    return index


def table_ids(table: NameTable, pool: PoolFile, columns: Columns, kept: BoolArray | None = None) -> Ids | None:
    """The ids in a table: its id column, or its index if the pool's rows are identified by an index."""
    column = table.id_column(columns.id)
    index = find_name(table.header, (ROW,))
    if (
        column is None
        and index is not None
        and pool.row_ids.ids is pool.row_ids.index
        and index_columns(pool.source) == [ROW]
    ):
        column = index
    if column is None and pool.row_ids.index is None:
        column = table.index
    return None if column is None else Ids(table.path, table.values(column, kept))


def rows_by_number(table: NameTable, index: str, pool: PoolFile, kept: BoolArray | None = None) -> IntArray:
    n_pool = len_of(pool.features)
    try:
        rows = np.array([int(str(text)) for text in table.values(index, kept).tolist()], dtype=np.int64)
    except (ValueError, OverflowError) as error:
        raise InvalidData(f"{table.path} holds an {index} that is not a row number ({error}); pass integers.") from None
    wrong = (rows < 0) | (rows >= n_pool)
    if wrong.any():
        problem = f"{table.path} holds the {index} {rows[wrong][0]}, which is not a row of the pool"
        raise InvalidData(problem, hint=f"row numbers go from 0 to {n_pool - 1}.")
    values, counts = np.unique(rows, return_counts=True)
    if len(values) < len(rows):
        hint = "each must occur once."
        raise InvalidData(f"{table.path} names row {values[np.argmax(counts > 1)]} twice", hint=hint)
    refuse_ambiguous_rows(table.path, rows, pool.row_ids.ids)
    return rows


def note_conflict(table: NameTable, pool: PoolFile, columns: Columns, kept: BoolArray) -> None:
    """Note the first row whose id and index name different rows of the pool; the id counts."""
    column, index = table.id_column(columns.id), find_name(table.header, (ROW,))
    ids = pool.row_ids.ids
    if column is None or index is None or ids is None:
        return
    theirs = Ids(table.path, table.values(column, kept))
    numbers = np.flatnonzero(kept) + 1
    for number, key, row in zip(numbers, theirs.keys, table.columns[index]()[kept].tolist(), strict=True):
        if key in ids.row_of_key and str(row or "0").strip() != str(ids.row_of_key[key]):
            note(
                f"{table.path}: in row {number} the {column} {key!r} is row {ids.row_of_key[key]} of the pool, but the "
                f"{index} is {row}; the {column} counts, here and in the rows below."
            )
            return


def note_numbers(table: NameTable, pool: PoolFile, columns: Columns) -> None:
    """Note that row numbers are used although the pool has ids: they are wrong if the pool is reordered."""
    index = find_name(table.header, (ROW,))
    if pool.row_ids.ids is not None and index is not None and table_ids(table, pool, columns) is None:
        note(
            f"{pool.source.path} has ids and {table.path} none: rows are matched by their {index}, "
            "which are the current row numbers of the pool."
        )


def note_order(spec: str, array: Matrix, pool: PoolFile) -> None:
    """Note that a mask without ids is matched with the pool by position, although the pool has ids."""
    if pool.row_ids.ids is not None and array.shape == (len_of(pool.features),):
        note(f"{pool.source.path} has ids and {spec} none: rows are matched by their order.")


def read_candidates(spec: str | None, pool: PoolFile, columns: Columns) -> IntArray | None:
    """Rows that may be picked, from a file or else the pool's own: a 0/1 column of a table, or an array."""
    if spec is None:
        source, n = pool.source, len_of(pool.features)
        name = usual_name(source, "candidates")
        if name is None or name in (*pool.feature_names, *columns.claimed):
            return None
        table = table_of_source(source, columns) if source.is_table else None
        given = find_array(source, "candidates") if table is None else table.booleans(name)
        allowed = check_rows("candidates", given, n, pool.row_ids)
        ignore = f"pass --ignore-columns {name} to ignore it"
        note(f"{source.path}: {len(allowed)} of {n} rows may be picked, by {name}; {ignore}.")
        return allowed
    table = read_table(spec, columns, pool)
    mask = None if table is None else find_name(table.header, CANDIDATES)
    rows = None if table is None else named_rows(table, pool, columns, None if mask is None else table.booleans(mask))
    if table is not None and rows is not None:
        note_numbers(table, pool, columns)
        if mask is None and len(table.header) > 1:
            note(f"{table.path}: {len(rows)} rows, no column candidates: all may be picked.")
        return np.unique(rows)
    if table is not None and mask is None:
        id_column = table.id_column(columns.id)
        if id_column is not None:
            raise unknown_ids(table.path, id_column)
        raise MissingFile(f"{table.path} has no column that names rows of the pool; give it an id or index.")
    array = read_array(spec, "candidates", columns=columns)
    note_order(spec, array, pool)
    return check_rows("candidates", array, len_of(pool.features), pool.row_ids)


def unknown_ids(path: str, column: str) -> InvalidArgument:
    hint = f"name them with --id-column, or give {path} an index column of row numbers."
    return InvalidArgument(f"{path} names rows by {column}, and the pool has no ids", hint=hint)


def unnamed_rows(table: NameTable, pool: PoolFile, columns: Columns) -> InvalidData:
    """The error for a table without ids or row numbers; its hint names a column with the pool's ids, if any."""
    known, wanted = pool.row_ids.ids, columns.id if columns.id in pool.source.names else "id"
    problem = f"{table.path} has no column that names rows of the pool; it holds {', '.join(table.header)}"
    rows = f"index, the row numbers from 0; points outside the pool need its {pool.features.shape[1]} features."
    if known is None:
        return InvalidData(problem, hint=f"give it a column {rows}")
    found = next(
        (name for name in table.header if {*label_keys(table.columns[name]())} <= known.row_of_key.keys()), None
    )
    if found is not None:
        return InvalidData(problem, hint=f"{found} has the pool's ids: call it {wanted} there, as in the pool.")
    return InvalidData(problem, hint=f"give it a column {wanted}, the pool's ids, or {rows}")


def read_earlier(path: str, rows: IntArray, pool: PoolFile, columns: Columns) -> IntArray:
    """The rows of earlier picks; raises if their ids no longer match the rows of the pool."""
    n_pool = len_of(pool.features)
    outside = rows[rows >= n_pool]
    if len(outside):
        problem = f"{path} holds row {outside[0]} among its picks, and the pool has {n_pool} rows"
        raise InvalidData(problem, hint="pass the pool it was picked from.")
    table = None if path.endswith(".npy") else read_table(path, columns)
    column = None if table is None else table.id_column(None)
    if table is None or column is None or pool.row_ids.ids is None:
        return rows
    ids = Ids(path, table.values(column))
    moved = np.flatnonzero(rows_of(ids, pool.row_ids.ids) != rows)
    if len(moved):
        problem = f"{path} has {ids.shown(moved[:1].tolist())} as row {rows[moved[0]]}, which is now a different row"
        raise InvalidData(problem, hint=f"write to another file, and pass --labeled {path}.")
    return rows


def read_outcomes(path: str, pool: PoolFile, columns: Columns) -> tuple[IntArray, BoolArray]:
    """The checked rows, and whether the model was wrong on each, from a table with a column ``wrong``."""
    table = read_table(path, columns)
    if table is None or "wrong" not in table.header:
        raise MissingFile(f"{path} has no column wrong; pass a table with an id or index, and 0 or 1 in wrong.")
    rows = named_rows(table, pool, columns)
    if rows is None:
        raise MissingFile(f"{table.path} has no column that names rows of the pool; give it an id or index.")
    return rows, table.booleans("wrong")
