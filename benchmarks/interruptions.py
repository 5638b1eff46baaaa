"""Interrupt `dubito select` with coverage at random moments, as Ctrl-C does, and look at what it leaves.

    python benchmarks/interruptions.py              # 200 runs; writes results/interruptions.json and .md
    python benchmarks/interruptions.py --runs 10 --out /tmp

Each run is a process of its own. It must end without a traceback, and either with picks, which are the first of those
of an undisturbed run, or with a message that there are none. Moments are spread evenly from when
``dubito.__main__.main`` begins to import, before NumPy is there, to some time after the end of an undisturbed run.
"""

import argparse
import json
import signal
import subprocess
import sys
import tempfile
import time
from collections import Counter
from pathlib import Path
from typing import Any

import machine
import numpy as np

HERE = Path(__file__).parent
ROWS, FEATURES, LABELED, BUDGET = 60_000, 64, 500, 5_000
PROGRAM = """
import sys
from dubito.__main__ import main


class Mark:
    def find_spec(self, name, *others):
        if name == "dubito.cli":
            print(flush=True)


sys.meta_path.insert(0, Mark())
sys.exit(main())
"""
"""Prints a line when `main` begins to import."""
PATIENCE = 600.0


def main() -> int:
    """Exit status 1 if a run left something else."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--runs", type=int, default=200)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--out", type=Path, default=HERE / "results", help="folder of the results")
    options = parser.parse_args()
    # A shell without job control starts what runs in the background deaf to Ctrl-C, and its children with it.
    signal.signal(signal.SIGINT, signal.default_int_handler)
    with tempfile.TemporaryDirectory() as folder:
        record = measure(Path(folder), options.runs, options.seed)
    (options.out / "interruptions.json").write_text(json.dumps(record, indent=1) + "\n")
    (options.out / "interruptions.md").write_text(page(record))
    print(page(record))
    return 1 if record["wrong"] else 0


def measure(folder: Path, n_runs: int, seed: int) -> dict[str, Any]:
    """What every run left."""
    rng = np.random.default_rng(0)
    centers = 3.0 * rng.standard_normal((30, FEATURES))
    points = rng.standard_normal((ROWS, FEATURES)) + centers[rng.integers(30, size=ROWS)]
    np.save(folder / "pool.npy", points.astype(np.float32))
    np.save(folder / "doubt.npy", rng.random(ROWS))
    np.save(folder / "labeled.npy", np.sort(rng.choice(ROWS, LABELED, replace=False)))
    whole, moments = select(folder, None), np.random.default_rng(seed)
    assert len(whole["picks"]) == BUDGET, whole["message"]
    runs, longest = list[dict[str, Any]](), whole["seconds"]
    for _ in range(n_runs):
        run = select(folder, float(moments.uniform(0.0, 1.1 * longest)))
        run["outcome"] = outcome(run, whole["picks"])
        if run["outcome"] == "had ended":
            longest = 0.5 * (longest + run["seconds"])  # The machine may have become faster or slower.
        run["n_picks"] = len(run.pop("picks"))
        runs.append(run)
        print(f"{len(runs):>4}  {run['moment']:6.2f} s  {run['outcome']}, {run['n_picks']} picks", flush=True)
    wrong = [run for run in runs if run["outcome"] not in RIGHT]
    sizes = {"rows": ROWS, "features": FEATURES, "labeled": LABELED, "budget": BUDGET}
    return {"machine": machine.describe(), **sizes, "seed": seed, "wrong": len(wrong), "runs": runs}


def select(folder: Path, moment: float | None) -> dict[str, Any]:
    """Run the command, with SIGINT so many seconds after the command has started."""
    output = folder / "picks.csv"
    output.unlink(missing_ok=True)
    command = [sys.executable, "-c", PROGRAM, "select", str(folder / "pool.npy"), "--budget", str(BUDGET)]
    command += ["--doubt", str(folder / "doubt.npy"), "--labeled", str(folder / "labeled.npy")]
    command += ["--strategy", "doubt-coverage", "--engine", "cpu", "-o", str(output)]
    pipe = subprocess.PIPE
    with subprocess.Popen(command, stdout=pipe, stderr=pipe, text=True) as process:
        assert process.stdout is not None
        process.stdout.readline()
        started = time.perf_counter()
        if moment is not None:
            try:
                process.wait(moment)
            except subprocess.TimeoutExpired:
                process.send_signal(signal.SIGINT)
        _, errors = process.communicate(timeout=PATIENCE)
        seconds = time.perf_counter() - started
    lines = output.read_text().splitlines()[1:] if output.exists() else []
    picks = [line.split(",")[1:] for line in lines]
    return {"moment": moment, "seconds": seconds, "code": process.returncode, "message": errors, "picks": picks}


RIGHT = ("had ended", "first picks", "a message that there are none")


def outcome(run: dict[str, Any], whole: list[list[str]]) -> str:
    """What a run left, in words."""
    n, message = len(run["picks"]), run["message"]
    if "Traceback" in message:
        return "a traceback"
    if run["picks"] != whole[:n]:
        return "wrong picks"
    if run["code"] == 0:
        return "had ended" if n == len(whole) else "success without all picks"
    if run["code"] != 130 or "interrupted" not in message:
        return "no message"
    return "first picks" if n else "a message that there are none"


def page(record: dict[str, Any]) -> str:
    """A table of what runs left."""
    counts = Counter(run["outcome"] for run in record["runs"])
    lines = [
        "# Ctrl-C at random moments",
        "",
        "Made by `benchmarks/interruptions.py`; every run is in `interruptions.json`.",
        "",
        f"`dubito select` with coverage, {record['rows']:,} x {record['features']}, {record['labeled']:,} labeled, "
        f"{record['budget']:,} picks, interrupted {len(record['runs'])} times, from its first line, before imports, to "
        f"after its end. {len(record['runs']) - record['wrong']} of {len(record['runs'])} runs left what they should. "
        f"{record['machine']['system']}, load {record['machine']['load_at_start']}; {record['machine']['date']}.",
        "",
        "| left | runs |",
        "| --- | --- |",
        *(f"| {name} | {count} |" for name, count in counts.most_common()),
    ]
    return "\n".join(lines) + "\n"


if __name__ == "__main__":
    sys.exit(main())
