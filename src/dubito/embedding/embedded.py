"""What `dubito.embed` gives back: a pool file that was written, or the same in memory."""

from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property
from typing import Any, NamedTuple

import numpy as np

from dubito.files.entries import whole
from dubito.files.formats.embeddings import COLUMN
from dubito.files.roles import read_pool
from dubito.matrix import AnyArray


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
