"""What is labelled so far, from whatever file a person keeps it in.

The round trip: ``picks.csv`` gets a column of labels and comes back as ``--labelled picks.csv``. Rows are found by
their ids where the pool has ids, else by ``index``; rows whose label is still empty do not count.
"""

from dataclasses import dataclass
from typing import Literal

import numpy as np

from dubito.checks import check_rows, unlike_features
from dubito.cli.inputs.moved import refuse_moved
from dubito.cli.inputs.rows import (
    can_name_rows,
    named_rows,
    note_conflict,
    note_numbers,
    note_order,
    unknown_ids,
    unnamed_rows,
)
from dubito.cli.inputs.tables import NameTable, Note, read_table
from dubito.errors import DubitoError, InvalidArgument, InvalidData, MissingFile
from dubito.files import Columns, PoolFile, find_array, open_source, read_array, split_spec
from dubito.files.choosing import usual_name
from dubito.matrix import IntArray, Matrix, Rows, Stack, len_of
from dubito.names.columns import LABELLED, ROW, usual
from dubito.names.labels import are_labels


@dataclass(frozen=True, slots=True)
class LabelledInputs:
    """Everything labelled: rows of the pool, and features of points that are not in it."""

    rows: IntArray
    foreign: tuple[Matrix, ...] = ()

    def joined(self, other: "LabelledInputs") -> "LabelledInputs":
        """Both together, each row once."""
        return LabelledInputs(np.union1d(self.rows, other.rows), self.foreign + other.foreign)

    def argument(self, pool: Matrix) -> object:
        """What `dubito.select` takes as ``labelled``; where features are among it, keep `rows` from being picked."""
        if not self.foreign:
            return np.isin(np.arange(len_of(pool)), self.rows)
        parts = [*self.foreign, *([Rows(pool, self.rows)] if len(self.rows) else [])]
        for part in parts:
            if part.shape[1] != pool.shape[1]:
                raise unlike_features(part.shape[1], pool.shape[1])
        return parts[0] if len(parts) == 1 else Stack(parts)


OWN_ROLES: tuple[Literal["labelled", "unlabelled"], ...] = ("labelled", "unlabelled")
"""What of a pool's own file says what is labelled, the first one first."""
NOTHING = LabelledInputs(np.empty(0, dtype=np.int64))


def read_labelled(spec: str, pool: PoolFile, columns: Columns, note: Note) -> LabelledInputs:
    """What one file says is labelled: rows by id or index, row numbers, a mask, or features."""
    path, key = split_spec(spec)
    table = read_table(path, ROW if pool.ids is None else "id", columns) if key is None else None
    if table is None or not can_name_rows(table, pool, columns):
        return read_unnamed(spec, table, pool, columns, note)
    elsewhere = pool.source.is_table and columns.label in pool.source.names
    kept = table.labelled(columns, note, elsewhere=elsewhere, known=pool.source.names)
    note_conflict(table, pool, columns, kept, note)
    note_numbers(table, pool, columns, note)
    rows = named_rows(table, pool, columns, kept)
    if rows is None:
        return NOTHING
    refuse_moved(table, rows, kept, pool, columns)
    return LabelledInputs(np.unique(rows))


def read_unnamed(spec: str, table: NameTable | None, pool: PoolFile, columns: Columns, note: Note) -> LabelledInputs:
    """A file whose rows have no names that the pool knows: an array, or a table of features."""
    try:
        mask = None if table is None else table.mask(len_of(pool.features))
        array = read_array(spec, "labelled", columns=columns) if mask is None else mask
        if table is not None and not len_of(array):
            raise MissingFile(f"{spec} holds nothing that names rows", mend="give it a column id or index.")
        if table is not None:
            array = mask_of_column(spec, array, pool, note)
            refuse_width(array, pool)
        note_order(spec, array, pool, note)
        found = of_one_embedder(spec, as_labelled(array, pool), pool)
    except DubitoError as error:
        named = None if table is None else table.id_column(columns.id)
        if table is None or (named is None and (not table.header or usual(table.header, LABELLED))):
            raise
        path = split_spec(spec)[0]
        raise (unnamed_rows(table, pool, columns) if named is None else unknown_ids(path, named)) from error
    label = None if table is None else table.label_column(columns.label, elsewhere=True)
    if found.foreign and label is not None:
        note(
            f"{spec}: features without an id or index are points outside the pool; no model learns from their {label}."
        )
    return found


