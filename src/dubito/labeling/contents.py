"""What annotators see of the items: a picture, a text, or the columns of a table."""

import os
from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, Literal

import numpy as np

from dubito.embedding.source import Changes
from dubito.errors import MissingFile
from dubito.integrations.exchange.items import TEXTS
from dubito.io.formats.parquet import COLUMN, HASH
from dubito.io.lookup import Columns, read_row_ids
from dubito.io.opening import open_source
from dubito.io.roles import read_pool
from dubito.io.source import Source
from dubito.labeling.items import Identities, digest_of, has_items, match_items, save_items
from dubito.labeling.project import Project
from dubito.matrix import AnyArray, IntArray, Matrix, Rows, blocks, len_of, rows_per_read
from dubito.request.columns import IDS, find_name, label_name
from dubito.request.labels import are_labels, label_keys

ItemKind = Literal["pictures", "texts", "rows"]
PICTURES = ("path", "image")
MAX_COLUMNS = 30
MAX_CELL_LENGTH = 2000


@dataclass(frozen=True, slots=True, eq=False)
class Contents:
    """The items of a project as annotators see them."""

    kind: ItemKind
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
    """(n,) pool row of each item, -1 if it is gone; None if item i is row i."""
    gone: frozenset[int] = frozenset()
    """Items that are not in the pool any more; they are not shown, and their labels are kept."""
    hashes: Sequence[str | None] | None = None
    """Hashes of the picture files, if the pool has them."""
    copies: Mapping[int, tuple[int, ...]] = field(default_factory=dict)
    """For each item with exact copies, the copies and itself; those that are still in the pool come first."""

    def row_of(self, item: int) -> int:
        return item if self.rows is None else int(self.rows[item])

    def __len__(self) -> int:
        return len(self.ids)

    def text(self, item: int) -> str | None:
        if self.kind != "texts" or self.shown is None:
            return None
        return "" if item in self.gone else str(self.shown[item])

    def cells(self, item: int) -> dict[str, str]:
        return {name: values[item] for name, values in self.columns.items()}


def read_contents(project: Project) -> Contents:
    """Read the contents of a project's items; rows of the pool that are not items yet are left out."""
    contents = _read_pool_contents(project)
    if not has_items(project):
        return contents
    found = identities_of(project, contents)
    match = match_items(project, found)
    if match.rows is None:
        return replace(contents, copies=find_copies(contents, found))
    return _arrange(contents, match.rows, match.known)


def update_items(project: Project) -> tuple[Contents, Changes, int]:
    """Add the new rows of the pool to the items of a project, which must be locked.

    Returns the contents, the changes, and the number of items whose id in the pool has changed.
    """
    contents = _read_pool_contents(project)
    found = identities_of(project, contents)
    match = match_items(project, found) if has_items(project) else None
    if match is None:
        save_items(project, found)
    if match is None or match.rows is None:
        return replace(contents, copies=find_copies(contents, found)), Changes(), 0
    rows = np.concatenate([match.rows, np.array(match.new, dtype=np.int64)])
    gone = rows < 0
    ids = [*match.known.ids, *(found.ids[row] for row in match.new)]
    digests = np.concatenate([match.known.digests, found.digests[list(match.new)]])
    if match.known.kind == found.kind or not gone.any():
        digests[~gone] = found.digests[rows[~gone]]
        now = Identities(
            [name if row < 0 else found.ids[row] for name, row in zip(ids, rows.tolist(), strict=True)],
            digests,
            found.kind,
            found.has_ids,
        )
    else:  # The stored digests of items that are gone are of another kind: compare ids only, until these are back.
        now = Identities(ids, np.zeros(len(ids), dtype=np.uint64), "ids", found.has_ids)
    removed = np.flatnonzero(gone[: len(match.rows)] & ~match.was_gone).tolist()
    back = np.flatnonzero(~gone[: len(match.rows)] & match.was_gone).tolist()
    is_same = match.known.ids == list(now.ids) and np.array_equal(match.known.digests, now.digests)
    if not (is_same and now.kind == match.known.kind and np.array_equal(gone, match.was_gone)):
        save_items(project, now, gone)
    changes = Changes(
        tuple(now.ids[item] for item in (*back, *range(len(match.rows), len(rows)))),
        tuple(now.ids[item] for item in match.changed),
        tuple(now.ids[item] for item in removed),
    )
    return _arrange(contents, rows, now), changes, match.n_changed_ids


def describe_changes(contents: Contents, changes: Changes, n_changed_ids: int) -> list[str]:
    """Messages about the items of a project that have changed."""
    notes = []
    if any(changes):
        notes.append(f"since the project was last updated: {changes}. Labels, ids and history are kept.")
    if changes.changed:
        notes.append("check the labels of the changed items: they were given before the change.")
    if changes.removed:
        notes.append("removed items are not shown or trained on until they are back; exports still have their labels.")
    added = set(changes.added)
    n_labeled = sum(
        name in added and label is not None for name, label in zip(contents.ids, contents.labels, strict=False)
    )
    if n_labeled:
        notes.append(f"{n_labeled:,} of the new items have labels in the source, which are not imported.")
    if n_changed_ids:
        notes.append(
            f"{n_changed_ids:,} items have new ids; their labels follow their contents. If the ids are right and the "
            "contents are wrong, do not continue."
        )
    return notes


