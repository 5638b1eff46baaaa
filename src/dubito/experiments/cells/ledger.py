"""What an experiment's journal says: who worked on it, and which rounds are done."""

import os
import platform
import socket
from collections.abc import Iterable, Sequence
from dataclasses import replace
from datetime import UTC, datetime
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path

from dubito.errors import InvalidData
from dubito.experiments.cells.checking import ImpossibleRound, check_planned, check_unasked, round_of
from dubito.experiments.cells.claims import Cell
from dubito.experiments.cells.journal import NAME, Journal, JournalReader, Record, damaged
from dubito.experiments.plans.experiment import SCHEMA, Experiment
from dubito.experiments.records import Round

PACKAGES = ("dubito", "numpy", "scipy", "scikit-learn")


class Ledger:
    """The journal of a folder, read as it grows."""

    def __init__(self, folder: Path, experiment: Experiment | None = None) -> None:
        self.reader = JournalReader(folder / NAME, self._forget)
        self.journal = Journal(folder / NAME)
        self.experiment = experiment
        self.headers: list[Record] = []
        self.turns: dict[tuple[str, int], dict[int, Round]] = {}

    def refresh(self) -> None:
        """Take in what was added since."""
        for record in self.reader.news():
            kind = record.get("kind")
            try:
                if kind == "header":
                    self._check(record)
                    self.headers.append(record)
                elif kind == "round":
                    self._take_in(round_of(record))
                elif not self.reader.is_sealed:
                    raise ImpossibleRound("its 'kind' is not known")
            except ImpossibleRound as error:
                raise damaged(self.reader.path, self.reader.line, f"is no whole {kind} ({error})") from None

    def _forget(self) -> None:
        self.headers.clear()
        self.turns.clear()

    def _take_in(self, found: Round) -> None:
        """A turn that is there twice counts once."""
        if self.experiment is not None:
            check_planned(found, self.experiment)
        turns = self.turns.setdefault((found.strategy, found.seed), {})
        if found.turn not in turns:
            check_unasked(found, turns.values())
            turns[found.turn] = found

    def _check(self, header: Record) -> None:
        if header.get("schema") != SCHEMA:
            raise InvalidData(
                f"{self.reader.path} has schema {header.get('schema')!r} and this version of dubito reads {SCHEMA}",
                mend="read it with the version that wrote it.",
            )
        if self.experiment is not None and header.get("experiment") != self.experiment.hash8:
            raise InvalidData(
                f"{self.reader.path} belongs to experiment {header.get('experiment')} and this is "
                f"{self.experiment.hash8}",
                mend="bring back the experiment.toml it was begun with, or run this one in another folder.",
            )

    def played(self, cell: Cell) -> list[Round]:
        """The rounds of a cell from turn 0 on, up to the first that is missing."""
        by_turn = self.turns.get((cell.arm.name, cell.seed), {})
        played: list[Round] = []
        while len(played) in by_turn:
            played.append(by_turn[len(played)])
        return played

    def rounds(self, cells: Iterable[Cell]) -> list[Round]:
        """Every round of these cells, in their order."""
        return [each for cell in cells for each in self.played(cell)]

    def write_round(self, done: Round) -> None:
        """Add a round to the journal, unless it is there already.

        Turns after it are there only where somebody deleted a line before them. They may not follow from this one, as
        what is done again on a GPU may come out otherwise: they are taken out, and done again in their turn.
        """
        self.refresh()
        there = self.turns.get((done.strategy, done.seed), {})
        if done.turn in there and timeless(there[done.turn]) == timeless(done):
            return
        later = [turn for turn in there if turn >= done.turn]
        if later:
            cell = done.strategy, done.seed
            self.journal.drop(lambda each: (each.get("strategy"), each.get("seed")) == cell and each["turn"] in later)
        self.journal.append({"kind": "round", **done.as_dict()})

    def write_header(self, experiment: Experiment, data: str, classes: Sequence[str] = ()) -> None:
        """Say who is going to work on this, with what, and on which data (a fingerprint, and the classes' names)."""
        first, header = self.headers[0] if self.headers else {}, header_of(experiment, data, classes)
        refusal = experiment.model.refusal(first, header, experiment.schedule.labels) if first else None
        if refusal is not None:
            raise InvalidData(f"the run of {self.reader.path} cannot go on here: {refusal}")
        if first.get("data", data) != data:
            raise InvalidData(
                f"the data has changed since {self.reader.path} was begun",
                mend="bring the old data back, or run the experiment in another folder.",
            )
        self.journal.append(header)


def timeless(each: Round) -> Round:
    """A round without the times it took, which differ between runs that are the same."""
    return replace(each, train_seconds=0.0, select_seconds=0.0)


def header_of(experiment: Experiment, data: str, classes: Sequence[str] = ()) -> Record:
    """Everything besides the experiment that could tell why results differ."""
    return {
        "kind": "header",
        "schema": SCHEMA,
        "checks": True,
        "experiment": experiment.hash8,
        "data": data,
        **({"classes": list(classes)} if classes else {}),
        "versions": {name: version_of(name) for name in (*PACKAGES, *experiment.model.packages)},
        "python": platform.python_version(),
        "blas_threads": 1,
        **experiment.model.facts(),
        "machine": f"{platform.system()} {platform.machine()}",
        "host": socket.gethostname(),
        "process": os.getpid(),
        "started": datetime.now(UTC).isoformat(timespec="seconds"),
    }


def version_of(package: str) -> str | None:
    """The version that is installed; None where none is."""
    try:
        return version(package)
    except PackageNotFoundError:
        return None
