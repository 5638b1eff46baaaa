"""A journal of picks: what a run has picked by now, so that another can go on where it broke off."""

import hashlib
import json
import os
from typing import Any

import numpy as np

from dubito.errors import InvalidArgument, InvalidData
from dubito.files.entries import reading
from dubito.matrix import FloatArray, IntArray

KIND = "dubito picks"


class PickJournal:
    """A file with a line for every round, each with a checksum; a line that was not written whole is left out."""

    def __init__(self, path: str, signature: dict[str, Any]) -> None:
        self.path, self.signature = path, digest(signature)
        self.rows: list[int] = []
        self.squared: list[float] = []
        if os.path.exists(path) and os.path.getsize(path):
            self._read()
        else:
            with reading(path), open(path, "x" if not os.path.exists(path) else "w", encoding="utf-8") as file:
                file.write(_line({"kind": KIND, "signature": self.signature}))
                _flush(file)

    @property
    def earlier(self) -> tuple[IntArray, FloatArray]:
        """What is written down already."""
        return np.array(self.rows, dtype=np.int64), np.array(self.squared)

    def limit(self, budget: int) -> None:
        """Forget what a smaller budget does not ask for; the file keeps it."""
        self.rows, self.squared = self.rows[:budget], self.squared[:budget]

    def note(self, picks: IntArray, squared: FloatArray) -> None:
        """Write a round down; it is on the disk when this returns."""
        with reading(self.path), open(self.path, "a", encoding="utf-8") as file:
            file.write(_line({"rows": picks.tolist(), "squared": [float(each).hex() for each in squared]}))
            _flush(file)

    def _read(self) -> None:
        with reading(self.path), open(self.path, "rb") as file:
            lines = file.read().split(b"\n")
        whole = [_parsed(line) for line in lines[:-1]]
        if not whole or whole[0] is None or whole[0].get("kind") != KIND:
            raise InvalidData(f"{self.path} is no journal of picks", mend="name another file.")
        if whole[0]["signature"] != self.signature:
            raise InvalidArgument(
                f"{self.path} belongs to another run: other shards, labels or another strategy",
                argument="journal",
                mend="name another file, or remove this one to begin anew.",
            )
        for number, entry in enumerate(whole[1:], 2):
            if entry is None:
                raise InvalidData(
                    f"{self.path} is damaged in line {number}", mend="remove that line and all behind it."
                )
            self.rows += entry["rows"]
            self.squared += [float.fromhex(each) for each in entry["squared"]]
        if lines[-1]:
            self._cut_off(lines[-1])

    def _cut_off(self, rest: bytes) -> None:
        """A line that was being written when the run ended is no round."""
        with reading(self.path), open(self.path, "r+b") as file:
            file.truncate(os.path.getsize(self.path) - len(rest))


def digest(values: Any) -> str:
    """What tells one run from another, in a few digits."""
    return hashlib.sha256(json.dumps(values, sort_keys=True).encode()).hexdigest()


def _line(entry: dict[str, Any]) -> str:
    return json.dumps({**entry, "sum": digest(entry)[:16]}) + "\n"


def _parsed(line: bytes) -> dict[str, Any] | None:
    try:
        entry: dict[str, Any] = json.loads(line)
        return entry if entry.pop("sum") == digest(entry)[:16] else None
    except (ValueError, KeyError, TypeError, AttributeError):
        return None


def _flush(file: Any) -> None:
    file.flush()
    os.fsync(file.fileno())