def refuse_width(array: Matrix, pool: PoolFile) -> None:
    """Refuse columns of numbers that cannot be features of the pool's kind."""
    if len(array.shape) == 2 and array.shape[1] != pool.features.shape[1]:
        raise unlike_features(array.shape[1], pool.features.shape[1])


def mask_of_column(spec: str, array: Matrix, pool: PoolFile, note: Note) -> Matrix:
    """A table's only column is a mask, and no feature, where it holds 0 or 1 for every row of the pool."""
    if array.shape != (len_of(pool.features), 1):
        return array
    values = np.asarray(array[:])[:, 0]
    if not np.isin(values, (0, 1)).all():
        return array
    note(f"{spec}: its only column is 0 or 1 for every row of the pool: {int(values.sum())} with 1 count as labelled.")
    return values.astype(np.bool_)


def of_one_embedder(spec: str, found: LabelledInputs, pool: PoolFile) -> LabelledInputs:
    """The same; features of a pool file whose embedder is not the pool's are refused."""
    theirs = open_source(split_spec(spec)[0]).embedder if found.foreign and pool.source.embedder else ""
    if theirs and theirs != pool.source.embedder:
        raise InvalidData(
            f"{spec} was embedded by {theirs} and {pool.source.path} by {pool.source.embedder}",
            mend="embed both with one embedder: distances between them mean nothing.",
        )
    return found


def as_labelled(array: Matrix, pool: PoolFile) -> LabelledInputs:
    """1-D names rows of the pool, 2-D holds features; nothing at all is nothing labelled."""
    if len(array.shape) == 1:
        return LabelledInputs(check_rows("labelled", np.asarray(array[:]), len_of(pool.features), pool.names))
    return LabelledInputs(NOTHING.rows, (array,) if len_of(array) else ())


def own_rows(pool: PoolFile, note: Note) -> LabelledInputs:
    """What the pool's own file says is labelled: rows, a mask, or a mask of what is not."""
    for role in OWN_ROLES:
        name = usual_name(pool.source, role)
        if name is None or name in pool.feature_names:
            continue
        if pool.source.is_table and pool.source.entry(name).ndim == 1:
            return own_mask(pool, role, name, note)
        found = find_array(pool.source, role)
        if found is not None and role == "labelled":
            return as_labelled(found, pool)
        if found is not None:
            return rows_but(pool, check_rows(role, found, len_of(pool.features), pool.names))
    return NOTHING


def own_mask(pool: PoolFile, role: str, name: str, note: Note) -> LabelledInputs:
    """What a column of the pool's own table says is labelled, or is not, row by row."""
    source, n = pool.source, len_of(pool.features)
    said = NameTable(source.path, {name: source.entry(name).values}).truths(name)
    rows = np.flatnonzero(said == (role == "labelled"))
    note(f"{source.path}: {len(rows)} of {n} rows are labelled, by {name}; --ignore-columns {name} for none.")
    return LabelledInputs(rows)


def rows_but(pool: PoolFile, free: IntArray) -> LabelledInputs:
    """All rows but these."""
    return LabelledInputs(np.setdiff1d(np.arange(len_of(pool.features)), free))


def own_labels(pool: PoolFile, rows_named: LabelledInputs, columns: Columns, note: Note) -> LabelledInputs:
    """Rows of a pool's own file that have a label; where all have one, the rows that it names as labelled decide."""
    source, n = pool.source, len_of(pool.features)
    name = columns.label if columns.label in source.names else usual_name(source, "labels")
    if name is None or name in pool.feature_names or source.entry(name).ndim != 1:
        return NOTHING
    values = source.entry(name).values()
    if len(values) != n:
        return NOTHING  # An archive may hold the names of the classes.
    rows = np.flatnonzero(are_labels(f"{source.path} ({name})", values, columns.no_label))
    if len(rows) == n and rows_named is not NOTHING:
        note(f"{source.path}: every row has one of {name}; those named as labelled count as such.")
        return NOTHING
    if len(rows) == n:
        raise InvalidArgument(
            f"every row of {source.path} is labelled ({name}), so that nothing is left to pick",
            mend=f"pass --ignore-columns {name} to pick among them all the same.",
        )
    if len(rows):
        note(f"{source.path}: {len(rows)} of {n} rows have a {name} and count as labelled.")
    return LabelledInputs(rows)
