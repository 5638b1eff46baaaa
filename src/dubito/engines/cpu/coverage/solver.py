"""Solving a problem of coverage: the reach, the cover there is, the pairs, the picks."""

import numpy as np

from dubito.coverage import CoverageProblem, add_rows, cold_reach, finished, kernel, warm_reach
from dubito.engines.cpu.coverage.greedy import CoverGreedy
from dubito.engines.cpu.coverage.lists import Lists
from dubito.engines.cpu.coverage.memory import plan_cover
from dubito.engines.cpu.coverage.nearest import Nearest
from dubito.engines.cpu.coverage.opening import Opening
from dubito.engines.cpu.coverage.probes import Probed, Probes, fit_probes
from dubito.engines.cpu.coverage.space import Space
from dubito.engines.cpu.coverage.trial import choose_probes
from dubito.engines.lazy.progress import Reporter
from dubito.matrix import FloatArray, len_of
from dubito.problem import Solution

SMALL_PROBLEM = 2e10
"""Products of features below which fitting probes costs more than it saves."""
FIRST_WIDTH = 128
"""Of the probes that find the reach: then it is known what width is best."""


def solve(problem: CoverageProblem) -> Solution:
    """The reference's picks; after Ctrl-C a prefix of them."""
    reporter = Reporter(problem)
    cover = FirstCover(problem)
    if cover.reach == 0.0:
        return _by_weight(problem)
    lists = Lists(cover.probed, cover.cover, cover.reach)
    before = float(add_rows(problem.weights * cover.cover))
    greedy, complete = CoverGreedy(lists, Opening(lists, cover.limits, cover.plan, cover.pairs_each)), True
    try:
        while len(greedy.picks) < problem.budget:
            greedy.step(problem.budget)
            reporter.report(len(greedy.picks), None)
    except KeyboardInterrupt:
        complete = False
    return Solution((finished(problem, cover.reach, before, greedy.picks, greedy.gained),), complete)


class FirstCover:
    """What is covered before any pick, and how near a pick must come to add something."""

    def __init__(self, problem: CoverageProblem) -> None:
        self.problem = problem
        n_pool, d = problem.pool.shape
        self.plan = plan_cover(n_pool, d, problem.memory_limit)
        space = Space(problem)
        self.nearest, widest = Nearest(space, problem.known), _widest(space)
        self.reach = self._reach(widest.narrow(min(FIRST_WIDTH, widest.width)))
        if self.reach == 0.0:
            return
        sample, unit = problem.sample, space.unit
        probes, share = choose_probes(space, widest, sample, self._squared_limits(self.nearest.squared[sample]) * unit)
        wanted = np.flatnonzero(problem.weights > 0.0)
        nearest = self.nearest.of(wanted, probes)
        self.pairs_each = share * len(wanted)
        """About how many pairs a candidate has."""
        self.cover, self.limits = np.zeros(len_of(problem.pool)), np.full(len_of(problem.pool), -1.0)
        self.cover[wanted] = kernel(nearest, self.reach)
        self.limits[wanted] = self._squared_limits(nearest) * unit
        self.probed = Probed(space, probes, 4 * len(self.cover) * (probes.width + 3) <= self.plan.probe_bytes)

    def _squared_limits(self, nearest: FloatArray) -> FloatArray:
        return np.minimum(nearest, self.reach)

    def _reach(self, probes: Probes) -> float:
        problem = self.problem
        if problem.radius is not None:
            return problem.radius * problem.radius
        if len_of(problem.references) == 0:
            return cold_reach(problem)
        return warm_reach(self.nearest.of(problem.sample, probes), problem.factor)


def _widest(space: Space) -> Probes:
    """Probes as wide as may pay; points themselves where there is less to multiply than to fit."""
    (n_pool, d), n_candidates = space.problem.pool.shape, len(space.problem.candidates)
    return fit_probes(space.sample()) if n_pool * n_candidates * d > SMALL_PROBLEM else Probes(None, d)


def _by_weight(problem: CoverageProblem) -> Solution:
    """Without reach a candidate covers itself alone."""
    weights = problem.weights[problem.candidates]
    picks = np.argsort(-problem.priorities(slice(None), weights), kind="stable")
    if problem.quotas is not None:
        picks = picks[problem.quotas.within(problem.candidates[picks], problem.quotas.limits)]
    picks = picks[: problem.budget]
    return Solution((finished(problem, 0.0, 0.0, picks, weights[picks]),))