def _arrange(contents: Contents, rows: IntArray, items: Identities) -> Contents:
    """The contents in the order of the items; items that are gone have only their id."""
    order = rows.tolist()

    def by_item(values: Sequence[Any], missing: Any) -> list[Any]:
        return [missing if row < 0 else values[row] for row in order]

    arranged = replace(
        contents,
        ids=[items.ids[item] if row < 0 else contents.ids[row] for item, row in enumerate(order)],
        shown=None if contents.shown is None else by_item(contents.shown, None),
        hashes=None if contents.hashes is None else by_item(contents.hashes, None),
        columns={name: by_item(values, "") for name, values in contents.columns.items()},
        labels=tuple(by_item(contents.labels, None)) if contents.labels else (),
        rows=rows,
        gone=frozenset(np.flatnonzero(rows < 0).tolist()),
    )
    return replace(arranged, copies=find_copies(arranged, items))


def find_copies(contents: Contents, items: Identities) -> dict[int, tuple[int, ...]]:
    """The value of `Contents.copies`. Exact copies have the same text or picture file.

    Items that are no longer in the pool are compared by their digests. If a picture file has several items, such as
    boxes, no copies are reported at all.
    """
    paths = [each for each in contents.shown or () if contents.kind == "pictures" and isinstance(each, str)]
    if items.kind not in ("contents", "shown") or len(set(paths)) < len(paths):
        return {}
    groups: dict[int, list[int]] = defaultdict(list)
    values, counts = np.unique(items.digests, return_counts=True)
    for item in np.flatnonzero(np.isin(items.digests, values[counts > 1])).tolist():
        groups[int(items.digests[item])].append(item)
    ordered = (tuple(sorted(group, key=lambda item: item in contents.gone)) for group in groups.values())
    return {item: group for group in ordered for item in group}


def identities_of(project: Project, contents: Contents) -> Identities:
    """Identify the items: by id and by content, or by features if there is neither."""
    if contents.hashes is not None and contents.shown is not None:
        pairs = zip(contents.hashes, contents.shown, strict=True)
        kind, digests = "contents", [digest_of(found or shown) for found, shown in pairs]
    elif contents.shown is not None:
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
    """The features of these rows of the pool, and whether they are named columns of a table."""
    pool = read_pool(project.pool_path, columns=Columns(label=project.columns.get("label_column")))
    return (pool.features if rows is None else Rows(pool.features, rows)), bool(pool.feature_names)


def _read_pool_contents(project: Project) -> Contents:
    source = open_source(project.pool_path)
    names = list(source.names)
    label = find_label_column(project, names)
    kind, column = _find_content(source)
    n_rows = _n_rows(source)
    ids = read_row_ids(source, None, n_rows).ids
    item_ids = [str(row) for row in range(n_rows)] if ids is None else [str(each) for each in ids.values.tolist()]
    hidden = {label, column, COLUMN, HASH, find_name(names, IDS)}
    path = project.source_path
    root = path if os.path.isdir(path) else os.path.dirname(path)
    return Contents(
        kind,
        item_ids,
        None if column is None else list(source.entry(column).values().tolist()),
        _columns(source, [name for name in names if name and name not in hidden]),
        () if label is None or project.columns.get("labels") == "no" else _labels(source, label),
        root,
        ids is not None,
        hashes=list(source.entry(HASH).values().tolist()) if HASH in names and source.embedder else None,
    )


def find_label_column(project: Project, names: Sequence[str] | None = None) -> str | None:
    """The label column among the columns of the pool; it is not shown, and the labels of the project replace it."""
    names = open_source(project.pool_path).names if names is None else names
    given = project.columns.get("label_column")
    if given is not None and given not in names:
        hint = f"it has {', '.join(name for name in names if name)}."
        raise MissingFile(f"{project.pool_path} has no column {given!r}", hint=hint)
    return given or label_name([name for name in names if name])


def _n_rows(source: Source) -> int:
    """Number of rows, from the ids if possible, so that the features need not be read."""
    ids = find_name([name for name in source.names if name], IDS)
    if ids is not None:
        return len(source.entry(ids).names())
    return len_of(read_pool(source.path).features)


def _find_content(source: Source) -> tuple[ItemKind, str | None]:
    """The kind of content, and the column that has it; None for rows of a table."""
    names = [name for name in source.names if name]
    picture, text = find_name(names, PICTURES), find_name(names, TEXTS)
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


def merge_columns(
    classes: Sequence[str], values: AnyArray | None, names: Mapping[str, str | None]
) -> tuple[tuple[str, ...], AnyArray | None]:
    """Rename the columns of (n, c) values; columns that get the same name are added, those named None are dropped.

    Examples
    --------
    >>> merge_columns(("a", "b", "c"), np.array([[0.5, 0.25, 0.25]]), {"c": "a", "b": "d"})
    (('a', 'd'), array([[0.75, 0.25]]))
    """
    named = [names.get(each, each) for each in classes]
    kept = tuple(dict.fromkeys(each for each in named if each is not None))
    if values is None or len(kept) == len(classes):
        return kept, values
    if not kept:
        return (), None
    merged = np.zeros((len(values), len(kept)), dtype=values.dtype)
    for column, name in enumerate(named):
        if name is not None:
            merged[:, kept.index(name)] += values[:, column]
    return kept, merged
