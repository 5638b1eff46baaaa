"""Damaged files of dubito's own: journals, plans, data, notes and checkpoints of runs, and saved pools.

All but plans carry a checksum. A change of what they say must be refused; one that changes nothing may be passed over.
"""

import io
import json
import random
import shutil
import tomllib
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np

import dubito
from dubito.experiments.plan import read_experiment

from .campaign import Scenario, Tries
from .damage import damaged
from .inputs import N_ROWS, frame
from .runs import handed_in, resume, rounds_in, write_plan
from .trying import Outcome, call, judge, prepare, run


def scenarios(goal: int) -> Iterator[Scenario]:
    """One for every file of a run's folder, for plans, and for saved pools."""
    yield Scenario("damaged runs", "journal.jsonl, read", goal, journal_tries)
    yield Scenario("damaged runs", "journal.jsonl, resumed", goal, folder_tries("journal.jsonl", is_text=True))
    yield Scenario("damaged runs", "experiment.toml", goal, folder_tries("experiment.toml", is_text=True))
    yield Scenario("damaged runs", "data.npz", goal, folder_tries("data.npz", is_text=False))
    yield Scenario("damaged runs", "data.npz, its arrays", goal, folder_tries("data.npz", is_text=False, inside=True))
    yield Scenario("damaged runs", "about.json", goal, about_tries)
    yield Scenario("damaged plans", "TOML", goal, plan_tries)
    yield Scenario("damaged saved pools", "the file", goal, saved_tries(inside=False))
    yield Scenario("damaged saved pools", "its arrays", goal, saved_tries(inside=True))


def resaved(chance: random.Random, content: bytes) -> tuple[str, bytes]:
    """An archive with one array changed and the archive's own checksums made anew: only ours can tell."""
    with np.load(io.BytesIO(content)) as archive:
        arrays: dict[str, Any] = dict(archive)
    name = chance.choice(sorted(set(arrays) - {"checksum"}))
    array, way = arrays[name], chance.choice(["value", "type", "shape", "missing", "renamed"])
    if way == "value" and array.size and array.dtype.kind != "U":
        changed = bytearray(array.tobytes())
        changed[chance.randrange(len(changed))] ^= 1 << chance.randrange(8)
        arrays[name] = np.frombuffer(bytes(changed), array.dtype).reshape(array.shape)
    elif way == "type":
        arrays[name] = array.astype("U20")
    elif way == "shape":
        arrays[name] = array[None] if chance.random() < 0.5 else array.ravel()[:-1]
    elif way == "renamed":
        arrays[name + "s"] = arrays.pop(name)
    else:
        del arrays[name]
    buffer = io.BytesIO()
    np.savez(buffer, **arrays)
    return f"{name}, {way}", buffer.getvalue()


def folder_tries(name: str, *, is_text: bool, inside: bool = False) -> Tries:
    """A file of a run's folder, damaged; the run is then resumed, and gives what it would have given, or is refused."""

    def tries(folder: Path, chance: random.Random) -> Iterator[Outcome]:
        handed_in(folder)
        expected = resume(folder).out
        kept = folder / "kept"
        shutil.copytree(folder / "run", kept)
        if name != "journal.jsonl":  # Something must be left to do, or nothing but the journal is looked at.
            lines = (kept / "journal.jsonl").read_bytes().splitlines(keepends=True)
            (kept / "journal.jsonl").write_bytes(b"".join(lines[:6]))
        while True:
            shutil.rmtree(folder / "run")
            shutil.copytree(kept, folder / "run")
            whole = (kept / name).read_bytes()
            described, content = resaved(chance, whole) if inside else damaged(chance, whole, is_text=is_text)
            (folder / "run" / name).write_bytes(content)
            yield judge(resume(folder), f"{name}, {described}", expected)

    return tries


