"""The candidates of a shard on a GPU. The picks of all shards are among the references."""

from collections.abc import Callable
from dataclasses import replace

import torch

from dubito.core.problem import Problem
from dubito.engines.cluster.messages import Hardware, Points, Start, n_ranked, sample_ranks
from dubito.engines.cuda.bounds import DeviceBounds, FirstRows, Fronts, first_unpicked
from dubito.engines.cuda.memory import SMALLEST_FRONT, DevicePlan, out_of_memory, plan_memory
from dubito.engines.cuda.points import DevicePoints, DeviceReferences, DeviceSource, Tensor, to_device
from dubito.engines.cuda.solver import bytes_of_feature, farthest_from, free_bytes
from dubito.engines.lazy.interfaces import Fresh
from dubito.matrix import AnyArray, FloatArray, IntArray, len_of

NONE = torch.empty(0, dtype=torch.int64)
FRESH_SHARE = 0.875
"""A refreshed front is accepted if this fraction of it still comes before the threshold."""


class DeviceCandidates:
    """See `dubito.engines.cluster.shard.Candidates`."""

    def __init__(self, problem: Problem, start: Start, hardware: Hardware) -> None:
        """Compute the first bounds, in smaller blocks if memory runs out."""
        assert hardware.device is not None
        self.problem, self.start, self.device = problem, start, hardware.device
        self.max_picks = max(start.budget, len(start.picks))
        self.free = worker_memory(hardware, problem.memory_limit)
        n_references = len(start.references) + self.max_picks
        shape, itemsize = (len_of(problem.pool), problem.pool.shape[1]), bytes_of_feature(problem)
        plan = plan_memory(shape, itemsize, n_references, self.free, on_device=False)
        while True:
            try:
                self._open(plan)
            except torch.OutOfMemoryError:
                smaller = DevicePlan(plan.sizes.smaller(), is_resident=False)
            else:
                return
            release_memory(self.device)
            if smaller.sizes.front < SMALLEST_FRONT:
                raise out_of_memory(shape, n_references, plan.sizes.working_bytes(shape[1]), self.free)
            plan = smaller

    def _open(self, plan: DevicePlan) -> None:
        problem, start = self.problem, self.start
        self.source = DeviceSource(problem.pool, self.device, is_resident=plan.is_resident)
        points = DevicePoints(self.source, problem.metric)
        references = DeviceReferences(start.references, points, self.max_picks, start.largest, self.device)
        local = replace(problem, references=start.references, budget=start.budget, largest=start.largest)
        bounds = self.bounds = DeviceBounds(local, points, references, plan.sizes)
        # The weights of picks, which may lie in other shards, are stored behind those of the candidates.
        bounds.weights = torch.cat(
            [bounds.weights, torch.zeros(self.max_picks, dtype=torch.float64, device=self.device)]
        )
        self.fronts = Fronts(bounds, first_unpicked)
        is_mixed = bounds.by_pick and references.n_labeled > 0
        if is_mixed:
            bounds.start(NONE.numpy())
        self.add(start.picks)
        if references.count == 0:
            first = start.cold_starts
            bounds.value = farthest_from(bounds, self._exact(first.features), self._weights_of(first))
        elif not is_mixed:
            self._first_bounds()

    def _first_bounds(self) -> None:
        bounds = self.bounds
        if not bounds.by_pick:
            bounds.start(NONE.numpy())
            return
        # The distance to one pick bounds the distance to the nearest. Without doubt, the priority is 0.
        scales = (bounds.weights > 0.0) * bounds.weights[bounds.picked[0]]
        bounds.tighten_by(slice(0, 1), scales)

    @property
    def weights(self) -> FloatArray | None:
        return self.problem.weights

    def add(self, picks: Points) -> None:
        bounds, n_before = self.bounds, len(self.bounds.picked)
        if len(picks) == 0:
            return
        bounds.references.add(self._exact(picks.features))
        positions = torch.arange(n_before, n_before + len(picks), device=self.device) + len(bounds.value)
        bounds.weights[positions] = self._weights_of(picks)
        bounds.picked = torch.cat([bounds.picked, positions])

    def _exact(self, features: AnyArray) -> Tensor:
        """(r, d) points in the type of exact distances."""
        source = DeviceSource(features, self.device, is_resident=True)
        return DevicePoints(source, self.problem.metric).exact(slice(0, len(features)))

    def _weights_of(self, points: Points) -> Tensor:
        if points.weights is None:
            return torch.ones(len(points), dtype=torch.float64, device=self.device)
        return to_device(points.weights, self.device)

    def lower(self, numbers: IntArray, values: FloatArray) -> None:
        # The bounds of a restored shard may be lower already.
        value, rows = self.bounds.value, to_device(numbers, self.device)
        value[rows] = torch.minimum(value[rows], to_device(values, self.device))

    def fresh(self, size: int, own: IntArray) -> Fresh:
        return self._retry_in_memory(lambda: self._fresh(size, to_device(own, self.device)))

    def _fresh(self, size: int, own: Tensor) -> Fresh:
        bounds = self.bounds
        if len(own):
            bounds.refresh(own)
        found = self._first(size)
        rows = torch.cat([found.rows, own]).unique() if len(own) else found.rows
        return Fresh(rows.cpu().numpy(), bounds.value[rows].cpu().numpy(), found.threshold)

    def _first(self, size: int) -> FirstRows:
        """The first candidates, refreshed until most of them still come first."""
        while True:
            found = self.fronts.find(size)
            was_stale = self.bounds.refresh(found.rows)
            n_before = int((self.bounds.value[found.rows] > found.threshold.value).sum())
            if not was_stale or n_before >= FRESH_SHARE * len(found.rows):
                return found

    def _retry_in_memory(self, work: Callable[[], Fresh]) -> Fresh:
        """Repeat work that runs out of memory in smaller blocks; bounds that were lowered stay lowered."""
        while True:
            try:
                return work()
            except torch.OutOfMemoryError:
                pass
            # Outside the except block, the traceback no longer holds the tensors of the failed work.
            self._shrink()

    def _shrink(self) -> None:
        """Use smaller blocks; finally, read the rows from the host on each access."""
        release_memory(self.device)
        smaller = self.bounds.sizes.smaller()
        if smaller.front >= SMALLEST_FRONT:
            self.bounds.sizes = smaller
        elif self.source.tensor is not None:
            self.source.tensor = None
        else:
            (n, d), sizes = self.problem.pool.shape, self.bounds.sizes
            raise out_of_memory((n, d), len(self.bounds.references.exact), sizes.working_bytes(d), self.free)

    def ranked_bounds(self, size: int) -> tuple[IntArray, FloatArray]:
        value = self.bounds.value
        top = torch.topk(value, min(len(value), n_ranked(size))).values
        return sample_ranks(top[top >= 0.0].cpu().numpy())

    def drop(self, numbers: IntArray) -> None:
        self.bounds.value[to_device(numbers, self.device)] = -1.0

    def zeros(self, n_first: int | None) -> IntArray:
        found: IntArray = torch.nonzero(self.bounds.value >= 0.0)[:n_first, 0].cpu().numpy()
        return found


def release_memory(device: str) -> None:
    """Free the memory that torch caches."""
    if device.startswith("cuda"):
        torch.cuda.empty_cache()


def worker_memory(hardware: Hardware, limit: int | None) -> int:
    """Bytes that a worker may use on its device. Sets the limit in torch too."""
    assert hardware.device is not None
    if hardware.device.startswith("cuda") and hardware.memory_fraction < 1.0:
        _, total = torch.cuda.mem_get_info()
        torch.cuda.set_per_process_memory_fraction(hardware.memory_fraction)
        own = int(hardware.memory_fraction * total)
        limit = own if limit is None else min(own, limit)
    return free_bytes(limit, hardware.device)
