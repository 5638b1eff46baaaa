"""What an experiment's journal says: who worked on it, and which rounds are done."""

import os
import platform
import socket
from collections.abc import Iterable, Sequence
from datetime import UTC, datetime
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path

from dubito.errors import InvalidData
from dubito.experiments.cells.claims import Cell
from dubito.experiments.cells.journal import NAME, Journal, JournalReader, Record
from dubito.experiments.plans.experiment import SCHEMA, Experiment
from dubito.experiments.records import Round

PACKAGES = ("dubito", "numpy", "scipy", "scikit-learn")


class Ledger:
    """The journal of a folder, read as it grows."""

    def __init__(self, folder: Path, experiment: Experiment | None = None) -> None:
        self.reader = JournalReader(folder / NAME)
        self.journal = Journal(folder / NAME)
        self.expected = None if experiment is None else experiment.hash8
        self.headers: list[Record] = []
        self.turns: dict[tuple[str, int], dict[int, Round]] = {}

    def refresh(self) -> None:
        """Take in what was added since."""
        for record in self.reader.news():
            if record.get("kind") == "header":
                self._check(record)
                self.headers.append(record)
            elif record.get("kind") == "round":
                self._take_in(self._round(record))

    def _round(self, record: Record) -> Round:
        try:
            return Round.from_dict(record)
        except (KeyError, TypeError, ValueError):
            raise InvalidData(
                f"line {self.reader.line} of {self.reader.path} is no whole round: the file was changed or damaged. "
                "Delete that line and resume: what it held is done again."
            ) from None

    def _take_in(self, found: Round) -> None:
        """A turn that is there twice counts once."""
        self.turns.setdefault((found.strategy, found.seed), {}).setdefault(found.turn, found)

    def _check(self, header: Record) -> None:
        if header.get("schema") != SCHEMA:
            raise InvalidData(
                f"{self.reader.path} has schema {header.get('schema')!r} and this version of dubito reads {SCHEMA}",
                mend="read it with the version that wrote it.",
            )
        if self.expected is not None and header.get("experiment") != self.expected:
            raise InvalidData(
                f"{self.reader.path} belongs to experiment {header.get('experiment')} and this is {self.expected}",
                mend="run it in another folder.",
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
        """Add a round to the journal."""
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


def header_of(experiment: Experiment, data: str, classes: Sequence[str] = ()) -> Record:
    """Everything besides the experiment that could tell why results differ."""
    return {
        "kind": "header",
        "schema": SCHEMA,
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
