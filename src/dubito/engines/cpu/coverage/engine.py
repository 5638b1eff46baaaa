"""The engine `cpu` for coverage: what it takes, what it costs, and how it solves."""

from dataclasses import dataclass
from typing import ClassVar

from dubito.coverage import CoverageProblem
from dubito.engines.base import Estimate
from dubito.engines.cpu.coverage.cost import cost_of
from dubito.engines.cpu.coverage.solver import solve
from dubito.problem import Solution


@dataclass(frozen=True, slots=True)
class CpuCoverage:
    """Exact, lazy, on every core."""

    name: ClassVar[str] = "cpu"
    solves: ClassVar[tuple[type, ...]] = (CoverageProblem,)

    def refusals(self, problem: CoverageProblem) -> list[str]:
        """None: it takes every problem."""
        return []

    def pays(self, problem: CoverageProblem) -> bool:
        """Always: it is what every machine has."""
        return True

    def estimate(self, problem: CoverageProblem) -> Estimate:
        """See `dubito.engines.cpu.coverage.cost`."""
        return cost_of(problem, self.name)

    def catch_up(self, problem: CoverageProblem) -> None:
        """Nothing: distances to what is labelled are those of a core-set, which a `Pool` asks for."""

    def solve(self, problem: CoverageProblem) -> Solution:
        """See `dubito.engines.cpu.coverage`."""
        return solve(problem)
