"""Read the files of one call of `dubito.select` or `dubito.diagnose` into its arguments."""

import os
from collections import Counter
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np

from dubito.errors import InvalidArgument, InvalidData, MissingFile, name_files_in_errors
from dubito.io.column_notes import describe_features, describe_list_column
from dubito.io.labeled import (
    LabeledInputs,
    note_similar_classes,
    read_labeled,
    read_labels,
    rows_marked_in_pool,
    rows_with_labels_in_pool,
)
from dubito.io.lookup import DOUBT_ROLES, Columns, index_columns, read_row_ids
from dubito.io.missing_values import Missing, fill_or_drop_missing
from dubito.io.opening import OPENERS, open_source, split_spec
from dubito.io.roles import PoolFile, RowsFile, class_names, find_doubt, read_pool, read_rows
from dubito.io.source import Source, as_one_array, did_you_mean, matches_pattern, note, suffix_of
from dubito.matrix import AnyArray, IntArray, Matrix, Rows, len_of
from dubito.request.columns import IDS, find_name, refuse_two_sources
from dubito.request.ids import ArrayWithIds, matching_ids, order_of
from dubito.request.labels import EMPTY, label_keys
from dubito.request.rows import describe_order

LIST_SUFFIXES = (".txt",)
"""Plain lists of names, which have no columns."""


@dataclass(frozen=True, slots=True, eq=False)
class Inputs:
    """What the files of one call contain."""

    pool: PoolFile
    columns: Columns
    labeled: LabeledInputs
    per_row: Mapping[str, RowsFile]
    """Arrays with a row for each row of the pool, by argument: the model's doubt, costs, classes, groups."""
    files: Mapping[str, str]
    """The file that each argument came from, for error messages."""
    kept: IntArray | None = None
    """Rows of the pool file that are in the pool, ascending; None for all."""
    labels: Mapping[int, str] = field(default_factory=dict)
    """Labels by row, if they were read."""
    candidates: IntArray | None = None
    """Rows that may be picked; None for all unlabeled ones."""

    def describe_row(self, row: int) -> str:
        """The name of a row in error messages: its id, and its row number in the pool file."""
        number, ids = row if self.kept is None else int(self.kept[row]), self.pool.row_ids.ids
        return f"row {number}" if ids is None else f"id {ids.shown([row])} (row {number} of the pool)"

    def positions_of(self, rows: IntArray) -> IntArray:
        """The positions in the pool of rows of the pool file; rows that were left out are skipped."""
        return rows if self.kept is None else np.searchsorted(self.kept, rows[np.isin(rows, self.kept)])

    def arguments(self) -> dict[str, Any]:
        """The arguments of `dubito.select` in the files, except the pool."""
        all_rows, outside = np.arange(len_of(self.pool.features)), self.labeled.outside
        labels: AnyArray | None = None
        if self.labels:  # In the order of the labeled points.
            rows = self.labeled.rows if outside else all_rows
            known = [self.labels.get(row) for row in rows.tolist()]
            labels = np.array([None] * sum(map(len_of, outside)) + known, dtype=object)
        candidates: ArrayWithIds | None = None
        excluded = self.labeled.rows if outside else self.labeled.rows[:0]
        if self.candidates is not None or len(excluded):
            allowed = all_rows if self.candidates is None else self.candidates
            # A mask, because row numbers could be mistaken for ids.
            mask = np.isin(all_rows, allowed) & ~np.isin(all_rows, excluded)
            candidates = ArrayWithIds(mask, self.pool.row_ids)
        return {
            "labeled": self.labeled.argument(self.pool),
            "labels": labels,
            "no_label": EMPTY,
            "candidates": candidates,
            **self.per_row,
        }


