"""The reference as an engine: slow, and right by inspection."""

import time
from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from dubito.core import coverage_reference as coverage
from dubito.core import reference
from dubito.core.coverage_reference import CoverageProblem
from dubito.core.distances import settle
from dubito.core.problem import Problem, Solution
from dubito.engines.base import Estimate
from dubito.matrix import len_of

TRIAL_ROWS = 1024


@dataclass(frozen=True, slots=True)
class ReferenceEngine:
    """`dubito.core.reference` behind the engine's protocol. Holds the pool in float64."""

    name: ClassVar[str] = "reference"
    solves: ClassVar[tuple[type, ...]] = (Problem,)
    keeps_quotas: ClassVar[bool] = True

    def refusals(self, problem: Problem) -> list[str]:
        """None: it takes every problem, in its own time."""
        return []

    def pays(self, problem: Problem) -> bool:
        """Always, where nothing better does: it stands last."""
        return True

    def estimate(self, problem: Problem) -> Estimate:
        """A pass over the candidates for every reference, and for every pick of every configuration."""
        n, d = len(problem.candidates), problem.pool.shape[1]
        n_passes = len_of(problem.references) + problem.budget * problem.beam_width
        # The candidates, and the differences of a pass; priorities of each configuration, and of its child.
        n_bytes = 8 * n * (2 * d + 2 * problem.beam_width + 4)
        return Estimate(n_bytes, n_passes * n * d * settle_seconds(d), self.name)

    def catch_up(self, problem: Problem) -> None:
        """Nothing: it starts afresh every time."""

    def solve(self, problem: Problem) -> Solution:
        """Every pick costs a pass over the pool; an interruption keeps nothing."""
        return Solution(reference.solve(problem))


@dataclass(frozen=True, slots=True)
class CoverageReference:
    """`dubito.core.coverage_reference` behind the engine's protocol. Holds the pool in float64."""

    name: ClassVar[str] = "reference"
    solves: ClassVar[tuple[type, ...]] = (CoverageProblem,)
    keeps_quotas: ClassVar[bool] = True

    def refusals(self, problem: CoverageProblem) -> list[str]:
        """None: it takes every problem, in its own time."""
        return []

    def pays(self, problem: CoverageProblem) -> bool:
        """Always, where nothing better does: it stands last."""
        return True

    def estimate(self, problem: CoverageProblem) -> Estimate:
        """A pass over the pool for every reference and candidate; for every pick again, where too many to keep."""
        (n, d), n_candidates = problem.pool.shape, len(problem.candidates)
        kernels = 8 * n * n_candidates
        n_passes = n_candidates * (1 if kernels <= coverage.KEPT_BYTES else problem.budget)
        n_bytes = 8 * n * (2 * d + 4) + 2 * min(kernels, coverage.KEPT_BYTES)
        return Estimate(n_bytes, (len_of(problem.references) + n_passes) * n * d * settle_seconds(d), self.name)

    def catch_up(self, problem: CoverageProblem) -> None:
        """Nothing: it starts afresh every time."""

    def solve(self, problem: CoverageProblem) -> Solution:
        """Every pick looks at every pair; an interruption keeps nothing."""
        return Solution((coverage.greedy(problem),))


def settle_seconds(d: int) -> float:
    """Seconds for each feature of a pass, from a small one here."""
    points, best = np.ones((TRIAL_ROWS, d)), np.inf
    for _ in range(3):
        started = time.perf_counter()
        settle(points, points[0])
        best = min(best, time.perf_counter() - started)
    return float(best / points.size)
