"""A dozen ratios in under three minutes, kept over time: ``make ratios``. See README.md beside this file.

Every ratio is of two things in this run, so that a slow machine moves it little. A line is added to
``results/history.jsonl``, and what has become slower than it mostly was on such a machine is said.
"""

import argparse
import json
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path
from statistics import median
from typing import Any

import machine
import numpy as np
from against_numpy import greedy_loop
from workloads import Task, Workload, generate_workload, read_workload

import dubito

HERE = Path(__file__).parent
HISTORY = HERE / "results" / "history.jsonl"
SHAPES = (
    *((2_000, 64, 100, 20), (2_000, 64, 200, 100), (2_000, 512, 200, 50), (5_000, 64, 250, 50)),
    *((5_000, 512, 250, 20), (5_000, 512, 500, 100), (10_000, 128, 500, 100), (20_000, 64, 1_000, 200)),
    *((20_000, 512, 1_000, 100), (50_000, 512, 2_000, 100), (200_000, 64, 2_000, 200), (200_000, 512, 2_000, 100)),
)
"""Rows, features, labeled and picks of the twelve sizes."""
SLOWER = 0.7
"""The share of what it mostly was under which a ratio is said to have fallen."""
METHOD = "doubt-coreset"

Ratios = dict[str, float]


def main() -> int:
    """Exit status 1 where a ratio has fallen."""
    options = read_options()
    started, facts = time.perf_counter(), machine.describe()
    real = read_workload(options.pool) if options.pool else generate_workload(200_000, 2_000)
    found: Ratios = {}
    for name, ratio in ratios(real, SHAPES[:4] if options.quick else SHAPES):
        found[name] = round(ratio, 2)
        print(f"{name:<52} {ratio:8.2f}", flush=True)
    seconds = time.perf_counter() - started
    print(f"{seconds:.0f} s on {facts['cores']} cores, load {facts['load_at_start']} at the start")
    fallen = list(compare(found, facts))
    print("\n".join(fallen) or "nothing has become slower than it mostly was")
    if not options.quick:
        keep(found, facts, seconds)
    return 1 if fallen else 0


