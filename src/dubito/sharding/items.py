"""What a shard is read from: a file at any address, a block of Ray Data, or an array."""

import os
import shutil
import tempfile
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

import numpy as np

from dubito.errors import InvalidData, MissingFile
from dubito.files import Columns, DoubtRole, PoolFile, find_array, find_doubt, read_pool, read_rows, split_spec
from dubito.files.choosing import DOUBT_ROLES, USUAL_NAMES
from dubito.files.entries import suffix_of
from dubito.matrix import AnyArray, Matrix, len_of
from dubito.names import matching_ids, order_of
from dubito.names.columns import IDS, LABELLED, usual
from dubito.optional import require


@dataclass(frozen=True, slots=True, eq=False)
class Read:
    """What one item holds, row by row."""

    features: Matrix
    doubt: tuple[DoubtRole, AnyArray] | None = None
    labelled: AnyArray | None = None
    """A mask, where there is one."""
    ids: AnyArray | None = None


@dataclass(frozen=True, slots=True)
class FileItem:
    """A file of features, with doubt inside or in a file beside it."""

    address: str
    columns: Columns
    doubt: tuple[DoubtRole, str] | None = None

    def read(self) -> Read:
        """Read it where it is wanted; from elsewhere a copy is made first, and removed again."""
        with at_hand(self.address) as path:
            pool = read_pool(path, columns=self.columns, may_be_empty=True)
            features = pool.features if _is_local(self.address) else np.asarray(pool.features[:])
            found = self._doubt(pool)
            mask = find_array(pool.source, "labelled", columns=self.columns)
            marked = None if mask is None else check_mask(mask, len_of(features), self.address)
            return Read(features, found, marked, pool.ids)

    def _doubt(self, pool: PoolFile) -> tuple[DoubtRole, AnyArray] | None:
        if self.doubt is None:
            return find_doubt(pool.source, columns=self.columns)
        role, address = self.doubt
        with at_hand(address) as path:
            rows = read_rows(path, role, columns=self.columns)
        pair = matching_ids(rows.names, pool.names)
        values = rows.values if pair is None else rows.values[order_of(*pair)]
        if len(values) != len_of(pool.features):
            problem = f"{address} has {len(values):,} rows and {self.address} {len_of(pool.features):,}"
            raise InvalidData(problem, mend="shards of doubt go with shards of features, one by one.")
        return role, values


@dataclass(frozen=True, slots=True, eq=False)
class ArrayItem:
    """Arrays, or columns of a block, by their names; or a reference to them, which the worker follows."""

    columns: Any
    """A mapping of names to arrays, or what `ray.get` makes one of."""
    name: str

    def read(self) -> Read:
        """Features by a usual name, or the only array of two dimensions."""
        given: Any = self.columns
        columns: Mapping[str, AnyArray] = (
            given if isinstance(given, Mapping) else require("ray", extra="ray").get(given)
        )
        names = [*columns]
        wide = [name for name in names if getattr(columns[name], "ndim", 1) == 2]
        name = usual(names, USUAL_NAMES["features"]) or (wide[0] if len(wide) == 1 else None)
        if name is None:
            mend = f"call one of its columns features; it has {', '.join(names)}."
            raise MissingFile(f"{self.name} has no column of features", mend=mend)
        features = _stacked(columns[name])
        role = next((role for role in DOUBT_ROLES if role in columns), None)
        mask, ids = usual(names, LABELLED), usual(names, IDS)
        return Read(
            features,
            None if role is None else (role, _stacked(columns[role])),
            None if mask is None else check_mask(columns[mask], len(features), self.name),
            None if ids is None else np.asarray(columns[ids]),
        )


@dataclass(frozen=True, slots=True, eq=False)
class SomeRows:
    """Some rows of an item: of a file that is mapped into memory, only those are read."""

    item: FileItem | ArrayItem
    start: int
    stop: int

    def read(self) -> Read:
        """From the first of them to before the last."""
        found, rows = self.item.read(), slice(self.start, self.stop)
        return Read(
            found.features[rows],
            None if found.doubt is None else (found.doubt[0], found.doubt[1][rows]),
            None if found.labelled is None else found.labelled[rows],
            None if found.ids is None else found.ids[rows],
        )


Item = FileItem | ArrayItem | SomeRows


def _stacked(column: AnyArray) -> AnyArray:
    """A column of lists as one array."""
    return np.stack([*column]) if column.dtype == object else np.asarray(column)


def check_mask(mask: Any, n_rows: int, name: str) -> AnyArray:
    """Which rows of a shard are labelled: a mask, since row numbers of a shard and of the pool would be mistaken."""
    values = np.asarray(mask)
    if values.shape != (n_rows,) or not np.isin(values, (0, 1)).all():
        problem = f"labelled in {name} is not a mask of its {n_rows:,} rows"
        raise InvalidData(problem, mend="hold True or False there for each, or name the rows of the whole pool.")
    return values.astype(np.bool_)


def _is_local(address: str) -> bool:
    return "://" not in address


@contextmanager
def at_hand(address: str) -> Iterator[str]:
    """A path on this machine to what lies at an address, as `dubito.files` takes it."""
    if _is_local(address):
        yield address
        return
    spec, key = split_spec(address)
    fsspec = require("fsspec", extra="ray")
    with tempfile.TemporaryDirectory(prefix="dubito-shard-") as folder:
        path = os.path.join(folder, "shard" + suffix_of(spec))
        try:
            with fsspec.open(spec, "rb") as source, open(path, "wb") as target:
                shutil.copyfileobj(source, target, 1 << 22)
        except (OSError, ValueError, ImportError) as error:
            raise MissingFile(
                f"{spec} cannot be read ({error})", mend="check the address and who may read it."
            ) from error
        yield path if key is None else f"{path}::{key}"
