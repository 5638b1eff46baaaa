"""The journal of an experiment: JSON lines, added one by one, that survive a kill at any byte.

A line is added under a lock on the file, in one write, and ends with a checksum over itself. A kill in the middle
leaves a torn last line: readers pass it over, and the next to add a line cuts it off. Anything else that is no record,
or not the record that was written, is an error that names the line. Journals of the first versions have no checksums;
once a line has one, those below it must.

The file is synced to disk at most once a second, so that quick rounds do not wait for the disk: a power cut may cost
the last second's rounds, which are then done again.
"""

import hashlib
import json
import math
import os
import platform
import re
import socket
import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path

from dubito.errors import DubitoError, InvalidData
from dubito.experiments.models.base import State
from dubito.experiments.plan import SCHEMA, Arm, Experiment
from dubito.experiments.records import Round
from dubito.io import write_atomically
from dubito.io.durable import (
    explain_disk_full,
    explain_lock_errors,
    is_same_file,
    load_sealed,
    locked,
    save_sealed,
    try_lock,
    write_all,
)

Record = dict[str, object]
NAME = "journal.jsonl"
TAIL_BYTES = 1 << 16
SYNC_SECONDS = 1.0
"""Between syncs to disk, at least."""
CHECK = "check"
"""The last key of a line: a checksum over all that stands before it."""
SEALED = re.compile(rb'(.+), "check": "([0-9a-f]{16})"\}\n', re.DOTALL)


class Journal:
    """A file of records that grows line by line.

    Several processes may add to one journal at once, also over a network file system that knows ``flock``.

    Examples
    --------
    >>> import tempfile
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     journal = Journal(Path(folder) / "journal.jsonl")
    ...     journal.append({"kind": "round", "turn": 0})
    ...     [record["turn"] for record in journal.read()]
    [0]
    """

    def __init__(self, path: Path) -> None:
        self.path = path
        self.synced = -SYNC_SECONDS

    def append(self, record: Mapping[str, object]) -> None:
        """Add a record, whole or not at all."""
        line = sealed(record)
        with explain_disk_full(self.path), locked(self.path) as file:
            end, size = _end_of_records(file), os.fstat(file).st_size
            if end < size:
                os.ftruncate(file, end)
            try:
                write_all(file, line)
                self._sync(file)
            except OSError:
                os.ftruncate(file, end)
                raise

    def _sync(self, file: int) -> None:
        if time.monotonic() - self.synced >= SYNC_SECONDS:
            os.fsync(file)
            self.synced = time.monotonic()

    def drop(self, unwanted: Callable[[Record], bool]) -> None:
        """Take records out: the file is replaced whole by one that has all others, as they are."""
        with explain_disk_full(self.path), locked(self.path) as file:
            lines = lines_of(os.pread(file, os.fstat(file).st_size, 0))
            kept = [line for line in lines if not is_torn(line) and not unwanted(parsed(line) or {})]
            write_atomically(str(self.path), b"".join(kept))

    def close(self) -> None:
        """Have everything on the disk."""
        with explain_disk_full(self.path), locked(self.path) as file:
            os.fsync(file)

    def read(self) -> list[Record]:
        """Every record; a torn last line is passed over."""
        return list(JournalReader(self.path).news())


class JournalReader:
    """Reads a journal as it grows."""

    def __init__(self, path: Path, forget: Callable[[], None] = lambda: None) -> None:
        self.path = path
        self.forget = forget
        """Called where the file was replaced, so that everything comes once more."""
        self.file: tuple[int, int] | None = None
        """Which file it was."""
        self.offset = 0
        self.line = 0
        """The line read last, from 1."""
        self.is_sealed = False
        """Whether a line had a checksum, so that all below it must."""
        self.unsealed = 0
        """Lines without one, as the first versions wrote them."""

    def news(self) -> Iterator[Record]:
        """Records added since the last call."""
        if not self.path.exists():
            return
        with open(self.path, "rb") as file:
            found = os.fstat(file.fileno())
            if self.file not in (None, (found.st_dev, found.st_ino)):
                self.offset, self.line, self.is_sealed, self.unsealed = 0, 0, False, 0
                self.forget()
            self.file = found.st_dev, found.st_ino
            file.seek(self.offset)
            lines = lines_of(file.read())
        for place, line in enumerate(lines, start=1):
            if place == len(lines) and is_torn(line):
                return
            record = self._record(line)
            self.offset, self.line = self.offset + len(line), self.line + 1
            yield record

    def _record(self, line: bytes) -> Record:
        try:
            record, is_sealed = unsealed(line)
            if self.is_sealed and not is_sealed:
                raise DamagedLine("has lost its checksum")
        except DamagedLine as error:
            raise damaged(self.path, self.line + 1, str(error)) from None
        self.is_sealed = is_sealed
        self.unsealed += not is_sealed
        return record


class DamagedLine(Exception):
    """What is wrong with a line; whoever reads the file says with which."""


def lines_of(content: bytes) -> list[bytes]:
    """Lines with their ends; the last may have none."""
    return re.findall(rb"[^\n]*\n|[^\n]+", content)


def damaged(path: Path, line: int, what: str) -> InvalidData:
    """The error for a line that is not what was written."""
    return InvalidData(
        f"line {line} of {path} {what}: the file was changed or damaged",
        hint="delete that line and resume: what it held is done again.",
    )


def sealed(record: Mapping[str, object]) -> bytes:
    r"""A record as a line of the journal.

    Examples
    --------
    >>> sealed({"turn": 0})
    b'{"turn": 0, "check": "1a3cc1dd7da110a1"}\n'
    """
    body = json.dumps(record, allow_nan=False).encode().removesuffix(b"}")
    return body + b', "check": "' + digest(body) + b'"}\n'


