"""Probabilities of the user's own model, in the place of dubito's."""

import os
import tempfile
from contextlib import suppress

import numpy as np

from dubito.errors import InvalidArgument, InvalidData
from dubito.io.durable import save_sealed
from dubito.io.opening import open_source
from dubito.io.roles import read_rows
from dubito.labeling.contents import Contents
from dubito.labeling.project import OWN, Project
from dubito.matrix import AnyArray, FloatArray
from dubito.request.ids import Ids

NUMPY, PARQUET = b"PK\x03\x04", b"PAR1"


def keep_own(project: Project, contents: Contents, path: str) -> int:
    """Read a file of probabilities, match its rows by id, and keep them; how many rows it had."""
    probabilities, classes, n_given = read_own(project, contents, path)
    save_sealed(project.path(OWN), {"probabilities": probabilities, "classes": np.array(classes)}, private=True)
    return n_given


def keep_own_bytes(project: Project, contents: Contents, data: bytes) -> int:
    """The same of a file's bytes, whose kind their beginning tells."""
    suffix = ".npz" if data.startswith(NUMPY) else ".parquet" if data.startswith(PARQUET) else ".csv"
    with tempfile.TemporaryDirectory(prefix="dubito-") as folder:
        path = os.path.join(folder, f"probabilities{suffix}")
        with open(path, "wb") as file:
            file.write(data)
        return keep_own(project, contents, path)


def drop_own(project: Project) -> None:
    """Go back to dubito's own model."""
    with suppress(FileNotFoundError):
        os.unlink(project.path(OWN))


def read_own(project: Project, contents: Contents, path: str) -> tuple[FloatArray, list[str], int]:
    """(n, c) for every row of the pool, the classes of the columns, and how many rows the file has."""
    found = read_rows(path, "probabilities")
    values = np.asarray(found.values, dtype=np.float64)
    if values.ndim != 2 or not np.isfinite(values).all() or (values < 0.0).any():
        raise InvalidData("probabilities are rows of finite numbers, 0 or more", hint="pass one row an item.")
    sums = values.sum(axis=1)
    if (np.abs(sums - 1.0) > 0.01).any():
        row = int(np.abs(sums - 1.0).argmax())
        raise InvalidData(f"row {row} of the probabilities adds up to {sums[row]:.3g}", hint="rows must add up to 1.")
    classes = _classes(path, values.shape[1], project)
    rows = _rows(contents, found.names.ids, len(values))
    whole = np.full((len(contents), values.shape[1]), 1.0 / values.shape[1])
    whole[rows] = values / sums[:, None]
    return whole, classes, len(values)


def _classes(path: str, n_columns: int, project: Project) -> list[str]:
    """By the file's ``classes``, by the names of its columns, or in the order of the project's."""
    source = open_source(path)
    if "classes" in source.entries and not source.is_table:
        named = [str(each) for each in source.entry("classes").names().tolist()]
    else:
        named = [name for name in source.names if name in project.classes]
        named = named if len(named) == n_columns else list(project.classes)
    if len(named) != n_columns:
        problem = f"the probabilities have {n_columns} columns, and {len(named)} classes are known"
        raise InvalidArgument(problem, hint="name them in an array classes, or by the names of the columns.")
    unknown = [name for name in named if name not in project.classes]
    if unknown:
        raise InvalidArgument(f"{unknown[0]!r} is no class of the project", hint="add it first.")
    return named


def _rows(contents: Contents, ids: Ids | None, n_given: int) -> AnyArray:
    """Which row of the pool each is: by id, or in the pool's order where there are as many."""
    if ids is None:
        if n_given != len(contents):
            problem = f"there are {n_given} rows of probabilities for {len(contents)} items"
            raise InvalidArgument(problem, hint="name each row in a column or array ids.")
        return np.arange(n_given) if contents.rows is None else np.argsort(contents.rows)
    places = Ids("pool", np.array(contents.ids)).row_of_key
    unknown = [row for row, key in enumerate(ids.keys) if key not in places]
    if unknown:
        raise InvalidArgument(f"the pool has no item {ids.shown(unknown[:1])}", hint="pass ids of the pool.")
    return np.array([places[key] for key in ids.keys], dtype=np.int64)
