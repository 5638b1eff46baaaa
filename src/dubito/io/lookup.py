"""Find the array of a file that has a role: by its key, by conventional names, or because only one fits."""

import json
import shlex
from collections.abc import Sequence
from dataclasses import dataclass
from fnmatch import fnmatchcase
from typing import Literal

import numpy as np

from dubito.errors import PASS, InvalidArgument, InvalidData, MissingFile, by_interface
from dubito.io.cells import plain_number_hint
from dubito.io.source import Entry, Source, as_one_array, matches_pattern, natural_order
from dubito.matrix import AnyArray, FloatArray
from dubito.request.columns import (
    CANDIDATES,
    DOUBTS,
    IDS,
    LABELED,
    LABELS,
    UNLABELED,
    could_be_index,
    find_name,
    index_names,
    label_name,
    non_features,
)
from dubito.request.ids import Ids, RowIds

# Columns of probabilities or logits whose names suggest another role

INSPECTED_ROWS = 10_000
SUM_TOLERANCE = 1e-3
INSPECTED_TEXTS = 100
"""Values that are inspected to distinguish texts from class names: most texts have several words."""


def class_columns(source: Source, role: str, free: Sequence[str], ambiguous: Sequence[str]) -> list[str]:
    """The ambiguous columns, such as ``y``, whose values show that they belong to a class.

    For logits these are columns with fractions, since whole numbers look like labels; for probabilities those that
    make the rows sum to 1.
    """
    numbers = [name for name in ambiguous if _holds_numbers(source, name)]
    if source.columns is None or not numbers or not all(_holds_numbers(source, name) for name in free):
        return []
    names = [*free, *numbers]
    sample = np.asarray(source.columns(names)[:INSPECTED_ROWS], dtype=np.float64)
    values = dict(zip(names, sample.T, strict=True))
    finite = {name: values[name][np.isfinite(values[name])] for name in numbers}
    fractions = [name for name in numbers if (finite[name] != np.round(finite[name])).any()]
    if role == "logits":
        is_share = {name: bool(((finite[name] >= 0) & (finite[name] <= 1)).all()) for name in fractions}
        return [name for name in fractions if name.lower() not in DOUBTS or not is_share[name]]
    choices = [[], numbers, fractions, *([name] for name in numbers)]
    return next((added for added in choices if _sum_to_one([values[name] for name in [*free, *added]])), [])


def _holds_numbers(source: Source, name: str) -> bool:
    entry = source.entries[name]
    return entry.ndim == 1 and entry.content == "numbers"


def _sum_to_one(columns: Sequence[FloatArray]) -> bool:
    if len(columns) < 2:
        return False
    sums = np.sum(columns, axis=0)
    return bool((np.abs(sums[np.isfinite(sums)] - 1) <= SUM_TOLERANCE).all())


# Ids of the rows of a file


def index_columns(source: Source) -> list[str]:
    """The columns of a table that hold a pandas index, by the file's metadata or by their names."""
    if not source.is_table:
        return []
    found = list(source.index)
    for name in index_names(source.names):
        entry = source.entries[name]
        if name not in source.index and entry.ndim == 1:
            values = entry.values() if entry.content == "text" else as_one_array(entry.read())
            found += [name] if could_be_index(name, values) else []
    return found


def read_row_ids(source: Source, id_column: str | None, n_rows: int) -> RowIds:
    """The ids of the rows of a file.

    Parameters
    ----------
    source : Source
        An opened file.
    id_column : str, optional
        The name of the ids; if the file has no such entry, ``ids`` or ``id`` is used.
    n_rows : int
        The number of rows, which the number of ids must match.
    """
    names = [name for name in source.names if name]
    chosen = id_column if id_column in names else find_name(names, IDS)
    column = None if chosen is None else _checked_ids(source, chosen, n_rows)
    levels, index = index_columns(source), None
    if len(levels) == 1:
        values = _id_values(source, levels[0])
        starts = np.flatnonzero(values == 0) if values.dtype.kind in "iu" else np.empty(0)
        # Row numbers that restart at 0, as in concatenated frames, are not unique.
        restarts = len(starts) > 1 and starts[0] == 0
        if not (restarts and ((values[1:] == 0) | (values[1:] == values[:-1] + 1)).all()):
            index = _checked_ids(source, levels[0], n_rows)
    elif levels and column is None:
        option = by_interface("Columns(id=)", command="--id-column", toml="id_column")
        problem = f"{source.path} has an index of {len(levels)} columns ({', '.join(map(repr, levels))})"
        raise InvalidData(problem, hint=f"name the one that identifies the rows with {option}.")
    return RowIds(column, index, owner=source.path)


