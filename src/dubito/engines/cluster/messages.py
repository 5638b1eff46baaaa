"""The messages between the driver and the workers, and the hardware that a worker uses."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field, fields
from typing import Any, Literal, Protocol

import numpy as np

from dubito.core.coverage_reference import CoverageProblem
from dubito.core.problem import Problem
from dubito.engines.lazy.bounds import first_in_order
from dubito.engines.lazy.front import Threshold
from dubito.matrix import AnyArray, FloatArray, IntArray

Kind = Literal["auto", "cpu", "cuda"]
"""The hardware of the workers; ``"auto"`` uses the GPUs of a cluster that has any."""


@dataclass(frozen=True, slots=True)
class Hardware:
    """What a worker computes on: the CPU, or a torch device."""

    device: str | None = None
    memory_fraction: float = 1.0
    """The part of the device's memory that this worker may use, since several workers may share a device."""
    is_required: bool = False
    """Whether the caller named the device: then it is an error if the device cannot be used."""

    def can_solve(self, problem: Problem | CoverageProblem) -> bool:
        """Whether the device has kernels for the problem. Only the CPU supports costs."""
        return self.device is not None and problem.costs is None


HOST = Hardware()
NO_THRESHOLD = Threshold(-1.0, -1)
"""The threshold if no candidates remain."""


@dataclass(frozen=True, slots=True)
class ShardInfo:
    """What a shard reports to the driver once it was read."""

    n_rows: int
    n_candidates: int
    n_features: int
    dtype: str
    largest: float
    """The largest magnitude of a feature."""
    has_weights: bool
    has_scores: bool
    has_doubt: bool
    on_device: bool = False
    """Whether the shard is processed on a GPU."""

    def empty_points(self) -> "Points":
        numbers, values = np.empty(0, dtype=np.int64), np.empty(0)
        return Points(
            numbers,
            np.empty((0, self.n_features), self.dtype),
            values if self.has_weights else None,
            numbers if self.has_scores else None,
            values if self.has_doubt else None,
        )


@dataclass(frozen=True, slots=True)
class Points:
    """Some rows of the pool, with their data; ``rows`` are row numbers of the whole pool."""

    rows: IntArray
    features: AnyArray
    """(k, d) in the type of the pool."""
    weights: FloatArray | None
    scores: IntArray | None
    doubt: FloatArray | None

    def __len__(self) -> int:
        return len(self.rows)

    def take(self, positions: IntArray) -> "Points":
        arrays: Iterator[Any] = (getattr(self, each.name) for each in fields(self))
        taken: Iterator[Any] = (None if array is None else array[positions] for array in arrays)
        return Points(*taken)

    def at(self, rows: IntArray) -> "Points":
        """The points of these rows. ``self.rows`` must be ascending."""
        return self.take(np.searchsorted(self.rows, rows))

    @property
    def nbytes(self) -> int:
        return array_bytes(self)


def concat_points(points: list[Points]) -> Points:
    """Concatenate. Parts without rows are left out, since they may have another number of features."""
    points = [each for each in points if len(each)] or points[:1]
    parts = ([getattr(each, field.name) for each in points] for field in fields(Points))
    joined: Iterator[Any] = (None if arrays[0] is None else np.concatenate(arrays) for arrays in parts)
    return Points(*joined)


@dataclass(frozen=True, slots=True)
class Start:
    """The state in which a run starts, or resumes after a worker was lost; the same for every shard."""

    references: AnyArray
    """(m, d) the labeled points."""
    largest: float
    budget: int
    picks: Points
    """The picks so far, in order."""
    cold_starts: Points
    """The first picks of a beam without labeled points, one per configuration."""
    n_candidates: int
    """The number of candidates in all shards."""

    @property
    def nbytes(self) -> int:
        return self.references.nbytes + self.picks.nbytes + self.cold_starts.nbytes


