"""Read files into the arguments of `dubito.select` and `dubito.diagnose`."""

import atexit
import os
import shutil
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field, replace
from fnmatch import fnmatchcase
from tempfile import mkdtemp
from typing import NamedTuple, get_args

import numpy as np

from dubito.cli.inputs.features import describe_features, describe_vectors
from dubito.cli.inputs.labeled import LabeledInputs, own_labels, own_rows, read_labeled
from dubito.cli.inputs.rows import Note
from dubito.cli.output import name_files_in_errors, say
from dubito.core.problem import Configuration, Selection
from dubito.doubt.reading import check_columns_are_classes, two_sources
from dubito.errors import InvalidArgument, MissingFile
from dubito.io import (
    Columns,
    DoubtRole,
    PoolFile,
    RowsFile,
    Source,
    find_array,
    find_doubt,
    gathering_notes,
    input_limit,
    open_source,
    read_array,
    read_pool,
    read_rows,
    split_spec,
)
from dubito.io.limits import VARIABLE
from dubito.io.lookup import choose, excluded_by_name
from dubito.io.missing_values import Missing, keeping_gaps, rows_with_gaps, settle_missing
from dubito.io.source import gather, nearest, suffix_of
from dubito.labeling.project import FAILURE, is_project
from dubito.matrix import AnyArray, BoolArray, IntArray, len_of
from dubito.registry import require
from dubito.request.arrays import check_choice, check_memory_limit
from dubito.request.ids import matching_ids, order_of
from dubito.request.labels import EMPTY

LIST_SUFFIXES = (".txt",)
"""Plain lists of names, which have no columns."""
MAX_SHOWN_CLASSES = 10
"""Classes that a note lists."""

DoubtSpecs = Mapping[DoubtRole, str | None]


@dataclass(frozen=True, slots=True, eq=False)
class Inputs:
    """The contents of the input files."""

    pool: PoolFile
    labeled: LabeledInputs
    doubt: Mapping[str, AnyArray]
    """At most one source of doubt, by its argument's name."""
    files: Mapping[str, str]
    """The file that each argument came from, for error messages."""
    row_values: Mapping[str, AnyArray] = field(default_factory=dict)
    """Other per-row values by argument name: costs, classes."""
    kept: IntArray | None = None
    """The rows of the pool file that are in the pool; None for all."""
    labels: Mapping[int, str] = field(default_factory=dict)
    """Labels by row, if they were read."""

    def describe_row(self, row: int) -> str:
        """A row as error messages name it: its id, and its row number in the pool file."""
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
    def names(text: str | None) -> list[str]:
        return [] if text is None else [name.strip() for name in text.split(",") if name.strip()]

    return Columns(ids, labels, names(features), names(ignore), names(probabilities), names(no_label), claimed)


def read_inputs(
    pool: str, labeled: Sequence[str] | None, doubt: DoubtSpecs, columns: Columns, missing: Missing | None = None
) -> Inputs:
    """Read the pool, the labeled rows and the model's doubt; notes go to `gathering_notes`.

    Inputs that the command line does not name are looked up in the pool file; labeled rows found there are added to
    those named. With ``missing="drop"``, the doubt file may omit rows that will be dropped.
    """
    given = {role: spec for role, spec in doubt.items() if spec is not None}
    if len(given) > 1:
        raise two_sources(given)
    check_ignored([pool, *given.values(), *(labeled or [])], columns)
    pool_file = read_pool(pool, columns=columns)
    source = read_doubt_source(pool_file, given, columns, note, missing)
    files: dict[str, str] = dict.fromkeys(source, pool)
    files |= {str(role): spec for role, spec in given.items()}
    files |= {"pool": pool, "labeled": ", ".join(labeled or [pool])}
    if pool_file.feature_names:
        gather(list(describe_features(pool_file, columns)))
    elif pool_file.source.is_table:
        gather(list(describe_vectors(pool_file, pool, columns)))
    return Inputs(pool_file, read_all_labeled(pool_file, labeled or [], columns, note), source, files)


def note(remark: str) -> None:
    gather([remark])


def read_all_labeled(pool: PoolFile, specs: Sequence[str], columns: Columns, note: Note) -> LabeledInputs:
    """The labeled rows of the pool file and of every file named."""
    if pool.source.is_table and not specs and columns.label is not None:
        pool.source.entry(columns.label)  # Raises if there is no such column.
    rows = own_rows(pool, note)
    found = rows.joined(own_labels(pool, rows, columns, note))
    for spec in specs:
        with name_files_in_errors({"labeled": spec}):
            found = found.joined(read_labeled(spec, pool, columns, note))
    return found


def read_doubt_source(
    pool: PoolFile, given: Mapping[DoubtRole, str], columns: Columns, note: Note, missing: Missing | None = None
) -> dict[str, AnyArray]:
    """The doubt from the file named, reordered to match the pool, or from the pool file."""
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
    """Raise if a probability column cannot be a class. The library's own check knows only its index, not its name."""
    if role == "probabilities" and source.is_table:
        with name_files_in_errors({role: spec}):
            check_columns_are_classes(values, choose(source, role, split_spec(spec)[1], columns))


