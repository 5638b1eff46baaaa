"""Shards on a Ray cluster against one process with the same cores; figures for docs/explanation/scale.md.

    python benchmarks/cluster.py FOLDER [--rows 1000000] [--width 256] [--budget 5000] [--strategy NAME] [--repeat 2]

Every run is a process of its own: the plain engine with one and two threads, and clusters of one and two workers with a
processor each, on this machine. What is timed is reading the shards and picking, without starting Ray.
"""

import argparse
import json
import os
import subprocess
import sys
import time

import numpy as np
from cluster_runs import LABELED, make, parts


def run_plain(folder: str, budget: int, strategy: str) -> dict[str, object]:
    import dubito
    from dubito.matrix import Stack

    started = time.perf_counter()
    pool = Stack([np.load(path, mmap_mode="r") for path in parts(folder)])
    doubt = np.concatenate([np.load(path) for path in parts(os.path.join(folder, "doubt"))])
    arguments = {"labeled": np.arange(LABELED), "doubt": doubt, "strategy": strategy, "engine": "cpu"}
    found = dubito.select(pool, budget, **arguments)
    return {"seconds": time.perf_counter() - started, "picks": int(found.indices.sum()), "notes": found.notes}


def run_cluster(folder: str, budget: int, strategy: str, workers: int) -> dict[str, object]:
    import ray

    import dubito

    ray.init(num_cpus=workers, include_dashboard=False, log_to_driver=False, logging_level="error")
    shards = dubito.Shards(parts(folder), doubt=parts(os.path.join(folder, "doubt")))
    started = time.perf_counter()
    found = dubito.select(shards, budget, labeled=np.arange(LABELED), strategy=strategy)
    return {"seconds": time.perf_counter() - started, "picks": int(found.indices.sum()), "notes": found.notes}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("folder")
    parser.add_argument("--rows", type=int, default=1_000_000)
    parser.add_argument("--width", type=int, default=256)
    parser.add_argument("--budget", type=int, default=5000)
    parser.add_argument("--strategy", default="coreset")
    parser.add_argument("--repeat", type=int, default=2)
    parser.add_argument("--run", help="(internal) plain, or a number of workers")
    given = parser.parse_args()
    if given.run is not None:
        asked = given.folder, given.budget, given.strategy
        print(json.dumps(run_plain(*asked) if given.run == "plain" else run_cluster(*asked, int(given.run))))
        return
    if not os.path.isdir(given.folder):
        make(given.folder, given.rows, given.width)
    for _ in range(given.repeat):
        for name, threads in (("plain", 1), ("1", 1), ("plain", 2), ("2", 1)):
            limits = {"OPENBLAS_NUM_THREADS": str(threads), "OMP_NUM_THREADS": str(threads)}
            command = [
                sys.executable,
                "-W",
                "ignore",
                __file__,
                given.folder,
                "--budget",
                str(given.budget),
                "--strategy",
                given.strategy,
                "--run",
                name,
            ]
            done = subprocess.run(command, env={**os.environ, **limits}, capture_output=True, text=True, check=True)
            label = f"one process, {threads} threads" if name == "plain" else f"{name} workers"
            print(label, done.stdout.strip().splitlines()[-1], flush=True)


if __name__ == "__main__":
    main()