@dataclass(frozen=True, slots=True)
class Answer:
    """The first candidates of a shard, with exact priorities."""

    points: Points
    values: FloatArray
    """(k,) squared priorities."""
    threshold: Threshold
    """The first candidate of the shard that is not included; its row is a row of the whole pool."""
    ranks: IntArray = field(default_factory=lambda: np.empty(0, dtype=np.int64))
    bounds: FloatArray = field(default_factory=lambda: np.empty(0))
    """The bounds at these ranks of the shard's candidates, descending."""

    @property
    def nbytes(self) -> int:
        return self.points.nbytes + self.values.nbytes + self.ranks.nbytes + self.bounds.nbytes


def array_bytes(message: Any) -> int:
    parts = (getattr(message, each.name) for each in fields(message))
    return sum(part.nbytes for part in parts if isinstance(part, np.ndarray))


# How many candidates the driver requests from each shard.

N_RANKS = 64
"""The number of ranks whose bounds a shard reports."""
MIN_REQUEST = 16
"""The smallest number of candidates requested from a shard."""
MARGIN = 1.05
"""Some more candidates are requested than seem to come first, since refreshing lowers bounds."""


class RankedAnswer(Protocol):
    """An answer with the bounds of a shard at some ranks."""

    @property
    def ranks(self) -> IntArray:
        """Some ranks, ascending."""

    @property
    def bounds(self) -> FloatArray:
        """The bounds at these ranks, descending."""


class RequestSizes:
    """Divides a request among the shards: in proportion to their candidates at first, then by their bounds."""

    def __init__(self, n_candidates: IntArray) -> None:
        self.n_candidates = n_candidates
        self.fractions = n_candidates / max(1, n_candidates.sum())
        self.answers: Sequence[RankedAnswer] = []

    def update(self, answers: Sequence[RankedAnswer]) -> None:
        self.answers = answers

    def split(self, size: int) -> list[int]:
        """The number of candidates to request from each shard, so that the first ``size`` of all are among them."""
        if any(len(answer.bounds) for answer in self.answers):
            self.fractions = fractions_of_first(self.answers, size)
        wanted = np.ceil(MARGIN * size * self.fractions).astype(np.int64)
        bounded = np.clip(wanted, np.minimum(MIN_REQUEST, self.n_candidates), self.n_candidates)
        return [int(each) for each in bounded]


def fractions_of_first(answers: Sequence[RankedAnswer], size: int) -> FloatArray:
    """The fraction of the first ``size`` candidates of all shards that each shard holds, by the reported bounds."""
    bounds = np.concatenate([answer.bounds for answer in answers])
    # Each bound represents all ranks up to the next one.
    weights = np.concatenate([np.diff(answer.ranks, append=answer.ranks[-1:] + 1) for answer in answers])
    owner = np.repeat(np.arange(len(answers)), [len(answer.bounds) for answer in answers])
    order = np.argsort(-bounds, kind="stable")
    n_before = np.cumsum(weights[order]) - weights[order]
    chosen = order[n_before < size]
    counts = np.bincount(owner[chosen], weights[chosen], minlength=len(answers))
    return np.asarray(counts / max(1.0, counts.sum()))


def ranked_bounds(bound: FloatArray, size: int) -> tuple[IntArray, FloatArray]:
    """Some of the first ranks in the order of the bounds, and the bounds there.

    They cover four times the requested number of candidates, so that the driver can plan its next request.
    """
    return sample_ranks(np.sort(bound[first_in_order(bound, n_ranked(size))[0]])[::-1])


def n_ranked(size: int) -> int:
    """The number of candidates that the reported ranks cover."""
    return 4 * max(size, N_RANKS)


def sample_ranks(descending: FloatArray) -> tuple[IntArray, FloatArray]:
    """Up to `N_RANKS` evenly spaced ranks of descending bounds, and the bounds there."""
    ranks = np.unique(np.linspace(0, len(descending) - 1, min(N_RANKS, len(descending))).astype(np.int64))
    return ranks, descending[ranks]
