"""Compare `dubito.estimate` with the time of selections, for every strategy, on sizes from 2,000 rows to 200,000.

    OPENBLAS_NUM_THREADS=1 python benchmarks/estimates.py            # writes results/estimates.json and .md
    python benchmarks/estimates.py --strategy margin --out /tmp

CPU time is compared if there is one thread: other work on the machine does not disturb it. With more threads it is
elapsed time, which needs an idle machine. A strategy whose estimate exceeds ``--most`` seconds is left out
at that size.
"""

import argparse
import json
import time
from pathlib import Path
from typing import Any

import bench_coverage_cpu as coverage
import machine
import numpy as np

import dubito
from dubito.strategies import STRATEGIES
from dubito.threads import n_threads

HERE = Path(__file__).parent
SIZES: list[tuple[int, int, int, int]] = [
    (2_000, 16, 50, 20),
    (2_000, 64, 100, 20),
    (2_000, 384, 100, 50),
    (10_000, 16, 200, 200),
    (10_000, 64, 1_000, 100),
    (10_000, 384, 200, 50),
    (20_000, 64, 500, 100),
    (50_000, 16, 500, 500),
    (50_000, 64, 2_000, 1_000),
    (50_000, 384, 2_000, 500),
    (100_000, 64, 1_000, 1_000),
    (200_000, 64, 5_000, 2_000),
]
"""Rows, features, labeled rows, picks."""
CLASSES, SAMPLES = 10, 5
LEFT_OUT = ("auto", "optimal-coreset")
"""The first is another one of these, the second cannot be estimated."""


def main() -> None:
    """Print a line for each size and strategy."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--strategy", action="append", help="may be repeated (default: all)")
    parser.add_argument("--most", type=float, default=5.0, help="seconds that a run may take by its estimate")
    parser.add_argument("--out", type=Path, default=HERE / "results", help="folder of the results")
    options = parser.parse_args()
    names = options.strategy or [name for name in STRATEGIES.built_in if name not in LEFT_OUT]
    document: dict[str, Any] = {"machine": machine.describe(), "threads": n_threads(), "rows": []}
    for size in SIZES:
        document["rows"] += measure(*size, names, options.most)
        (options.out / "estimates.json").write_text(json.dumps(document, indent=1) + "\n")
        (options.out / "estimates.md").write_text(page(document))


def measure(n: int, d: int, m: int, budget: int, names: list[str], most: float) -> list[dict[str, Any]]:
    """The least of three runs, or of one that takes long, and the estimate, of each strategy."""
    coverage.SIZES["size"] = n, d, m, budget, "clusters"
    given, rng, rows = coverage.make_task("size", coverage.STRENGTH), np.random.default_rng(1), []
    pool, labeled = given["pool"], given["labeled"]
    clock = time.process_time if n_threads() == 1 else time.perf_counter
    for name in names:
        shape = (n, SAMPLES) if "bald" in name else (n,)
        expected = dubito.estimate(n, d, m, budget, strategy=name, classes=CLASSES, samples=SAMPLES).seconds
        if expected > most:
            continue
        probabilities, times = rng.dirichlet(np.ones(CLASSES), size=shape), list[float]()
        while len(times) < 3 and sum(times) < 1.0:
            started = clock()
            dubito.select(pool, budget, labeled=labeled, probabilities=probabilities, strategy=name)
            times.append(clock() - started)
        row = {"strategy": name, "rows": n, "features": d, "labeled": m, "budget": budget}
        rows.append({**row, "seconds": min(times), "estimate": expected})
        print(
            f"{name:<22} {n:>8,} x {d:<4} {m:>6,} labeled {budget:>6,} picks  {min(times) * 1e3:9.2f} ms  "
            f"estimate {expected * 1e3:9.2f} ms  ratio {expected / min(times):5.2f}",
            flush=True,
        )
    return rows


def page(document: dict[str, Any]) -> str:
    """The ratios of estimates and times."""
    rows, where, threads = document["rows"], document["machine"], document["threads"]
    ratios = {(row["strategy"], row["rows"], row["features"]): row["estimate"] / row["seconds"] for row in rows}
    names = list(dict.fromkeys(row["strategy"] for row in rows))
    n_near = sum(0.5 <= ratio <= 2.0 for ratio in ratios.values())
    kind = "CPU time on one thread" if threads == 1 else f"elapsed time on {threads} threads"
    lines = [
        "# Estimates of time",
        "",
        "Made by `benchmarks/estimates.py`; times are in `estimates.json`.",
        "",
        f"The estimate of `dubito.estimate` over the {kind} of `dubito.select`, on 30 Gaussian clusters with random "
        f"probabilities of {CLASSES} classes. {n_near} of {len(ratios)} are within a factor of 2. A dash: not run, as "
        f"the estimate is too long. {where['system']}, load {where['load_at_start']}; {where['date']}.",
        "",
        f"| rows x features | {' | '.join(names)} |",
        f"| --- |{' --- |' * len(names)}",
    ]
    for n, d, _, _ in SIZES:
        cells = (f"{ratios[name, n, d]:.2f}" if (name, n, d) in ratios else "–" for name in names)
        lines.append(f"| {n:,} x {d} | {' | '.join(cells)} |")
    return "\n".join(lines) + "\n"


if __name__ == "__main__":
    main()
