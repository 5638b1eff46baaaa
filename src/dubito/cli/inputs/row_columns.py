"""What else there is for every row of a pool: costs, classes; from a file of their own, or a column of the pool's."""

import os
import re
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from typing import NamedTuple

import numpy as np

from dubito.cli.inputs.pool import Inputs, in_pool_order, note
from dubito.cli.inputs.rows import NameTable, can_name_rows, named_rows, read_table
from dubito.cli.output import naming_files
from dubito.core.constraints import some_classes
from dubito.doubt.reading import check_logits, check_temperature
from dubito.doubt.temperature import fit_temperature
from dubito.errors import InvalidArgument, InvalidData, MissingFile, option_of
from dubito.io import Columns, PoolFile, RowsFile, open_source, split_spec
from dubito.io.lookup import choose, find_names, index_columns, usual_name
from dubito.io.opening import OPENERS
from dubito.io.source import Source, suffix_of, whole
from dubito.matrix import AnyArray, IntArray, len_of
from dubito.request.arrays import check_real, read_number
from dubito.request.columns import IDS, ROW, usual
from dubito.request.ids import text_key
from dubito.request.labels import WHOLE, are_labels, label_keys

USUAL = {"costs": ("cost", "costs", "price", "prices"), "classes": ("class", "classes", "predicted", "prediction")}
"""The columns that are taken of a file of their own; of the pool's, none is taken unless it is named."""

Specs = Mapping[str, str | None]
"""``costs`` and ``classes``, as the command line has them."""


def is_file(spec: str) -> bool:
    """Whether a file is meant, and not a column of the pool.

    Examples
    --------
    >>> is_file("costs.csv"), is_file("pool.npz::cost"), is_file("cost")
    (True, True, False)
    """
    return "::" in spec or os.path.exists(spec) or suffix_of(spec) in OPENERS


def claimed(specs: Specs) -> list[str]:
    """The columns of the pool that are wanted for this, and are no features."""
    return [spec for spec in specs.values() if spec is not None and not is_file(spec)]


def read_beside(specs: Specs, pool: PoolFile, columns: Columns) -> dict[str, AnyArray]:
    """Those that are named, in the pool's order."""
    return {role: _read(role, spec, pool, columns) for role, spec in specs.items() if spec is not None}


def with_beside(found: Inputs, specs: Specs, columns: Columns) -> Inputs:
    """The inputs with them, and with the files they came from."""
    given = {role: spec if is_file(spec) else f"{found.files['pool']}::{spec}" for role, spec in specs.items() if spec}
    return replace(found, beside=read_beside(specs, found.pool, columns), files={**found.files, **given})


def _read(role: str, spec: str, pool: PoolFile, columns: Columns) -> AnyArray:
    if not is_file(spec):
        return _values(role, pool.source, spec)
    path, key = split_spec(spec)
    source = open_source(path).without(columns.ignore)
    name = key or usual(source.names, USUAL[role]) or _only(role, source, columns)
    values = _values(role, source, name)
    return in_pool_order(RowsFile(values, find_names(source, columns.id, len(values)), source), pool, note)


def _only(role: str, source: Source, columns: Columns) -> str:
    """The one that is there beside the names of rows."""
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


def read_spend(text: str | None) -> float | None:
    """The number, where there is one."""
    return None if text is None else check_real("spend", read_number(text), least=0.0)


def read_quotas(texts: Sequence[str] | None) -> object:
    """``N`` for every class, ``CLASS=N`` for one, as `dubito.select` takes them.

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
    """The columns of a table that hold a class each, in their order; none where classes have no names."""
    for role in ("probabilities", "logits"):
        if role not in found.doubt:
            continue
        path, key = split_spec(found.files[role])
        is_own = path == found.pool.source.path
        source = found.pool.source if is_own else open_source(path).without(columns.ignore)
        names = choose(source, role, key, columns) if source.is_table else []
        return names if len(names) > 1 else []
    return []


def numbered(quotas: object, found: Inputs, columns: Columns) -> object:
    """Quotas by the numbers of classes, where they name columns of probabilities: ``p_cat``, or ``cat`` of ``p_*``."""
    names = [] if not isinstance(quotas, dict) or "classes" in found.beside else class_columns(found, columns)
    if not isinstance(quotas, dict) or not names:
        return quotas
    stems = [pattern.removesuffix("*") for pattern in columns.probabilities if pattern.endswith("*")]
    known = {text_key(name.removeprefix(stem)): place for place, name in enumerate(names) for stem in ["", *stems]}
    # Where classes are called 1, 2 and 3, a 0 is none of them.
    known |= {} if any(key.isdecimal() for key in known) else {str(place): place for place in range(len(names))}
    for key in quotas:
        if key is not None and text_key(key) not in known:
            raise InvalidArgument(
                f"{option_of('quota')} names the class {key!r}, which no row can have", hint=some_classes(names)
            )
    by_number = [(None if key is None else known[text_key(key)], limit) for key, limit in quotas.items()]
    if len(dict(by_number)) < len(by_number):
        raise InvalidArgument(f"{option_of('quota')} names a class twice", hint="leave one out.")
    return dict(by_number)


# The labels that files hold: of which row, and what a model may be fitted on.

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
        hint=f"correct one of them{_or_leave_out(one, other, pool)}.",
    )


def _or_leave_out(one: LabelSaid, other: LabelSaid, pool: PoolFile) -> str:
    """How to go without the labels of the pool's own file; the option would take them from both where names agree."""
    if one.path != pool.source.path:
        return ""
    if one.column == other.column:
        return f", or take {one.column} out of {one.path}"
    return f", or pass --ignore-columns {one.column}"


# The temperature that the command line asks for: a number, or fitted on the labels that the files hold.


def read_heat(text: str | None, found: Inputs, labelled: Sequence[str], columns: Columns) -> float | None:
    """What logits are to be divided by; a fitted one is reported."""
    if text is None:
        return None
    number = check_temperature(read_number(text))
    if number is not None:
        return number
    if "logits" not in found.doubt:
        raise InvalidArgument("needs logits", argument="temperature", value=text, hint="pass --logits FILE.")
    labels = read_labels(found.pool, labelled, columns)
    if not labels:
        hint = "fill in a column label, in the pool or in a table for --labelled, or pass a number."
        problem = "needs the classes of labelled rows of the pool"
        raise InvalidArgument(problem, argument="temperature", value=text, hint=hint)
    with naming_files(found.files, found.place):
        logits, rows = check_logits(found.doubt["logits"], len_of(found.pool.features)), np.array(list(labels))
        value, described = fit_temperature(logits[rows], np.array(list(labels.values())))
    note(f"temperature {value:.4g}, fitted on {len(rows)} labelled rows" if described is None else described)
    return value
