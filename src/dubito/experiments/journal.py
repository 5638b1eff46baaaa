"""The journal of an experiment: JSON lines that survive a kill at any byte.

A line is appended under a file lock, in one write, and ends with its checksum. A kill in the middle leaves an
incomplete last line, which readers skip and the next writer truncates. Any other damaged line raises an error that
names it. Journals of the first versions have no checksums; after the first line with a checksum, all must have one.

The file is synced to disk at most once a second, so that short rounds do not wait for the disk. A power failure may
lose the rounds of the last second, which are then repeated.
"""

import hashlib
import json
import math
import os
import platform
import re
import socket
import sys
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
    load_with_checksum,
    locked,
    read_at,
    save_with_checksum,
    try_lock,
    write_all,
)

Record = dict[str, object]
NAME = "journal.jsonl"
TAIL_BYTES = 1 << 16
SYNC_SECONDS = 1.0
"""Minimum time between syncs to disk."""
CHECKSUM_KEY = "check"
"""The last key of a line: a checksum of everything before it."""
CHECKED_LINE = re.compile(rb'(.+), "check": "([0-9a-f]{16})"\}\n', re.DOTALL)


class Journal:
    """An append-only file of JSON records.

    Several processes may append to one journal, also over a network file system that supports ``flock``.

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
        line = encode_line(record)
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

    def remove(self, unwanted: Callable[[Record], bool]) -> None:
        """Remove records by replacing the file atomically."""
        with explain_disk_full(self.path), locked(self.path) as file:
            lines = split_lines(read_at(file, os.fstat(file).st_size, 0))
            kept = [line for line in lines if not is_incomplete(line) and not unwanted(parse_line(line) or {})]
            if sys.platform == "win32":  # Windows cannot replace an open file, and this one is locked.
                os.ftruncate(file, 0)
                write_all(file, b"".join(kept))
                os.fsync(file)
            else:
                write_atomically(str(self.path), b"".join(kept))

    def close(self) -> None:
        """Sync the file to disk."""
        with explain_disk_full(self.path), locked(self.path) as file:
            os.fsync(file)

    def read(self) -> list[Record]:
        """All records, without an incomplete last line."""
        return list(JournalReader(self.path).new_records())


class JournalReader:
    """Reads a growing journal incrementally."""

    def __init__(self, path: Path, on_replaced: Callable[[], None] = lambda: None) -> None:
        self.path = path
        self.on_replaced = on_replaced
        """Called if the file was replaced, before all records are returned again."""
        self.file: tuple[int, int] | None = None
        """Device and inode of the file read last."""
        self.offset = 0
        self.line = 0
        """Number of the line read last, from 1."""
        self.requires_checksums = False
        """Whether a line had a checksum, so that all later lines must have one."""
        self.n_unchecked = 0
        """Number of lines without a checksum, as the first versions wrote them."""

    def new_records(self) -> Iterator[Record]:
        if not self.path.exists():
            return
        with open(self.path, "rb") as file:
            status = os.fstat(file.fileno())
            if self.file not in (None, (status.st_dev, status.st_ino)):
                self.offset, self.line, self.requires_checksums, self.n_unchecked = 0, 0, False, 0
                self.on_replaced()
            self.file = status.st_dev, status.st_ino
            file.seek(self.offset)
            lines = split_lines(file.read())
        for number, line in enumerate(lines, start=1):
            if number == len(lines) and is_incomplete(line):
                return
            record = self._record(line)
            self.offset, self.line = self.offset + len(line), self.line + 1
            yield record

    def _record(self, line: bytes) -> Record:
        try:
            record, has_checksum = decode_line(line)
            if self.requires_checksums and not has_checksum:
                raise DamagedLine("has lost its checksum")
        except DamagedLine as error:
            raise damaged_line(self.path, self.line + 1, str(error)) from None
        self.requires_checksums = has_checksum
        self.n_unchecked += not has_checksum
        return record


class DamagedLine(Exception):
    """Raised for a line that cannot be read; the reader adds the line number."""


def split_lines(content: bytes) -> list[bytes]:
    """Lines with their newlines; the last may have none."""
    return re.findall(rb"[^\n]*\n|[^\n]+", content)


def damaged_line(path: Path, line: int, what: str) -> InvalidData:
    return InvalidData(
        f"line {line} of {path} {what}: the file was changed or damaged",
        hint="delete that line and resume: its round is repeated.",
    )


def encode_line(record: Mapping[str, object]) -> bytes:
    r"""A record as a line of the journal.

    Examples
    --------
    >>> encode_line({"turn": 0})
    b'{"turn": 0, "check": "1a3cc1dd7da110a1"}\n'
    """
    body = json.dumps(record, allow_nan=False).encode().removesuffix(b"}")
    return body + b', "check": "' + checksum(body) + b'"}\n'


def decode_line(line: bytes) -> tuple[Record, bool]:
    """The record of a line, and whether it has a checksum; one with ``"checks": true`` must have one."""
    match, record = CHECKED_LINE.fullmatch(line), parse_line(line)
    if record is None:
        raise DamagedLine("is not a record")
    if match is not None and match[2] != checksum(match[1]):
        raise DamagedLine("does not fit its checksum")
    if match is None and (CHECKSUM_KEY in record or record.get("checks") is True):
        raise DamagedLine("has lost its checksum")
    record.pop(CHECKSUM_KEY, None)
    return record, match is not None


def checksum(body: bytes) -> bytes:
    """Sixteen hexadecimal digits."""
    return hashlib.blake2b(body, digest_size=8).hexdigest().encode()


def parse_line(line: bytes) -> Record | None:
    try:
        record = json.loads(line)
    except (ValueError, RecursionError):
        return None
    return record if isinstance(record, dict) else None


def is_incomplete(line: bytes) -> bool:
    """Whether the last line is damaged by a kill, which truncates it, or a power failure, which may leave zeros."""
    return not line.endswith(b"\n") or b"\0" in line


def _end_of_records(file: int) -> int:
    """Offset of the end of the last complete line."""
    size, window = os.fstat(file).st_size, TAIL_BYTES
    while True:
        start = max(0, size - window)
        tail = read_at(file, size - start, start)
        end = tail.rfind(b"\n") + 1
        begin = tail.rfind(b"\n", 0, max(0, end - 1)) + 1
        if start == 0 or begin > 0:
            break
        window *= 2
    return start + (begin if end == len(tail) and is_incomplete(tail[begin:]) else end)


# Validation of rounds: a line may be valid JSON and still be impossible.

MAX_COUNT = 2**62
"""Larger than any row number, seed or number of labels."""
COUNT_FIELDS = "seed", "turn", "labels"
SHARE_FIELDS = "test_accuracy", "train_accuracy"
AMOUNT_FIELDS = "core_set_loss", "train_seconds", "select_seconds"
OPTIONAL_FIELDS = "radius", "scaled_radius", "uncertainty"
"""Amounts that may be null."""


class InvalidRound(Exception):
    """Raised for a round with invalid values; the reader adds the line number."""


def parse_round(record: Mapping[str, object]) -> Round:
    """Convert a record to a round; raise if a value has the wrong type or is out of range.

    Examples
    --------
    >>> parse_round({"strategy": "random", "seed": True})
    Traceback (most recent call last):
    dubito.experiments.journal.InvalidRound: its 'seed' is not a count
    """
    if not isinstance(record.get("strategy"), str):
        raise InvalidRound("its 'strategy' is not text")
    for name in COUNT_FIELDS:
        if not _is_count(record.get(name)):
            raise InvalidRound(f"its {name!r} is not a count")
    for name in (*SHARE_FIELDS, *AMOUNT_FIELDS, *OPTIONAL_FIELDS):
        value = record.get(name)
        is_null = value is None and name in OPTIONAL_FIELDS and name in record
        if not is_null and not _is_amount(value, 1.0 if name in SHARE_FIELDS else math.inf):
            raise InvalidRound(f"its {name!r} is out of range")
    recall, picked = record.get("recall"), record.get("picked")
    if not isinstance(recall, list) or not all(each is None or _is_amount(each, 1.0) for each in recall):
        raise InvalidRound("its 'recall' has a value that is not between 0 and 1")
    if not isinstance(picked, list) or not all(map(_is_count, picked)) or len(set(picked)) < len(picked):
        raise InvalidRound("its 'picked' is not a list of distinct rows")
    return Round.from_dict(dict(record))


def _is_count(value: object) -> bool:
    return isinstance(value, int) and type(value) is not bool and 0 <= value < MAX_COUNT


def _is_amount(value: object, maximum: float) -> bool:
    return isinstance(value, int | float) and type(value) is not bool and 0.0 <= value <= maximum and value < math.inf


def check_planned(result: Round, experiment: Experiment) -> None:
    """Raise if a round does not belong to the experiment or does not follow its schedule."""
    schedule, names = experiment.schedule, [arm.name for arm in experiment.strategies]
    if result.strategy not in names or result.seed not in experiment.seeds or result.turn > schedule.rounds:
        raise InvalidRound("it is not a round of this experiment")
    if result.labels != schedule.initial + schedule.budget * result.turn:
        raise InvalidRound("its 'labels' are not those of its turn")
    if len(result.picked) != (schedule.budget if result.turn < schedule.rounds else 0):
        raise InvalidRound("its 'picked' has another length than the budget of its turn")


# Claims and checkpoints of runs. A process claims a run by locking a file; the lock is released if the process dies.
# The holder deletes the file when the run is finished, so a lock counts only while its file is still in the folder.

CHECKPOINTS = "checkpoints"


@dataclass(frozen=True, slots=True)
class Run:
    arm: Arm
    seed: int

    @property
    def file_name(self) -> str:
        """Base name of its files: readable, and different for each strategy."""
        readable = re.sub(r"[^A-Za-z0-9.=-]+", "_", self.arm.name)[:20]
        return f"{readable}-{hashlib.sha256(self.arm.name.encode()).hexdigest()[:6]}-{self.seed}"


def runs_of(experiment: Experiment) -> tuple[Run, ...]:
    """All runs, sorted by seed, so that strategies can be compared early."""
    return tuple(Run(arm, seed) for seed in experiment.seeds for arm in experiment.strategies)


@contextmanager
def claim(run: Run, folder: Path) -> Iterator[bool]:
    """Hold the claim to a run while the block runs; yields False if another process has it."""
    path = folder / CHECKPOINTS / f"{run.file_name}.lock"
    path.parent.mkdir(parents=True, exist_ok=True)
    file = os.open(path, os.O_RDWR | os.O_CREAT | getattr(os, "O_BINARY", 0), 0o666)
    try:
        with explain_lock_errors(str(path)):
            is_claimed = try_lock(file) and is_same_file(file, path)
        yield is_claimed
    finally:
        os.close(file)


def remove_run_files(run: Run, folder: Path) -> None:
    """Remove the files of a finished run; only for the holder of its claim."""
    for path in (folder / CHECKPOINTS).iterdir():
        if path.name.lstrip(".").startswith(run.file_name + "."):
            path.unlink(missing_ok=True)


def remove_all_run_files(folder: Path) -> None:
    """Remove the files that killed processes left; only if every run is finished."""
    for path in (folder / CHECKPOINTS).iterdir():
        path.unlink(missing_ok=True)


@dataclass(frozen=True, slots=True)
class Checkpoints:
    """Saved states of a run's model after each turn; only the last is kept."""

    run: Run
    folder: Path

    def path(self, turn: int) -> Path:
        return self.folder / CHECKPOINTS / f"{self.run.file_name}.{turn}.npz"

    def save(self, turn: int, state: State) -> None:
        """Save the state atomically, before the turn is journaled."""
        with explain_disk_full(self.path(turn)):
            save_with_checksum(str(self.path(turn)), state)

    def remove_before(self, turn: int) -> None:
        for earlier in range(turn):
            self.path(earlier).unlink(missing_ok=True)

    def load(self, turn: int) -> State | None:
        """The state after a turn; None if the file is missing or damaged, so that the turn is trained again."""
        try:
            return load_with_checksum(str(self.path(turn)), needed=True)
        except DubitoError:
            return None


