"""The pictures of the results page: logarithmic axes, lines named where they end."""

from collections.abc import Sequence
from pathlib import Path
from typing import Any

from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.layout_engine import ConstrainedLayoutEngine
from matplotlib.ticker import FuncFormatter, LogLocator, NullLocator

from dubito.experiments.plots.style import FAINT, INK, OKABE_ITO, QUIET, make_axes_plain, new_figure, save_figure, title

Record = dict[str, Any]
Point = tuple[float, float]

OURS_SCALED, OURS, LOOP, PEER = OKABE_ITO["vermilion"], OKABE_ITO["blue"], INK, QUIET
PANELS = (("pool", "Pool rows"), ("budget", "Picks"), ("labelled", "Labeled points"), ("beam", "Beam width"))
CONTESTS = (
    ("real/scaled", "real pool, scaled"),
    ("real/unscaled", "real pool, unscaled"),
    ("peers", "peers' pool, unscaled"),
    ("slow-peers", "slow peers' pool, unscaled"),
)


def draw(document: Record, folder: Path) -> None:
    """Every picture for which there are figures."""
    rows: Record = document["rows"]
    if any(lines_of(rows, kind) for kind, _ in PANELS):
        save_figure(growth(rows), folder / "growth", force=True)
    if "peers" in rows:
        save_figure(peers(rows), folder / "peers", force=True)
    if any(name.startswith("memory/") and "peak_bytes" in row for name, row in rows.items()):
        save_figure(memory(rows), folder / "memory", force=True)


def growth(rows: Record) -> Figure:
    """Four panels: seconds against one number each."""
    figure = Figure(figsize=(9.6, 7.4), layout=ConstrainedLayoutEngine(w_pad=0.12, h_pad=0.12), facecolor="white")
    for place, (kind, name) in enumerate(PANELS, 1):
        axes = figure.add_subplot(2, 2, place)
        make_axes_plain(axes)
        lines = lines_of(rows, kind)
        for _, color, points in lines:
            plot_line(axes, points, color)
        if lines:
            logarithmic(axes, [x for _, _, points in lines for x, _ in points])
            name_lines(axes, lines)
        title(axes, name, kept(rows, kind))
        axes.set_ylabel("seconds", color=QUIET, fontsize=9)
    return figure


def lines_of(rows: Record, kind: str) -> list[tuple[str, str, list[Point]]]:
    """(label, color, points) of a sweep: the loop, ours unscaled, ours scaled."""
    found = []
    wanted = [("NumPy loop", LOOP, False), ("dubito, unscaled", OURS, False), ("dubito, scaled", OURS_SCALED, True)]
    if kind == "beam":
        wanted = [("NumPy loop", LOOP, True), ("dubito", OURS_SCALED, True)]
    for label, color, is_scaled in wanted:
        points = [
            (float(name.split("/")[1]), timing["median"])
            for name, row in rows.items()
            if name.startswith(f"{kind}/") and row["is_scaled"] == is_scaled
            for who, timing in row["contestants"].items()
            if who.partition(",")[0] == label.partition(",")[0]
        ]
        if points:
            found.append((label, color, sorted(points)))
    return found


def kept(rows: Record, kind: str) -> str:
    """What a panel holds fixed."""
    row = next((row for name, row in rows.items() if name.startswith(f"{kind}/")), None)
    if row is None:
        return ""
    parts = {"pool": f"{row['n']:,} rows", "labelled": f"{row['m']:,} labeled", "budget": f"{row['budget']:,} picks"}
    return ", ".join([*(text for name, text in parts.items() if name != kind), *["scaled"] * (kind == "beam")])


def plot_line(axes: Axes, points: Sequence[Point], color: str) -> None:
    """A line with a dot at every measurement."""
    axes.plot(*zip(*points, strict=True), color=color, linewidth=1.8, marker="o", markersize=4.5, clip_on=False)


def name_lines(axes: Axes, lines: Sequence[tuple[str, str, list[Point]]]) -> None:
    """Labels right of the lines' ends, moved apart where they would touch."""
    low, high = axes.get_ylim()
    step = (high / low) ** 0.075
    ends = sorted(lines, key=lambda line: line[2][-1][1])
    at = 0.0
    for label, color, points in ends:
        x, y = points[-1]
        at = max(y, at * step)
        axes.annotate(
            label, (x, at), xytext=(7, 0), textcoords="offset points", color=color, fontsize=9, va="center",
            annotation_clip=False,
        )  # fmt: skip


