"""`Shards`: a pool in many files, blocks or arrays."""

import itertools
import os
import shutil
import tempfile
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any, get_args

import numpy as np

from dubito.engines.cluster.messages import Kind
from dubito.errors import InvalidArgument, InvalidData, MissingFile
from dubito.io import Columns, DoubtRole, PoolFile, find_array, find_doubt, read_pool, read_rows, split_spec
from dubito.io.lookup import ANY_COLUMNS, DOUBT_ROLES, USUAL_NAMES
from dubito.io.source import natural_order, suffix_of
from dubito.matrix import AnyArray, Matrix, len_of
from dubito.registry import require
from dubito.request.arrays import check_choice, check_integer
from dubito.request.columns import IDS, LABELED, find_name
from dubito.request.ids import matching_ids, order_of

# The source of a shard: a file or URL, a block of Ray Data, or an array.


@dataclass(frozen=True, slots=True, eq=False)
class ItemData:
    """The arrays of an item, with one entry per row."""

    features: Matrix
    doubt: tuple[DoubtRole, AnyArray] | None = None
    labeled: AnyArray | None = None
    """A mask."""
    ids: AnyArray | None = None


@dataclass(frozen=True, slots=True)
class FileItem:
    """A file of features, with doubt in the same or in another file."""

    address: str
    columns: Columns
    doubt: tuple[DoubtRole, str] | None = None

    def read(self) -> ItemData:
        """Read the file. A remote file is copied first, and the copy removed afterwards."""
        with local_path(self.address) as path:
            pool = read_pool(path, columns=self.columns, may_be_empty=True)
            features = pool.features if _is_local(self.address) else np.asarray(pool.features[:])
            found = self._doubt(pool)
            mask = find_array(pool.source, "labeled", columns=self.columns)
            marked = None if mask is None else check_mask(mask, len_of(features), self.address)
            return ItemData(features, found, marked, pool.ids)

    def _doubt(self, pool: PoolFile) -> tuple[DoubtRole, AnyArray] | None:
        if self.doubt is None:
            return find_doubt(pool.source, columns=self.columns)
        role, address = self.doubt
        with local_path(address) as path:
            rows = read_rows(path, role, columns=self.columns)
        pair = matching_ids(rows.row_ids, pool.row_ids)
        values = rows.values if pair is None else rows.values[order_of(*pair)]
        if len(values) != len_of(pool.features):
            problem = f"{address} has {len(values):,} rows and {self.address} {len_of(pool.features):,}"
            raise InvalidData(problem, hint="pass one file of doubt for each file of features, in the same order.")
        return role, values


@dataclass(frozen=True, slots=True, eq=False)
class ArrayItem:
    """Arrays, or columns of a block, by name; or a Ray reference to them, which the worker resolves."""

    columns: Any
    """A mapping of names to arrays, or a reference for `ray.get`."""
    name: str

    def read(self) -> ItemData:
        """The features are the column with a usual name, or else the only two-dimensional array."""
        given: Any = self.columns
        columns: Mapping[str, AnyArray] = (
            given if isinstance(given, Mapping) else require("ray", extra="ray").get(given)
        )
        names = [*columns]
        wide = [name for name in names if getattr(columns[name], "ndim", 1) == 2]
        name = find_name(names, USUAL_NAMES["features"]) or (wide[0] if len(wide) == 1 else None)
        if name is None:
            hint = f"name one of its columns features; it has {', '.join(names)}."
            raise MissingFile(f"{self.name} has no column of features", hint=hint)
        features = _stacked(columns[name])
        role = next((role for role in DOUBT_ROLES if role in columns), None)
        mask, ids = find_name(names, LABELED), find_name(names, IDS)
        return ItemData(
            features,
            None if role is None else (role, _stacked(columns[role])),
            None if mask is None else check_mask(columns[mask], len(features), self.name),
            None if ids is None else np.asarray(columns[ids]),
        )


@dataclass(frozen=True, slots=True, eq=False)
class RowRange:
    """A range of rows of an item. From a memory-mapped file, only these are read."""

    item: FileItem | ArrayItem
    start: int
    stop: int

    def read(self) -> ItemData:
        found, rows = self.item.read(), slice(self.start, self.stop)
        return ItemData(
            found.features[rows],
            None if found.doubt is None else (found.doubt[0], found.doubt[1][rows]),
            None if found.labeled is None else found.labeled[rows],
            None if found.ids is None else found.ids[rows],
        )


Item = FileItem | ArrayItem | RowRange


def item_name(item: Item) -> str:
    if isinstance(item, RowRange):
        return item_name(item.item)
    return item.address if isinstance(item, FileItem) else item.name


def _stacked(column: AnyArray) -> AnyArray:
    return np.stack([*column]) if column.dtype == object else np.asarray(column)


def check_mask(mask: Any, n_rows: int, name: str) -> AnyArray:
    """The mask of the labeled rows of a shard. Row numbers are ambiguous and raise an error."""
    values = np.asarray(mask)
    if values.shape != (n_rows,) or not np.isin(values, (0, 1)).all():
        problem = f"labeled in {name} is not a mask of its {n_rows:,} rows"
        hint = "store True or False for each row, or pass labeled= with rows of the whole pool."
        raise InvalidData(problem, hint=hint)
    return values.astype(np.bool_)


def _is_local(address: str) -> bool:
    return "://" not in address


@contextmanager
def local_path(address: str) -> Iterator[str]:
    """A path on this machine to the file at an address; a remote file is copied."""
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
            hint = "check the address and the permissions."
            raise MissingFile(f"{spec} cannot be read ({error})", hint=hint) from error
        yield path if key is None else f"{path}::{key}"


