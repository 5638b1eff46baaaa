"""What a person is shown of each row of the pool: a picture, a text, or its columns."""

import os
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Literal

import numpy as np

from dubito.files.entries import Source
from dubito.files.formats.embeddings import COLUMN
from dubito.files.naming import find_names
from dubito.files.opening import open_source
from dubito.files.roles import read_pool
from dubito.labelling.project import Project
from dubito.matrix import AnyArray, len_of
from dubito.names.columns import IDS, label_name, usual
from dubito.names.labels import are_labels, label_keys

What = Literal["pictures", "texts", "rows"]
PICTURES = ("path", "image")
TEXTS = ("text", "sentence", "document", "content", "review", "title", "body")
MOST_COLUMNS = 30
LONGEST_CELL = 2000


@dataclass(frozen=True, slots=True, eq=False)
class Contents:
    """The pool as a person sees it; rows are numbers from 0."""

    what: What
    ids: Sequence[str]
    shown: Sequence[object] | None
    """Paths or bytes of pictures, or texts."""
    columns: Mapping[str, Sequence[str]]
    """What else is said of every row; never its label."""
    labels: tuple[str | None, ...]
    """What the source itself says, where it has labels."""
    root: str
    """Where paths begin: nothing outside it is shown."""
    has_ids: bool = True
    """False where rows go by their numbers."""

    def __len__(self) -> int:
        return len(self.ids)

    def text(self, item: int) -> str | None:
        """The text of a row."""
        return str(self.shown[item]) if self.what == "texts" and self.shown is not None else None

    def cells(self, item: int) -> dict[str, str]:
        """The other columns of a row."""
        return {name: values[item] for name, values in self.columns.items()}


def read_contents(project: Project) -> Contents:
    """What the pool of a project shows."""
    source = open_source(project.pool_path)
    names = list(source.names)
    label = label_name([name for name in names if name])
    what, shown = _shown(source)
    n_rows = _n_rows(source)
    ids = find_names(source, None, n_rows).ids
    called = [str(row) for row in range(n_rows)] if ids is None else [str(each) for each in ids.values.tolist()]
    hidden = {label, shown, COLUMN, usual(names, IDS)}
    place = project.source_path
    root = place if os.path.isdir(place) else os.path.dirname(place)
    return Contents(
        what,
        called,
        None if shown is None else list(source.entry(shown).values().tolist()),
        _columns(source, [name for name in names if name and name not in hidden]),
        () if label is None else _labels(source, label),
        root,
        ids is not None,
    )


def _n_rows(source: Source) -> int:
    """By the ids where there are some, so that no features need be read."""
    ids = usual([name for name in source.names if name], IDS)
    if ids is not None:
        return len(source.entry(ids).names())
    return len_of(read_pool(source.path).features)


def _shown(source: Source) -> tuple[What, str | None]:
    """Pictures by path or bytes, texts, or rows of whatever there is."""
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
    kept = [name for name in names if source.entry(name).ndim == 1][:MOST_COLUMNS]
    return {name: [_cell(value) for value in source.entry(name).values().tolist()] for name in kept}


def _cell(value: object) -> str:
    shown = "" if value is None or value != value else f"{value:g}" if isinstance(value, float) else str(value)
    return shown if len(shown) <= LONGEST_CELL else shown[:LONGEST_CELL] + "..."


def _labels(source: Source, name: str) -> tuple[str | None, ...]:
    values: AnyArray = np.asarray(source.entry(name).values())
    kept = are_labels(f"{source.path} ({name})", values, ("-1",))
    return tuple(key if is_label else None for key, is_label in zip(label_keys(values), kept, strict=True))
