"""The engine `cuda` for coverage.

Torch is imported only when a problem is solved, or if its features are on a GPU.
"""

from dataclasses import dataclass
from importlib import import_module
from typing import ClassVar

from dubito.core.coverage_reference import CoverageProblem
from dubito.core.problem import Solution
from dubito.engines.base import Estimate
from dubito.engines.cuda.engine import WORTHWHILE, is_on_device, limits_of, missing
from dubito.errors import MemoryLimit
from dubito.matrix import len_of


@dataclass(frozen=True, slots=True)
class CudaCoverage:
    """Coverage on a GPU; see `dubito.engines.cuda.coverage`."""

    name: ClassVar[str] = "cuda"
    solves: ClassVar[tuple[type, ...]] = (CoverageProblem,)
    picks_groups: ClassVar[bool] = True
    device: str = "cuda"

    def refusals(self, problem: CoverageProblem) -> list[str]:
        """What is missing on this machine, or does not fit into the GPU's memory."""
        if unsupported := limits_of(problem):
            return unsupported
        reasons = missing(self.device, problem.pool.shape[1])
        if not reasons:
            try:
                import_module("dubito.engines.cuda.coverage.planning").plan_for(problem, self.device)
            except MemoryLimit as error:
                return [error.problem]
        return reasons

    def pays(self, problem: CoverageProblem) -> bool:
        """If the features are on a GPU, or if there is enough work to copy them there."""
        n_products = len(problem.candidates) * len_of(problem.pool) * problem.pool.shape[1]
        return is_on_device(problem.pool) or n_products >= WORTHWHILE

    def estimate(self, problem: CoverageProblem) -> Estimate:
        found: Estimate = import_module("dubito.engines.cuda.coverage.planning").cost_of(
            problem, self.device, self.name
        )
        return found

    def catch_up(self, problem: CoverageProblem) -> None:
        """Known distances are not used: computing them again is faster than copying them."""

    def solve(self, problem: CoverageProblem) -> Solution:
        solution: Solution = import_module("dubito.engines.cuda.coverage.solver").solve(problem, self.device)
        return solution
