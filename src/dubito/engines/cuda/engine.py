"""The GPU engine: exact core-sets and coverage on one NVIDIA GPU, with PyTorch and Triton.

Torch is imported only when a problem is solved, or if its features are on a GPU.
"""

import os
import shutil
import sys
from dataclasses import dataclass
from importlib import import_module
from importlib.util import find_spec
from typing import ClassVar

from dubito.core.coverage_reference import CoverageProblem
from dubito.core.groups import by_rows
from dubito.core.problem import Problem, Solution
from dubito.engines.base import Estimate
from dubito.engines.lazy.bounds import WIDEST_ROW
from dubito.errors import MemoryLimit
from dubito.matrix import Matrix, OnDevice, Rows, len_of

WORTHWHILE = 3e11
"""From this number of products on, the GPU saves more time than it takes to copy the features and to start torch."""


@dataclass(frozen=True, slots=True)
class CudaEngine:
    """Core-sets on a GPU; see `dubito.engines.cuda.greedy`."""

    name: ClassVar[str] = "cuda"
    solves: ClassVar[tuple[type, ...]] = (Problem,)
    picks_groups: ClassVar[bool] = True
    device: str = "cuda"

    def refusals(self, problem: Problem) -> list[str]:
        """What is missing on this machine, or does not fit into the GPU's memory."""
        return refusals_of(problem, self.device, "dubito.engines.cuda.solver")

    def pays(self, problem: Problem) -> bool:
        """Whether the features are on a GPU, or the problem is large enough to copy them there."""
        n_products = len(problem.candidates) * (len_of(problem.references) + problem.budget) * problem.pool.shape[1]
        return is_on_device(problem.pool) or n_products >= WORTHWHILE

    def estimate(self, problem: Problem) -> Estimate:
        solver = import_module("dubito.engines.cuda.solver")
        estimate: Estimate = solver.cost_of(by_rows(problem), self.device, self.name)
        return estimate

    def catch_up(self, problem: Problem) -> None:
        """Known distances are not used: computing them again is faster than copying them."""

    def solve(self, problem: Problem) -> Solution:
        solution: Solution = import_module("dubito.engines.cuda.solver").solve(problem, self.device)
        return solution


@dataclass(frozen=True, slots=True)
class CudaCoverage:
    """Coverage on a GPU; see `dubito.engines.cuda.coverage`."""

    name: ClassVar[str] = "cuda"
    solves: ClassVar[tuple[type, ...]] = (CoverageProblem,)
    picks_groups: ClassVar[bool] = True
    device: str = "cuda"

    def refusals(self, problem: CoverageProblem) -> list[str]:
        return refusals_of(problem, self.device, "dubito.engines.cuda.coverage.planning")

    def pays(self, problem: CoverageProblem) -> bool:
        n_products = len(problem.candidates) * len_of(problem.pool) * problem.pool.shape[1]
        return is_on_device(problem.pool) or n_products >= WORTHWHILE

    def estimate(self, problem: CoverageProblem) -> Estimate:
        planning = import_module("dubito.engines.cuda.coverage.planning")
        estimate: Estimate = planning.cost_of(problem, self.device, self.name)
        return estimate

    def catch_up(self, problem: CoverageProblem) -> None:
        """Known distances are not used: computing them again is faster than copying them."""

    def solve(self, problem: CoverageProblem) -> Solution:
        solution: Solution = import_module("dubito.engines.cuda.coverage.solver").solve(problem, self.device)
        return solution


def refusals_of(problem: Problem | CoverageProblem, device: str, planner: str) -> list[str]:
    """Why the engine cannot solve a problem: it is not supported, software is missing, or memory is too small."""
    if problem.costs is not None:
        return ["it does not support costs; the engine 'cpu' does"]
    if problem.groups is not None and problem.quotas is not None:  # The caller enforces quotas of rows.
        return ["it does not support quotas of groups; the engine 'cpu' does"]
    reasons = missing(device, problem.pool.shape[1])
    if not reasons:
        try:
            import_module(planner).plan_for(by_rows(problem) if isinstance(problem, Problem) else problem, device)
        except MemoryLimit as error:
            return [error.problem]
    return reasons


def missing(device: str, d: int) -> list[str]:
    """What this machine lacks for a problem with ``d`` features."""
    if d > WIDEST_ROW:
        return [f"{d} features are more than the {WIDEST_ROW} it has bounds for"]
    if not is_installed("torch"):
        return ["torch is not installed (pip install 'dubito[torch]')"]
    if device == "cuda" and not (has_driver() and import_module("torch").cuda.is_available()):
        return ["torch sees no NVIDIA GPU"]
    if not is_installed("triton"):
        return ["triton is not installed (CUDA builds of torch for Linux include it)"]
    if device == "cuda" and not any(map(shutil.which, (os.environ.get("CC", "gcc"), "gcc", "clang"))):
        return ["Triton finds no C compiler to start its kernels with (install gcc or clang, or set CC)"]
    return []


def is_installed(package: str) -> bool:
    return package in sys.modules or find_spec(package) is not None


def has_driver() -> bool:
    """Whether there is an NVIDIA driver. Without one, torch need not be imported, which takes a second or two."""
    return any(map(os.path.exists, ("/dev/nvidiactl", "/dev/dxg"))) or shutil.which("nvidia-smi") is not None


def is_on_device(matrix: Matrix) -> bool:
    """Whether a matrix, or the matrix whose rows it selects, is on a GPU."""
    return isinstance(matrix.matrix if isinstance(matrix, Rows) else matrix, OnDevice)
