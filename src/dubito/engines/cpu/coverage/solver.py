"""Solving a coverage problem: the reach, the cover by labeled rows, the pairs, and the picks."""

from dataclasses import replace
from functools import cached_property

import numpy as np

from dubito import native as compiled
from dubito.core.coverage_reference import (
    CoverageProblem,
    cold_squared_reach,
    finished,
    kernel,
    sums_in_order,
    warm_squared_reach,
)
from dubito.core.problem import Solution
from dubito.engines.cpu.coverage.engine import most_pairs
from dubito.engines.cpu.coverage.gains import CompiledGains, Gains, PlainGains
from dubito.engines.cpu.coverage.kept import KeptRound, find_pairs, may_keep
from dubito.engines.cpu.coverage.pairs import (
    CHUNK,
    Nearest,
    Pairs,
    PairSearch,
    PointCloud,
    ReportPhase,
    choose_width,
    used_rows,
)
from dubito.engines.cpu.coverage.space import Directions, Space, fit_directions
from dubito.engines.lazy.interfaces import Reporter
from dubito.engines.lazy.interrupts import retry_on_interrupt
from dubito.matrix import len_of

PREPARING = "preparing"
"""Name of the first phase in progress reports."""
SMALL_PROBLEM = 1e11
"""With fewer products of features than this, finding directions costs more than it saves."""
FIRST_WIDTH = 64
"""Number of directions for computing the reach, which then determines the best number; see `choose_width`."""


def solve(problem: CoverageProblem) -> Solution:
    """The picks of the reference; after Ctrl-C, those made so far."""
    reporter, first, gains_made, complete = Reporter(problem), list[FirstCover](), list[Gains](), True
    try:
        first.append(FirstCover(problem, reporter.report_phase))
        if first[0].reach == 0.0:
            return _by_weight(problem)
        gains_made.append(first[0].gains(problem.budget))
        while gains_made[0].n_picks < problem.budget:
            gains_made[0].pick(problem.budget)
            reporter.report(gains_made[0].n_picks, None)
        first[0].keep()
    except KeyboardInterrupt:
        complete = False

    def finish() -> Solution:
        if not gains_made:
            return Solution((finished(problem, first[0].reach if first else 0.0, 0.0, [], []),), complete)
        n_picks, reach, before = gains_made[0].n_picks, first[0].reach, first[0].before
        return Solution(
            (finished(problem, reach, before, gains_made[0].picks[:n_picks], gains_made[0].gained[:n_picks]),), complete
        )

    solution, is_uninterrupted = retry_on_interrupt(finish)
    return solution if is_uninterrupted else Solution(solution.configurations, complete=False)


