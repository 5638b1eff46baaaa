"""Upper bounds on what the candidates of a shard add, and the first of them made exact."""

import numpy as np

from dubito.coverage import CoverageProblem
from dubito.engines.cluster.covering.messages import Int32Array
from dubito.engines.cluster.frontier import before
from dubito.engines.cluster.shares import levels_of
from dubito.engines.cpu.coverage.lists import CLOSED, EXACT, Lists
from dubito.engines.cpu.coverage.opening import Opening
from dubito.engines.cpu.coverage.solver import FirstCover
from dubito.engines.lazy.bounds import first_in_order
from dubito.engines.lazy.front import Threshold
from dubito.matrix import BoolArray, FloatArray, IntArray


class CoverBounds:
    """Bounds on what each candidate adds for its cost, -1 once it is picked. Candidates are numbered from 0."""

    def __init__(self, problem: CoverageProblem, cover: FloatArray) -> None:
        """``cover`` (k,) is that of the first rows of the pool; the others count for nothing."""
        first = FirstCover(problem)
        first.cover[: len(cover)] = cover
        self.lists = Lists(first.probed, first.cover, first.reach)
        self.opening = Opening(self.lists, first.limits, first.plan, first.pairs_each)
        self.costs = None if problem.costs is None else problem.costs[problem.candidates]
        self.bound = problem.priorities(slice(None), self.opening.first_bounds())
        self.n_heard = 0
        self.stamp = np.full(len(self.bound), -1, dtype=np.int64)
        """(n,) how many times cover had grown when a bound was computed."""

    def hear(self, places: Int32Array, cover: FloatArray) -> None:
        """Cover has grown."""
        self.lists.cover[places] = np.maximum(self.lists.cover[places], cover)
        self.n_heard += 1

    def fresh(self, size: int) -> tuple[IntArray, Threshold]:
        """The first candidates in order, all of them exact, and what comes next; fewer where memory is short."""
        while True:
            front, threshold = first_in_order(self.bound, size)
            due = front[self._is_due(front)]
            if len(due) == 0:
                return front, threshold
            if (self.lists.level[due] == CLOSED).any():
                size = min(size, self.opening.open(self.bound))
                continue
            self.lists.refine(due)
            self._renew(due)
            # What has fallen behind the front need not be settled.
            due = due[before(threshold, self.bound[due], due)]
            for candidate in due[self.lists.level[due] < EXACT].tolist():
                self.lists.settle(candidate)
            self._renew(due)

    def _is_due(self, candidates: IntArray) -> BoolArray:
        is_stale = (self.stamp[candidates] < self.n_heard) | (self.lists.level[candidates] < EXACT)
        return np.asarray(is_stale & (self.bound[candidates] > 0.0))

    def _renew(self, candidates: IntArray) -> None:
        """Bounds with the cover that there is now; none grows."""
        for candidate in candidates.tolist():
            cost = 1.0 if self.costs is None else float(self.costs[candidate])
            self.bound[candidate] = min(float(self.bound[candidate]), self.lists.bound(candidate) / cost)
        self.stamp[candidates] = self.n_heard

    def pairs(self, candidates: IntArray) -> tuple[IntArray, Int32Array, FloatArray]:
        """How many rows each of some exact candidates covers, which, ascending, and how far."""
        found = [self._pairs(each) for each in candidates.tolist()]
        return (
            np.array([len(places) for places, _ in found], dtype=np.int64),
            np.concatenate([np.empty(0, np.int32), *(places for places, _ in found)]).astype(np.int32),
            np.concatenate([np.empty(0), *(kernels for _, kernels in found)]),
        )

    def _pairs(self, candidate: int) -> tuple[IntArray, FloatArray]:
        """Where a candidate can still add something."""
        if candidate not in self.lists.exact:
            return np.empty(0, dtype=np.int64), np.empty(0)
        rows, kernels = self.lists.exact[candidate]
        more = kernels > self.lists.cover[rows]
        return rows[more], kernels[more]

    def levels(self, size: int) -> tuple[IntArray, FloatArray]:
        """Ranks in the order of the bounds, and the bounds there."""
        return levels_of(self.bound, size)

    def drop(self, candidates: IntArray) -> None:
        """They are picked."""
        self.bound[candidates] = -1.0
        for candidate in candidates.tolist():
            self.lists.exact.pop(candidate, None)
