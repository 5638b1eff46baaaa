"""Coverage by groups of rows: lazy, from the pairs of their rows.

A group has an upper bound on its gain, which never grows. The group of the largest bound is looked at again: first by
upper bounds on the kernels of its pairs and the current cover, then by exact kernels, which are kept. It is picked
when its exact gain is current. See `dubito.core.groups` for the meaning.
"""

from dataclasses import replace

import numpy as np

from dubito.core.coverage_reference import CoverageProblem, shares, sums_in_order
from dubito.core.groups import Members, coverage_without_reach, earned_coverage
from dubito.core.problem import Solution
from dubito.engines.cpu.coverage.gains import CLOSED, EXACT, CompiledGains, Gains
from dubito.engines.cpu.coverage.solver import FirstCover
from dubito.engines.lazy.bounds import ROUND_UP, SMALLEST
from dubito.engines.lazy.interfaces import Reporter
from dubito.engines.lazy.interrupts import retry_on_interrupt
from dubito.matrix import FloatArray, IntArray

KEPT_SHARE = 4
"""One in so many of the pairs that fit in memory may be an exact pair of a group that is not picked yet. If there are
more, they are computed again."""


def solve_groups(problem: CoverageProblem) -> Solution:
    """The reference's groups; after Ctrl-C those so far."""
    reporter, first, made, complete = Reporter(problem), list[FirstCover](), list[GroupGains](), True
    try:
        # Costs and quotas are those of groups.
        first.append(FirstCover(replace(problem, groups=None, costs=None, quotas=None), reporter.report_phase))
        if first[0].reach == 0.0:
            return Solution((coverage_without_reach(problem),))
        n_kept = first[0].n_pairs // KEPT_SHARE
        first[0].n_pairs -= n_kept
        made.append(GroupGains(problem, first[0].gains(1), n_kept))
        while len(made[0].earned) < problem.budget:
            made[0].pick()
            reporter.report(len(made[0].earned), None)
        first[0].keep()
    except KeyboardInterrupt:
        complete = False

    def finish() -> Solution:
        if not made:
            return Solution((Members(problem).configuration([], [], [], covered=np.empty(0), reach=0.0),), complete)
        return made[0].solution(first[0].reach, first[0].before, complete)

    solution, is_uninterrupted = retry_on_interrupt(finish)
    return solution if is_uninterrupted else Solution(solution.configurations, complete=False)


