"""The GPU engine: exact core-sets on one NVIDIA GPU, through PyTorch and Triton.

Nothing of torch is imported until a problem is solved there, or asked about whose features are on a GPU already.
"""

import os
import shutil
import sys
from dataclasses import dataclass
from importlib import import_module
from importlib.util import find_spec
from typing import ClassVar

from dubito.core.problem import Problem, Solution
from dubito.engines.base import Estimate
from dubito.engines.lazy.bounds import WIDEST_ROW
from dubito.errors import MemoryLimit
from dubito.matrix import Matrix, OnDevice, Rows, len_of

WORTHWHILE = 3e11
"""Products of features from which a GPU repays the transfer of host features, and the start of torch."""


@dataclass(frozen=True, slots=True)
class CudaEngine:
    """Exact picks on a GPU, whole fronts at once; see `dubito.engines.cuda.greedy`."""

    name: ClassVar[str] = "cuda"
    solves: ClassVar[tuple[type, ...]] = (Problem,)
    device: str = "cuda"

    def refusals(self, problem: Problem) -> list[str]:
        """What is missing on this machine, or does not fit on its GPU."""
        if problem.costs is not None:
            return ["it takes no costs, as the engine 'cpu' does"]
        reasons = missing(self.device, problem.pool.shape[1])
        if not reasons:
            try:
                import_module("dubito.engines.cuda.solver").plan_for(problem, self.device)
            except MemoryLimit as error:
                return [error.problem]
        return reasons

    def pays(self, problem: Problem) -> bool:
        """For features on the GPU, or enough work to bring them there."""
        n_products = len(problem.candidates) * (len_of(problem.references) + problem.budget) * problem.pool.shape[1]
        return is_on_device(problem.pool) or n_products >= WORTHWHILE

    def estimate(self, problem: Problem) -> Estimate:
        """See `dubito.engines.cuda.cost`."""
        found: Estimate = import_module("dubito.engines.cuda.cost").cost_of(problem, self.device, self.name)
        return found

    def catch_up(self, problem: Problem) -> None:
        """Nothing: the distances it finds are not kept, since it finds them again sooner than they could be sent."""

    def solve(self, problem: Problem) -> Solution:
        """All on the device, but for beams too wide for it: these step on the host, over distances from the device."""
        solution: Solution = import_module("dubito.engines.cuda.solver").solve(problem, self.device)
        return solution


def missing(device: str, d: int) -> list[str]:
    """What a problem of so many features would need of this machine, and it has not."""
    if d > WIDEST_ROW:
        return [f"{d} features are more than the {WIDEST_ROW} it has bounds for"]
    if not is_installed("torch"):
        return ["torch is not installed (pip install 'dubito[torch]')"]
    if device == "cuda" and not (has_driver() and import_module("torch").cuda.is_available()):
        return ["torch sees no NVIDIA GPU"]
    if not is_installed("triton"):
        return ["triton is not installed (CUDA builds of torch for Linux bring it)"]
    if device == "cuda" and not any(map(shutil.which, (os.environ.get("CC", "gcc"), "gcc", "clang"))):
        return ["Triton finds no C compiler to start its kernels with (install gcc or clang, or set CC)"]
    return []


def is_installed(package: str) -> bool:
    """Whether it could be imported."""
    return package in sys.modules or find_spec(package) is not None


def has_driver() -> bool:
    """Whether an NVIDIA driver shows itself: torch takes a second or two to import, and need not be asked without."""
    return any(map(os.path.exists, ("/dev/nvidiactl", "/dev/dxg"))) or shutil.which("nvidia-smi") is not None


def is_on_device(matrix: Matrix) -> bool:
    """Whether a matrix, or that of which it is some rows, lies on a GPU."""
    return isinstance(matrix.matrix if isinstance(matrix, Rows) else matrix, OnDevice)