def unsealed(line: bytes) -> tuple[Record, bool]:
    """The record of a line, and whether a checksum vouches for it, as one that says ``"checks": true`` must have."""
    found, record = SEALED.fullmatch(line), parsed(line)
    if record is None:
        raise DamagedLine("is no record")
    if found is not None and found[2] != digest(found[1]):
        raise DamagedLine("does not fit its checksum")
    if found is None and (CHECK in record or record.get("checks") is True):
        raise DamagedLine("has lost its checksum")
    record.pop(CHECK, None)
    return record, found is not None


def digest(body: bytes) -> bytes:
    """Sixteen hexadecimal digits that change with any byte."""
    return hashlib.blake2b(body, digest_size=8).hexdigest().encode()


def parsed(line: bytes) -> Record | None:
    """The JSON object of a line, or None."""
    try:
        record = json.loads(line)
    except (ValueError, RecursionError):
        return None
    return record if isinstance(record, dict) else None


def is_torn(line: bytes) -> bool:
    """Whether a last line was never written to its end: a kill cuts it, a cut of power may leave zeros in it."""
    return not line.endswith(b"\n") or b"\0" in line


def _end_of_records(file: int) -> int:
    """Where the last whole line ends; what follows was torn off by a kill."""
    size, window = os.fstat(file).st_size, TAIL_BYTES
    while True:
        start = max(0, size - window)
        tail = os.pread(file, size - start, start)
        end = tail.rfind(b"\n") + 1
        begin = tail.rfind(b"\n", 0, max(0, end - 1)) + 1
        if start == 0 or begin > 0:
            break
        window *= 2
    return start + (begin if end == len(tail) and is_torn(tail[begin:]) else end)


# Rounds out of a journal, checked as data from outside: a line may be JSON, and yet nothing that a run could write.

MOST_ROWS = 2**62
"""Beyond any pool; a number that large is damage."""
COUNTS = "seed", "turn", "labels"
SHARES = "test_accuracy", "train_accuracy"
AMOUNTS = "core_set_loss", "train_seconds", "select_seconds"
PERHAPS = "radius", "scaled_radius", "uncertainty"
"""Amounts that may be missing."""


class ImpossibleRound(Exception):
    """What is wrong with a line; whoever reads the journal says with which."""


def round_of(record: Mapping[str, object]) -> Round:
    """A round, every value of its type and within its range; an error says which is not.

    Examples
    --------
    >>> round_of({"strategy": "random", "seed": True})
    Traceback (most recent call last):
    dubito.experiments.journal.ImpossibleRound: its 'seed' is no number of things
    """
    if not isinstance(record.get("strategy"), str):
        raise ImpossibleRound("its 'strategy' is no name")
    for name in COUNTS:
        if not _is_count(record.get(name)):
            raise ImpossibleRound(f"its {name!r} is no number of things")
    for name in (*SHARES, *AMOUNTS, *PERHAPS):
        value = record.get(name)
        if not _is_amount(value, 1.0 if name in SHARES else math.inf) and not (
            value is None and name in PERHAPS and name in record
        ):
            raise ImpossibleRound(f"its {name!r} is out of range")
    recall, picked = record.get("recall"), record.get("picked")
    if not isinstance(recall, list) or not all(each is None or _is_amount(each, 1.0) for each in recall):
        raise ImpossibleRound("its 'recall' holds what is no share")
    if not isinstance(picked, list) or not all(map(_is_count, picked)) or len(set(picked)) < len(picked):
        raise ImpossibleRound("its 'picked' are no rows, or not each once")
    return Round.from_dict(dict(record))


def _is_count(value: object) -> bool:
    return isinstance(value, int) and type(value) is not bool and 0 <= value < MOST_ROWS


def _is_amount(value: object, most: float) -> bool:
    return isinstance(value, int | float) and type(value) is not bool and 0.0 <= value <= most and value < math.inf


def check_planned(found: Round, experiment: Experiment) -> None:
    """Refuse a round that the experiment does not have."""
    schedule, names = experiment.schedule, [arm.name for arm in experiment.strategies]
    if found.strategy not in names or found.seed not in experiment.seeds or found.turn > schedule.rounds:
        raise ImpossibleRound("it is no round of this experiment")
    if found.labels != schedule.initial + schedule.budget * found.turn:
        raise ImpossibleRound("its 'labels' are not those of its turn")
    if len(found.picked) != (schedule.budget if found.turn < schedule.rounds else 0):
        raise ImpossibleRound("its 'picked' are not as many as its turn asks for")


def check_unasked(found: Round, others: Iterable[Round]) -> None:
    """Refuse a round that asks for rows which other turns of its cell asked for."""
    asked = {row for each in others for row in each.picked}
    if not asked.isdisjoint(found.picked):
        raise ImpossibleRound(f"it asks for row {min(asked.intersection(found.picked))} again")


# Cells: one strategy under one seed. Who plays a cell, and what it saves between turns.
#
# A cell is claimed by a lock on a file that the living process holds; when the process dies the lock is gone. The
# holder removes the file when the cell is done, so a claim counts only while the file is still the one in the folder.

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
        with explain_lock_errors(str(path)):
            ours = try_lock(file) and is_same_file(file, path)
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
        with explain_disk_full(self.path(turn)):
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


# What an experiment's journal says: who worked on it, and which rounds are done.

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
                hint="read it with the version that wrote it.",
            )
        if self.experiment is not None and header.get("experiment") != self.experiment.hash8:
            raise InvalidData(
                f"{self.reader.path} belongs to experiment {header.get('experiment')} and this is "
                f"{self.experiment.hash8}",
                hint="bring back the experiment.toml it was begun with, or run this one in another folder.",
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
                hint="bring the old data back, or run the experiment in another folder.",
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
