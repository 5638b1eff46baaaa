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
import os
import re
import time
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path

from dubito.errors import InvalidData
from dubito.files import write_atomically
from dubito.files.disk import locked, room_for, write_all

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
        with room_for(self.path), locked(self.path) as file:
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
        with room_for(self.path), locked(self.path) as file:
            lines = lines_of(os.pread(file, os.fstat(file).st_size, 0))
            kept = [line for line in lines if not is_torn(line) and not unwanted(parsed(line) or {})]
            write_atomically(str(self.path), b"".join(kept))

    def close(self) -> None:
        """Have everything on the disk."""
        with room_for(self.path), locked(self.path) as file:
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
        mend="delete that line and resume: what it held is done again.",
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
