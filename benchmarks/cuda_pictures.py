"""The pictures of the GPU's results page, in the look of `pictures`."""

from collections.abc import Sequence
from pathlib import Path
from typing import Any

from cuda_words import host_ms, words
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.layout_engine import ConstrainedLayoutEngine
from pictures import LOOP, OURS, OURS_SCALED, Point, logarithmic, name_lines, plot_line

from dubito.experiments.plots.style import FAINT, INK, OKABE_ITO, QUIET, make_axes_plain, new_figure, save_figure, title

Record = dict[str, Any]
Named = tuple[str, str, list[Point]]

HOST = "host"
KIND_NAMES = {
    "products: bounds": "bounds",
    "products: near pairs": "near pairs",
    "exact distances": "exact distances",
    "deciding fronts": "deciding",
    "search for the first": "search",
    "copies": "copies",
    "other": "other",
    HOST: "host",
}
"""Kinds of work in the order they are drawn, and what they are called."""
KIND_COLORS = (*(OKABE_ITO[name] for name in ("blue", "sky", "green", "vermilion", "orange", "purple")), QUIET, FAINT)
PANELS = (("pool", "n", "Pool rows"), ("budget", "budget", "Picks"))


def draw_cuda(document: Record, folder: Path) -> None:
    """Every picture for which there are figures."""
    folder.mkdir(parents=True, exist_ok=True)
    measured = [row for row in document["rows"].values() if "kinds" in row]
    if measured:
        save_figure(where_time_goes(measured), folder / "cuda-where", force=True)
    if any(document["sweeps"].values()):
        save_figure(growth(document["sweeps"]), folder / "cuda-growth", force=True)


def growth(sweeps: Record) -> Figure:
    """Milliseconds against pool rows and against picks; the CPU engine dashed."""
    figure = Figure(figsize=(11.6, 5.0), layout=ConstrainedLayoutEngine(w_pad=0.12, h_pad=0.12), facecolor="white")
    for place, (kind, key, name) in enumerate(PANELS, 1):
        rows = sweeps.get(kind, [])
        if not rows:
            continue
        axes = figure.add_subplot(1, 2, place)
        make_axes_plain(axes)
        plot_lines(axes, lines_of(rows, key), host_lines_of(rows, key))
        fixed = f"{rows[0]['budget']:,} picks" if key == "n" else f"{rows[0]['n']:,} rows, scaled"
        title(axes, name, f"{rows[0]['m']:,} labeled, {fixed}, {rows[0]['type']}; dashed: the CPU engine")
        axes.set_ylabel("milliseconds", color=QUIET, fontsize=9)
    return figure


def plot_lines(axes: Axes, device: Sequence[Named], host: Sequence[tuple[str, list[Point]]]) -> None:
    """On the GPU as solid lines named at their ends, on the CPU as dashed ones in the same colors."""
    for _, color, points in device:
        plot_line(axes, points, color)
    for color, points in host:
        axes.plot(*zip(*points, strict=True), color=color, linewidth=1.4, linestyle="--", marker="o", markersize=3.5)
    logarithmic(axes, [x for _, _, points in device for x, _ in points])
    name_lines(axes, device)


def lines_of(rows: Sequence[Record], key: str) -> list[Named]:
    """The loop and ours."""
    wanted = [("dubito, unscaled", OURS, False, "cuda"), ("dubito, scaled", OURS_SCALED, True, "cuda")]
    has_unscaled = any(not row["is_scaled"] for row in rows)
    wanted.append(("PyTorch loop", LOOP, not has_unscaled, "loop"))
    found = [
        (label, color, points_of([row for row in rows if row["is_scaled"] == scaled], key, who))
        for label, color, scaled, who in wanted
    ]
    return [line for line in found if line[2]]


def points_of(rows: Sequence[Record], key: str, who: str) -> list[Point]:
    """Medians in milliseconds."""
    return sorted((float(row[key]), 1e3 * row[who]["median"]) for row in rows if who in row)


def host_lines_of(rows: Sequence[Record], key: str) -> list[tuple[str, list[Point]]]:
    """Color and points of the CPU engine, where it ran."""
    found = []
    for color, scaled in ((OURS, False), (OURS_SCALED, True)):
        ran = [row for row in rows if row["is_scaled"] == scaled and "cpu_seconds" in row]
        if ran:
            found.append((color, sorted((float(row[key]), 1e3 * row["cpu_seconds"]) for row in ran)))
    return found


def where_time_goes(rows: Sequence[Record]) -> Figure:
    """A bar a workload, cut into shares of its time."""
    figure, axes = new_figure(9.6, 1.5 + 0.46 * len(rows))
    for place, row in enumerate(rows):
        plot_shares(axes, -place, row)
        axes.text(
            -0.015, -place, words(row), transform=axes.get_yaxis_transform(), ha="right", va="center", fontsize=9,
            color=INK,
        )  # fmt: skip
    axes.set_yticks([])
    axes.spines["left"].set_visible(False)
    axes.set_xlim(0.0, 100.0)
    axes.set_xlabel("percent of the whole call", color=QUIET, fontsize=9)
    for name, color in zip(KIND_NAMES.values(), KIND_COLORS, strict=True):
        axes.plot([], [], "s", color=color, markersize=8, label=name)
    axes.legend(
        loc="lower left", bbox_to_anchor=(-0.02, 1.0), ncol=4, frameon=False, fontsize=9, handletextpad=0.1,
        columnspacing=1.4, borderaxespad=0.2,
    )  # fmt: skip
    axes.set_title("Where the time goes", loc="left", color=INK, fontsize=11.5, fontweight="bold", pad=46)
    return figure


def plot_shares(axes: Axes, y: float, row: Record) -> None:
    """One bar, and its milliseconds behind it."""
    parts = row["kinds"]["device_ms"] | {HOST: host_ms(row)}
    whole, left = sum(parts.values()), 0.0
    for kind, color in zip(KIND_NAMES, KIND_COLORS, strict=True):
        share = 100.0 * parts.get(kind, 0.0) / whole
        axes.barh(y, share, left=left, height=0.62, color=color)
        left += share
    axes.annotate(
        f"{1e3 * row['cuda']['median']:.3g} ms", (100.0, y), xytext=(7, 0), textcoords="offset points", color=INK,
        fontsize=9, va="center", annotation_clip=False,
    )  # fmt: skip
