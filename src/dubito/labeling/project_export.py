"""A project as files that the other commands read: its pool is one already, its labels are written beside it."""

import os
from collections.abc import Sequence

import numpy as np

from dubito.errors import InvalidData
from dubito.io.durable import save_sealed, write_atomically
from dubito.io.opening import open_source
from dubito.io.picks import render_columns
from dubito.io.source import whole
from dubito.labeling.contents import features_of, read_contents
from dubito.labeling.database import naming_store, open_reader
from dubito.labeling.project import Project, read_project
from dubito.labeling.state import State
from dubito.request.columns import label_name

LABELS, DATA = "labels-{}.csv", "labelled.npz"


def read_state(folder: str) -> State:
    """A project's labels as they stand, whether a server has it open or not; nothing is changed."""
    project = read_project(folder)
    state = State(project, read_contents(project))
    if project.store is None and not os.path.exists(project.path("labels.sqlite")):
        return state
    with naming_store(f"the labels of {folder} cannot be read", project.path("labels.sqlite")):
        engine = open_reader(project.folder, project.store)
        with engine.connect() as connection:
            state.reload(connection)
    return state


def own_column(project: Project) -> str | None:
    """The pool's own column of labels, which the project's take the place of."""
    return label_name([name for name in open_source(project.pool_path).names if name])


def write_labels(state: State, folder: str | None = None) -> list[str]:
    """Tables of the labels, in the project if not elsewhere: those since the last round in one of their own."""
    book, last = state.book, state.round
    late = {item for item in book.labels if max(event.round for event in book.said(item).values()) >= last > 1}
    parts = [sorted(set(book.labels) - late), sorted(late)]
    column = "class" if own_column(state.project) == "label" else "label"
    paths = []
    for number, items in enumerate((each for each in parts if each), start=1):
        own = LABELS.format(number)
        # Elsewhere a message that names the file must say whose it is.
        elsewhere = f"{os.path.basename(os.path.normpath(state.project.folder))}-{own}"
        path = os.path.join(state.project.folder, own) if folder is None else os.path.join(folder, elsewhere)
        contents = state.contents
        names: list[object] = [contents.ids[item] if contents.has_ids else contents.row_of(item) for item in items]
        labels = [book.labels[item] for item in items]
        columns: dict[str, Sequence[object]] = {"id" if state.contents.has_ids else "index": names, column: labels}
        write_atomically(path, render_columns(columns, "csv"), private=True)
        paths.append(path)
    return paths


def write_dataset(state: State) -> str:
    """The labelled items with their features, as ``dubito simulate`` reads them."""
    items = np.array(sorted(state.book.labels), dtype=np.int64)
    if len(items) < 2:
        raise InvalidData(f"{state.project.folder} has {len(items)} labels", hint="label more before replaying them.")
    features = whole(features_of(state.project, state.contents.rows)[0])[items]
    path = state.project.path(DATA)
    labels = np.array([state.book.labels[item] for item in items.tolist()])
    save_sealed(path, {"features": features, "labels": labels}, private=True)
    return path