class GroupGains:
    """What each group adds to the cover. Groups are numbered as in `Members`, candidates as in `Gains`."""

    def __init__(self, problem: CoverageProblem, gains: Gains, most_kept: int) -> None:
        self.problem, self.gains, self.members, self.most_kept = problem, gains, Members(problem), most_kept
        n_groups = len(self.members)
        self.costs = np.broadcast_to(self.members.costs(slice(None)), n_groups)
        self.picks, self.gained = list[int](), list[float]()
        self.priorities, self.earned = list[float](), list[FloatArray]()
        self.stamp = np.full(n_groups, -1)
        """The number of picks when a bound was computed, from exact kernels if ``is_exact``, else from upper bounds."""
        self.is_exact = np.zeros(n_groups, dtype=np.bool_)
        self.pairs: dict[int, tuple[IntArray, FloatArray]] = {}
        """Pool rows, ascending, and the largest kernels of exact groups."""
        self.n_kept = 0
        self.scratch = np.zeros(len(problem.weights))
        sums = np.add.reduceat(gains.bound[self.members.order], self.members.starts[:-1])
        self.bound = sums * ROUND_UP / self.costs
        for group in range(n_groups):
            self._update_upper(group)

    def pick(self) -> None:
        """Take the group with the largest bound: pick it if its gain is exact and current, else update its bound."""
        first = int(self.bound.argmax())
        if self.problem.quotas is not None and not self.members.allowed(self.picks)[first]:
            self.bound[first] = -1.0
        elif self.bound[first] > 0.0 and not (self.is_exact[first] and self.stamp[first] == len(self.picks)):
            if not self.is_exact[first] and self.stamp[first] < len(self.picks):
                self._update_upper(first)
            else:
                self._update_exact(first)
        else:
            self._add(first)

    def _update_upper(self, group: int) -> None:
        """Lower the bound by upper bounds on the kernels, where they are known."""
        gains, positions = self.gains, self.members.positions(group)
        self.stamp[group] = len(self.picks)
        if not isinstance(gains, CompiledGains) or (gains.level[positions] == CLOSED).any():
            return
        parts = [slice(gains.held.starts[each], gains.stops[each]) for each in positions.tolist()]
        rows = gains.cloud.rows[np.concatenate([gains.held.rows[part] for part in parts])]
        kernels = np.concatenate([gains.held.kernels[part] for part in parts]).astype(np.float64)
        terms = np.maximum(kernels - gains.cover_of(rows), 0.0) * self.problem.weights[rows]
        if len(positions) > 1:
            np.maximum.at(self.scratch, rows, terms)
            terms = self.scratch[rows]
            # The largest of a row counts once: the next read of it is 0.
            self.scratch[rows] = 0.0
            rows, first = np.unique(rows, return_index=True)
            terms = terms[first]
        upper = (float(terms.sum()) * ROUND_UP + SMALLEST * len(terms)) / self.costs[group]
        self.bound[group] = min(self.bound[group], upper)

    def _update_exact(self, group: int) -> None:
        if group not in self.pairs:
            self._keep(group)
        rows, kernels = self.pairs[group]
        terms = np.maximum(kernels - self.gains.cover_of(rows), 0.0) * self.problem.weights[rows]
        gain = float(sums_in_order(terms)) if len(terms) else 0.0
        self.bound[group] = gain / self.costs[group]
        self.stamp[group], self.is_exact[group] = len(self.picks), True

    def _keep(self, group: int) -> None:
        """Find the exact pairs of a group, which add something now."""
        found = self._exact_pairs(self.members.positions(group))
        rows = np.concatenate([rows for rows, _ in found])
        kernels = np.concatenate([kernels for _, kernels in found])
        np.maximum.at(self.scratch, rows, kernels)
        rows = np.unique(rows)
        kernels = self.scratch[rows]
        self.scratch[rows] = 0.0
        if self.n_kept + len(rows) > self.most_kept:
            self.pairs.clear()
            self.n_kept = 0
        self.pairs[group] = rows, kernels
        self.n_kept += len(rows)

    def _exact_pairs(self, positions: IntArray) -> list[tuple[IntArray, FloatArray]]:
        """The pool rows, ascending, and kernels of each of these candidates, where it adds something now."""
        gains = self.gains
        if not isinstance(gains, CompiledGains):
            gains.update(positions, is_exact=True)
        elif (gains.level[positions] == CLOSED).any():
            return [self._found_pairs(gains, position) for position in positions.tolist()]
        elif len(stale := positions[gains.level[positions] < EXACT]):
            gains.update(stale, is_exact=True)
        return [gains.pairs(position) for position in positions.tolist()]

    def _found_pairs(self, gains: CompiledGains, position: int) -> tuple[IntArray, FloatArray]:
        """The same of one candidate, whose pairs may have to be found first."""
        if gains.level[position] == CLOSED:
            # Pairs are found for the candidates of largest bounds: those of the best groups, and this one first.
            gains.bound[:] = self.bound[self.members.of]
            gains.bound[position] = np.inf
        gains.update(np.array([position]), is_exact=True)
        return gains.pairs(position)

    def _add(self, group: int) -> None:
        positions, gain, cover_of = self.members.positions(group), 0.0, self.gains.cover_of
        parts = np.zeros(len(positions))
        if self.bound[group] > 0.0:
            if group not in self.pairs:
                self._keep(group)
            rows, kernels = self.pairs.pop(group)
            self.n_kept -= len(rows)
            terms = np.zeros((len(positions), len(rows)))
            for part, (own, values) in zip(terms, self._exact_pairs(positions), strict=True):
                part[np.searchsorted(rows, own)] = (values - cover_of(own)) * self.problem.weights[own]
            gain = float(sums_in_order(np.maximum(kernels - cover_of(rows), 0.0) * self.problem.weights[rows]))
            parts = earned_coverage(terms)
            self.gains.raise_cover(rows, kernels)
        self.picks.append(group)
        self.gained.append(gain)
        self.priorities.append(gain / self.costs[group])
        self.earned.append(parts / self.costs[group])
        self.bound[group] = -1.0
        self.gains.drop(positions)

    def solution(self, reach: float, before: float, complete: bool) -> Solution:
        n_picks = min(len(each) for each in (self.picks, self.gained, self.priorities, self.earned))
        covered = shares(self.problem.weights, before, np.array(self.gained[:n_picks]))
        found = self.members.configuration(
            self.picks[:n_picks],
            self.priorities[:n_picks],
            self.earned[:n_picks],
            covered=covered,
            reach=float(np.sqrt(reach)),
        )
        return Solution((found,), complete)
