"""Exhibits: a figure, table or statement of the paper, as one TOML file of this folder tells it."""

import json
import os
import platform
import time
import tomllib
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass, field, fields
from datetime import UTC, datetime
from functools import cache
from importlib.metadata import version
from importlib.resources import files
from math import isfinite
from pathlib import Path
from typing import Any

from dubito.errors import InvalidArgument, InvalidData
from dubito.experiments.toml import check_keys, naming
from dubito.io import write_atomically
from dubito.paper.coreset_studies import BeamsStudy, QuadrantsStudy, RadiiStudy
from dubito.paper.mixture_studies import HeatmapStudy, MixtureStudy, TailStudy
from dubito.paper.network_studies import NetworkStudy
from dubito.paper.statement_studies import BetaStudy, DiscussionStudy, TimingStudy
from dubito.paper.study import Finding, Study, outcome_of
from dubito.paper.toy_studies import AcquisitionsStudy, ConcentrationStudy, NegativeStudy, ToyStudy
from dubito.request.arrays import check_choice

SCHEMA = 1
EVERYTHING = "all"

STUDIES: dict[str, Callable[..., Study]] = {
    "acquisitions": AcquisitionsStudy,
    "beams": BeamsStudy,
    "beta": BetaStudy,
    "concentration": ConcentrationStudy,
    "discussion": DiscussionStudy,
    "heatmap": HeatmapStudy,
    "mixture": MixtureStudy,
    "networks": NetworkStudy,
    "negative": NegativeStudy,
    "quadrants": QuadrantsStudy,
    "radii": RadiiStudy,
    "tail": TailStudy,
    "timing": TimingStudy,
    "toy": ToyStudy,
}
"""What measures an exhibit, by the name its TOML file gives."""


@dataclass(frozen=True, slots=True)
class Exhibit:
    """What the paper shows, what it claims by it, and how that is measured here."""

    schema: int
    order: int
    """Its place in the paper."""
    id: str
    place: str
    """Where the paper has it, such as ``Figure 3``."""
    title: str
    claim: str
    """What must be seen, in our words."""
    study: str
    """What measures it, of `STUDIES`."""
    needs: str | None = None
    """What it takes beyond what every machine has."""
    seconds: float = 0.0
    """On two cores, about; where it trains networks, on a fast GPU."""
    quick_seconds: float = 0.0
    core_hours: float = 0.0
    """Of one core, where networks are trained without a GPU."""
    quick_core_hours: float = 0.0
    parameters: Mapping[str, object] = field(default_factory=dict)
    quick: Mapping[str, object] = field(default_factory=dict)
    """Parameters that differ in a quick run."""

    def __post_init__(self) -> None:
        if self.schema != SCHEMA:
            hint = f"write schema = {SCHEMA}."
            raise InvalidArgument("is not known", argument="schema", value=self.schema, hint=hint)

    @property
    def is_light(self) -> bool:
        """Whether every machine can measure it."""
        return self.needs is None

    @property
    def cost(self) -> str:
        """About how long it takes, and what else it needs.

        Examples
        --------
        >>> exhibits()["figure-7"].cost, exhibits()["figure-5"].cost
        ('1 s', '4 min on a fast GPU, else 63 hours of a core; images')
        """
        return _cost(self.needs, self.seconds, self.core_hours)

    @property
    def quick_cost(self) -> str:
        """The same for a quick run."""
        return _cost(self.needs, self.quick_seconds, self.quick_core_hours)

    def settings(self, quick: bool) -> dict[str, object]:
        given = {**self.parameters, **(self.quick if quick else {})}
        return {name: tuple(value) if isinstance(value, list) else value for name, value in given.items()}

    def build(self, *, quick: bool = False) -> Study:
        kind, settings = STUDIES[check_choice("study", self.study, STUDIES)], self.settings(quick)
        check_keys(f"{self.id}.toml", settings, [each.name for each in _fields(kind)])
        return kind(**settings)


def _fields(kind: Any) -> Sequence[Any]:
    return fields(kind)


def _cost(needs: str | None, seconds: float, core_hours: float) -> str:
    if needs is None:
        return _reported(seconds)
    if not core_hours:
        return f"{_reported(seconds)} on {needs}"
    return f"{_reported(seconds)} on a fast GPU, else {core_hours:,.0f} hours of a core; {needs}"


def _reported(seconds: float) -> str:
    return f"{seconds:.0f} s" if seconds < 90 else f"{seconds / 60:.0f} min"


@cache
def exhibits() -> dict[str, Exhibit]:
    """Every exhibit by its id, in the paper's order.

    Examples
    --------
    >>> list(exhibits())[:3]
    ['figure-1', 'figure-2', 'figure-3']
    """
    found = [each for each in files("dubito.paper").iterdir() if each.name.endswith(".toml")]
    read = [parse_exhibit(each.read_text(encoding="utf-8"), each.name) for each in found]
    return {each.id: each for each in sorted(read, key=lambda each: each.order)}


def parse_exhibit(text: str, name: str) -> Exhibit:
    """An exhibit out of TOML text; ``name`` is what errors call it."""
    table: dict[str, Any] = tomllib.loads(text)
    with naming(name):
        check_keys("it", table, [each.name for each in fields(Exhibit)])
        return Exhibit(**table)


def is_at_hand(exhibit: Exhibit) -> bool:
    """Whether an exhibit that trains networks can be measured here in minutes."""
    study = exhibit.build()
    return isinstance(study, NetworkStudy) and study.is_at_hand()


def choose_exhibits(names: Sequence[str]) -> tuple[Exhibit, ...]:
    """The exhibits of these ids, each once.

    ``all`` stands for those that every machine can measure; and where there is a GPU and what they need is at hand,
    for those that train networks, too.

    Examples
    --------
    >>> [each.id for each in choose_exhibits(["figure-7", "figure-4", "figure-7"])]
    ['figure-7', 'figure-4']
    """
    known = exhibits()
    chosen: dict[str, Exhibit] = {}
    for name in names:
        if name == EVERYTHING:
            chosen.update({id: each for id, each in known.items() if each.is_light or is_at_hand(each)})
            continue
        each = known[check_choice("figure", name, [*known, EVERYTHING])]
        each.build()
        chosen[name] = each
    return tuple(chosen.values())


# What was measured: one JSON record for each exhibit. Ours lie in the package, a user's where it was run.

SHIPPED = "measured.json"
CPU_NAMES = "/proc/cpuinfo"


@dataclass(frozen=True, slots=True)
class Measured:
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
        return outcome_of(self.holds, self.scope)

    def as_dict(self) -> dict[str, object]:
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
    >>> from dubito.paper.exhibits import exhibits
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
        hint = "remove it, or pass -o elsewhere."
        raise InvalidData(f"{path} is no record of a measurement ({error!r})", hint=hint) from error


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
