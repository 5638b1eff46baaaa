"""What a problem will cost the GPU engine, before it runs, torch started and kernels compiled.

The constants were read off what was measured on an H200 (``benchmarks/results/cuda.md``); the rate is the device's own.
"""

import time

import torch

from dubito.core.problem import Problem
from dubito.engines.base import Estimate
from dubito.engines.cuda.beam import WIDEST_BLOCK
from dubito.engines.cuda.bounds import ANCHORS, FULL_PAIRS, TOP_FRONTS
from dubito.engines.cuda.memory import DevicePlan, plan_bytes
from dubito.engines.cuda.solver import bytes_of_feature, plan_for
from dubito.matrix import OnDevice, len_of

CALL_SECONDS = 4e-3
"""The least a call takes: checks, launches, and waiting for answers."""
ROW_SECONDS = 12e-9
"""What the host does for each row of the pool: checks and doubts."""
PICK_SECONDS, STEP_SECONDS, WIDE_STEP_SECONDS = 0.3e-6, 2.5e-6, 30e-6
"""A greedy pick, whole fronts at once, a step of a beam in one block of threads, and one of a beam too wide for it."""
SHARE_OF_RATE = 0.25
"""Bounds are products of float32 cut to ten bits, at this share of the rate of large products in bfloat16."""
WAY_BYTES = 8e9
"""Bytes a second from the host's memory, as NumPy allocates it, to the device: 7.4 to 9.4 were measured."""
TRIAL_ROWS = 4096


def cost_of(problem: Problem, device: str, engine: str) -> Estimate:
    """Bytes of the device beyond tensors that are there, and seconds."""
    plan = plan_for(problem, device)
    return Estimate(_bytes(problem, plan), _seconds(problem, plan, product_rate(device)), engine)


def _bytes(problem: Problem, plan: DevicePlan) -> int:
    n_references = len_of(problem.references) + problem.budget
    return plan_bytes(plan, problem.pool.shape, bytes_of_feature(problem), n_references, is_there=_is_there(problem))


def _is_there(problem: Problem) -> bool:
    return isinstance(problem.pool, OnDevice)


def _seconds(problem: Problem, plan: DevicePlan, rate: float) -> float:
    (n_pool, d), n, m = problem.pool.shape, len(problem.candidates), len_of(problem.references)
    n_first = m if n * m <= FULL_PAIRS else ANCHORS
    n_fronts = -(-problem.budget // plan.sizes.front)
    n_later = min(n, TOP_FRONTS * plan.sizes.front) * n_fronts
    products = 2.0 * d * (n * n_first + n_later * (m + problem.budget / 2))
    way = 0.0 if _is_there(problem) else n_pool * d * bytes_of_feature(problem) / WAY_BYTES
    narrow = PICK_SECONDS if problem.beam_width == 1 else STEP_SECONDS
    picking = problem.budget * (narrow if problem.beam_width <= WIDEST_BLOCK else WIDE_STEP_SECONDS)
    return CALL_SECONDS + ROW_SECONDS * n_pool + way + products / (SHARE_OF_RATE * rate) + picking


def product_rate(device: str) -> float:
    """Operations a second of a large product in bfloat16 on this device; about a millisecond on a GPU."""
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
