"""What the candidates of a shard add, on a GPU: bounds by products, and exact pairs of those that come first."""

import numpy as np
import torch

from dubito.core.coverage_reference import CoverageProblem
from dubito.core.problem import Metric, Problem
from dubito.engines.cluster.coverage.worker import Int32Array
from dubito.engines.cluster.device import release_memory, worker_memory
from dubito.engines.cluster.messages import Hardware, n_ranked, sample_ranks
from dubito.engines.cuda.bounds import DeviceBounds, first_unpicked
from dubito.engines.cuda.coverage.planning import plan_memory
from dubito.engines.cuda.coverage.solver import (
    FIRST_PAIRS,
    SPARE,
    CoverState,
    DeviceLists,
    exact_squared,
    open_lists,
    upper_bounds,
)
from dubito.engines.cuda.memory import SMALLEST_FRONT, DeviceSizes
from dubito.engines.cuda.points import DevicePoints, DeviceReferences, DeviceSource, Tensor, to_device
from dubito.engines.cuda.programs.pairs import TooManyPairs
from dubito.engines.lazy.front import Threshold
from dubito.errors import MemoryLimit
from dubito.matrix import AnyArray, FloatArray, IntArray, len_of


class DeviceCoverBounds:
    """See `dubito.engines.cluster.coverage.worker.GainBounds`."""

    def __init__(self, problem: CoverageProblem, cover: FloatArray, hardware: Hardware) -> None:
        """``cover`` (k,) is that of the first rows of the pool, the targets. The other rows have weight 0."""
        assert hardware.device is not None
        self.device, self.costs = hardware.device, None
        plan = plan_memory(problem, worker_memory(hardware, problem.memory_limit))
        state = self.state = CoverState(problem, self.device, plan)
        state.cover[: len(cover)] = to_device(cover, self.device)
        self.numbers = to_device(problem.candidates, self.device)
        self.bound = upper_bounds(state, self.numbers)
        self.n_updates, self.guess = 0, FIRST_PAIRS
        self.stamp = torch.full((len(self.bound),), -1, dtype=torch.int64, device=self.device)
        """(n,) the number of updates that each exact bound accounts for; -1 for bounds that are not exact."""

    def update(self, positions: Int32Array, cover: FloatArray) -> None:
        rows = to_device(positions, self.device).long()
        self.state.cover[rows] = torch.maximum(self.state.cover[rows], to_device(cover, self.device))
        self.n_updates += 1

    def fresh(self, size: int) -> tuple[IntArray, Threshold]:
        while True:
            front, threshold = first_unpicked(self.bound, size)
            due = front[(self.stamp[front] < self.n_updates) & (self.bound[front] > 0.0)]
            if len(due) == 0:
                return front.cpu().numpy(), threshold
            n_opened, lists = self._opened(due)
            size = size if n_opened == len(due) else min(size, n_opened)
            opened = due[:n_opened]
            self.bound[opened] = torch.minimum(self.bound[opened], lists.gains)
            self.stamp[opened] = self.n_updates

    def _opened(self, candidates: Tensor) -> tuple[int, DeviceLists]:
        """The exact pairs of as many of the first candidates as fit in memory, and their number."""
        while True:
            try:
                lists = open_lists(self.state, self.numbers[candidates], self.guess)
            except (TooManyPairs, torch.OutOfMemoryError):
                if len(candidates) == 1:
                    raise
            else:
                self.guess = max(FIRST_PAIRS, SPARE * len(lists.rows))
                return len(candidates), lists
            release_memory(self.device)
            candidates, self.guess = candidates[: len(candidates) // 2], FIRST_PAIRS

    def pairs(self, candidates: IntArray) -> tuple[IntArray, Int32Array, FloatArray]:
        counts, rows, kernels = [np.empty(0, np.int64)], [np.empty(0, np.int32)], [np.empty(0)]
        rest = to_device(candidates, self.device)
        while len(rest):
            n_opened, lists = self._opened(rest)
            counts.append(lists.starts.diff().cpu().numpy())
            rows.append(lists.rows.cpu().numpy())
            kernels.append(lists.kernels.cpu().numpy())
            rest = rest[n_opened:]
        return np.concatenate(counts), np.concatenate(rows), np.concatenate(kernels)

    def ranked_bounds(self, size: int) -> tuple[IntArray, FloatArray]:
        top = torch.topk(self.bound, min(len(self.bound), n_ranked(size))).values
        return sample_ranks(top[top >= 0.0].cpu().numpy())

    def drop(self, candidates: IntArray) -> None:
        self.bound[to_device(candidates, self.device)] = -1.0


def device_bounds(problem: CoverageProblem, cover: FloatArray, hardware: Hardware) -> DeviceCoverBounds:
    """Bounds on a device; raises MemoryLimit if the shard does not fit."""
    try:
        return DeviceCoverBounds(problem, cover, hardware)
    except torch.OutOfMemoryError as error:
        reason = str(error).split(".", maxsplit=1)[0]
    release_memory(str(hardware.device))
    raise MemoryLimit(f"coverage of a shard does not fit on a GPU ({reason})", hint="divide the pool into more shards.")


def nearest(points: AnyArray, references: AnyArray, metric: Metric, largest: float, hardware: Hardware) -> FloatArray:
    """(r,) exact squared distances of points to the nearest reference."""
    assert hardware.device is not None
    device, rows = hardware.device, np.arange(len_of(points))
    worker_memory(hardware, None)
    own = DevicePoints(DeviceSource(points, device, is_resident=True), metric)
    others = DeviceReferences(references, own, 0, largest, device)
    problem = Problem(points, references, rows, 1, metric=metric, largest=largest)
    sizes = DeviceSizes()
    while True:
        try:
            squared: FloatArray = exact_squared(DeviceBounds(problem, own, others, sizes)).cpu().numpy()
        except torch.OutOfMemoryError:
            if sizes.front < SMALLEST_FRONT:
                raise
        else:
            return squared
        release_memory(device)
        sizes = sizes.smaller()
