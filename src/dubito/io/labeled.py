"""Read labeled rows and their labels from any supported file.

Typical use: the user adds a label column to ``picks.csv`` and passes ``--labeled picks.csv``. Rows are matched by
id if the pool has ids, else by ``index``; rows with an empty label do not count.
"""

import re
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Literal, NamedTuple
from urllib.parse import unquote

import numpy as np

from dubito.errors import DubitoError, InvalidArgument, InvalidData, MissingFile, by_interface
from dubito.io.lookup import Columns, usual_name
from dubito.io.name_tables import (
    BOOLEANS,
    NameTable,
    can_name_rows,
    named_rows,
    note_conflict,
    note_numbers,
    note_order,
    read_table,
    text_columns,
    unknown_ids,
    unnamed_rows,
)
from dubito.io.opening import open_source, split_spec
from dubito.io.roles import PoolFile, find_array, read_array
from dubito.io.source import note
from dubito.matrix import AnyArray, BoolArray, IntArray, Matrix, Rows, Stack, len_of
from dubito.request.arrays import different_widths
from dubito.request.columns import DRAWN, LABELED, find_name
from dubito.request.ids import ArrayWithIds
from dubito.request.labels import PLAIN_INTEGER, are_labels, label_keys
from dubito.request.rows import check_rows

# Detection of a pool that was reordered since the picks were written.

DISPLAY_COLUMNS = ("text", "path")
"""Columns that identify an item to people."""
MAX_QUOTED = 40
"""Maximum number of characters of a text in a message."""


def check_same_rows(table: NameTable, rows: IntArray, kept: BoolArray, pool: PoolFile, columns: Columns) -> None:
    """Raise if a text column in both files differs for a row: the table was written for another pool.

    Both files are opened again, to see columns that ``--ignore-columns`` ignores as features.
    """
    if table.is_list or not pool.source.is_table:
        return
    source, theirs = open_source(pool.source.path), open_source(table.path)
    for name in text_columns(source, columns):
        if name not in theirs.names or theirs.entry(name).ndim != 1:
            continue
        ours, others = source.entry(name).values(), theirs.entry(name).values()
        # A column of classes or notes cannot identify rows: most rows must have a unique value.
        identifies_rows = name in DISPLAY_COLUMNS or len({*label_keys(ours)} - {""}) > len(ours) / 2
        if len(others) != len(kept) or not identifies_rows:
            continue
        pairs = zip(rows.tolist(), _texts(others[kept]), _texts(ours[rows]), strict=True)
        # Texts may differ by a prefix, such as a URL before a path.
        different = [each for each in pairs if all(each[1:]) and not unquote(each[1]).endswith(unquote(each[2]))]
        if different:
            raise _reordered_pool_error(table, name, different, pool)


def _reordered_pool_error(
    table: NameTable, name: str, different: list[tuple[int, str, str]], pool: PoolFile
) -> InvalidData:
    row, theirs, ours = different[0]
    ids = pool.row_ids.ids
    where = f"row {row}" if ids is None else f"id {ids.shown([row])}"
    more = f", and {len(different) - 1} more differ{'s' * (len(different) == 2)}" if len(different) > 1 else ""
    return InvalidData(
        f"{table.path} has {name} {_short(theirs)} and {pool.source.path} has {_short(ours)} for {where}{more}",
        hint="the pool was sorted or rebuilt: give it ids, or use the pool that the picks came from; "
        f"if only the {name} was changed, remove that column from {table.path}.",
    )


def _texts(values: AnyArray) -> list[str]:
    return [" ".join(text.split()) for text in label_keys(values)]


def _short(text: str) -> str:
    return repr(text if len(text) <= MAX_QUOTED else f"{text[: MAX_QUOTED - 3]}...")


@dataclass(frozen=True, slots=True)
class LabeledInputs:
    """Labeled rows of the pool, and features of labeled points outside the pool."""

    rows: IntArray
    outside: tuple[Matrix, ...] = ()

    def joined(self, other: "LabeledInputs") -> "LabeledInputs":
        return LabeledInputs(np.union1d(self.rows, other.rows), self.outside + other.outside)

    def argument(self, pool: PoolFile) -> object:
        """The ``labeled`` argument of `dubito.select`; with features among it, the caller must exclude `rows`."""
        if not self.outside and not len(self.rows):
            return None
        if not self.outside:
            return ArrayWithIds(np.isin(np.arange(len_of(pool.features)), self.rows), pool.row_ids)
        parts = [*self.outside, *([Rows(pool.features, self.rows)] if len(self.rows) else [])]
        for part in parts:
            if part.shape[1] != pool.features.shape[1]:
                raise different_widths(part.shape[1], pool.features.shape[1])
        return parts[0] if len(parts) == 1 else Stack(parts)


