"""Runs that the cost model of docs/explanation/scale.md is fitted to: driver and shards in one process, one thread.

    python benchmarks/scale_runs.py FOLDER [--out benchmarks/results/scale.json]

What is noted is processor time, of the driver and of every shard by itself, so that a busy machine changes little, and
64 shards can be had on one core. `cluster.py` has the runs that it is checked against.
"""

import argparse
import json
import os
import time
from typing import Any

import numpy as np
from cluster_runs import make, parts

GRID = (
    # rows, width, shards, labeled, budget
    (100_000, 64, 1, 1000, 500), (100_000, 64, 16, 1000, 500), (100_000, 256, 2, 1000, 500),
    (100_000, 256, 4, 5000, 2000), (100_000, 64, 64, 5000, 2000), (200_000, 128, 1, 2000, 1000),
    (200_000, 128, 8, 2000, 4000), (200_000, 256, 2, 5000, 2000), (200_000, 64, 2, 10_000, 4000),
    (400_000, 64, 1, 1000, 1000), (400_000, 64, 4, 5000, 8000), (400_000, 256, 1, 5000, 2000),
    (400_000, 256, 4, 2000, 4000), (400_000, 256, 16, 10_000, 2000), (400_000, 128, 64, 5000, 4000),
    (400_000, 128, 2, 10_000, 1000), (400_000, 256, 2, 1000, 8000), (200_000, 256, 32, 1000, 500),
)  # fmt: skip
HELD_OUT = ((400_000, 256, 8, 5000, 6000), (200_000, 128, 32, 5000, 2000), (400_000, 64, 16, 2000, 500))


def in_shards(paths: list[str], n_shards: int) -> list[Any]:
    """Rows of files as so many arrays, mapped."""
    arrays = [np.load(path, mmap_mode="r") for path in paths]
    per_file = -(-n_shards // len(arrays))
    return [
        array[len(array) * place // per_file : len(array) * (place + 1) // per_file]
        for array in arrays
        for place in range(per_file)
    ]


def measure(folder: str, n_shards: int, n_labeled: int, budget: int) -> dict[str, Any]:
    """Processor seconds by phase: those of the slowest shard and of all, and the driver's; rounds and bytes."""
    from dubito.engines.cluster.workers import LocalWorkers
    from dubito.sharding import run
    from dubito.sharding.shards import Shards
    from dubito.strategies import build_strategy

    spent: dict[str, list[float]] = {}

    class Timed(LocalWorkers):
        """Shards that note what they took."""

        def ask_one(self, shard: int, method: str, *arguments: Any) -> Any:
            started = time.process_time()
            answer = super().ask_one(shard, method, *arguments)
            spent.setdefault(method, [0.0] * len(self))[shard] += time.process_time() - started
            return answer

    traffic: list[Any] = []
    describe_run = run.describe_run
    run.describe_run = lambda workers, layout, moved, journal: (
        traffic.append(moved) or describe_run(workers, layout, moved, journal)
    )
    started = time.process_time()
    run.select_shards(
        Shards(in_shards(parts(folder), n_shards)),
        budget,
        labeled=np.arange(n_labeled),
        strategy=build_strategy("coreset", {}),
        make_workers=Timed,
        n_workers=n_shards,
    )
    whole = time.process_time() - started
    run.describe_run = describe_run
    moved = traffic[0]
    return {
        "rounds": moved.rounds,
        "sent": moved.sent,
        "received": moved.received,
        "slowest": {name: round(max(each), 4) for name, each in spent.items()},
        "mean": {name: round(sum(each) / len(each), 4) for name, each in spent.items()},
        "driver": round(whole - sum(sum(each) for each in spent.values()), 4),
    }


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("folder")
    parser.add_argument("--out", default="benchmarks/results/scale.json")
    given = parser.parse_args()
    from machine import describe

    record: dict[str, Any] = {"machine": describe(), "runs": [], "held_out": []}
    for name, shapes in (("runs", GRID), ("held_out", HELD_OUT)):
        for rows, width, n_shards, n_labeled, budget in shapes:
            folder = os.path.join(given.folder, f"{rows}x{width}")
            if not os.path.isdir(folder):
                make(folder, rows, width, 1)
            shape = {"rows": rows, "width": width, "shards": n_shards, "labelled": n_labeled, "budget": budget}
            record[name].append(shape | measure(folder, n_shards, n_labeled, budget))
            print(json.dumps(record[name][-1]), flush=True)
            with open(given.out, "w", encoding="utf-8") as file:
                json.dump(record, file, indent=1)


if __name__ == "__main__":
    main()
