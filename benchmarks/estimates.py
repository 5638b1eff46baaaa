"""Compare `dubito.estimate` with the time that selections take, on sizes from 2,000 rows to 200,000.

python benchmarks/estimates.py --out estimates.json
"""

import argparse
import json
import time
from pathlib import Path

import bench_coverage_cpu as coverage

import dubito
from dubito.threads import n_threads

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


def main() -> None:
    """Print a line for each size and strategy; the first run of each is not counted."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--strategy", action="append", help="may be repeated (default: doubt-coverage and margin)")
    parser.add_argument("--repeats", type=int, default=2)
    parser.add_argument("--out", type=Path, help="a JSON file")
    options = parser.parse_args()
    rows = []
    for n, d, m, budget in SIZES:
        coverage.SIZES["size"] = n, d, m, budget, "clusters"
        given = coverage.make_task("size", coverage.STRENGTH)
        pool, given_strategy = given.pop("pool"), given.pop("strategy")
        for strategy in options.strategy or ["doubt-coverage", "margin"]:
            times = []
            for _ in range(1 + options.repeats):
                started = time.perf_counter()
                given["strategy"] = given_strategy if strategy == "doubt-coverage" else strategy
                dubito.select(pool, **given)
                times.append(time.perf_counter() - started)
            found = dubito.estimate(n, d, m, budget, strategy=strategy)
            measured = min(times[1:])
            rows.append(
                {
                    "rows": n,
                    "features": d,
                    "labeled": m,
                    "budget": budget,
                    "strategy": strategy,
                    "threads": n_threads(),
                    "seconds": measured,
                    "estimate": found.seconds,
                }
            )
            print(
                f"{strategy:<15} {n:>8,} x {d:<4} {m:>6,} labeled {budget:>6,} picks  {measured * 1e3:9.2f} ms  "
                f"estimate {found.seconds * 1e3:9.2f} ms  ratio {found.seconds / measured:5.2f}",
                flush=True,
            )
    if options.out:
        options.out.write_text(json.dumps(rows, indent=1) + "\n")


if __name__ == "__main__":
    main()
