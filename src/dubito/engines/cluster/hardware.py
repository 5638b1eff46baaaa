"""What a worker computes on: the CPU, or a GPU, of whose memory it may have a share."""

from dataclasses import dataclass
from importlib import import_module
from typing import Any, Literal

from dubito.core.coverage_reference import CoverageProblem
from dubito.core.problem import Problem
from dubito.engines.cluster.candidates import Candidates, HostCandidates
from dubito.engines.cluster.messages import Start
from dubito.engines.cuda.engine import missing
from dubito.errors import InvalidArgument, named

Kind = Literal["auto", "cpu", "cuda"]
"""What workers should compute on; by ``"auto"`` a GPU where there is one."""


@dataclass(frozen=True, slots=True)
class Hardware:
    """NumPy and BLAS, or a device of torch's."""

    device: str | None = None
    share: float = 1.0
    """Of the memory of the device: several workers may have one."""
    is_asked: bool = False
    """Whether somebody asked for the device: then it is an error where that cannot be used."""

    def settled(self, n_features: int) -> "Hardware":
        """The same, or the CPU where the device cannot be used and need not."""
        reasons = [] if self.device is None else missing(self.device, n_features)
        if reasons and self.is_asked:
            hint = f"fix that on every node that has a GPU, or pass {named('workers', 'cpu')}."
            problem = f"cannot be had of a worker: {reasons[0]}"
            raise InvalidArgument(problem, argument="workers", value="cuda", hint=hint)
        return HOST if reasons else self

    def takes(self, problem: Problem | CoverageProblem) -> bool:
        """Whether the device has kernels for a problem: costs are for the CPU alone."""
        return self.device is not None and problem.costs is None

    def candidates(self, problem: Problem, start: Start) -> Candidates:
        """Those of a shard, bounded."""
        if not self.takes(problem):
            return HostCandidates(problem, start)
        found: Candidates = import_module("dubito.engines.cluster.device").DeviceCandidates(problem, start, self)
        return found

    def covering(self) -> Any:
        """What covers on the device."""
        return import_module("dubito.engines.cluster.coverage.device")


HOST = Hardware()
