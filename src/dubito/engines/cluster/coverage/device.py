"""What the candidates of a shard add, on a GPU: bounds by products, and exact pairs of those that come first."""

import numpy as np
import torch

from dubito.core.coverage_reference import CoverageProblem
from dubito.core.problem import Metric, Problem
from dubito.engines.cluster.coverage.messages import Int32Array
from dubito.engines.cluster.device import let_go, memory_of
from dubito.engines.cluster.hardware import Hardware
from dubito.engines.cluster.messages import levels_in, n_levelled
from dubito.engines.cuda.bounds import DeviceBounds, first_unpicked
from dubito.engines.cuda.coverage.memory import plan_within
from dubito.engines.cuda.coverage.solver import (
    FIRST_PAIRS,
    ROOM,
    DeviceLists,
    Ground,
    TooManyPairs,
    open_lists,
    settled,
    upper_bounds,
)
from dubito.engines.cuda.memory import SMALLEST_FRONT, DeviceSizes
from dubito.engines.cuda.points import DevicePoints, DeviceReferences, DeviceSource, Tensor, to_device
from dubito.engines.lazy.front import Threshold
from dubito.errors import MemoryLimit
from dubito.matrix import AnyArray, FloatArray, IntArray, len_of


class DeviceCoverBounds:
    """See `dubito.engines.cluster.coverage.worker.CoverBounds`."""

    def __init__(self, problem: CoverageProblem, cover: FloatArray, hardware: Hardware) -> None:
        """``cover`` (k,) is that of the first rows of the pool; the others count for nothing."""
        assert hardware.device is not None
        self.device, self.costs = hardware.device, None
        plan = plan_within(problem, memory_of(hardware, problem.memory_limit))
        ground = self.ground = Ground(problem, self.device, plan)
        ground.cover[: len(cover)] = to_device(cover, self.device)
        self.numbers = to_device(problem.candidates, self.device)
        self.bound = upper_bounds(ground, self.numbers)
        self.n_heard, self.guess = 0, FIRST_PAIRS
        self.stamp = torch.full((len(self.bound),), -1, dtype=torch.int64, device=self.device)
        """(n,) how many times cover had grown when a bound was exact."""

    def hear(self, places: Int32Array, cover: FloatArray) -> None:
        """Cover has grown."""
        rows = to_device(places, self.device).long()
        self.ground.cover[rows] = torch.maximum(self.ground.cover[rows], to_device(cover, self.device))
        self.n_heard += 1

    def fresh(self, size: int) -> tuple[IntArray, Threshold]:
        """The first candidates in order, all of them exact, and what comes next; fewer where memory is short."""
        while True:
            front, threshold = first_unpicked(self.bound, size)
            due = front[(self.stamp[front] < self.n_heard) & (self.bound[front] > 0.0)]
            if len(due) == 0:
                return front.cpu().numpy(), threshold
            n_opened, lists = self._opened(due)
            size = size if n_opened == len(due) else min(size, n_opened)
            opened = due[:n_opened]
            self.bound[opened] = torch.minimum(self.bound[opened], lists.gains)
            self.stamp[opened] = self.n_heard

    def _opened(self, candidates: Tensor) -> tuple[int, DeviceLists]:
        """The exact pairs of the first of some candidates: of how many there is room for."""
        while True:
            try:
                lists = open_lists(self.ground, self.numbers[candidates], self.guess)
            except (TooManyPairs, torch.OutOfMemoryError):
                if len(candidates) == 1:
                    raise
            else:
                self.guess = max(FIRST_PAIRS, ROOM * len(lists.rows))
                return len(candidates), lists
            let_go(self.device)
            candidates, self.guess = candidates[: len(candidates) // 2], FIRST_PAIRS

    def pairs(self, candidates: IntArray) -> tuple[IntArray, Int32Array, FloatArray]:
        """How many rows each of some exact candidates covers, which, ascending, and how far."""
        counts, places, kernels = [np.empty(0, np.int64)], [np.empty(0, np.int32)], [np.empty(0)]
        rest = to_device(candidates, self.device)
        while len(rest):
            n_opened, lists = self._opened(rest)
            counts.append(lists.starts.diff().cpu().numpy())
            places.append(lists.rows.cpu().numpy())
            kernels.append(lists.kernels.cpu().numpy())
            rest = rest[n_opened:]
        return np.concatenate(counts), np.concatenate(places), np.concatenate(kernels)

    def levels(self, size: int) -> tuple[IntArray, FloatArray]:
        """See `dubito.engines.cluster.messages.levels_of`."""
        top = torch.topk(self.bound, min(len(self.bound), n_levelled(size))).values
        return levels_in(top[top >= 0.0].cpu().numpy())

    def drop(self, candidates: IntArray) -> None:
        """They are picked."""
        self.bound[to_device(candidates, self.device)] = -1.0


def bounded(problem: CoverageProblem, cover: FloatArray, hardware: Hardware) -> DeviceCoverBounds:
    """Bounds on a device, or MemoryLimit."""
    try:
        return DeviceCoverBounds(problem, cover, hardware)
    except torch.OutOfMemoryError as error:
        short = str(error).split(".", maxsplit=1)[0]
    let_go(str(hardware.device))
    raise MemoryLimit(f"a shard does not fit on a GPU to be covered ({short})", hint="cut the pool into more shards.")


def nearest(points: AnyArray, references: AnyArray, metric: Metric, largest: float, hardware: Hardware) -> FloatArray:
    """(r,) exact squared distances of points to the nearest reference."""
    assert hardware.device is not None
    device, rows = hardware.device, np.arange(len_of(points))
    memory_of(hardware, None)
    own = DevicePoints(DeviceSource(points, device, is_resident=True), metric)
    others = DeviceReferences(references, own, 0, largest, device)
    problem = Problem(points, references, rows, 1, metric=metric, largest=largest)
    sizes = DeviceSizes()
    while True:
        try:
            squared: FloatArray = settled(DeviceBounds(problem, own, others, sizes)).cpu().numpy()
        except torch.OutOfMemoryError:
            if sizes.front < SMALLEST_FRONT:
                raise
        else:
            return squared
        let_go(device)
        sizes = sizes.smaller()
