"""Exhibits: a figure, table or statement of the paper, as one TOML file of this folder tells it."""

import tomllib
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, fields
from functools import cache
from importlib.resources import files
from typing import Any

from dubito.checks import check_choice
from dubito.errors import InvalidArgument
from dubito.experiments.toml import check_keys, naming
from dubito.paper.appendix import AcquisitionsStudy, NegativeStudy, ToyStudy
from dubito.paper.beams import BeamsStudy
from dubito.paper.beta import BetaStudy
from dubito.paper.concentration import ConcentrationStudy
from dubito.paper.discussion import DiscussionStudy
from dubito.paper.mixture import HeatmapStudy, MixtureStudy, TailStudy
from dubito.paper.networks_study import NetworkStudy
from dubito.paper.quadrants import QuadrantsStudy
from dubito.paper.radii import RadiiStudy
from dubito.paper.timing import TimingStudy
from dubito.paper.verdicts import Study

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
            raise InvalidArgument(
                "is not known", argument="schema", value=self.schema, mend=f"write schema = {SCHEMA}."
            )

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
        """The study's parameters."""
        given = {**self.parameters, **(self.quick if quick else {})}
        return {name: tuple(value) if isinstance(value, list) else value for name, value in given.items()}

    def build(self, *, quick: bool = False) -> Study:
        """The study with its parameters."""
        kind, settings = STUDIES[check_choice("study", self.study, STUDIES)], self.settings(quick)
        check_keys(f"{self.id}.toml", settings, [each.name for each in _fields(kind)])
        return kind(**settings)


def _fields(kind: Any) -> Sequence[Any]:
    return fields(kind)


def _cost(needs: str | None, seconds: float, core_hours: float) -> str:
    if needs is None:
        return _told(seconds)
    if not core_hours:
        return f"{_told(seconds)} on {needs}"
    return f"{_told(seconds)} on a fast GPU, else {core_hours:,.0f} hours of a core; {needs}"


def _told(seconds: float) -> str:
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
