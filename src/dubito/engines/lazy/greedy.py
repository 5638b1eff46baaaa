"""Greedy picks over a lazy engine's kernels: Algorithms 1 and 2."""

import numpy as np

from dubito.doubt import uncertainty
from dubito.engines.lazy.bounds import Bounds
from dubito.engines.lazy.front import FrontPicking
from dubito.engines.lazy.kernels import Kernels
from dubito.engines.lazy.progress import Reporter
from dubito.matrix import FloatArray, IntArray, len_of
from dubito.problem import Configuration, Problem, Solution
from dubito.reference import cold_order

RADIUS_FRONT = 64


class Greedy:
    """A greedy run: what is picked, and the bounds between fronts."""

    def __init__(self, problem: Problem, kernels: Kernels) -> None:
        self.problem, self.kernels = problem, kernels
        self.picks: list[IntArray] = []
        self.squared: list[FloatArray] = []
        self.n_picks = 0
        self.room = None if problem.quotas is None else problem.quotas.limits.copy()
        first = cold_order(problem)[:1] if len_of(problem.references) == 0 else np.empty(0, dtype=np.int64)
        kernels.add_references(first)
        self.bounds = Bounds(kernels, *kernels.first_bounds(), len_of(problem.references) + len(first))
        self.bounds.bound[first] = -1.0
        self._note(first, np.full(len(first), np.inf))
        full: list[int] = []
        for candidate in first.tolist():
            self._is_last(candidate, full)
        self._close(full)

    def solve(self) -> Solution:
        """Pick until the budget is met, or until Ctrl-C: the picks so far are a prefix of the answer."""
        reporter, complete = Reporter(self.problem), True
        try:
            while self.n_picks < self.problem.budget:
                self._step()
                reporter.report(self.n_picks, float(self.bounds.bound.max()))
        except KeyboardInterrupt:
            complete = False
        return Solution((self._configuration(),), complete)

    def _step(self) -> None:
        """One front: refreshed, or, once it is fresh, picked from."""
        bounds, n_left = self.bounds, self.problem.budget - self.n_picks
        rows, threshold = bounds.first(min(self.kernels.front_rows, 2 * n_left + RADIUS_FRONT))
        if bounds.bound[rows].max() <= 0.0:
            # Nothing positive is left: the lowest indices meet the budget.
            zeros = np.flatnonzero(bounds.bound == 0.0)
            if self.problem.quotas is not None and self.room is not None:
                zeros = zeros[self.problem.quotas.within(self.problem.candidates[zeros], self.room)]
            zeros = zeros[:n_left]
            self._take(zeros, np.zeros(len(zeros)))
        elif not bounds.refresh_first(rows, threshold):
            picking = FrontPicking(self.kernels.front(rows), bounds.bound[rows])
            full: list[int] = []
            picking.run(rows, threshold, n_left, lambda place: self._is_last(int(rows[place]), full))
            bounds.bound[rows] = picking.high
            self._take(rows[picking.picks], picking.priorities())
            self._close(full)

    def _is_last(self, candidate: int, full: list[int]) -> bool:
        """Whether a pick is the last of its class, which is then among those that are full."""
        quotas = self.problem.quotas
        if quotas is None or self.room is None:
            return False
        own = int(quotas.classes[self.problem.candidates[candidate]])
        self.room[own] -= 1
        full += [own] * int(self.room[own] == 0)
        return bool(self.room[own] == 0)

    def _close(self, full: list[int]) -> None:
        """Candidates of classes that are full count as picked."""
        if self.problem.quotas is not None and full:
            self.bounds.bound[np.isin(self.problem.quotas.classes[self.problem.candidates], full)] = -1.0

    def _take(self, picks: IntArray, squared: FloatArray) -> None:
        self.bounds.pick(picks)
        self._note(picks, squared)

    def _note(self, picks: IntArray, squared: FloatArray) -> None:
        self.picks.append(picks)
        self.squared.append(squared)
        self.n_picks += len(picks)

    def _radius(self) -> float:
        """The priority the next pick would have: refreshed until the first in order is exact."""
        bounds = self.bounds
        while True:
            best = int(bounds.bound.argmax())
            if bounds.bound[best] <= 0.0:
                return 0.0
            if bounds.seen[best] == bounds.n_references:
                return float(np.sqrt(bounds.bound[best]))
            rows, threshold = bounds.first(RADIUS_FRONT)
            bounds.refresh(rows, threshold.value)

    def _configuration(self) -> Configuration:
        indices = self.problem.candidates[np.concatenate(self.picks)]
        return finished(self.problem, indices, np.concatenate(self.squared), self._radius())


def finished(problem: Problem, indices: IntArray, squared: FloatArray, radius: float) -> Configuration:
    """A configuration of these picks."""
    doubted = None if problem.doubt is None or len(indices) == 0 else uncertainty(problem.doubt[indices])
    return Configuration(indices, np.sqrt(squared), radius, doubted)
