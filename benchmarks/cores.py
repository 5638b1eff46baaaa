"""What more cores are worth: the same picks on 1 to 16 of them. See README.md beside this file.

    python benchmarks/cores.py                                            # core-sets; results/cores.json and .md
    python benchmarks/cores.py million --pool a.npz --pool b.npz --most 240    # coverage; results/cores-coverage.*

Each number of cores has a process of its own that may use no others, so that it is what a machine with as many would
have, caches and memory apart. A run that could take longer than what is left of ``--most`` seconds, by that of twice as
many cores, is left out, and the page says so.
"""

import argparse
import json
import os
import resource
import subprocess
import sys
import tempfile
import time
from hashlib import sha256
from pathlib import Path
from statistics import median
from typing import Any

import machine
import numpy as np

HERE = Path(__file__).parent
CORE_SET = "core-set"
COUNTS = (16, 8, 4, 2, 1)
TURNS = 2
N_RUNS = {CORE_SET: 5, "million": 1}
"""In a process, after one that is not counted if there are several; 2 of any other workload."""
SLOWER = 2.2
"""Half as many cores take so many times as long, at most."""


def main() -> int:
    """Exit status 1 where the picks are not the same on all."""
    options = read_options()
    if options.cores:
        print(json.dumps(measure(Path(options.folder), options.cores, options.n_runs)))
        return 0
    started, facts = time.perf_counter(), machine.describe()
    names = options.workloads + options.pool or [CORE_SET]
    counts = [count for count in COUNTS if count <= machine.n_cores()]
    workloads = []
    for name in names:
        with tempfile.TemporaryDirectory(dir=options.folder) as folder:
            workloads.append(generate(Path(folder), name, options))
            found = compare(folder, name, counts, options.most - (time.perf_counter() - started))
        workloads[-1] |= found
        if len({run["picks"] for runs in found["runs"].values() for run in runs}) != 1:
            print("the picks differ")
            return 1
        stem = "cores" if names == [CORE_SET] else "cores-coverage"
        record = {"machine": facts, "workloads": workloads}
        (options.out / f"{stem}.json").write_text(json.dumps(record, indent=1) + "\n", encoding="utf-8")
        (options.out / f"{stem}.md").write_text(page(record), encoding="utf-8")
    return 0


