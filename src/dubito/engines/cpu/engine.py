"""The engine `cpu`: which problems it solves, at what cost, and by which method."""

from dataclasses import dataclass, replace
from typing import ClassVar, Literal

import numpy as np

from dubito import native as compiled
from dubito.core.groups import Members, by_rows
from dubito.core.problem import Problem, Solution
from dubito.engines.base import Estimate
from dubito.engines.cpu import small
from dubito.engines.cpu.cost import cost_of
from dubito.engines.cpu.kernels import CpuKernels
from dubito.engines.lazy import algorithm, groups
from dubito.engines.lazy.bounds import WIDEST_ROW
from dubito.engines.lazy.configurations import make_configuration
from dubito.engines.lazy.interrupts import retry_on_interrupt
from dubito.matrix import OnDevice, len_of

# Small problems are solved in C (`dubito.engines.cpu.small`) when that is faster than the lazy algorithm. The costs in
# seconds were fitted on two cores to 804 runs: 500 to 60,000 rows of 8 to 512 features, up to 32 MB, 10 to 2,000
# labeled, 5 to 1,000 picks. In one in 20 of 324 other runs, the chosen method takes more than 1.15 times as long as
# the faster one, at most 2.6 times (10 labeled, 300 picks). Only the size at which both are equally fast matters; since
# both spend most time on products, it differs little between machines.

Method = Literal["small", "lazy"]

MAX_SMALL_BYTES = 32 << 20
"""Maximum size in bytes of the candidates in float32, since they may be copied."""
FEW_ANCHORS = 64


def choose_method(problem: Problem) -> Method:
    return "small" if small_can_solve(problem) and small_is_faster(problem) else "lazy"


def small_can_solve(problem: Problem) -> bool:
    """Whether `dubito.engines.cpu.small` can solve it: a greedy problem without quotas, groups, known distances or a
    memory limit, if the C extension is available.
    """
    is_greedy = problem.beam_width == 1 and problem.scaling == "respective" and problem.quotas is None
    is_greedy = is_greedy and problem.groups is None
    return compiled.steps is not None and is_greedy and problem.known is None and problem.memory_limit is None


def small_is_faster(problem: Problem) -> bool:
    """Whether `dubito.engines.cpu.small` is faster than the lazy algorithm."""
    n, d = len(problem.candidates), problem.pool.shape[1]
    sizes = n, d, max(1, len_of(problem.references)), problem.budget
    return 4 * n * d <= MAX_SMALL_BYTES and _small_seconds(*sizes) < _lazy_seconds(*sizes)


def _small_seconds(n: int, d: int, m: int, b: int) -> float:
    """Seconds for the call, reading, products with the labeled points, and picks, each of which refreshes some rows."""
    reading = n * (2.4e-8 + 7.3e-10 * d + m * (5e-10 + 9.2e-12 * d))
    return 1.5e-4 + reading + b * (1.3e-6 + 4.2e-10 * n + m * (2.6e-8 + 1.2e-10 * d) + b * (2.3e-8 + 2.7e-10 * d))


def _lazy_seconds(n: int, d: int, m: int, b: int) -> float:
    """Seconds for the call, products with anchors, picks, and the labeled points."""
    products = n * (1.8e-7 + 3.5e-11 * d * min(m, FEW_ANCHORS))
    return 2.8e-3 + products + b * (7.7e-6 + 4.4e-8 * d) + m * (2.2e-6 + 4e-8 * d)


@dataclass(frozen=True, slots=True)
class CpuEngine:
    """The exact lazy algorithm on all cores, and a simpler one for small problems."""

    method: Method | None = None
    """The method for problems that both methods can solve; None for the faster one."""
    name: ClassVar[str] = "cpu"
    solves: ClassVar[tuple[type, ...]] = (Problem,)
    keeps_quotas: ClassVar[bool] = True
    picks_groups: ClassVar[bool] = True

    def refusals(self, problem: Problem) -> list[str]:
        """It solves every problem whose rows are not wider than its error bounds allow."""
        d = problem.pool.shape[1]
        return [f"{d} features are more than the {WIDEST_ROW} it has bounds for"] if d > WIDEST_ROW else []

    def pays(self, problem: Problem) -> bool:
        return True

    def estimate(self, problem: Problem) -> Estimate:
        return cost_of(by_rows(problem), self.name)

    def catch_up(self, problem: Problem) -> None:
        """Store the exact distances of the candidates to the references in ``problem.known``."""
        known, rows = problem.known, problem.candidates
        # Features on a GPU are not copied: the engine of the GPU computes distances faster than they could be copied.
        if known is None or len(rows) == 0 or isinstance(problem.pool, OnDevice):
            return
        kernels = CpuKernels(problem)
        kernels.first_bounds()
        kernels.refresh(np.arange(len(rows)), known.squared[rows], known.seen[rows], 0.0)
        kernels.keep()

    def solve(self, problem: Problem) -> Solution:
        """Solve by the faster method: `dubito.engines.cpu.small` or `dubito.engines.lazy.algorithm`."""
        compiled.warn_if_missing()
        if problem.known is not None:
            problem.known.forget_later(len_of(problem.references))
        try:
            return self._solve(problem)
        except KeyboardInterrupt:
            # Interrupted before the first pick.
            if problem.groups is not None:
                return Solution((Members(problem).configuration([], [], []),), complete=False)
            none = np.empty(0, dtype=np.int64)
            return Solution((make_configuration(problem, none, np.empty(0), np.inf),), complete=False)

    def _solve(self, problem: Problem) -> Solution:
        method = self.method if self.method is not None and small_can_solve(problem) else choose_method(problem)
        if method == "small" and compiled.steps is not None:
            return small.solve(problem, compiled.steps)
        kernels = CpuKernels(by_rows(problem))
        solve = algorithm.solve if problem.groups is None else groups.solve
        solution: Solution = solve(problem, kernels)
        _, is_uninterrupted = retry_on_interrupt(kernels.keep)
        return replace(solution, complete=solution.complete and is_uninterrupted)
