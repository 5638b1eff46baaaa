"""What a source gives, whatever it is: lots of items in order, and what stands beside them."""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from functools import cached_property
from typing import Any, NamedTuple, Protocol

import numpy as np

from dubito.embedding.embedder import Takes
from dubito.io.formats.parquet import COLUMN
from dubito.io.roles import read_pool
from dubito.io.source import whole
from dubito.matrix import AnyArray

# What `dubito.embed` gives back: a pool file that was written, or the same in memory.


class LeftOut(NamedTuple):
    """An item that could not be embedded, and why."""

    id: str
    problem: str

    def __str__(self) -> str:
        return f"{self.id} {self.problem}"


@dataclass(frozen=True, eq=False)
class Embedded:
    """A pool: ids, embeddings, and the other columns; in a file if one was asked for, else in memory."""

    embedder: str
    """Its name; ``version`` changes whenever its numbers would."""
    version: str
    width: int
    n_rows: int
    takes: str
    """What was embedded: ``pictures`` or ``texts``."""
    left_out: tuple[LeftOut, ...]
    """What could not be embedded."""
    notes: tuple[str, ...]
    """What a person should know of how the source was read."""
    path: str | None = None
    """Where the pool file is."""
    seconds: float = 0.0
    n_before: int = 0
    """Items that an earlier run had done."""
    table: Any = None
    """The pool as an Arrow table, where it is in no file."""

    def __len__(self) -> int:
        return self.n_rows

    def __repr__(self) -> str:
        place = "in memory" if self.path is None else f"in {self.path}"
        left = f", {len(self.left_out)} left out" if self.left_out else ""
        return f"Embedded({self.n_rows} {self.takes} by {self.embedder}, {self.width} wide{left}, {place})"

    @cached_property
    def ids(self) -> AnyArray:
        """(n,) what the rows are called."""
        if self.path is None:
            return np.array(self.table.column("id").to_pylist())
        ids = read_pool(self.path).ids
        return np.empty(0) if ids is None else ids

    @cached_property
    def embedding(self) -> AnyArray:
        """(n, width) the embeddings."""
        if self.path is not None:
            return whole(read_pool(self.path).features)
        if not len(self.table):
            return np.empty((0, self.width), dtype=np.float32)
        flat = self.table.column(COLUMN).combine_chunks().flatten()
        values: AnyArray = flat.to_numpy(zero_copy_only=False).reshape(-1, self.width)
        return values

    @cached_property
    def columns(self) -> Mapping[str, AnyArray]:
        """The other columns by name: what is shown (``path``, ``text`` or ``image``) and all that the source had."""
        if self.path is not None:
            source = read_pool(self.path).source
            return {name: entry.values() for name, entry in source.entries.items() if name not in ("id", COLUMN)}
        return {name: _objects(self.table, name) for name in self.table.column_names if name not in ("id", COLUMN)}


def _objects(table: Any, name: str) -> AnyArray:
    values = np.empty(len(table), dtype=np.object_)
    values[:] = table.column(name).to_pylist()
    return values


LOT_BYTES = 64_000_000
"""A lot ends before its pictures or texts take more, so that one of large pictures fits into the memory."""

Content = str | bytes | None
"""A text; the path or the bytes of a picture; None for nothing."""


@dataclass(frozen=True, slots=True)
class Lot:
    """Items that are embedded and saved together."""

    contents: list[Content]
    table: Any
    """An Arrow table with ``id``, what is shown, and the other columns; a row for each."""


class Supply(Protocol):
    """A source that was opened. The same source gives the same lots, time and again."""

    @property
    def path(self) -> str:
        """The folder in which paths begin, or the table."""

    @property
    def takes(self) -> Takes:
        """What it holds."""

    @property
    def shown(self) -> str:
        """The column to show: ``path``, ``text`` or ``image``."""

    @property
    def n_items(self) -> int:
        """How many items its lots hold together."""

    @property
    def fingerprint(self) -> str:
        """Changes with the source."""

    @property
    def columns(self) -> dict[str, str]:
        """Which columns are what, as settings that a run must keep."""

    @property
    def notes(self) -> tuple[str, ...]:
        """What a person should know of how it was read."""

    @property
    def left_out(self) -> tuple[LeftOut, ...]:
        """What is in no lot, and why."""

    def lots(self, n_rows: int) -> Iterator[Lot]:
        """All items, at most so many at a time."""

    def contents(self) -> Iterator[Content]:
        """Those of all lots, without what stands beside them."""
