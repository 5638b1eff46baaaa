"""Damaged inputs: pools in every form, files of picks as what is labeled, and as what is added to."""

import csv
import json
import random
from collections.abc import Callable, Iterator
from pathlib import Path

import numpy as np
import pandas as pd
import pyarrow.parquet

import dubito
from dubito.io import render_selection

from .campaign import Scenario
from .damage import damaged
from .forms import Form, forms
from .trying import Outcome, call, judge, prepare, run

PICKING = ["--budget", "6", "--strategy", "coreset", "--standardize", "no", "--quiet"]
N_ROWS = 40
PICKS = ("csv", "json", "jsonl", "parquet", "npy")


def frame() -> pd.DataFrame:
    """A small pool in which no distance is near another."""
    values = np.random.default_rng(3).normal(size=(N_ROWS, 3)).round(4)
    table = pd.DataFrame(values, columns=["x", "y", "z"])
    table.insert(0, "id", [f"é{row:02d}" for row in range(N_ROWS)])
    return table


def scenarios(goal: int) -> Iterator[Scenario]:
    """One for every form of pool, and for every form of picks twice."""
    for name, form in forms().items():
        yield Scenario("damaged pools", name, goal, pool_tries(form))
    for kind in PICKS:
        yield Scenario("damaged picks", f"{kind}, as --labeled", goal, labeled_tries(kind))
    for kind in PICKS:
        if kind != "json":
            yield Scenario("damaged picks", f"{kind}, with --append", goal, append_tries(kind))


def pool_tries(form: Form) -> Callable[[Path, random.Random], Iterator[Outcome]]:
    """A pool in some form, damaged; whatever is picked must follow from what another reader finds in the file."""

    def tries(folder: Path, chance: random.Random) -> Iterator[Outcome]:
        path = folder / f"pool{form.suffix}"
        prepare(lambda: form.write(path, frame()), folder)
        whole, command = path.read_bytes(), ["select", *form.arguments(path.name), *PICKING]
        expected = run(*command, folder=folder)
        if expected.code != 0:
            raise RuntimeError(f"{form.suffix} is not read at all: {expected.err!r}")
        while True:
            described, content = damaged(chance, whole, is_text=form.is_text)
            path.write_bytes(content)
            ran = run(*command, folder=folder)
            yield judge(ran, f"{form.suffix}, {described}", expected.out, lambda: picked_independently(form, path))

    return tries


def picked_independently(form: Form, path: Path) -> bytes | None:
    """What is picked from what another reader finds."""

    def answer() -> str:
        features, ids = form.read(path)
        picked = dubito.select(features, 6, strategy="coreset", ids=ids)
        return render_selection(picked, "csv").decode()

    ran = call(answer, path.parent)
    return ran.out.removesuffix(b"\n") if ran.code == 0 else None


def rows_in(path: Path) -> list[int]:
    """Rows of a file of picks, by another reader."""
    if path.suffix == ".npy":
        return [int(row) for row in np.load(path).tolist() if row == int(row)]
    if path.suffix == ".parquet":
        return [int(row) for row in pyarrow.parquet.read_table(path).column("index").to_pylist()]
    try:
        text = path.read_text(encoding="utf-8-sig")
    except UnicodeDecodeError:
        text = path.read_text(encoding="latin-1")
    if path.suffix == ".csv":
        return [int(float(row["index"])) for row in csv.DictReader(text.splitlines())]
    records = [json.loads(line) for line in text.splitlines() if line.strip()] if path.suffix == ".jsonl" else None
    return [int(each["index"]) for each in (json.loads(text)["picks"] if records is None else records)]


def make_picks(folder: Path, kind: str) -> Path:
    """A pool, and a file of picks from it."""
    prepare(lambda: np.save(folder / "pool.npy", frame()[["x", "y", "z"]].to_numpy()), folder)
    first = run("select", "pool.npy", *PICKING, "--output", f"picks.{kind}", folder=folder)
    if first.code != 0:
        raise RuntimeError(f"no picks to damage: {first.err!r}")
    return folder / f"picks.{kind}"


def labeled_tries(kind: str) -> Callable[[Path, random.Random], Iterator[Outcome]]:
    """Picks of an earlier round, damaged, as what is labeled."""

    def tries(folder: Path, chance: random.Random) -> Iterator[Outcome]:
        path = make_picks(folder, kind)
        whole, command = path.read_bytes(), ["select", "pool.npy", *PICKING, "--labeled", path.name]
        expected = run(*command, folder=folder)

        def independent() -> bytes | None:
            def answer() -> str:
                labeled = np.array(rows_in(path), dtype=np.int64)
                picked = dubito.select(np.load("pool.npy"), 6, strategy="coreset", labeled=labeled)
                return render_selection(picked, "csv").decode()

            ran = call(answer, folder)
            return ran.out.removesuffix(b"\n") if ran.code == 0 else None

        while True:
            described, content = damaged(chance, whole, is_text=kind in ("csv", "json", "jsonl"))
            path.write_bytes(content)
            yield judge(run(*command, folder=folder), f"{kind}, {described}", expected.out, independent)

    return tries


def append_tries(kind: str) -> Callable[[Path, random.Random], Iterator[Outcome]]:
    """Picks of an earlier round, damaged, that the next is added to: all rows stay, none is there twice."""

    def tries(folder: Path, chance: random.Random) -> Iterator[Outcome]:
        path = make_picks(folder, kind)
        whole, command = path.read_bytes(), ["select", "pool.npy", *PICKING, "--output", path.name, "--append"]
        while True:
            described, content = damaged(chance, whole, is_text=kind in ("csv", "jsonl"))
            path.write_bytes(content)
            ran = run(*command, folder=folder)
            outcome = judge(ran, f"{kind}, {described}", b"")
            if outcome.verdict == "refused" and path.read_bytes() != content:
                outcome = Outcome("fault", f"{kind}, {described}: refused, and yet changed")
            if outcome.verdict == "same":
                outcome = added_to(path, content, f"{kind}, {described}")
            yield outcome

    return tries


def added_to(path: Path, before: bytes, what: str) -> Outcome:
    """Whether a file holds what it held, and six rows more."""
    old = path.with_name(f"old{path.suffix}")
    old.write_bytes(before)

    def answer() -> str:
        earlier = rows_in(old) if before else []
        return json.dumps([earlier, rows_in(path)])

    ran = call(answer, path.parent)
    if ran.code != 0:
        return Outcome("fault", f"{what}: added to what cannot be read: {ran.err[-200:]!r}")
    earlier, rows = json.loads(ran.out)
    if rows[: len(earlier)] != earlier or len(rows) != len(earlier) + 6 or len(set(rows)) < len(rows):
        return Outcome("fault", f"{what}: {earlier} became {rows}")
    return Outcome("same" if earlier == rows_of_first(path) else "as it stands")


def rows_of_first(path: Path) -> list[int]:
    """The six rows that are picked first, whatever the form."""
    return [int(row) for row in dubito.select(np.load(path.parent / "pool.npy"), 6, strategy="coreset").indices]
