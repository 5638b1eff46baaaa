"""`Shards`: a pool that lies in many files, blocks or arrays."""

import itertools
import os
import shutil
import tempfile
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any, get_args

import numpy as np

from dubito.engines.cluster.hardware import Kind
from dubito.errors import InvalidArgument, InvalidData, MissingFile
from dubito.io import Columns, DoubtRole, PoolFile, find_array, find_doubt, read_pool, read_rows, split_spec
from dubito.io.lookup import ANY_COLUMNS, DOUBT_ROLES, USUAL_NAMES
from dubito.io.source import natural_order, suffix_of
from dubito.matrix import AnyArray, Matrix, len_of
from dubito.registry import require
from dubito.request.arrays import check_choice, check_integer
from dubito.request.columns import IDS, LABELED, usual
from dubito.request.ids import matching_ids, order_of

# What a shard is read from: a file at any address, a block of Ray Data, or an array.


@dataclass(frozen=True, slots=True, eq=False)
class Read:
    """What one item holds, row by row."""

    features: Matrix
    doubt: tuple[DoubtRole, AnyArray] | None = None
    labeled: AnyArray | None = None
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
            mask = find_array(pool.source, "labeled", columns=self.columns)
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
            raise InvalidData(problem, hint="shards of doubt go with shards of features, one by one.")
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
            hint = f"call one of its columns features; it has {', '.join(names)}."
            raise MissingFile(f"{self.name} has no column of features", hint=hint)
        features = _stacked(columns[name])
        role = next((role for role in DOUBT_ROLES if role in columns), None)
        mask, ids = usual(names, LABELED), usual(names, IDS)
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
            None if found.labeled is None else found.labeled[rows],
            None if found.ids is None else found.ids[rows],
        )


Item = FileItem | ArrayItem | SomeRows


def _stacked(column: AnyArray) -> AnyArray:
    """A column of lists as one array."""
    return np.stack([*column]) if column.dtype == object else np.asarray(column)


def check_mask(mask: Any, n_rows: int, name: str) -> AnyArray:
    """Which rows of a shard are labeled: a mask, since row numbers of a shard and of the pool would be mistaken."""
    values = np.asarray(mask)
    if values.shape != (n_rows,) or not np.isin(values, (0, 1)).all():
        problem = f"labeled in {name} is not a mask of its {n_rows:,} rows"
        raise InvalidData(problem, hint="hold True or False there for each, or name the rows of the whole pool.")
    return values.astype(np.bool_)


def _is_local(address: str) -> bool:
    return "://" not in address


@contextmanager
def at_hand(address: str) -> Iterator[str]:
    """A path on this machine to what lies at an address, as `dubito.io` takes it."""
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
                f"{spec} cannot be read ({error})", hint="check the address and who may read it."
            ) from error
        yield path if key is None else f"{path}::{key}"


MAPPED = (".npy", ".safetensors")
"""Forms of file of which only the rows that are wanted are read."""


class Shards:
    """A pool in shards, for ``dubito.select(..., engine="cluster")``: no process ever holds all of it.

    Parameters
    ----------
    shards : str, sequence or ray.data.Dataset
        Files (``.npy``, ``.safetensors``, Parquet and whatever else a pool can be), at local paths or at any address
        that fsspec knows, such as ``s3://bucket/part-0.parquet``; a local folder of them; arrays (n, d), or mappings of
        columns; or a Ray data set, each block of which is a shard. They may be uneven and empty.
        Rows are numbered through all of them.
    probabilities, logits, doubt : sequence, optional
        At most one: as many files or arrays as there are shards. Without one, doubt is looked for in the shards.
    columns : Columns, optional
        Names of columns in files.
    journal : str, optional
        A file to write picks to as they are made. A run that names it again goes on behind them.
    workers : {"auto", "cpu", "cuda"}
        What workers compute on: ``"auto"`` takes the GPUs of a cluster that has any. The picks are the same.
    workers_per_gpu : int
        How many workers share a GPU and its memory.

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
        beside: dict[DoubtRole, Any] = {"probabilities": probabilities, "logits": logits, "doubt": doubt}
        given = {role: listed(parts) for role, parts in beside.items() if parts is not None}
        if len(given) > 1:
            raise InvalidArgument(f"{' and '.join(given)} were both given", hint="pass one of them.")
        role = next(iter(given), None)
        parts = listed(shards)
        if not parts:
            raise InvalidArgument("names no shard", argument="shards", hint="pass at least one file or array.")
        if role is not None and len(given[role]) != len(parts):
            problem = f"has {len(given[role])} shards, and the pool {len(parts)}"
            raise InvalidArgument(problem, argument=role, hint="pass one for each.")
        self.items: list[Item] = [
            self._item(part, number, None if role is None else (role, given[role][number]))
            for number, part in enumerate(parts)
        ]

    def _item(self, part: Any, number: int, doubt: tuple[DoubtRole, Any] | None) -> Item:
        if isinstance(part, str | os.PathLike):
            if doubt is not None and not isinstance(doubt[1], str | os.PathLike):
                raise InvalidArgument("goes with shards that are files, and is none", argument=doubt[0], value=doubt[1])
            return FileItem(os.fspath(part), self.columns, None if doubt is None else (doubt[0], os.fspath(doubt[1])))
        named = part if isinstance(part, Mapping) or not hasattr(part, "shape") else {"features": part}
        if doubt is not None:
            if not isinstance(named, Mapping):
                raise InvalidArgument("cannot stand beside blocks", argument=doubt[0], hint="make it a column of them.")
            named = {**named, doubt[0]: doubt[1]}
        return ArrayItem(named, f"shard {number}")

    def __len__(self) -> int:
        return len(self.items)

    def __repr__(self) -> str:
        return f"Shards({len(self)})"

    def groups(self, n_workers: int) -> list[tuple[Item, ...]]:
        """Shards one behind another, a few for each worker; a single file that can be mapped is cut."""
        items = self.items
        if len(items) == 1 and isinstance(items[0], FileItem) and is_mapped(items[0].address):
            n_rows = len_of(read_pool(items[0].address, columns=self.columns).features)
            edges = [n_rows * place // n_workers for place in range(n_workers + 1)]
            items = [SomeRows(items[0], *edge) for edge in itertools.pairwise(edges) if edge[0] < edge[1]]
        n_groups = min(n_workers, len(items))
        edges = [len(items) * place // n_groups for place in range(n_groups + 1)]
        return [tuple(items[start:stop]) for start, stop in itertools.pairwise(edges)]


def is_mapped(address: str) -> bool:
    """Whether rows of a file are read one by one."""
    return "://" not in address and suffix_of(address.partition("::")[0]) in MAPPED and os.path.isfile(address)


def listed(shards: Any) -> list[Any]:
    """Every shard by itself."""
    if hasattr(shards, "to_numpy_refs"):
        return list(shards.to_numpy_refs())
    if isinstance(shards, str | os.PathLike):
        path = os.fspath(shards)
        return files_of(path) if os.path.isdir(path) else [path]
    if hasattr(shards, "shape") or isinstance(shards, Mapping):
        return [shards]
    return list(shards)


def files_of(folder: str) -> list[str]:
    """The shards in a folder, in natural order; as everywhere, what begins with a dot or an underscore is none."""
    names = sorted((name for name in os.listdir(folder) if not name.startswith((".", "_"))), key=natural_order)
    paths = [os.path.join(folder, name) for name in names]
    paths = [path for path in paths if os.path.isfile(path)]
    if not paths:
        raise MissingFile(f"the folder {folder} holds no shards", hint="name one that does.")
    return paths
