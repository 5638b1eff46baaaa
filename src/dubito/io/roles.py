"""Read the arrays of a file by their role: features, labeled rows, probabilities, ids and labels."""

from dataclasses import dataclass, field
from typing import overload

import numpy as np

from dubito.errors import InvalidData, MissingFile
from dubito.io.lookup import (
    ANY_COLUMNS,
    DOUBT_ROLES,
    SHAPES,
    Columns,
    DoubtRole,
    MatrixRole,
    NameRole,
    OtherRole,
    Role,
    check_numbers,
    check_role,
    choose_entries,
    excluded_by_name,
    given_or_usual_name,
    read_row_ids,
    usual_name,
)
from dubito.io.opening import open_source, split_spec
from dubito.io.source import Source, as_one_array, note
from dubito.matrix import AnyArray, Matrix, len_of
from dubito.request.columns import IDS, LABELED, find_name
from dubito.request.ids import ArrayWithIds


@dataclass(frozen=True, slots=True, eq=False)
class RowsFile(ArrayWithIds):
    """An array with one entry per row that was read from a file; an argument of `dubito.select`."""

    values: AnyArray
    source: Source = field(kw_only=True)


@dataclass(frozen=True, slots=True, eq=False)
class PoolFile(ArrayWithIds):
    """A pool read from a file: features, ids, and the source for other arrays in the file."""

    source: Source = field(kw_only=True)

    @property
    def features(self) -> Matrix:
        return self.values

    @property
    def feature_names(self) -> tuple[str, ...]:
        """The columns of a table that form the features; empty for a single array."""
        return self.columns

    @property
    def ids(self) -> AnyArray | None:
        return None if self.row_ids.ids is None else self.row_ids.ids.values

    def labels(self, columns: Columns) -> tuple[str, AnyArray] | None:
        """The name and the unparsed values of the labels in the file; None if there are none, or they are features."""
        name = columns.label if columns.label in self.source.names else usual_name(self.source, "labels")
        if name is None or name in self.feature_names or self.source.entry(name).ndim != 1:
            return None
        values = self.source.entry(name).values()
        # An archive may hold the names of the classes instead.
        return (name, values) if len(values) == len_of(self.features) else None


def read_pool(spec: str, *, columns: Columns = ANY_COLUMNS, may_be_empty: bool = False) -> PoolFile:
    r"""Read the pool's features and ids.

    Parameters
    ----------
    spec : str
        ``path`` or ``path::key``; see `read_array`.
    columns : Columns
        ``id`` is the column of ids; by default ``ids`` or ``id`` if the file has one, else the index of a pandas frame
        if it is not just row numbers.
    may_be_empty : bool
        Whether a file without rows is allowed, such as one of many shards.

    Returns
    -------
    PoolFile
        Its ``source`` can be passed to `find_array` and `find_doubt`: an ``.npz`` may also hold probabilities.

    Examples
    --------
    >>> import os, tempfile
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     path = os.path.join(folder, "pool.csv")
    ...     with open(path, "w") as file:
    ...         _ = file.write("id,x,y\na,0,1\nb,2,3\n")
    ...     pool = read_pool(path)
    >>> pool.ids.tolist(), pool.features.tolist()
    (['a', 'b'], [[0.0, 1.0], [2.0, 3.0]])
    """
    path, key = split_spec(spec)
    source = open_source(path).without(columns.ignore)
    if columns.id is not None and columns.id not in source.entries:
        id_column = find_name([name for name in source.names if name], IDS)
        if id_column is not None:
            hint = f"leave the option out, or rename {id_column!r} to {columns.id!r}."
            problem = f"{source.path} has no {source.noun} {columns.id!r}, and its ids are in {id_column!r}"
            raise MissingFile(problem, hint=hint)
        source.entry(columns.id)  # Raises with the closest name.
    features = _read(source, "features", key, columns)
    if not len_of(features) and not may_be_empty:
        raise InvalidData(f"{spec} holds no rows", hint="a pool needs at least one.")
    names = read_row_ids(source, columns.id, len_of(features))
    chosen = choose_entries(source, "features", key, columns)
    has_columns = source.is_table and source.entry(chosen[0]).ndim == 1
    return PoolFile(features, names, tuple(chosen) if has_columns else (), source=source)


