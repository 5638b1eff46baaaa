"""A project of ``dubito label`` in the place of a pool: its pool, and the labels so far."""

import atexit
import os
import shutil
from collections.abc import Sequence
from contextlib import suppress
from tempfile import mkdtemp

from dubito.cli.printing.messages import say
from dubito.labelling.project import FAILURE, is_project
from dubito.optional import require


def opened(
    pool: str, labelled: Sequence[str] | None, ignore: str | None, folder: str | None = None
) -> tuple[str, list[str] | None, str | None]:
    """The pool, the files of labels (in a folder, if not in the project) and the columns to ignore.

    What is no project comes back as it was given.
    """
    if not is_project(pool):
        return pool, None if labelled is None else list(labelled), ignore
    require("sqlalchemy", extra="label")
    from dubito.labelling.handing import own_column, read_state, write_labels

    state = read_state(pool)
    with suppress(OSError), open(state.project.path(FAILURE), encoding="utf-8") as file:
        say(f"the page of this project could not learn from its labels: {file.read().strip()}")
    if folder is None and not os.access(state.project.folder, os.W_OK):
        folder = mkdtemp(prefix="dubito-")
        atexit.register(shutil.rmtree, folder, ignore_errors=True)
    own = own_column(state.project)
    ignored = ",".join(each for each in (ignore, own) if each) or None
    return state.project.pool_path, [*write_labels(state, folder), *(labelled or [])] or None, ignored


def dataset(path: str) -> str:
    """What is labelled in a project as data of its own; what is no project, as it was given."""
    if not is_project(path):
        return path
    require("sqlalchemy", extra="label")
    from dubito.labelling.handing import read_state, write_dataset

    return write_dataset(read_state(path))
