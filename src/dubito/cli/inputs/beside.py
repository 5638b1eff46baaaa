"""What else there is for every row of a pool: costs, classes; from a file of their own, or a column of the pool's."""

import os
from collections.abc import Mapping, Sequence
from dataclasses import replace

from dubito.checks import check_real, read_number
from dubito.cli.inputs.files import Inputs, in_pool_order, note
from dubito.errors import InvalidArgument, InvalidData, MissingFile
from dubito.files import Columns, PoolFile, RowsFile, open_source, split_spec
from dubito.files.choosing import choose
from dubito.files.entries import Source, suffix_of, whole
from dubito.files.naming import find_names, index_columns
from dubito.files.opening import OPENERS
from dubito.limits import some_classes
from dubito.matrix import AnyArray
from dubito.names.columns import IDS, usual
from dubito.names.ids import text_key
from dubito.wording import option_of

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
        mend = f"name one with {source.path}::NAME; it holds {source.listing()}."
        raise MissingFile(problem, mend=mend)
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
            raise InvalidArgument(f"{option_of('quota')} {text} is neither N nor CLASS=N", mend="write 20, or cat=5.")
        key = name if equals else None
        if key in quotas:
            problem = "names a class twice" if equals else "is given twice for every class"
            raise InvalidArgument(f"{option_of('quota')} {text} {problem}", mend="leave one out.")
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
                f"{option_of('quota')} names the class {key!r}, which no row can have", mend=some_classes(names)
            )
    by_number = [(None if key is None else known[text_key(key)], limit) for key, limit in quotas.items()]
    if len(dict(by_number)) < len(by_number):
        raise InvalidArgument(f"{option_of('quota')} names a class twice", mend="leave one out.")
    return dict(by_number)
