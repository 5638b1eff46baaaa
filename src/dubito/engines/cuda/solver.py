"""Solving a problem on a device, and estimating the cost."""

import time
from contextlib import nullcontext

import numpy as np
import torch

from dubito.core.groups import by_rows
from dubito.core.problem import Problem, Solution
from dubito.engines.base import Estimate
from dubito.engines.cuda.beam import HIGHEST_SCORE, WIDEST_BLOCK, CannotStep, DeviceBeam
from dubito.engines.cuda.bounds import ANCHORS, TOP_FRONTS, DeviceBounds
from dubito.engines.cuda.greedy import DeviceGreedy
from dubito.engines.cuda.memory import SMALLEST_FRONT, USABLE, DevicePlan, out_of_memory, plan_bytes, plan_memory
from dubito.engines.cuda.points import (
    FULL_PAIRS,
    DevicePoints,
    DeviceReferences,
    DeviceSource,
    Tensor,
    scaled_sq_distances_from_mean,
    to_device,
)
from dubito.engines.lazy import algorithm as lazy
from dubito.engines.lazy import groups
from dubito.engines.lazy.bounds import FLOOR, front_slack
from dubito.engines.lazy.front import Front
from dubito.matrix import AnyArray, BoolArray, FloatArray, IntArray, OnDevice, blocks, len_of

# Cold start: without labeled points there are no distances.


def cold_order(bounds: DeviceBounds, n_first: int) -> IntArray:
    """The first candidates of `dubito.core.reference.cold_order`."""
    coldness = _coldness(bounds)
    return np.array([np.argmin(coldness)]) if n_first == 1 else np.argsort(coldness, kind="stable")[:n_first]


def _coldness(bounds: DeviceBounds) -> FloatArray:
    """(n,) sort keys of a cold start, smallest first."""
    problem = bounds.problem
    if problem.weights is not None and problem.doubt is not None:
        return -problem.doubt[problem.candidates]
    rows = slice(0, None) if bounds.numbers is None else bounds.numbers
    return scaled_sq_distances_from_mean(bounds.points, rows, bounds.sizes.rows)


def farthest(bounds: DeviceBounds, picks: IntArray) -> Tensor:
    """(n,) upper bounds on the squared priorities after picking any single one of these candidates."""
    rows = to_device(picks, bounds.device)
    return farthest_from(bounds, bounds.exact(rows), bounds.weights[rows])


def farthest_from(bounds: DeviceBounds, exact: Tensor, weights: Tensor) -> Tensor:
    """The same for points (r, d) with weights (r,), which need not be candidates."""
    transform, others = bounds.references.transform, bounds.references.prepare(exact)
    own = (bounds.weights > 0.0).double()[:, None] * weights if bounds.by_pick else None
    parts = []
    for span in blocks(len(bounds.value), bounds.sizes.rows):
        points = bounds.references.prepare(bounds.exact(span))
        sizes = points.lengths.double().square()[:, None] + others.lengths.double().square()
        squared = (1.0 + transform.loose) * sizes + FLOOR - 2.0 * (points.points.double() @ others.points.double().T)
        scales = bounds.weights[span, None] if own is None else own[span]
        parts.append((squared.clamp(min=0.0) / transform.scale**2 * scales).amax(dim=1))
    return torch.cat(parts)


# Device kernels for `dubito.engines.lazy.algorithm`: the fallback for beams that the thread block cannot step.

HOST_FRONT = 1024


class DeviceKernels:
    """See `dubito.engines.lazy.interfaces.Kernels`."""

    def __init__(self, bounds: DeviceBounds) -> None:
        self.bounds = bounds

    @property
    def front_rows(self) -> int:
        return min(HOST_FRONT, self.bounds.sizes.front)

    def first_bounds(self) -> tuple[FloatArray, AnyArray]:
        self.bounds.start(np.empty(0, dtype=np.int64))
        self.bounds.tighten_all()
        return self.bounds.value.cpu().numpy(), self.bounds.seen.cpu().numpy()

    def farthest_bounds(self, picks: IntArray) -> FloatArray:
        upper: FloatArray = farthest(self.bounds, picks).cpu().numpy()
        return upper

    def refresh(
        self, rows: IntArray, bounds: FloatArray, seen: AnyArray, needed: float
    ) -> tuple[FloatArray, BoolArray]:
        """Make the priorities of all these candidates exact; ``needed`` is ignored."""
        device, index = self.bounds, to_device(rows, self.bounds.device)
        device.value[index] = to_device(bounds, device.device)
        device.seen[index] = to_device(seen, device.device).int()
        device.refresh(index)
        return device.value[index].cpu().numpy(), np.ones(len(rows), dtype=np.bool_)

    def front(self, rows: IntArray) -> Front:
        """Distances from one product in float64."""
        bounds, index = self.bounds, to_device(rows, self.bounds.device)
        points = bounds.exact(index).double()
        scale = bounds.references.transform.scale
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
        self.bounds.pick(to_device(picks, self.bounds.device))