# The journal of one experiment.

PACKAGES = ("dubito", "numpy", "scipy", "scikit-learn")


class ExperimentJournal:
    """The journal of an experiment, with its headers and rounds in memory."""

    def __init__(self, folder: Path, experiment: Experiment | None = None) -> None:
        self.reader = JournalReader(folder / NAME, self._reset)
        self.writer = Journal(folder / NAME)
        self.experiment = experiment
        self.headers: list[Record] = []
        self.turns: dict[tuple[str, int], dict[int, Round]] = {}

    def refresh(self) -> None:
        for record in self.reader.new_records():
            kind = record.get("kind")
            try:
                if kind == "header":
                    self._check(record)
                    self.headers.append(record)
                elif kind == "round":
                    self._add(parse_round(record))
                elif not self.reader.requires_checksums:
                    raise InvalidRound("its 'kind' is not known")
            except InvalidRound as error:
                raise damaged_line(self.reader.path, self.reader.line, f"is not a valid {kind} ({error})") from None

    def _reset(self) -> None:
        self.headers.clear()
        self.turns.clear()

    def _add(self, result: Round) -> None:
        """Add a round; duplicates are ignored."""
        if self.experiment is not None:
            check_planned(result, self.experiment)
        turns = self.turns.setdefault((result.strategy, result.seed), {})
        if result.turn not in turns:
            earlier = {row for each in turns.values() for row in each.picked}
            if not earlier.isdisjoint(result.picked):
                raise InvalidRound(f"it picks row {min(earlier.intersection(result.picked))} again")
            turns[result.turn] = result

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
                hint="restore the experiment.toml that it was started with, or run this one in another folder.",
            )

    def completed(self, run: Run) -> list[Round]:
        """The rounds of a run from turn 0 to the first missing turn."""
        by_turn = self.turns.get((run.arm.name, run.seed), {})
        completed: list[Round] = []
        while len(completed) in by_turn:
            completed.append(by_turn[len(completed)])
        return completed

    def rounds(self, runs: Iterable[Run]) -> list[Round]:
        return [each for run in runs for each in self.completed(run)]

    def write_round(self, done: Round) -> None:
        """Append a round, unless the journal already has it.

        Later turns exist only if somebody deleted a line before them. They may not follow from this round, because
        training on a GPU is not reproducible, so they are removed and repeated.
        """
        self.refresh()
        existing = self.turns.get((done.strategy, done.seed), {})
        if done.turn in existing and without_times(existing[done.turn]) == without_times(done):
            return
        later = [turn for turn in existing if turn >= done.turn]
        if later:
            run = done.strategy, done.seed
            self.writer.remove(lambda each: (each.get("strategy"), each.get("seed")) == run and each["turn"] in later)
        self.writer.append({"kind": "round", **done.as_dict()})

    def write_header(self, experiment: Experiment, data: str, classes: Sequence[str] = ()) -> None:
        """Append a header with the data's fingerprint; raise if this process cannot continue the experiment."""
        first, header = self.headers[0] if self.headers else {}, header_of(experiment, data, classes)
        refusal = experiment.model.refusal(first, header, experiment.schedule.labels) if first else None
        if refusal is not None:
            raise InvalidData(f"the run of {self.reader.path} cannot be continued here: {refusal}")
        if first.get("data", data) != data:
            hint = "restore the original data, or run the experiment in another folder."
            raise InvalidData(f"the data has changed since {self.reader.path} was started", hint=hint)
        self.writer.append(header)


def without_times(each: Round) -> Round:
    """A round with its times set to 0, for comparisons."""
    return replace(each, train_seconds=0.0, select_seconds=0.0)


def header_of(experiment: Experiment, data: str, classes: Sequence[str] = ()) -> Record:
    """Everything other than the plan that may explain differences between results."""
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
    try:
        return version(package)
    except PackageNotFoundError:
        return None
