"""Solving a coverage problem: the reach, the cover by what is labeled, the pairs, the picks."""

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
from dubito.engines.cpu.coverage.pairs import CHUNK, Cloud, Look, Nearest, Pairs, PairSearch, choose_width, used_rows
from dubito.engines.cpu.coverage.space import Directions, Space, fit_directions
from dubito.engines.lazy.interfaces import Reporter
from dubito.engines.lazy.interrupts import retry_on_interrupt
from dubito.matrix import len_of

PREPARING = "preparing"
"""Name of the first phase in progress reports."""
SMALL_PROBLEM = 1e11
"""Products of features below which finding directions costs more than it saves."""
FIRST_WIDTH = 64
"""Number of directions for finding the reach. Its value then determines the best number; see `choose_width`."""


def solve(problem: CoverageProblem) -> Solution:
    """The reference's picks; after Ctrl-C those so far."""
    reporter, first, made, complete = Reporter(problem), list[FirstCover](), list[Gains](), True
    try:
        first.append(FirstCover(problem, reporter.report_phase))
        if first[0].reach == 0.0:
            return _by_weight(problem)
        made.append(first[0].gains(problem.budget))
        while made[0].n_picks < problem.budget:
            made[0].pick(problem.budget)
            reporter.report(made[0].n_picks, None)
        first[0].keep()
    except KeyboardInterrupt:
        complete = False

    def finish() -> Solution:
        if not made:
            return Solution((finished(problem, first[0].reach if first else 0.0, 0.0, [], []),), complete)
        n_picks, reach, before = made[0].n_picks, first[0].reach, first[0].before
        return Solution(
            (finished(problem, reach, before, made[0].picks[:n_picks], made[0].gained[:n_picks]),), complete
        )

    solution, is_uninterrupted = retry_on_interrupt(finish)
    return solution if is_uninterrupted else Solution(solution.configurations, complete=False)


class FirstCover:
    """What is covered before any pick, and how near a pick must come to add something."""

    def __init__(self, problem: CoverageProblem, look: Look) -> None:
        self.problem, self.look = problem, look
        n_pool, d = problem.pool.shape
        look(PREPARING, 0.0)
        self.n_pairs = most_pairs(n_pool, d, problem.memory_limit)
        before = None if problem.known is None else problem.known.kept
        self.kept = before if isinstance(before, KeptRound) else None
        space = None if self.kept is None else self.kept.space_of(problem)
        if space is None:
            self.kept, space = None, Space(problem)
        self.space, self.before = space, 0.0
        self.nearest = Nearest(self.space, look)
        self.cloud: Cloud | None = None
        self._find_distances()
        if self.reach == 0.0:
            return
        wanted, unit = np.flatnonzero(problem.weights > 0.0), self.space.unit
        distances = self.nearest.known.squared[wanted]
        self.cover, self.limits = np.zeros(n_pool), np.full(n_pool, -1.0)
        self.cover[wanted] = kernel(distances, self.reach)
        self.limits[wanted] = np.where(self.cover[wanted] < 1.0, np.minimum(distances, self.reach) * unit, -1.0)
        self.before = float(sums_in_order(problem.weights * self.cover))

    def _find_distances(self) -> None:
        """Compute the distances to the labeled points of all rows that matter, by cells of points."""
        problem = self.problem
        if self.kept is not None:
            self.directions, self.cloud = self.kept.directions, self.kept.cloud
        else:
            self.directions = self._first_directions()
            if self.directions.matrix is not None:
                self.nearest.of(problem.sample, self.directions)
                limits = np.minimum(self.nearest.known.squared[problem.sample], self.reach) * self.space.unit
                self.directions = choose_width(self.space, self.directions, problem.sample, limits)
            if compiled.steps is not None:
                self.cloud = Cloud(compiled.steps, self.space, self.directions, np.flatnonzero(used_rows(problem)))
                self.look(PREPARING, 1.0)
        is_asked = problem.weights > 0.0
        is_asked[problem.sample] = True
        self.nearest.of(np.flatnonzero(is_asked), self.directions, self.cloud)

    def _first_directions(self) -> Directions:
        """The directions for finding the reach, which then determines the best width."""
        problem, directions = self.problem, Directions.features(self.space)
        n_others = len(problem.candidates) + len_of(problem.references)
        products = problem.pool.shape[1] * np.count_nonzero(problem.weights) * n_others
        if compiled.steps is not None and products > SMALL_PROBLEM:
            directions = fit_directions(self.space)
            if directions.matrix is not None:
                directions = replace(directions, width=min(directions.width, FIRST_WIDTH))
            self.look(PREPARING, 0.5)
        return directions.fitted(self.space)

    @cached_property
    def reach(self) -> float:
        """R², once the distances of the sample are known."""
        problem = self.problem
        if problem.radius is not None:
            return problem.radius * problem.radius
        if len_of(problem.references) == 0:
            return cold_squared_reach(problem)
        return warm_squared_reach(self.nearest.known.squared[problem.sample], problem.factor)

    def gains(self, budget: int) -> Gains:
        """What each candidate adds."""
        if compiled.steps is None or self.cloud is None:
            return PlainGains(self.space, self.cover, self.limits, self.reach, self.look, budget)
        n_limits = int(np.count_nonzero(self.limits > 0.0))
        search = PairSearch(compiled.steps, self.space, self.directions, self.cloud)
        all_pairs = n_limits * len(self.problem.candidates) + CHUNK * len(self.cloud.rows)
        capacity = min(self.n_pairs, all_pairs)
        rows, weights = self.cloud.rows, self.problem.weights
        covered = np.column_stack([self.cover[rows], weights[rows]])
        arguments = self.limits[rows], covered, self.reach, capacity, self.look
        if not may_keep(self.problem):
            return CompiledGains(search, *arguments, budget)

        def find() -> Pairs:
            kept = KeptRound(self.space, self.directions, search.cloud) if self.kept is None else self.kept
            found, pairs = find_pairs(kept.pairs, search, *arguments)
            self.kept = replace(kept, space=self.space, pairs=pairs)
            return found

        return CompiledGains(search, *arguments, budget, find)

    def keep(self) -> None:
        """Keep what was found for the next round."""
        if self.kept is not None and self.problem.known is not None:
            self.problem.known.kept = self.kept.without_problem()


def _by_weight(problem: CoverageProblem) -> Solution:
    """If the reach is 0, a candidate covers only itself."""
    weights = problem.weights[problem.candidates]
    picks = np.argsort(-problem.priorities(slice(None), weights), kind="stable")
    if problem.quotas is not None:
        picks = picks[problem.quotas.allowed(problem.candidates[picks], problem.quotas.limits)]
    picks = picks[: problem.budget]
    return Solution((finished(problem, 0.0, 0.0, picks, weights[picks]),))
