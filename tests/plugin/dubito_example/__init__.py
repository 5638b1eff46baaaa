"""A strategy, an engine and commands from outside dubito, found by their entry points."""

from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from dubito.core import reference
from dubito.core.problem import Problem, Request, Solution
from dubito.engines.base import Engine, Estimate
from dubito.matrix import len_of
from dubito.registry import Command
from dubito.strategies import Choice
from dubito.strategies.base import rank_by

GREET = Command("dubito_example.greeting:greet", "Greet somebody.")
BROKEN = Command("dubito_example.greeting:nobody", "Greet nobody.")


@dataclass(frozen=True, slots=True)
class Newest:
    """The last rows of the pool first, ``skip`` of them left out. Its priorities are row numbers."""

    skip: int = 0
    name: str = "newest"
    uses_engine: bool = False

    def choose(self, request: Request) -> Choice:
        """O(n log n) time."""
        n_pool = len_of(request.pool)
        age = np.arange(n_pool, dtype=np.float64)
        return rank_by(request, np.where(age < n_pool - self.skip, age, -1.0))


class PatientEngine(Engine[Problem]):
    """The reference, for pools of fewer than a thousand candidates, with only what an engine must define."""

    name: ClassVar[str] = "patient"

    def refusals(self, problem: Problem) -> list[str]:
        """Large pools try its patience."""
        n_candidates = len(problem.candidates)
        return [f"{n_candidates} candidates are too many for it"] if n_candidates >= 1000 else []

    def solve(self, problem: Problem) -> Solution:
        """A pass over the pool for every pick."""
        return Solution(reference.solve(problem))


class TinyEngine(Engine[Problem]):
    """The reference, for pools of fewer than ten candidates, where it says that it pays."""

    name: ClassVar[str] = "tiny"

    def refusals(self, problem: Problem) -> list[str]:
        """All others."""
        return [] if self.pays(problem) else ["it takes fewer than ten candidates"]

    def pays(self, problem: Problem) -> bool:
        """For those it takes."""
        return len(problem.candidates) < 10

    def estimate(self, problem: Problem) -> Estimate:
        """Hardly anything."""
        return Estimate(bytes=1000, seconds=1e-3, engine=self.name)

    def solve(self, problem: Problem) -> Solution:
        """A pass over the pool for every pick."""
        return Solution(reference.solve(problem))


class Nothing:
    """No engine at all."""
