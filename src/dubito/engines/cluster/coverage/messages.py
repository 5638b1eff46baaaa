"""What driver and shards tell each other of cover."""

from dataclasses import dataclass, fields, replace
from typing import Any

import numpy as np
import numpy.typing as npt

from dubito.engines.lazy.front import Threshold
from dubito.matrix import AnyArray, BoolArray, FloatArray, IntArray

Int32Array = npt.NDArray[np.int32]
Thinning = tuple[int, float]
"""How many rows stand for all, and the sum of all weights."""


@dataclass(frozen=True, slots=True)
class Terrain:
    """Rows that are to be covered, ascending; numbered over the whole pool."""

    rows: IntArray
    features: AnyArray
    """(k, d) as they are stored."""
    weights: FloatArray
    is_candidate: BoolArray
    costs: FloatArray | None

    def __len__(self) -> int:
        return len(self.rows)

    @property
    def nbytes(self) -> int:
        """What it takes on the way."""
        return size_of(self)


def joined(parts: list[Terrain], none: AnyArray) -> Terrain:
    """Those of all shards; one without rows need not know how wide they are: ``none`` (0, d) does."""
    parts = [part for part in parts if len(part)] or [replace(parts[0], features=none)]
    costs = [part.costs for part in parts if part.costs is not None]
    return Terrain(
        np.concatenate([part.rows for part in parts]),
        np.concatenate([part.features for part in parts]),
        np.concatenate([part.weights for part in parts]),
        np.concatenate([part.is_candidate for part in parts]),
        np.concatenate(costs) if costs else None,
    )


@dataclass(frozen=True, slots=True)
class CoverStart:
    """How a run begins, or goes on where a shard was lost: the same for every shard."""

    ground: Terrain
    squared: FloatArray
    """(k,) from each row of the ground to what is labeled."""
    radius: float
    """The reach."""
    largest: float
    """No feature of the pool or of what is labeled is larger in magnitude."""

    @property
    def nbytes(self) -> int:
        """What it takes on the way."""
        return self.ground.nbytes + self.squared.nbytes


@dataclass(frozen=True, slots=True)
class Grown:
    """Where cover has grown, and what was picked: hearing it twice does no harm."""

    places: Int32Array
    """Of the ground."""
    cover: FloatArray
    picks: IntArray

    @property
    def nbytes(self) -> int:
        """What it takes on the way."""
        return size_of(self)


@dataclass(frozen=True, slots=True)
class CoverAnswer:
    """The first candidates of a shard, all of them up to date."""

    rows: IntArray
    """Ascending; numbered over the whole pool."""
    fresh: BoolArray
    """Those that were not in the shard's last answer: their pairs come with this one."""
    counts: IntArray
    """How many pairs each of the fresh has."""
    places: Int32Array
    """Of the ground, ascending for each candidate."""
    kernels: FloatArray
    costs: FloatArray | None
    threshold: Threshold
    """What comes next in the shard; its row is one of the whole pool."""
    ranks: IntArray
    levels: FloatArray
    """Bounds at some ranks of the shard's order, falling."""

    @property
    def nbytes(self) -> int:
        """What it takes on the way."""
        return size_of(self)


def size_of(message: Any) -> int:
    """Bytes of the arrays in a message."""
    parts = (getattr(message, each.name) for each in fields(message))
    return sum(part.nbytes for part in parts if isinstance(part, np.ndarray))
