"""Of the candidates that a driver asks for, how many each shard should answer with."""

from collections.abc import Sequence
from typing import Protocol

import numpy as np

from dubito.engines.lazy.bounds import first_in_order
from dubito.matrix import FloatArray, IntArray

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