def note_classes(source: Source, role: DoubtRole, key: str | None, columns: Columns, note: Note) -> None:
    """Print a note on which columns of a table count as classes and which were left out."""
    names = choose(source, role, key, columns) if source.is_table and role != "doubt" else []
    if len(names) > 1:
        shown = ", ".join(names[:MAX_SHOWN_CLASSES]) + (", ..." if len(names) > MAX_SHOWN_CLASSES else "")
        note(f"{role} of {len(names)} classes: {shown}")
    named = [*columns.probabilities] if role == "probabilities" else []
    if key is None and not named and names and source.entry(names[0]).ndim == 1:
        omitted = [name for name in excluded_by_name(source, role, columns) if name not in names]
        if omitted:
            note(f"{source.path}: left out {', '.join(omitted)}, no class by name and values; rename it if it is one.")


def with_gaps(found: RowsFile, pool: PoolFile) -> RowsFile:
    """Add a row of NaN for each missing id whose row of the pool has missing values, and so will be dropped."""
    pair = None if found.source.path == pool.source.path else matching_ids(found.names, pool.names)
    if pair is None:
        return found
    lacking = [row for row, key in enumerate(pair.pool.keys) if key not in pair.theirs.row_of_key]
    if not lacking:
        return found
    dropped = np.intersect1d(lacking, rows_with_gaps(pool.features))
    rest = np.setdiff1d(np.arange(len(pair.pool)), dropped)
    dtype = found.values.dtype if found.values.dtype.kind == "f" else np.float64
    values = np.full((len(pair.pool), *found.values.shape[1:]), np.nan, dtype=dtype)
    values[rest] = found.values[order_of(pair.theirs, pair.pool.at(rest))]
    return RowsFile(values, pool.names, found.source)


def in_pool_order(found: RowsFile, pool: PoolFile, note: Note) -> AnyArray:
    """The values joined to the pool by id; unchanged, with a note, unless both files have ids."""
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
    """Raise if ``--ignore-columns`` names a column that no file has."""
    if not columns.ignore:
        return
    readable = [path for path in (split_spec(spec)[0] for spec in specs) if suffix_of(path) not in LIST_SUFFIXES]
    names = {name for path in readable for name in open_source(path).names}
    for pattern in columns.ignore:
        if not any(fnmatchcase(name, pattern) for name in names):
            shown = ", ".join(sorted(filter(None, names)))
            problem = (
                f"--ignore-columns {pattern}: no file has such a column;{nearest(pattern, names)} there are {shown}."
            )
            raise MissingFile(problem)


def read_head(spec: str | None, found: Inputs, metric: str) -> AnyArray | None:
    """The last-layer weights named, or those in the pool file if the doubt comes from there too.

    Doubt from another file may be from another model. Tables cannot hold a (c, d) array, and each shard of a folder
    would repeat it.
    """
    if spec is not None:
        return read_array(spec, "head")
    own = found.pool.source
    of_one_model = all(split_spec(found.files[role])[0] == own.path for role in found.doubt)
    if metric != "euclidean" or not of_one_model or own.is_table or os.path.isdir(own.path):
        return None
    return find_array(own, "head")


# ``--missing``: missing values are refused, filled in, or their rows dropped; other rows keep their numbers.


def read_missing(text: str | None) -> Missing | None:
    known: Missing | None = None if text is None else check_choice("missing", text, get_args(Missing))
    return known


@dataclass(frozen=True, slots=True, eq=False)
class KeptRows:
    """Which rows of a file are in the pool, and the mapping between both numberings."""

    n_rows: int
    rows: IntArray | None = None
    """Ascending; None for all."""

    def positions_of(self, named: IntArray) -> IntArray:
        """Convert row numbers of the file to positions in the pool; dropped rows are left out."""
        if self.rows is None:
            return named
        return np.searchsorted(self.rows, named[np.isin(named, self.rows)])

    def outcomes(self, named: IntArray, wrong: BoolArray) -> tuple[IntArray, BoolArray]:
        """The checked rows that are in the pool, and whether the model was wrong on each."""
        inside = np.ones(len(named), dtype=np.bool_) if self.rows is None else np.isin(named, self.rows)
        return self.positions_of(named), wrong[inside]

    def restored(self, selection: Selection) -> Selection:
        """Convert picks back to row numbers of the file."""
        rows = self.rows
        if rows is None:
            return selection
        ranked = tuple(_with_row_numbers(each, rows) for each in selection.configurations)
        return replace(selection, indices=rows[selection.indices], configurations=ranked, n_pool=self.n_rows)


def _with_row_numbers(configuration: Configuration, rows: IntArray) -> Configuration:
    return replace(configuration, indices=rows[configuration.indices])


