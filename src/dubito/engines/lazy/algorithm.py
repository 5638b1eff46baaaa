"""The exact lazy block algorithm: core-sets without a pass over the pool for every pick.

A priority only decreases as references are added, so a stale one is an upper bound. For each candidate the engine
stores a bound and the number of references that it accounts for (`dubito.engines.lazy.bounds`), and repeats:

1. select the front: the first K candidates by (bound, largest first; index, lowest first). The threshold is the first
   candidate outside the front;
2. refresh the candidates of the front that have not seen every reference, until the whole front is fresh;
3. pick greedily inside the front, using one K×K product, while the best candidate comes before the threshold; then
   write the lowered bounds back. A beam extends all its configurations inside the front.

**Why the picks equal the reference's.** A fresh priority is exact: it is the number that the reference computes, by
`dubito.core.distances.exact_sq_distances`. float32 products only rule references out, by bounds on their rounding error
that hold for any order of additions. Inside a front every candidate has an interval that contains its exact priority.
A candidate is picked if no other interval overlaps its own; otherwise the overlapping candidates are made exact first.
The bound that is written back is the upper end of the interval. As an invariant, a bound is either exact for the
references seen, or the nearest reference is not among them: then refreshing against the unseen references makes it
exact again. Block sizes, thread counts and the order of additions can change which pairs are computed exactly, never
the picks.
"""

from dataclasses import replace
from typing import Protocol

import numpy as np

from dubito.core.problem import Configuration, Problem, Solution
from dubito.engines.lazy.beam import Beam
from dubito.engines.lazy.bounds import Bounds
from dubito.engines.lazy.front import FrontPicking
from dubito.engines.lazy.interfaces import CandidateBounds, Kernels, Reporter
from dubito.engines.lazy.interrupts import DeferInterrupt, retry_on_interrupt
from dubito.matrix import FloatArray, IntArray

RADIUS_FRONT = 64
NONE = np.empty(0, dtype=np.int64)


class PickLog(Protocol):
    """A log of the picks, from which an interrupted run can resume."""

    @property
    def earlier(self) -> tuple[IntArray, FloatArray]:
        """The picks of the interrupted run, and their squared priorities."""

    def note(self, picks: IntArray, squared: FloatArray) -> None:
        """Append picks."""


