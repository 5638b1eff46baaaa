"""The engine `cpu`: what it takes, what it costs, and how it solves."""

from dataclasses import dataclass, replace
from typing import ClassVar, Literal

import numpy as np

from dubito import native as compiled
from dubito.core.problem import Problem, Progress, Solution
from dubito.engines.base import Estimate
from dubito.engines.cpu import plain, small
from dubito.engines.cpu.cost import cost_of
from dubito.engines.cpu.kernels import CpuKernels
from dubito.engines.cpu.plain import FRONT, LARGEST_FRONT
from dubito.engines.lazy import algorithm
from dubito.engines.lazy.bounds import WIDEST_ROW
from dubito.engines.lazy.configurations import finished
from dubito.engines.lazy.interrupts import retry_on_interrupt
from dubito.matrix import OnDevice, len_of

# Whether a problem is small: which of the engine's ways is the quickest, by what they were measured to cost.
#
# The seconds were fitted on two cores. With compiled steps, to 804 runs: 500 to 60,000 rows of 8 to 512 features, up to
# 32 MB of them, 10 to 2,000 labeled, 5 to 1,000 picks, structured and not; of 324 others, one in 20 takes more than
# 1.15 times what the quicker way would have, the worst 2.6 times (10 labeled, 300 picks). Without, to 42 sizes from
# 500 x 16 to 15,000 x 512. What counts is where the ways cross, and all are mostly products, so that a faster machine
# moves that little.

Way = Literal["small", "plain", "lazy"]

LARGEST = 32 << 20
"""Bytes of candidates in float32 up to which they may be copied."""
ANCHORS, FEW_ANCHORS = 128, 64
PICKS_OF_A_FRONT = 150


def way_of(problem: Problem) -> Way:
    """The quickest; with compiled steps, small problems are solved in C."""
    if not can(problem) or not pays(problem):
        return "lazy"
    return "plain" if compiled.steps is None else "small"


def can(problem: Problem) -> bool:
    """The ways for small ones solve greedy problems of a single call, within as much memory as they like."""
    is_greedy = problem.beam_width == 1 and problem.scaling == "respective" and problem.quotas is None
    return is_greedy and problem.known is None and problem.memory_limit is None


def pays(problem: Problem) -> bool:
    """Whether the way for small ones is the quicker."""
    n, d = len(problem.candidates), problem.pool.shape[1]
    small, lazy = _seconds_in_c if compiled.steps is not None else _seconds
    m, b = max(1, len_of(problem.references)), problem.budget
    return 4 * n * d <= LARGEST and small(n, d, m, b) < lazy(n, d, m, b)


def _small(n: int, d: int, m: int, b: int) -> float:
    """A call, reading, products with what is labeled, and picks: each brings some candidates up to date."""
    reading = n * (2.4e-8 + 7.3e-10 * d + m * (5e-10 + 9.2e-12 * d))
    return 1.5e-4 + reading + b * (1.3e-6 + 4.2e-10 * n + m * (2.6e-8 + 1.2e-10 * d) + b * (2.3e-8 + 2.7e-10 * d))


def _lazy_in_c(n: int, d: int, m: int, b: int) -> float:
    """A call, products with anchors, picks, and what is labeled."""
    products = n * (1.8e-7 + 3.5e-11 * d * min(m, FEW_ANCHORS))
    return 2.8e-3 + products + b * (7.7e-6 + 4.4e-8 * d) + m * (2.2e-6 + 4e-8 * d)


def _plain(n: int, d: int, m: int, b: int) -> float:
    """A call, reading, products, picks, and the products of fronts."""
    n_front = min(n, LARGEST_FRONT, 2 * b + FRONT)
    pairs = max(1.0, b / PICKS_OF_A_FRONT) * n_front * (m + b + n_front)
    return 1.2e-3 + n * (5.6e-8 + d * (6e-10 + (m + b) * 1.8e-11)) + b * 1.4e-5 + pairs * d * 3.3e-11


def _lazy(n: int, d: int, m: int, b: int) -> float:
    """A call, products with anchors, and picks."""
    return 6e-3 + n * d * min(m, ANCHORS) * 6.8e-11 + b * (2.9e-5 + d * 8.7e-8)


_seconds_in_c, _seconds = (_small, _lazy_in_c), (_plain, _lazy)


@dataclass(frozen=True, slots=True)
class CpuEngine:
    """Exact, lazy, on every core that BLAS uses."""

    way: Way | None = None
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
        way = self.way if self.way is not None and can(problem) else way_of(problem)
        if way == "small" and compiled.steps is not None:
            return small.solve(problem, compiled.steps)
        if way == "plain":
            try:
                return plain.solve(problem)
            except plain.NotPlain as given_up:
                problem = replace(problem, progress=_never_back(problem.progress, given_up.described))
        kernels = CpuKernels(problem)
        solution = algorithm.solve(problem, kernels)
        _, is_quiet = retry_on_interrupt(kernels.keep)
        return replace(solution, complete=solution.complete and is_quiet)


def _never_back(progress: Progress | None, described: int) -> Progress | None:
    """Report no fewer picks than were reported already."""
    if progress is None:
        return None
    return lambda done, total, radius, seconds, /: progress(max(done, described), total, radius, seconds)