def journal_tries(folder: Path, chance: random.Random) -> Iterator[Outcome]:
    """A journal, damaged and read: lines that are whole all count, and no other does; or it is refused."""
    handed_in(folder)
    path = folder / "run" / "journal.jsonl"
    whole = path.read_bytes()
    lines = whole.splitlines(keepends=True)

    def read() -> str:
        found = rounds_in(folder / "run")
        return json.dumps(sorted([*key, each.as_dict()] for key, each in found.items()))

    every = {tuple(each[:3]): each for each in json.loads(call(read, folder).out)}
    keys = {
        line: (record["strategy"], record["seed"], record["turn"]) for line in lines[1:] if (record := json.loads(line))
    }
    while True:
        described, content = damaged(chance, whole, is_text=True)
        path.write_bytes(content)
        ran = call(read, folder)
        present = [keys[line] for line in content.splitlines(keepends=True) if line in keys]
        expected = sorted(every[key] for key in set(present))
        if ran.code == 0 and json.loads(ran.out) == expected:
            yield Outcome("same" if len(expected) == len(every) else "as it stands")
        else:
            yield judge(ran, f"journal.jsonl, {described}", b"")


def about_tries(folder: Path, chance: random.Random) -> Iterator[Outcome]:
    """The notes on a run, damaged; a report says what they said, or is refused."""
    write_plan(folder)
    simulated = ["simulate", "data.npz", "-s", "coreset", "--initial", "8", "--budget", "5", "--rounds", "1"]
    made = run(*simulated, "--seeds", "2", "--workers", "1", "-o", "run", "-q", "--json", folder=folder)
    if made.code != 0:
        raise RuntimeError(f"no report to damage: {made.err!r}")
    path = folder / "run" / "about.json"
    whole = path.read_bytes()

    def read() -> str:
        from dubito.cli.commands.report import read_about

        return repr(read_about(folder / "run"))

    expected = call(read, folder).out
    while True:
        described, content = damaged(chance, whole, is_text=True)
        path.write_bytes(content)
        yield judge(call(read, folder), f"about.json, {described}", expected)


def plan_tries(folder: Path, chance: random.Random) -> Iterator[Outcome]:
    """A plan, damaged: what is read is what it says, by another reader of TOML, or it is refused."""
    write_plan(folder)
    path = folder / "plan.toml"
    whole = path.read_bytes()

    def read() -> str:
        return json.dumps(read_experiment(str(path)).as_table(), sort_keys=True)

    expected, meant = call(read, folder).out, tomllib.loads(whole.decode())
    while True:
        described, content = damaged(chance, whole, is_text=True)
        path.write_bytes(content)
        ran = call(read, folder)
        outcome = judge(ran, f"TOML, {described}", expected)
        if ran.code == 0:
            said = tomllib.loads(content.decode())
            is_said = (ran.out == expected) if said == meant else says(said, json.loads(ran.out))
            outcome = (
                Outcome("same" if said == meant else "as it stands")
                if is_said
                else Outcome("fault", f"TOML, {described}")
            )
        yield outcome


def says(said: dict[str, Any], table: dict[str, Any]) -> bool:
    """Whether an experiment has every plain value that its file names."""
    if len(said.get("strategies", [])) != len(table["strategies"]):
        return False
    for section in ("schedule", "model"):
        if any(table[section].get(key) != value for key, value in said.get(section, {}).items()):
            return False
    seeds = said.get("seeds", 10)
    return bool(table["seeds"] == (seeds if isinstance(seeds, list) else list(range(seeds))))


def saved_tries(*, inside: bool) -> Tries:
    """A saved pool, damaged: the next round is the one that would have come, or it is refused."""

    def tries(folder: Path, chance: random.Random) -> Iterator[Outcome]:
        path, features = folder / "pool.npz", frame()[["x", "y", "z"]].to_numpy()

        def save() -> None:
            pool = dubito.Pool(features)
            pool.label(pool.select(N_ROWS // 5, strategy="coreset"))
            pool.prepare()
            pool.save(str(path))

        def select() -> str:
            picked = dubito.Pool.load(str(path), features).select(6, strategy="coreset")
            return json.dumps([picked.indices.tolist(), picked.priorities.tolist()])

        prepare(save, folder)
        whole, expected = path.read_bytes(), call(select, folder).out
        while True:
            described, content = resaved(chance, whole) if inside else damaged(chance, whole, is_text=False)
            path.write_bytes(content)
            yield judge(call(select, folder), f"saved pool, {described}", expected)

    return tries
