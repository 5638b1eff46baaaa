"""A small run to disturb: its plan, what it gives undisturbed, and its folder as others may have left it."""

import json
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from dubito.experiments.data import Dataset, make_dataset
from dubito.experiments.journal import ExperimentJournal, without_times
from dubito.experiments.plan import Arm, Experiment, Schedule
from dubito.experiments.records import Round
from dubito.experiments.runner import read_folder, run_experiment

from .trying import Ran, prepare, run

PLAN = """
schema = 1
name = "small"
seeds = {seeds}

[data]
path = "data.npz"
test_share = 0.3

[schedule]
initial = 8
budget = 5
rounds = {rounds}

[[strategies]]
strategy = "random"

[[strategies]]
strategy = "doubt-coreset"
strength = 0.5
"""


def data() -> Dataset:
    """Three clouds."""
    rng = np.random.default_rng(5)
    labels = np.arange(120) % 3
    return make_dataset("three", 2.0 * np.eye(3)[labels] + rng.normal(size=(120, 3)), labels)


def write_plan(folder: Path, *, seeds: int = 2, rounds: int = 3) -> Path:
    """A plan and its data; returns the folder that its run will have."""

    def write() -> None:
        held = data()
        np.savez(folder / "data.npz", features=held.features, labels=held.labels)
        (folder / "plan.toml").write_text(PLAN.format(seeds=seeds, rounds=rounds))

    prepare(write, folder)
    return folder


def handed_in(folder: Path) -> None:
    """A finished run whose data Python handed in, so that its folder keeps it."""
    plan = Experiment(
        "handed", (Arm("random"), Arm("coreset")), schedule=Schedule(initial=8, budget=5, rounds=2), seeds=(0, 1)
    )
    prepare(lambda: len(run_experiment(plan, folder / "run", dataset=data())), folder)


def rounds_in(folder: Path) -> dict[tuple[str, int, int], Round]:
    """Every round that a journal holds, without its times; whoever calls minds its errors."""
    journal = ExperimentJournal(folder, read_folder(folder))
    journal.refresh()
    return {(*cell, turn): without_times(each) for cell, turns in journal.turns.items() for turn, each in turns.items()}


def lines_in(folder: Path) -> list[tuple[object, object, object]]:
    """Strategy, seed and turn of every round's line."""
    lines = (folder / "journal.jsonl").read_bytes().splitlines()
    records = [json.loads(line) for line in lines]
    return [(each["strategy"], each["seed"], each["turn"]) for each in records if each["kind"] == "round"]


def resume(folder: Path, name: str = "run") -> Ran:
    """Go on with a run, in one process."""
    return run("resume", name, "--workers", "1", "--json", "--quiet", folder=folder)


@dataclass(frozen=True)
class Undisturbed:
    """What a plan gives where nothing goes wrong."""

    rounds: dict[tuple[str, int, int], Round]
    seconds: float

    def difference(self, folder: Path) -> str | None:
        """What a finished run has otherwise; None where nothing is."""
        found, lines = rounds_in(folder), lines_in(folder)
        if found != self.rounds:
            missing, other = (
                self.rounds.keys() - found.keys(),
                [key for key in found if found[key] != self.rounds.get(key)],
            )
            return f"{len(missing)} rounds are lost, {len(other)} are others"
        if len(lines) != len(set(lines)):
            return "a round is there twice"
        left = [path.name for path in folder.rglob("*") if path.suffix in (".tmp", ".lock")]
        return f"{left} was left" if left else None
