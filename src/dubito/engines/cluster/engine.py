"""The engine `cluster`: core-sets and coverage over shards that the processes of a Ray cluster hold."""

import importlib.util
from dataclasses import dataclass
from typing import ClassVar

from dubito.coverage import CoverageProblem
from dubito.engines.base import Estimate
from dubito.engines.cpu.cost import cost_of
from dubito.engines.cpu.coverage.cost import cost_of as cover_cost_of
from dubito.engines.lazy.rounding import WIDEST_ROW
from dubito.matrix import Matrix, len_of
from dubito.problem import Problem, Solution


@dataclass(frozen=True, slots=True)
class ClusterEngine:
    """Exact, lazy, on every processor of a Ray cluster; on this machine's where none is connected."""

    name: ClassVar[str] = "cluster"
    solves: ClassVar[tuple[type, ...]] = (Problem,)
    keeps_quotas: ClassVar[bool] = True

    def refusals(self, problem: Problem) -> list[str]:
        """Without Ray, and rows wider than the bounds hold for."""
        return refusals(problem.pool)

    def pays(self, problem: Problem) -> bool:
        """Never by itself: whoever has a cluster says so."""
        return False

    def estimate(self, problem: Problem) -> Estimate:
        """As one machine, with the pool's copy in Ray's store beside it."""
        return with_copy(cost_of(problem, self.name), problem.pool)

    def catch_up(self, problem: Problem) -> None:
        """Nothing: shards start afresh every time."""

    def solve(self, problem: Problem) -> Solution:
        """See `dubito.engines.cluster`, which is loaded when it is wanted."""
        return solve_here(problem)


@dataclass(frozen=True, slots=True)
class ClusterCoverage:
    """The same for coverage."""

    name: ClassVar[str] = "cluster"
    solves: ClassVar[tuple[type, ...]] = (CoverageProblem,)

    def refusals(self, problem: CoverageProblem) -> list[str]:
        """Without Ray, and rows wider than the bounds hold for."""
        return refusals(problem.pool)

    def pays(self, problem: CoverageProblem) -> bool:
        """Never by itself: whoever has a cluster says so."""
        return False

    def estimate(self, problem: CoverageProblem) -> Estimate:
        """As one machine, with the pool's copy in Ray's store beside it."""
        return with_copy(cover_cost_of(problem, self.name), problem.pool)

    def catch_up(self, problem: CoverageProblem) -> None:
        """Nothing: shards start afresh every time."""

    def solve(self, problem: CoverageProblem) -> Solution:
        """See `dubito.engines.cluster.covering`, which is loaded when it is wanted."""
        return solve_here(problem)


def refusals(pool: Matrix) -> list[str]:
    """Why a pool cannot be taken."""
    d = pool.shape[1]
    missing = [] if importlib.util.find_spec("ray") else ["Ray is not installed: pip install 'dubito[ray]'"]
    return missing + ([f"{d} features are more than the {WIDEST_ROW} it has bounds for"] if d > WIDEST_ROW else [])


def with_copy(cost: Estimate, pool: Matrix) -> Estimate:
    """A cost with a copy of the pool beside it."""
    n_bytes = len_of(pool) * pool.shape[1] * pool.dtype.itemsize
    return Estimate(cost.bytes + n_bytes, cost.seconds, cost.engine)


def solve_here(problem: Problem | CoverageProblem) -> Solution:
    """A pool in memory, cut into as many shards as the cluster has processors."""
    from dubito.engines.cluster.arrays import cut, even_edges
    from dubito.engines.cluster.rays import RayWorkers, connect, crew_of
    from dubito.engines.cluster.solving import open_all, solve

    ray = connect()
    crew = crew_of(ray)
    n_shards = min(crew.size, len_of(problem.pool))
    workers = RayWorkers(cut(problem, even_edges(problem, n_shards)), ray, crew)
    try:
        return solve(problem, workers, open_all(workers))[0]
    finally:
        workers.close()