def _checked_ids(source: Source, name: str, n_rows: int) -> Ids:
    """Ids after a check that there is one per row and that they are unique."""
    ids = Ids(source.path, _id_values(source, name))
    if len(ids) != n_rows:
        raise InvalidData(f"{source.path} has {len(ids)} ids for {n_rows} rows", hint="there must be one for each.")
    if ids.repeated is not None:
        first, second = ids.repeated
        problem = f"repeats the id {ids.shown([first])} (rows {first} and {second})"
        ignoring = by_interface(
            f"Columns(ignore=[{name!r}])", command=f"--ignore-columns {name}", toml=f'ignore_columns = ["{name}"]'
        )
        raise ids.error(problem, f"each must occur once; if {name!r} is not an id pass {ignoring}.")
    return ids


def _id_values(source: Source, name: str) -> AnyArray:
    """A column as ids: whole floats become integers."""
    entry = source.entries[name]
    if entry.ndim != 1:
        raise InvalidData(f"{source.noun} {name!r} of {source.path} is {entry.summary}, but ids must be 1-D (n,).")
    values = entry.names()
    if values.dtype.kind != "f":
        return values
    if not (np.isfinite(values) & (values == np.round(values))).all():
        hint = "ids must be integers or text."
        raise InvalidData(f"{source.noun} {name!r} of {source.path} holds fractions or NaN", hint=hint)
    _ = Ids(source.path, values).keys  # Raises for floats too large to distinguish whole numbers.
    return values.astype(np.int64)


MatrixRole = Literal["features", "labeled"]
DoubtRole = Literal["probabilities", "logits", "doubt"]
NameRole = Literal["ids", "labels"]
OtherRole = Literal["head", "candidates", "unlabeled"]
Role = Literal[MatrixRole, DoubtRole, NameRole, OtherRole]

DOUBT_ROLES: tuple[DoubtRole, ...] = ("probabilities", "logits", "doubt")

USUAL_NAMES: dict[Role, tuple[str, ...]] = {
    "features": ("features", "embeddings", "embedding", "pool"),
    "labeled": LABELED,
    "probabilities": ("probabilities",),
    "logits": ("logits",),
    "doubt": ("doubt",),
    "ids": IDS,
    "labels": LABELS,
    "head": ("head", "head.weight"),
    "candidates": CANDIDATES,
    "unlabeled": UNLABELED,
}
"""Conventional names, in order of preference; not case-sensitive."""

SHAPES: dict[Role, tuple[tuple[int, ...], str]] = {
    "features": ((2,), "2-D (n, d) numbers"),
    "labeled": ((1, 2), "2-D (m, d) numbers, or 1-D row numbers, ids or a mask"),
    "probabilities": ((2, 3), "2-D (n, c) or 3-D (n, k, c) numbers"),
    "logits": ((2,), "2-D (n, c) numbers"),
    "doubt": ((1,), "1-D (n,) numbers"),
    "ids": ((1,), "1-D (n,) integers or text"),
    "labels": ((1,), "1-D (n,) integers or text"),
    "head": ((2,), "2-D (c, d) numbers"),
    "candidates": ((1,), "1-D row numbers, ids or a mask"),
    "unlabeled": ((1,), "1-D row numbers, ids or a mask"),
}
"""The allowed numbers of dimensions of a role, and a description for messages."""


@dataclass(frozen=True, slots=True)
class Columns:
    """The columns of a table, or arrays of an archive, that the user named."""

    id: str | None = None
    label: str | None = None
    features: Sequence[str] = ()
    """Column names, or patterns such as ``f*``, which skip columns with another role; by default see `read_array`."""
    ignore: Sequence[str] = ()
    """Names or patterns of entries to ignore."""
    probabilities: Sequence[str] = ()
    """Names or patterns of columns that each hold the probability of a class, in natural order of their names."""
    no_label: Sequence[str] = ()
    """Further values that mean "no label", see `dubito.request.labels`; or ``empty`` for empty values only."""
    claimed: Sequence[str] = ()
    """Columns that are not features because they are used for something else, such as costs."""


ANY_COLUMNS = Columns()
AS_FEATURES = by_interface("Columns(features=[...])", command="--feature-columns", toml="feature_columns")
"""The option that sets the feature columns, for messages."""