def read_inputs(
    pool: str,
    labeled: Sequence[str] | None,
    specs: Mapping[str, str | None],
    columns: Columns,
    *,
    allow_all_labeled: bool = False,
) -> Inputs:
    """Read the pool, the labeled rows, and arrays with a row for each row of the pool, by argument.

    If every row has a label, nothing is left to pick, which is an error unless ``allow_all_labeled``. Doubt that is not
    named is looked up in the pool file; so are labeled rows, which are added to those named. `gathering_notes` collects
    the notes.
    """
    given = {role: spec for role, spec in specs.items() if spec is not None}
    refuse_two_sources([role for role in given if role in DOUBT_ROLES])
    pool_columns = [spec for role, spec in given.items() if role in USUAL_COLUMNS and not is_file(spec)]
    columns = replace(columns, claimed=[*columns.claimed, *pool_columns])
    if columns.ignore:
        specs_read = [spec for spec in given.values() if spec not in pool_columns]
        check_ignored([pool, *specs_read, *(labeled or [])], columns.ignore)
    pool_file = read_pool(pool, columns=columns)
    source = pool_file.source
    rows = {role: _read_role(role, spec, pool_file, columns) for role, spec in given.items()}
    files = {role: f"{pool}::{spec}" if spec in pool_columns else spec for role, spec in given.items()}
    if not any(role in given for role in DOUBT_ROLES) and (found := find_doubt(source, columns=columns)):
        role, values = found
        names = class_names(source, role, None, columns)
        rows[role], files[role] = RowsFile(values, pool_file.row_ids, *names, source=source), pool
    if pool_file.feature_names:
        note(*describe_features(pool_file, columns))
    elif source.is_table:
        note(*describe_list_column(pool_file, pool, columns))
    files |= {"pool": pool, "labeled": ", ".join(labeled or [pool])}
    if source.is_table and not labeled and columns.label is not None:
        source.entry(columns.label)  # Raises if there is no such column.
    marked = rows_marked_in_pool(pool_file)
    with_label = rows_with_labels_in_pool(pool_file, marked, columns, allow_all_labeled=allow_all_labeled)
    found_labeled = marked.joined(with_label)
    for spec in labeled or []:
        with name_files_in_errors({"labeled": spec}):
            found_labeled = found_labeled.joined(read_labeled(spec, pool_file, columns))
    return Inputs(pool_file, columns, found_labeled, rows, files)


def check_ignored(specs: Sequence[str], patterns: Sequence[str]) -> None:
    """Raise if ``--ignore-columns`` names a column that no file has."""
    readable = [path for path in (split_spec(spec)[0] for spec in specs) if suffix_of(path) not in LIST_SUFFIXES]
    names = {name for path in readable for name in open_source(path).names}
    for pattern in patterns:
        if not any(matches_pattern(name, pattern) for name in names):
            hint = f"{did_you_mean(pattern, names)} there are {', '.join(sorted(filter(None, names)))}.".strip()
            raise MissingFile(f"--ignore-columns {pattern}: no file has such a column", hint=hint)


def with_labels(found: Inputs, specs: Sequence[str]) -> Inputs:
    """Add the label of every labeled row; ``specs`` are the files of labeled rows."""
    if not len(found.labeled.rows):
        return found
    labels = read_labels(found.pool, specs, found.columns)
    note_similar_classes(labels.values())
    return replace(found, labels=labels)


# Costs, classes and groups, from a file of their own or from a column of the pool.

USUAL_COLUMNS = {
    "costs": ("cost", "costs", "price", "prices"),
    "classes": ("class", "classes", "predicted", "prediction"),
    "groups": ("group", "groups"),
}
"""Default column names in a separate file. A column of the pool is used only if it is named."""


def is_file(spec: str) -> bool:
    """Whether the value names a file rather than a column of the pool.

    Examples
    --------
    >>> is_file("costs.csv"), is_file("pool.npz::cost"), is_file("cost")
    (True, True, False)
    """
    return "::" in spec or os.path.exists(spec) or suffix_of(spec) in OPENERS


def _only_column(role: str, source: Source, columns: Columns) -> str:
    """The only 1-D column apart from ids; raises if there is none or more than one."""
    id_columns = {columns.id, find_name(source.names, IDS), *index_columns(source)}
    others = [name for name, entry in source.entries.items() if name not in id_columns and entry.ndim == 1]
    if len(others) != 1:
        problem = f"{source.path} has no {source.noun} called {' or '.join(USUAL_COLUMNS[role])}"
        hint = f"name one with {source.path}::NAME; it holds {source.listing()}."
        raise MissingFile(problem, hint=hint)
    return others[0]


def _read_column(role: str, source: Source, name: str) -> AnyArray:
    entry = source.entry(name)
    described = f"{source.noun} {name!r} of {source.path}" if name else source.path
    if entry.ndim != 1:
        raise InvalidData(f"{described} is {entry.summary}, but {role} are one per row.")
    if role in ("classes", "groups"):
        return entry.names()
    if entry.content != "numbers":
        raise InvalidData(f"{described} is {entry.summary}, but {role} are numbers.")
    return as_one_array(entry.read())


def _read_role(role: str, spec: str, pool: PoolFile, columns: Columns) -> RowsFile:
    """An array with one row for each row of the pool: doubt, costs, classes or groups."""
    for doubt in DOUBT_ROLES:
        if role == doubt:
            return read_rows(spec, doubt, columns=columns)
    if not is_file(spec):
        return RowsFile(_read_column(role, pool.source, spec), pool.row_ids, source=pool.source)
    path, key = split_spec(spec)
    source = open_source(path).without(columns.ignore)
    name = key or find_name(source.names, USUAL_COLUMNS[role]) or _only_column(role, source, columns)
    values = _read_column(role, source, name)
    return RowsFile(values, read_row_ids(source, columns.id, len(values)), source=source)