def handle_missing(found: Inputs, missing: Missing | None) -> tuple[Inputs, KeptRows]:
    """Fill in or drop missing values; return the new inputs and the rows kept.

    Dropped rows are not in the pool at all: they are neither picked, nor references, nor part of any mean.
    """
    pool, n_rows = found.pool, len_of(found.pool.features)
    cleaned = settle_missing(pool.source.path, pool.features, pool.feature_names, missing)
    if cleaned.note is not None:
        note(cleaned.note)
    kept = KeptRows(n_rows, cleaned.rows)
    if cleaned.rows is None:
        return replace(found, pool=replace(pool, features=cleaned.features)), kept
    n_dropped = len(found.labeled.rows) - len(kept.positions_of(found.labeled.rows))
    if n_dropped:
        note(f"{n_dropped} of the labeled rows are among them, and are no references")
    labeled = LabeledInputs(kept.positions_of(found.labeled.rows), found.labeled.foreign)
    doubt = {role: _rows_of(role, array, kept) for role, array in found.doubt.items()}
    row_values = {role: _rows_of(role, array, kept) for role, array in found.row_values.items()}
    rows = np.array(list(found.labels), dtype=np.int64)
    kept_labels = np.array(list(found.labels.values()), dtype=object)[np.isin(rows, cleaned.rows)]
    labels = dict(zip(kept.positions_of(rows).tolist(), kept_labels.tolist(), strict=True))
    smaller_pool = replace(pool, features=cleaned.features, names=pool.names.at(cleaned.rows))
    smaller_inputs = replace(
        found, pool=smaller_pool, labeled=labeled, doubt=doubt, row_values=row_values, labels=labels
    )
    return replace(smaller_inputs, kept=cleaned.rows), kept


def _rows_of(role: str, array: AnyArray, kept: KeptRows) -> AnyArray:
    if len(array) != kept.n_rows or kept.rows is None:
        problem = f"has {len(array)} rows and the pool {kept.n_rows}"
        raise InvalidArgument(problem, argument=role, hint="pass one row for each row of the pool, whole or not.")
    return array[kept.rows]


# Memory limits and notes while files are read.


@contextmanager
def reading_files(limit: str | None = None, memory_limit: str | None = None, *, quiet: bool) -> Iterator[None]:
    """Limit the memory of files read in the block, and print the notes about them if all could be read.

    Without a limit for inputs, ``memory_limit`` applies to them too.
    """
    given = check_memory_limit(limit, "input_limit")
    with (
        input_limit(check_memory_limit(memory_limit) if given is None else given),
        gathering_notes() as notes,
        keeping_gaps(),
    ):
        yield
    for note in notes:
        say(note, quiet=quiet)


@contextmanager
def bounded_inputs(limit: str | None) -> Iterator[None]:
    """Limit the memory of inputs for this process and its children while the block runs."""
    given = check_memory_limit(limit, "input_limit")
    if given is None:
        yield
        return
    with variable(VARIABLE, str(given)):
        yield


@contextmanager
def variable(name: str, value: str) -> Iterator[None]:
    """Set an environment variable for this process and its children while the block runs."""
    before = os.environ.get(name)
    os.environ[name] = value
    try:
        yield
    finally:
        if before is None:
            del os.environ[name]
        else:
            os.environ[name] = before


# A project of ``dubito label`` given as POOL.


class Opened(NamedTuple):
    """Command line options about the pool, with a project replaced by its files."""

    pool: str
    labeled: list[str] | None
    ignore: str | None
    no_label: str | None


def opened(
    pool: str, labeled: Sequence[str] | None, ignore: str | None, no_label: str | None, folder: str | None = None
) -> Opened:
    """Replace a project by its pool and its labels; anything else is returned unchanged.

    The label files are written to ``folder``, or to the project if it is None. Every label of a project is a class,
    even if it is called -1 or NA, unless further files of labels are given.
    """
    if not is_project(pool):
        return Opened(pool, None if labeled is None else list(labeled), ignore, no_label)
    require("sqlalchemy", extra="label")
    from dubito.labeling.project_export import label_column, read_state, write_labels

    state = read_state(pool)
    with suppress(OSError), open(state.project.path(FAILURE), encoding="utf-8") as file:
        say(f"the page of this project could not learn from its labels: {file.read().strip()}")
    if folder is None and not os.access(state.project.folder, os.W_OK):
        folder = mkdtemp(prefix="dubito-")
        atexit.register(shutil.rmtree, folder, ignore_errors=True)
    own = label_column(state.project)
    ignored = ",".join(each for each in (ignore, own) if each) or None
    paths = [*write_labels(state, folder), *(labeled or [])]
    return Opened(state.project.pool_path, paths or None, ignored, no_label if labeled or no_label else EMPTY)


def dataset(path: str, no_label: str | None) -> tuple[str, str | None]:
    """Write the labeled rows of a project as a data set; anything else is returned unchanged."""
    if not is_project(path):
        return path, no_label
    require("sqlalchemy", extra="label")
    from dubito.labeling.project_export import read_state, write_dataset

    return write_dataset(read_state(path)), no_label or EMPTY
