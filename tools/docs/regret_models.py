"""Run strategies with forests, perceptrons or linear models on the tables of the board of regret, on all cores.

``python tools/docs/regret_models.py RAW RUNS`` makes the pools from the files in RAW (`regret_pools`), and one run for
each seed, model, table and number of labels a round, in this order of loops: all tables have the first seeds, wherever
it is stopped. The same command continues it. ``python tools/docs/regret.py RUNS/*/`` stores the curves of whole runs.
"""

import argparse
import multiprocessing
import os
import sys
import time
from contextlib import suppress
from itertools import product
from pathlib import Path

import numpy as np
from regret_pools import ALL_TABLES, any_table, write

from dubito.experiments import Arm, Data, Experiment, Schedule, run_experiment
from dubito.experiments.models.kinds import model_from_table
from dubito.experiments.plan import parse_strategy, read_seeds
from dubito.experiments.runner import THREADS

MODELS = {"linear": {"c": 1.0, "iterations": 300}, "forest": {}, "mlp": {}}
SCHEDULES = {10: Schedule(20, 10, 6), 50: Schedule(50, 50, 5), 400: Schedule(400, 400, 4)}
"""Labels a round: those of the board."""
ROWS = {10: 1200, 50: 1200, 400: 3000}
FEW_ROWS = {"vowel": 700}
STRATEGIES = (
    "random", "margin", "auto", "auto:metric=cosine", "badge", "coverage", "doubt-coreset",
    "largest-cluster:strength=1", "least-confidence", "uncertainty-herding",
)  # fmt: skip
LINE = 10.0
"""Seconds between two lines of progress."""

Task = tuple[Experiment, Path]


def plan(pools: Path, table: str, size: int, model: str, arms: tuple[Arm, ...], seed: int) -> Experiment:
    """The experiment of one pool and seed, with the settings of the board."""
    data = Data(path=str(pools / f"{table}.npz"), rows=FEW_ROWS.get(table.removesuffix("-raw"), ROWS[size]))
    kind = model_from_table({"kind": model, **MODELS[model]})
    return Experiment(f"{table}-{size}", arms, data, SCHEDULES[size], kind, seeds=(seed,))


def run(task: Task) -> str:
    """Run or continue one experiment."""
    experiment, folder = task
    run_experiment(experiment, folder)
    return folder.name


def read_arguments(arguments: list[str]) -> argparse.Namespace:
    reader = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    reader.add_argument("raw", type=Path, help="folder with the published files")
    reader.add_argument(
        "runs", type=lambda text: Path(text).resolve(), help="folder for the runs, and for the pools (.npz)"
    )
    reader.add_argument("--strategies", nargs="+", default=STRATEGIES, help="such as margin coverage:strength=2")
    reader.add_argument("--models", nargs="+", default=["forest"], choices=MODELS)
    reader.add_argument("--tables", nargs="+", default=ALL_TABLES, choices=ALL_TABLES)
    reader.add_argument("--sizes", nargs="+", type=int, default=[10, 50], choices=SCHEDULES, help="labels a round")
    reader.add_argument("--seeds", type=int, default=10, help="their number")
    reader.add_argument("--as-is", action="store_true", help="do not standardize tables")
    reader.add_argument("--workers", type=int, default=os.cpu_count())
    reader.add_argument("--seconds", type=float, default=float("inf"), help="stop after this time")
    return reader.parse_args(arguments)


def main(arguments: list[str]) -> None:
    started, given = time.monotonic(), read_arguments(arguments)
    given.runs.mkdir(parents=True, exist_ok=True)
    tables = [f"{name}-raw" if given.as_is else name for name in given.tables]
    for name, pool in zip(given.tables, tables, strict=True):
        if not (given.runs / f"{pool}.npz").exists():
            write(given.runs / f"{pool}.npz", *any_table(given.raw, name), np.float64, raw=given.as_is)
    arms = tuple(map(parse_strategy, given.strategies))
    tasks = [
        (plan(given.runs, table, size, model, arms, seed), given.runs / f"{model}-{table}-{size}-{seed}")
        for seed, model, table, size in product(read_seeds(given.seeds), given.models, tables, given.sizes)
    ]
    os.environ.update(dict.fromkeys(THREADS, "1"))
    print(f"{len(tasks)} runs of {len(arms)} strategies on {given.workers} cores", flush=True)
    done, shown = list[str](), started
    with multiprocessing.get_context("spawn").Pool(given.workers) as workers:
        results = workers.imap_unordered(run, tasks)
        while len(done) < len(tasks) and (now := time.monotonic()) - started < given.seconds:
            with suppress(multiprocessing.TimeoutError):
                done.append(results.next(timeout=1.0))
            if now - shown > LINE or len(done) == len(tasks):
                shown = now
                print(f"{now - started:.0f} s: {len(done)} of {len(tasks)} runs", *done[-1:], flush=True)


if __name__ == "__main__":
    main(sys.argv[1:])
