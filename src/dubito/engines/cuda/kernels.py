"""The kernels of `dubito.engines.lazy.algorithm` on a device.

A beam too wide for a kernel of its own steps on the host, over fronts whose distances come from the device.
"""

import numpy as np

from dubito.engines.cuda.bounds import DeviceBounds
from dubito.engines.cuda.points import to_device
from dubito.engines.cuda.starting import farthest
from dubito.engines.lazy.front import Front
from dubito.engines.lazy.rounding import FLOOR, front_slack
from dubito.matrix import AnyArray, BoolArray, FloatArray, IntArray

HOST_FRONT = 1024


class DeviceKernels:
    """See `dubito.engines.lazy.kernels.Kernels`."""

    def __init__(self, bounds: DeviceBounds) -> None:
        self.bounds = bounds

    @property
    def front_rows(self) -> int:
        """Candidates in a front."""
        return min(HOST_FRONT, self.bounds.sizes.front)

    def first_bounds(self) -> tuple[FloatArray, AnyArray]:
        """Tight ones where that is little work."""
        self.bounds.start(np.empty(0, dtype=np.int64))
        self.bounds.tighten_all()
        return self.bounds.value.cpu().numpy(), self.bounds.seen.cpu().numpy()

    def farthest_bounds(self, picks: IntArray) -> FloatArray:
        """Distance to the farthest of these candidates."""
        found: FloatArray = farthest(self.bounds, picks).cpu().numpy()
        return found

    def refresh(
        self, rows: IntArray, bounds: FloatArray, seen: AnyArray, needed: float
    ) -> tuple[FloatArray, BoolArray]:
        """All of them, whatever is needed."""
        device, index = self.bounds, to_device(rows, self.bounds.device)
        device.value[index] = to_device(bounds, device.device)
        device.seen[index] = to_device(seen, device.device).int()
        device.refresh(index)
        return device.value[index].cpu().numpy(), np.ones(len(rows), dtype=np.bool_)

    def front(self, rows: IntArray) -> Front:
        """One product in float64."""
        bounds, index = self.bounds, to_device(rows, self.bounds.device)
        points = bounds.exact(index).double()
        scale = bounds.references.shape.scale
        shifted = (points - points.mean(dim=0)) * scale
        sizes = shifted.square().sum(dim=1)
        squared = sizes[:, None] + sizes - 2.0 * (shifted @ shifted.T)
        return Front(
            points.cpu().numpy(),
            squared.cpu().numpy(),
            (front_slack(points.shape[1]) * sizes + FLOOR).cpu().numpy(),
            1.0 / scale**2,
            bounds.weights[index].cpu().numpy(),
            bounds.by_pick or bounds.problem.scaling == "acquired",
        )

    def add_references(self, picks: IntArray) -> None:
        """Candidates picked."""
        self.bounds.pick(to_device(picks, self.bounds.device))
