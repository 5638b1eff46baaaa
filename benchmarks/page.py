"""The results page, made from the figures alone."""

from collections.abc import Iterable
from pathlib import Path
from typing import Any

from targets import measured_targets

Record = dict[str, Any]

SECTIONS = (
    ("real/scaled", "The real pool, scaled by doubt"),
    ("real/unscaled", "The real pool, unscaled"),
    ("peers", "Peers"),
    ("slow-peers", "Peers that take long: a smaller pool"),
    ("short-round", "A second round of few picks"),
    ("second-round", "A second round of many"),
)


def write_page(document: Record, path: Path) -> None:
    """Tables of what was measured; what was not is left out."""
    rows: Record = document["rows"]
    parts = [heading(document), "" if document["is_quick"] else targets(rows)]
    parts += [contest(title, rows[name]) for name, title in SECTIONS if name in rows]
    parts += [picture("peers", "Seconds of each, on a logarithmic axis")] if "peers" in rows else []
    parts += [sweep(rows, "beam", "Beam width"), million(rows), memory(rows)]
    parts += [growth(rows), machines(document)]
    path.write_text("\n\n".join(part for part in parts if part) + "\n")


def heading(document: Record) -> str:
    """What the page is."""
    data = {row["data"] for row in document["rows"].values()} - {"generated"}
    origin = (
        f"The real pool is `{data.pop()}`." if data else "No real pool was given: a generated one stands in for it."
    )
    if document["is_quick"]:
        origin += " **A quick run: its sizes are tiny, and its figures mean nothing.**"
    return (
        "# Selecting on a CPU: measured\n\n"
        "Made by `make bench`; [README](../README.md) says how. Seconds are medians, with the least and the most in "
        "brackets; ratios are of medians in one run, contestants taking turns. Picks are compared before and after "
        f"timing. {origin}"
    )


def targets(rows: Record) -> str:
    """What was promised, and what came of it."""
    lines = [(claim, wanted, found, verdict) for claim, wanted, found, verdict in measured_targets(rows)]
    return "## What it should show\n\n" + table(("claim", "wanted", "measured", ""), lines) if lines else ""


def contest(title: str, row: Record) -> str:
    """A table of contestants, ours first."""
    ours = next(iter(row["contestants"].values()))["median"]
    lines = [
        (
            name,
            duration(timing) + parts_of(timing),
            str(len(timing["seconds"])),
            f"{timing['median'] / ours:.1f}×",
            timing.get("agreement", ""),
        )
        for name, timing in row["contestants"].items()
    ]
    lines += [(name, reason, "", "", "") for name, reason in row.get("absent", {}).items()]
    text = f"## {title}\n\n{shape(row)}\n\n" + table(("", "seconds", "runs", "times ours", "picks"), lines)
    return text + bandwidth(row)


def bandwidth(row: Record) -> str:
    """How good an opponent the loop is."""
    if "gigabytes_per_second" not in row:
        return ""
    rate = row["gigabytes_per_second"]
    return (
        f"\n\nThe loop's product reads the pool at {rate['matvec']:.1f} GB/s, the loop as a whole at "
        f"{rate['loop']:.1f}; this machine's memory was measured to give {rate['read']:.1f} GB/s."
    )


def sweep(rows: Record, kind: str, title: str) -> str:
    """Seconds at each point of a sweep."""
    points = [(name.split("/"), row) for name, row in rows.items() if name.startswith(f"{kind}/")]
    if not points:
        return ""
    lines = []
    for value in sorted({words[1] for words, _ in points}, key=int):
        at = [row for words, row in points if words[1] == value]
        lines.append((f"{int(value):,}", *(cell(at, is_scaled, ours) for is_scaled, ours in columns(kind))))
    names = [
        f"{'dubito' if ours else 'NumPy loop'}, {'scaled' if scaled else 'unscaled'}" for scaled, ours in columns(kind)
    ]
    level = "##" if kind == "beam" else "###"
    kept = shape(points[0][1], without=kind)
    return f"{level} {title}\n\n{kept}\n\n" + table((title.lower(), *names), lines)


def columns(kind: str) -> tuple[tuple[bool, bool], ...]:
    """(scaled, ours) of a sweep's columns."""
    return ((True, True), (True, False)) if kind == "beam" else ((True, True), (False, True), (False, False))


def cell(rows: list[Record], is_scaled: bool, ours: bool) -> str:
    """One figure of a sweep."""
    for row in rows:
        for name, timing in row["contestants"].items():
            if row["is_scaled"] == is_scaled and name.startswith("dubito") == ours:
                return duration(timing)
    return "not run"


