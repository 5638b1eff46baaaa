"""Picking among what the shards answered with, while nothing that they left out may come first."""

import heapq
from dataclasses import dataclass

import numpy as np

from dubito.coverage import add_rows
from dubito.engines.cluster.covering.messages import CoverAnswer, Int32Array
from dubito.engines.lazy.front import Threshold
from dubito.matrix import FloatArray


@dataclass(frozen=True, slots=True)
class Candidate:
    """A candidate that shards told of: its pairs with the ground, exact, as far as they could add something then."""

    places: Int32Array
    """Ascending."""
    kernels: FloatArray
    cost: float

    def adds(self, cover: FloatArray, weights: FloatArray) -> float:
        """What it adds now, to the bit: pairs that add nothing are not missed."""
        terms = self.kernels - cover[self.places]
        np.maximum(terms, 0.0, out=terms)
        terms *= weights[self.places]
        return float(add_rows(terms)) if len(terms) else 0.0


Told = dict[int, Candidate]
"""By their rows in the whole pool."""


def heard(answer: CoverAnswer, known: Told) -> Told:
    """The candidates of an answer; those that are not fresh were known from the one before."""
    ends = np.cumsum(answer.counts).tolist()
    costs = [1.0] * len(ends) if answer.costs is None else answer.costs.tolist()
    rows, fresh = answer.rows.tolist(), iter(range(len(ends)))
    told: Told = {}
    for row, is_fresh in zip(rows, answer.fresh.tolist(), strict=True):
        if not is_fresh:
            told[row] = known[row]
            continue
        number = next(fresh)
        pairs = slice(ends[number] - int(answer.counts[number]), ends[number])
        told[row] = Candidate(answer.places[pairs], answer.kernels[pairs], costs[number])
    return told


class CoverFront:
    """A greedy run among some candidates; ``cover`` (k,) grows with the picks."""

    def __init__(self, told: Told, cover: FloatArray, weights: FloatArray) -> None:
        self.told, self.cover, self.weights = told, cover, weights
        self.picks: list[int] = []
        self.gained: list[float] = []
        self.heap = [(-self._priority(row), row) for row in told]
        heapq.heapify(self.heap)
        self.stamp = dict.fromkeys(told, 0)

    @property
    def largest(self) -> float:
        """What the first of them adds for its cost."""
        return -self.heap[0][0] if self.heap else 0.0

    def _priority(self, row: int) -> float:
        candidate = self.told[row]
        return candidate.adds(self.cover, self.weights) / candidate.cost

    def pick(self, threshold: Threshold, limit: int) -> None:
        """As many as come before the threshold and add something, up to a limit."""
        while self.heap and len(self.picks) < limit:
            value, row = -self.heap[0][0], self.heap[0][1]
            if value <= 0.0 or not threshold.admits(value, row):
                return
            if self.stamp[row] < len(self.picks):
                self.stamp[row] = len(self.picks)
                heapq.heapreplace(self.heap, (-self._priority(row), row))
                continue
            heapq.heappop(self.heap)
            self._take(row)

    def _take(self, row: int) -> None:
        candidate = self.told[row]
        self.picks.append(row)
        self.gained.append(candidate.adds(self.cover, self.weights))
        self.cover[candidate.places] = np.maximum(self.cover[candidate.places], candidate.kernels)
