"""Solving a problem on a device: which memory it has, and what runs there."""

from contextlib import nullcontext

import numpy as np
import torch

from dubito.core.problem import Problem, Solution
from dubito.engines.cuda.beam import HIGHEST_SCORE, CannotStep, DeviceBeam
from dubito.engines.cuda.bounds import DeviceBounds
from dubito.engines.cuda.greedy import DeviceGreedy
from dubito.engines.cuda.memory import SHARE, SMALLEST_FRONT, DevicePlan, out_of_memory, plan_memory
from dubito.engines.cuda.points import (
    DevicePoints,
    DeviceReferences,
    DeviceSource,
    Tensor,
    distance_from_mean,
    to_device,
)
from dubito.engines.lazy import algorithm as lazy
from dubito.engines.lazy.bounds import FLOOR, front_slack
from dubito.engines.lazy.front import Front
from dubito.matrix import AnyArray, BoolArray, FloatArray, IntArray, OnDevice, blocks, len_of

# How a run on a device begins where nothing is labeled, and so no distance is known.


def cold_order(bounds: DeviceBounds, n_first: int) -> IntArray:
    """The first of `dubito.core.reference.cold_order`: most doubt, or nearest the mean; of equals the lowest number."""
    coldness = _coldness(bounds)
    return np.array([np.argmin(coldness)]) if n_first == 1 else np.argsort(coldness, kind="stable")[:n_first]


def _coldness(bounds: DeviceBounds) -> FloatArray:
    """(n,) by which a cold start takes candidates, smallest first."""
    problem = bounds.problem
    if problem.weights is not None and problem.doubt is not None:
        return -problem.doubt[problem.candidates]
    rows = slice(0, None) if bounds.numbers is None else bounds.numbers
    return distance_from_mean(bounds.points, rows, bounds.sizes.rows)


def farthest(bounds: DeviceBounds, picks: IntArray) -> Tensor:
    """(n,) upper bounds on what the farthest of these candidates leaves to each."""
    rows = to_device(picks, bounds.device)
    return farthest_from(bounds, bounds.exact(rows), bounds.weights[rows])


def farthest_from(bounds: DeviceBounds, exact: Tensor, weights: Tensor) -> Tensor:
    """The same of points (r, d), wherever they lie, with their own weights (r,)."""
    shape, others = bounds.references.shape, bounds.references.shape_of(exact)
    own = (bounds.weights > 0.0).double()[:, None] * weights if bounds.by_pick else None
    parts = []
    for span in blocks(len(bounds.value), bounds.sizes.rows):
        points = bounds.references.shape_of(bounds.exact(span))
        sizes = points.lengths.double().square()[:, None] + others.lengths.double().square()
        squared = (1.0 + shape.loose) * sizes + FLOOR - 2.0 * (points.points.double() @ others.points.double().T)
        scales = bounds.weights[span, None] if own is None else own[span]
        parts.append((squared.clamp(min=0.0) / shape.scale**2 * scales).amax(dim=1))
    return torch.cat(parts)


# The kernels of `dubito.engines.lazy.algorithm` on a device.
#
# A beam that the device cannot step is stepped on the host, over fronts whose distances come from the device.

HOST_FRONT = 1024


class DeviceKernels:
    """See `dubito.engines.lazy.frontier.Kernels`."""

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


def solve(problem: Problem, device: str) -> Solution:
    """The reference's configurations, best first; in smaller blocks where memory runs out.

    Features that are on a GPU are solved on that one, others on the current one; on the current stream.
    """
    if isinstance(problem.pool, OnDevice):
        device = str(problem.pool.tensor.device)
    plan = plan_for(problem, device)
    while True:
        try:
            with torch.no_grad(), torch.cuda.device(device) if device.startswith("cuda") else nullcontext():
                return _solve(problem, device, plan)
        except torch.OutOfMemoryError:
            smaller = DevicePlan(plan.sizes.smaller(), is_resident=False)
        # Out here nothing holds on to what the failed run had.
        if device.startswith("cuda"):
            torch.cuda.empty_cache()
        if smaller.sizes.front < SMALLEST_FRONT:
            (n, d), free = problem.pool.shape, free_bytes(problem.memory_limit, device)
            raise out_of_memory((n, d), _n_references(problem), plan.sizes.working_bytes(d), free)
        plan = smaller


def plan_for(problem: Problem, device: str) -> DevicePlan:
    """Sizes that fit the device, or MemoryLimit."""
    (n, d), itemsize = problem.pool.shape, bytes_of_feature(problem)
    free, is_there = free_bytes(problem.memory_limit, device), isinstance(problem.pool, OnDevice)
    return plan_memory((n, d), itemsize, _n_references(problem), free, is_there=is_there)


def bytes_of_feature(problem: Problem) -> int:
    """Of the pool, on the device: as it is, or float64."""
    dtype = problem.pool.dtype
    is_kept = dtype.kind == "f" and dtype.isnative and problem.metric == "euclidean"
    return dtype.itemsize if is_kept else 8


def _n_references(problem: Problem) -> int:
    return len_of(problem.references) + problem.budget


def free_bytes(limit: int | None, device: str) -> int:
    """What may be used: free memory of the device, torch's own reserve included, and no more than the limit."""
    free = 1 << 50
    if device.startswith("cuda"):
        there, _ = torch.cuda.mem_get_info(device)
        held = torch.cuda.memory_stats_as_nested_dict(device)  # Flattened they take a millisecond.
        reserved, allocated = (held[f"{each}_bytes"]["all"]["current"] for each in ("reserved", "allocated"))
        free = int(SHARE * (there + reserved - allocated))
    return free if limit is None else min(free, limit)


def _solve(problem: Problem, device: str, plan: DevicePlan) -> Solution:
    bounds = _bounds(problem, device, plan)
    if problem.scores is not None and problem.beam_width > 1:
        if 0 <= problem.scores.min() <= problem.scores.max() < HIGHEST_SCORE:
            try:
                return _beam(problem, bounds, problem.scores).solve()
            except CannotStep:
                bounds = _bounds(problem, device, plan)
        return lazy.solve(problem, DeviceKernels(bounds))
    bounds.start(cold_order(bounds, 1) if len_of(problem.references) == 0 else np.empty(0, dtype=np.int64))
    return DeviceGreedy(problem, bounds).solve()


def _bounds(problem: Problem, device: str, plan: DevicePlan) -> DeviceBounds:
    points = DevicePoints(DeviceSource(problem.pool, device, is_resident=plan.is_resident), problem.metric)
    references = DeviceReferences(problem.references, points, problem.budget, problem.largest, device)
    return DeviceBounds(problem, points, references, plan.sizes)


def _beam(problem: Problem, bounds: DeviceBounds, scores: IntArray) -> DeviceBeam:
    beam = DeviceBeam(problem, bounds, scores)
    if len_of(problem.references):
        bounds.start(np.empty(0, dtype=np.int64))
        return beam
    first = cold_order(bounds, problem.beam_width)
    own = scores[problem.candidates[first]]
    beam.start_cold(first[np.lexsort((first, -own))])
    bounds.value = farthest(bounds, first)
    return beam
