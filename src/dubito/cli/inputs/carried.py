"""What a person labels from: columns of the pool's own file that go along with the picks, and pictures they name."""

import os
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path

from dubito.errors import InvalidArgument
from dubito.files import Columns, PoolFile, Source, open_source, split_spec
from dubito.files.choosing import given_name, usual_name
from dubito.files.naming import index_columns
from dubito.matrix import AnyArray, len_of
from dubito.names.columns import no_features
from dubito.problem import Selection

OWN = ("rank", "index", "id", "priority")
"""Columns that picks have anyway."""
NOTHING = "none"


def read_carried(spec: str, keep: str | None, pool: PoolFile, columns: Columns) -> dict[str, AnyArray]:
    """The columns named, or every column of text in a table that is no id and no label; (n,) of text each.

    The file is opened again: a column that is ignored as a feature may well be what people label from.
    """
    source = open_source(split_spec(spec)[0])
    if keep is not None:
        names = [name.strip() for name in keep.split(",") if name.strip() not in ("", NOTHING)]
        for name in names:
            _refuse_own(source.path, name)
    else:
        names = text_columns(source, columns)
    return {name: _texts(source, name, len_of(pool.features)) for name in names}


def text_columns(source: Source, columns: Columns) -> list[str]:
    """Columns of text that nothing else claims."""
    if not source.is_table:
        return []
    roles = [given_name(role, columns) or usual_name(source, role) for role in ("ids", "labels")]
    taken = {*roles, *OWN, columns.id, columns.label, *no_features(list(source.names)), *index_columns(source)}
    return [name for name, entry in source.entries.items() if entry.content == "text" and name and name not in taken]


def _refuse_own(path: str, name: str) -> None:
    if name in OWN or no_features([name]):
        raise InvalidArgument(
            f"{path}: picks cannot carry a column called {name!r}, which means something else when they come back",
            mend="leave it out of --keep, or rename it.",
        )


def _texts(source: Source, name: str, n_rows: int) -> AnyArray:
    values = source.entry(name).values()
    if values.shape != (n_rows,):
        raise InvalidArgument(
            f"{source.noun} {name!r} of {source.path} has shape {values.shape} and the pool {n_rows} rows",
            mend="name a column with a value for each row in --keep.",
        )
    return values


def with_carried(selection: Selection, columns: Mapping[str, AnyArray]) -> Selection:
    """The picks with their values of these columns, as text."""
    carried = {name: list(map(_text, values[selection.indices].tolist())) for name, values in columns.items()}
    return replace(selection, carried=carried)


def _text(value: object) -> str:
    """A cell as text; nothing for what is missing."""
    return "" if value is None or value != value else str(value)


def picture_folders(spec: str, given: str | None) -> list[Path]:
    """Where pictures may be: the folder named, else where a pool file's begin, beside it, or where we run."""
    if given is not None:
        if not Path(given).is_dir():
            raise InvalidArgument(f"--pictures {given} is no folder", mend="name the folder that pictures are in.")
        return [Path(given)]
    path = split_spec(spec)[0]
    is_pool = os.path.isdir(path) or (path.lower().endswith(".parquet") and os.path.exists(path))
    root = open_source(path).root if is_pool else ""
    return [*([Path(root)] if root else []), Path(path).resolve().parent, Path()]