MAPPED = (".npy", ".safetensors")
"""Formats that are memory-mapped, so that a range of rows can be read alone."""


class Shards:
    """A pool in shards, for ``dubito.select(..., engine="cluster")``: no process ever holds all of it.

    Parameters
    ----------
    shards : str, sequence or ray.data.Dataset
        Files in any format of a pool (``.npy``, ``.safetensors``, Parquet, ...), as local paths or fsspec URLs such as
        ``s3://bucket/part-0.parquet``; a local folder of files; arrays (n, d) or mappings of columns; or a Ray data
        set, of which each block is a shard. Shards may differ in size and be empty. Rows are numbered through all
        shards.
    probabilities, logits, doubt : sequence, optional
        At most one of them: one file or array per shard. Without them, doubt is looked up in the shards.
    columns : Columns, optional
        The column names in files.
    journal : str, optional
        A file to which the picks are written during the run. A later run with the same file resumes after them.
    workers : {"auto", "cpu", "cuda"}
        The hardware of the workers: ``"auto"`` uses the GPUs of a cluster that has any. The picks are the same.
    workers_per_gpu : int
        The number of workers that share a GPU and its memory.

    Examples
    --------
    >>> import numpy as np, dubito
    >>> dubito.Shards([np.zeros((3, 2)), np.ones((4, 2))], doubt=[np.ones(3), np.ones(4)])
    Shards(2)
    """

    def __init__(
        self,
        shards: Any,
        *,
        probabilities: Sequence[Any] | None = None,
        logits: Sequence[Any] | None = None,
        doubt: Sequence[Any] | None = None,
        columns: Columns = ANY_COLUMNS,
        journal: str | None = None,
        workers: Kind = "auto",
        workers_per_gpu: int = 1,
    ) -> None:
        self.columns, self.journal = columns, journal
        self.workers: Kind = check_choice("workers", workers, get_args(Kind))
        self.workers_per_gpu = check_integer("workers_per_gpu", workers_per_gpu, least=1)
        doubts: dict[DoubtRole, Any] = {"probabilities": probabilities, "logits": logits, "doubt": doubt}
        given = {role: list_shards(parts) for role, parts in doubts.items() if parts is not None}
        if len(given) > 1:
            raise InvalidArgument(f"{' and '.join(given)} were both given", hint="pass one of them.")
        role = next(iter(given), None)
        parts = list_shards(shards)
        if not parts:
            raise InvalidArgument("is empty", argument="shards", hint="pass at least one file or array.")
        if role is not None and len(given[role]) != len(parts):
            problem = f"has {len(given[role])} shards, and the pool {len(parts)}"
            raise InvalidArgument(problem, argument=role, hint="pass one for each shard.")
        self.items: list[Item] = [
            self._item(part, number, None if role is None else (role, given[role][number]))
            for number, part in enumerate(parts)
        ]

    def _item(self, part: Any, number: int, doubt: tuple[DoubtRole, Any] | None) -> Item:
        if isinstance(part, str | os.PathLike):
            if doubt is not None and not isinstance(doubt[1], str | os.PathLike):
                raise InvalidArgument("must be a file, since the shards are files", argument=doubt[0], value=doubt[1])
            return FileItem(os.fspath(part), self.columns, None if doubt is None else (doubt[0], os.fspath(doubt[1])))
        named = part if isinstance(part, Mapping) or not hasattr(part, "shape") else {"features": part}
        if doubt is not None:
            if not isinstance(named, Mapping):
                hint = "add it to them as a column."
                raise InvalidArgument("cannot be used with blocks", argument=doubt[0], hint=hint)
            named = {**named, doubt[0]: doubt[1]}
        return ArrayItem(named, f"shard {number}")

    def __len__(self) -> int:
        return len(self.items)

    def __repr__(self) -> str:
        return f"Shards({len(self)})"

    def groups(self, n_workers: int) -> list[tuple[Item, ...]]:
        """Consecutive shards for each worker. A single file that can be memory-mapped is divided."""
        items = self.items
        if len(items) == 1 and isinstance(items[0], FileItem) and is_mapped(items[0].address):
            n_rows = len_of(read_pool(items[0].address, columns=self.columns).features)
            edges = [n_rows * worker // n_workers for worker in range(n_workers + 1)]
            items = [RowRange(items[0], *edge) for edge in itertools.pairwise(edges) if edge[0] < edge[1]]
        n_groups = min(n_workers, len(items))
        edges = [len(items) * group // n_groups for group in range(n_groups + 1)]
        return [tuple(items[start:stop]) for start, stop in itertools.pairwise(edges)]


def is_mapped(address: str) -> bool:
    """Whether a file can be memory-mapped."""
    return "://" not in address and suffix_of(address.partition("::")[0]) in MAPPED and os.path.isfile(address)


def list_shards(shards: Any) -> list[Any]:
    if hasattr(shards, "to_numpy_refs"):
        return list(shards.to_numpy_refs())
    if isinstance(shards, str | os.PathLike):
        path = os.fspath(shards)
        return files_of(path) if os.path.isdir(path) else [path]
    if hasattr(shards, "shape") or isinstance(shards, Mapping):
        return [shards]
    return list(shards)


def files_of(folder: str) -> list[str]:
    """The files in a folder, in natural order, without names that start with a dot or an underscore."""
    names = sorted((name for name in os.listdir(folder) if not name.startswith((".", "_"))), key=natural_order)
    paths = [os.path.join(folder, name) for name in names]
    paths = [path for path in paths if os.path.isfile(path)]
    if not paths:
        raise MissingFile(f"the folder {folder} contains no shards", hint="pass another one.")
    return paths
