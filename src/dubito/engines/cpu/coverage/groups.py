"""Coverage by groups of rows: lazily, from the pairs of their rows.

Each group has an upper bound on its gain, which never increases. The bound of the group with the largest bound is
updated: first from upper bounds on the kernels of its pairs, then from exact kernels, which are stored. A group is
picked if its bound is the largest, exact, and up to date. `dubito.core.groups` defines coverage by groups.
"""

from dataclasses import replace

import numpy as np

from dubito.core.coverage_reference import CoverageProblem, shares, sums_in_order
from dubito.core.groups import Members, coverage_without_reach, earned_coverage
from dubito.core.problem import Solution
from dubito.engines.cpu.coverage.gains import EXACT, NO_PAIRS, CompiledGains, Gains
from dubito.engines.cpu.coverage.solver import FirstCover
from dubito.engines.lazy.bounds import ROUND_UP, SMALLEST
from dubito.engines.lazy.interfaces import Reporter
from dubito.engines.lazy.interrupts import retry_on_interrupt
from dubito.matrix import FloatArray, IntArray

KEPT_SHARE = 4
"""One in so many of the pairs that fit in memory is reserved for exact pairs of groups not picked yet. If there are
more, they are deleted, and computed again when needed."""


def solve_groups(problem: CoverageProblem) -> Solution:
    """The groups that the reference picks; after Ctrl-C, those picked so far."""
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
    """The gain of each group. Groups are numbered as in `Members`, candidates as in `Gains`."""

    def __init__(self, problem: CoverageProblem, gains: Gains, max_kept: int) -> None:
        self.problem, self.gains, self.members, self.max_kept = problem, gains, Members(problem), max_kept
        n_groups = len(self.members)
        self.costs = np.broadcast_to(self.members.costs(slice(None)), n_groups)
        self.picks, self.gained = list[int](), list[float]()
        self.priorities, self.earned = list[float](), list[FloatArray]()
        self.stamp = np.full(n_groups, -1)
        """The number of picks when each bound was computed."""
        self.is_exact = np.zeros(n_groups, dtype=np.bool_)
        """Whether each bound was computed from exact kernels instead of upper bounds."""
        self.pairs: dict[int, tuple[IntArray, FloatArray]] = {}
        """The pool rows of groups' exact pairs, ascending, and the largest kernel of a group's rows for each."""
        self.n_kept = 0
        self.scratch = np.zeros(len(problem.weights))
        sums = np.add.reduceat(gains.bound[self.members.order], self.members.starts[:-1])
        self.bound = sums * ROUND_UP / self.costs
        for group in range(n_groups):
            self._update_upper(group)

    def pick(self) -> None:
        """Pick the group with the largest bound if this bound is exact and up to date; otherwise update the bound."""
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
        """Update the bound from upper bounds on the kernels, if these are stored."""
        gains, positions = self.gains, self.members.positions(group)
        self.stamp[group] = len(self.picks)
        if not isinstance(gains, CompiledGains) or (gains.pair_state[positions] == NO_PAIRS).any():
            return
        parts = [slice(gains.stored.starts[each], gains.stops[each]) for each in positions.tolist()]
        rows = gains.cloud.rows[np.concatenate([gains.stored.rows[part] for part in parts])]
        kernels = np.concatenate([gains.stored.kernels[part] for part in parts]).astype(np.float64)
        terms = np.maximum(kernels - gains.cover_of(rows), 0.0) * self.problem.weights[rows]
        if len(positions) > 1:
            np.maximum.at(self.scratch, rows, terms)
            terms = self.scratch[rows]
            # Only the largest term of a row counts.
            self.scratch[rows] = 0.0
            rows, first = np.unique(rows, return_index=True)
            terms = terms[first]
        upper = (float(terms.sum()) * ROUND_UP + SMALLEST * len(terms)) / self.costs[group]
        self.bound[group] = min(self.bound[group], upper)

    def _update_exact(self, group: int) -> None:
        if group not in self.pairs:
            self._store_exact_pairs(group)
        rows, kernels = self.pairs[group]
        terms = np.maximum(kernels - self.gains.cover_of(rows), 0.0) * self.problem.weights[rows]
        gain = float(sums_in_order(terms)) if len(terms) else 0.0
        self.bound[group] = gain / self.costs[group]
        self.stamp[group], self.is_exact[group] = len(self.picks), True

    def _store_exact_pairs(self, group: int) -> None:
        """Store the exact pairs with which a group adds cover now."""
        part_pairs = self._exact_pairs(self.members.positions(group))
        rows = np.concatenate([rows for rows, _ in part_pairs])
        kernels = np.concatenate([kernels for _, kernels in part_pairs])
        np.maximum.at(self.scratch, rows, kernels)
        rows = np.unique(rows)
        kernels = self.scratch[rows]
        self.scratch[rows] = 0.0
        if self.n_kept + len(rows) > self.max_kept:
            self.pairs.clear()
            self.n_kept = 0
        self.pairs[group] = rows, kernels
        self.n_kept += len(rows)

    def _exact_pairs(self, positions: IntArray) -> list[tuple[IntArray, FloatArray]]:
        """For each candidate, the pool rows, ascending, to which it adds cover now, and the kernels there."""
        gains = self.gains
        if not isinstance(gains, CompiledGains):
            gains.update(positions, is_exact=True)
        elif (gains.pair_state[positions] == NO_PAIRS).any():
            return [self._pairs_of_candidate(gains, position) for position in positions.tolist()]
        elif len(stale := positions[gains.pair_state[positions] < EXACT]):
            gains.update(stale, is_exact=True)
        return [gains.pairs(position) for position in positions.tolist()]

    def _pairs_of_candidate(self, gains: CompiledGains, position: int) -> tuple[IntArray, FloatArray]:
        """The same for one candidate, whose pairs are searched first if they are not stored."""
        if gains.pair_state[position] == NO_PAIRS:
            # Pairs are searched for the candidates with the largest bounds: this one first, then those of the best
            # groups.
            gains.bound[:] = self.bound[self.members.of]
            gains.bound[position] = np.inf
        gains.update(np.array([position]), is_exact=True)
        return gains.pairs(position)

    def _add(self, group: int) -> None:
        positions, gain, cover_of = self.members.positions(group), 0.0, self.gains.cover_of
        parts = np.zeros(len(positions))
        if self.bound[group] > 0.0:
            if group not in self.pairs:
                self._store_exact_pairs(group)
            rows, kernels = self.pairs.pop(group)
            self.n_kept -= len(rows)
            terms = np.zeros((len(positions), len(rows)))
            for part, (part_rows, values) in zip(terms, self._exact_pairs(positions), strict=True):
                part[np.searchsorted(rows, part_rows)] = (values - cover_of(part_rows)) * self.problem.weights[
                    part_rows
                ]
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
        configuration = self.members.configuration(
            self.picks[:n_picks],
            self.priorities[:n_picks],
            self.earned[:n_picks],
            covered=covered,
            reach=float(np.sqrt(reach)),
        )
        return Solution((configuration,), complete)