MASK_ROLES: tuple[Literal["labeled", "unlabeled"], ...] = ("labeled", "unlabeled")
"""Roles of columns in the pool file that mark labeled rows, by precedence."""
NO_ROWS = LabeledInputs(np.empty(0, dtype=np.int64))


def read_labeled(spec: str, pool: PoolFile, columns: Columns) -> LabeledInputs:
    """Read one file: rows by id or index, row numbers, a mask, or features."""
    table = read_table(spec, columns, pool)
    if table is None or not can_name_rows(table, pool, columns):
        return read_unnamed(spec, table, pool, columns)
    elsewhere = pool.source.is_table and columns.label in pool.source.names
    kept = table.labeled(columns, elsewhere=elsewhere, known=pool.source.names)
    note_conflict(table, pool, columns, kept)
    note_numbers(table, pool, columns)
    rows = named_rows(table, pool, columns, kept)
    if rows is None:
        return NO_ROWS
    check_same_rows(table, rows, kept, pool, columns)
    return LabeledInputs(np.unique(rows))


def read_unnamed(spec: str, table: NameTable | None, pool: PoolFile, columns: Columns) -> LabeledInputs:
    """Read a file that does not name rows of the pool: an array, or a table of features."""
    try:
        mask = None if table is None else table.mask(len_of(pool.features))
        array = read_array(spec, "labeled", columns=columns) if mask is None else mask
        if table is not None and not len_of(array):
            raise MissingFile(f"{spec} holds nothing that names rows", hint="give it a column id or index.")
        if table is not None:
            array = mask_of_column(spec, array, pool)
            if len(array.shape) == 2 and array.shape[1] != pool.features.shape[1]:
                raise different_widths(array.shape[1], pool.features.shape[1])
        note_order(spec, array, pool)
        found = check_embedder(spec, as_labeled(array, pool), pool)
    except DubitoError as error:
        id_column = None if table is None else table.id_column(columns.id)
        if table is None or (id_column is None and (not table.header or find_name(table.header, LABELED))):
            raise
        if id_column is None:
            raise unnamed_rows(table, pool, columns) from error
        raise unknown_ids(split_spec(spec)[0], id_column) from error
    label = None if table is None else table.label_column(columns.label, elsewhere=True)
    if found.outside and label is not None:
        note(f"{spec}: features without an id or index are points outside the pool; their {label} is not used.")
    return found


def mask_of_column(spec: str, array: Matrix, pool: PoolFile) -> Matrix:
    """Treat a table's only column as a mask if it holds 0 or 1 for every row of the pool."""
    if array.shape != (len_of(pool.features), 1):
        return array
    values = np.asarray(array[:])[:, 0]
    if not np.isin(values, (0, 1)).all():
        return array
    note(f"{spec}: its only column is 0 or 1 for every row of the pool: {int(values.sum())} with 1 count as labeled.")
    return values.astype(np.bool_)


def check_embedder(spec: str, found: LabeledInputs, pool: PoolFile) -> LabeledInputs:
    """Raise if the features were computed by another embedder than the pool's."""
    theirs = open_source(split_spec(spec)[0]).embedder if found.outside and pool.source.embedder else ""
    if theirs and theirs != pool.source.embedder:
        problem = f"{spec} was embedded by {theirs} and {pool.source.path} by {pool.source.embedder}"
        raise InvalidData(problem, hint="embed both with one embedder: distances between them have no meaning.")
    return found


def as_labeled(array: Matrix, pool: PoolFile) -> LabeledInputs:
    """1-D arrays name rows of the pool, 2-D arrays hold features."""
    if len(array.shape) == 1:
        return LabeledInputs(check_rows("labeled", np.asarray(array[:]), len_of(pool.features), pool.row_ids))
    return LabeledInputs(NO_ROWS.rows, (array,) if len_of(array) else ())


