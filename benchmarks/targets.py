"""What dubito means to be, in figures, and whether the rows bear it out."""

from collections.abc import Iterator
from typing import Any

Record = dict[str, Any]
Line = tuple[str, str, str, str]

ROUND, SCRATCH = "dubito.Pool, label() too", "dubito from scratch"
RATIOS = (
    ("real/scaled", "dubito", "NumPy loop", 14.0, 30.0, "real pool, doubt-scaled, against the NumPy loop"),
    ("real/unscaled", "dubito", "NumPy loop", 6.0, 10.0, "real pool, unscaled, against the NumPy loop"),
    ("peers", "dubito", "scikit-activeml CoreSet", 100.0, None, "against scikit-activeml"),
    ("peers", "dubito", "lightly-mundig", 1.0, None, "against lightly-mundig"),
    ("real/scaled", "dubito, beam", "NumPy loop", 5.0, None, "a beam of 20 against the NumPy loop's beam of 1"),
    ("short-round", ROUND, SCRATCH, 2.0, None, "a second round of 500 on a Pool, with label()"),
    ("second-round", ROUND, SCRATCH, 2.0, None, "a second round of 5,000 on a Pool, with label()"),
)
"""Row, ours, theirs, at least so many times faster, the goal, in words."""


def measured_targets(rows: Record) -> Iterator[Line]:
    """Claim, wanted, measured, verdict; only of rows that were measured."""
    for name, ours, theirs, least, goal, words in RATIOS:
        times = rows.get(name, {}).get("contestants", {})
        mine = next((each for label, each in times.items() if is_label(label, ours)), None)
        if mine is None or theirs not in times:
            continue
        ratio = times[theirs]["median"] / mine["median"]
        wanted = f">= {least:g}×" + (f", goal {goal:g}×" if goal else "")
        found = f"{ratio:.1f}× ({mine['median']:.3g} s against {times[theirs]['median']:.3g} s)"
        yield words, wanted, found, verdict(ratio >= least, goal is None or ratio >= goal)
    yield from beam_target(rows)
    yield from memory_targets(rows)


def is_label(label: str, wanted: str) -> bool:
    """``dubito, beam`` stands for a beam of any width."""
    return label.startswith(wanted) if wanted.endswith("beam") else label == wanted


def verdict(is_met: bool, is_goal_met: bool) -> str:
    """In a word."""
    return "missed" if not is_met else "met" if is_goal_met else "met; the goal is not"


def beam_target(rows: Record) -> Iterator[Line]:
    """A wide beam against our own beam of one."""
    times = rows.get("real/scaled", {}).get("contestants", {})
    beam = next((each for label, each in times.items() if label.startswith("dubito, beam")), None)
    if beam is not None:
        ratio = beam["median"] / times["dubito"]["median"]
        yield "a beam of 20 against our beam of 1", "goal: <= 2× the time", f"{ratio:.1f}×", verdict(ratio <= 2, True)


def memory_targets(rows: Record) -> Iterator[Line]:
    """What the large map and the sweep over pools say."""
    million = [row for name, row in rows.items() if name.startswith("million/") and "peak_bytes" in row]
    if million:
        peak = max(row["peak_bytes"] for row in million)
        yield "large map, anonymous memory", "<= 2 GB", f"{peak / 1e9:.2f} GB", verdict(peak <= 2e9, True)
        few, many = min(million, key=budget_of), max(million, key=budget_of)
        picks = many["budget"] / few["budget"]
        times = many["contestants"]["dubito"]["median"] / few["contestants"]["dubito"]["median"]
        words = f"large map, {picks:g}× the picks"
        yield words, f"< {picks:g}× the time", f"{times:.1f}×", verdict(times < picks, True)
    points = [row for name, row in rows.items() if name.startswith("memory/") and "peak_bytes" in row]
    if points:
        worst = max(points, key=lambda row: float(row["peak_bytes"]) / float(row["promise_bytes"]))
        found = f"{worst['peak_bytes'] / 1e6:.0f} of {worst['promise_bytes'] / 1e6:.0f} MB at {worst['n']:,} rows"
        is_met = worst["peak_bytes"] <= worst["promise_bytes"]
        yield "peak memory by default", "<= 32 bytes a row + 128 MB", found, verdict(is_met, True)


def budget_of(row: Record) -> int:
    """Its picks."""
    return int(row["budget"])
