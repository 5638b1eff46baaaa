"""The engine `cluster`: core-sets and coverage over shards that the processes of a Ray cluster hold.

It is used only if it is named. The solvers are imported when a problem is solved.
"""

import importlib.util
from typing import ClassVar

from dubito.core.coverage_reference import CoverageProblem
from dubito.core.problem import Problem, Solution
from dubito.engines.base import Engine, Estimate
from dubito.engines.cpu.cost import cost_of
from dubito.engines.cpu.coverage.engine import cost_of as cover_cost_of
from dubito.engines.lazy.bounds import WIDEST_ROW
from dubito.matrix import Matrix, len_of


class ClusterEngine(Engine[Problem]):
    """Core-sets on all processors of a Ray cluster, or of this machine if none is connected."""

    name: ClassVar[str] = "cluster"
    solves: ClassVar[tuple[type, ...]] = (Problem,)
    keeps_quotas: ClassVar[bool] = True

    def refusals(self, problem: Problem) -> list[str]:
        return refusals(problem.pool)

    def estimate(self, problem: Problem) -> Estimate:
        return with_copy(cost_of(problem, self.name), problem.pool)

    def solve(self, problem: Problem) -> Solution:
        from dubito.engines.cluster.solving import solve_in_memory

        return solve_in_memory(problem)


class ClusterCoverage(Engine[CoverageProblem]):
    """Coverage on all processors of a Ray cluster, or of this machine if none is connected."""

    name: ClassVar[str] = "cluster"
    solves: ClassVar[tuple[type, ...]] = (CoverageProblem,)

    def refusals(self, problem: CoverageProblem) -> list[str]:
        return refusals(problem.pool)

    def estimate(self, problem: CoverageProblem) -> Estimate:
        return with_copy(cover_cost_of(problem, self.name), problem.pool)

    def solve(self, problem: CoverageProblem) -> Solution:
        from dubito.engines.cluster.solving import solve_in_memory

        return solve_in_memory(problem)


def refusals(pool: Matrix) -> list[str]:
    d = pool.shape[1]
    missing = [] if importlib.util.find_spec("ray") else ["Ray is not installed: pip install 'dubito[ray]'"]
    return missing + ([f"{d} features are more than the {WIDEST_ROW} it has bounds for"] if d > WIDEST_ROW else [])


def with_copy(cost: Estimate, pool: Matrix) -> Estimate:
    """The cost on one machine, plus the copy of the pool in Ray's store."""
    n_bytes = len_of(pool) * pool.shape[1] * pool.dtype.itemsize
    return Estimate(cost.bytes + n_bytes, cost.seconds, cost.engine)
