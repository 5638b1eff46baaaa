"""From file names to the arguments of `dubito.select` and `dubito.diagnose`."""

import os
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from fnmatch import fnmatchcase

import numpy as np

from dubito.cli.inputs.labelled import LabelledInputs, own_labels, own_rows, read_labelled
from dubito.cli.inputs.suspects import told_features, told_vectors
from dubito.cli.inputs.tables import Note
from dubito.cli.printing.failures import naming_files
from dubito.doubt.reading import refuse_stray, two_sources
from dubito.errors import MissingFile
from dubito.files import (
    Columns,
    DoubtRole,
    PoolFile,
    RowsFile,
    Source,
    find_array,
    find_doubt,
    open_source,
    read_array,
    read_pool,
    read_rows,
    split_spec,
)
from dubito.files.choosing import by_name_alone, choose
from dubito.files.entries import nearest, suffix_of
from dubito.files.gaps import Missing, rows_with_gaps
from dubito.files.notes import gather
from dubito.matrix import AnyArray, IntArray, len_of
from dubito.names import matching_ids, order_of

NO_SOURCES = (".txt",)
"""Files of names that are read as they are."""
MOST_CLASSES = 10
"""Classes that a note names."""

DoubtSpecs = Mapping[DoubtRole, str | None]


@dataclass(frozen=True, slots=True, eq=False)
class Inputs:
    """What the files hold."""

    pool: PoolFile
    labelled: LabelledInputs
    doubt: Mapping[DoubtRole, AnyArray]
    """At most one source of doubt, by its argument's name."""
    files: Mapping[str, str]
    """Where each argument came from, for messages."""
    beside: Mapping[str, AnyArray] = field(default_factory=dict)
    """What else there is for every row, by its argument's name: costs, classes."""
    kept: IntArray | None = None
    """The rows of the pool's file that are left, where some were left out."""
    labels: Mapping[int, str] = field(default_factory=dict)
    """The labels of rows, where they were asked for."""

    def place(self, row: int) -> str:
        """A row in the words of a message: by its id, and its number in the pool's file."""
        number, ids = row if self.kept is None else int(self.kept[row]), self.pool.names.ids
        return f"row {number}" if ids is None else f"id {ids.shown([row])} (row {number} of the pool)"


def read_columns(
    ids: str | None,
    labels: str | None,
    features: str | None,
    ignore: str | None = None,
    probabilities: str | None = None,
    no_label: str | None = None,
    claimed: Sequence[str] = (),
) -> Columns:
    """The names of columns given on the command line."""

    def names(text: str | None) -> list[str]:
        return [] if text is None else [name.strip() for name in text.split(",") if name.strip()]

    return Columns(ids, labels, names(features), names(ignore), names(probabilities), names(no_label), claimed)


def read_inputs(
    pool: str, labelled: Sequence[str] | None, doubt: DoubtSpecs, columns: Columns, missing: Missing | None = None
) -> Inputs:
    """Read the pool, what is labelled and the model's doubt; remarks go to whoever gathers them.

    What the command line does not name is looked for in the pool's own file; labelled rows there join those named.
    Where rows with missing values are to be dropped, doubt may lack them.
    """
    given = {role: spec for role, spec in doubt.items() if spec is not None}
    if len(given) > 1:
        raise two_sources(given)
    check_ignored([pool, *given.values(), *(labelled or [])], columns)
    pool_file = read_pool(pool, columns=columns)
    source = read_doubt_source(pool_file, given, columns, note, missing)
    files: dict[str, str] = {role: given.get(role, pool) for role in source}
    files |= {"pool": pool, "labelled": ", ".join(labelled or [pool])}
    if pool_file.feature_names:
        gather(list(told_features(pool_file, columns)))
    elif pool_file.source.is_table:
        gather(list(told_vectors(pool_file, pool, columns)))
    return Inputs(pool_file, read_all_labelled(pool_file, labelled or [], columns, note), source, files)


def note(remark: str) -> None:
    """Hand one remark to whoever gathers them."""
    gather([remark])


def read_all_labelled(pool: PoolFile, specs: Sequence[str], columns: Columns, note: Note) -> LabelledInputs:
    """What the pool's own file says is labelled, and every file named."""
    if pool.source.is_table and not specs and columns.label is not None:
        pool.source.entry(columns.label)  # Refuses a name that is not there.
    rows = own_rows(pool, note)
    found = rows.joined(own_labels(pool, rows, columns, note))
    for spec in specs:
        with naming_files({"labelled": spec}):
            found = found.joined(read_labelled(spec, pool, columns, note))
    return found


