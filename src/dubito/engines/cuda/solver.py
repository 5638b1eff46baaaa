"""Solving a problem on a device: which memory it has, and what runs there."""

from contextlib import nullcontext

import numpy as np
import torch

from dubito.engines.cuda.beam import HIGHEST_SCORE, WIDEST, DeviceBeam, FrontTooLarge
from dubito.engines.cuda.bounds import DeviceBounds
from dubito.engines.cuda.greedy import DeviceGreedy
from dubito.engines.cuda.kernels import DeviceKernels
from dubito.engines.cuda.memory import SHARE, SMALLEST_FRONT, DevicePlan, out_of_memory, plan_memory
from dubito.engines.cuda.points import DevicePoints, DeviceSource
from dubito.engines.cuda.shapes import DeviceReferences
from dubito.engines.cuda.starting import cold_order, farthest
from dubito.engines.lazy import algorithm as lazy
from dubito.matrix import IntArray, OnDevice, len_of
from dubito.problem import Problem, Solution


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
        if problem.beam_width <= WIDEST and 0 <= problem.scores.min() <= problem.scores.max() < HIGHEST_SCORE:
            try:
                return _beam(problem, bounds, problem.scores).solve()
            except FrontTooLarge:
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
