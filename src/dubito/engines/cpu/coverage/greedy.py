"""Greedy picks: candidates in the order of their bounds, what stands first made exact."""

import heapq

import numpy as np

from dubito.engines.cpu.coverage.lists import CLOSED, EXACT, Lists
from dubito.engines.cpu.coverage.opening import Opening
from dubito.engines.lazy.bounds import first_in_order
from dubito.engines.lazy.front import Threshold
from dubito.matrix import IntArray

FRONT = 512
"""Candidates that are brought up to date together, at most."""


class CoverGreedy:
    """A run: bounds on what each candidate adds for its cost, -1 once it is picked, and the picks so far."""

    def __init__(self, lists: Lists, opening: Opening) -> None:
        problem, self.lists, self.opening = lists.space.problem, lists, opening
        self.costs = None if problem.costs is None else problem.costs[problem.candidates]
        # What is no less stays so over a cost: one division, which rounds all alike.
        self.bound = problem.priorities(slice(None), opening.first_bounds())
        self.stamp = np.full(len(self.bound), -1, dtype=np.int64)
        """(n,) how many picks there were when a bound was computed."""
        self.picks: list[int] = []
        self.gained: list[float] = []
        self.quotas, self.rows = problem.quotas, problem.candidates
        self.room = None if self.quotas is None else self.quotas.limits.copy()

    def step(self, budget: int) -> None:
        """One front: bring it up to date, and pick from it until something outside may come first."""
        front, threshold = first_in_order(self.bound, FRONT)
        if self.bound[front].max(initial=0.0) <= 0.0:
            # Nothing adds anything any more: the lowest numbers meet the budget.
            rest = np.flatnonzero(self.bound == 0.0)
            if self.quotas is not None and self.room is not None:
                rest = rest[self.quotas.within(self.rows[rest], self.room)]
            for candidate in rest[: budget - len(self.picks)].tolist():
                self._note(candidate, 0.0)
            return
        if (self.lists.level[front] == CLOSED).any():
            front, threshold = first_in_order(self.bound, min(FRONT, self.opening.open(self.bound)))
        self.lists.refine(front)
        for candidate in front.tolist():
            self._renew(candidate)
        self._pick(front, threshold, budget)

    def _pick(self, front: IntArray, threshold: Threshold, budget: int) -> None:
        heap = [(-float(self.bound[candidate]), candidate) for candidate in front.tolist()]
        heapq.heapify(heap)
        while heap and len(self.picks) < budget:
            value, candidate = -heap[0][0], heap[0][1]
            if self.bound[candidate] < 0.0:
                heapq.heappop(heap)  # Its class is full.
                continue
            if value <= 0.0 or not threshold.admits(value, candidate):
                return
            if self.stamp[candidate] == len(self.picks):
                if self.lists.level[candidate] == EXACT:
                    heapq.heappop(heap)
                    gain = value if self.costs is None else self.lists.bound(candidate)
                    self.lists.take(candidate)
                    self._note(candidate, gain)
                    continue
                self.lists.settle(candidate)
            self._renew(candidate)
            heapq.heapreplace(heap, (-float(self.bound[candidate]), candidate))

    def _renew(self, candidate: int) -> None:
        """A bound with the cover that there is now; it never grows."""
        cost = 1.0 if self.costs is None else float(self.costs[candidate])
        self.bound[candidate] = min(float(self.bound[candidate]), self.lists.bound(candidate) / cost)
        self.stamp[candidate] = len(self.picks)

    def _note(self, candidate: int, gain: float) -> None:
        self.bound[candidate] = -1.0
        self.picks.append(candidate)
        self.gained.append(gain)
        if self.quotas is not None and self.room is not None:
            own = self.quotas.classes[self.rows[candidate]]
            self.room[own] -= 1
            if self.room[own] == 0:
                self.bound[self.quotas.classes[self.rows] == own] = -1.0
