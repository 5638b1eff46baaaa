"""Per-row values other than features: costs, classes and labels, from separate files or from columns of the pool."""

import os
import re
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from typing import NamedTuple

import numpy as np

from dubito.cli.inputs.pool import Inputs, in_pool_order, note
from dubito.cli.inputs.rows import NameTable, can_name_rows, named_rows, read_table
from dubito.core.constraints import some_classes
from dubito.errors import InvalidArgument, InvalidData, MissingFile, option_of
from dubito.io import Columns, PoolFile, RowsFile, open_source, split_spec
from dubito.io.lookup import choose, find_names, index_columns
from dubito.io.opening import OPENERS
from dubito.io.source import Source, suffix_of, whole
from dubito.matrix import AnyArray, IntArray, len_of
from dubito.request.arrays import read_number
from dubito.request.columns import IDS, usual
from dubito.request.ids import text_key
from dubito.request.labels import WHOLE, are_labels, label_keys

USUAL = {"costs": ("cost", "costs", "price", "prices"), "classes": ("class", "classes", "predicted", "prediction")}
"""Default column names in a separate file. A column of the pool is used only if it is named."""

Specs = Mapping[str, str | None]
"""The values of ``--costs`` and ``--classes``."""


def is_file(spec: str) -> bool:
    """Whether the value names a file rather than a column of the pool.

    Examples
    --------
    >>> is_file("costs.csv"), is_file("pool.npz::cost"), is_file("cost")
    (True, True, False)
    """
    return "::" in spec or os.path.exists(spec) or suffix_of(spec) in OPENERS


def claimed(specs: Specs) -> list[str]:
    """Columns of the pool that hold costs or classes and therefore are not features."""
    return [spec for spec in specs.values() if spec is not None and not is_file(spec)]


def with_row_columns(found: Inputs, specs: Specs, columns: Columns) -> Inputs:
    """Add costs and classes, reordered to match the pool."""
    given = {role: spec for role, spec in specs.items() if spec is not None}
    values = {role: _read(role, spec, found.pool, columns) for role, spec in given.items()}
    files = {role: spec if is_file(spec) else f"{found.files['pool']}::{spec}" for role, spec in given.items()}
    return replace(found, row_values=values, files={**found.files, **files})


def _read(role: str, spec: str, pool: PoolFile, columns: Columns) -> AnyArray:
    if not is_file(spec):
        return _values(role, pool.source, spec)
    path, key = split_spec(spec)
    source = open_source(path).without(columns.ignore)
    name = key or usual(source.names, USUAL[role]) or _only(role, source, columns)
    values = _values(role, source, name)
    return in_pool_order(RowsFile(values, find_names(source, columns.id, len(values)), source), pool, note)


def _only(role: str, source: Source, columns: Columns) -> str:
    """The only 1-D column that does not name rows; raises if there is none or more than one."""
    names_of_rows = {columns.id, usual(source.names, IDS), *index_columns(source)}
    others = [name for name, entry in source.entries.items() if name not in names_of_rows and entry.ndim == 1]
    if len(others) != 1:
        problem = f"{source.path} has no {source.noun} called {' or '.join(USUAL[role])}"
        hint = f"name one with {source.path}::NAME; it holds {source.listing()}."
        raise MissingFile(problem, hint=hint)
    return others[0]


def _values(role: str, source: Source, name: str) -> AnyArray:
    entry = source.entry(name)
    which = f"{source.noun} {name!r} of {source.path}" if name else source.path
    if entry.ndim != 1:
        raise InvalidData(f"{which} is {entry.summary}, but {role} are one a row.")
    if role == "classes":
        return entry.names()
    if entry.content != "numbers":
        raise InvalidData(f"{which} is {entry.summary}, but {role} are numbers.")
    return whole(entry.read())


def read_quotas(texts: Sequence[str] | None) -> object:
    """Parse ``N`` (every class) and ``CLASS=N`` (one class) into the ``quotas`` argument of `dubito.select`.

    Examples
    --------
    >>> read_quotas(["20"]), read_quotas(["20", "cat=3"]), read_quotas(None)
    (20, {None: 20, 'cat': 3}, None)
    """
    quotas: dict[str | None, object] = {}
    for text in texts or ():
        name, equals, limit = (part.strip() for part in text.rpartition("="))
        if not limit or (equals and not name):
            raise InvalidArgument(f"{option_of('quota')} {text} is neither N nor CLASS=N", hint="write 20, or cat=5.")
        key = name if equals else None
        if key in quotas:
            problem = "names a class twice" if equals else "is given twice for every class"
            raise InvalidArgument(f"{option_of('quota')} {text} {problem}", hint="leave one out.")
        quotas[key] = read_number(limit)
    return quotas[None] if quotas.keys() == {None} else quotas or None


def class_columns(found: Inputs, columns: Columns) -> list[str]:
    """The probability or logit columns of a table, in order; empty if the classes have no names."""
    for role in ("probabilities", "logits"):
        if role not in found.doubt:
            continue
        path, key = split_spec(found.files[role])
        is_own = path == found.pool.source.path
        source = found.pool.source if is_own else open_source(path).without(columns.ignore)
        names = choose(source, role, key, columns) if source.is_table else []
        return names if len(names) > 1 else []
    return []


