"""Every stream is written whole, or the command fails and says so."""

import io
import os
import resource
import subprocess
import sys
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import TextIO

import pytest

import dubito
from dubito.cli import main

from .conftest import Pool

ROOM = 200
"""Bytes that fit on the disk, as it were: a write across the limit is cut short, the next one fails."""
SELECT = ("select", "pool.npz", "--budget", "25")
COMMANDS = {
    "table of text": SELECT,
    "table of bytes": (*SELECT, "--format", "npy"),
    "object": (*SELECT, "--json"),
    "sizes": (*SELECT, "--dry-run", "--json"),
    "rich table": ("doctor",),
    "help": ("select", "--help"),
    "diagnosis": ("diagnose", "pool.npz"),
}


def no_room() -> None:
    resource.setrlimit(resource.RLIMIT_FSIZE, (ROOM, ROOM))


@dataclass(frozen=True)
class Filled:
    """How a command ended whose stream ran full."""

    code: int
    written: bytes
    other: bytes
    """What the other stream got."""


def run_into(stream: str, folder: Path, *arguments: str, unbuffered: str) -> Filled:
    with open(folder / "full", "wb") as full:
        done = subprocess.run(
            [sys.executable, "-m", "dubito", *arguments],
            cwd=folder,
            env={**os.environ, "PYTHONDONTWRITEBYTECODE": "1", "PYTHONUNBUFFERED": unbuffered},
            preexec_fn=no_room,
            stdout=full if stream == "stdout" else subprocess.PIPE,
            stderr=full if stream == "stderr" else subprocess.PIPE,
            check=False,
        )
    return Filled(done.returncode, (folder / "full").read_bytes(), done.stderr if stream == "stdout" else done.stdout)


def full_here(stream: str, *arguments: str, unbuffered: str, monkeypatch: pytest.MonkeyPatch) -> Filled:
    """The same in this process, with the same streams as Python makes."""
    other = io.TextIOWrapper(io.BytesIO(), "utf-8")
    monkeypatch.setattr(sys, "dont_write_bytecode", True)
    monkeypatch.setattr(sys, "stderr" if stream == "stdout" else "stdout", other)
    with open("full", "wb", buffering=0 if unbuffered else -1) as file:
        # As PYTHONUNBUFFERED has it, and as no type knows it.
        full = io.TextIOWrapper(file, "utf-8", write_through=bool(unbuffered))
        monkeypatch.setattr(sys, stream, full)
        before = resource.getrlimit(resource.RLIMIT_FSIZE)
        resource.setrlimit(resource.RLIMIT_FSIZE, (ROOM, before[1]))
        try:
            code = main(arguments)
        finally:
            resource.setrlimit(resource.RLIMIT_FSIZE, before)
        full.detach()
    other.flush()
    assert isinstance(other.buffer, io.BytesIO)
    return Filled(code, Path("full").read_bytes(), other.buffer.getvalue())


def check_stdout_full(ran: Filled) -> None:
    assert len(ran.written) == ROOM
    assert ran.code == 1
    assert ran.other.decode().splitlines()[-1] == "dubito: error: stdout: File too large."
    assert b"Exception ignored" not in ran.other


@pytest.mark.parametrize("unbuffered", ["", "1"])
@pytest.mark.parametrize("what", COMMANDS)
def test_a_full_stdout_is_an_error_however_python_buffers(
    what: str, unbuffered: str, pool: Pool, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    check_stdout_full(full_here("stdout", *COMMANDS[what], unbuffered=unbuffered, monkeypatch=monkeypatch))


@pytest.mark.parametrize(("what", "unbuffered"), [("table of text", ""), ("table of bytes", "1"), ("rich table", "")])
def test_a_process_with_a_full_stdout_ends_with_an_error(
    what: str, unbuffered: str, pool: Pool, tmp_path: Path
) -> None:
    check_stdout_full(run_into("stdout", tmp_path, *COMMANDS[what], unbuffered=unbuffered))


NO_POOL = ("select", "x" * ROOM, "--budget", "3")
LONG_NAME = ("select", "pool.npz", "--budget", "1", "-o", f"{'x' * ROOM}.csv")


@pytest.mark.parametrize("unbuffered", ["", "1"])
@pytest.mark.parametrize(("arguments", "code"), [(NO_POOL, 2), (LONG_NAME, 1)])
def test_a_full_stderr_is_an_error_that_the_exit_code_tells(
    arguments: tuple[str, ...],
    code: int,
    unbuffered: str,
    pool: Pool,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.chdir(tmp_path)
    ran = full_here("stderr", *arguments, unbuffered=unbuffered, monkeypatch=monkeypatch)
    assert (ran.code, len(ran.written), ran.other) == (code, ROOM, b"")


def test_a_process_with_a_full_stderr_ends_with_an_error(pool: Pool, tmp_path: Path) -> None:
    ran = run_into("stderr", tmp_path, *LONG_NAME, unbuffered="1")
    assert (ran.code, len(ran.written), ran.other) == (1, ROOM, b"")


@pytest.fixture
def streams(monkeypatch: pytest.MonkeyPatch) -> Callable[[str, TextIO | None], None]:
    return lambda name, stream: monkeypatch.setattr(sys, name, stream)


@pytest.fixture(params=["buffered", "unbuffered"])
def unwritable(request: pytest.FixtureRequest) -> Iterator[TextIO]:
    """A stream to which nothing can be written."""
    with open(os.devnull, "rb") as file:
        raw = io.FileIO(file.fileno(), "wb", closefd=False)
        if request.param == "buffered":
            yield io.TextIOWrapper(io.BufferedWriter(raw), "utf-8")
        else:
            # As PYTHONUNBUFFERED has it, and as no type knows it.
            yield io.TextIOWrapper(raw, "utf-8", write_through=True)


def test_a_stdout_that_cannot_be_written_is_named(
    unwritable: TextIO, streams: Callable[[str, TextIO | None], None], capsys: pytest.CaptureFixture[str]
) -> None:
    streams("stdout", unwritable)
    assert main(["--version"]) == 1
    assert capsys.readouterr().err == "dubito: error: stdout: it is closed.\n"


def test_a_stderr_that_cannot_be_written_leaves_the_code(
    unwritable: TextIO, streams: Callable[[str, TextIO | None], None], capsys: pytest.CaptureFixture[str]
) -> None:
    streams("stderr", unwritable)
    assert main(["select", "nowhere.npy", "--budget", "3"]) == 2
    assert main(["--version"]) == 0
    assert capsys.readouterr().out == f"dubito {dubito.__version__}\n"


def test_data_for_a_closed_stdout_is_refused(
    streams: Callable[[str, TextIO | None], None], capsys: pytest.CaptureFixture[str]
) -> None:
    streams("stdout", None)
    assert main(["--version"]) == 1
    assert capsys.readouterr().err == "dubito: error: stdout: it is closed.\n"


def test_notes_for_a_closed_stderr_never_go_among_the_data(
    pool: Pool,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    streams: Callable[[str, TextIO | None], None],
    capsys: pytest.CaptureFixture[str],
) -> None:
    monkeypatch.chdir(tmp_path)
    streams("stderr", None)
    assert main([*SELECT, "-s", "random"]) == 0
    lines = capsys.readouterr().out.splitlines()
    assert lines[0] == "rank,index,id,priority"
    assert len(lines) == 26
