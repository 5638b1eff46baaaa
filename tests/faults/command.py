"""The command behind ``make faults-files``: how long, how many, and where the record goes."""

import argparse
import json
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from . import bombs, crowds, disks, folders, inputs, kills
from .campaign import Played, Scenario, play
from .page import count, render
from .trying import warm_up

GOAL = 300
"""Damaged variants of every kind of file."""


def scenarios(goal: int) -> Iterator[Scenario]:
    """Everything that goes wrong."""
    for part in (kills, crowds, disks, inputs, folders, bombs):
        yield from part.scenarios(goal)


def command(given: Sequence[str]) -> int:
    """Play, print a table, write the record and its page; 1 where there was a fault."""
    parser = argparse.ArgumentParser(
        prog="make faults-files", description="Kills, full disks, damage, crowds and bombs."
    )
    parser.add_argument("--minutes", type=float, default=30.0, help="stop after so many")
    parser.add_argument("--goal", type=int, default=GOAL, help="damaged variants of every kind of file")
    parser.add_argument("--seed", type=int, default=0, help="another campaign for every one")
    parser.add_argument("--only", action="append", help="scenarios whose group or name holds this, or that")
    parser.add_argument("--record", type=Path, help="where the record goes, as JSON, with a page beside it")
    chosen = parser.parse_args(given)
    warm_up()
    record = play(
        [each for each in scenarios(chosen.goal) if is_wanted(each, chosen.only or [""])],
        seconds=60 * chosen.minutes,
        seed=chosen.seed,
        tell=tell,
    )
    if chosen.record is not None:
        chosen.record.write_text(json.dumps(record, indent=1) + "\n", encoding="utf-8")
        chosen.record.with_suffix(".md").write_text(render(record), encoding="utf-8")
    return conclude(record)


def is_wanted(scenario: Scenario, only: Sequence[str]) -> bool:
    """Whether the group or name of a scenario holds any of these."""
    return any(each in f"{scenario.group}, {scenario.name}" for each in only)


def tell(played: Played) -> None:
    """A line of the table, and the faults below it."""
    scenario, counts = played.scenario, played.counts
    described = ", ".join(f"{counts[verdict]} {verdict}" for verdict in counts)
    print(
        f"{scenario.group:<20} {scenario.name:<36} {played.n_tries:>5} in {played.seconds:4.0f} s: {described}",
        flush=True,
    )
    for fault in played.faults:
        print(f"    fault: {fault}", flush=True)


def conclude(record: Mapping[str, Any]) -> int:
    """The sum in a line, and the exit code."""
    tries, faults = count(record["scenarios"], "tries"), count(record["scenarios"], "fault")
    print(f"{tries:,} tries in {record['seconds']} s, {faults} faults")
    return 1 if faults else 0
