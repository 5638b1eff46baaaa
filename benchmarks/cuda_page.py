"""The GPU's results page, made from the figures alone."""

from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

from cuda_pictures import HOST, KIND_NAMES, draw_cuda
from cuda_words import busy_ms, host_ms, milliseconds, spread, times, words
from page import picture, table

Record = dict[str, Any]
Line = tuple[str, ...]

GOALS = {
    "real/5000/scaled": 8.0,
    "real/5000/unscaled": 18.0,
    "real/15000/scaled": 28.0,
    "1M/5000/scaled": 80.0,
    "1M/5000/unscaled": 400.0,
    "1M/50000/scaled": 300.0,
    "10M/10000/scaled": 1_000.0,
    "real/5000/logits": 5.0,
    "clusters/1M/5000": 40.0,
    "clusters/10M/10000": 220.0,
}
"""Milliseconds at most."""
BEAM_GOAL = 1.5
"""A beam of 20 may take so many times a beam of 1."""
REPEATED = ("n", "m", "budget", "is_scaled", "beam", "data", "source")
"""What two measurements of one workload have in common."""
CLUSTERED = (
    " Distances inside a cluster are all alike and independent of doubt, so that about half of the pool may come first "
    "until labeled points of the own cluster have been applied to its bounds: twice as many again and again, each time "
    "to the rest. In the other pools doubt falls steeply, and only a few ten thousand rows may."
)
BEAM = "real/5000/scaled/beam20"


def write_cuda_page(document: Record, folder: Path) -> None:
    """Write cuda.md and its pictures; what was not measured is left out."""
    rows, sweeps = document["rows"], document["sweeps"]
    parts = [heading(rows), goals(rows), twice(document), missed(rows)]
    parts += [floors(rows), kinds(rows)]
    parts += [growth(sweeps), where(document["machine"])]
    draw_cuda(document, folder)
    (folder / "cuda.md").write_text("\n\n".join(part for part in parts if part) + "\n")


def heading(rows: Record) -> str:
    """What the page is."""
    real = next((row for row in rows.values() if row["data"] not in ("generated", "clusters")), None)
    origin = "No real pool was given: a generated one stands in for it."
    if real is not None:
        shape = f"{real['n']:,} × {real['d']} {real['type']}, {real['m']:,} labeled"
        origin = f"The real pool is `{real['data']}`: {shape}."
    return (
        "# Selecting on a GPU: measured\n\n"
        "Made by `benchmarks/bench_cuda.py`; [README](../README.md) says how. Times are medians of whole calls, with "
        "the least and the most in brackets: features on the GPU, doubts on the host, picks back on the host, the "
        f"device synchronised before and after. {origin} The other pools are generated, of the same character, "
        "or Gaussian clusters with doubts drawn evenly from 0 to 1. Logits, where doubt comes from them, lie on the "
        "GPU. For comparison: the paper tells of 25 s to 50 s for core-sets of 5,000 to 15,000, on a Titan."
    )


def goals(rows: Record) -> str:
    """Every row beside the loop, the CPU engine and its goal."""
    lines = [goal_line(name, row, rows) for name, row in rows.items()]
    names = ("", "PyTorch loop", "dubito", "goal", "", "loop / dubito", "CPU engine", "picks")
    return (
        "## What it should show\n\n"
        + table(names, lines)
        + "\n\nThe PyTorch loop is what one would write: float32 on the same GPU, norms kept, one matrix-vector "
        "product a pick. It and the CPU engine (one run, on the host of this GPU) were timed in the same run as ours. "
        "*Same as the CPU's* means the picks in order, every bit of their priorities, and the radius, compared before "
        "anything was timed. The loop decides in float32, and may part from exact picks."
    )


def goal_line(name: str, row: Record, rows: Record) -> Line:
    """One row of that table."""
    loop, ours = row.get("loop"), row["cuda"]
    goal, verdict = judged(name, row, rows)
    cpu = milliseconds(1e3 * row["cpu_seconds"]) if "cpu_seconds" in row else "not run"
    return (
        words(row),
        spread(loop) if loop else "not run",
        f"**{spread(ours)}**",
        goal,
        verdict,
        f"{loop['median'] / ours['median']:.0f}×" if loop else "",
        cpu,
        agreement(row),
    )


def judged(name: str, row: Record, rows: Record) -> tuple[str, str]:
    """The goal in words, and whether it is met."""
    ours, ratio = 1e3 * row["cuda"]["median"], beam_ratio(name, rows)
    if name in GOALS:
        return f"{GOALS[name]:,.0f} ms", "met" if ours <= GOALS[name] else "**missed**"
    if name == BEAM and ratio is not None:
        return f"{BEAM_GOAL}× a beam of 1", f"met: {ratio:.1f}×" if ratio <= BEAM_GOAL else f"**missed**: {ratio:.1f}×"
    return "none", "" if ratio is None else f"{ratio:.1f}× a beam of 1"


