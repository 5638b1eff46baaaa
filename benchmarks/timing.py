"""Contestants, and timing them in turn: A B A B, so that a slow minute of the machine meets them all."""

import gc
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field

import numpy as np
from workloads import Floats, Ints

REST = 0.1
"""Seconds between runs: threads of one library spin for a moment before they sleep, and would disturb the next."""


@dataclass(frozen=True, slots=True)
class Outcome:
    """What a contestant picked, in order; its priorities where it says, and the seconds of its parts."""

    picks: Ints
    priorities: Floats | None = None
    parts: Mapping[str, float] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Contestant:
    """Someone who picks. ``warm_up`` runs once, ``prepare`` before every run; neither is timed."""

    name: str
    run: Callable[[], Outcome]
    warm_up: Callable[[], object] = bool
    prepare: Callable[[], object] = bool
    check: Callable[[Outcome], str] = lambda _: "not compared"
    """Says how the picks agree with those expected; raises where they do not."""
    repeats: int = 5
    cap: float = 60.0
    """Seconds: no further repeat is begun that would pass them."""


@dataclass(slots=True)
class Timing:
    """Every repeat of one contestant."""

    seconds: list[float] = field(default_factory=list)
    parts: list[Mapping[str, float]] = field(default_factory=list)
    agreement: str = ""

    def wants_more(self, contestant: Contestant) -> bool:
        """Whether a further repeat is due, and fits under the cap."""
        if not self.seconds:
            return True
        return len(self.seconds) < contestant.repeats and sum(self.seconds) + max(self.seconds) <= contestant.cap

    def record(self) -> dict[str, object]:
        """For the JSON file."""
        record: dict[str, object] = {
            "median": float(np.median(self.seconds)),
            "least": min(self.seconds),
            "most": max(self.seconds),
            "seconds": self.seconds,
            "agreement": self.agreement,
        }
        if self.parts[0]:
            record["parts"] = {name: float(np.median([part[name] for part in self.parts])) for name in self.parts[0]}
        return record


def time_in_turn(contestants: Sequence[Contestant], repeats: int) -> dict[str, dict[str, object]]:
    """Warm everybody up, then run them in turn up to ``repeats`` times, comparing the picks of every timed run."""
    for contestant in contestants:
        contestant.warm_up()
    timings = {contestant.name: Timing() for contestant in contestants}
    for _ in range(repeats):
        for contestant in contestants:
            if timings[contestant.name].wants_more(contestant):
                time_once(contestant, timings[contestant.name])
    return {name: timing.record() for name, timing in timings.items()}


def time_once(contestant: Contestant, timing: Timing) -> None:
    """One repeat."""
    contestant.prepare()
    gc.collect()
    time.sleep(REST)
    started = time.perf_counter()
    outcome = contestant.run()
    timing.seconds.append(time.perf_counter() - started)
    timing.parts.append(outcome.parts)
    timing.agreement = contestant.check(outcome)
    print(f"    {contestant.name:<28} {timing.seconds[-1]:9.3f} s   {timing.agreement}", flush=True)
