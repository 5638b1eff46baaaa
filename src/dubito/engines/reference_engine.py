"""The reference algorithms as an engine."""

import time
from typing import ClassVar

import numpy as np

from dubito.core import coverage_reference as coverage
from dubito.core import groups, reference
from dubito.core.coverage_reference import CoverageProblem
from dubito.core.distances import exact_sq_distances
from dubito.core.problem import Problem, Solution
from dubito.engines.base import Engine, Estimate
from dubito.matrix import len_of

TRIAL_ROWS = 1024
"""Number of rows in the measurement."""


class ReferenceEngine(Engine[Problem]):
    """`dubito.core.reference` as an engine. Copies the pool to float64."""

    name: ClassVar[str] = "reference"
    solves: ClassVar[tuple[type, ...]] = (Problem,)
    keeps_quotas: ClassVar[bool] = True
    picks_groups: ClassVar[bool] = True

    def refusals(self, problem: Problem) -> list[str]:
        return []

    def pays(self, problem: Problem) -> bool:
        """Always: it is the last engine in order of preference."""
        return True

    def estimate(self, problem: Problem) -> Estimate:
        """One pass over the candidates per reference, and per pick and configuration."""
        n, d = len(problem.candidates), problem.pool.shape[1]
        n_passes = len_of(problem.references) + problem.budget * problem.beam_width
        # The candidates and the differences of a pass; the priorities of each configuration and of its child.
        n_bytes = 8 * n * (2 * d + 2 * problem.beam_width + 4)
        return Estimate(n_bytes, n_passes * n * d * seconds_per_number(d), self.name)

    def solve(self, problem: Problem) -> Solution:
        """Every pick takes a pass over the pool. An interruption loses all picks."""
        return Solution((groups.greedy_core_set(problem),) if problem.groups is not None else reference.solve(problem))


class CoverageReference(Engine[CoverageProblem]):
    """`dubito.core.coverage_reference` as an engine. Copies the pool to float64."""

    name: ClassVar[str] = "reference"
    solves: ClassVar[tuple[type, ...]] = (CoverageProblem,)
    keeps_quotas: ClassVar[bool] = True
    picks_groups: ClassVar[bool] = True

    def refusals(self, problem: CoverageProblem) -> list[str]:
        return []

    def pays(self, problem: CoverageProblem) -> bool:
        """Always: it is the last engine in order of preference."""
        return True

    def estimate(self, problem: CoverageProblem) -> Estimate:
        """One pass over the pool per reference and candidate, and per pick if the kernels do not fit in memory."""
        (n, d), n_candidates = problem.pool.shape, len(problem.candidates)
        kernels = 8 * n * n_candidates
        n_passes = n_candidates * (1 if kernels <= coverage.KEPT_BYTES else problem.budget)
        n_bytes = 8 * n * (2 * d + 4) + 2 * min(kernels, coverage.KEPT_BYTES)
        return Estimate(n_bytes, (len_of(problem.references) + n_passes) * n * d * seconds_per_number(d), self.name)

    def solve(self, problem: CoverageProblem) -> Solution:
        """Every pick considers every pair. An interruption loses all picks."""
        greedy = coverage.greedy if problem.groups is None else groups.greedy_coverage
        return Solution((greedy(problem),))


def seconds_per_number(d: int) -> float:
    """Seconds per feature of a pass, measured on a small one."""
    points, best = np.ones((TRIAL_ROWS, d)), np.inf
    for _ in range(3):
        started = time.perf_counter()
        exact_sq_distances(points, points[0])
        best = min(best, time.perf_counter() - started)
    return float(best / points.size)
