"""Cells: one strategy under one seed. Who plays a cell, and what it saves between turns.

A cell is claimed by a lock on a file that the living process holds; when the process dies the lock is gone. The
holder removes the file when the cell is done, so a claim counts only while the file is still the one in the folder.
"""

import hashlib
import os
import re
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from dubito.errors import DubitoError
from dubito.experiments.models.base import State
from dubito.experiments.plans.arms import Arm
from dubito.experiments.plans.experiment import Experiment
from dubito.files.disk import is_free, is_in_place, naming_locks, room_for
from dubito.files.sealed import load_sealed, save_sealed

CHECKPOINTS = "checkpoints"


@dataclass(frozen=True, slots=True)
class Cell:
    """One strategy under one seed; its turns come one after another."""

    arm: Arm
    seed: int

    @property
    def file_name(self) -> str:
        """What its files are called: readable, and different for every name of a strategy."""
        readable = re.sub(r"[^A-Za-z0-9.=-]+", "_", self.arm.name)[:20]
        return f"{readable}-{hashlib.sha256(self.arm.name.encode()).hexdigest()[:6]}-{self.seed}"


def cells_of(experiment: Experiment) -> tuple[Cell, ...]:
    """Every cell, seed by seed: what is done early can be compared early."""
    return tuple(Cell(arm, seed) for seed in experiment.seeds for arm in experiment.strategies)


@contextmanager
def claim(cell: Cell, folder: Path) -> Iterator[bool]:
    """Whether the cell is ours while the block runs; False where another process has it."""
    path = folder / CHECKPOINTS / f"{cell.file_name}.lock"
    path.parent.mkdir(parents=True, exist_ok=True)
    file = os.open(path, os.O_RDWR | os.O_CREAT, 0o666)
    try:
        with naming_locks(str(path)):
            ours = is_free(file) and is_in_place(file, path)
        yield ours
    finally:
        os.close(file)


def clear(cell: Cell, folder: Path) -> None:
    """Remove what a finished cell left; only the holder of its claim may."""
    for path in (folder / CHECKPOINTS).iterdir():
        if path.name.lstrip(".").startswith(cell.file_name + "."):
            path.unlink(missing_ok=True)


def clear_all(folder: Path) -> None:
    """Remove what processes that died left; only where every cell is done."""
    for path in (folder / CHECKPOINTS).iterdir():
        path.unlink(missing_ok=True)


@dataclass(frozen=True, slots=True)
class Checkpoints:
    """The model's state after each turn of a cell, of which the last is kept."""

    cell: Cell
    folder: Path

    def path(self, turn: int) -> Path:
        """Where a turn's state is."""
        return self.folder / CHECKPOINTS / f"{self.cell.file_name}.{turn}.npz"

    def save(self, turn: int, state: State) -> None:
        """Write the state whole or not at all, before the turn's line goes into the journal."""
        with room_for(self.path(turn)):
            save_sealed(str(self.path(turn)), state)

    def forget_before(self, turn: int) -> None:
        """Remove the states of earlier turns."""
        for earlier in range(turn):
            self.path(earlier).unlink(missing_ok=True)

    def load(self, turn: int) -> State | None:
        """The state after a turn; None where the file is missing, torn or damaged, and the turn is trained again."""
        try:
            return load_sealed(str(self.path(turn)), needed=True)
        except DubitoError:
            return None
