"""Time coverage on the CPU at several sizes, and beside another checkout of dubito in the same run.

    python benchmarks/bench_coverage_cpu.py                                   # this checkout
    python benchmarks/bench_coverage_cpu.py --against ../before --pool features.npz small table

Every checkout runs in a process of its own, in turn, and must give the same picks: those of the float64 reference where
the problem is small enough for it, otherwise the picks of each other. A checkout needs its compiled extension.
``--out benchmarks/results`` writes ``coverage-cpu.json`` and ``.md`` there.
"""

import argparse
import json
import os
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import machine
import numpy as np

HERE = Path(__file__).resolve().parent
STRENGTH = 3.0
"""Of the default strategy on frozen features."""
MOST_PRODUCTS = 5e10
"""Products of features up to which the reference is run."""
SIZES: dict[str, tuple[int, int, int, int, str]] = {
    "small": (2_000, 64, 100, 20, "clusters"),
    "wide": (10_000, 384, 200, 50, "clusters"),
    "medium": (20_000, 64, 500, 100, "clusters"),
    "large": (100_000, 64, 1_000, 1_000, "clusters"),
    "sentences": (5_000, 384, 200, 100, "sentences"),
    "table": (8_000, 16, 500, 100, "table"),
    "million": (1_000_000, 64, 10_000, 10_000, "half clusters"),
}
"""Rows, features, labeled rows, picks and the kind of data."""


def make_task(name: str, strength: float) -> dict[str, Any]:
    """The arguments of `dubito.select`."""
    if name.endswith(".npz"):
        return read_pool(Path(name), strength)
    n, d, m, budget, kind = SIZES[name]
    rng = np.random.default_rng(0)
    if kind == "sentences":
        # Sentence embeddings lie in a cone, have topics, and a spectrum that falls slowly.
        topics, spectrum = rng.standard_normal((60, d)), (1.0 + np.arange(d)) ** -0.4
        points = (rng.standard_normal((n, d)) + 0.8 * topics[rng.integers(60, size=n)]) * spectrum + 0.15
        points /= np.linalg.norm(points, axis=1, keepdims=True)
    elif kind == "table":
        points = rng.standard_normal((n, 6)) @ rng.standard_normal((6, d)) + 0.5 * rng.standard_normal((n, d))
    else:
        points = np.empty((n, d), dtype=np.float32)
        centers, owner = 3.0 * rng.standard_normal((30, d)), rng.integers(30, size=n)
        for start in range(0, n, 10_000):
            part = slice(start, start + 10_000)
            points[part] = rng.standard_normal((len(owner[part]), d)) + centers[owner[part]]
    probabilities = rng.dirichlet(np.ones(10), size=n)
    top = np.sort(probabilities, axis=1)[:, -2:]
    return {
        "pool": points.astype(np.float16 if kind.startswith("half") else np.float32),
        "budget": budget,
        "labeled": np.sort(rng.choice(n, m, replace=False)),
        "doubt": 1.0 - (top[:, 1] - top[:, 0]),
        "strategy": f"doubt-coverage:strength={strength:g}",
    }


def read_pool(path: Path, strength: float) -> dict[str, Any]:
    """1,000 picks of a pool from a file; see `coverage_workloads.read_cover_task`."""
    from coverage_workloads import read_cover_task

    task = read_cover_task(path)
    return {
        "pool": task.pool,
        "budget": 1_000,
        "labeled": task.labeled,
        "doubt": task.weights,
        "strategy": f"doubt-coverage:strength={strength:g}",
    }


def work(options: argparse.Namespace) -> None:
    """Time one checkout, a run for each line that comes in."""
    import resource

    import dubito

    given = make_task(options.work, options.strength)
    if options.budget:
        given["budget"] = options.budget
    pool, budget = given.pop("pool"), given.pop("budget")
    sizes = *pool.shape, len(given["labeled"]), budget
    first: list[float] = []

    def progress(done: int, total: int, radius: float | None, seconds: float) -> None:
        first.append(time.perf_counter() - started)

    for line in sys.stdin:
        started, used = time.perf_counter(), time.process_time()
        engine = line.strip()
        picked = dubito.select(pool, budget, **given, engine=engine, progress=progress if options.progress else None)
        print(
            json.dumps(
                {
                    "seconds": time.perf_counter() - started,
                    "cpu": time.process_time() - used,
                    "sizes": sizes,
                    "picks": picked.indices.tolist(),
                    "priorities": picked.priorities.tobytes().hex(),
                    "megabytes": resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024,
                    "first_progress": first[0] if first else None,
                }
            ),
            flush=True,
        )


class Checkout:
    """A process that runs one checkout of dubito."""

    def __init__(self, path: Path, name: str, options: argparse.Namespace) -> None:
        command = [sys.executable, str(HERE / "bench_coverage_cpu.py"), "--work", name]
        command += ["--strength", str(options.strength), "--budget", str(options.budget)]
        environment = os.environ | {"PYTHONPATH": str(path / "src")}
        pipe = subprocess.PIPE
        self.process = subprocess.Popen(command, env=environment, stdin=pipe, stdout=pipe, text=True)

    def run(self, engine: str = "cpu") -> dict[str, Any]:
        """One call of select."""
        assert self.process.stdin is not None
        assert self.process.stdout is not None
        self.process.stdin.write(engine + "\n")
        self.process.stdin.flush()
        found: dict[str, Any] = json.loads(self.process.stdout.readline())
        return found

    def close(self) -> None:
        """End the process."""
        assert self.process.stdin is not None
        self.process.stdin.close()
        self.process.wait()


