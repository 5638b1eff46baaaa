"""What was measured: one JSON record for each exhibit. Ours lie in the package, a user's where it was run."""

import json
import os
import platform
import time
from collections.abc import Mapping
from dataclasses import asdict, dataclass, fields
from datetime import UTC, datetime
from functools import cache
from importlib.metadata import version
from importlib.resources import files
from math import isfinite
from pathlib import Path
from typing import Any

from dubito.errors import InvalidData
from dubito.files import write_atomically
from dubito.paper.exhibits import Exhibit
from dubito.paper.verdicts import Finding, Study, outcome_of

SHIPPED = "measured.json"
CPU_NAMES = "/proc/cpuinfo"


@dataclass(frozen=True, slots=True)
class Measured:
    """One measurement of one exhibit."""

    id: str
    holds: bool
    sentence: str
    numbers: Mapping[str, float | None]
    quick: bool
    seed: int
    parameters: Mapping[str, object]
    """What the TOML file set; the rest is as the study has it by default."""
    seconds: float
    when: str
    """UTC, to the minute."""
    versions: Mapping[str, str]
    machine: str
    scope: str | None = None
    """What was measured, where that is only a part of what the claim names."""

    @property
    def outcome(self) -> str:
        """In a few words."""
        return outcome_of(self.holds, self.scope)

    def as_dict(self) -> dict[str, object]:
        """As JSON holds it."""
        return {"schema": 1, **asdict(self)}

    @classmethod
    def from_dict(cls, record: Mapping[str, Any]) -> "Measured":
        """Out of what JSON held; records of earlier versions have no scope."""
        return cls(**{each.name: record[each.name] for each in fields(cls) if each.name in record})


def measure(
    exhibit: Exhibit, *, quick: bool = False, seed: int = 0, study: Study | None = None
) -> tuple[Finding, Measured]:
    """Measure an exhibit and check its claim; ``study`` is what measures it, if not as `Exhibit.build` makes it.

    Examples
    --------
    >>> from dubito.paper import exhibits
    >>> finding, record = measure(exhibits()["figure-7"], quick=True)
    >>> record.outcome
    'holds'
    """
    chosen, started = study or exhibit.build(quick=quick), time.perf_counter()
    finding = chosen.measure(seed)
    seconds, verdict = time.perf_counter() - started, finding.verdict()
    record = Measured(
        id=exhibit.id,
        holds=bool(verdict.holds),
        sentence=verdict.sentence,
        numbers={name: float(value) if isfinite(value) else None for name, value in verdict.numbers.items()},
        quick=quick,
        seed=seed,
        parameters=exhibit.settings(quick),
        seconds=round(seconds, 2),
        when=datetime.now(UTC).strftime("%Y-%m-%d %H:%M"),
        versions=versions(),
        machine=machine(),
        scope=verdict.scope,
    )
    return finding, record


def versions() -> dict[str, str]:
    """Of what decides the numbers."""
    packages = {name: version(name) for name in ("dubito", "numpy", "scipy", "scikit-learn")}
    return {"python": platform.python_version(), **packages}


def machine() -> str:
    """The processor and how many cores of it there are."""
    name = platform.processor() or platform.machine()
    if os.path.exists(CPU_NAMES):
        with open(CPU_NAMES, encoding="utf-8") as file:
            names = [line.partition(":")[2].strip() for line in file if line.startswith("model name")]
        name = next(iter(names), name)
    return f"{name}, {os.cpu_count()} cores"


def write_measured(record: Measured, folder: Path) -> Path:
    """Write a record beside its picture, whole or not at all."""
    path = folder / f"{record.id}.json"
    write_atomically(str(path), (json.dumps(record.as_dict(), indent=2, ensure_ascii=False) + "\n").encode())
    return path


def read_measured(folder: Path) -> dict[str, Measured]:
    """The records of a folder by id; none where there is no folder."""
    paths = sorted(folder.glob("*.json")) if folder.is_dir() else []
    return {record.id: record for record in map(_read, paths)}


def _read(path: Path) -> Measured:
    try:
        return Measured.from_dict(json.loads(path.read_text(encoding="utf-8")))
    except (ValueError, KeyError, TypeError) as error:
        raise InvalidData(
            f"{path} is no record of a measurement ({error!r})", mend="remove it, or pass -o elsewhere."
        ) from error


@cache
def shipped() -> dict[str, Measured]:
    """What we measured, by id; it comes with the package.

    Examples
    --------
    >>> shipped()["figure-7"].holds
    True
    """
    text = (files("dubito.paper") / SHIPPED).read_text(encoding="utf-8")
    return {record["id"]: Measured.from_dict(record) for record in json.loads(text)}