def beam_ratio(name: str, rows: Record) -> float | None:
    """Of a beam's time to that of a beam of one."""
    one = rows.get(name.rpartition("/")[0])
    return None if one is None else float(rows[name]["cuda"]["median"] / one["cuda"]["median"])


def agreement(row: Record) -> str:
    """What is known of the picks."""
    known = ["same as the CPU's"] if row.get("same_as_cpu") else []
    if "shared_with_loop" in row:
        share = row["shared_with_loop"]
        known.append("the loop's as a set" if share == 1.0 else f"{100 * share:.2f}% of the loop's among them")
    return "; ".join(known) or "compared with nothing"


def twice(document: Record) -> str:
    """What was measured more than once: how far the figures may be trusted."""
    others = [*document["sweeps"].get("budget", []), *document.get("again", [])]
    found = []
    for row in document["rows"].values():
        same = [spread(other["cuda"]) for other in others if all(row.get(name) == other.get(name) for name in REPEATED)]
        if same:
            found.append(f"{words(row)}: {spread(row['cuda'])}, then {', then '.join(same)}")
    if not found:
        return ""
    listed = "\n".join(f"- {line}" for line in found)
    return (
        "Some workloads were measured more than once: by the sweep over budgets, and once more with no other work "
        f"between. What differs is the host's part.\n\n{listed}"
    )


def missed(rows: Record) -> str:
    """Every goal that was missed, and where that row's time went."""
    found = [line for name, row in rows.items() for line in reasons(name, row, rows)]
    if not found:
        return (
            "## What is missed\n\nOf these workloads nothing: every goal in the first table is met."
            if goals_set(rows)
            else ""
        )
    return "## What is missed\n\n" + "\n".join(f"- {line}" for line in found)


def goals_set(rows: Record) -> bool:
    """Whether any row has a goal."""
    return any(name in GOALS for name in rows)


def reasons(name: str, row: Record, rows: Record) -> Iterator[str]:
    """A sentence where the goal was missed."""
    goal, verdict = judged(name, row, rows)
    if "missed" not in verdict:
        return
    ours = 1e3 * row["cuda"]["median"]
    text = f"**{words(row)}**: {milliseconds(ours)}, goal {goal}."
    if row["beam"] > 1:
        yield f"{text} {beam_reason(row, BEAM_GOAL * rows[name.rpartition('/')[0]]['cuda']['median'])}"
        return
    device = row["kinds"]["device_ms"]
    largest = sorted(device, key=lambda kind: -device[kind])[:3]
    parts = ", ".join(f"{KIND_NAMES.get(kind, kind)} {milliseconds(device[kind])}" for kind in largest)
    yield (
        f"{text} The device is busy for {milliseconds(busy_ms(row))} ({parts}); {milliseconds(host_ms(row))} more are "
        f"the host's, with {row['kinds']['launches']:,} launches and {row['kinds']['synchronisations']:,} "
        "synchronisations." + (CLUSTERED if row["data"] == "clusters" else "")
    )


def beam_reason(row: Record, wanted: float) -> str:
    """Why a beam is slow, where it is wanted in so many seconds."""
    step, goal = (1e6 * seconds / row["budget"] for seconds in (row["cuda"]["median"], wanted))
    return (
        f"A beam's steps follow one another, {step:.1f} µs each in all, in one block of threads; the goal leaves "
        f"{goal:.1f} µs. A beam of one decides whole fronts in a few rounds; wider ones have no such way yet."
    )


def floors(rows: Record) -> str:
    """What no algorithm, or none that computes everything, goes below."""
    measured = [row for row in rows.values() if "floor" in row]
    if not measured:
        return ""
    return (
        "## The floors\n\n"
        + table(
            ("", "dubito", "the features read once", "distance", "all products", "distance", "rates"),
            [floor_line(row) for row in measured],
        )
        + "\n\n*Read once*: the bytes of pool and labeled over the rate at which a copy on this device reads; it "
        "writes as much again, so that a pass that only reads can be up to twice as quick. *All products*: every pool "
        "row with every labeled point and pick, at the rate of a large square product in the features' type, float32 "
        "cut to ten bits, as bounds have it (near pairs take three such products). An eager algorithm "
        "needs all of them at that rate or worse. A lazy one "
        "does not: where the distance is below 1, ours went below that floor. The first is a floor for everybody."
    )