def quotas_by_index(quotas: object, found: Inputs, columns: Columns) -> object:
    """Replace class names in quotas by class indices: ``p_cat``, or ``cat`` for columns ``p_*``."""
    names = [] if not isinstance(quotas, dict) or "classes" in found.row_values else class_columns(found, columns)
    if not isinstance(quotas, dict) or not names:
        return quotas
    stems = [pattern.removesuffix("*") for pattern in columns.probabilities if pattern.endswith("*")]
    known = {text_key(name.removeprefix(stem)): index for index, name in enumerate(names) for stem in ["", *stems]}
    # Class indices are accepted only if no class has a number as its name.
    known |= {} if any(key.isdecimal() for key in known) else {str(index): index for index in range(len(names))}
    for key in quotas:
        if key is not None and text_key(key) not in known:
            raise InvalidArgument(
                f"{option_of('quota')} names the class {key!r}, which no row can have", hint=some_classes(names)
            )
    by_number = [(None if key is None else known[text_key(key)], limit) for key, limit in quotas.items()]
    if len(dict(by_number)) < len(by_number):
        raise InvalidArgument(f"{option_of('quota')} names a class twice", hint="leave one out.")
    return dict(by_number)


# Labels from files, used to fit a model.

SURROUNDING = re.compile(r"^[\W_]+|[\W_]+$")
"""Whitespace and punctuation around a name."""
MAX_SIMILAR = 5
"""Groups of similar class names that a note lists."""


def with_labels(found: Inputs, specs: Sequence[str], columns: Columns) -> Inputs:
    """Add the label of every labeled row."""
    if not len(found.labeled.rows):
        return found
    labels = read_labels(found.pool, specs, columns)
    note_similar_classes(labels.values())
    return replace(found, labels=labels)


def note_similar_classes(labels: Iterable[str]) -> None:
    """Print a note about class names that differ only in case or in surrounding punctuation."""
    similar: dict[str, dict[str, int]] = {}
    for label, n in sorted(Counter(labels).items()):
        bare = "" if WHOLE.fullmatch(label) else SURROUNDING.sub("", label).casefold()
        similar.setdefault(bare or label, {})[label] = n
    pairs = [" and ".join(f"{name!r} ({n})" for name, n in each.items()) for each in similar.values() if len(each) > 1]
    if pairs:
        shown = "; ".join(pairs[:MAX_SIMILAR]) + ("; ..." if len(pairs) > MAX_SIMILAR else "")
        note(f"classes that differ in case or in marks around them alone: {shown}. Write them alike if they are one.")


def labels_argument(found: Inputs) -> AnyArray | None:
    """The ``labels`` argument of `dubito.select`, aligned with its ``labeled`` argument; None without labels."""
    if not found.labels:
        return None
    foreign = found.labeled.foreign
    rows = found.labeled.rows if foreign else np.arange(len_of(found.pool.features))
    n_foreign = sum(map(len_of, foreign))
    values = np.full(n_foreign + len(rows), None, dtype=object)
    values[n_foreign:] = [found.labels.get(row) for row in rows.tolist()]
    return values


class SourcedLabel(NamedTuple):
    """A label, and the file and column it comes from."""

    label: str
    path: str
    column: str


def read_labels(pool: PoolFile, specs: Sequence[str], columns: Columns) -> dict[int, str]:
    """The label of every labeled row, from the pool's file and the tables in ``specs``; raises if they disagree."""
    found = _own(pool, columns)
    for spec in specs:
        table = read_table(spec, columns, pool)
        if table is None or not can_name_rows(table, pool, columns):
            continue
        labels_here = _of_table(table, pool, columns)
        _refuse_contradictions(found, labels_here, pool)
        found |= labels_here
    return {row: each.label for row, each in found.items()}


def _of_table(table: NameTable, pool: PoolFile, columns: Columns) -> dict[int, SourcedLabel]:
    name = table.label_column(columns.label, elsewhere=True)
    if name is None:
        return {}
    values = table.columns[name]()
    kept = are_labels(f"{table.path} ({name})", values, columns.no_label)
    rows = named_rows(table, pool, columns, kept)
    return {} if rows is None else _sourced_labels(rows, values[kept], table.path, name)


def _own(pool: PoolFile, columns: Columns) -> dict[int, SourcedLabel]:
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
    one, other, ids = found[conflicting[0]], labels_here[conflicting[0]], pool.names.ids
    where = f"row {conflicting[0]}" if ids is None else f"id {ids.shown(conflicting[:1])}"
    more = f", and {len(conflicting) - 1} more differ{'s' * (len(conflicting) == 2)}" if len(conflicting) > 1 else ""
    raise InvalidData(
        f"{one.path} says {one.column} {one.label!r} and {other.path} {other.label!r} of {where}{more}",
        hint=f"correct one of them{_or_leave_out(one, other, pool)}.",
    )


def _or_leave_out(one: SourcedLabel, other: SourcedLabel, pool: PoolFile) -> str:
    """A hint for ignoring the pool's labels; --ignore-columns would drop both columns if they share a name."""
    if one.path != pool.source.path:
        return ""
    if one.column == other.column:
        return f", or take {one.column} out of {one.path}"
    return f", or pass --ignore-columns {one.column}"
