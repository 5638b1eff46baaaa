"""`Shards`: a pool that lies in many files, blocks or arrays."""

import itertools
import os
from collections.abc import Mapping, Sequence
from typing import Any, get_args

from dubito.checks import check_choice, check_integer
from dubito.engines.cluster.hardware import Kind
from dubito.errors import InvalidArgument, MissingFile
from dubito.files import Columns, DoubtRole, read_pool
from dubito.files.choosing import ANY_COLUMNS
from dubito.files.entries import natural_order, suffix_of
from dubito.matrix import len_of
from dubito.sharding.items import ArrayItem, FileItem, Item, SomeRows

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
            raise InvalidArgument(f"{' and '.join(given)} were both given", mend="pass one of them.")
        role = next(iter(given), None)
        parts = listed(shards)
        if not parts:
            raise InvalidArgument("names no shard", argument="shards", mend="pass at least one file or array.")
        if role is not None and len(given[role]) != len(parts):
            problem = f"has {len(given[role])} shards, and the pool {len(parts)}"
            raise InvalidArgument(problem, argument=role, mend="pass one for each.")
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
                raise InvalidArgument("cannot stand beside blocks", argument=doubt[0], mend="make it a column of them.")
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
        raise MissingFile(f"the folder {folder} holds no shards", mend="name one that does.")
    return paths
