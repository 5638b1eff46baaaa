"""From file names to the arguments of `dubito.select` and `dubito.diagnose`."""

import os
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from dubito.cli.inputs.labelled import NOTHING, Labelled, as_labelled, own_labels, read_labelled
from dubito.cli.inputs.tables import Note
from dubito.cli.printing.failures import naming_files
from dubito.cli.printing.messages import say
from dubito.doubt import two_sources
from dubito.files import Columns, DoubtRole, PoolFile, find_array, find_doubt, read_array, read_pool, split_spec
from dubito.matrix import AnyArray, len_of

MOST_NAMED = 5
"""Columns that a note names."""
SAMPLED_ROWS, FEWEST_ROWS = 10_000, 20
"""Rows on which a column is judged to be an id; among fewer, whole numbers may well differ by chance."""

DoubtSpecs = Mapping[DoubtRole, str | None]


@dataclass(frozen=True, slots=True, eq=False)
class Inputs:
    """What the files hold."""

    pool: PoolFile
    labelled: Labelled
    doubt: Mapping[DoubtRole, AnyArray]
    """At most one source of doubt, by its argument's name."""
    files: Mapping[str, str]
    """Where each argument came from, for messages."""


def read_columns(ids: str | None, labels: str | None, features: str | None) -> Columns:
    """The names of columns given on the command line."""
    names = [] if features is None else [name.strip() for name in features.split(",") if name.strip()]
    return Columns(id=ids, label=labels, features=names)


def read_number(text: str) -> int | float | str:
    """The number a text spells, or the text itself: the library's checks say what is wrong with it.

    Examples
    --------
    >>> read_number("20"), read_number("2.5"), read_number("many")
    (20, 2.5, 'many')
    """
    for kind in (int, float):
        try:
            return kind(text)
        except ValueError:
            continue
    return text


def read_inputs(
    pool: str, labelled: Sequence[str] | None, doubt: DoubtSpecs, columns: Columns, *, quiet: bool
) -> Inputs:
    """Read the pool, what is labelled and the model's doubt.

    What the command line does not name is looked for in the pool's own file; labelled rows there join those named.
    """
    given = {role: spec for role, spec in doubt.items() if spec is not None}
    if len(given) > 1:
        raise two_sources(given)
    pool_file = read_pool(pool, columns=columns)
    notes = [told_features(pool_file, columns)] if pool_file.feature_names else []
    source = read_doubt_source(pool_file, given)
    files: dict[str, str] = {role: given.get(role, pool) for role in source}
    files |= {"pool": pool, "labelled": ", ".join(labelled or [pool])}
    found = Inputs(pool_file, read_all_labelled(pool_file, labelled or [], columns, notes.append), source, files)
    for note in notes:  # Only now: a file that is refused leaves its error alone on stderr.
        say(note, quiet=quiet)
    return found


def read_all_labelled(pool: PoolFile, specs: Sequence[str], columns: Columns, note: Note) -> Labelled:
    """What the pool's own file says is labelled, and every file named."""
    if pool.source.is_table and not specs and columns.label is not None:
        pool.source.entry(columns.label)  # Refuses a name that is not there.
    own = find_array(pool.source, "labelled")
    found = NOTHING if own is None else as_labelled(own, len_of(pool.features))
    found = found.joined(own_labels(pool, columns, note))
    for spec in specs:
        with naming_files({"labelled": spec}):
            found = found.joined(read_labelled(spec, pool, columns, note))
    return found


def told_features(pool: PoolFile, columns: Columns) -> str:
    """Which columns of a table are features, and a hint where one looks like an id."""
    names = pool.feature_names
    shown = ", ".join(names[:MOST_NAMED]) + (", ..." if len(names) > MOST_NAMED else "")
    told = f"{len(names)} feature{'s' * (len(names) > 1)}: {shown}"
    suspect = None if columns.features else looks_like_an_id(pool)
    if suspect is None:
        return told
    mend = f"pass --id-column {suspect}" if pool.ids is None else "leave it out with --feature-columns"
    return f"{told}; {suspect} looks like an id: {mend}"


def looks_like_an_id(pool: PoolFile) -> str | None:
    """The first feature called so, or that counts: whole numbers, none of them twice."""
    sample = np.asarray(pool.features[:SAMPLED_ROWS], dtype=np.float64)
    for name, values in zip(pool.feature_names, sample.T, strict=True):
        whole = np.isfinite(values).all() and (values == np.round(values)).all()
        if name.lower().endswith("_id") or (
            len(values) >= FEWEST_ROWS and whole and len(np.unique(values)) == len(values)
        ):
            return name
    return None


def read_doubt_source(pool: PoolFile, given: Mapping[DoubtRole, str]) -> dict[DoubtRole, AnyArray]:
    """The source of doubt named, or the one in the pool's own file."""
    for role, spec in given.items():
        return {role: read_array(spec, role)}
    found = find_doubt(pool.source)
    return {} if found is None else {found[0]: found[1]}


def read_head(spec: str | None, found: Inputs, metric: str) -> AnyArray | None:
    """The weights named, or those beside the doubt in the pool's own file, where they can be used.

    Doubt from another file may be of another model; a table has no room for a row a class, and the shards of a folder
    would each hold them all.
    """
    if spec is not None:
        return read_array(spec, "head")
    own = found.pool.source
    of_one_model = all(split_spec(found.files[role])[0] == own.path for role in found.doubt)
    if metric != "euclidean" or not of_one_model or own.is_table or os.path.isdir(own.path):
        return None
    return find_array(own, "head")
