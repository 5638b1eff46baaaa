"""The engine `cuda` for coverage: what it refuses, and when ``"auto"`` should take it.

Nothing of torch is imported until a problem is solved there, or asked about whose features are on a GPU already.
"""

from dataclasses import dataclass
from importlib import import_module
from typing import ClassVar

from dubito.core.coverage_reference import CoverageProblem
from dubito.core.problem import Solution
from dubito.engines.base import Estimate
from dubito.engines.cuda.engine import WORTHWHILE, is_on_device, missing
from dubito.errors import MemoryLimit
from dubito.matrix import len_of


@dataclass(frozen=True, slots=True)
class CudaCoverage:
    """Exact picks on a GPU; see `dubito.engines.cuda.coverage`."""

    name: ClassVar[str] = "cuda"
    solves: ClassVar[tuple[type, ...]] = (CoverageProblem,)
    device: str = "cuda"

    def refusals(self, problem: CoverageProblem) -> list[str]:
        """What is missing on this machine, or does not fit on its GPU."""
        if problem.costs is not None:
            return ["it takes no costs, as the engine 'cpu' does"]
        reasons = missing(self.device, problem.pool.shape[1])
        if not reasons:
            try:
                import_module("dubito.engines.cuda.coverage.memory").plan_for(problem, self.device)
            except MemoryLimit as error:
                return [error.problem]
        return reasons

    def pays(self, problem: CoverageProblem) -> bool:
        """For features on the GPU, or enough pairs to bring them there."""
        n_products = len(problem.candidates) * len_of(problem.pool) * problem.pool.shape[1]
        return is_on_device(problem.pool) or n_products >= WORTHWHILE

    def estimate(self, problem: CoverageProblem) -> Estimate:
        """See `dubito.engines.cuda.coverage.cost`."""
        found: Estimate = import_module("dubito.engines.cuda.coverage.cost").cost_of(problem, self.device, self.name)
        return found

    def catch_up(self, problem: CoverageProblem) -> None:
        """Nothing: the distances it finds are not kept, since it finds them again sooner than they could be sent."""

    def solve(self, problem: CoverageProblem) -> Solution:
        """All on the device."""
        solution: Solution = import_module("dubito.engines.cuda.coverage.solver").solve(problem, self.device)
        return solution
