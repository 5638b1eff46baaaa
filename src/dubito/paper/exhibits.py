"""Exhibits: the figures, tables and statements of the paper. Each has a TOML file in this folder."""

import inspect
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
from dubito.experiments.toml import check_keys, prefix_errors
from dubito.io import write_atomically
from dubito.paper.coreset_studies import BeamsStudy, QuadrantsStudy, RadiiStudy
from dubito.paper.mixture_studies import HeatmapStudy, MixtureStudy, TailStudy
from dubito.paper.network_studies import NetworkStudy
from dubito.paper.statement_studies import BetaStudy, DiscussionStudy, TimingStudy
from dubito.paper.study import Finding, Study, outcome_of
from dubito.paper.toy_studies import AcquisitionsStudy, ConcentrationStudy, NegativeStudy, ToyStudy
from dubito.request.arrays import check_choice

SCHEMA = 1
ALL = "all"

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
"""The studies that measure exhibits, by the name in the TOML file."""


@dataclass(frozen=True, slots=True)
class Exhibit:
    """A figure, table or statement of the paper, the claim it supports, and the study that measures it."""

    schema: int
    order: int
    """Position in the list of exhibits."""
    id: str
    place: str
    """What the paper calls it, such as ``Figure 3``."""
    title: str
    claim: str
    """What a measurement must show, in our words."""
    study: str
    """A key of `STUDIES`."""
    needs: str | None = None
    """What it requires that not every machine has."""
    seconds: float = 0.0
    """Approximate time on two cores, or on a fast GPU if networks are trained."""
    quick_seconds: float = 0.0
    core_hours: float = 0.0
    """Approximate time on one core without a GPU, if networks are trained."""
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
        """Whether it can be measured on any machine."""
        return self.needs is None

    @property
    def cost(self) -> str:
        """How long it takes approximately, and what else it needs.

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
        parameters = {**self.parameters, **(self.quick if quick else {})}
        return {name: tuple(value) if isinstance(value, list) else value for name, value in parameters.items()}

    def build(self, *, quick: bool = False) -> Study:
        study_class, settings = STUDIES[check_choice("study", self.study, STUDIES)], self.settings(quick)
        check_keys(f"{self.id}.toml", settings, inspect.signature(study_class).parameters)
        return study_class(**settings)


def _cost(needs: str | None, seconds: float, core_hours: float) -> str:
    if needs is None:
        return _format_duration(seconds)
    if not core_hours:
        return f"{_format_duration(seconds)} on {needs}"
    return f"{_format_duration(seconds)} on a fast GPU, else {core_hours:,.0f} hours of a core; {needs}"


def _format_duration(seconds: float) -> str:
    return f"{seconds:.0f} s" if seconds < 90 else f"{seconds / 60:.0f} min"


@cache
def exhibits() -> dict[str, Exhibit]:
    """All exhibits by id, in the order of the paper.

    Examples
    --------
    >>> list(exhibits())[:3]
    ['figure-1', 'figure-2', 'figure-3']
    """
    paths = [path for path in files("dubito.paper").iterdir() if path.name.endswith(".toml")]
    parsed = [parse_exhibit(path.read_text(encoding="utf-8"), path.name) for path in paths]
    return {each.id: each for each in sorted(parsed, key=lambda each: each.order)}


def parse_exhibit(text: str, name: str) -> Exhibit:
    """The exhibit for TOML text; ``name`` is the file name in error messages."""
    table: dict[str, Any] = tomllib.loads(text)
    with prefix_errors(name):
        check_keys("it", table, [each.name for each in fields(Exhibit)])
        return Exhibit(**table)


def choose_exhibits(names: Sequence[str]) -> tuple[Exhibit, ...]:
    """The exhibits with these ids, without duplicates.

    ``all`` means those that can be measured on any machine, and those that train networks if there is a GPU and their
    data and weights are available.

    Examples
    --------
    >>> [each.id for each in choose_exhibits(["figure-7", "figure-4", "figure-7"])]
    ['figure-7', 'figure-4']
    """
    known = exhibits()
    chosen: dict[str, Exhibit] = {}
    for name in names:
        if name == ALL:
            studies = {id: each.build() for id, each in known.items() if not each.is_light}
            ready = {id for id, each in studies.items() if isinstance(each, NetworkStudy) and each.is_available()}
            chosen.update({id: each for id, each in known.items() if each.is_light or id in ready})
            continue
        each = known[check_choice("figure", name, [*known, ALL])]
        each.build()
        chosen[name] = each
    return tuple(chosen.values())


# Measurements: one JSON record for each exhibit. Ours are in the package, those of a user in the output folder.


@dataclass(frozen=True, slots=True)
class Measured:
    id: str
    holds: bool
    sentence: str
    numbers: Mapping[str, float | None]
    quick: bool
    seed: int
    parameters: Mapping[str, object]
    """Those set in the TOML file; the others have the defaults of the study."""
    seconds: float
    when: str
    """UTC, to the minute."""
    versions: Mapping[str, str]
    machine: str
    scope: str | None = None
    """What was measured, if that is only a part of what the claim names."""

    @property
    def outcome(self) -> str:
        return outcome_of(self.holds, self.scope)

    def as_dict(self) -> dict[str, object]:
        return {"schema": 1, **asdict(self)}

    @classmethod
    def from_dict(cls, record: Mapping[str, Any]) -> "Measured":
        """The measurement for a JSON record; records of earlier versions have no scope."""
        return cls(**{each.name: record[each.name] for each in fields(cls) if each.name in record})


def measure(
    exhibit: Exhibit, *, quick: bool = False, seed: int = 0, study: Study | None = None
) -> tuple[Finding, Measured]:
    """Measure an exhibit and check its claim; ``study`` replaces the one that `Exhibit.build` returns.

    Examples
    --------
    >>> from dubito.paper.exhibits import exhibits
    >>> finding, record = measure(exhibits()["figure-7"], quick=True)
    >>> record.outcome
    'holds'
    """
    study = study or exhibit.build(quick=quick)
    started = time.perf_counter()
    finding = study.measure(seed)
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
    """The name of the processor, and the number of cores."""
    name = platform.processor() or platform.machine()
    if os.path.exists("/proc/cpuinfo"):
        with open("/proc/cpuinfo", encoding="utf-8") as file:
            names = [line.partition(":")[2].strip() for line in file if line.startswith("model name")]
        name = next(iter(names), name)
    return f"{name}, {os.cpu_count()} cores"


def write_measured(record: Measured, folder: Path) -> Path:
    path = folder / f"{record.id}.json"
    write_atomically(str(path), (json.dumps(record.as_dict(), indent=2, ensure_ascii=False) + "\n").encode())
    return path


def read_measured(folder: Path) -> dict[str, Measured]:
    """The records in a folder by id; none if the folder does not exist."""
    paths = sorted(folder.glob("*.json")) if folder.is_dir() else []
    return {record.id: record for record in map(_read, paths)}


def _read(path: Path) -> Measured:
    try:
        return Measured.from_dict(json.loads(path.read_text(encoding="utf-8")))
    except (ValueError, KeyError, TypeError) as error:
        hint = "remove it, or pass -o elsewhere."
        raise InvalidData(f"{path} is not the record of a measurement ({error!r})", hint=hint) from error


@cache
def shipped() -> dict[str, Measured]:
    """The measurements that come with the package, by id.

    Examples
    --------
    >>> shipped()["figure-7"].holds
    True
    """
    text = (files("dubito.paper") / "measured.json").read_text(encoding="utf-8")
    return {record["id"]: Measured.from_dict(record) for record in json.loads(text)}
