"""A table of texts or pictures: its lots, with ids, what is shown, and every other column carried through."""

import hashlib
import os
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np

from dubito.embedding.base import Takes
from dubito.embedding.embedded import LeftOut
from dubito.embedding.sources.columns import Chosen
from dubito.embedding.sources.rows import TableRows
from dubito.embedding.sources.supply import LOT_BYTES, Content, Lot
from dubito.files.entries import reading
from dubito.files.formats.embeddings import COLUMN
from dubito.matrix import AnyArray
from dubito.names import Ids
from dubito.optional import require
from dubito.wording import PASS, named

SHOWN = {"texts": "text", "paths": "path", "bytes": "image", "records": "image"}


@dataclass(frozen=True)
class PoolTable:
    """The rows of a table, and which of its columns are embedded and name them."""

    rows: TableRows
    chosen: Chosen

    @property
    def left_out(self) -> tuple[LeftOut, ...]:
        """Lines that are broken."""
        return tuple(self.rows.broken.values())

    @property
    def path(self) -> str:
        """The file, or the folder."""
        return self.rows.path

    @property
    def takes(self) -> Takes:
        """Texts, or pictures."""
        return "texts" if self.chosen.holds == "texts" else "pictures"

    @property
    def shown(self) -> str:
        """What the column that is embedded is called in the pool."""
        return SHOWN[self.chosen.holds]

    @property
    def n_items(self) -> int:
        """How many rows there are."""
        return self.rows.n_rows

    @property
    def columns(self) -> dict[str, str]:
        """What is embedded, and what names the rows."""
        return {"column": self.chosen.content, "id_column": self.chosen.id or "the number of the row"}

    @property
    def notes(self) -> tuple[str, ...]:
        """Remarks on the file, and what was chosen."""
        ids = "rows are called by their numbers" if self.chosen.id is None else f"ids are in {self.chosen.id!r}"
        renamed = [f"{old!r} is called {new!r}" for old, new in self._names.items() if old != new]
        told = f"{self.path}: {self.takes} are in {self.chosen.content!r}, {ids}"
        return (*self.rows.notes, f"{told}{'; in the pool ' + ', '.join(renamed) if renamed else ''}.")

    @cached_property
    def fingerprint(self) -> str:
        """Names, sizes and times of the table's files."""
        places = [self.path]
        if os.path.isdir(self.path):
            places = sorted(os.path.join(self.path, name) for name in os.listdir(self.path))
        digest = hashlib.blake2b(digest_size=16)
        for place in places:
            with reading(place):
                found = os.stat(place)
            facts = f"{os.path.basename(place)}\0{found.st_size} {found.st_mtime_ns}\n"
            digest.update(facts.encode("utf-8", "surrogateescape"))
        return digest.hexdigest()

    @cached_property
    def _names(self) -> dict[str, str]:
        """What the other columns are called in the pool: one that would stand for something else there is renamed."""
        taken = {"id", COLUMN, self.shown}
        names: dict[str, str] = {}
        for name in self.rows.schema.names:
            if name in (self.chosen.content, self.chosen.id):
                continue
            new = name
            while new in taken or (new != name and new in self.rows.schema.names):
                new += "_source"
            taken.add(new)
            names[name] = new
        return names

    def check_ids(self) -> None:
        """Refuse ids that are missing or there twice."""
        if self.chosen.id is None:
            return
        values = [each for block in self.rows.blocks() for each in block.column(self.chosen.id).to_pylist()]
        array = np.empty(len(values), dtype=np.object_)
        array[:] = values
        ids = Ids(f"column {self.chosen.id!r} of {self.path}", array)
        if ids.repeated is not None:
            first, second = ids.repeated
            problem = f"repeats the id {ids.shown([first])} (rows {first} and {second})"
            raise ids.wrong(problem, f"each must be there once, or {PASS} {named('id_column')} with another column.")

    def lots(self, n_rows: int) -> Iterator[Lot]:
        """So many rows at a time, fewer where they are large."""
        first = 0
        for part in cut(self._sized(), n_rows, LOT_BYTES):
            yield Lot(self._contents(part), self._carried(part, first))
            first += len(part)

    def contents(self) -> Iterator[Content]:
        """What is embedded, row by row."""
        for block in self.rows.blocks():
            yield from self._contents(block)

    def _sized(self) -> Iterator[tuple[Any, list[int]]]:
        """Blocks, and the bytes of what each row has to embed."""
        for block in self.rows.blocks():
            yield block, [len(each) if each is not None else 0 for each in self._contents(block)]

    def _contents(self, block: Any) -> list[Content]:
        values = block.column(self.chosen.content).to_pylist()
        if self.chosen.holds == "records":
            values = [None if each is None else each["bytes"] or each.get("path") for each in values]
        if self.chosen.holds in ("texts", "bytes"):
            return list(values)
        return [os.path.join(self._root, each) if isinstance(each, str) and each else each or None for each in values]

    @property
    def _root(self) -> str:
        """Where paths begin."""
        return self.path if os.path.isdir(self.path) else os.path.dirname(self.path)

    def _carried(self, part: Any, first: int) -> Any:
        """The rows of a lot as the pool has them, but for the embedding."""
        pyarrow = require("pyarrow", extra="files")
        columns = {"id": self._ids(pyarrow, part, first), self.shown: self._shown(pyarrow, part)}
        columns |= {new: self._named(pyarrow, part, old) for old, new in self._names.items()}
        return pyarrow.table(columns)

    def _ids(self, pyarrow: Any, part: Any, first: int) -> Any:
        if self.chosen.id is None:
            return pyarrow.array(self._numbers[first : first + len(part)])
        column = part.column(self.chosen.id)
        return column.cast(pyarrow.int64() if pyarrow.types.is_integer(column.type) else pyarrow.string())

    @cached_property
    def _numbers(self) -> AnyArray:
        """Rows go by their numbers among all, broken ones too."""
        n_all = self.rows.n_rows + len(self.rows.broken)
        return np.delete(np.arange(n_all), list(self.rows.broken)) if self.rows.broken else np.arange(n_all)

    def _shown(self, pyarrow: Any, part: Any) -> Any:
        column = part.column(self.chosen.content)
        if self.chosen.holds != "records":
            return column
        return pyarrow.chunked_array([pyarrow.array([each and each["bytes"] for each in column.to_pylist()], "binary")])

    def _named(self, pyarrow: Any, part: Any, name: str) -> Any:
        """A column; classes that stand as numbers get their names, and -1 is none."""
        names = (self.rows.classes or {}).get(name)
        column = part.column(name)
        if names is None or not pyarrow.types.is_integer(column.type):
            return column
        known = [names[each] if each is not None and 0 <= each < len(names) else None for each in column.to_pylist()]
        return pyarrow.array(known, pyarrow.string())


def cut(blocks: Iterator[tuple[Any, list[int]]], most_rows: int, most_bytes: int) -> Iterator[Any]:
    """Tables of at most so many rows, that end before they hold more bytes, out of blocks of any length."""
    pyarrow = require("pyarrow", extra="files")
    pending: list[Any] = []
    n_rows = n_bytes = 0
    for block, sizes in blocks:
        start = 0
        for place, size in enumerate(sizes):
            if n_rows and (n_rows == most_rows or n_bytes + size > most_bytes):
                yield pyarrow.concat_tables([*pending, block.slice(start, place - start)])
                pending, start, n_rows, n_bytes = [], place, 0, 0
            n_rows, n_bytes = n_rows + 1, n_bytes + size
        pending.append(block.slice(start))
    if n_rows:
        yield pyarrow.concat_tables(pending)
