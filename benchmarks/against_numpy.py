"""The opponent: the loop a careful person writes in NumPy, and its beam.

float32, cached norms, one matrix-vector product a pick into a buffer, the minimum in place, the first pass in
blocks. Each pick reads the whole pool once, so memory bandwidth bounds it; `bandwidths` shows how near it comes.
"""

import os
import time
from concurrent.futures import ThreadPoolExecutor
from importlib import import_module

import numpy as np
from timing import Contestant, Outcome
from workloads import Array, Floats, Ints, Task

from dubito.doubt import beam_scores

NAME = "NumPy loop"
FIRST_PASS_ROWS = 2_048


def contestant(task: Task, cap: float = 60.0) -> Contestant:
    """The loop in float32; the beam where the task has one."""
    loop, name = greedy_loop, NAME
    if task.beam_width > 1:
        loop, name = beam_loop, f"{NAME}, beam {task.beam_width}"
    return Contestant(name, lambda: Outcome(loop(task)), lambda: loop(task.small()), repeats=3, cap=cap)


def greedy_loop(task: Task, dtype: type[np.floating] = np.float32) -> Ints:
    """The picks, in order; ties go to the lowest index."""
    pool = task.workload.pool.astype(dtype, copy=False)
    sizes = np.einsum("ij,ij->i", pool, pool)
    nearest = first_pass(pool, sizes, task.workload.labeled.astype(dtype, copy=False))
    weights = None if task.weights is None else task.weights.astype(dtype)
    squared, priorities = np.empty_like(nearest), np.empty_like(nearest)
    picks = np.empty(task.budget, dtype=np.int64)
    for step in range(task.budget):
        ranked = nearest if weights is None else np.multiply(nearest, weights, out=priorities)
        best = int(ranked.argmax())
        picks[step] = best
        np.dot(pool, pool[best], out=squared)
        squared *= -2.0
        squared += sizes
        squared += sizes[best]
        np.minimum(nearest, squared, out=nearest)
        # Not -inf, which a doubt of 0 would turn into nan.
        nearest[best] = -1.0
    return picks


def first_pass(pool: Array, sizes: Array, labeled: Array) -> Array:
    """(n,) squared distances to the nearest labeled point, a block of the pool at a time."""
    nearest = np.empty(len(pool), dtype=pool.dtype)
    labeled_sizes = np.einsum("ij,ij->i", labeled, labeled)
    for start in range(0, len(pool), FIRST_PASS_ROWS):
        span = slice(start, start + FIRST_PASS_ROWS)
        products = pool[span] @ labeled.T
        products *= -2.0
        products += labeled_sizes
        nearest[span] = products.min(axis=1)
    nearest += sizes
    return np.maximum(nearest, 0.0, out=nearest)


def beam_loop(task: Task, dtype: type[np.floating] = np.float32) -> Ints:
    """The best configuration of a beam done straightforwardly: w copies of the loop's state.

    A step's picks share one product over the pool, which is kinder than w loops.
    """
    pool, width = task.workload.pool.astype(dtype, copy=False), task.beam_width
    scores = beam_scores(task.workload.doubt)
    sizes = np.einsum("ij,ij->i", pool, pool)
    weights = np.ones(len(pool), dtype) if task.weights is None else task.weights.astype(dtype)
    states = [first_pass(pool, sizes, task.workload.labeled.astype(dtype, copy=False)) * weights]
    trails: list[tuple[int, ...]] = [()]
    totals = [0]
    for _ in range(task.budget):
        survivors = expand(trails, totals, states, scores, width)
        fresh = np.unique([pick for _, pick in survivors])
        squared = pool[fresh] @ pool.T
        squared *= -2.0
        squared += sizes
        squared += sizes[fresh][:, None]
        squared *= weights
        states = [np.minimum(states[rank], squared[np.searchsorted(fresh, pick)]) for rank, pick in survivors]
        totals = [totals[rank] + int(scores[pick]) for rank, pick in survivors]
        trails = [(*trails[rank], pick) for rank, pick in survivors]
        for state, trail in zip(states, trails, strict=True):
            state[trail[-1]] = -1.0
    return np.array(trails[0], dtype=np.int64)


def expand(
    trails: list[tuple[int, ...]], totals: list[int], states: list[Array], scores: Ints, width: int
) -> list[tuple[int, int]]:
    """(configuration, pick) of the w most uncertain children, no two of them the same set."""
    children = [
        (-totals[rank] - int(scores[pick]), rank, -float(state[pick]), pick)
        for rank, state in enumerate(states)
        for pick in np.argpartition(-state, width)[:width].tolist()
    ]
    kept: dict[frozenset[int], tuple[int, int]] = {}
    for _, rank, _, pick in sorted(children):
        kept.setdefault(frozenset((*trails[rank], pick)), (rank, pick))
        if len(kept) == width:
            break
    return list(kept.values())


def bandwidths(task: Task, loop_seconds: float) -> dict[str, float]:
    """GB/s of the loop's product alone and of the whole loop, against what the machine can read."""
    pool = task.workload.pool
    out, times = np.empty(len(pool), dtype=pool.dtype), []
    for row in range(12):
        started = time.perf_counter()
        np.dot(pool, pool[row], out=out)
        times.append(time.perf_counter() - started)
    measured = {
        "matvec": pool.nbytes / float(np.median(times)) / 1e9,
        "loop": task.budget * pool.nbytes / loop_seconds / 1e9,
        "read": read_bandwidth(),
    }
    print("    GB/s:", ", ".join(f"{name} {value:.1f}" for name, value in measured.items()), flush=True)
    return measured


def read_bandwidth(megabytes: int = 512) -> float:
    """GB/s: the best of several sums of squares over memory far larger than any cache, a thread a core."""
    numbers: Floats = np.ones(megabytes * 2**20 // 8)
    n_threads = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
    parts = np.array_split(numbers, n_threads)
    best = np.inf
    with import_module("threadpoolctl").threadpool_limits(limits=1), ThreadPoolExecutor(n_threads) as threads:
        for _ in range(6):
            started = time.perf_counter()
            list(threads.map(lambda part: float(part @ part), parts))
            best = min(best, time.perf_counter() - started)
    return float(numbers.nbytes / best / 1e9)
