"""Read options: integers, names of columns, memory limits, and labeling projects given as POOL."""

import atexit
import os
import shutil
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from tempfile import mkdtemp
from typing import get_args

from dubito.cli.output import print_note, print_warning
from dubito.io import Columns, gathering_notes, input_limit
from dubito.io.column_notes import StandardizeMode
from dubito.io.limits import INPUT_LIMIT_VARIABLE
from dubito.io.missing_values import Missing, missing_as_nan
from dubito.labeling.project import FAILURE, is_project
from dubito.registry import require
from dubito.request.arrays import check_choice, check_integer, check_memory_limit, read_number
from dubito.request.labels import EMPTY


def read_integer(name: str, text: str | None, least: int = 1) -> int | None:
    """The option as an integer; None if it was not given."""
    return None if text is None else check_integer(name, read_number(text), least=least)


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


@contextmanager
def reading_files(limit: str | None = None, memory_limit: str | None = None) -> Iterator[None]:
    """Limit the memory of the files read in the block, read missing numbers as NaN, and print all notes at its end.

    Without a limit for inputs, ``memory_limit`` applies to them too.
    """
    n_bytes = check_memory_limit(limit, "input_limit")
    if n_bytes is None:
        n_bytes = check_memory_limit(memory_limit)
    with input_limit(n_bytes), gathering_notes() as notes, missing_as_nan():
        try:
            yield
        finally:
            for text in notes:
                print_note(text)


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


def resolve_project(
    pool: str, labeled: Sequence[str] | None, ignore: str | None, no_label: str | None, folder: str | None = None
) -> tuple[str, list[str] | None, str | None, str | None]:
    """If ``pool`` is a labeling project, the first four arguments with its pool file and label files in its place.

    The label files are written to ``folder``, or to the project if it is None, and the label column of the pool is
    ignored. Every label of a project is a class, even if it is called -1 or NA, unless ``no_label`` or more label files
    are given.
    """
    if not is_project(pool):
        return pool, None if labeled is None else list(labeled), ignore, no_label
    require("sqlalchemy", extra="label")
    from dubito.labeling.contents import find_label_column
    from dubito.labeling.export import write_labels
    from dubito.labeling.state import read_state

    state = read_state(pool)
    with suppress(OSError), open(state.project.path(FAILURE), encoding="utf-8") as file:
        print_warning(f"the page of this project could not learn from its labels: {file.read().strip()}")
    if folder is None and not os.access(state.project.folder, os.W_OK):
        folder = mkdtemp(prefix="dubito-")
        atexit.register(shutil.rmtree, folder, ignore_errors=True)
    ignored = ",".join(filter(None, (ignore, find_label_column(state.project)))) or None
    paths = [*write_labels(state, folder), *(labeled or [])]
    return state.project.pool_path, paths or None, ignored, no_label if labeled or no_label else EMPTY
