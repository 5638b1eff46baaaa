"""The engine `cpu`: what it takes, what it costs, and how it solves."""

from dataclasses import dataclass, replace
from typing import ClassVar

import numpy as np

from dubito import compiled
from dubito.engines.base import Estimate
from dubito.engines.cpu import choosing, plain, small
from dubito.engines.cpu.cost import cost_of
from dubito.engines.cpu.kernels import CpuKernels
from dubito.engines.lazy import algorithm
from dubito.engines.lazy.configurations import finished
from dubito.engines.lazy.rounding import WIDEST_ROW
from dubito.engines.lazy.unbroken import persistently
from dubito.matrix import OnDevice
from dubito.problem import Problem, Progress, Solution


@dataclass(frozen=True, slots=True)
class CpuEngine:
    """Exact, lazy, on every core that BLAS uses."""

    way: choosing.Way | None = None
    """How small problems are solved, where that way can; None for the quickest."""
    name: ClassVar[str] = "cpu"
    solves: ClassVar[tuple[type, ...]] = (Problem,)
    keeps_quotas: ClassVar[bool] = True

    def refusals(self, problem: Problem) -> list[str]:
        """It takes every problem, but for rows wider than its bounds hold for."""
        d = problem.pool.shape[1]
        return [f"{d} features are more than the {WIDEST_ROW} it has bounds for"] if d > WIDEST_ROW else []

    def pays(self, problem: Problem) -> bool:
        """Always: it is what every machine has."""
        return True

    def estimate(self, problem: Problem) -> Estimate:
        """See `dubito.engines.cpu.cost`."""
        return cost_of(problem, self.name)

    def catch_up(self, problem: Problem) -> None:
        """Exact distances of the candidates to every reference, kept in ``problem.known``."""
        known, rows = problem.known, problem.candidates
        # Features on a GPU stay there; its engine is quicker than what is known would be to bring.
        if known is None or len(rows) == 0 or isinstance(problem.pool, OnDevice):
            return
        kernels = CpuKernels(problem)
        kernels.first_bounds()
        kernels.refresh(np.arange(len(rows)), known.squared[rows], known.seen[rows], 0.0)
        kernels.keep()

    def solve(self, problem: Problem) -> Solution:
        """Small problems their own way where that is quicker, else see `dubito.engines.lazy.algorithm`."""
        try:
            return self._solve(problem)
        except KeyboardInterrupt:
            # Before there was any pick.
            none = np.empty(0, dtype=np.int64)
            return Solution((finished(problem, none, np.empty(0), np.inf),), complete=False)

    def _solve(self, problem: Problem) -> Solution:
        way = self.way if self.way is not None and choosing.can(problem) else choosing.way_of(problem)
        if way == "small" and compiled.steps is not None:
            return small.solve(problem, compiled.steps)
        if way == "plain":
            try:
                return plain.solve(problem)
            except plain.NotPlain as given_up:
                problem = replace(problem, progress=_never_back(problem.progress, given_up.told))
        kernels = CpuKernels(problem)
        solution = algorithm.solve(problem, kernels)
        _, is_quiet = persistently(kernels.keep)
        return replace(solution, complete=solution.complete and is_quiet)


def _never_back(progress: Progress | None, told: int) -> Progress | None:
    """Tell of no fewer picks than were told of already."""
    if progress is None:
        return None
    return lambda done, total, radius, seconds, /: progress(max(done, told), total, radius, seconds)