def read_options() -> argparse.Namespace:
    """From the command line."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("workloads", nargs="*", help=f"{CORE_SET}, or a size of bench_coverage_cpu.py, such as million")
    parser.add_argument("--pool", action="append", default=[], help="coverage of a real pool (.npz); may be repeated")
    parser.add_argument("--rows", type=int, default=1_000_000, help="of the core-set's pool")
    parser.add_argument("--picks", type=int, default=10_000, help="of the core-set")
    parser.add_argument("--most", type=float, default=np.inf, help="seconds in all, about")
    parser.add_argument("--folder", help="where pools are put meanwhile, 1 GB at most")
    parser.add_argument("--out", type=Path, default=HERE / "results")
    parser.add_argument("--cores", type=int, help=argparse.SUPPRESS)
    parser.add_argument("--n-runs", type=int, help=argparse.SUPPRESS)
    return parser.parse_args()


def generate(folder: Path, name: str, options: argparse.Namespace) -> dict[str, Any]:
    """Save the arguments of `dubito.select`; returns what is to be known of them."""
    if name == CORE_SET:
        from workloads import generate_workload

        # 512 features in half precision, as many labeled as are picked.
        made = generate_workload(options.rows, options.picks)
        given: dict[str, Any] = {"pool": made.pool.astype(np.float16), "labeled": made.labeled.astype(np.float16)}
        given |= {"doubt": made.doubt, "budget": options.picks, "strategy": "doubt-coreset"}
    else:
        from bench_coverage_cpu import STRENGTH, make_task

        given = make_task(name, STRENGTH)
    arrays = {key: value for key, value in given.items() if isinstance(value, np.ndarray)}
    for key, array in arrays.items():
        np.save(folder / key, array)
    others = {key: value for key, value in given.items() if key not in arrays}
    (folder / "others.json").write_text(json.dumps(others))
    pool, labeled = arrays["pool"], arrays["labeled"]
    sizes = {"rows": len(pool), "features": pool.shape[1], "type": str(pool.dtype), "labeled": len(labeled)}
    return {"name": Path(name).stem, **sizes, **others}


def compare(folder: str, name: str, counts: list[int], most: float) -> dict[str, Any]:
    """Runs on each number of cores, the largest first, and the numbers that were left out."""
    started, n_runs, runs = time.perf_counter(), N_RUNS.get(name, 2), dict[int, list[dict[str, Any]]]()
    for _ in range(TURNS if n_runs > 1 else 1):
        last = 0.0
        for count in counts:
            begun = time.perf_counter()
            if SLOWER * last > most - (begun - started):
                print(f"{Path(name).stem}: {count} cores could take too long")
                break
            run = measure_apart(folder, count, n_runs)
            last = time.perf_counter() - begun
            runs.setdefault(count, []).append(run)
            seconds = ", ".join(f"{each:.3f}" for each in run["seconds"])
            print(f"{Path(name).stem}: {count:>2} cores {seconds} s, {run['megabytes']:,.0f} MB", flush=True)
    return {"runs": runs, "left_out": [count for count in counts if count not in runs]}


def measure_apart(folder: str, n_cores: int, n_runs: int) -> dict[str, Any]:
    """In a process that may use so many cores."""
    command = [sys.executable, __file__, "--folder", folder, "--cores", str(n_cores), "--n-runs", str(n_runs)]
    # BLAS would begin a thread for every core of the machine.
    environment = os.environ | {"OPENBLAS_NUM_THREADS": str(n_cores), "OMP_NUM_THREADS": str(n_cores)}
    environment["PYTHONPATH"] = str(HERE.parent / "src")
    first = sorted(os.sched_getaffinity(0))[:n_cores]
    done = subprocess.run(
        command,
        env=environment,
        check=True,
        stdout=subprocess.PIPE,
        text=True,
        preexec_fn=lambda: os.sched_setaffinity(0, first),
    )
    return dict(json.loads(done.stdout))


def measure(folder: Path, n_cores: int, n_runs: int) -> dict[str, object]:
    """Seconds of whole calls, memory with and without the pool, and what came of them."""
    import dubito
    from dubito import native

    assert native.steps is not None, native.why_missing
    assert len(os.sched_getaffinity(0)) == n_cores
    given = {path.stem: np.load(path) for path in folder.glob("*.npy")}
    given |= json.loads((folder / "others.json").read_text())
    pool, budget = given.pop("pool"), given.pop("budget")
    before, seconds = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024, []
    for _ in range(n_runs + (n_runs > 1)):
        started = time.perf_counter()
        picked = dubito.select(pool, budget, **given, engine="cpu")
        seconds.append(time.perf_counter() - started)
    return {
        "seconds": seconds[-n_runs:],
        "megabytes": resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024,
        "megabytes_before": before,
        "picks": sha256(picked.indices.tobytes() + picked.priorities.tobytes()).hexdigest(),
    }


def page(record: dict[str, Any]) -> str:
    """A table of each workload."""
    facts = record["machine"]
    lines = [
        "# What more cores are worth",
        "",
        f"{facts['processor']}, {facts['cores']} cores, {facts['system']}, Python {facts['python']}, {facts['date']}, "
        f"load {facts['load_at_start']} at the start.",
        f"Made by `{facts['command']}`: each number of cores is a process that may use no others. Whole calls of "
        "`dubito.select`; picks and priorities are equal. GB: the largest memory of the process, with the pool.",
    ]
    for each in record["workloads"]:
        lines += [
            "",
            f"{each['name']}: {each['budget']:,} picks by `{each['strategy']}` out of {each['rows']:,} x "
            f"{each['features']} ({each['type']}), {each['labeled']:,} labeled."
            + (f" Left out for time: {', '.join(map(str, each['left_out']))} cores." if each["left_out"] else ""),
            "",
        ]
        taken = {count: [second for run in runs for second in run["seconds"]] for count, runs in each["runs"].items()}
        base = 2 if 2 in taken else min(taken)
        lines += [
            f"| cores | runs | median s | least s | most s | times as quick as {base} | GB |",
            "| ---: | ---: | ---: | ---: | ---: | ---: | ---: |",
        ]
        lines += [
            f"| {count} | {len(own)} | {median(own):.3f} | {min(own):.3f} | {max(own):.3f} | "
            f"{median(taken[base]) / median(own):.2f} | "
            f"{max(run['megabytes'] for run in each['runs'][count]) / 1024:.1f} |"
            for count, own in sorted(taken.items())
        ]
    return "\n".join(lines) + "\n"


if __name__ == "__main__":
    sys.exit(main())
