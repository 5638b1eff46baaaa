"""The engine `cpu`, and what a `Pool` asks of it between runs."""

from dataclasses import dataclass

import numpy as np

from dubito.engines.cpu.kernels import CpuKernels
from dubito.engines.cpu.references import Kept
from dubito.engines.lazy import algorithm
from dubito.matrix import IntArray
from dubito.problem import Known, Problem, Solution


@dataclass(frozen=True, slots=True)
class CpuEngine:
    """Exact, lazy, on every core that BLAS uses."""

    name: str = "cpu"

    def refusals(self, problem: Problem) -> list[str]:
        """None: it takes every problem."""
        return []

    def solve(self, problem: Problem) -> Solution:
        """See `dubito.engines.lazy.algorithm`."""
        kernels = CpuKernels(problem)
        solution = algorithm.solve(problem, kernels)
        kernels.keep(kernels.ahead())
        return solution


def likely_next(known: Known) -> IntArray:
    """Rows of the pool that the last run would have looked at next."""
    return known.kept.ahead if isinstance(known.kept, Kept) else np.empty(0, dtype=np.int64)


def catch_up(problem: Problem) -> None:
    """Bring what ``problem.known`` has of the candidates up to date with the references."""
    known, rows = problem.known, problem.candidates
    if known is not None and len(rows):
        kernels = CpuKernels(problem)
        kernels.first_bounds()
        kernels.refresh(np.arange(len(rows)), known.squared[rows], known.seen[rows], 0.0)
        kernels.keep(likely_next(known))
