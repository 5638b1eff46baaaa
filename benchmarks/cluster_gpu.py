"""Workers of a Ray cluster on one GPU, against workers on CPUs; needs a GPU, torch and Ray, and no network.

    python benchmarks/cluster_gpu.py [--out FILE] [--folder FOLDER] [--minutes 6]

First the picks: problems full of what goes wrong, and a pool of 60,000 rows, in one, two and three shards, must come
out as on the CPU. Then the time: 1, 2 and 4 workers that share the GPU, and 1 to 8 on CPUs, out of 1,000,000 x 256 and
4,000,000 x 512 float16 features that are made here. Rows are written as they are measured; what the time does not
suffice for is left out.
"""

import argparse
import json
import os
import time
from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np
from cluster_runs import LABELED, make, measured

import dubito
from dubito.core.coverage_reference import CoverageProblem
from dubito.core.problem import Problem, Solution
from dubito.engines.base import Engine
from dubito.engines.cluster.messages import Hardware
from dubito.engines.cluster.solving import open_all, solve, split_problem
from dubito.engines.cluster.workers import RESERVED_GPU, LocalWorkers, WorkerPlan
from dubito.matrix import len_of
from dubito.sharding.run import select_shards
from dubito.strategies import build_strategy
from dubito.testing import check_coverage_engine, check_engine

POOLS = {"1M x 256": (1_000_000, 256), "4M x 512": (4_000_000, 512)}
CORESET, COVERAGE = "coreset", "doubt-coverage:strength=3,sample=32768"
RUNS = (
    ("1M x 256", "cuda", 1, CORESET, 10_000),
    ("1M x 256", "cuda", 2, CORESET, 10_000),
    ("1M x 256", "cuda", 4, CORESET, 10_000),
    ("4M x 512", "cuda", 1, CORESET, 10_000),
    ("4M x 512", "cuda", 4, CORESET, 10_000),
    ("1M x 256", "cuda", 1, COVERAGE, 1000),
    ("1M x 256", "cuda", 4, COVERAGE, 1000),
    ("1M x 256", "cpu", 8, CORESET, 10_000),
    ("1M x 256", "cpu", 4, CORESET, 10_000),
    ("1M x 256", "cpu", 2, CORESET, 10_000),
    ("1M x 256", "cpu", 8, COVERAGE, 1000),
    ("4M x 512", "cuda", 2, CORESET, 10_000),
    ("4M x 512", "cpu", 8, CORESET, 10_000),
    ("1M x 256", "cpu", 1, CORESET, 10_000),
    ("4M x 512", "cuda", 4, COVERAGE, 1000),
)
CASES = (
    ("coreset", None, False),
    ("coreset", range(500), False),
    ("doubt-coreset", range(500), False),
    ("doubt-coreset", None, False),
    ("doubt-coreset:scaling=acquired", range(500), False),
    ("doubt-coreset:beam_width=8", range(500), False),
    ("doubt-coverage:sample=8192", range(500), False),
    ("coverage:sample=8192", None, False),
    ("doubt-coreset", range(500), True),
    ("doubt-coverage:sample=8192", range(500), True),
)


@dataclass(frozen=True)
class OnGpu(Engine[Any]):
    """The driver and its shards in one process, the shards on the GPU."""

    name: ClassVar[str] = "shards on a GPU"
    solves: ClassVar[tuple[type, ...]] = (Problem, CoverageProblem)
    n_shards: int

    def refusals(self, problem: Any) -> list[str]:
        return []

    def solve(self, problem: Any) -> Solution:
        rng, n_pool = np.random.default_rng(self.n_shards), len_of(problem.pool)
        edges = sorted([0, n_pool, *rng.integers(0, n_pool + 1, self.n_shards - 1).tolist()])
        workers = LocalWorkers(split_problem(problem, edges), Hardware("cuda", is_required=True))
        return solve(problem, workers, open_all(workers))[0]


def plan_for(kind: str, size: int) -> WorkerPlan:
    """So many workers, on CPUs, or sharing the GPU."""
    share = 1.0 / size
    return (
        WorkerPlan(size, 1.0, RESERVED_GPU * share, Hardware("cuda", share, is_required=True))
        if kind == "cuda"
        else WorkerPlan(size)
    )


def check_picks(say: Any, seconds: float = 22.0) -> None:
    """Problems full of what goes wrong, in pieces: as many as there is time for, since programs are compiled."""
    for n_shards in (1, 2, 3):
        started, n_done = time.perf_counter(), 0
        while time.perf_counter() - started < seconds:
            check_engine(OnGpu(n_shards), examples=2, seed=1000 * n_shards + n_done)
            check_coverage_engine(OnGpu(n_shards), examples=2, seed=1000 * n_shards + n_done)
            n_done += 2
        say(f"{n_shards} shards: as the reference's, {n_done} core-sets and beams, {n_done} of coverage")


def check_shards(say: Any) -> None:
    """A pool of some size, every strategy; the last two through Ray."""
    rng = np.random.default_rng(0)
    pool, doubt = rng.normal(size=(60_000, 64)).astype(np.float16), rng.random(60_000)
    for strategy, labeled, with_ray in CASES:
        budget = 200 if "beam" in strategy else 1000
        wanted = dubito.select(pool, budget, labeled=labeled, doubt=doubt, strategy=strategy, engine="cpu")
        for n_shards in (3,) if with_ray else (1, 2, 3):
            found = selected(pool, doubt, n_shards, budget, labeled, strategy, with_ray)
            assert found.indices.tolist() == wanted.indices.tolist(), (strategy, n_shards)
            assert found.priorities.tobytes() == wanted.priorities.tobytes(), (strategy, n_shards)
            assert f"{n_shards} on GPUs" in found.notes[-1], found.notes
        say(f"{strategy}, {'nothing' if labeled is None else '500'} labeled, Ray {with_ray}: equal")