def read_rows(spec: str, role: DoubtRole, *, columns: Columns = ANY_COLUMNS) -> RowsFile:
    r"""Read an array with one entry per pool row, and the ids of the rows.

    Parameters
    ----------
    spec : str
        ``path`` or ``path::key``; see `read_array`.
    role : {"probabilities", "logits", "doubt"}
        The role of the array.
    columns : Columns
        As in `read_pool`, but this file may lack the id column.

    Examples
    --------
    >>> import os, tempfile
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     path = os.path.join(folder, "doubt.csv")
    ...     with open(path, "w") as file:
    ...         _ = file.write("id,doubt\nb,0.5\na,0.25\n")
    ...     found = read_rows(path, "doubt")
    >>> found.values.tolist(), found.row_ids.ids.values.tolist()
    ([0.5, 0.25], ['b', 'a'])
    """
    path, key = split_spec(spec)
    source = open_source(path).without(columns.ignore)
    values = as_one_array(_read(source, role, key, columns))
    names = read_row_ids(source, columns.id, len(values))
    return RowsFile(values, names, *class_names(source, role, key, columns), source=source)


MAX_SHOWN_CLASSES = 10
"""Classes that a note lists."""


def class_names(
    source: Source, role: DoubtRole, key: str | None, columns: Columns
) -> tuple[tuple[str, ...], tuple[str, ...]]:
    """The columns of a table that are classes, with and without the prefix of their pattern; also notes which they are.

    Empty for one column, such as a column of lists.
    """
    names = choose_entries(source, role, key, columns) if source.is_table and role != "doubt" else []
    is_named = role == "probabilities" and len(columns.probabilities) > 0
    omitted: list[str] = []
    if key is None and not is_named and names and source.entry(names[0]).ndim == 1:
        omitted = [name for name in excluded_by_name(source, role, columns) if name not in names]
    if len(names) > 1:
        shown = ", ".join(names[:MAX_SHOWN_CLASSES]) + (", ..." if len(names) > MAX_SHOWN_CLASSES else "")
        note(f"{role} of {len(names)} classes: {shown}")
    if omitted:
        note(f"{source.path}: left out {', '.join(omitted)}; rename it if it belongs to a class.")
    if len(names) < 2:
        return (), ()
    prefixes = [pattern.removesuffix("*") for pattern in columns.probabilities if pattern.endswith("*")]
    short = (next((name.removeprefix(each) for each in prefixes if name.startswith(each)), name) for name in names)
    return tuple(names), tuple(short)


@overload
def read_array(spec: str | Source, role: MatrixRole, *, columns: Columns = ...) -> Matrix: ...
@overload
def read_array(spec: str | Source, role: DoubtRole | NameRole | OtherRole, *, columns: Columns = ...) -> AnyArray: ...


def read_array(spec: str | Source, role: Role, *, columns: Columns = ANY_COLUMNS) -> Matrix:
    """Read the array that has a role.

    A key (``file.npz::key``, ``table.parquet::column``) takes precedence, then the conventional names of the role, then
    the only array that fits the role. In a table without a column of lists, features, probabilities and logits are all
    number columns except those with the conventional name of another role. ``labeled`` also accepts features of labeled
    points, and a file of picks, whose rows are returned.

    Parameters
    ----------
    spec : str or Source
        ``path`` or ``path::key``, or the result of `open_source`.
    role : {"features", "labeled", "probabilities", "logits", "doubt", "ids", "labels", "head", "candidates", ...}
        The role of the array; the last is "unlabeled".
    columns : Columns
        Names given by the user.

    Returns
    -------
    array, memory map or Stack
        A Stack (shards, Parquet row groups) only for ``features`` and ``labeled``.

    Examples
    --------
    >>> import os, tempfile
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     path = os.path.join(folder, "model.npz")
    ...     np.savez(path, doubt=np.array([0.5, 0.25]), ids=np.array([7, 9]))
    ...     read_array(path, "doubt").tolist(), read_array(path + "::ids", "labels").tolist()
    ([0.5, 0.25], [7, 9])
    """
    if isinstance(spec, Source):
        return _read(spec, role, None, columns)
    path, key = split_spec(spec)
    return _read(open_source(path).without(columns.ignore), role, key, columns)