class FirstCover:
    """The cover before the first pick, and each row's limit: how near a pick must be to add cover to the row."""

    def __init__(self, problem: CoverageProblem, report_phase: ReportPhase) -> None:
        self.problem, self.report_phase = problem, report_phase
        n_pool, d = problem.pool.shape
        report_phase(PREPARING, 0.0)
        self.n_pairs = most_pairs(n_pool, d, problem.memory_limit)
        before = None if problem.known is None else problem.known.kept
        self.kept = before if isinstance(before, KeptRound) else None
        space = None if self.kept is None else self.kept.space_of(problem)
        if space is None:
            self.kept, space = None, Space(problem)
        self.space, self.before = space, 0.0
        self.nearest = Nearest(self.space, report_phase)
        self.cloud: PointCloud | None = None
        self._find_distances()
        if self.reach == 0.0:
            return
        rows, unit = np.flatnonzero(problem.weights > 0.0), self.space.unit
        squared = self.nearest.known.squared[rows]
        self.cover, self.limits = np.zeros(n_pool), np.full(n_pool, -1.0)
        self.cover[rows] = kernel(squared, self.reach)
        self.limits[rows] = np.where(self.cover[rows] < 1.0, np.minimum(squared, self.reach) * unit, -1.0)
        self.before = float(sums_in_order(problem.weights * self.cover))

    def _find_distances(self) -> None:
        """Compute the distances to labeled points of all rows with a weight and of the sample for the reach."""
        problem = self.problem
        if self.kept is not None:
            self.directions, self.cloud = self.kept.directions, self.kept.cloud
        else:
            self.directions = self._first_directions()
            if self.directions.matrix is not None:
                self.nearest.squared_distances(problem.sample, self.directions)
                limits = np.minimum(self.nearest.known.squared[problem.sample], self.reach) * self.space.unit
                self.directions = choose_width(self.space, self.directions, problem.sample, limits)
            if compiled.steps is not None:
                self.cloud = PointCloud(compiled.steps, self.space, self.directions, np.flatnonzero(used_rows(problem)))
                self.report_phase(PREPARING, 1.0)
        is_needed = problem.weights > 0.0
        is_needed[problem.sample] = True
        self.nearest.squared_distances(np.flatnonzero(is_needed), self.directions, self.cloud)

    def _first_directions(self) -> Directions:
        """The directions with which the reach is computed."""
        problem, directions = self.problem, Directions.features(self.space)
        n_others = len(problem.candidates) + len_of(problem.references)
        products = problem.pool.shape[1] * np.count_nonzero(problem.weights) * n_others
        if compiled.steps is not None and products > SMALL_PROBLEM:
            directions = fit_directions(self.space)
            if directions.matrix is not None:
                directions = replace(directions, width=min(directions.width, FIRST_WIDTH))
            self.report_phase(PREPARING, 0.5)
        return directions.fitted(self.space)

    @cached_property
    def reach(self) -> float:
        """R². The distances of the sample must be known."""
        problem = self.problem
        if problem.radius is not None:
            return problem.radius * problem.radius
        if len_of(problem.references) == 0:
            return cold_squared_reach(problem)
        return warm_squared_reach(self.nearest.known.squared[problem.sample], problem.factor)

    def gains(self, budget: int) -> Gains:
        """The gains of the candidates, from which picks are made."""
        if compiled.steps is None or self.cloud is None:
            return PlainGains(self.space, self.cover, self.limits, self.reach, self.report_phase, budget)
        n_limits = int(np.count_nonzero(self.limits > 0.0))
        search = PairSearch(compiled.steps, self.space, self.directions, self.cloud)
        all_pairs = n_limits * len(self.problem.candidates) + CHUNK * len(self.cloud.rows)
        capacity = min(self.n_pairs, all_pairs)
        rows, weights = self.cloud.rows, self.problem.weights
        covered = np.column_stack([self.cover[rows], weights[rows]])
        arguments = self.limits[rows], covered, self.reach, capacity, self.report_phase
        if not may_keep(self.problem):
            return CompiledGains(search, *arguments, budget)

        def find_kept_pairs() -> Pairs:
            kept = KeptRound(self.space, self.directions, search.cloud) if self.kept is None else self.kept
            all_pairs, to_keep = find_pairs(kept.pairs, search, *arguments)
            self.kept = replace(kept, space=self.space, pairs=to_keep)
            return all_pairs

        return CompiledGains(search, *arguments, budget, find_kept_pairs)

    def keep(self) -> None:
        """Keep points and pairs for the next round."""
        if self.kept is not None and self.problem.known is not None:
            self.problem.known.kept = self.kept.without_problem()


def _by_weight(problem: CoverageProblem) -> Solution:
    """The picks if the reach is 0: a candidate covers only itself, so its gain is its weight."""
    weights = problem.weights[problem.candidates]
    picks = np.argsort(-problem.priorities(slice(None), weights), kind="stable")
    if problem.quotas is not None:
        picks = picks[problem.quotas.allowed(problem.candidates[picks], problem.quotas.limits)]
    picks = picks[: problem.budget]
    return Solution((finished(problem, 0.0, 0.0, picks, weights[picks]),))