def compare(name: str, options: argparse.Namespace) -> dict[str, Any]:
    """Every checkout in turn, the first run of each not counted; equal picks and priorities first."""
    checkouts = {"here": Checkout(HERE.parent, name, options)}
    if options.against:
        checkouts["before"] = Checkout(options.against.resolve(), name, options)
    firsts = {key: each.run() for key, each in checkouts.items()}
    n, d, *_ = SIZES.get(name, (1 << 20, 1 << 10, 0, 1, ""))
    if n * d * n <= MOST_PRODUCTS and not options.fast:
        firsts["reference"] = checkouts["here"].run("reference")
    for key, found in firsts.items():
        for what in ("picks", "priorities"):
            assert found[what] == firsts["here"][what], f"{name}: {what} of {key} differ"
    runs: dict[str, list[dict[str, Any]]] = {key: [] for key in checkouts}
    for _ in range(options.repeats):
        for key, each in checkouts.items():
            runs[key].append(each.run())
    for each in checkouts.values():
        each.close()
    least = {key: min(run["seconds"] for run in found) for key, found in runs.items()}
    cpu = {key: min(run["cpu"] for run in found) for key, found in runs.items()}
    megabytes = {key: max(run["megabytes"] for run in found) for key, found in runs.items()}
    return {
        "name": name,
        "sizes": firsts["here"]["sizes"],
        "least": least,
        "cpu": cpu,
        "megabytes": megabytes,
        "equal": sorted(firsts),
        "seconds": {k: [run["seconds"] for run in found] for k, found in runs.items()},
    }


def main() -> None:
    """Print a line for each size."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("names", nargs="*", help=f"of {', '.join(SIZES)} (all but million)")
    parser.add_argument("--against", type=Path, help="another checkout, with its extension built")
    parser.add_argument("--pool", type=Path, action="append", default=[], help="a real pool (.npz); may be repeated")
    parser.add_argument("--repeats", type=int, default=5)
    parser.add_argument("--strength", type=float, default=STRENGTH)
    parser.add_argument("--budget", type=int, default=0, help="in place of the size's own")
    parser.add_argument("--fast", action="store_true", help="no comparison with the reference")
    parser.add_argument("--progress", action="store_true", help=argparse.SUPPRESS)
    parser.add_argument("--work", help=argparse.SUPPRESS)
    parser.add_argument("--out", type=Path, help="folder of the results")
    options = parser.parse_args()
    if options.work:
        work(options)
        return
    names = options.names or ([] if options.pool else [name for name in SIZES if name != "million"])
    rows, facts = list[dict[str, Any]](), machine.describe() if options.out else {}
    for name in [*names, *map(str, options.pool)]:
        row = compare(name, options)
        rows.append(row)
        seconds = "  ".join(f"{key} {value * 1e3:9.1f} ms" for key, value in row["least"].items())
        cpu = "  ".join(f"{key} {value * 1e3:9.1f}" for key, value in row["cpu"].items())
        ratio = f"  ratio {row['least']['before'] / row['least']['here']:6.2f}" if "before" in row["least"] else ""
        title = Path(name).name
        print(f"{title:<28} {seconds}  cpu {cpu} {ratio}  equal {', '.join(row['equal'])}", flush=True)
        if options.out:
            record = {"machine": facts, "before": commit_of(options.against), "repeats": options.repeats, "rows": rows}
            (options.out / "coverage-cpu.json").write_text(json.dumps(record, indent=1) + "\n")
            (options.out / "coverage-cpu.md").write_text(page(record))


def commit_of(checkout: Path | None) -> str | None:
    """Its commit, in short."""
    if checkout is None:
        return None
    command = ["git", "-C", str(checkout), "rev-parse", "--short", "HEAD"]
    return subprocess.run(command, capture_output=True, text=True, check=True).stdout.strip()


def page(record: dict[str, Any]) -> str:
    """A table."""
    where = record["machine"]
    lines = [
        "# Coverage on the CPU",
        "",
        "Made by `benchmarks/bench_coverage_cpu.py`; every run is in `coverage-cpu.json`.",
        "",
        f"Whole calls of `dubito.select` with `doubt-coverage`, the least of {record['repeats']} runs, CPU time of all "
        f"threads. *Before*: commit {record['before']}, in the same run by turns. Picks and priorities are equal. "
        f"{where['processor']}, {where['cores']} cores, {where['system']}, load {where['load_at_start']}; "
        f"{where['date']}.",
        "",
        "| | rows x features | labeled | picks | CPU, ms | before, ms | ratio | MB | equal to the float64 reference |",
        "| --- | --- | --- | --- | --- | --- | --- | --- | --- |",
    ]
    for row in record["rows"]:
        n, d, m, budget = row["sizes"]
        cpu, before = row["cpu"]["here"] * 1e3, row["cpu"].get("before")
        cells = (
            *(Path(row["name"]).stem, f"{n:,} x {d}", f"{m:,}", f"{budget:,}", f"{cpu:,.1f}"),
            *(("–", "–") if before is None else (f"{before * 1e3:,.1f}", f"{before * 1e3 / cpu:.2f}")),
            *(f"{row['megabytes']['here']:,.0f}", "yes" if "reference" in row["equal"] else "not compared"),
        )
        lines.append(f"| {' | '.join(cells)} |")
    return "\n".join(lines) + "\n"


if __name__ == "__main__":
    main()