def read_prices(spec: str, group_column: str) -> dict[str, float] | None:
    """The price of each group, if the file of costs names groups instead of rows."""
    if not is_file(spec):
        return None
    path, key = split_spec(spec)
    source = open_source(path)
    group = find_name(source.names, (group_column, *USUAL_COLUMNS["groups"], "path"))
    if group is None or key == group or find_name(source.names, IDS) or index_columns(source):
        return None
    name = (
        key
        or find_name(source.names, USUAL_COLUMNS["costs"])
        or _only_column("costs", source.without([group]), Columns())
    )
    groups, prices = label_keys(source.entry(group).values()), _read_column("costs", source, name).tolist()
    if "" in groups:
        problem = f"{path} has a price without a {group} in row {groups.index('')}"
        raise InvalidData(problem, hint="fill it in, or leave the row out.")
    repeated = next((each for each, count in Counter(groups).items() if count > 1), None)
    if repeated is not None:
        problem = f"{path} has more than one price of the {group} {repeated!r}"
        raise InvalidData(problem, hint="keep one price for each, or add a column of ids if these are costs of rows.")
    return dict(zip(groups, prices, strict=True))


# Missing features are filled in, or their rows are left out.


def handle_missing(found: Inputs, missing: Missing | None) -> Inputs:
    """Fill in missing features, or leave out their rows, or raise.

    Rows that are left out are not in the pool: they are neither picked nor used as references or for statistics.
    """
    pool = found.pool
    cleaned = fill_or_drop_missing(pool.source.path, pool.features, pool.feature_names, missing)
    if cleaned.note is not None:
        note(cleaned.note)
    kept = cleaned.rows
    if kept is None:
        return replace(found, pool=replace(pool, values=cleaned.features))
    smaller = _keep(found, kept, cleaned.features)
    n_dropped = len(found.labeled.rows) - len(smaller.labeled.rows)
    if n_dropped:
        note(f"{n_dropped} of the rows left out were labeled; their labels are ignored")
    return smaller


def leave_out(found: Inputs, rows: Collection[int]) -> Inputs:
    """The inputs without some rows of the pool file, and without their labels; before `handle_missing`."""
    if not rows:
        return found
    features = found.pool.features
    kept = np.setdiff1d(np.arange(len_of(features)), list(rows))
    return _keep(found, kept, Rows(features, kept))


def _keep(found: Inputs, kept: IntArray, features: Matrix) -> Inputs:
    """The inputs with only these rows of the pool, ascending, and their features."""
    pool, numbers = found.pool, kept if found.kept is None else found.kept[kept]
    smaller = replace(found, pool=replace(pool, values=features, row_ids=pool.row_ids.at(kept)), kept=numbers)
    positions = {int(row): position for position, row in enumerate(kept.tolist())}

    def kept_positions(rows: IntArray) -> IntArray:
        return np.searchsorted(kept, rows[np.isin(rows, kept)])

    return replace(
        smaller,
        labeled=replace(found.labeled, rows=kept_positions(found.labeled.rows)),
        per_row={role: _kept_rows(role, each, pool, smaller, kept) for role, each in found.per_row.items()},
        labels={positions[row]: label for row, label in found.labels.items() if row in positions},
        candidates=None if found.candidates is None else kept_positions(found.candidates),
    )


def _kept_rows(role: str, found: RowsFile, pool: PoolFile, smaller: Inputs, kept: IntArray) -> RowsFile:
    """The kept rows of an array, in the order of the pool; its file need not contain the rows that are left out."""
    n_rows = len_of(pool.features)
    note(*describe_order(pool.row_ids, n_rows, **{role: found}))
    pair = None if found.row_ids is pool.row_ids else matching_ids(found.row_ids, pool.row_ids)
    if pair is not None:
        absent = [row for row, key in enumerate(pair.pool.keys) if key not in pair.theirs.row_of_key]
        needed = np.setdiff1d(np.arange(n_rows), np.setdiff1d(np.array(absent, dtype=np.int64), kept))
        order = order_of(pair.theirs, pair.pool.at(needed))[np.searchsorted(needed, kept)]
    elif len_of(found.values) != n_rows:
        problem = f"has {len_of(found.values)} rows and the pool {n_rows}"
        hint = "pass one row for each row of the pool, including rows with missing features."
        raise InvalidArgument(problem, argument=role, hint=hint)
    else:
        order = kept
    return replace(found, values=found.values[order], row_ids=smaller.pool.row_ids)