def solve(problem: Problem, device: str) -> Solution:
    """The configurations of the reference, best first. If memory runs out, the run is repeated with smaller blocks.

    Runs on the GPU that holds the features, or else on the current one, in the current stream.
    """
    if isinstance(problem.pool, OnDevice):
        device = str(problem.pool.tensor.device)
    plan = plan_for(by_rows(problem), device)
    while True:
        try:
            with torch.no_grad(), torch.cuda.device(device) if device.startswith("cuda") else nullcontext():
                return _solve(problem, device, plan)
        except torch.OutOfMemoryError:
            smaller = DevicePlan(plan.sizes.smaller(), is_resident=False)
        # Outside the except block, the traceback no longer holds the tensors of the failed run.
        if device.startswith("cuda"):
            torch.cuda.empty_cache()
        if smaller.sizes.front < SMALLEST_FRONT:
            (n, d), free = problem.pool.shape, free_bytes(problem.memory_limit, device)
            raise out_of_memory((n, d), _n_references(by_rows(problem)), plan.sizes.working_bytes(d), free)
        plan = smaller


def plan_for(problem: Problem, device: str) -> DevicePlan:
    """A plan that fits the device; raises MemoryLimit if there is none."""
    (n, d), itemsize = problem.pool.shape, bytes_of_feature(problem)
    free, on_device = free_bytes(problem.memory_limit, device), isinstance(problem.pool, OnDevice)
    return plan_memory((n, d), itemsize, _n_references(problem), free, on_device=on_device)


def bytes_of_feature(problem: Problem) -> int:
    """The size of a feature of the pool on the device, where it keeps its float type or becomes float64."""
    dtype = problem.pool.dtype
    is_kept = dtype.kind == "f" and dtype.isnative and problem.metric == "euclidean"
    return dtype.itemsize if is_kept else 8


def _n_references(problem: Problem) -> int:
    return len_of(problem.references) + problem.budget


def free_bytes(limit: int | None, device: str) -> int:
    """Usable bytes: the free memory of the device, including torch's cache, up to the limit."""
    free = 1 << 50
    if device.startswith("cuda"):
        unallocated, _ = torch.cuda.mem_get_info(device)
        held = torch.cuda.memory_stats_as_nested_dict(device)  # The flattened version takes a millisecond.
        reserved, allocated = (held[f"{each}_bytes"]["all"]["current"] for each in ("reserved", "allocated"))
        free = int(USABLE * (unallocated + reserved - allocated))
    return free if limit is None else min(free, limit)


def _solve(problem: Problem, device: str, plan: DevicePlan) -> Solution:
    bounds = _bounds(by_rows(problem), device, plan)
    if problem.groups is not None:
        return groups.solve(problem, DeviceKernels(bounds), lambda: cold_order(bounds, 1))
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


# Estimated cost of a problem, without compiling kernels. The constants were measured on an H200
# (``benchmarks/results/cuda.md``); the rate of products is measured on the device.

CALL_SECONDS = 4e-3
"""Minimum time of a call: checks, launches and synchronization."""
ROW_SECONDS = 12e-9
"""Time on the host per row of the pool: checks and doubt."""
PICK_SECONDS, STEP_SECONDS, WIDE_STEP_SECONDS = 0.3e-6, 2.5e-6, 30e-6
"""Time of a greedy pick, of a step of a beam in one thread block, and of a step of a wider beam."""
RATE_FRACTION = 0.25
"""The rate of products for bounds (float32 truncated to ten bits), relative to large bfloat16 products."""
TRANSFER_RATE = 8e9
"""Bytes per second from NumPy memory to the device: 7.4e9 to 9.4e9 were measured."""
TRIAL_ROWS = 4096


def cost_of(problem: Problem, device: str, engine: str) -> Estimate:
    """The additional memory on the device, and seconds."""
    plan = plan_for(problem, device)
    return Estimate(_bytes(problem, plan), _seconds(problem, plan, product_rate(device)), engine)


def _bytes(problem: Problem, plan: DevicePlan) -> int:
    n_references = len_of(problem.references) + problem.budget
    return plan_bytes(plan, problem.pool.shape, bytes_of_feature(problem), n_references, on_device=_on_device(problem))


def _on_device(problem: Problem) -> bool:
    return isinstance(problem.pool, OnDevice)


def _seconds(problem: Problem, plan: DevicePlan, rate: float) -> float:
    (n_pool, d), n, m = problem.pool.shape, len(problem.candidates), len_of(problem.references)
    n_first = m if n * m <= FULL_PAIRS else ANCHORS
    n_fronts = -(-problem.budget // plan.sizes.front)
    n_later = min(n, TOP_FRONTS * plan.sizes.front) * n_fronts
    products = 2.0 * d * (n * n_first + n_later * (m + problem.budget / 2))
    transfer = 0.0 if _on_device(problem) else n_pool * d * bytes_of_feature(problem) / TRANSFER_RATE
    narrow = PICK_SECONDS if problem.beam_width == 1 else STEP_SECONDS
    picking = problem.budget * (narrow if problem.beam_width <= WIDEST_BLOCK else WIDE_STEP_SECONDS)
    return CALL_SECONDS + ROW_SECONDS * n_pool + transfer + products / (RATE_FRACTION * rate) + picking


def product_rate(device: str) -> float:
    """Operations per second of a large bfloat16 product on this device. Takes about a millisecond on a GPU."""
    n_rows, dtype = (TRIAL_ROWS, torch.bfloat16) if device.startswith("cuda") else (512, torch.float32)
    block, best = torch.ones((n_rows, n_rows), dtype=dtype, device=device), float("inf")
    for _ in range(3):
        _wait(device)
        started = time.perf_counter()
        block @ block
        _wait(device)
        best = min(best, time.perf_counter() - started)
    return 2.0 * n_rows**3 / best


def _wait(device: str) -> None:
    if device.startswith("cuda"):
        torch.cuda.synchronize(device)
