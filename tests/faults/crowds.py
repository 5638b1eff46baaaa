"""Several at once on one file: added to by all, made by one."""

import os
import random
import signal
from collections.abc import Iterator
from functools import partial
from pathlib import Path

import numpy as np

from dubito.cli import main

from .campaign import Scenario, Tries
from .inputs import rows_in
from .trying import Child, Outcome, Ran, call, prepare, run, start

APPENDABLE = ("csv", "jsonl", "parquet", "npy")
SELECT = ["select", "pool.npy", "--budget", "4", "--strategy", "coreset", "--standardize", "no", "--quiet"]


def scenarios(goal: int) -> Iterator[Scenario]:
    """Adding in every form, with and without a kill; and making."""
    crowds = max(1, goal // 5)
    for kind in APPENDABLE:
        yield Scenario("crowds", f"--append to {kind}", crowds, append_tries(kind))
    yield Scenario("crowds", "--append, one of them killed", crowds, append_tries("csv", with_kill=True))
    yield Scenario("crowds", "--output without --force", crowds, create_tries)


def together(commands: list[list[str]], folder: Path) -> list[Child]:
    """Begin all at the same moment: each waits for a pipe to be closed."""
    reader, writer = os.pipe()

    def job(command: list[str]) -> int:
        os.close(writer)
        os.read(reader, 1)
        return main(command)

    children = [start(partial(job, command), folder) for command in commands]
    os.close(writer)
    os.close(reader)
    return children


def pool_in(folder: Path) -> None:
    """A pool to pick from."""
    prepare(lambda: np.save(folder / "pool.npy", np.random.default_rng(1).normal(size=(60, 3))), folder)


def append_tries(kind: str, *, with_kill: bool = False) -> Tries:
    """Two to four add to one file: what they leave is what one after another would have left."""

    def tries(folder: Path, chance: random.Random) -> Iterator[Outcome]:
        pool_in(folder)
        path = folder / f"picks.{kind}"
        command = [*SELECT, "-o", path.name, "--append"]
        in_turn: list[bytes] = []
        for _ in range(4):
            run(*command, folder=folder)
            in_turn.append(path.read_bytes())
        while True:
            path.unlink()
            children = together([command] * chance.randint(2, 4), folder)
            if with_kill:
                os.kill(chance.choice(children).pid, signal.SIGKILL)
            ended = [child.wait() for child in children]
            yield judged(ended, path, in_turn, f"--append to {kind}")

    return tries


def judged(ended: list[Ran], path: Path, in_turn: list[bytes], what: str) -> Outcome:
    """All that ended well are in the file, one after another."""
    done = sum(ran.code == 0 for ran in ended)
    others = [ran for ran in ended if ran.code not in (0, -signal.SIGKILL)]
    if others:
        return Outcome("fault", f"{what}: one of {len(ended)} ended with {others[0].code}: {others[0].err[-200:]!r}")
    content = path.read_bytes() if path.exists() else b""
    killed = len(ended) - done
    allowed = in_turn[max(0, done - 1) : done + killed] + ([b""] if not done else [])
    if content in allowed:
        path.touch()
        left = [each.name for each in path.parent.iterdir() if each.name.startswith(".")]
        return Outcome("fault", f"{what}: {left} was left") if left and not killed else Outcome("same")
    rows = call(lambda: str(rows_in(path)), path.parent).out
    return Outcome("fault", f"{what}: {done} of {len(ended)} ended well, and the file holds {rows!r}")


def create_tries(folder: Path, chance: random.Random) -> Iterator[Outcome]:
    """Two to four make one file, each with picks of its own: one does, the others are refused."""
    pool_in(folder)
    path = folder / "picks.csv"
    select = ["select", "pool.npy", "--budget", "4", "--strategy", "random", "--standardize", "no", "--quiet"]
    own = [run(*select, "--seed", str(seed), folder=folder).out for seed in range(4)]
    while True:
        path.unlink(missing_ok=True)
        count = chance.randint(2, 4)
        ended = [
            child.wait()
            for child in together([[*select, "--seed", str(seed), "-o", path.name] for seed in range(count)], folder)
        ]
        winners = [seed for seed, ran in enumerate(ended) if ran.code == 0]
        refused = [ran for ran in ended if ran.code == 2 and ran.complaint is None and b"picks.csv exists" in ran.err]
        if len(winners) != 1 or len(refused) != count - 1 or path.read_bytes() != own[winners[0]]:
            yield Outcome("fault", f"--output by {count} at once: {[(ran.code, ran.err[-100:]) for ran in ended]}")
        else:
            yield Outcome("same")
