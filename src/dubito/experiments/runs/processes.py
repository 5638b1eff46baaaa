"""Several processes on one experiment, started and watched from here."""

import json
import os
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import IO

from dubito.errors import DubitoError, InvalidArgument, InvalidData, MemoryLimit, MissingExtra, MissingFile
from dubito.experiments.runs.work import PATIENCE
from dubito.wording import named

THREADS = ("OPENBLAS_NUM_THREADS", "OMP_NUM_THREADS", "MKL_NUM_THREADS", "VECLIB_MAXIMUM_THREADS")
KINDS = {kind.__name__: kind for kind in (InvalidArgument, InvalidData, MemoryLimit, MissingExtra, MissingFile)}
"""Errors of a worker that are raised again here as what they were."""


@dataclass(frozen=True, slots=True)
class Worker:
    """A process and what it prints."""

    process: subprocess.Popen[bytes]
    output: IO[bytes]

    def complaint(self) -> DubitoError:
        """What went wrong with it."""
        self.output.seek(0)
        lines = self.output.read().decode(errors="replace").strip().splitlines()
        try:
            record = json.loads(lines[-1])
            kind: type[DubitoError] = KINDS.get(record["error"], DubitoError)
            return kind.from_record(record)
        except (IndexError, ValueError, TypeError, KeyError):
            return self._last_words(lines)

    def _last_words(self, lines: Sequence[str]) -> DubitoError:
        kept = "what was done is kept: resume"
        if self.process.returncode < 0:
            name = signal.Signals(-self.process.returncode).name
            problem = f"a worker was ended by {name}, as happens when memory runs out"
            return DubitoError(problem, mend=f"{kept} with fewer workers.")
        last = lines[-1] if lines else "it said nothing"
        return DubitoError(f"a worker failed: {last}", mend=f"{kept} with {named('workers', 1)} to see where.")


def run_workers(folder: Path, count: int, step: Callable[[], None]) -> None:
    """Let ``count`` processes work until the experiment is done; one that fails stops all."""
    with started(folder, count) as workers:
        while True:
            codes = [worker.process.poll() for worker in workers]
            step()
            failed = next((place for place, code in enumerate(codes) if code), None)
            if failed is not None:
                raise workers[failed].complaint()
            if all(code == 0 for code in codes):
                return
            time.sleep(PATIENCE)


@contextmanager
def started(folder: Path, count: int) -> Iterator[list[Worker]]:
    """Processes that are ended with the block, however it ends."""
    with ExitStack() as stack:
        outputs = [stack.enter_context(tempfile.TemporaryFile()) for _ in range(count)]
        yield [start_worker(folder, output, stack) for output in outputs]


def start_worker(folder: Path, output: IO[bytes], stack: ExitStack) -> Worker:
    """One process; its standard input is held open for as long as we live."""
    process = subprocess.Popen(
        [sys.executable, "-m", "dubito.experiments.runs.worker", str(folder)],
        stdin=subprocess.PIPE,
        stdout=output,
        stderr=subprocess.STDOUT,
        env={**os.environ, **dict.fromkeys(THREADS, "1")},
    )
    stack.enter_context(process)
    stack.callback(process.terminate)
    return Worker(process, output)
