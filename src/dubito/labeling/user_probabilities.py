"""Probabilities of the user's own model, which replace those of dubito's model."""

import os
import tempfile
from contextlib import suppress

import numpy as np

from dubito.errors import InvalidArgument, InvalidData
from dubito.io.durable import save_with_checksum
from dubito.io.opening import open_source
from dubito.io.roles import read_rows
from dubito.labeling.contents import Contents
from dubito.labeling.project import USER_PROBABILITIES, Project
from dubito.matrix import AnyArray, FloatArray
from dubito.request.ids import Ids

NUMPY, PARQUET = b"PK\x03\x04", b"PAR1"


def save_probabilities(project: Project, contents: Contents, path: str) -> int:
    """Read a file of probabilities, match its rows by id, and store them; returns the number of rows read."""
    probabilities, classes, n_given = read_probabilities(project, contents, path)
    arrays = {
        "probabilities": probabilities,
        "classes": np.array(classes),
        "class_event": np.array(project.class_event),
    }
    save_with_checksum(project.path(USER_PROBABILITIES), arrays, private=True)
    return n_given


def save_probabilities_bytes(project: Project, contents: Contents, data: bytes) -> int:
    """Store probabilities from the bytes of a file; its first bytes determine the format."""
    suffix = ".npz" if data.startswith(NUMPY) else ".parquet" if data.startswith(PARQUET) else ".csv"
    with tempfile.TemporaryDirectory(prefix="dubito-") as folder:
        path = os.path.join(folder, f"probabilities{suffix}")
        with open(path, "wb") as file:
            file.write(data)
        return save_probabilities(project, contents, path)


def remove_probabilities(project: Project) -> None:
    """Return to dubito's own model."""
    with suppress(FileNotFoundError):
        os.unlink(project.path(USER_PROBABILITIES))


def read_probabilities(project: Project, contents: Contents, path: str) -> tuple[FloatArray, list[str], int]:
    """(n, c) probabilities for every row of the pool, the classes of the columns, and the number of rows in the file.

    Rows that are missing in the file get equal probabilities.
    """
    found = read_rows(path, "probabilities")
    values = np.asarray(found.values, dtype=np.float64)
    if values.ndim != 2 or not np.isfinite(values).all() or (values < 0.0).any():
        raise InvalidData("probabilities must be rows of finite numbers >= 0", hint="pass one row per item.")
    sums = values.sum(axis=1)
    if (np.abs(sums - 1.0) > 0.01).any():
        row = int(np.abs(sums - 1.0).argmax())
        raise InvalidData(f"row {row} of the probabilities adds up to {sums[row]:.3g}", hint="rows must add up to 1.")
    classes = _classes(path, values.shape[1], project)
    rows = _rows(contents, found.row_ids.ids, len(values))
    probabilities = np.full((len(contents), values.shape[1]), 1.0 / values.shape[1])
    probabilities[rows] = values / sums[:, None]
    return probabilities, classes, len(values)


def _classes(path: str, n_columns: int, project: Project) -> list[str]:
    """The classes of the columns: the file's ``classes``, its column names, or the classes of the project in order."""
    source = open_source(path)
    if "classes" in source.entries and not source.is_table:
        names = [str(each) for each in source.entry("classes").names().tolist()]
    else:
        names = [name for name in source.names if name in project.classes]
        names = names if len(names) == n_columns else list(project.classes)
    if len(names) != n_columns:
        problem = f"the probabilities have {n_columns} columns, but {len(names)} classes are known"
        raise InvalidArgument(problem, hint="pass the classes as an array named classes, or as column names.")
    unknown = [name for name in names if name not in project.classes]
    if unknown:
        raise InvalidArgument(f"{unknown[0]!r} is not a class of the project", hint="add it first.")
    return names


def _rows(contents: Contents, ids: Ids | None, n_given: int) -> AnyArray:
    """(m,) the item of each row: by id, or in pool order without ids."""
    if ids is None:
        n_rows = len(contents) - len(contents.gone)
        if n_given != n_rows:
            problem = f"there are {n_given} rows of probabilities for {n_rows} items"
            raise InvalidArgument(problem, hint="pass the id of each row in a column or array named ids.")
        return np.arange(n_given) if contents.rows is None else np.argsort(contents.rows)[len(contents.gone) :]
    item_of = Ids("pool", np.array(contents.ids)).row_of_key
    unknown = [row for row, key in enumerate(ids.keys) if key not in item_of]
    if unknown:
        raise InvalidArgument(f"the pool has no item {ids.shown(unknown[:1])}", hint="pass ids of the pool.")
    return np.array([item_of[key] for key in ids.keys], dtype=np.int64)
