"""Disks that are full: on every stream, in every file, buffered and not."""

import io
import os
import random
import resource
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import partial
from pathlib import Path

import numpy as np

from dubito.cli import main

from .campaign import Scenario, Tries
from .runs import Undisturbed, rounds_in, write_plan
from .trying import Outcome, Ran, prepare, run, start

STREAMS = {
    "stdout, a table": ["select", "pool.npz", "-b", "200", "-q"],
    "stdout, an array": ["select", "pool.npz", "-b", "200", "-q", "--format", "npy"],
    "stdout, Parquet": ["select", "pool.npz", "-b", "200", "-q", "--format", "parquet"],
    "stdout, JSON": ["select", "pool.npz", "-b", "200", "-q", "--json"],
    "stdout, a rich table": ["doctor"],
    "stdout, help": ["select", "--help"],
    "stdout, sizes": ["select", "pool.npz", "-b", "200", "--dry-run", "-q"],
}
TAIL = 20
"""Bytes by which the end of an output is known."""
FILES = ("csv", "json", "jsonl", "parquet", "npy")


def scenarios(goal: int) -> Iterator[Scenario]:
    """Every stream, every file, runs, and a real disk where one may be mounted."""
    tries = max(1, goal // 5)
    for name, command in STREAMS.items():
        yield Scenario("full disks", name, tries, stdout_tries(command))
    yield Scenario("full disks", "stderr, notes", tries, stderr_tries)
    for kind in FILES:
        yield Scenario("full disks", f"--output {kind}", tries, file_tries(kind))
    yield Scenario("full disks", "run, resumed with more room", max(1, goal // 10), run_tries)
    yield Scenario("full disks", "a disk of its own", tries, disk_tries)


def make_pool(folder: Path) -> None:
    """A pool with probabilities."""
    rng = np.random.default_rng(2)
    features, probabilities = rng.normal(size=(300, 3)), rng.dirichlet(np.ones(3), 300)
    prepare(lambda: np.savez(folder / "pool.npz", features=features, probabilities=probabilities), folder)


def unbuffered(job: Callable[[], int]) -> Callable[[], int]:
    """The job with standard streams as PYTHONUNBUFFERED has them."""

    def with_raw_streams() -> int:
        sys.stdout = io.TextIOWrapper(io.FileIO(1, "wb"), "utf-8", write_through=True)
        sys.stderr = io.TextIOWrapper(io.FileIO(2, "wb"), "utf-8", write_through=True)
        return job()

    return with_raw_streams


def into(stream: str, command: list[str], folder: Path, room: int | None, is_raw: bool) -> tuple[Ran, bytes]:
    """The command with one stream in a file that has so much room; None for ``/dev/full``."""
    job = unbuffered(partial(main, command)) if is_raw else partial(main, command)
    target = "/dev/full" if room is None else str(folder / "stream")
    with open(target, "wb") as file:
        limits = [] if room is None else [(resource.RLIMIT_FSIZE, room)]
        if stream == "stdout":
            ran = start(job, folder, stdout=file.fileno(), limits=limits).wait()
        else:
            ran = start(job, folder, stderr=file.fileno(), limits=limits).wait()
    return ran, b"" if room is None else (folder / "stream").read_bytes()


def rooms(chance: random.Random, size: int) -> int | None:
    """How much room there is for so many bytes: none, too little, exactly enough, or more."""
    has_full = os.path.exists("/dev/full")
    return chance.choice([*([None] if has_full else []), 0, chance.randrange(size), size - 1, size, size + 100])


def is_whole(written: bytes, expected: bytes) -> bool:
    """Whether both have as many lines, and the last ends alike; times in the others may differ."""
    lines, wanted = written.split(b"\n"), expected.split(b"\n")
    return len(lines) == len(wanted) and lines[-1][-TAIL:] == wanted[-1][-TAIL:]


def stdout_tries(command: list[str]) -> Tries:
    """Output that is whole, or an error."""

    def tries(folder: Path, chance: random.Random) -> Iterator[Outcome]:
        make_pool(folder)
        while True:
            expected = run(*command, folder=folder).out
            room, is_raw = rooms(chance, len(expected)), chance.random() < 0.5
            ran, written = into("stdout", command, folder, room, is_raw)
            what = f"{' '.join(command)}, room for {room} of {len(expected)}, raw={is_raw}"
            if ran.code == 0:
                same = is_whole(written, expected)
                yield Outcome("same") if same else Outcome("fault", f"{what}: half with 0")
            elif room is not None and room >= len(expected) + 100 and "select" in command:
                yield Outcome("fault", f"{what}: there was room enough: {ran.err!r}")
            elif ran.complaint or b"stdout" not in ran.err:
                yield Outcome("fault", f"{what}: {ran.complaint or ran.err!r}")
            else:
                yield Outcome("refused")

    return tries


def stderr_tries(folder: Path, chance: random.Random) -> Iterator[Outcome]:
    """Notes that are whole, or an exit code that says they are not."""
    make_pool(folder)
    command = ["select", "pool.npz", "-b", "5", "-o", "picks.csv", "--force"]
    while True:
        size = len(run(*command, folder=folder).err)
        room, is_raw = rooms(chance, size), chance.random() < 0.5
        ran, written = into("stderr", command, folder, room, is_raw)
        if ran.code == 0 and not written.endswith(b"--labeled picks.csv\n"):
            yield Outcome("fault", f"notes cut to {len(written)} of {size} with 0, raw={is_raw}")
        elif ran.code not in (0, 1):
            yield Outcome("fault", f"notes cut to {len(written)} of {size} with {ran.code}, raw={is_raw}")
        else:
            yield Outcome("same" if ran.code == 0 else "refused")


def file_tries(kind: str) -> Tries:
    """A file that is whole, or as it was, and then whole once there is room."""

    def tries(folder: Path, chance: random.Random) -> Iterator[Outcome]:
        make_pool(folder)
        path = folder / f"picks.{kind}"
        command = ["select", "pool.npz", "-b", "250", "-s", "coreset", "-q", "-o", path.name, "--force"]
        run(*command, folder=folder)
        size = path.stat().st_size
        while True:
            before = chance.choice([None, b"old"])
            path.unlink(missing_ok=True)
            if before:
                path.write_bytes(before)
            ran = run(*command, folder=folder, limits=[(resource.RLIMIT_FSIZE, chance.randrange(size // 2))])
            found = path.read_bytes() if path.exists() else None
            left = [each.name for each in folder.iterdir() if each.name.startswith(".")]
            again = run(*command, folder=folder)
            if ran.complaint or found != before or left:
                yield Outcome("fault", f"--output {kind}: {ran.complaint}, left {left}, {len(found or b'')} bytes")
            elif again.code != 0:
                yield Outcome("fault", f"--output {kind}: with room again {again.err!r}")
            else:
                yield Outcome("refused")

    return tries


def run_tries(folder: Path, chance: random.Random) -> Iterator[Outcome]:
    """A run whose disk fills up keeps what it had, and with more room comes to its end."""
    write_plan(folder)
    command = ["run", "plan.toml", "--workers", "1", "--json", "--quiet", "--runs-dir"]
    if run(*command, "whole", folder=folder).code != 0:
        raise RuntimeError("no run to starve")
    (made,) = (folder / "whole").iterdir()
    whole, size = Undisturbed(rounds_in(made), 0.0), (made / "journal.jsonl").stat().st_size
    while True:
        shutil.rmtree(folder / "runs", ignore_errors=True)
        starved = run(*command, "runs", folder=folder, limits=[(resource.RLIMIT_FSIZE, chance.randrange(size))])
        again = run(*command, "runs", folder=folder)
        if starved.complaint or again.code != 0:
            yield Outcome("fault", f"run: {starved.complaint}, then {again.err!r}")
            continue
        (found,) = (folder / "runs").iterdir()
        described = whole.difference(found)
        yield Outcome("refused") if described is None else Outcome("fault", f"run, starved: {described}")


@contextmanager
def small_disk(size: int) -> Iterator[Path | None]:
    """A disk of so many bytes; None where we have no right to mount one."""
    with tempfile.TemporaryDirectory() as place:
        options = ["-t", "tmpfs", "-o", f"size={size}", "none", place]
        if os.geteuid() != 0 or subprocess.run(["mount", *options], capture_output=True, check=False).returncode != 0:
            yield None
            return
        try:
            yield Path(place)
        finally:
            subprocess.run(["umount", "--lazy", place], capture_output=True, check=False)


def disk_tries(folder: Path, chance: random.Random) -> Iterator[Outcome]:
    """Picks, stdout and a journal on a disk that is nearly full; nothing where none may be mounted."""
    make_pool(folder)
    write_plan(folder)
    with small_disk(1 << 16) as disk:
        if disk is None:
            return
        for command, target in endless(chance, disk):
            for path in disk.iterdir():
                shutil.rmtree(path) if path.is_dir() else path.unlink()
            (disk / "filling").write_bytes(bytes((1 << 16) - 4096 * chance.randint(0, 3)))
            with open(disk / "stdout", "wb") as file:
                ran = start(unbuffered(partial(main, command)), folder, stdout=file.fileno()).wait()
            is_there = target is None or target.exists()
            if ran.code == 0 and is_there and (target is not None or (disk / "stdout").stat().st_size > 1000):
                yield Outcome("same")
            elif ran.code == 0 or ran.complaint or (target is not None and target.exists()):
                yield Outcome("fault", f"{command} on a full disk: {ran.code}, {ran.err[-300:]!r}")
            else:
                yield Outcome("refused")


def endless(chance: random.Random, disk: Path) -> Iterator[tuple[list[str], Path | None]]:
    """Commands that write to a disk, and the file that is to be whole."""
    while True:
        kind = chance.choice([*FILES, "stdout", "run"])
        if kind == "stdout":
            yield ["select", "pool.npz", "-b", "290", "-s", "coreset", "-q"], None
        elif kind == "run":
            runs = disk / "runs"
            yield ["run", "plan.toml", "--workers", "1", "--quiet", "--runs-dir", str(runs)], None
        else:
            target = disk / f"picks.{kind}"
            yield ["select", "pool.npz", "-b", "290", "-s", "coreset", "-q", "-o", str(target)], target