def million(rows: Record) -> str:
    """The memory map, budget by budget."""
    points = [row for name, row in rows.items() if name.startswith("million/") and "contestants" in row]
    points.sort(key=lambda row: int(row["budget"]))
    if not points:
        return ""
    lines = [
        (
            f"{row['budget']:,}",
            duration(row["contestants"]["dubito"]),
            f"{1e3 * row['contestants']['dubito']['median'] / row['budget']:.2f} ms",
            f"{row['peak_bytes'] / 1e6:,.0f} MB",
            str(row["proof"]),
        )
        for row in points
    ]
    text = f"## A large pool from a memory map, memory_limit={points[0]['memory_limit']!r}\n\n"
    text += f"{shape(points[0], without='budget')} The file was just written, so that its pages are in memory.\n\n"
    return text + table(("picks", "seconds", "a pick", "anonymous memory", "picks proved"), lines)


def memory(rows: Record) -> str:
    """Peaks beside the promise."""
    points = [row for name, row in rows.items() if name.startswith("memory/") and "contestants" in row]
    points.sort(key=lambda row: int(row["n"]))
    if not points:
        return ""
    lines = [
        (
            f"{row['n']:,}",
            f"{row['budget']:,}",
            f"{row['peak_bytes'] / 1e6:,.0f} MB",
            f"{row['promise_bytes'] / 1e6:,.0f} MB",
        )
        for row in points
    ]
    text = "## Memory\n\nAnonymous memory beyond what the process held before the call, sampled every 5 ms. "
    text += f"{shape(points[-1], without='pool')}\n\n" + table(("pool rows", "picks", "peak", "promised"), lines)
    return f"{text}\n\n{picture('memory', 'Peak memory against pool size')}"


def growth(rows: Record) -> str:
    """The sweeps and their picture."""
    sweeps = [
        sweep(rows, "pool", "Pool rows"),
        sweep(rows, "budget", "Picks"),
        sweep(rows, "labelled", "Labeled points"),
    ]
    known = [each for each in sweeps if each]
    if not known:
        return ""
    return "\n\n".join(["## How the time grows", picture("growth", "Time against pool, budget, labels, beam"), *known])


def machines(document: Record) -> str:
    """Where each run was made."""
    used = {row["run"] for row in document["rows"].values()}
    blocks = []
    for number, run in document["runs"].items():
        if number not in used:
            continue
        names = sorted(name for name, row in document["rows"].items() if row["run"] == number)
        versions = ", ".join(f"{name} {version}" for name, version in run["versions"].items())
        threads = ", ".join(f"{name}={value}" for name, value in run["threads"].items()) or "as the libraries choose"
        blocks.append(
            f"- `{run['command']}`, {run['date']}: {len(names)} rows\n"
            f"- {run['processor']}, {run['cores']} cores, {run['memory_gb']} GB; {run['system']}; "
            f"load at the start {run['load_at_start']}\n"
            f"- Python {run['python']}; {versions}\n"
            f"- {run['blas']}, {run['sgemm_gflops']} GFlop/s in a float32 product; threads {threads}"
        )
    return "## Where\n\n" + "\n\n".join(blocks) if blocks else ""


def shape(row: Record, without: str = "") -> str:
    """A row's numbers in words, less the one that varies."""
    scaled = "doubt-scaled" if row["is_scaled"] else "unscaled"
    parts = [] if without == "pool" else [f"{row['n']:,} × {row['d']} {row['type']}"]
    parts += [] if without == "labelled" else [f"{row['m']:,} labeled"]
    parts += [] if without == "budget" else [f"{row['budget']:,} picks"]
    parts += [scaled] if without in ("", "beam") or "peak_bytes" in row else []
    return f"{', '.join(parts)}; {row['data']}."


def duration(timing: Record) -> str:
    """Median and spread."""
    if len(timing["seconds"]) == 1:
        return f"{seconds(timing['median'])} (one run)"
    return f"{seconds(timing['median'])} ({seconds(timing['least'])} to {seconds(timing['most'])})"


def parts_of(timing: Record) -> str:
    """The parts of a contestant's time."""
    parts = ", ".join(f"{name} {seconds(value)}" for name, value in timing.get("parts", {}).items())
    return f": {parts}" if parts else ""


def seconds(value: float) -> str:
    """Three digits."""
    return f"{value:.3f}" if value < 1 else f"{value:.2f}" if value < 10 else f"{value:.1f}"


def table(names: Iterable[str], lines: Iterable[Iterable[str]]) -> str:
    """Markdown."""
    names = list(names)
    rows = [names, ["---"] * len(names), *map(list, lines)]
    return "\n".join(f"| {' | '.join(row)} |" for row in rows)


def picture(name: str, words: str) -> str:
    """Linked, with the same in vectors behind it."""
    return f"[![{words}]({name}.png)]({name}.svg)"