def rows_marked_in_pool(pool: PoolFile) -> LabeledInputs:
    """The labeled rows given in the pool file: row numbers, a mask, or a mask of the unlabeled rows."""
    source, n = pool.source, len_of(pool.features)
    for role in MASK_ROLES:
        name = usual_name(source, role)
        if name is None or name in pool.feature_names:
            continue
        if source.is_table and source.entry(name).ndim == 1:
            mask = NameTable(source.path, {name: source.entry(name).values}).booleans(name)
            rows = np.flatnonzero(mask == (role == "labeled"))
            ignore = f"pass --ignore-columns {name} to ignore it"
            note(f"{source.path}: {len(rows)} of {n} rows are labeled, by {name}; {ignore}.")
            return LabeledInputs(rows)
        found = find_array(source, role)
        if found is not None and role == "labeled":
            return as_labeled(found, pool)
        if found is not None:
            return LabeledInputs(np.setdiff1d(np.arange(n), check_rows(role, found, n, pool.row_ids)))
    return NO_ROWS


def rows_with_labels_in_pool(
    pool: PoolFile, marked: LabeledInputs, columns: Columns, *, allow_all_labeled: bool = False
) -> LabeledInputs:
    """The rows of the pool file with a label.

    If every row has one, the rows that are ``marked`` as labeled count instead; if none are marked, that is an error
    unless ``allow_all_labeled``.
    """
    found, source, n = pool.labels(columns), pool.source, len_of(pool.features)
    if found is None:
        return NO_ROWS
    name, values = found
    rows = np.flatnonzero(are_labels(f"{source.path} ({name})", values, columns.no_label))
    if len(rows) == n and marked is not NO_ROWS:
        note(f"{source.path}: every row has a label ({name}); only the rows named as labeled count.")
        return NO_ROWS
    check_classes_repeat(source.path, name, values[rows], n)
    if len(rows) == n and not allow_all_labeled:
        problem = f"every row of {source.path} is labeled ({name}), so nothing is left to pick"
        raise InvalidArgument(problem, hint=f"pass --ignore-columns {name} to pick among them anyway.")
    if len(rows):
        note(f"{source.path}: {len(rows)} of {n} rows have a {name} and count as labeled.")
    return LabeledInputs(rows)


# Labels from files, used to fit a model.

FEWEST_LABELS = 20
"""With fewer labels, all may be different by chance."""
AS_LABELS = by_interface("Columns(label=...)", command="--label-column", toml="label_column")


def check_classes_repeat(path: str, name: str, labels: AnyArray, n_pool: int) -> None:
    """Raise if all labels of the pool are different, as ids are; only note it if some rows are unlabeled."""
    if len(set(label_keys(labels))) == len(labels) >= FEWEST_LABELS:
        problem = f"all {len(labels):,} labels in {name!r} of {path} are different, and a class has several rows"
        hint = f"name another column with {AS_LABELS}"
        if len(labels) == n_pool:
            raise InvalidData(problem, hint=f"{hint}.")
        note(f"{problem}; {hint} if they are not classes.")


SURROUNDING = re.compile(r"^[\W_]+|[\W_]+$")
"""Whitespace and punctuation around a name."""
MAX_SIMILAR = 5
"""Groups of similar class names that a note lists."""


def note_similar_classes(labels: Iterable[str]) -> None:
    """Print a note about class names that differ only in case or in surrounding punctuation."""
    similar: dict[str, dict[str, int]] = {}
    for label, n in sorted(Counter(labels).items()):
        bare = "" if PLAIN_INTEGER.fullmatch(label) else SURROUNDING.sub("", label).casefold()
        similar.setdefault(bare or label, {})[label] = n
    pairs = [" and ".join(f"{name!r} ({n})" for name, n in each.items()) for each in similar.values() if len(each) > 1]
    if pairs:
        shown = "; ".join(pairs[:MAX_SIMILAR]) + ("; ..." if len(pairs) > MAX_SIMILAR else "")
        note(f"classes that differ only in case or punctuation: {shown}. Use one spelling if they are one class.")


class SourcedLabel(NamedTuple):
    """A label, and the file and column it comes from."""

    label: str
    path: str
    column: str