def read_options() -> argparse.Namespace:
    """From the command line."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--pool", type=Path, help="a real pool (.npz) in the place of a generated one")
    parser.add_argument("--quick", action="store_true", help="a few sizes, and nothing is kept: shows that it runs")
    return parser.parse_args()


def ratios(real: Workload, shapes: tuple[tuple[int, int, int, int], ...]) -> Iterator[tuple[str, float]]:
    """By name; above 1 is good for dubito in those that name an opponent."""
    yield "a call of 100 x 8, 5 picks, in ms (no ratio)", 1000 * seconds_of(small_call(), 50)
    for n, d, m, budget in shapes:
        for kind, workload in (("real", cut(real, n, d, m)), ("isotropic", isotropic(n, d, m))):
            if len(workload.pool) == n:
                task = Task(workload, budget, False)
                ours, loop = chooser(task), lambda task=task: greedy_loop(task)
                repeats = 5 if n * d < 4_000_000 else 1
                yield f"NumPy loop, {n} x {d}, {m} labeled, {budget} picks, {kind}", against(loop, ours, repeats)
    few = cut(real, 20_000, 512, 1_000)
    if len(few.pool) == 20_000 and len(shapes) == len(SHAPES):
        task = Task(few, 500, True)
        yield (
            "a beam of 20 over a beam of 1, 20000 x 512, 500 picks",
            against(chooser(replace(task, beam_width=20)), chooser(task), 2),
        )
        yield "from scratch over a second round with label()", second_round(few)


def seconds_of(run: Callable[[], object], repeats: int) -> float:
    """The median, after one run that is not counted."""
    run()
    taken = []
    for _ in range(repeats):
        started = time.perf_counter()
        run()
        taken.append(time.perf_counter() - started)
    return median(taken)


def against(theirs: Callable[[], object], ours: Callable[[], object], repeats: int) -> float:
    """How many times as long theirs takes; by turns, so that a slow minute meets both."""
    pairs = [(seconds_of(theirs, 1), seconds_of(ours, 1)) for _ in range(repeats)]
    return median(their for their, _ in pairs) / median(our for _, our in pairs)


def chooser(task: Task) -> Callable[[], object]:
    """dubito on a task."""
    workload = task.workload
    doubt = workload.doubt if task.is_scaled else None
    return lambda: dubito.select(
        workload.pool,
        task.budget,
        labeled=workload.labeled,
        doubt=doubt,
        strategy=METHOD if task.is_scaled else "coreset",
        beam_width=task.beam_width,
        engine="cpu",
    )


def small_call() -> Callable[[], object]:
    """What a call costs beside its work."""
    rng = np.random.default_rng(0)
    pool, doubt = rng.standard_normal((100, 8)), rng.random(100)
    return lambda: dubito.select(pool, 5, labeled=pool[:5] + 1.0, doubt=doubt, strategy=METHOD, engine="cpu")


def cut(workload: Workload, n: int, d: int, m: int) -> Workload:
    """Some rows and columns; fewer rows where there are not as many."""
    pool, labeled = (
        np.ascontiguousarray(each[:rows, :d]) for each, rows in ((workload.pool, n), (workload.labeled, m))
    )
    return replace(workload, pool=pool, labeled=labeled, doubt=workload.doubt[:n])


def isotropic(n: int, d: int, m: int) -> Workload:
    """Features without any structure."""
    rng = np.random.default_rng(0)
    points = rng.standard_normal((n + m, d), dtype=np.float32)
    return Workload("isotropic", points[m:], points[:m], rng.random(n))


def second_round(workload: Workload, budget: int = 500) -> float:
    """A round from scratch over label() and select of a `dubito.Pool` with a round behind it."""
    features = np.concatenate([workload.pool, workload.labeled])
    rows, doubt = (
        np.arange(len(workload.pool), len(features)),
        np.append(workload.doubt, np.zeros(len(workload.labeled))),
    )
    later, scratch = [], []
    for _ in range(3):
        pool = dubito.Pool(features)
        pool.label(rows=rows)
        first = pool.select(budget, doubt=doubt, strategy=METHOD, engine="cpu")
        started = time.perf_counter()
        pool.label(first)
        second = pool.select(budget, doubt=np.sqrt(doubt), strategy=METHOD, engine="cpu")
        later.append(time.perf_counter() - started)
        started = time.perf_counter()
        again = dubito.select(
            features, budget, labeled=pool.labeled, doubt=np.sqrt(doubt), strategy=METHOD, engine="cpu"
        )
        scratch.append(time.perf_counter() - started)
        assert second.indices.tolist() == again.indices.tolist()
    return median(scratch) / median(later)


def compare(found: Ratios, facts: dict[str, Any]) -> Iterator[str]:
    """What has fallen, in words; of earlier runs, those on such a machine count."""
    lines = HISTORY.read_text().splitlines() if HISTORY.exists() else []
    earlier = [json.loads(line) for line in lines]
    earlier = [each for each in earlier if all(each[name] == facts[name] for name in ("system", "cores"))]
    for name, ratio in found.items():
        before = [each["ratios"][name] for each in earlier if name in each["ratios"]]
        if not before:
            continue
        usual = median(before)
        is_cost = name.startswith(("a call", "a beam"))
        if (usual / ratio if is_cost else ratio / usual) < SLOWER:
            yield f"slower: {name} is {ratio:.2f}, and was {usual:.2f} mostly (of {len(before)} runs)"


def keep(found: Ratios, facts: dict[str, Any], seconds: float) -> None:
    """One line more."""
    said = subprocess.run(
        ["git", "rev-parse", "--short", "HEAD"], capture_output=True, text=True, check=False, cwd=HERE
    )
    kept = {
        name: facts[name] for name in ("date", "system", "cores", "python", "blas", "sgemm_gflops", "load_at_start")
    }
    line = kept | {"commit": said.stdout.strip(), "seconds": round(seconds), "ratios": found}
    with HISTORY.open("a", encoding="utf-8") as file:
        file.write(json.dumps(line) + "\n")


if __name__ == "__main__":
    sys.exit(main())
