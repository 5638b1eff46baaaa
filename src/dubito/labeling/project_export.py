"""Write the labels of a project to files that the other commands read."""

import os
from collections.abc import Sequence

from dubito.io.durable import write_atomically
from dubito.io.opening import open_source
from dubito.io.picks import render_columns
from dubito.labeling.contents import find_label_column, read_contents
from dubito.labeling.database import open_reader, store_errors
from dubito.labeling.project import Project, read_project
from dubito.labeling.state import State


def read_state(folder: str) -> State:
    """Read the current state of a project, even while a server has it open; changes nothing."""
    project = read_project(folder)
    state = State(project, read_contents(project))
    if project.store is None and not os.path.exists(project.path("labels.sqlite")):
        return state
    with store_errors(f"the labels of {folder} cannot be read", project.path("labels.sqlite")):
        engine = open_reader(project.folder, project.store)
        with engine.connect() as connection:
            state.reload(connection)
    return state


def label_column(project: Project) -> str | None:
    """The label column of the pool, which the labels of the project replace."""
    return find_label_column(project, open_source(project.pool_path).names)


def labels_of_copies(state: State) -> dict[int, str]:
    """By row of the pool, the labels of items that were not labeled themselves, but as an exact copy."""
    table, contents = state.label_table, state.contents
    labeled = (item for item in table.shared if item in table.labels and item not in contents.gone)
    return {contents.row_of(item): table.labels[item] for item in labeled}


def write_labels(state: State, folder: str | None = None) -> list[str]:
    """Write the labels to tables in `folder` (default: the project); those since the last round get their own table."""
    table, contents, last = state.label_table, state.contents, state.round
    recent = {
        item for item in table.labels if max(event.round for event in table.deciding_answers(item).values()) >= last > 1
    }
    # The items are in the order in which they were labeled, which the estimate of accuracy uses.
    labeled = [item for item in table.labels if item not in contents.gone]
    parts = [[item for item in labeled if (item in recent) == is_recent] for is_recent in (False, True)]
    audited = set(state.audited())
    column = "class" if label_column(state.project) == "label" else "label"
    paths = []
    for number, items in enumerate((each for each in parts if each), start=1):
        name = f"labels-{number}.csv"
        if folder is not None:  # Include the project in the file name, so that messages identify it.
            name = f"{os.path.basename(os.path.normpath(state.project.folder))}-{name}"
        path = os.path.join(state.project.folder if folder is None else folder, name)
        names: list[object] = [contents.ids[item] if contents.has_ids else contents.row_of(item) for item in items]
        labels = [table.labels[item] for item in items]
        columns: dict[str, Sequence[object]] = {"id" if contents.has_ids else "index": names, column: labels}
        if audited:
            columns["drawn"] = [int(item in audited) for item in items]
        write_atomically(path, render_columns(columns, "csv"), private=True)
        paths.append(path)
    return paths