def floor_line(row: Record) -> Line:
    """One row's distance to both."""
    ours, floor = 1e3 * row["cuda"]["median"], row["floor"]
    return (
        words(row),
        milliseconds(ours),
        milliseconds(floor["read_ms"]),
        times(ours / floor["read_ms"]),
        milliseconds(floor["all_products_ms"]),
        times(ours / floor["all_products_ms"]),
        f"{floor['bandwidth_gb']:,.0f} GB/s, {floor['matrix_tflops']:,.0f} TFLOP/s",
    )


def kinds(rows: Record) -> str:
    """Milliseconds of each row by kind."""
    measured = [row for row in rows.values() if "kinds" in row]
    if not measured:
        return ""
    names = [kind for kind in KIND_NAMES if kind != HOST and any(kind in row["kinds"]["device_ms"] for row in measured)]
    titles = ("", *(KIND_NAMES[kind] for kind in names), "device", "host", "launches", "synchronisations")
    return (
        "## Where the time goes\n\n"
        + picture("cuda-where", "Shares of the time of each workload, by kind of work")
        + "\n\n"
        + table(titles, [kind_line(row, names) for row in measured])
        + "\n\nMilliseconds. Those on the device are of one run under PyTorch's profiler; *host* is the median time "
        "of the undisturbed runs less these: checks, Python, launches, and waiting for an answer before the next "
        "launch. *Bounds* and *near pairs* are products on tensor cores, *deciding* is the rounds inside a front, "
        "or a beam's steps, *search* finds the candidates that come first."
    )


def kind_line(row: Record, names: Sequence[str]) -> Line:
    """One row's milliseconds."""
    device = row["kinds"]["device_ms"]
    return (
        words(row),
        *(f"{device.get(kind, 0.0):.2f}" for kind in names),
        f"{busy_ms(row):.2f}",
        f"{host_ms(row):.2f}",
        f"{row['kinds']['launches']:,}",
        f"{row['kinds']['synchronisations']:,}",
    )


def growth(sweeps: Record) -> str:
    """The sweeps, as a picture and in figures."""
    parts = [
        sweep(sweeps.get("pool", []), "n", "Pool rows"),
        sweep(sweeps.get("budget", []), "budget", "Picks"),
    ]
    known = [part for part in parts if part]
    shown = picture("cuda-growth", "Time against pool size and against budget, on logarithmic axes")
    return "\n\n".join(["## How the time grows", shown, *known]) if known else ""


def sweep(rows: Sequence[Record], key: str, title: str) -> str:
    """A table of one sweep."""
    if not rows:
        return ""
    scalings = [scaled for scaled in (True, False) if any(row["is_scaled"] == scaled for row in rows)]
    lines = []
    for value in sorted({row[key] for row in rows}):
        at = [next(row for row in rows if row[key] == value and row["is_scaled"] == scaled) for scaled in scalings]
        lines.append((f"{value:,}", *(cell for row in at for cell in sweep_cells(row))))
    names = [
        f"{who}, {'scaled' if scaled else 'unscaled'}"
        for scaled in scalings
        for who in ("dubito", "PyTorch loop", "CPU engine")
    ]
    first = rows[0]
    kept = f"{first['m']:,} labeled, " + (f"{first['budget']:,} picks" if key == "n" else f"{first['n']:,} pool rows")
    text = f"### {title}\n\n{kept}, {first['d']} features, {first['type']}; {first['data']}.\n\n"
    return text + table((title.lower(), *names), lines)


def sweep_cells(row: Record) -> tuple[str, str, str]:
    """Ours, the loop's and the CPU engine's."""
    cpu = milliseconds(1e3 * row["cpu_seconds"]) if "cpu_seconds" in row else "not run"
    return spread(row["cuda"]), spread(row["loop"]) if "loop" in row else "not run", cpu


def where(machine: Record) -> str:
    """The machine, the versions and the command."""
    versions = {name: number for name, number in machine["versions"].items() if number != "not installed"}
    versions |= {"torch": machine["torch"], "triton": machine["triton"]}
    versions = {"dubito": "as in this source tree"} | versions
    threads = ", ".join(f"{name}={value}" for name, value in machine["threads"].items()) or "as the libraries choose"
    return "## Where\n\n" + "\n".join(
        (
            f"- `{machine['command']}`, {machine['date']}",
            f"- {machine['gpu']}, {machine['gpu_memory_gb']} GB; CUDA {machine['cuda']}",
            f"- {machine['processor']}, {machine['cores']} cores, {machine['memory_gb']} GB; {machine['system']}; "
            f"load at the start {machine['load_at_start']}; threads {threads}",
            f"- Python {machine['python']}; {', '.join(f'{name} {number}' for name, number in versions.items())}",
        )
    )
