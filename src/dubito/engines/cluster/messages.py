"""What driver and shards tell each other: arrays and numbers."""

from collections.abc import Sequence
from dataclasses import dataclass, field, fields
from typing import Any, Protocol

import numpy as np

from dubito.engines.lazy.bounds import first_in_order
from dubito.engines.lazy.front import Threshold
from dubito.matrix import AnyArray, FloatArray, IntArray

NOTHING = Threshold(-1.0, -1)
"""What comes next where nothing is left."""


@dataclass(frozen=True, slots=True)
class Facts:
    """What a driver must know of a shard."""

    n_rows: int
    n_candidates: int
    n_features: int
    dtype: str
    largest: float
    """No feature is larger in magnitude."""
    is_weighted: bool
    is_scored: bool
    is_doubted: bool
    on_device: bool = False
    """Whether a GPU works on it."""

    def no_points(self) -> "Points":
        """None of its rows."""
        numbers, values = np.empty(0, dtype=np.int64), np.empty(0)
        return Points(
            numbers,
            np.empty((0, self.n_features), self.dtype),
            values if self.is_weighted else None,
            numbers if self.is_scored else None,
            values if self.is_doubted else None,
        )


@dataclass(frozen=True, slots=True)
class Points:
    """Rows of the pool with all that is known of them, wherever they lie; numbered over the whole pool."""

    rows: IntArray
    features: AnyArray
    """(k, d) as they are stored."""
    weights: FloatArray | None
    scores: IntArray | None
    doubt: FloatArray | None

    def __len__(self) -> int:
        return len(self.rows)

    def take(self, places: IntArray) -> "Points":
        """Some of them."""
        return Points(
            self.rows[places],
            self.features[places],
            None if self.weights is None else self.weights[places],
            None if self.scores is None else self.scores[places],
            None if self.doubt is None else self.doubt[places],
        )

    def at(self, rows: IntArray) -> "Points":
        """Those of some rows, which ascend here."""
        return self.take(np.searchsorted(self.rows, rows))

    @property
    def nbytes(self) -> int:
        """What they take on the way."""
        parts = (getattr(self, each.name) for each in fields(self))
        return sum(part.nbytes for part in parts if part is not None)


def joined(points: list[Points]) -> Points:
    """All of them, one after another; a shard without rows need not know how wide they are."""
    points = [each for each in points if len(each)] or points[:1]
    return Points(
        np.concatenate([each.rows for each in points]),
        np.concatenate([each.features for each in points]),
        _joined([each.weights for each in points]),
        _joined([each.scores for each in points]),
        _joined([each.doubt for each in points]),
    )


def _joined(parts: list[Any]) -> Any:
    return None if parts[0] is None else np.concatenate(parts)


@dataclass(frozen=True, slots=True)
class Start:
    """How a run begins, or goes on where a shard was lost: the same for every shard."""

    references: AnyArray
    """(m, d) what is labeled."""
    largest: float
    budget: int
    picks: Points
    """References beside what is labeled, in order."""
    apart: Points
    """Picks of different configurations, in a beam's cold start."""
    n_candidates: int
    """Of all shards."""

    @property
    def nbytes(self) -> int:
        """What it takes on the way."""
        return self.references.nbytes + self.picks.nbytes + self.apart.nbytes


@dataclass(frozen=True, slots=True)
class Orders:
    """What every shard is sent at the beginning of a round."""

    n_before: int
    """Picks before the new ones."""
    picks: Points


@dataclass(frozen=True, slots=True)
class Errand:
    """What one shard is sent at the beginning of a round, of its own rows of the whole pool."""

    size: int
    """How many candidates it should answer with."""
    own: IntArray
    """Candidates that it should answer with, too."""
    lowered: IntArray
    values: FloatArray
    """What candidates fell to in the last front."""


@dataclass(frozen=True, slots=True)
class Answer:
    """The first candidates of a shard, all of them up to date."""

    points: Points
    values: FloatArray
    """(k,) squared priorities."""
    threshold: Threshold
    """What comes next in the shard; its row is one of the whole pool."""
    ranks: IntArray = field(default_factory=lambda: np.empty(0, dtype=np.int64))
    levels: FloatArray = field(default_factory=lambda: np.empty(0))
    """Bounds at some ranks of the shard's order, falling."""

    @property
    def nbytes(self) -> int:
        """What it takes on the way."""
        return self.points.nbytes + self.values.nbytes + self.ranks.nbytes + self.levels.nbytes


# Of the candidates that a driver asks for, how many each shard should answer with.

LEVELS = 64
"""Ranks whose bounds a shard tells."""
FEWEST = 16
"""What every shard is asked for at least."""
MARGIN = 1.05
"""Bounds fall while they are brought up to date: somewhat more than what seems to be first is asked for."""


class Levelled(Protocol):
    """An answer that tells of the shard's order."""

    @property
    def ranks(self) -> IntArray:
        """Some ranks, ascending."""
        ...

    @property
    def levels(self) -> FloatArray:
        """Bounds there, falling."""
        ...


class Shares:
    """At first as many of each shard as it has candidates for; then by what the shards tell."""

    def __init__(self, n_candidates: IntArray) -> None:
        self.n_candidates = n_candidates
        self.sizes = n_candidates / max(1, n_candidates.sum())
        """Of all that is asked for, how much each shard is."""
        self.answers: Sequence[Levelled] = []

    def learn(self, answers: Sequence[Levelled]) -> None:
        """What the shards told of their order."""
        self.answers = answers

    def split(self, size: int) -> list[int]:
        """How many candidates each shard should answer with: its part of those that seem to be first."""
        if any(len(answer.levels) for answer in self.answers):
            self.sizes = parts_of_first(self.answers, size)
        wanted = np.ceil(MARGIN * size * self.sizes).astype(np.int64)
        bounded = np.clip(wanted, np.minimum(FEWEST, self.n_candidates), self.n_candidates)
        return [int(each) for each in bounded]


def parts_of_first(answers: Sequence[Levelled], size: int) -> FloatArray:
    """Of the first candidates over all shards, how much of them each shard has, by the bounds that it told."""
    levels = np.concatenate([answer.levels for answer in answers])
    # A level stands for all ranks up to the next.
    weights = np.concatenate([np.diff(answer.ranks, append=answer.ranks[-1:] + 1) for answer in answers])
    owner = np.repeat(np.arange(len(answers)), [len(answer.levels) for answer in answers])
    order = np.argsort(-levels, kind="stable")
    n_before = np.cumsum(weights[order]) - weights[order]
    chosen = order[n_before < size]
    counts = np.bincount(owner[chosen], weights[chosen], minlength=len(answers))
    return np.asarray(counts / max(1.0, counts.sum()))


def levels_of(bound: FloatArray, size: int) -> tuple[IntArray, FloatArray]:
    """Ranks in the order of some bounds, and the bounds there: the driver tells from it what to ask for next.

    They reach beyond what was asked for, to four times as many.
    """
    return levels_in(np.sort(bound[first_in_order(bound, n_levelled(size))[0]])[::-1])


def n_levelled(size: int) -> int:
    """How far the levels reach."""
    return 4 * max(size, LEVELS)


def levels_in(top: FloatArray) -> tuple[IntArray, FloatArray]:
    """Some ranks of bounds that fall, and the bounds there."""
    ranks = np.unique(np.linspace(0, len(top) - 1, min(LEVELS, len(top))).astype(np.int64))
    return ranks, top[ranks]
