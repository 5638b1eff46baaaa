"""The content of the items that annotators see: a picture, a text, or the columns of a table."""

import os
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Literal

import numpy as np

from dubito.errors import MissingFile
from dubito.io.formats.parquet import COLUMN
from dubito.io.lookup import Columns, find_names
from dubito.io.opening import open_source
from dubito.io.roles import read_pool
from dubito.io.source import Source
from dubito.labeling.items import Identities, digest_of, has_items, match_items
from dubito.labeling.project import Project
from dubito.matrix import AnyArray, IntArray, Matrix, Rows, blocks, len_of, rows_per_read
from dubito.request.columns import IDS, label_name, usual
from dubito.request.labels import are_labels, label_keys

What = Literal["pictures", "texts", "rows"]
PICTURES = ("path", "image")
TEXTS = ("text", "sentence", "document", "content", "review", "title", "body")
MAX_COLUMNS = 30
MAX_CELL_LENGTH = 2000


@dataclass(frozen=True, slots=True, eq=False)
class Contents:
    """The items of a project as annotators see them."""

    what: What
    ids: Sequence[str]
    shown: Sequence[object] | None
    """Paths or bytes of pictures, or texts."""
    columns: Mapping[str, Sequence[str]]
    """Other columns, without the label."""
    labels: tuple[str | None, ...]
    """Labels of the source; empty if it has none."""
    root: str
    """Folder that paths are relative to; files outside it are not shown."""
    has_ids: bool = True
    """False if the ids are row numbers."""
    rows: IntArray | None = None
    """(n,) pool row of each item; None if item i is row i."""
    n_left_out: int = 0
    """Number of pool rows added after the project was created."""
    n_other_ids: int = 0
    """Number of items that the pool now has under another id than when the project was created."""

    def row_of(self, item: int) -> int:
        return item if self.rows is None else int(self.rows[item])

    def __len__(self) -> int:
        return len(self.ids)

    def text(self, item: int) -> str | None:
        return str(self.shown[item]) if self.what == "texts" and self.shown is not None else None

    def cells(self, item: int) -> dict[str, str]:
        return {name: values[item] for name, values in self.columns.items()}


def read_contents(project: Project) -> Contents:
    """Read the contents of a project's items; raises `InvalidData` if the pool was replaced and lacks some of them."""
    contents = _read_pool_contents(project)
    if not has_items(project):
        return contents
    match = match_items(project, identities_of(project, contents))
    if match.rows is None:
        return contents
    order = match.rows.tolist()
    return replace(
        contents,
        ids=[contents.ids[row] for row in order],
        shown=None if contents.shown is None else [contents.shown[row] for row in order],
        columns={name: [values[row] for row in order] for name, values in contents.columns.items()},
        labels=tuple(contents.labels[row] for row in order) if contents.labels else (),
        rows=match.rows,
        n_left_out=match.n_new,
        n_other_ids=match.n_other_ids,
    )


def identities_of(project: Project, contents: Contents) -> Identities:
    """Identify the items: by id and by content, or by features if there is neither."""
    if contents.shown is not None:
        kind, digests = "shown", [digest_of(each) for each in contents.shown]
    elif contents.has_ids:
        kind, digests = "ids", [0] * len(contents)
    else:
        features = features_of(project, contents.rows)[0]
        spans = blocks(len_of(features), rows_per_read(features))
        parts = (np.ascontiguousarray(features[span]) for span in spans)
        kind, digests = "features", [digest_of(row.tobytes()) for part in parts for row in part]
    return Identities(contents.ids, np.array(digests, dtype=np.uint64), kind, contents.has_ids)


def features_of(project: Project, rows: IntArray | None) -> tuple[Matrix, bool]:
    """The features of the items, and whether they are named columns of a table."""
    pool = read_pool(project.pool_path, columns=Columns(label=project.columns.get("label_column")))
    return (pool.features if rows is None else Rows(pool.features, rows)), bool(pool.feature_names)


def _read_pool_contents(project: Project) -> Contents:
    source = open_source(project.pool_path)
    names = list(source.names)
    label = own_column(project, names)
    what, shown = _shown(source)
    n_rows = _n_rows(source)
    ids = find_names(source, None, n_rows).ids
    item_ids = [str(row) for row in range(n_rows)] if ids is None else [str(each) for each in ids.values.tolist()]
    hidden = {label, shown, COLUMN, usual(names, IDS)}
    path = project.source_path
    root = path if os.path.isdir(path) else os.path.dirname(path)
    return Contents(
        what,
        item_ids,
        None if shown is None else list(source.entry(shown).values().tolist()),
        _columns(source, [name for name in names if name and name not in hidden]),
        () if label is None or project.columns.get("labels") == "no" else _labels(source, label),
        root,
        ids is not None,
    )


def own_column(project: Project, names: Sequence[str]) -> str | None:
    """The label column among the names of the pool, which is not shown to annotators."""
    given = project.columns.get("label_column")
    if given is not None and given not in names:
        hint = f"it has {', '.join(name for name in names if name)}."
        raise MissingFile(f"{project.pool_path} has no column {given!r}", hint=hint)
    return given or label_name([name for name in names if name])


def _n_rows(source: Source) -> int:
    """Number of rows, from the ids if possible, so that the features need not be read."""
    ids = usual([name for name in source.names if name], IDS)
    if ids is not None:
        return len(source.entry(ids).names())
    return len_of(read_pool(source.path).features)


def _shown(source: Source) -> tuple[What, str | None]:
    """The kind of content and its column; None for rows of a table."""
    names = [name for name in source.names if name]
    picture, text = usual(names, PICTURES), usual(names, TEXTS)
    if picture is not None and source.is_table:
        return "pictures", picture
    if text is not None and source.is_table:
        return "texts", text
    return "rows", None


def _columns(source: Source, names: Sequence[str]) -> dict[str, list[str]]:
    if not source.is_table:
        return {}
    shown = [name for name in names if source.entry(name).ndim == 1][:MAX_COLUMNS]
    return {name: [_cell(value) for value in source.entry(name).values().tolist()] for name in shown}


def _cell(value: object) -> str:
    text = "" if value is None or value != value else f"{value:g}" if isinstance(value, float) else str(value)
    return text if len(text) <= MAX_CELL_LENGTH else text[:MAX_CELL_LENGTH] + "..."


def _labels(source: Source, name: str) -> tuple[str | None, ...]:
    values: AnyArray = np.asarray(source.entry(name).values())
    is_label = are_labels(f"{source.path} ({name})", values, ("-1",))
    return tuple(key if given else None for key, given in zip(label_keys(values), is_label, strict=True))
