"""Kills at any moment: of runs by one, three and worker processes, and of ``select`` in the write."""

import os
import random
import shutil
import signal
import time
from collections.abc import Iterable, Iterator
from pathlib import Path

import numpy as np

from dubito.errors import DubitoError

from .campaign import Scenario, Tries
from .runs import Undisturbed, rounds_in, write_plan
from .trying import Child, Outcome, begin, prepare, run

LARGE = 30_000
"""Rows of a pool whose picks take a while to write."""
RESTS = 2
"""Kills before a run is left to come to its end."""


def scenarios(goal: int) -> Iterator[Scenario]:
    """Runs, and writes in every form."""
    kills, to_the_end = max(1, goal // 5), RESTS + 1
    yield Scenario("kills", "run, 1 process", max(to_the_end, kills), run_tries(processes=1))
    yield Scenario("kills", "run, 3 at once", max(to_the_end, kills), run_tries(processes=3))
    yield Scenario("kills", "run, its workers", max(1, goal // 20), run_tries(processes=1, workers=2))
    for kind in ("csv", "parquet", "npy"):
        yield Scenario("kills", f"select in the write, {kind}", kills, write_tries(kind))


def play_undisturbed(folder: Path) -> Undisturbed:
    """What a plan gives, and how long it takes."""
    write_plan(folder, seeds=3, rounds=6)
    begun = time.monotonic()
    done = run("run", "plan.toml", "--workers", "1", "--json", "--quiet", "--runs-dir", "whole", folder=folder)
    if done.code != 0:
        raise RuntimeError(f"no run to kill: {done.err!r}")
    (found,) = (folder / "whole").iterdir()
    return Undisturbed(rounds_in(found), time.monotonic() - begun)


def run_tries(*, processes: int, workers: int = 1) -> Tries:
    """A run is killed some times and then left alone: every round is there once, and is what it was to be."""

    def tries(folder: Path, chance: random.Random) -> Iterator[Outcome]:
        whole, what = play_undisturbed(folder), f"run, {processes} processes, {workers} workers"
        command = ["run", "plan.toml", "--workers", str(workers), "--json", "--quiet", "--runs-dir", "runs"]
        while True:
            shutil.rmtree(folder / "runs", ignore_errors=True)
            for _ in range(RESTS):
                children = [begin(command, folder) for _ in range(processes)]
                longest = whole.seconds * (1.0 if workers == 1 else 3.0) / processes
                yield killed(children, chance, longest, workers > 1) or state(folder, whole, what)
            make_old((folder / "runs").rglob(".*.tmp"))
            last = run(*command, folder=folder)
            if last.code != 0:
                yield Outcome("fault", f"{what}: it does not come to its end: {last.err[-300:]!r}")
                continue
            (found,) = (folder / "runs").iterdir()
            described = whole.difference(found)
            yield Outcome("same") if described is None else Outcome("fault", f"{what}: {described}")

    return tries


def make_old(left: Iterable[Path]) -> None:
    """What a kill left is removed once it is a minute old; nobody waits for that here."""
    for path in left:
        os.utime(path, (0, 0))


def killed(children: list[Child], chance: random.Random, longest: float, with_workers: bool) -> Outcome | None:
    """Kill children at moments of their own, and with them, or not, what they started; a fault of any that ended."""
    for child in chance.sample(children, len(children)):
        time.sleep(chance.random() * longest / len(children))
        if with_workers and chance.random() < 0.5:
            os.kill(child.pid, signal.SIGKILL)  # Its workers must see that they are alone.
        else:
            child.kill()
    for child in children:
        ran = child.wait()
        if ran.code not in (0, -signal.SIGKILL) and ran.complaint:
            return Outcome("fault", f"one of several ended with {ran.code}: {ran.complaint}")
    return None


def state(folder: Path, whole: Undisturbed, what: str) -> Outcome:
    """Whether what a kill left holds nothing but rounds that were to be."""
    for found in (folder / "runs").glob("*/experiment.toml"):
        try:
            rounds = rounds_in(found.parent)
        except DubitoError as error:
            return Outcome("fault", f"{what}: a kill left what is refused: {error}")
        if any(whole.rounds.get(key) != each for key, each in rounds.items()):
            return Outcome("fault", f"{what}: a kill left a round that is another")
    return Outcome("same")


def write_tries(kind: str) -> Tries:
    """Picks are killed in the write: the file is as it was or whole, and the next write leaves nothing behind."""

    def tries(folder: Path, chance: random.Random) -> Iterator[Outcome]:
        prepare(lambda: np.save(folder / "pool.npy", np.random.default_rng(0).normal(size=(LARGE, 2))), folder)
        path = folder / f"picks.{kind}"
        command = [
            "select",
            "pool.npy",
            "-b",
            str(LARGE - 1),
            "-s",
            "random",
            "--standardize",
            "no",
            "-q",
            "-o",
            path.name,
        ]
        first = run(*command, folder=folder)
        whole = path.read_bytes()
        if first.code != 0:
            raise RuntimeError(f"no write to kill: {first.err!r}")
        while True:
            before = chance.choice([None, b"old"])
            path.unlink(missing_ok=True)
            if before is not None:
                path.write_bytes(before)
            child = begin([*command, "--force"] if before else command, folder)
            kill_in_the_write(child, folder, chance)
            found = path.read_bytes() if path.exists() else None
            if found not in (before, whole):
                yield Outcome("fault", f"{kind}: a kill left {len(found or b'')} of {len(whole)} bytes")
                continue
            yield written_after(folder, path, whole, command, kind)

    return tries


def kill_in_the_write(child: Child, folder: Path, chance: random.Random) -> None:
    """Wait for the first sign of a file to come, and a little longer."""
    deadline = time.monotonic() + 30.0
    while time.monotonic() < deadline and not any(each.name.startswith(".picks") for each in os.scandir(folder)):
        if os.waitid(os.P_PID, child.pid, os.WEXITED | os.WNOHANG | os.WNOWAIT) is not None:
            break
    time.sleep(chance.choice([0.0, chance.random() * 0.002, chance.random() * 0.02]))
    child.kill()
    child.wait()


def written_after(folder: Path, path: Path, whole: bytes, command: list[str], kind: str) -> Outcome:
    """The next write: the same picks, and what the kill left is gone once it is old."""
    make_old(folder.glob(".picks*.tmp"))
    again = run(*command, "--force", folder=folder)
    left_behind = [each.name for each in folder.iterdir() if each.name.startswith(".")]
    if again.code != 0 or path.read_bytes() != whole or left_behind:
        return Outcome("fault", f"{kind}: after a kill {again.code}, {again.err[-200:]!r}, left {left_behind}")
    return Outcome("same")
