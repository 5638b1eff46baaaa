"""Greedy picking inside a front: a few hundred candidates with their pairwise distances."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Protocol

import numpy as np

from dubito import native as compiled
from dubito.core.distances import exact_sq_distances
from dubito.matrix import FloatArray, IntArray


class ExactRows(Protocol):
    """Exact float64 rows, in memory or read on demand: most are never needed."""

    def __getitem__(self, rows: IntArray, /) -> FloatArray:
        """(r, d)."""


@dataclass(frozen=True, slots=True)
class Front:
    """Candidates in ascending order of index, and bounds on their pairwise squared distances."""

    points: ExactRows
    """(K, d)."""
    squared: FloatArray
    """(K, K) approximate squared distances, in units of ``unit``."""
    error: FloatArray
    """(K,) ``squared[i, j]`` is off by at most ``error[i] + error[j]``."""
    unit: float
    """A power of two."""
    weights: FloatArray
    """(K,) squared scaling factors."""
    by_pick: bool
    """Whether distances to a pick are scaled by the weight of the pick instead of the remaining candidate's."""

    def bounds(self, pick: int) -> tuple[FloatArray, FloatArray]:
        """Lower and upper bounds (K,) on the squared priorities after a pick; lower bounds may be negative."""
        slack = self.error + self.error[pick]
        squared = self.squared[pick]
        return self._scaled(squared - slack, squared + slack, self.weights[pick] if self.by_pick else self.weights)

    def bounds_between(self, picks: IntArray, rows: IntArray) -> tuple[FloatArray, FloatArray]:
        """Lower and upper bounds (picks, rows) on the squared priorities of ``rows`` after each pick."""
        if compiled.steps is not None:
            low, high = np.empty((2, len(picks), len(rows)))
            arrays = (self.squared, self.error, self.weights, picks, rows, low, high)
            compiled.steps.bounds_between(arrays, len(self.error), len(rows), len(picks), self.unit, self.by_pick)
            return low, high
        slack = self.error[picks, None] + self.error[rows]
        squared = self.squared[picks].take(rows, axis=1)
        low = np.maximum(squared - slack, 0.0)
        return self._scaled(low, squared + slack, self.weights[picks, None] if self.by_pick else self.weights[rows])

    def _scaled(
        self, low: FloatArray, high: FloatArray, weights: FloatArray | np.float64
    ) -> tuple[FloatArray, FloatArray]:
        """Multiply bounds on distances by the weights. Rounding is monotonic, so they stay bounds for any weights."""
        if self.unit != 1.0:
            low *= self.unit
            high *= self.unit
        low *= weights
        high *= weights
        return low, high

    def exact_priorities(self, rows: IntArray, picks: IntArray, start: FloatArray, limits: FloatArray) -> FloatArray:
        """Exact squared priorities of rows: the minimum of ``start`` and the distances to picks within the limit.

        ``limits`` is (rows,), or (rows, picks) with -1 where a pick is to be ignored.
        """
        near, _ = self.bounds_between(picks, rows)
        is_near = (limits[:, None] if limits.ndim == 1 else limits) >= near.T
        which, pick = np.nonzero(is_near)
        lowest = start.copy()
        weights = self.weights[picks[pick] if self.by_pick else rows[which]]
        np.minimum.at(lowest, which, exact_sq_distances(self.points[rows[which]], self.points[picks[pick]]) * weights)
        return lowest


class ExactPriorities:
    """Exact squared priorities of a front's candidates against a growing list of picks.

    Each pair is computed at most once, which bounds the cost of a front full of near-ties.
    """

    def __init__(self, start: FloatArray) -> None:
        self.values = start.copy()
        self.n_seen = np.zeros(len(start), dtype=np.int64)

    def update(self, front: Front, rows: IntArray, picks: IntArray | list[int], limits: FloatArray) -> None:
        """Update the priorities of rows with all picks; ``limits`` are upper bounds on the results."""
        first = int(self.n_seen[rows].min(initial=len(picks)))
        new = np.asarray(picks[first:], dtype=np.int64)
        is_new = np.arange(first, len(picks)) >= self.n_seen[rows, None]
        self.values[rows] = front.exact_priorities(
            rows, new, self.values[rows], np.where(is_new, limits[:, None], -1.0)
        )
        self.n_seen[rows] = len(picks)


@dataclass(frozen=True, slots=True)
class Threshold:
    """The first candidate outside a front: a pick must come before it."""

    value: float
    row: int

    def admits(self, value: float, row: int) -> bool:
        """Whether a candidate comes before the threshold: larger priority, ties to the lowest index."""
        return value > self.value or (value == self.value and row < self.row)


