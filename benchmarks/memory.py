"""Peak anonymous memory of one selection from files, in a process of its own. Run by bench_select.py; Linux only.

RssAnon counts what the process allocated and not the pages of the memory map, which the system may drop at will.
"""

import argparse
import json
import subprocess
import sys
import threading
import time
from dataclasses import replace
from pathlib import Path
from typing import Any

from against_dubito import select
from agreement import certify
from workloads import Task, Workload, open_workload

STATUS = Path("/proc/self/status")
EVERY = 0.005
"""Seconds between looks."""


class Watch:
    """The largest RssAnon seen while it watches, in bytes beyond the first."""

    def __init__(self) -> None:
        self.first = self.most = anonymous_bytes()
        self.is_over = threading.Event()
        self.thread = threading.Thread(target=self._look, daemon=True)

    def _look(self) -> None:
        while not self.is_over.wait(EVERY):
            self.most = max(self.most, anonymous_bytes())

    def __enter__(self) -> "Watch":
        self.thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self.is_over.set()
        self.thread.join()


def anonymous_bytes() -> int:
    """RssAnon of this process."""
    line = next(line for line in STATUS.read_text().splitlines() if line.startswith("RssAnon"))
    return int(line.split()[1]) * 1024


def measure_in_child(folder: Path, task: Task, memory_limit: str | None, should_certify: bool) -> dict[str, Any]:
    """Seconds and bytes of a selection from the files in ``folder``, reckoned in a fresh process."""
    n, m = len(task.workload.pool), len(task.workload.labeled)
    command = [sys.executable, __file__, str(folder), str(n), str(m), str(task.budget)]
    command += ["--scaled"] * task.is_scaled + ["--certify"] * should_certify
    command += ["--memory-limit", memory_limit] if memory_limit else []
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    if done.returncode:
        raise RuntimeError(done.stderr.strip().splitlines()[-1])
    record: dict[str, Any] = json.loads(done.stdout)
    return record


def measure(task: Task, memory_limit: str | None, should_certify: bool) -> dict[str, object]:
    """Libraries are loaded and their threads started before the first look."""
    select(task.small(), memory_limit)
    time.sleep(0.2)
    with Watch() as watch:
        started = time.perf_counter()
        outcome = select(task, memory_limit)
        seconds = time.perf_counter() - started
    record: dict[str, object] = {"seconds": seconds, "peak_bytes": watch.most - watch.first}
    if should_certify and outcome.priorities is not None:
        record["agreement"] = certify(task, outcome.picks, outcome.priorities)
    return record


def main() -> None:
    """Prints a JSON object."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("folder", type=Path)
    parser.add_argument("n", type=int)
    parser.add_argument("m", type=int)
    parser.add_argument("budget", type=int)
    parser.add_argument("--scaled", action="store_true")
    parser.add_argument("--certify", action="store_true")
    parser.add_argument("--memory-limit")
    options = parser.parse_args()
    whole: Workload = open_workload(options.folder)
    workload = replace(
        whole, pool=whole.pool[: options.n], labeled=whole.labeled[: options.m], doubt=whole.doubt[: options.n]
    )
    task = Task(workload, options.budget, options.scaled)
    print(json.dumps(measure(task, options.memory_limit, options.certify)))


if __name__ == "__main__":
    main()
