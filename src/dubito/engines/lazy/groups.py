"""Core-sets of groups of rows, lazily: only rows of groups that may come first are compared with new references.

Each row has a bound. The group of the row with the largest bound is refreshed, together with rows of other groups that
may come next, until that bound is exact. `dubito.core.groups` defines core-sets of groups.
"""

from collections.abc import Callable

import numpy as np

from dubito.core.groups import Members, by_rows, first_of_cold_start
from dubito.core.problem import Problem, Solution
from dubito.core.reference import cold_order
from dubito.engines.lazy.bounds import Bounds
from dubito.engines.lazy.interfaces import Kernels, Reporter
from dubito.matrix import FloatArray, IntArray, len_of

TOGETHER = 512
"""Number of rows that are refreshed together with those of the first group."""


class GroupRun:
    def __init__(self, problem: Problem, kernels: Kernels, cold: Callable[[], IntArray]) -> None:
        self.problem, self.members, self.cold = problem, Members(problem), cold
        self.bounds = Bounds(by_rows(problem), kernels)
        self.picks, self.priorities, self.earned = list[int](), list[float](), list[FloatArray]()

    def first(self) -> tuple[int, float]:
        """The group to pick next, and its squared priority; negative if none may be picked."""
        bounds, allowed = self.bounds, self.members.allowed(self.picks)
        while True:
            by_group = np.where(allowed, self.members.largest(bounds.bound), -1.0)
            best = int(np.argmax(by_group))
            members = self.members.positions(best)
            if by_group[best] <= 0.0 or not bounds.is_stale(members[bounds.bound[members] == by_group[best]]).any():
                return best, float(by_group[best])
            rows = np.flatnonzero(allowed[self.members.of])
            others = rows[bounds.is_stale(rows)]
            if len(others) > TOGETHER:
                others = others[np.argpartition(-bounds.bound[others], TOGETHER)[:TOGETHER]]
            bounds.refresh(np.union1d(members, others), needed=0.0)

    def pick(self) -> None:
        if not self.picks and len_of(self.problem.references) == 0:
            best, parts = first_of_cold_start(self.members, int(self.cold()[0]))
            self.bounds.open(self.members.positions(best))
        else:
            if not self.picks:
                self.bounds.open(np.empty(0, dtype=np.int64))
            best, _ = self.first()
            members = self.members.positions(best)
            self.bounds.refresh(members, needed=0.0)
            parts = np.sqrt(self.bounds.bound[members])
            self.bounds.close(members, self.bounds.bound[members], members)
        self.picks.append(best)
        self.priorities.append(float(parts.max()))
        self.earned.append(parts)


def solve(problem: Problem, kernels: Kernels, cold: Callable[[], IntArray] | None = None) -> Solution:
    """The groups that the reference picks; after Ctrl-C, those picked so far.

    ``cold`` returns the order of a cold start, or at least its first candidate.
    """
    run = GroupRun(problem, kernels, cold or (lambda: cold_order(problem)))
    reporter, radius, complete = Reporter(problem), None, True
    try:
        while len(run.earned) < problem.budget:
            run.pick()
            reporter.report(len(run.earned), lambda: run.priorities[-1] ** 2)
        radius = float(np.sqrt(max(run.first()[1], 0.0)))
    except KeyboardInterrupt:
        complete = False
        radius = run.priorities[-1] if run.priorities else None
    n_picks = min(len(run.picks), len(run.priorities), len(run.earned))
    picks, priorities, earned = run.picks[:n_picks], run.priorities[:n_picks], run.earned[:n_picks]
    return Solution((run.members.configuration(picks, priorities, earned, radius=radius),), complete)