class Greedy:
    """A greedy run over fronts (Algorithms 1 and 2). Only ``bounds`` reads features."""

    def __init__(self, problem: Problem, bounds: CandidateBounds, journal: PickLog | None = None) -> None:
        self.problem, self.bounds, self.journal = problem, bounds, journal
        self.picks: list[IntArray] = []
        self.squared: list[FloatArray] = []
        self.n_picks = 0
        self.quota_left = None if problem.quotas is None else problem.quotas.limits.copy()

    def open(self) -> None:
        """Compute the first bounds; a cold start makes its first pick."""
        if self.journal is not None:
            self._append(*self.journal.earlier)
        first = self.bounds.cold_order(1) if self.bounds.is_cold else NONE
        self.bounds.open(first)
        self._record(first, np.full(len(first), np.inf))
        full: list[int] = []
        for candidate in first.tolist():
            self._fills_class(candidate, full)
        self._drop_classes(full)

    def solve(self) -> Solution:
        """Pick until the budget is reached. On Ctrl-C the picks so far are a prefix of the full answer."""
        reporter, complete = Reporter(self.problem), True
        try:
            while self.n_picks < self.problem.budget:
                self._step()
                reporter.report(self.n_picks, self.bounds.largest)
        except KeyboardInterrupt:
            complete = False
        configuration, is_uninterrupted = retry_on_interrupt(self._configuration)
        return Solution((configuration,), complete and is_uninterrupted)

    def _step(self) -> None:
        """Refresh one front and pick from it."""
        n_left = self.problem.budget - self.n_picks
        fresh = self.bounds.fresh(min(self.bounds.front_rows, 2 * n_left + RADIUS_FRONT), NONE)
        if fresh.values.max(initial=0.0) <= 0.0:
            self._pick_zeros(n_left)
            return
        picking = FrontPicking(self.bounds.front(fresh.rows), fresh.values)
        full: list[int] = []
        stop = None if self.quota_left is None else lambda position: self._fills_class(int(fresh.rows[position]), full)
        picking.run(fresh.rows, fresh.threshold, n_left, stop)
        picks = fresh.rows[picking.picks]
        with DeferInterrupt() as deferred:
            self.bounds.close(fresh.rows, picking.high, picks)
            self._record(picks, picking.priorities())
            self._drop_classes(full)
        deferred.raise_if_pending()

    def _pick_zeros(self, n_left: int) -> None:
        """All remaining priorities are 0: fill the budget with the lowest indices."""
        quotas = self.problem.quotas
        zeros = self.bounds.zeros(n_left if quotas is None else None)
        if quotas is not None and self.quota_left is not None:
            zeros = zeros[quotas.allowed(self.problem.candidates[zeros], self.quota_left)][:n_left]
        with DeferInterrupt() as deferred:
            self.bounds.close(NONE, np.empty(0), zeros)
            self._record(zeros, np.zeros(len(zeros)))
        deferred.raise_if_pending()

    def _fills_class(self, candidate: int, full: list[int]) -> bool:
        """Count a pick against its class's quota. If that fills the class, append it to ``full`` and return True."""
        quotas = self.problem.quotas
        if quotas is None or self.quota_left is None:
            return False
        label = int(quotas.classes[self.problem.candidates[candidate]])
        self.quota_left[label] -= 1
        full += [label] * int(self.quota_left[label] == 0)
        return bool(self.quota_left[label] == 0)

    def _drop_classes(self, full: list[int]) -> None:
        if self.problem.quotas is not None and full:
            classes = self.problem.quotas.classes[self.problem.candidates]
            self.bounds.drop(np.flatnonzero(np.isin(classes, full)))

    def _record(self, picks: IntArray, squared: FloatArray) -> None:
        if self.journal is not None and len(picks):
            self.journal.note(picks, squared)
        self._append(picks, squared)

    def _append(self, picks: IntArray, squared: FloatArray) -> None:
        self.picks.append(picks)
        self.squared.append(squared)
        self.n_picks += len(picks)

    def _configuration(self) -> Configuration:
        """The result so far. The radius is the priority that the next pick would have."""
        left = self.bounds.fresh(RADIUS_FRONT, NONE).values.max(initial=0.0)
        return self.bounds.configuration(np.concatenate(self.picks), np.concatenate(self.squared), float(np.sqrt(left)))


def solve(problem: Problem, kernels: Kernels) -> Solution:
    """Solve the problem; configurations are those of the reference, best first."""
    n_sets = max_distinct_sets(len(problem.candidates), problem.budget, problem.beam_width)
    if n_sets < problem.beam_width:
        problem = replace(problem, beam_width=max(2, n_sets))
    return solve_over(problem, Bounds(problem, kernels))


def max_distinct_sets(n: int, budget: int, enough: int) -> int:
    """The number of distinct sets a beam can hold at any step up to the budget, capped at ``enough``.

    Examples
    --------
    >>> max_distinct_sets(5, 2, 1000), max_distinct_sets(5, 4, 1000), max_distinct_sets(5, 2, 7)
    (10, 10, 7)
    """
    n_sets = 1
    for n_picks in range(1, min(budget, n // 2) + 1):
        n_sets = n_sets * (n - n_picks + 1) // n_picks
        if n_sets >= enough:
            return enough
    return n_sets


def solve_over(problem: Problem, bounds: CandidateBounds) -> Solution:
    """Solve with any `CandidateBounds`, whose candidates are in this process or in several."""
    run = (Greedy if problem.beam_width == 1 else Beam)(problem, bounds)
    run.open()
    return run.solve()
