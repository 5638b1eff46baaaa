"""What more cores are worth: the same picks on 2, 4, 8 and 16 of them, by turns. See README.md beside this file.

Each number of cores has a process of its own that may use no others, so that it is what a machine with as many would
have, caches and memory apart. Results go to ``results/cores.json`` and ``results/cores.md``.
"""

import argparse
import json
import os
import subprocess
import sys
import tempfile
import time
from hashlib import sha256
from pathlib import Path
from statistics import median

import machine
import numpy as np

HERE = Path(__file__).parent
COUNTS = (2, 4, 8, 16)
REPEATS, TURNS = 5, 2
FILES = ("pool", "labelled", "doubt")


def main() -> int:
    """Exit status 1 where the picks are not the same on all."""
    options = read_options()
    if options.cores:
        print(json.dumps(measure(Path(options.folder), options.cores, options.picks)))
        return 0
    facts, cores = machine.describe(), machine.n_cores()
    taken: dict[int, list[float]] = {count: [] for count in COUNTS if count <= cores}
    found = set()
    with tempfile.TemporaryDirectory(dir=options.folder) as folder:
        generate(Path(folder), options.rows, options.picks)
        for _ in range(TURNS):
            for count, seconds in taken.items():
                run = measure_apart(folder, count, options.picks)
                seconds += run["seconds"]
                found.add(run["picks"])
                print(f"{count:>3} cores: {min(run['seconds']):.3f} s at best, {median(run['seconds']):.3f} s mostly")
    if len(found) != 1:
        print("the picks differ")
        return 1
    keep({"machine": facts, "rows": options.rows, "picks": options.picks, "seconds": taken}, options.out)
    return 0


def read_options() -> argparse.Namespace:
    """From the command line."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rows", type=int, default=1_000_000)
    parser.add_argument("--picks", type=int, default=10_000)
    parser.add_argument("--folder", help="where the pool is put meanwhile, 1 GB of it")
    parser.add_argument("--out", type=Path, default=HERE / "results")
    parser.add_argument("--cores", type=int, help=argparse.SUPPRESS)
    return parser.parse_args()


def generate(folder: Path, n_rows: int, n_labeled: int) -> None:
    """A pool of 512 features in half precision, as many labeled as are picked."""
    from workloads import generate_workload

    workload = generate_workload(n_rows, n_labeled)
    arrays = (workload.pool.astype(np.float16), workload.labeled.astype(np.float16), workload.doubt)
    for name, array in zip(FILES, arrays, strict=True):
        np.save(folder / name, array)


def measure_apart(folder: str, n_cores: int, n_picks: int) -> dict[str, list[float]]:
    """In a process that may use so many cores."""
    command = [sys.executable, __file__, "--folder", folder, "--cores", str(n_cores), "--picks", str(n_picks)]
    # BLAS would begin a thread for every core of the machine.
    environment = os.environ | {"OPENBLAS_NUM_THREADS": str(n_cores), "OMP_NUM_THREADS": str(n_cores)}
    first = sorted(os.sched_getaffinity(0))[:n_cores]
    done = subprocess.run(
        command,
        env=environment,
        check=True,
        capture_output=True,
        text=True,
        preexec_fn=lambda: os.sched_setaffinity(0, first),
    )
    return dict(json.loads(done.stdout))


def measure(folder: Path, n_cores: int, n_picks: int) -> dict[str, object]:
    """Seconds of whole calls, after one that is not counted, and what came of them."""
    import dubito

    assert len(os.sched_getaffinity(0)) == n_cores
    pool, labeled, doubt = (np.load(folder / f"{name}.npy") for name in FILES)
    seconds = []
    for _ in range(REPEATS + 1):
        started = time.perf_counter()
        picked = dubito.select(pool, n_picks, labeled=labeled, doubt=doubt, strategy="doubt-coreset", engine="cpu")
        seconds.append(time.perf_counter() - started)
    return {"seconds": seconds[1:], "picks": sha256(picked.indices.tobytes() + picked.priorities.tobytes()).hexdigest()}


def keep(record: dict[str, object], folder: Path) -> None:
    """The record, and a page of it."""
    (folder / "cores.json").write_text(json.dumps(record, indent=1) + "\n", encoding="utf-8")
    (folder / "cores.md").write_text(page(record), encoding="utf-8")


def page(record: dict[str, object]) -> str:
    """A table."""
    facts, taken = record["machine"], record["seconds"]
    assert isinstance(facts, dict)
    assert isinstance(taken, dict)
    least = median(taken[min(taken)])
    lines = [
        "# What more cores are worth",
        "",
        f"{record['picks']:,} picks by `doubt-coreset` out of {record['rows']:,} x 512 in half precision, "
        f"{record['picks']:,} labeled, whole calls.",
        f"{facts['processor']}, {facts['cores']} cores, {facts['system']}, Python {facts['python']}, {facts['date']}, "
        f"load {facts['load_at_start']} at the start. Made by `{facts['command']}`: each number of cores is a process",
        f"that may use no others, {TURNS} times {REPEATS} runs of each by turns. Picks and priorities are equal.",
        "",
        f"| cores | median s | least s | most s | times as quick as {min(taken)} |",
        "| ---: | ---: | ---: | ---: | ---: |",
    ]
    lines += [
        f"| {count} | {median(each):.3f} | {min(each):.3f} | {max(each):.3f} | {least / median(each):.2f} |"
        for count, each in taken.items()
    ]
    return "\n".join(lines) + "\n"


if __name__ == "__main__":
    sys.exit(main())
