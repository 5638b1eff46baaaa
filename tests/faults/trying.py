"""One try: the program in a child of this process, and what is to be said of how it ended.

A fork costs a hundredth of a new interpreter, and keeps what goes wrong (a hang, a crash in a parser, memory without
end) to the child.
"""

import contextlib
import fcntl
import gc
import importlib
import os
import pkgutil
import resource
import signal
import sys
import tempfile
import time
import traceback
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import Literal

import numpy as np

from dubito.cli import main
from dubito.errors import DubitoError

Verdict = Literal["same", "as it stands", "refused", "fault"]
VERDICTS: tuple[Verdict, ...] = ("same", "as it stands", "refused", "fault")
PATIENCE = 600.0
"""Seconds after which a child hangs, on a machine that may be busy with other work."""
MOST_WORK = 600
"""Seconds of a processor's work after which it does, too, on one that may be ten times as slow as most."""
PIPE_BYTES = 1 << 20
CRASHED = 70
"""The exit code of a child whose own job broke."""
ERROR = b"dubito: error: "


@dataclass(frozen=True)
class Outcome:
    """What became of a try."""

    verdict: Verdict
    described: str = ""
    """Of a fault: what was done, and what happened."""


@dataclass(frozen=True)
class Ran:
    """How a child ended."""

    code: int
    """Negative for a signal."""
    out: bytes
    err: bytes
    peak: int
    """Bytes of memory that the child held at most, beyond what it began with."""
    hung: bool = False

    @property
    def complaint(self) -> str | None:
        """What is wrong with how it refused; None where nothing is."""
        lines = self.err.splitlines()
        errors = [line for line in lines if line.startswith(ERROR)]
        if self.hung or self.code == -signal.SIGXCPU:
            return "it hangs"
        if self.code not in (1, 2, 3):
            return f"it ended with {self.code}"
        if b"Traceback" in self.err or b"fault in dubito" in self.err:
            return f"unexplained: {self.err[-400:]!r}"
        if len(errors) != 1 or lines[-1] != errors[0]:
            return f"not one line of error: {self.err[-400:]!r}"
        return None


@dataclass(frozen=True)
class Child:
    """A process that was started, and where its output goes."""

    pid: int
    out: int
    """A file in memory."""
    err: int
    """A pipe: what limits the sizes of files does not limit it."""
    begun: float = field(default_factory=time.monotonic)

    def wait(self, seconds: float = PATIENCE) -> Ran:
        """Wait for its end; a child that hangs is killed with all it started."""
        hung = False
        while True:
            pid, status, usage = os.wait4(self.pid, os.WNOHANG)
            if pid:
                break
            if time.monotonic() - self.begun > seconds and not hung:
                hung = True
                self.kill()
            time.sleep(0.002)
        out, err = os.pread(self.out, os.fstat(self.out).st_size, 0), b""
        os.close(self.out)
        with contextlib.suppress(BlockingIOError):  # What the child started may hold its end.
            while part := os.read(self.err, 1 << 16):
                err += part
        os.close(self.err)
        peak = max(0, usage.ru_maxrss * 1024 - floor())
        return Ran(os.waitstatus_to_exitcode(status), out, err, peak, hung)

    def kill(self) -> None:
        """End it, and all it started, at once."""
        with contextlib.suppress(ProcessLookupError):
            os.killpg(self.pid, signal.SIGKILL)


def warm_up() -> None:
    """Load here what every child needs, so that none loads it again."""
    for package in ("cli", "io"):
        for found in pkgutil.walk_packages(importlib.import_module(f"dubito.{package}").__path__, f"dubito.{package}."):
            importlib.import_module(found.name)
    for name in (
        "dubito.experiments.runner",
        "dubito.experiments.worker",
        "sklearn.linear_model",
        "threadpoolctl",
        "rich.console",
        "rich.table",
    ):
        importlib.import_module(name)
    with tempfile.TemporaryDirectory() as folder:
        np.save(Path(folder, "pool.npy"), np.eye(4))
        command = [
            "select",
            str(Path(folder, "pool.npy")),
            "-b",
            "2",
            "-s",
            "coreset",
            "-q",
            "-o",
            f"{folder}/picks.csv",
        ]
        if main(command) != 0:
            raise RuntimeError("dubito does not run at all")
    gc.disable()  # A collector that walks over everything makes the child copy everything.
    gc.freeze()


def floor() -> int:
    """What a child holds before it does anything: what this process does."""
    with open("/proc/self/statm") as file:
        return int(file.read().split()[1]) * os.sysconf("SC_PAGE_SIZE")


def start(
    job: Callable[[], int],
    folder: Path,
    *,
    limits: Iterable[tuple[int, int]] = (),
    stdout: int | None = None,
    stderr: int | None = None,
    environment: Mapping[str, str] | None = None,
) -> Child:
    """Begin a job in a child; its streams go to files of ours where none are given."""
    out, (reader, writer) = os.memfd_create("stdout"), os.pipe()
    fcntl.fcntl(writer, fcntl.F_SETPIPE_SZ, PIPE_BYTES)
    os.set_blocking(reader, False)
    sys.stdout.flush()
    sys.stderr.flush()
    pid = os.fork()
    if pid:
        with contextlib.suppress(OSError):
            os.setpgid(pid, pid)
        os.close(writer)
        return Child(pid, out, reader)
    code = CRASHED
    try:
        os.setpgid(0, 0)
        os.chdir(folder)
        os.environ.update(environment or {})
        os.dup2(out if stdout is None else stdout, 1)
        os.dup2(writer if stderr is None else stderr, 2)
        resource.setrlimit(resource.RLIMIT_CPU, (MOST_WORK, MOST_WORK + 10))
        for which, value in limits:
            resource.setrlimit(which, (value, value))
        code = job()
    except BaseException:
        traceback.print_exc()
    finally:
        with contextlib.suppress(OSError):
            sys.stdout.flush()
        os._exit(code)


def begin(arguments: Sequence[str], folder: Path) -> Child:
    """The program with these arguments, while we go on."""
    return start(partial(main, arguments), folder)


def run(*arguments: str, folder: Path, limits: Iterable[tuple[int, int]] = (), seconds: float = PATIENCE) -> Ran:
    """The program with these arguments."""
    return start(partial(main, arguments), folder, limits=limits).wait(seconds)


def call(job: Callable[[], str], folder: Path) -> Ran:
    """A call of the library, whose answer is text; an error of dubito ends it as the program would."""

    def described() -> int:
        try:
            print(job())
        except DubitoError as error:
            print(f"dubito: error: {error}", file=sys.stderr)
            return error.exit_code
        return 0

    return start(described, folder).wait()


def prepare(job: Callable[[], object], folder: Path) -> None:
    """Have something made in a child, so that no thread of a library starts in this process."""
    ran = call(lambda: str(job()), folder)
    if ran.code != 0:
        raise RuntimeError(f"the campaign could not be prepared: {ran.err.decode(errors='replace')}")


def judge(ran: Ran, what: str, expected: bytes, independent: Callable[[], bytes | None] | None = None) -> Outcome:
    """The answer of the undamaged, or of an independent reader of the damaged, or a refusal; else a fault."""
    if ran.code != 0 or ran.hung:
        complaint = ran.complaint or ("output beside an error" if ran.out else None)
        return Outcome("refused") if complaint is None else Outcome("fault", f"{what}: {complaint}")
    if ran.out == expected:
        return Outcome("same")
    if independent is not None and ran.out == independent():
        return Outcome("as it stands")
    return Outcome("fault", f"{what}: another answer, {ran.out[:200]!r}")
