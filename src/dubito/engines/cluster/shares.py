"""Of the candidates that a driver asks for, how many each shard should answer with."""

from collections.abc import Sequence
from typing import Protocol

import numpy as np

from dubito.matrix import FloatArray, IntArray

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