def read_labels(pool: PoolFile, specs: Sequence[str], columns: Columns) -> dict[int, str]:
    """The label of every labeled row, from the pool's file and the tables in ``specs``; raises if they disagree."""
    found = _labels_in_pool(pool, columns)
    for spec in specs:
        table = read_table(spec, columns, pool)
        if table is None or not can_name_rows(table, pool, columns):
            continue
        labels_here = _labels_in_table(table, pool, columns)
        _refuse_contradictions(found, labels_here, pool)
        found |= labels_here
    return {row: each.label for row, each in found.items()}


def read_drawn(pool: PoolFile, specs: Sequence[str], columns: Columns) -> dict[int, float]:
    """The rows that were drawn at random, with their probabilities, from a column ``drawn`` of the files in ``specs``.

    1, true and yes mean that all rows were equally probable; 0, false, no and empty cells mean that the row was chosen.
    """
    found: dict[int, float] = {}
    for spec in specs:
        table = read_table(spec, columns, pool)
        name = None if table is None else find_name(table.header, DRAWN)
        if table is None or name is None or not can_name_rows(table, pool, columns):
            continue
        texts = label_keys(table.columns[name]())
        given = np.array([_probability(text, table.path, name) for text in texts])
        kept = given > 0.0
        rows = named_rows(table, pool, columns, kept) if kept.any() else None
        if rows is not None:
            found |= dict(zip(rows.tolist(), given[kept].tolist(), strict=True))
    return found


def _probability(text: str, path: str, name: str) -> float:
    known = BOOLEANS.get(text.lower() or "no")
    try:
        value = float(text) if known is None else float(known)
    except ValueError:
        value = -1.0
    if not 0.0 <= value <= 1.0:
        hint = "write 1 for rows drawn at random (or their probabilities, from 0 to 1) and 0 for the others."
        raise InvalidData(f"{path} has {text!r} in {name}", hint=hint)
    return value


def _labels_in_table(table: NameTable, pool: PoolFile, columns: Columns) -> dict[int, SourcedLabel]:
    name = table.label_column(columns.label, elsewhere=True)
    if name is None:
        return {}
    values = table.columns[name]()
    kept = are_labels(f"{table.path} ({name})", values, columns.no_label)
    check_classes_repeat(table.path, name, values[kept], len_of(pool.features))
    rows = named_rows(table, pool, columns, kept)
    return {} if rows is None else _sourced_labels(rows, values[kept], table.path, name)


def _labels_in_pool(pool: PoolFile, columns: Columns) -> dict[int, SourcedLabel]:
    found = pool.labels(columns)
    if found is None:
        return {}
    (name, values), path = found, pool.source.path
    rows = np.flatnonzero(are_labels(f"{path} ({name})", values, columns.no_label))
    return _sourced_labels(rows, values[rows], path, name)


def _sourced_labels(rows: IntArray, values: AnyArray, path: str, column: str) -> dict[int, SourcedLabel]:
    labels = [SourcedLabel(label, path, column) for label in label_keys(values)]
    return dict(zip(rows.tolist(), labels, strict=True))


def _refuse_contradictions(
    found: Mapping[int, SourcedLabel], labels_here: Mapping[int, SourcedLabel], pool: PoolFile
) -> None:
    """Raise if two files give different labels for one row."""
    conflicting = [row for row in labels_here if row in found and found[row].label != labels_here[row].label]
    if not conflicting:
        return
    one, other, ids = found[conflicting[0]], labels_here[conflicting[0]], pool.row_ids.ids
    where = f"row {conflicting[0]}" if ids is None else f"id {ids.shown(conflicting[:1])}"
    more = f", and {len(conflicting) - 1} more differ{'s' * (len(conflicting) == 2)}" if len(conflicting) > 1 else ""
    problem = f"{one.path} has {one.column} {one.label!r} and {other.path} has {other.label!r} for {where}{more}"
    raise InvalidData(problem, hint=f"correct one of them{_or_leave_out(one, other, pool)}.")


def _or_leave_out(one: SourcedLabel, other: SourcedLabel, pool: PoolFile) -> str:
    """A hint for ignoring the pool's labels; --ignore-columns would drop both columns if they share a name."""
    if one.path != pool.source.path:
        return ""
    if one.column == other.column:
        return f", or remove {one.column} from {one.path}"
    return f", or pass --ignore-columns {one.column}"
