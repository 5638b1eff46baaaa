"""Time coverage on the CPU or a GPU, equal first, beside what else there is. See README.md beside this file."""

import argparse
import json
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import machine
import numpy as np
from against_coverage import CoverTask, Float64Run, dense_greedy, max_herding
from coverage_page import write_coverage_page
from coverage_workloads import generate_cover_task, read_cover_task

import dubito
from dubito.strategies import DoubtCoverage
from dubito.testing import check_coverage_engine

Record = dict[str, Any]
HERE = Path(__file__).parent
QUICK_FOLDER = HERE.parent / ".cache" / "bench-quick"
REPEATS = {"cpu": 3, "cuda": 9}
SIZES = ((1_000, 1.0), (5_000, 1.0), (1_000, 0.0))
"""Picks and strengths."""


def main() -> int:
    """Exit status 1 where the GPU was asked for and is not there."""
    options = read_options()
    folder = options.out or (QUICK_FOLDER if options.quick else HERE / "results")
    folder.mkdir(parents=True, exist_ok=True)
    path = folder / "coverage.json"
    document: Record = json.loads(path.read_text()) if path.exists() else {}
    if not options.page:
        document[options.engine] = joined(document.get(options.engine, {}), measure(options))
        path.write_text(json.dumps(document, indent=1) + "\n")
    print(write_coverage_page(document, folder / "coverage.md"))
    return 0


