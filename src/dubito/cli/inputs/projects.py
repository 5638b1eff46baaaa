"""A project of ``dubito label`` in the place of a pool: its pool, and the labels so far."""

import atexit
import os
import shutil
from collections.abc import Sequence
from contextlib import suppress
from tempfile import mkdtemp
from typing import NamedTuple

from dubito.cli.printing.messages import say
from dubito.labelling.project import FAILURE, is_project
from dubito.names.labels import EMPTY
from dubito.optional import require


class Opened(NamedTuple):
    """What options say of a pool."""

    pool: str
    labelled: list[str] | None
    ignore: str | None
    no_label: str | None


def opened(
    pool: str, labelled: Sequence[str] | None, ignore: str | None, no_label: str | None, folder: str | None = None
) -> Opened:
    """The pool, the files of labels (in a folder, if not in the project), the columns to ignore, and what is no label.

    What is no project comes back as it was given. Every label of a project is a class, be it called -1 or NA; of
    further files that a person names nobody knows.
    """
    if not is_project(pool):
        return Opened(pool, None if labelled is None else list(labelled), ignore, no_label)
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
    paths = [*write_labels(state, folder), *(labelled or [])]
    return Opened(state.project.pool_path, paths or None, ignored, no_label if labelled or no_label else EMPTY)


def dataset(path: str, no_label: str | None) -> tuple[str, str | None]:
    """What is labelled in a project as data of its own, and what is no label there; of others, as it was given."""
    if not is_project(path):
        return path, no_label
    require("sqlalchemy", extra="label")
    from dubito.labelling.handing import read_state, write_dataset

    return write_dataset(read_state(path)), no_label or EMPTY