@overload
def find_array(source: Source, role: MatrixRole, *, columns: Columns = ...) -> Matrix | None: ...
@overload
def find_array(
    source: Source, role: DoubtRole | NameRole | OtherRole, *, columns: Columns = ...
) -> AnyArray | None: ...


def find_array(source: Source, role: Role, *, columns: Columns = ANY_COLUMNS) -> Matrix | None:
    """Read the array of a role if the file has it under a conventional name (or one in `columns`), else None.

    For optional arrays in the file of a pool.

    Examples
    --------
    >>> import os, tempfile
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     path = os.path.join(folder, "pool.npz")
    ...     np.savez(path, features=np.zeros((2, 3)), labeled=np.array([1]))
    ...     source = open_source(path)
    ...     find_array(source, "labeled").tolist(), find_array(source, "labels")
    ([1], None)
    """
    name = given_or_usual_name(source, role, columns)
    return None if name is None else _read(source, role, name, columns)


def find_doubt(source: Source, *, columns: Columns = ANY_COLUMNS) -> tuple[DoubtRole, AnyArray] | None:
    """The first of ``probabilities``, ``logits`` and ``doubt`` that a file holds under that name, else None.

    Columns of probabilities named in `columns` come first.

    Examples
    --------
    >>> import os, tempfile
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     path = os.path.join(folder, "pool.npz")
    ...     np.savez(path, features=np.zeros((2, 3)), doubt=np.array([0.5, 1.0]))
    ...     find_doubt(open_source(path))
    ('doubt', array([0.5, 1. ]))
    """
    if columns.probabilities:
        return "probabilities", read_array(source, "probabilities", columns=columns)
    for role in DOUBT_ROLES:
        found = find_array(source, role)
        if found is not None:
            return role, found
    return None


def _read(source: Source, role: Role, key: str | None, columns: Columns) -> Matrix:
    chosen = choose_entries(source, role, key, columns)
    entry = source.entry(chosen[0])
    # A column of a table holds rows of the pool only if its name or the key says so: it may also be a single feature.
    is_named = role == "labeled" and (key is not None or chosen[0].lower() in (*LABELED, "index"))
    is_rows = is_named or role in ("candidates", "unlabeled")
    is_several_columns = 2 in SHAPES[role][0] and (entry.ndim == 1 or len(chosen) > 1)
    if source.columns is not None and is_several_columns and not is_rows:
        for name in chosen:
            check_numbers(source, name, role)
        return source.columns(chosen)
    check_role(source, chosen[0], entry, role)
    if role in ("ids", "labels"):
        names = entry.names()
        if names.dtype.kind == "f" and not _are_whole(names):
            hint = "ids and labels must be integers or text."
            raise InvalidData(f"{source.noun} {chosen[0]!r} of {source.path} holds fractions or NaN", hint=hint)
        return names.astype(np.int64) if names.dtype.kind == "f" else names
    if is_rows and entry.content == "text":
        return entry.names()
    array = entry.read()
    if is_rows and source.is_table and entry.ndim == 1:
        rows = as_one_array(array)  # Row numbers or a mask; CSV has no integers.
        return rows.astype(np.int64) if rows.dtype.kind == "f" and _are_whole(rows) else rows
    return array if role in ("features", "labeled") else as_one_array(array)


def _are_whole(values: AnyArray) -> bool:
    return bool((np.isfinite(values) & (values == np.round(values))).all())