class FrontPicking:
    """A greedy run inside a front: intervals that contain each exact priority, and the picks so far."""

    def __init__(self, front: Front, priorities: FloatArray) -> None:
        self.front = front
        self.start = priorities
        self.exact = ExactPriorities(priorities)
        self.low = priorities.copy()
        self.high = priorities.copy()
        self.picks: list[int] = []
        self.pick_priorities: list[float] = []
        self.is_exact: list[bool] = []

    def run(self, rows: IntArray, threshold: Threshold, limit: int, stop: Callable[[int], bool] | None = None) -> None:
        """Pick until there are ``limit`` picks, a candidate outside may come first, or ``stop(position)`` is true.

        ``rows`` are the candidates' indices.
        """
        if compiled.steps is not None and stop is None:
            self._run_compiled(compiled.steps, rows, threshold, limit)
        else:
            self._run(rows, threshold, limit, stop or (lambda position: False))

    def _run_compiled(self, steps: compiled.CompiledSteps, rows: IntArray, threshold: Threshold, limit: int) -> None:
        front, n_rows = self.front, len(rows)
        limit = min(limit, n_rows)
        picks, unsure = np.empty(limit, dtype=np.int64), np.empty(n_rows, dtype=np.int64)
        pick_priorities, is_exact = np.empty(limit), np.empty(limit, dtype=np.bool_)
        arrays = (
            *(front.squared, front.error, front.weights, self.low, self.high, rows),
            *(picks, pick_priorities, is_exact, unsure),
        )
        why, n_picks = compiled.UNSURE, 0
        while why == compiled.UNSURE:
            why, n_picks, n_unsure = steps.pick_greedily(
                arrays, n_rows, limit, n_picks, front.unit, front.by_pick, threshold.value, threshold.row
            )
            self.picks = picks[:n_picks].tolist()
            if why == compiled.UNSURE:
                self.make_exact(unsure[:n_unsure])
        self.pick_priorities, self.is_exact = pick_priorities[:n_picks].tolist(), is_exact[:n_picks].tolist()

    def _run(self, rows: IntArray, threshold: Threshold, limit: int, stop: Callable[[int], bool]) -> None:
        high, best = self.high, int(self.high.argmax())
        while len(self.picks) < limit:
            top, lowest = float(high[best]), float(self.low[best])
            if top <= 0.0 or top < threshold.value:
                return
            high[best] = -1.0
            second = int(high.argmax())
            next_top = float(high[second])
            high[best] = top
            if lowest <= threshold.value or lowest <= next_top:
                # Not below 0: picked candidates are at -1, and a lower bound may be negative.
                unsure = np.flatnonzero((high >= max(lowest, threshold.value, 0.0)) & (self.low < high))
                if len(unsure):
                    self.make_exact(unsure)
                    best = int(high.argmax())
                    continue
                if not threshold.admits(top, int(rows[best])):
                    return
            self.take(best)
            if stop(best):
                return
            # Priorities only decrease, so the second candidate is now the first, unless the pick lowered it.
            best = second if high[second] == next_top else int(high.argmax())

    def take(self, best: int) -> None:
        """Pick a candidate and lower the intervals of the others."""
        self.picks.append(best)
        self.pick_priorities.append(float(self.high[best]))
        self.is_exact.append(bool(self.low[best] == self.high[best]))
        low, high = self.front.bounds(best)
        np.minimum(self.low, low, out=self.low)
        np.minimum(self.high, high, out=self.high)
        self.low[best] = self.high[best] = -1.0

    def make_exact(self, unsure: IntArray) -> None:
        """Make the intervals of some candidates exact, given the picks so far."""
        self.exact.update(self.front, unsure, self.picks, self.high[unsure])
        self.low[unsure] = self.high[unsure] = self.exact.values[unsure]

    def priorities(self) -> FloatArray:
        """Exact squared priorities of the picks at the time they were picked."""
        picks, pick_priorities = np.array(self.picks, dtype=np.int64), np.array(self.pick_priorities)
        unsure = np.flatnonzero(~np.array(self.is_exact, dtype=np.bool_))
        # The priority of a pick that was never made exact is determined by an earlier pick.
        is_earlier = np.arange(len(picks)) < unsure[:, None]
        limits = np.where(is_earlier, pick_priorities[unsure, None], -1.0)
        pick_priorities[unsure] = self.front.exact_priorities(picks[unsure], picks, self.start[picks[unsure]], limits)
        return pick_priorities