def selected(
    pool: Any, doubt: Any, n_shards: int, budget: int, labeled: Any, strategy: str, with_ray: bool
) -> dubito.Selection:
    """From arrays in shards, on the GPU."""
    edges = [len(pool) * place // n_shards for place in range(n_shards + 1)]
    pieces = [slice(*edges[place : place + 2]) for place in range(n_shards)]
    shards = dubito.Shards(
        [pool[piece] for piece in pieces],
        doubt=[doubt[piece] for piece in pieces],
        workers="cuda",
        workers_per_gpu=n_shards,
    )
    if with_ray:
        return dubito.select(shards, budget, labeled=labeled, strategy=strategy)

    def here(parts: Any) -> LocalWorkers:
        return LocalWorkers(parts, Hardware("cuda", is_required=True))

    rows = None if labeled is None else np.array(labeled)
    return select_shards(
        shards, budget, labeled=rows, strategy=build_strategy(strategy, {}), make_workers=here, n_workers=n_shards
    )


def warm_up(folder: str, ray: Any) -> None:
    """Programs are compiled for a width once: not in what is timed."""
    for width in (256, 512):
        small = os.path.join(folder, f"warm-{width}")
        make(small, 80_000, width, 2)
        for strategy in (CORESET, COVERAGE):
            measured(small, ray, plan_for("cuda", 1), 500, strategy, 2000)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--out", default="cluster-gpu.json")
    parser.add_argument("--folder", default="/tmp/dubito-cluster-gpu")
    parser.add_argument("--minutes", type=float, default=5.8)
    given = parser.parse_args()
    import ray

    started = time.perf_counter()

    def say(text: str) -> None:
        print(f"{time.perf_counter() - started:6.1f} s  {text}", flush=True)

    os.makedirs(given.folder, exist_ok=True)
    for name, shape in POOLS.items():
        make(os.path.join(given.folder, name.replace(" ", "")), *shape, 8, processes=8)
    say("pools are made")
    ray.init("local", num_cpus=max(8, os.cpu_count() or 8), num_gpus=1, include_dashboard=False, log_to_driver=False)
    say("Ray runs")
    check_picks(say)
    check_shards(say)
    warm_up(given.folder, ray)
    say("programs are compiled")
    runs: list[dict[str, Any]] = []
    for name, kind, size, strategy, budget in RUNS:
        left = 60.0 * given.minutes - (time.perf_counter() - started)
        if left < needed(runs, name, kind, size, strategy):
            say(f"left out: {name}, {size} on {kind}, {strategy}")
            continue
        folder = os.path.join(given.folder, name.replace(" ", ""))
        found = measured(folder, ray, plan_for(kind, size), budget, strategy) | {"width": POOLS[name][1]}
        runs.append({"pool": name, **found})
        say(f"{name}, {size} on {kind}, {strategy}: {found['seconds']} s {found['phases']}, {found['rounds']} rounds")
        with open(given.out, "w", encoding="utf-8") as file:
            json.dump({"machine": described(), "runs": runs}, file, indent=1)
    report(runs)


def needed(runs: list[dict[str, Any]], pool: str, kind: str, size: int, strategy: str) -> float:
    """Seconds that a run will take, by those there are: half the workers take twice as long."""
    alike = [run for run in runs if (run["kind"], run["strategy"]) == (kind, strategy)]
    scale = {"1M x 256": 1.0, "4M x 512": 8.0}
    guesses = [run["seconds"] * run["workers"] / size * scale[pool] / scale[run["pool"]] for run in alike]
    return max(guesses, default=15.0 if kind == "cuda" else 45.0) if kind == "cpu" else 20.0


def described() -> dict[str, Any]:
    """What the figures were measured on."""
    import ray
    import torch
    import triton
    from machine import n_cores, processor

    versions = {"dubito": dubito.__version__, "ray": ray.__version__, "torch": torch.__version__}
    return {
        "gpu": torch.cuda.get_device_name(),
        "processor": processor(),
        "cores": n_cores(),
        "versions": versions | {"triton": triton.__version__, "numpy": np.__version__},
        "labelled": LABELED,
        "date": time.strftime("%Y-%m-%d", time.gmtime()),
    }


def report(runs: list[dict[str, Any]]) -> None:
    """A table, and whether all picks of a pool are the same."""
    names = ("seconds", "hire", "open", "start")
    print(f"\n{'pool':10} {'strategy':16} {'workers':>10} " + " ".join(f"{name:>8}" for name in names) + "  rounds")
    for run in runs:
        phases = run["phases"]
        times = " ".join(f"{each:8.2f}" for each in (run["seconds"], *(phases[name] for name in names[1:])))
        whose = f"{run['pool']:10} {run['strategy'].split(':')[0]:16} {run['workers']:>5} {run['kind']:4}"
        print(f"{whose} {times}  {sum(run['advances']):.2f} in {len(run['advances'])}")
    for pool, strategy in sorted({(run["pool"], run["strategy"]) for run in runs}):
        digests = {run["digest"] for run in runs if (run["pool"], run["strategy"]) == (pool, strategy)}
        print(f"{pool}, {strategy}: {'the same picks' if len(digests) == 1 else 'PICKS DIFFER'}")


if __name__ == "__main__":
    main()
