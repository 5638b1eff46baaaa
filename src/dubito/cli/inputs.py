"""What the options about input files mean: names of columns, memory limits, and projects given in place of files."""

import atexit
import os
import shutil
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from tempfile import mkdtemp
from typing import get_args

from dubito.cli.output import say
from dubito.io import Columns, gathering_notes, input_limit
from dubito.io.column_notes import StandardizeMode
from dubito.io.limits import INPUT_LIMIT_VARIABLE
from dubito.io.missing_values import Missing, missing_as_nan
from dubito.labeling.project import FAILURE, is_project
from dubito.registry import require
from dubito.request.arrays import check_choice, check_memory_limit
from dubito.request.labels import EMPTY


def split_names(text: str | None) -> list[str]:
    return [name.strip() for name in (text or "").split(",") if name.strip()]


def read_columns(
    ids: str | None,
    labels: str | None,
    features: str | None,
    ignore: str | None = None,
    probabilities: str | None = None,
    no_label: str | None = None,
) -> Columns:
    return Columns(ids, labels, *map(split_names, (features, ignore, probabilities, no_label)))


def read_standardize(text: str) -> StandardizeMode:
    known: StandardizeMode = check_choice("standardize", text, get_args(StandardizeMode))
    return known


def read_missing(text: str | None) -> Missing | None:
    known: Missing | None = None if text is None else check_choice("missing", text, get_args(Missing))
    return known


# Memory limits and notes while files are read.


@contextmanager
def reading_files(limit: str | None = None, memory_limit: str | None = None, *, quiet: bool) -> Iterator[None]:
    """Limit the memory of the files read in the block, read gaps as NaN, and print the notes about files at its end.

    Without a limit for inputs, ``memory_limit`` applies to them too.
    """
    given = check_memory_limit(limit, "input_limit")
    most = check_memory_limit(memory_limit) if given is None else given
    with input_limit(most), gathering_notes() as notes, missing_as_nan():
        try:
            yield
        finally:
            for text in notes:
                say(text, quiet=quiet)


@contextmanager
def bounded_inputs(limit: str | None) -> Iterator[None]:
    """Set the memory limit of inputs for child processes, too, while the block runs."""
    given = check_memory_limit(limit, "input_limit")
    if given is None:
        yield
        return
    with environment_variable(INPUT_LIMIT_VARIABLE, str(given)):
        yield


@contextmanager
def environment_variable(name: str, value: str) -> Iterator[None]:
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


def resolve_project(
    pool: str, labeled: Sequence[str] | None, ignore: str | None, no_label: str | None, folder: str | None = None
) -> tuple[str, list[str] | None, str | None, str | None]:
    """The first four arguments, where a labeling project given as ``pool`` becomes its pool file and its label files.

    The label files are written to ``folder``, or to the project if it is None, and the label column of the pool is
    ignored. Every label of a project is a class, even if it is called -1 or NA, unless ``no_label`` or further files of
    labels are given.
    """
    if not is_project(pool):
        return pool, None if labeled is None else list(labeled), ignore, no_label
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
    return state.project.pool_path, paths or None, ignored, no_label if labeled or no_label else EMPTY
