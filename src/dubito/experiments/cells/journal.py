"""The journal of an experiment: JSON lines, only ever added to, that survive a kill at any byte.

A line is added under a lock on the file, in one write. A kill in the middle leaves a torn last line: readers pass it
over, and the next to add a line cuts it off. Anything else that is no record is an error that names the line.
The file is synced to disk at most once a second, so that quick rounds do not wait for the disk: a power cut may cost
the last second's rounds, which are then done again.
"""

import json
import os
import re
import time
from collections.abc import Iterator, Mapping
from pathlib import Path

from dubito.errors import InvalidData
from dubito.files.disk import locked, room_for, write_all

Record = dict[str, object]
NAME = "journal.jsonl"
TAIL_BYTES = 1 << 16
SYNC_SECONDS = 1.0
"""Between syncs to disk, at least."""


class Journal:
    """An append-only file of records.

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
        line = json.dumps(record, allow_nan=False).encode() + b"\n"
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

    def close(self) -> None:
        """Have everything on the disk."""
        with room_for(self.path), locked(self.path) as file:
            os.fsync(file)

    def read(self) -> list[Record]:
        """Every record; a torn last line is passed over."""
        return list(JournalReader(self.path).news())


class JournalReader:
    """Reads a journal as it grows."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self.offset = 0
        self.line = 0

    def news(self) -> Iterator[Record]:
        """Records added since the last call."""
        if not self.path.exists():
            return
        with open(self.path, "rb") as file:
            file.seek(self.offset)
            lines = re.findall(rb"[^\n]*\n|[^\n]+", file.read())
        for place, line in enumerate(lines, start=1):
            record = _parse(line)
            if record is None and place < len(lines):
                raise InvalidData(
                    f"line {self.line + 1} of {self.path} is no record: the file was changed or damaged. Delete that "
                    "line and resume: what it held is done again."
                )
            if record is None:
                return
            self.offset, self.line = self.offset + len(line), self.line + 1
            yield record


def _parse(line: bytes) -> Record | None:
    """The record of a whole line, or None."""
    try:
        record = json.loads(line) if line.endswith(b"\n") else None
    except ValueError:
        return None
    return record if isinstance(record, dict) else None


def _end_of_records(file: int) -> int:
    """Where the last whole record ends; what follows was torn off by a kill."""
    size, window = os.fstat(file).st_size, TAIL_BYTES
    while True:
        start = max(0, size - window)
        tail = os.pread(file, size - start, start)
        end = tail.rfind(b"\n") + 1
        begin = tail.rfind(b"\n", 0, max(0, end - 1)) + 1
        if start == 0 or begin > 0:
            break
        window *= 2
    is_torn = end == len(tail) and _parse(tail[begin:end]) is None
    return start + (begin if is_torn else end)
