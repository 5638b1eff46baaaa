"""The interface of a source of items to embed, and the result of `dubito.embed`."""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from functools import cached_property
from typing import Any, NamedTuple, Protocol

import numpy as np

from dubito.embedding.embedder import Takes
from dubito.io.formats.parquet import COLUMN, HASH
from dubito.io.roles import read_pool
from dubito.io.source import as_one_array
from dubito.matrix import AnyArray

# The result of `dubito.embed`: a pool in a file or in memory.


MAX_NAMED = 3
"""Maximum number of ids named in a message."""


class LeftOut(NamedTuple):
    """An item that could not be embedded, and why."""

    id: str
    problem: str

    def __str__(self) -> str:
        return f"{self.id} {self.problem}"


class Changes(NamedTuple):
    """The ids of the items that differ from those of the earlier pool."""

    added: tuple[str, ...] = ()
    changed: tuple[str, ...] = ()
    """Items whose contents changed."""
    removed: tuple[str, ...] = ()

    def __str__(self) -> str:
        parts = ((self.added, "new"), (self.changed, "changed"), (self.removed, "removed"))
        return (
            ", ".join(f"{len(ids):,} {what} ({_first(ids)})" for ids, what in parts if ids)
            or "the contents are the same"
        )


def _first(ids: tuple[str, ...]) -> str:
    return ", ".join(ids[:MAX_NAMED]) + (", ..." if len(ids) > MAX_NAMED else "")


@dataclass(frozen=True, eq=False)
class Embedded:
    """A pool with ids, embeddings and the other columns: in a file if ``out`` was passed, else in memory."""

    embedder: str
    """The name of the embedder; ``version`` changes whenever its numbers would."""
    version: str
    width: int
    n_rows: int
    takes: str
    """The kind of items: ``pictures`` or ``texts``."""
    left_out: tuple[LeftOut, ...]
    """Items that could not be embedded."""
    notes: tuple[str, ...]
    """Notes for the user on how the source was read."""
    path: str | None = None
    """The path of the pool file."""
    seconds: float = 0.0
    n_before: int = 0
    """Number of items that an earlier run had embedded."""
    changes: Changes | None = None
    """What changed in the source, if the pool was updated."""
    table: Any = None
    """The pool as an Arrow table, if it is not in a file."""

    def __len__(self) -> int:
        return self.n_rows

    def __repr__(self) -> str:
        where = "in memory" if self.path is None else f"in {self.path}"
        left = f", {len(self.left_out)} left out" if self.left_out else ""
        return f"Embedded({self.n_rows} {self.takes} by {self.embedder}, {self.width} wide{left}, {where})"

    @cached_property
    def ids(self) -> AnyArray:
        """(n,) the ids of the rows."""
        if self.path is None:
            return np.array(self.table.column("id").to_pylist())
        ids = read_pool(self.path).ids
        return np.empty(0) if ids is None else ids

    @cached_property
    def embedding(self) -> AnyArray:
        """(n, width) the embeddings."""
        if self.path is not None:
            return as_one_array(read_pool(self.path).features)
        if not len(self.table):
            return np.empty((0, self.width), dtype=np.float32)
        flat = self.table.column(COLUMN).combine_chunks().flatten()
        values: AnyArray = flat.to_numpy(zero_copy_only=False).reshape(-1, self.width)
        return values

    @cached_property
    def columns(self) -> Mapping[str, AnyArray]:
        """The other columns by name: the one to show (``path``, ``text`` or ``image``) and all others of the source."""
        if self.path is not None:
            source = read_pool(self.path).source
            return {name: entry.values() for name, entry in source.entries.items() if name not in OWN}
        return {name: _objects(self.table, name) for name in self.table.column_names if name not in OWN}


def _objects(table: Any, name: str) -> AnyArray:
    values = np.empty(len(table), dtype=np.object_)
    values[:] = table.column(name).to_pylist()
    return values


OWN = ("id", COLUMN, HASH)
"""Columns of a pool that are not columns of its source."""
SHARD_BYTES = 64_000_000
"""Maximum size of the pictures or texts of a shard, so that it fits in memory."""

Content = str | bytes | None
"""A text, or the path or bytes of a picture; None if missing."""


@dataclass(frozen=True, slots=True)
class ShardItems:
    """Items that are embedded and saved together, as one shard."""

    contents: list[Content]
    table: Any
    """An Arrow table with ``id``, the column to show, and the other columns; one row per item."""


class ItemSource(Protocol):
    """An open source of items. It always gives the same shards."""

    @property
    def path(self) -> str:
        """The folder that paths are relative to, or the table."""

    @property
    def takes(self) -> Takes:
        """The kind of items."""

    @property
    def shown(self) -> str:
        """The column to show: ``path``, ``text`` or ``image``."""

    @property
    def n_items(self) -> int:
        """The number of items in all shards."""

    @property
    def fingerprint(self) -> str:
        """A digest that changes with the source."""

    @property
    def has_ids(self) -> bool:
        """False if the ids are row numbers, which change if rows are inserted or removed."""

    @property
    def columns(self) -> dict[str, str]:
        """Settings about columns, which must not change when a run is resumed."""

    @property
    def notes(self) -> tuple[str, ...]:
        """Notes for the user on how the source was read."""

    @property
    def left_out(self) -> tuple[LeftOut, ...]:
        """The items that are in no shard, and why."""

    def shards(self, n_rows: int) -> Iterator[ShardItems]:
        """Yield all items in shards of at most ``n_rows``."""

    def contents(self) -> Iterator[Content]:
        """Yield the content of every item, without the other columns."""
