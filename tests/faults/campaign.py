"""Scenarios played in turn until each has had its tries or the time is over, and the record of it."""

import platform
import random
import tempfile
import time
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from importlib.metadata import version
from pathlib import Path

from .trying import VERDICTS, Outcome

Tries = Callable[[Path, random.Random], Iterator[Outcome]]
MOST_EXAMPLES = 20
"""Faults of a scenario that the record tells in words."""
SHARES = 10
"""In so many turns every scenario comes to its goal, so that all have had some when the time is over."""


@dataclass(frozen=True)
class Scenario:
    """One thing that goes wrong, tried many times."""

    group: str
    name: str
    goal: int
    tries: Tries


@dataclass
class Played:
    """A scenario under way."""

    scenario: Scenario
    outcomes: Iterator[Outcome]
    counts: Counter[str] = field(default_factory=Counter)
    faults: list[str] = field(default_factory=list)
    seconds: float = 0.0
    is_over: bool = False

    @property
    def n_tries(self) -> int:
        """Tries so far."""
        return sum(self.counts.values())

    def play(self, tries: int, deadline: float) -> None:
        """Some tries more."""
        begun = time.monotonic()
        while self.n_tries < tries and time.monotonic() < deadline:
            outcome = next(self.outcomes, None)
            if outcome is None:
                self.is_over = True
                break
            self.counts[outcome.verdict] += 1
            if outcome.verdict == "fault":
                self.faults.append(outcome.described)
        self.seconds += time.monotonic() - begun

    def as_record(self) -> dict[str, object]:
        """As JSON holds it."""
        return {
            "group": self.scenario.group,
            "name": self.scenario.name,
            "goal": self.n_tries if self.is_over else self.scenario.goal,
            "tries": self.n_tries,
            **{verdict: self.counts[verdict] for verdict in VERDICTS},
            "examples": self.faults[:MOST_EXAMPLES],
        }


def play(
    scenarios: Sequence[Scenario], *, seconds: float, seed: int, tell: Callable[[Played], None]
) -> dict[str, object]:
    """Play scenarios for so long at most, and return the record; ``tell`` is called when one has come to its end."""
    begun = time.monotonic()
    with tempfile.TemporaryDirectory() as scratch:
        under_way: list[Played] = []
        for place, scenario in enumerate(scenarios):
            folder = Path(scratch, str(place))
            folder.mkdir()
            chance = random.Random(f"{seed} {scenario.group} {scenario.name}")
            under_way.append(Played(scenario, scenario.tries(folder, chance)))
        for share in range(1, SHARES + 1):
            for each in under_way:
                each.play(-(-each.scenario.goal * share // SHARES), begun + seconds)
        for each in under_way:
            tell(each)
        return {
            "schema": 1,
            "seed": seed,
            "seconds": round(time.monotonic() - begun),
            "machine": f"{platform.system()} {platform.machine()}",
            "python": platform.python_version(),
            "versions": {name: version(name) for name in ("dubito", "numpy", "pyarrow", "scikit-learn")},
            "scenarios": [each.as_record() for each in under_way],
        }
