"""Runs over shards on a Ray cluster, taken apart: what every phase took, what was moved, and what was picked."""

import hashlib
import os
import time
from collections.abc import Iterable, Sequence
from concurrent.futures import ProcessPoolExecutor
from multiprocessing import get_context
from typing import Any

import numpy as np

LABELED = 10_000
DIRECTIONS = 48


def make(folder: str, rows: int, width: int, shards: int = 8, processes: int = 1) -> None:
    """Features as networks have them, long in few directions, in shards; and doubt, mostly near 0."""
    os.makedirs(os.path.join(folder, "doubt"), exist_ok=True)
    edges = [rows * shard // shards for shard in range(shards + 1)]
    jobs = [(folder, shard, edges[shard + 1] - edges[shard], width) for shard in range(shards)]
    if processes == 1:
        for job in jobs:
            _make_shard(job)
        return
    with ProcessPoolExecutor(processes, get_context("spawn")) as pool:
        list(pool.map(_make_shard, jobs))


def _make_shard(job: tuple[str, int, int, int]) -> None:
    folder, shard, n_rows, width = job
    lengths = (0.9 ** np.arange(DIRECTIONS))[:, None].astype(np.float32)
    directions = np.random.default_rng(0).normal(size=(DIRECTIONS, width)).astype(np.float32) * lengths
    rng = np.random.default_rng([1, shard])
    points = np.empty((n_rows, width), np.float16)
    for start in range(0, n_rows, 1 << 16):
        own = rng.standard_normal((min(1 << 16, n_rows - start), DIRECTIONS), dtype=np.float32) @ directions
        own += 0.05 * rng.standard_normal(own.shape, dtype=np.float32)
        points[start : start + len(own)] = own
    np.save(os.path.join(folder, f"{shard}.npy"), points)
    np.save(os.path.join(folder, "doubt", f"{shard}.npy"), rng.beta(0.4, 3.0, n_rows))


def parts(folder: str) -> list[str]:
    """The shards of a folder, in order."""
    return sorted(os.path.join(folder, name) for name in os.listdir(folder) if name.endswith(".npy"))


def timed_workers(given: Iterable[Any], ray: Any, plan: Any, log: list[tuple[str, float]]) -> Any:
    """Workers on Ray that note what every question took."""
    from dubito.engines.cluster.workers import RayWorkers

    class Timed(RayWorkers):
        """See `dubito.engines.cluster.workers.RayWorkers`."""

        def ask(self, method: str, common: Sequence[Any] = (), each: Any = None) -> list[Any]:
            started = time.perf_counter()
            answers = super().ask(method, common, each)
            log.append((common[0] if method == "delegate" else method, time.perf_counter() - started))
            return answers

    started = time.perf_counter()
    workers = Timed(given, ray, plan)
    ray.get([actor.__ray_ready__.remote() for actor in workers.actors])
    log.append(("hire", time.perf_counter() - started))
    return workers


def measured(folder: str, ray: Any, plan: Any, budget: int, strategy: str, n_labeled: int = LABELED) -> dict[str, Any]:
    """One run: seconds by phase, rounds, bytes, and a digest of the picks."""
    from dubito.sharding import run
    from dubito.sharding.shards import Shards
    from dubito.strategies import build_strategy

    log: list[tuple[str, float]] = []
    found: list[Any] = []
    describe_run = run.describe_run
    run.describe_run = lambda workers, layout, traffic, journal: (
        found.append(traffic) or describe_run(workers, layout, traffic, journal)
    )
    shards = Shards(parts(folder), doubt=parts(os.path.join(folder, "doubt")))
    started = time.perf_counter()
    try:
        picked = run.select_shards(
            shards,
            budget,
            labeled=np.arange(n_labeled),
            strategy=build_strategy(strategy, {}),
            make_workers=lambda given: timed_workers(given, ray, plan, log),
            n_workers=plan.size,
        )
    finally:
        run.describe_run = describe_run
    seconds = time.perf_counter() - started
    return record(picked, found[0], log, seconds) | {
        "kind": "cpu" if plan.hardware.device is None else "cuda",
        "workers": plan.size,
        "strategy": strategy,
        "budget": budget,
        "labelled": n_labeled,
    }


def record(picked: Any, traffic: Any, log: list[tuple[str, float]], seconds: float) -> dict[str, Any]:
    """What is kept of a run."""
    phases: dict[str, float] = {}
    for name, spent in log:
        phases[name] = phases.get(name, 0.0) + spent
    return {
        "seconds": round(seconds, 3),
        "driver_seconds": round(seconds - sum(spent for _, spent in log), 3),
        "phases": {name: round(spent, 4) for name, spent in phases.items()},
        "advances": [round(spent, 4) for name, spent in log if name == "advance"],
        "rounds": traffic.rounds,
        "sent": traffic.sent,
        "received": traffic.received,
        "rows": picked.n_pool,
        "digest": hashlib.sha256(np.ascontiguousarray(picked.indices).tobytes()).hexdigest()[:16],
        "notes": list(picked.notes),
    }