def read_doubt_source(
    pool: PoolFile, given: Mapping[DoubtRole, str], columns: Columns, note: Note, missing: Missing | None = None
) -> dict[DoubtRole, AnyArray]:
    """The source of doubt named, in the pool's order, or the one in the pool's own file."""
    for role, spec in given.items():
        rows = read_rows(spec, role, columns=columns)
        check_classes(rows.source, rows.values, role, spec, columns)
        note_classes(rows.source, role, split_spec(spec)[1], columns, note)
        return {role: in_pool_order(rows if missing != "drop" else with_gaps(rows, pool), pool, note)}
    found = find_doubt(pool.source, columns=columns)
    if found is None:
        return {}
    check_classes(pool.source, found[1], found[0], pool.source.path, columns)
    note_classes(pool.source, found[0], None, columns, note)
    return {found[0]: found[1]}


def check_classes(source: Source, values: AnyArray, role: DoubtRole, spec: str, columns: Columns) -> None:
    """Refuse a column of a table of probabilities that is no class, by its name: the library would know its place."""
    if role == "probabilities" and source.is_table:
        with naming_files({role: spec}):
            refuse_stray(values, choose(source, role, split_spec(spec)[1], columns))


def note_classes(source: Source, role: DoubtRole, key: str | None, columns: Columns, note: Note) -> None:
    """Say which columns of a table are classes, and which are none by their names: else either would go unseen."""
    names = choose(source, role, key, columns) if source.is_table and role != "doubt" else []
    if len(names) > 1:
        shown = ", ".join(names[:MOST_CLASSES]) + (", ..." if len(names) > MOST_CLASSES else "")
        note(f"{role} of {len(names)} classes: {shown}")
    named = [*columns.probabilities] if role == "probabilities" else []
    if key is None and not named and names and source.entry(names[0]).ndim == 1:
        left = [name for name in by_name_alone(source, role, columns) if name not in names]
        if left:
            note(f"{source.path}: left out {', '.join(left)}, no class by name and values; rename it if it is one.")


def with_gaps(found: RowsFile, pool: PoolFile) -> RowsFile:
    """With a row of NaN for each id that it lacks, where that row of the pool has missing values and is dropped."""
    pair = None if found.source.path == pool.source.path else matching_ids(found.names, pool.names)
    if pair is None:
        return found
    lacking = [row for row, key in enumerate(pair.pool.keys) if key not in pair.theirs.places]
    if not lacking:
        return found
    dropped = np.intersect1d(lacking, rows_with_gaps(pool.features))
    rest = np.setdiff1d(np.arange(len(pair.pool)), dropped)
    dtype = found.values.dtype if found.values.dtype.kind == "f" else np.float64
    values = np.full((len(pair.pool), *found.values.shape[1:]), np.nan, dtype=dtype)
    values[rest] = found.values[order_of(pair.theirs, pair.pool.at(rest))]
    return RowsFile(values, pool.names, found.source)


def in_pool_order(found: RowsFile, pool: PoolFile, note: Note) -> AnyArray:
    """What a file holds for every row, joined with the pool by ids where both have ids, else as it is with a note."""
    if found.source.path == pool.source.path:
        return found.values
    pair = matching_ids(found.names, pool.names)
    if pair is not None:
        return found.values[order_of(*pair)]
    if len(found.values) == len_of(pool.features) and (found.names.ids or pool.names.ids) is not None:
        has, lacks = (pool, found) if found.names.ids is None else (found, pool)
        note(f"{has.source.path} has ids and {lacks.source.path} none: rows are matched by their order.")
    return found.values


def check_ignored(specs: Sequence[str], columns: Columns) -> None:
    """Refuse a column to ignore that no file has."""
    if not columns.ignore:
        return
    readable = [path for path in (split_spec(spec)[0] for spec in specs) if suffix_of(path) not in NO_SOURCES]
    names = {name for path in readable for name in open_source(path).names}
    for pattern in columns.ignore:
        if not any(fnmatchcase(name, pattern) for name in names):
            shown = ", ".join(sorted(filter(None, names)))
            problem = (
                f"--ignore-columns {pattern}: no file has such a column;{nearest(pattern, names)} there are {shown}."
            )
            raise MissingFile(problem)


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
