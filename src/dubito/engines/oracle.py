"""The reference as an engine: slow, and right by inspection."""

from dataclasses import dataclass

from dubito import reference
from dubito.problem import Problem, Solution


@dataclass(frozen=True, slots=True)
class ReferenceEngine:
    """`dubito.reference` behind the engine's protocol. Holds the pool in float64."""

    name: str = "reference"

    def refusals(self, problem: Problem) -> list[str]:
        """None: it takes every problem, in its own time."""
        return []

    def solve(self, problem: Problem) -> Solution:
        """Every pick costs a pass over the pool; an interruption keeps nothing."""
        return Solution(reference.solve(problem))