def logarithmic(axes: Axes, xs: Sequence[float]) -> None:
    """Both axes, with a tick at every value measured."""
    axes.set_xscale("log")
    axes.set_yscale("log")
    ticks = sorted(set(xs))
    axes.set_xticks(ticks, [short(x) for x in ticks])
    axes.xaxis.set_minor_locator(NullLocator())
    axes.set_xlim(ticks[0] * 0.9, ticks[-1] * (ticks[-1] / ticks[0]) ** 0.3)
    axes.yaxis.set_major_locator(LogLocator(subs=(1.0, 3.0)))
    axes.yaxis.set_major_formatter(FuncFormatter(lambda value, _: f"{value:g}"))
    axes.yaxis.set_minor_locator(NullLocator())
    axes.grid(axis="y", color=FAINT, linewidth=0.6)
    axes.set_axisbelow(True)


def short(value: float) -> str:
    """1k, 1M."""
    for size, letter in ((1e6, "M"), (1e3, "k")):
        if value >= size:
            return f"{value / size:g}{letter}"
    return f"{value:g}"


def peers(rows: Record) -> Figure:
    """A dot a contestant, grouped by workload, with its seconds and how many times ours they are."""
    entries: list[tuple[str, Record | None, float]] = []
    for name, words in CONTESTS:
        if name not in rows:
            continue
        ours = rows[name]["contestants"]["dubito"]["median"]
        row = rows[name]
        entries.append((f"{words}: {row['n']:,} × {row['d']}, {row['m']:,} labeled, {row['budget']:,} picks", None, 0))
        entries += [(label, timing, ours) for label, timing in row["contestants"].items()]
    figure, axes = new_figure(8.4, 0.9 + 0.29 * len(entries))
    for place, (label, timing, ours) in enumerate(entries):
        plot_entry(axes, -place, label, timing, ours)
    axes.set_xscale("log")
    axes.xaxis.set_major_formatter(FuncFormatter(lambda value, _: f"{value:g}"))
    axes.xaxis.set_minor_locator(NullLocator())
    axes.set_yticks([])
    axes.spines["left"].set_visible(False)
    axes.set_ylim(-len(entries) + 0.3, 0.6)
    axes.set_xlabel("seconds", color=QUIET, fontsize=9)
    title(axes, "A core-set, in how many seconds")
    return figure


def plot_entry(axes: Axes, y: float, label: str, timing: Record | None, ours: float) -> None:
    """A contestant's line, or the headline of a workload."""
    left = axes.get_yaxis_transform()
    if timing is None:
        axes.text(-0.36, y - 0.1, label, transform=left, color=INK, fontsize=9, fontweight="bold", va="center")
        return
    is_ours = label.startswith("dubito")
    color = OURS_SCALED if is_ours else PEER
    axes.text(-0.02, y, label, transform=left, color=color if is_ours else INK, fontsize=9, ha="right", va="center")
    if timing["median"] > ours:
        axes.plot([ours, timing["median"]], [y, y], color=FAINT, linewidth=1.5, zorder=1)
    axes.plot([timing["least"], timing["most"]], [y, y], color=color, linewidth=3.5, solid_capstyle="round")
    axes.plot(timing["median"], y, "o", color=color, markersize=7, clip_on=False)
    ratio = timing["median"] / ours
    words = f"{timing['median']:.3g} s" + ("" if label == "dubito" else f"  ({ratio:.3g}×)")
    axes.annotate(
        words, (timing["most"], y), xytext=(9, 0), textcoords="offset points", color=INK, fontsize=8.5, va="center",
        annotation_clip=False,
    )  # fmt: skip


def memory(rows: Record) -> Figure:
    """Peaks under the promise."""
    found = sorted(
        (row for name, row in rows.items() if name.startswith("memory/") and "peak_bytes" in row),
        key=lambda row: int(row["n"]),
    )
    measured = [(float(row["n"]), row["peak_bytes"] / 1e6) for row in found]
    promised = [(float(row["n"]), row["promise_bytes"] / 1e6) for row in found]
    figure, axes = new_figure(7.0, 4.2)
    axes.plot(*zip(*promised, strict=True), color=QUIET, linewidth=1.4, linestyle="--")
    plot_line(axes, measured, OURS)
    logarithmic(axes, [x for x, _ in measured])
    name_lines(axes, [("promised:\n32 bytes a row\n+ 128 MB", QUIET, promised), ("measured", OURS, measured)])
    axes.set_yscale("linear")
    axes.set_ylim(0.0, 1.15 * max(y for _, y in promised + measured))
    axes.set_xlabel("pool rows", color=QUIET, fontsize=9)
    axes.set_ylabel("MB", color=QUIET, fontsize=9)
    row = found[-1]
    title(
        axes,
        "Peak memory beside the features",
        f"{row['m']:,} labeled, up to {row['budget']:,} picks, a float16 memory map",
    )
    return figure