def read_options() -> argparse.Namespace:
    """From the command line."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--pool", type=Path, action="append", default=[], help="a real pool (.npz); may be repeated")
    parser.add_argument("--engine", choices=("cpu", "cuda"), default="cpu")
    parser.add_argument(
        "--contract", type=int, default=0, metavar="N", help="first hold the engine to N small problems"
    )
    parser.add_argument("--prove", action="store_true", help="compare with a float64 run (CPU; minutes)")
    parser.add_argument("--peers", type=int, default=0, metavar="ROWS", help="others on so many rows of the first pool")
    parser.add_argument("--peer-picks", type=int, default=20, metavar="B", help="picks that the others make")
    parser.add_argument("--million", action="store_true", help="10,000 of a million rows, generated")
    parser.add_argument("--quick", action="store_true", help="tiny sizes, into .cache: shows that everything runs")
    parser.add_argument("--out", type=Path, help="folder of the results (benchmarks/results)")
    parser.add_argument("--page", action="store_true", help="measure nothing; make the page from the figures there are")
    # Those of the other benchmarks that mean nothing here are let pass.
    return parser.parse_known_args()[0]


def measure(options: argparse.Namespace) -> Record:
    """Every row that was asked for."""
    record: Record = {"machine": machine.describe() | device_of(options.engine), "rows": []}
    if options.contract:
        record["contract"] = hold_to_contract(options.engine, options.contract)
    for place, path in enumerate(options.pool or [None] * (not options.million)):
        task = generate_cover_task(45_000, 5_000) if path is None else read_cover_task(path)
        task = task.head(3_000, 300, 0) if options.quick else task
        for budget, strength in ((100, 1.0),) if options.quick else SIZES:
            record["rows"].append(measure_row(task, budget, strength, options))
        if options.peers and place == 0:
            record["peers"] = measure_peers(task, options.peers, options.peer_picks)
    if options.million:
        record["rows"].append(measure_row(generate_cover_task(1_000_000, 50_000), 10_000, 1.0, options))
    return record


def joined(before: Record, now: Record) -> Record:
    """What was measured now, and rows of the same machine that were not measured again."""
    if before.get("machine", {}).get("gpu") != now["machine"].get("gpu"):
        return now
    again = {(row["data"], row["budget"], row["strength"]) for row in now["rows"]}
    kept = [row for row in before.get("rows", ()) if (row["data"], row["budget"], row["strength"]) not in again]
    return before | now | {"rows": kept + now["rows"]}


def device_of(engine: str) -> Record:
    """The GPU, by its name."""
    if engine == "cpu":
        return {}
    import torch

    return {"gpu": torch.cuda.get_device_name(), "torch": torch.__version__}


def hold_to_contract(engine: str, examples: int) -> Record:
    """Picks and priorities of small problems, bit for bit."""
    from dubito.engines.cpu.coverage.engine import CpuCoverage
    from dubito.engines.cuda.engine import CudaCoverage

    started = time.perf_counter()
    check_coverage_engine(CpuCoverage() if engine == "cpu" else CudaCoverage(), examples=examples)
    print(f"contract: {examples} problems as the reference has them", flush=True)
    return {"examples": examples, "seconds": time.perf_counter() - started}


def measure_row(task: CoverTask, budget: int, strength: float, options: argparse.Namespace) -> Record:
    """One pool, budget and strength: equal first, then timed."""
    weights = task.weights**strength
    asked = CoverTask(task.title, task.pool, task.labeled, weights, budget)
    run = chooser(asked, options.engine)
    first = run()
    record = asked.describe() | {"strength": strength, "covered": float(first.covered[-1])}
    if options.prove:
        picks, _ = Float64Run(asked).solve()
        assert np.array_equal(first.indices, picks), f"{task.title}: picks differ from those of the float64 run"
        record["proof"] = f"{budget:,} picks equal to a float64 run"
    elif options.engine == "cuda" and len(task.pool) <= 100_000:
        host = chooser(asked, "cpu")()
        assert np.array_equal(first.indices, host.indices), f"{task.title}: picks differ from the CPU's"
        assert first.priorities.tobytes() == host.priorities.tobytes(), f"{task.title}: priorities differ"
        record["proof"] = f"{budget:,} picks and priorities equal to the CPU engine's, bit for bit"
    record |= time_of(run, REPEATS[options.engine])
    print(f"{task.title} {budget:,} picks, strength {strength:g}: {record['least']:.4g} s at least", flush=True)
    return record


def chooser(task: CoverTask, engine: str) -> Callable[[], dubito.Selection]:
    """A whole call of select; on a GPU with the features there."""
    pool: Any = task.pool
    labeled: Any = task.labeled
    if engine == "cuda":
        import torch

        pool, labeled = torch.tensor(pool, device="cuda"), torch.tensor(labeled, device="cuda")
    strategy = DoubtCoverage(strength=1.0)
    return lambda: dubito.select(
        pool, task.budget, labeled=labeled, doubt=task.weights, strategy=strategy, engine=engine
    )


def time_of(run: Callable[[], object], repeats: int) -> Record:
    """Every repeat, the least and the median."""
    seconds = []
    for _ in range(repeats):
        started = time.perf_counter()
        run()
        seconds.append(time.perf_counter() - started)
    return {"seconds": seconds, "least": min(seconds), "median": float(np.median(seconds))}


def measure_peers(task: CoverTask, n_rows: int, budget: int) -> Record:
    """The others and dubito on as many rows as the others can hold; all rows alike, since no other has doubt."""
    part = task.head(n_rows, len(task.labeled) // 10, budget)
    part = CoverTask(part.title, part.pool, part.labeled, np.ones(n_rows), budget)
    runs: dict[str, Callable[[], object]] = {
        "dubito": chooser(part, "cpu"),
        "dense greedy in NumPy": lambda: dense_greedy(part),
        f"scikit-activeml {machine.installed('scikit-activeml')} MaxHerding": lambda: max_herding(part),
    }
    record = part.describe() | {"contestants": {}}
    for name, run in runs.items():
        try:
            record["contestants"][name] = time_of(run, 2 if name == "dubito" else 1)
        except (ModuleNotFoundError, MemoryError) as error:
            record["contestants"][name] = {"absent": f"{type(error).__name__}: {error}"}
        print(f"{name}: {record['contestants'][name]}", flush=True)
    return record


if __name__ == "__main__":
    sys.exit(main())