def choose_entries(source: Source, role: Role, key: str | None, columns: Columns) -> list[str]:
    """The names of the entries of a role: one entry, or the columns that form a matrix."""
    if role == "features" and columns.features and key is None:
        if not source.is_table:
            hint = f"name an array with {source.path}::NAME."
            raise InvalidArgument(f"feature columns are for CSV and Parquet, not for {source.path}", hint=hint)
        # A pattern matches only columns that have no other role.
        free = _free_entries(source, "features", columns)
        chosen: dict[str, Entry] = {}
        for pattern in columns.features:
            matches = [name for name in free if "*" in pattern and fnmatchcase(name, pattern)]
            chosen |= {name: source.entry(name) for name in matches or [pattern]}
        return list(chosen)
    if role == "probabilities" and columns.probabilities and key is None:
        return probability_columns(source, columns)
    name = key or given_or_usual_name(source, role, columns)
    if name is None and role == "labeled":
        is_picks = source.is_table and "index" in source.names and ("rank" in source.names or len(source.names) == 1)
        name = "index" if is_picks else usual_name(source, "features")
    if name is not None:
        return [name]
    if len(source.entries) == 1 and not source.is_table and (role == "ids" or source.names[0].lower() not in IDS):
        return list(source.names)
    free = _free_entries(source, role, columns)
    shapes = SHAPES[role][0]
    fitting = [name for name, entry in free.items() if entry.ndim in shapes and _content_fits(entry, role)]
    if source.is_table and 2 in shapes:
        lists = [name for name in fitting if free[name].ndim == 2]
        if not lists:
            added = class_columns(source, role, list(free), excluded_by_name(source, role, columns))
            names = [name for name in source.names if name in free or name in added]
            return _number_columns(source, role, {name: source.entries[name] for name in names}, columns)
        fitting = lists
    if len(fitting) == 1:
        return fitting
    option = f"{source.path}::NAME"
    if source.is_table:
        options = {"features": AS_FEATURES, "labels": _as_column("label", "NAME"), "ids": _as_column("id", "NAME")}
        option = options.get(role, option)
    raise MissingFile(
        f"{source.path} has no {source.noun} called {' or '.join(USUAL_NAMES[role])}, and "
        f"{len(fitting) or 'none'} that could be the {role} ({SHAPES[role][1]})",
        hint=f"it holds {source.listing()}. Name one with {option}.",
    )


def _number_columns(source: Source, role: Role, free: dict[str, Entry], columns: Columns) -> list[str]:
    """All free columns; raises InvalidData if one is not numeric."""
    not_numeric = [name for name, entry in free.items() if entry.content != "numbers"]  # One hint for all of them.
    if not_numeric:
        name, entry = not_numeric[0], free[not_numeric[0]]
        ignoring = by_interface(
            f"Columns(ignore={not_numeric!r})",
            command=f"--ignore-columns {','.join(not_numeric)}",
            toml=f"ignore_columns = {json.dumps(not_numeric, ensure_ascii=False)}",
        )
        as_ids = f"{PASS} {_as_column('id', name)}"
        if role in DOUBT_ROLES and columns.id is not None and columns.id not in source.names:
            as_ids = f"rename it to {columns.id!r}, as in the pool, or to 'id'"  # The option names the pool's column.
        raise InvalidData(
            f"column {name!r} of {source.path} holds {entry.summary.strip('()')}, but {role} are numbers",
            hint=f"{plain_number_hint(entry)}{_hint_to_embed(source, role, not_numeric)}"
            f"if it identifies the rows {as_ids}, if it is their class {_as_column('label', name)}, else {ignoring}.",
        )
    if not free:
        hint = f"it holds {source.listing()}."
        raise MissingFile(f"{source.path} has no columns that could be the {role}", hint=hint)
    return list(free)


def _hint_to_embed(source: Source, role: Role, names: Sequence[str]) -> str:
    """The start of the hint for a table of texts: how to embed a column of them."""
    for name in names if role == "features" else ():
        entry = source.entries[name]
        values = entry.values()[:INSPECTED_TEXTS].tolist() if entry.content == "text" else []
        if 2 * sum(len(str(value).split()) > 1 for value in values) > len(values):
            command = shlex.join(["dubito", "embed", source.path, "--text", name, "-o", "pool.parquet"])
            return f"to pick by the texts in {name!r} run {command} and pass pool.parquet; "
    return ""


def _as_column(role: str, name: str) -> str:
    """The option that gives a column a role, for messages."""
    return by_interface(
        f"Columns({role}={name!r})", command=f"--{role}-column {name}", toml=f'{role}_column = "{name}"'
    )


