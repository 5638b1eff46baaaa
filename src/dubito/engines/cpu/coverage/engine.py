"""The engine `cpu` for coverage: what it takes, what it costs, and how it solves."""

from dataclasses import dataclass
from typing import ClassVar

from dubito.coverage import CoverageProblem
from dubito.engines.base import Estimate
from dubito.engines.cpu.coverage.cost import cost_of
from dubito.engines.lazy.rounding import WIDEST_ROW
from dubito.problem import Solution


@dataclass(frozen=True, slots=True)
class CpuCoverage:
    """Exact, lazy, on every core."""

    name: ClassVar[str] = "cpu"
    solves: ClassVar[tuple[type, ...]] = (CoverageProblem,)
    keeps_quotas: ClassVar[bool] = True

    def refusals(self, problem: CoverageProblem) -> list[str]:
        """It takes every problem, but for rows wider than its bounds hold for."""
        d = problem.pool.shape[1]
        return [f"{d} features are more than the {WIDEST_ROW} it has bounds for"] if d > WIDEST_ROW else []

    def pays(self, problem: CoverageProblem) -> bool:
        """Always: it is what every machine has."""
        return True

    def estimate(self, problem: CoverageProblem) -> Estimate:
        """See `dubito.engines.cpu.coverage.cost`."""
        return cost_of(problem, self.name)

    def catch_up(self, problem: CoverageProblem) -> None:
        """Nothing: distances to what is labelled are those of a core-set, which a `Pool` asks for."""

    def solve(self, problem: CoverageProblem) -> Solution:
        """See `dubito.engines.cpu.coverage`, which is loaded when it is wanted."""
        from dubito.engines.cpu.coverage.solver import solve

        return solve(problem)
