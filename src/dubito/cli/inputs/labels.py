"""The labels that files hold: of which row, and what a model may be fitted on."""

import re
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from typing import NamedTuple

import numpy as np

from dubito.cli.inputs.files import Inputs, note
from dubito.cli.inputs.rows import can_name_rows, named_rows
from dubito.cli.inputs.tables import NameTable, read_table
from dubito.errors import InvalidData
from dubito.files import Columns, PoolFile, split_spec
from dubito.files.choosing import usual_name
from dubito.matrix import AnyArray, IntArray, len_of
from dubito.names.columns import ROW
from dubito.names.labels import WHOLE, are_labels, label_keys

AROUND = re.compile(r"^[\W_]+|[\W_]+$")
"""Blanks and marks around a name."""
MOST_TWINS = 5
"""Classes with twins that a note names."""


def with_labels(found: Inputs, specs: Sequence[str], columns: Columns) -> Inputs:
    """The inputs with the label of every row that has one, where no model has its say already."""
    if found.doubt or not len(found.labelled.rows):
        return found
    labels = read_labels(found.pool, specs, columns)
    note_twins(labels.values())
    return replace(found, labels=labels)


def note_twins(labels: Iterable[str]) -> None:
    """Say which classes are one but for upper and lower case, or for what stands around them."""
    twins: dict[str, dict[str, int]] = {}
    for label, n in sorted(Counter(labels).items()):
        bare = "" if WHOLE.fullmatch(label) else AROUND.sub("", label).casefold()
        twins.setdefault(bare or label, {})[label] = n
    pairs = [" and ".join(f"{name!r} ({n})" for name, n in each.items()) for each in twins.values() if len(each) > 1]
    if pairs:
        shown = "; ".join(pairs[:MOST_TWINS]) + ("; ..." if len(pairs) > MOST_TWINS else "")
        note(f"classes that differ in case or in marks around them alone: {shown}. Write them alike if they are one.")


def labels_argument(found: Inputs) -> AnyArray | None:
    """What `dubito.select` takes as ``labels``, beside what it takes as ``labelled``; None where there are none."""
    if not found.labels:
        return None
    rows = np.arange(len_of(found.pool.features)) if not found.labelled.foreign else found.labelled.rows
    n_foreign = sum(map(len_of, found.labelled.foreign))
    values = np.full(n_foreign + len(rows), None, dtype=object)
    values[n_foreign:] = [found.labels.get(row) for row in rows.tolist()]
    return values


class LabelSaid(NamedTuple):
    """A label, and who says so."""

    label: str
    path: str
    column: str


def read_labels(pool: PoolFile, specs: Sequence[str], columns: Columns) -> dict[int, str]:
    """The label of every row that has one, in the pool's own file or in tables that name rows; all must agree."""
    found = _own(pool, columns)
    for spec in specs:
        path, key = split_spec(spec)
        table = read_table(path, ROW if pool.ids is None else "id", columns) if key is None else None
        if table is None or not can_name_rows(table, pool, columns):
            continue
        said = _of_table(table, pool, columns)
        _refuse_contradictions(found, said, pool)
        found |= said
    return {row: said.label for row, said in found.items()}


def _of_table(table: NameTable, pool: PoolFile, columns: Columns) -> dict[int, LabelSaid]:
    name = table.label_column(columns.label, elsewhere=True)
    if name is None:
        return {}
    values = table.columns[name]()
    kept = are_labels(f"{table.path} ({name})", values, columns.no_label)
    rows = named_rows(table, pool, columns, kept)
    return {} if rows is None else _said(rows, values[kept], table.path, name)


def _own(pool: PoolFile, columns: Columns) -> dict[int, LabelSaid]:
    source = pool.source
    name = columns.label if columns.label in source.names else usual_name(source, "labels")
    if name is None or name in pool.feature_names or source.entry(name).ndim != 1:
        return {}
    values: AnyArray = source.entry(name).values()
    if len(values) != len_of(pool.features):
        return {}
    rows = np.flatnonzero(are_labels(f"{source.path} ({name})", values, columns.no_label))
    return _said(rows, values[rows], source.path, name)


def _said(rows: IntArray, values: AnyArray, path: str, column: str) -> dict[int, LabelSaid]:
    labels = [LabelSaid(label, path, column) for label in label_keys(values)]
    return dict(zip(rows.tolist(), labels, strict=True))


def _refuse_contradictions(found: Mapping[int, LabelSaid], said: Mapping[int, LabelSaid], pool: PoolFile) -> None:
    """Refuse labels of one row that differ: nobody but a person knows which is right."""
    odd = [row for row in said if row in found and found[row].label != said[row].label]
    if not odd:
        return
    one, other, ids = found[odd[0]], said[odd[0]], pool.names.ids
    where = f"row {odd[0]}" if ids is None else f"id {ids.shown(odd[:1])}"
    more = f", and {len(odd) - 1} more differ{'s' * (len(odd) == 2)}" if len(odd) > 1 else ""
    raise InvalidData(
        f"{one.path} says {one.column} {one.label!r} and {other.path} {other.label!r} of {where}{more}",
        mend=f"correct one of them{_or_leave_out(one, other, pool)}.",
    )


def _or_leave_out(one: LabelSaid, other: LabelSaid, pool: PoolFile) -> str:
    """How to go without the labels of the pool's own file; the option would take them from both where names agree."""
    if one.path != pool.source.path:
        return ""
    if one.column == other.column:
        return f", or take {one.column} out of {one.path}"
    return f", or pass --ignore-columns {one.column}"