def _free_entries(source: Source, role: Role, columns: Columns) -> dict[str, Entry]:
    """Entries that have no other role, by the user's options or by a conventional name."""
    own = {role, "features"} if role == "labeled" else {role}
    if source.is_table:
        own.add("head")  # A head has one row per class, so no column of the pool's table can be one.
    claimed = _claimed(source, role, columns)
    if source.is_table and role != "labels":
        claimed |= {name for name in non_features(source.names) if name.lower() not in USUAL_NAMES[role]}
    for other, usual_names in USUAL_NAMES.items():
        fits = SHAPES[other][0]
        claimed |= {
            name
            for name, entry in source.entries.items()
            if other not in own and name.lower() in usual_names and (source.is_table or entry.ndim in fits)
            if other != "labels" or not source.is_table
        }
    return {name: entry for name, entry in source.entries.items() if name not in claimed}


def _claimed(source: Source, role: Role, columns: Columns) -> set[str | None]:
    """Entries with another role by the user's options, and index columns."""
    claimed = {columns.id, columns.label, "", *columns.claimed, *index_columns(source)}
    return claimed if role == "probabilities" else claimed | set(_matching(source, columns.probabilities))


def excluded_by_name(source: Source, role: Role, columns: Columns) -> list[str]:
    """For probabilities and logits: the columns that are excluded only because of their names, except ids."""
    if role not in ("probabilities", "logits") or not source.is_table:
        return []
    taken = {*_free_entries(source, role, columns), *_claimed(source, role, columns)}
    return [name for name in source.names if name not in taken and name.lower() not in IDS]


def unused_number_columns(source: Source, chosen: Sequence[str], columns: Columns) -> list[str]:
    """The number columns that could be features but were not chosen."""
    free = _free_entries(source, "features", columns)
    return [name for name, entry in free.items() if entry.content == "numbers" and name not in chosen]


def _matching(source: Source, patterns: Sequence[str]) -> list[str]:
    """The entries that match a name or pattern, without duplicates."""
    names = [[name for name in source.names if matches_pattern(name, pattern)] for pattern in patterns]
    return list(dict.fromkeys(name for each in names for name in each))


def probability_columns(source: Source, columns: Columns) -> list[str]:
    """The columns of a table that hold probabilities, in natural order: p_2 before p_10."""
    if not source.is_table:
        hint = f"name an array with {source.path}::NAME."
        raise InvalidArgument(f"probability columns are for tables, not for {source.path}", hint=hint)
    found = _matching(source, columns.probabilities)
    for pattern in columns.probabilities:
        if not _matching(source, [pattern]):
            source.entry(pattern)  # Raises with the closest name.
    return sorted(found, key=natural_order)


def given_or_usual_name(source: Source, role: Role, columns: Columns) -> str | None:
    """The name that the user gave for a role, or else a conventional one in the file."""
    return {"ids": columns.id, "labels": columns.label}.get(role) or usual_name(source, role)


def usual_name(source: Source, role: Role) -> str | None:
    """The first conventional name of a role in the file; a table's features must be a column of lists."""
    names = [name for name in source.names if name]
    if source.is_table and role == "labels":
        return label_name(names)
    if role in ("features", "head"):
        names = [name for name in names if source.entries[name].ndim > 1]
    if role == "unlabeled":
        names = [name for name in names if source.entries[name].ndim == 1]
    found = find_name(names, USUAL_NAMES[role])
    if found is None and role == "features" and not source.is_table:
        return find_name(names, UNLABELED)
    return found


def _content_fits(entry: Entry, role: Role) -> bool:
    may_be_text = ("ids", "labels", "labeled", "candidates", "unlabeled")
    return entry.content == "numbers" or (entry.content == "text" and entry.ndim == 1 and role in may_be_text)


def check_numbers(source: Source, name: str, role: Role) -> None:
    """Raise InvalidData unless the entry is a column of numbers."""
    entry = source.entry(name)
    if entry.ndim != 1 or entry.content != "numbers":
        hint = f"{plain_number_hint(entry)}the {role} must be columns of numbers, or one column of lists."
        raise InvalidData(f"column {name!r} of {source.path} holds {entry.summary.strip('()')}", hint=hint)


def check_role(source: Source, name: str, entry: Entry, role: Role) -> None:
    """Raise InvalidData unless the shape and content of the entry fit its role."""
    if entry.content == "other":
        entry.read()
    if entry.ndim not in SHAPES[role][0] or not _content_fits(entry, role):
        described = f"{source.noun} {name!r} of {source.path}" if name else source.path
        raise InvalidData(f"{described} is {entry.summary}, but {role} must be {SHAPES[role][1]}.")
