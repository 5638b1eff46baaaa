"""The core-set by groups of rows: lazy, from known distances of rows to the first references.

The distance of a row to its nearest reference never grows, so an old one is an upper bound. The rows of the group of
the largest bound are compared with the references that came since, until the group's bound is exact. See
`dubito.core.groups` for the meaning.
"""

import numpy as np

from dubito.core.distances import squared_radii
from dubito.core.groups import Members, first_of_cold_start
from dubito.core.problem import Known, Problem, Solution
from dubito.core.reference import scaled
from dubito.engines.lazy.frontier import Reporter
from dubito.matrix import FloatArray, IntArray, Rows, blocks, len_of

TOGETHER = 512
"""Rows that are compared with references together, at least."""
READ_ROWS = 4096


class GroupCoreset:
    """Picks groups one by one."""

    def __init__(self, problem: Problem) -> None:
        self.problem, self.members = problem, Members(problem)
        n_pool, self.m = len_of(problem.pool), len_of(problem.references)
        self.known = problem.known or Known(np.full(n_pool, np.inf), np.zeros(n_pool, np.int32), np.empty(0, np.int64))
        self.picks, self.priorities, self.earned = list[int](), list[float](), list[FloatArray]()
        self.added = np.empty(0, dtype=np.int64)
        self.weights = None if problem.weights is None else problem.weights[problem.candidates]

    @property
    def n_references(self) -> int:
        return self.m + len(self.added)

    def bounds(self) -> FloatArray:
        """(candidates,) upper bounds on squared priorities."""
        return scaled(self.known.squared[self.problem.candidates], self.weights)

    def first(self) -> tuple[int, float]:
        """The group to pick next, and its squared priority; -1 if none is left."""
        allowed = self.members.allowed(self.picks)
        if not allowed.any():
            return -1, 0.0
        candidates, squared = self.problem.candidates, self.bounds()
        while True:
            by_group = np.where(allowed, self.members.largest(squared), -1.0)
            best = int(np.argmax(by_group))
            is_stale = self.known.seen[candidates] < self.n_references
            own = self.members.positions(best)
            if not (is_stale[own] & (squared[own] == by_group[best])).any():
                return best, float(by_group[best])
            others = np.flatnonzero(is_stale & allowed[self.members.of])
            if len(others) > TOGETHER:
                others = others[np.argpartition(-squared[others], TOGETHER)[:TOGETHER]]
            positions = np.union1d(own[is_stale[own]], others)
            self.refresh(candidates[positions])
            squared[positions] = scaled(
                self.known.squared[candidates[positions]], None if self.weights is None else self.weights[positions]
            )

    def refresh(self, rows: IntArray) -> None:
        """Compare rows of the pool with the references that they have not seen."""
        problem, known = self.problem, self.known
        for seen in np.unique(known.seen[rows]).tolist():
            if seen == self.n_references:
                continue
            stale = rows[known.seen[rows] == seen]
            parts = [Rows(problem.references, np.arange(min(seen, self.m), self.m))]
            parts.append(Rows(problem.pool, self.added[max(0, seen - self.m) :]))
            for span in blocks(len(stale), READ_ROWS):
                points = Rows(problem.pool, stale[span])
                for references in parts:
                    if len_of(references):
                        found = squared_radii(points, references, problem.metric)
                        known.squared[stale[span]] = np.minimum(known.squared[stale[span]], found)
                known.seen[stale[span]] = self.n_references

    def pick(self) -> None:
        if not self.picks and self.m == 0:
            best, parts = first_of_cold_start(self.problem, self.members)
        else:
            best, _ = self.first()
            own = self.members.positions(best)
            self.refresh(self.problem.candidates[own])
            parts = np.sqrt(self.bounds()[own])
        self.added = np.concatenate([self.added, self.problem.candidates[self.members.positions(best)]])
        self.known.added = self.added
        self.picks.append(best)
        self.priorities.append(float(parts.max()))
        self.earned.append(parts)

    def solution(self, radius: float | None, complete: bool) -> Solution:
        """The picks so far."""
        n_picks = min(len(self.picks), len(self.priorities), len(self.earned))
        picks, priorities, earned = self.picks[:n_picks], self.priorities[:n_picks], self.earned[:n_picks]
        return Solution((self.members.configuration(picks, priorities, earned, radius=radius),), complete)


def solve_groups(problem: Problem) -> Solution:
    """The reference's groups; after Ctrl-C those so far."""
    run, reporter, radius, complete = GroupCoreset(problem), Reporter(problem), None, True
    try:
        while len(run.earned) < problem.budget:
            run.pick()
            reporter.report(len(run.earned), lambda: run.priorities[-1] ** 2)
        radius = float(np.sqrt(max(run.first()[1], 0.0)))
    except KeyboardInterrupt:
        complete = False
        radius = run.priorities[-1] if run.priorities else None
    return run.solution(radius, complete)
