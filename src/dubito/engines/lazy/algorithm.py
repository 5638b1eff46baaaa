"""The exact lazy block algorithm: core-sets without a pass over the pool for every pick.

A priority only falls as references are added, so a stale one is an upper bound. The engine keeps for each
candidate a bound and how many references it has seen (`dubito.engines.lazy.bounds`), and repeats:

1. take the front: the first K candidates by (bound, largest first; index, lowest first). The threshold is what
   stands first outside;
2. refresh those that have not seen every reference, until the whole front is fresh;
3. pick greedily inside the front, over one K×K product, while the best comes before the threshold; then write the
   lowered bounds back. A beam steps all its configurations there.

**Why the picks are the reference's.** A fresh priority is exact: the reference's own number, from
`dubito.core.distances.settle`. float32 products only rule references out, by bounds on their rounding that hold for any
order of additions. Inside a front every candidate has an interval that holds its exact priority; a pick is made
when no other interval reaches its own, and otherwise the contenders are settled first. A bound written back is
the upper end of its interval, and invariantly it is either exact for the references seen, or the nearest reference
is among those not seen: a later refresh of the unseen ones makes it exact again. Block sizes, thread counts and
the order of additions in a product can change which pairs are settled, never what is picked.
"""

from dataclasses import replace
from typing import Protocol

import numpy as np

from dubito.core.problem import Configuration, Problem, Solution
from dubito.engines.lazy.beam import Beam
from dubito.engines.lazy.bounds import Bounds
from dubito.engines.lazy.front import FrontPicking
from dubito.engines.lazy.frontier import Frontier, Kernels, Reporter
from dubito.engines.lazy.interrupts import DeferInterrupt, retry_on_interrupt
from dubito.matrix import FloatArray, IntArray

# Greedy picks over fronts: Algorithms 1 and 2.

RADIUS_FRONT = 64
NONE = np.empty(0, dtype=np.int64)


class PickLog(Protocol):
    """Where picks are written down as they are made, so that a run can go on behind them."""

    @property
    def earlier(self) -> tuple[IntArray, FloatArray]:
        """Picks of a run that broke off, and their squared priorities."""
        ...

    def note(self, picks: IntArray, squared: FloatArray) -> None:
        """Write some more down."""
        ...


class Greedy:
    """A greedy run: what is picked. Of the problem it looks at what is asked for, never at the points."""

    def __init__(self, problem: Problem, frontier: Frontier, journal: PickLog | None = None) -> None:
        self.problem, self.frontier, self.journal = problem, frontier, journal
        self.picks: list[IntArray] = []
        self.squared: list[FloatArray] = []
        self.n_picks = 0
        self.room = None if problem.quotas is None else problem.quotas.limits.copy()

    def open(self) -> None:
        """Bound every candidate; a cold start has its first pick then."""
        if self.journal is not None:
            self._keep(*self.journal.earlier)
        first = self.frontier.cold_order(1) if self.frontier.is_cold else NONE
        self.frontier.open(first)
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
                reporter.report(self.n_picks, self.frontier.largest)
        except KeyboardInterrupt:
            complete = False
        found, is_quiet = retry_on_interrupt(self._configuration)
        return Solution((found,), complete and is_quiet)

    def _step(self) -> None:
        """One front, brought up to date and picked from."""
        n_left = self.problem.budget - self.n_picks
        fresh = self.frontier.fresh(min(self.frontier.front_rows, 2 * n_left + RADIUS_FRONT), NONE)
        if fresh.values.max(initial=0.0) <= 0.0:
            self._take_zeros(n_left)
            return
        picking = FrontPicking(self.frontier.front(fresh.rows), fresh.values)
        full: list[int] = []
        stop = None if self.room is None else lambda place: self._is_last(int(fresh.rows[place]), full)
        picking.run(fresh.rows, fresh.threshold, n_left, stop)
        picks = fresh.rows[picking.picks]
        with DeferInterrupt() as held:
            self.frontier.close(fresh.rows, picking.high, picks)
            self._note(picks, picking.priorities())
            self._close(full)
        held.raise_heard()

    def _take_zeros(self, n_left: int) -> None:
        """Nothing positive is left: the lowest indices meet the budget."""
        quotas = self.problem.quotas
        zeros = self.frontier.zeros(n_left if quotas is None else None)
        if quotas is not None and self.room is not None:
            zeros = zeros[quotas.allowed(self.problem.candidates[zeros], self.room)][:n_left]
        with DeferInterrupt() as held:
            self.frontier.close(NONE, np.empty(0), zeros)
            self._note(zeros, np.zeros(len(zeros)))
        held.raise_heard()

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
            classes = self.problem.quotas.classes[self.problem.candidates]
            self.frontier.drop(np.flatnonzero(np.isin(classes, full)))

    def _note(self, picks: IntArray, squared: FloatArray) -> None:
        if self.journal is not None and len(picks):
            self.journal.note(picks, squared)
        self._keep(picks, squared)

    def _keep(self, picks: IntArray, squared: FloatArray) -> None:
        self.picks.append(picks)
        self.squared.append(squared)
        self.n_picks += len(picks)

    def _configuration(self) -> Configuration:
        """The radius is the priority that the next pick would have."""
        left = self.frontier.fresh(RADIUS_FRONT, NONE).values.max(initial=0.0)
        return self.frontier.configuration(
            np.concatenate(self.picks), np.concatenate(self.squared), float(np.sqrt(left))
        )


def solve(problem: Problem, kernels: Kernels) -> Solution:
    """The reference's configurations, best first."""
    n_sets = most_sets(len(problem.candidates), problem.budget, problem.beam_width)
    if n_sets < problem.beam_width:
        problem = replace(problem, beam_width=max(2, n_sets))
    return solve_over(problem, Bounds(problem, kernels))


def most_sets(n: int, budget: int, enough: int) -> int:
    """How many different sets of equally many picks there can be up to a budget, or ``enough``: no beam holds more.

    Examples
    --------
    >>> most_sets(5, 2, 1000), most_sets(5, 4, 1000), most_sets(5, 2, 7)
    (10, 10, 7)
    """
    n_sets = 1
    for n_picks in range(1, min(budget, n // 2) + 1):
        n_sets = n_sets * (n - n_picks + 1) // n_picks
        if n_sets >= enough:
            return enough
    return n_sets


def solve_over(problem: Problem, frontier: Frontier) -> Solution:
    """The same, wherever the candidates lie."""
    run = (Greedy if problem.beam_width == 1 else Beam)(problem, frontier)
    run.open()
    return run.solve()
