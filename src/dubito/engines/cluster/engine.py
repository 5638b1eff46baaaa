"""The engine `cluster`: core-sets over shards that the processes of a Ray cluster hold."""

import importlib.util
from dataclasses import dataclass
from typing import ClassVar

from dubito.engines.base import Estimate
from dubito.engines.cpu.cost import cost_of
from dubito.engines.lazy.rounding import WIDEST_ROW
from dubito.matrix import len_of
from dubito.problem import Problem, Solution


@dataclass(frozen=True, slots=True)
class ClusterEngine:
    """Exact, lazy, on every processor of a Ray cluster; on this machine's where none is connected."""

    name: ClassVar[str] = "cluster"
    solves: ClassVar[tuple[type, ...]] = (Problem,)

    def refusals(self, problem: Problem) -> list[str]:
        """Without Ray, and rows wider than the bounds hold for."""
        d = problem.pool.shape[1]
        missing = [] if importlib.util.find_spec("ray") else ["Ray is not installed: pip install 'dubito[ray]'"]
        return missing + ([f"{d} features are more than the {WIDEST_ROW} it has bounds for"] if d > WIDEST_ROW else [])

    def pays(self, problem: Problem) -> bool:
        """Never by itself: whoever has a cluster says so."""
        return False

    def estimate(self, problem: Problem) -> Estimate:
        """As one machine, with the pool's copy in Ray's store beside it."""
        cost = cost_of(problem, self.name)
        n_bytes = len_of(problem.pool) * problem.pool.shape[1] * problem.pool.dtype.itemsize
        return Estimate(cost.bytes + n_bytes, cost.seconds, self.name)

    def catch_up(self, problem: Problem) -> None:
        """Nothing: shards start afresh every time."""

    def solve(self, problem: Problem) -> Solution:
        """See `dubito.engines.cluster`, which is loaded when it is wanted."""
        from dubito.engines.cluster.arrays import cut, even_edges
        from dubito.engines.cluster.rays import RayWorkers, connect, n_processors
        from dubito.engines.cluster.solving import open_all, solve

        ray = connect()
        n_shards = min(n_processors(ray), len_of(problem.pool))
        workers = RayWorkers(cut(problem, even_edges(problem, n_shards)), ray)
        try:
            return solve(problem, workers, open_all(workers))[0]
        finally:
            workers.close()
