"""Plots of pools and toy data: figures 1 to 4, and those of the appendix."""

import numpy as np
from matplotlib.axes import Axes
from matplotlib.colors import LinearSegmentedColormap
from matplotlib.figure import Figure, SubFigure
from matplotlib.patches import Circle
from matplotlib.ticker import PercentFormatter

from dubito.experiments.plots.learning import learning_figure, spread_apart
from dubito.experiments.plots.style import FAINT, INK, OKABE_ITO, QUIET, add_label, make_axes_plain, strategy_color
from dubito.experiments.statistics import area, paired_test
from dubito.matrix import FloatArray
from dubito.paper.coreset_studies import VIEWS, Beams, Quadrants, Radii, farthest_in
from dubito.paper.study import EXPLOITIVE
from dubito.paper.toy_studies import (
    ALGORITHM_2,
    NOISY,
    VARIANTS,
    Acquisitions,
    Concentration,
    NegativeResult,
    ToyCurves,
)

CLASSES = tuple(OKABE_ITO[name] for name in ("sky", "orange", "green", "purple", "yellow"))
DISTANCE_COLORS = "YlGnBu"
DOUBT_COLORS = LinearSegmentedColormap.from_list("doubt", ["#EFEFEF", "#8C8C8C"])
"""Grays, so that picks stand out."""


def square_figure(columns: int, rows: int = 1, *, headline: str, detail: str = "") -> tuple[Figure, list[list[Axes]]]:
    """A figure of square panels under a headline."""
    width, height = 2.55 * columns, 2.75 * rows + 0.75
    figure = Figure(figsize=(width, height), facecolor="white")
    top = 1.0 - 0.98 / height
    grid = figure.subplots(rows, columns, squeeze=False)
    figure.subplots_adjust(left=0.012, right=0.988, bottom=0.02, top=top, wspace=0.05, hspace=0.12)
    headline_of(figure, headline, detail)
    return figure, [list(row) for row in grid]


def headline_of(figure: Figure | SubFigure, headline: str, detail: str = "") -> None:
    """Add a bold headline at the upper left of the figure, and a gray line below it."""
    height = figure.get_figure(root=True).get_figheight() if isinstance(figure, SubFigure) else figure.get_figheight()
    figure.text(0.012, 1.0 - 0.14 / height, headline, color=INK, fontsize=12, fontweight="bold", va="top")
    if detail:
        figure.text(0.012, 1.0 - 0.39 / height, detail, color=QUIET, fontsize=9, va="top")


def frame_panel(axes: Axes, name: str = "", note: str = "", color: str = INK) -> None:
    """Remove the ticks, draw a faint frame, and add a name at the upper left and a note at the upper right."""
    axes.set(xticks=[], yticks=[], aspect="equal")
    axes.spines[:].set_color(FAINT)
    axes.set_title(name, loc="left", color=color, fontsize=10, fontweight="bold", pad=4)
    if note:
        axes.set_title(note, loc="right", color=QUIET, fontsize=9, pad=4)


def draw_points(axes: Axes, points: FloatArray, color: str, *, size: float = 5.0) -> None:
    axes.scatter(points[:, 0], points[:, 1], s=size, color=color, linewidths=0, rasterized=True)


def draw_doubt(axes: Axes, points: FloatArray, doubt: FloatArray, *, size: float = 6.0) -> None:
    """Draw a pool of the quadrants, shaded by doubt."""
    axes.scatter(
        points[:, 0],
        points[:, 1],
        c=doubt,
        cmap=DOUBT_COLORS,
        s=size,
        vmin=0.0,
        vmax=0.6,
        linewidths=0,
        rasterized=True,
    )


def draw_picks(axes: Axes, points: FloatArray, color: str, *, size: float = 20.0, alpha: float = 1.0) -> None:
    """Draw picks as squares with a white edge."""
    axes.scatter(
        points[:, 0],
        points[:, 1],
        marker="s",
        s=size,
        color=color,
        alpha=alpha,
        edgecolors="white",
        linewidths=0.6,
        zorder=4,
    )


def draw_crosses(axes: Axes, points: FloatArray, *, size: float = 24.0) -> None:
    axes.scatter(points[:, 0], points[:, 1], marker="x", s=size, color=INK, linewidths=0.29 * size**0.5, zorder=3)


# Figure 1: the picks of three strategies on noisy clusters, and their learning curves.

CONCENTRATION_NAMES = {"random": "random", "least-confidence": "least confidence", "coreset": "core-set"}


def concentration_figure(finding: Concentration) -> Figure:
    """Top: the pool, and the picks of each strategy. Bottom: accuracy against labels."""
    figure = Figure(figsize=(10.6, 6.5), facecolor="white")
    grid = figure.add_gridspec(
        2, 4, height_ratios=(1.0, 0.82), left=0.062, right=0.988, top=0.862, bottom=0.085, hspace=0.14, wspace=0.05
    )
    pool = figure.add_subplot(grid[0, 0])
    colors = np.array(CLASSES)[finding.labels % len(CLASSES)]
    pool.scatter(
        finding.points[:, 0], finding.points[:, 1], s=5.0, c=colors.tolist(), alpha=0.55, linewidths=0, rasterized=True
    )
    frame_panel(pool, "the pool", f"{len(finding.points):,} points")
    for position, name in enumerate(CONCENTRATION_NAMES, start=1):
        axes = figure.add_subplot(grid[0, position])
        rows = finding.picked[name].ravel()
        draw_points(axes, finding.points, FAINT, size=3.5)
        draw_picks(axes, finding.points[rows], strategy_color(name), size=15)
        hard = float((finding.noise[rows] > NOISY).mean())
        frame_panel(axes, CONCENTRATION_NAMES[name], f"{hard:.0%} in noise", strategy_color(name))
    _draw_curves(figure.add_subplot(grid[1, :]), finding)
    seeds, rounds = len(finding.curves[0].accuracy), len(finding.curves[0].labels) - 1
    batch = int(np.diff(finding.curves[0].labels)[0])
    detail = (
        f"{rounds} rounds of {batch} labels; picks of the first seed; mean and one standard deviation of {seeds} seeds"
    )
    headline_of(figure, _headline(finding), detail)
    return figure


def _headline(finding: Concentration) -> str:
    if finding.verdict().holds:
        return (
            "least confidence asks in the noise between clusters and falls below random; the core-set covers, and leads"
        )
    return "here least confidence does not fall below random, or the core-set does not rise above it"


def _draw_curves(axes: Axes, finding: Concentration) -> None:
    make_axes_plain(axes)
    axes.grid(axis="y", color=FAINT, linewidth=0.8)
    axes.set_axisbelow(True)
    for curve in finding.curves:
        color = strategy_color(curve.name)
        below, above = curve.mean - curve.spread, curve.mean + curve.spread
        axes.fill_between(curve.labels, below, above, color=color, alpha=0.12, linewidth=0)
        axes.plot(
            curve.labels, curve.mean, color=color, linewidth=2.2, marker="o", markersize=4.5, markeredgecolor="white"
        )
    low, high = axes.get_ylim()
    ends = np.array([curve.mean[-1] for curve in finding.curves])
    heights = spread_apart((ends - low) / (high - low), 0.09) * (high - low) + low
    last, first = float(finding.curves[0].labels[-1]), float(finding.curves[0].labels[0])
    for curve, end, height in zip(finding.curves, ends, heights, strict=True):
        text = f"{CONCENTRATION_NAMES[curve.name]}  {end:.1%}"
        axes.text(
            last + 0.012 * (last - first),
            height,
            text,
            color=strategy_color(curve.name),
            fontweight="bold",
            va="center",
        )
    axes.set_xlim(first - 0.01 * (last - first), last + 0.26 * (last - first))
    axes.set_xticks(finding.curves[0].labels)
    axes.yaxis.set_major_formatter(PercentFormatter(1.0, decimals=0))
    axes.set_xlabel("labels", color=INK)
    axes.set_ylabel("accuracy", color=INK)


# Figure 2: covers of three core-sets.

COVER_NAMES = {"optimal-coreset": "optimal", "coreset": "greedy", "closest-kmeans": "closest K-means"}


def radii_figure(finding: Radii) -> Figure:
    """Circles of the covering radius around each pick; the farthest point of the pool is on one of them."""
    radii = {name: finding.covers[name].radius for name in COVER_NAMES}
    first = radii["optimal-coreset"]
    k, pools = len(finding.covers["coreset"].picks), len(finding.radii)
    figure, (panels,) = square_figure(
        3,
        headline=f"{k} picks, three radii: greedy leaves {radii['coreset'] / first:.2f} times the optimal one here",
        detail=f"crosses: picked; circles: the radius δ that covers all; {pools} such pools measured",
    )
    figure.set_size_inches(8.8, 3.75)
    figure.subplots_adjust(top=0.745)
    low, high = _limits(finding)
    for axes, name in zip(panels, COVER_NAMES, strict=True):
        color, cover = strategy_color(name), finding.covers[name]
        for x, y in finding.pool[cover.picks]:
            axes.add_patch(Circle((x, y), cover.radius, facecolor=color, alpha=0.13, linewidth=0))
            axes.add_patch(Circle((x, y), cover.radius, fill=False, edgecolor=color, linewidth=1.0, alpha=0.7))
        draw_points(axes, finding.pool, "#9A9A9A", size=10)
        draw_crosses(axes, finding.pool[cover.picks], size=46)
        axes.set(xlim=(low[0], high[0]), ylim=(low[1], high[1]))
        times = "" if name == "optimal-coreset" else f", {radii[name] / first:.2f}×"
        frame_panel(axes, COVER_NAMES[name], f"δ = {radii[name]:.2f}{times}", strategy_color(name))
    return figure


def _limits(finding: Radii) -> tuple[list[float], list[float]]:
    """The corners of a square that contains all circles."""
    corners = [
        finding.pool[cover.picks] + side * cover.radius for cover in finding.covers.values() for side in (-1.0, 1.0)
    ]
    points = np.concatenate(corners)
    middle, half = (points.max(axis=0) + points.min(axis=0)) / 2, 0.52 * float(np.ptp(points, axis=0).max())
    return (middle - half).tolist(), (middle + half).tolist()


# The quadrants: acquisitions by step with scaled distances (figure 3), and the ranks of a beam (figure 4).

LIMIT = 1.06
"""Axis limit of plots of the square [-1, 1]²."""
ROW_NAMES = {"coreset": "core-set", "doubt-coreset": "scaled core-set"}
VIEW_NAMES = {"origin": "seen from the origin", "corner": "seen from (-1, 1)"}


def quadrants_figure(finding: Quadrants) -> Figure:
    """A row for each strategy, and a column for each step; the last column shows scaled distances from two points."""
    steps = len(finding.acquired["coreset"])
    plain, scaled = (float(finding.shares[name].mean()) for name in ROW_NAMES)
    figure, rows = square_figure(
        steps + 2,
        2,
        headline=f"scaled by doubt, {scaled:.0%} of the acquisitions lie within {finding.near:g} of a class boundary; "
        f"plain, {plain:.0%}",
        detail=f"{len(finding.acquired['coreset'][0])} a step; darker: more doubt, or farther in the "
        f"warped space; {finding.uniform:.0%} of the pool lie so near",
    )
    for row, (name, shown), view in zip(rows, ROW_NAMES.items(), VIEW_NAMES, strict=True):
        axes = row[0]
        draw_doubt(axes, finding.pool, finding.doubt)
        draw_crosses(axes, finding.pool[finding.initial])
        axes.set(xlim=(-LIMIT, LIMIT), ylim=(-LIMIT, LIMIT))
        frame_panel(axes, shown, "at first", strategy_color(name))
        for step in range(steps):
            _draw_step(row[step + 1], finding, name, step)
        _draw_view(row[-1], finding, view)
    return figure


def _draw_step(axes: Axes, finding: Quadrants, name: str, step: int) -> None:
    draw_doubt(axes, finding.pool, finding.doubt)
    draw_crosses(axes, finding.pool[finding.initial])
    steps = finding.acquired[name]
    before = steps[:step].ravel()
    draw_picks(axes, finding.pool[before], strategy_color(name), size=17, alpha=0.42)
    draw_picks(axes, finding.pool[steps[step]], strategy_color(name), size=26)
    axes.set(xlim=(-LIMIT, LIMIT), ylim=(-LIMIT, LIMIT))
    frame_panel(axes, f"step {step + 1}")


def _draw_view(axes: Axes, finding: Quadrants, name: str) -> None:
    view, position = finding.views[name], VIEWS[name]
    axes.imshow(view, cmap=DISTANCE_COLORS, origin="lower", extent=(-1, 1, -1, 1), interpolation="bilinear")
    farthest = farthest_in(view)
    axes.plot(*farthest, marker="*", color=OKABE_ITO["yellow"], markeredgecolor=INK, markersize=12, clip_on=False)
    axes.plot(*position, marker="s", color=OKABE_ITO["vermilion"], markeredgecolor="white", markersize=8, clip_on=False)
    axes.set(xlim=(-LIMIT, LIMIT), ylim=(-LIMIT, LIMIT))
    frame_panel(axes, VIEW_NAMES[name], "★ farthest")


def beams_figure(finding: Beams) -> Figure:
    """A panel for each configuration, by rank from the left."""
    width = len(finding.ranked)
    gain = float((finding.uncertainty[:, 0] / finding.uncertainty[:, 1]).mean())
    figure, (panels,) = square_figure(
        width,
        headline=f"a beam of {width} finds a configuration with {gain:.2f} times the uncertainty of greedy's",
        detail="ranked by U, the mean of -log confidence; filled: not in every configuration",
    )
    shared = set(finding.ranked[0].indices.tolist()).intersection(
        *(set(each.indices.tolist()) for each in finding.ranked)
    )
    for rank, (axes, each) in enumerate(zip(panels, finding.ranked, strict=True), start=1):
        _draw_rank(axes, finding, each.indices.tolist(), shared)
        frame_panel(axes, f"rank {rank}", f"U = {each.uncertainty:.4f}")
    return figure


def _draw_rank(axes: Axes, finding: Beams, picked: list[int], shared: set[int]) -> None:
    draw_doubt(axes, finding.pool, finding.doubt)
    draw_crosses(axes, finding.pool[finding.initial])
    color = strategy_color("doubt-coreset")
    common = finding.pool[np.array([row for row in picked if row in shared], dtype=np.int64)]
    others = finding.pool[np.array([row for row in picked if row not in shared], dtype=np.int64)]
    axes.scatter(
        common[:, 0], common[:, 1], marker="s", s=24, facecolor="white", edgecolors=color, linewidths=1.4, zorder=4
    )
    draw_picks(axes, others, color, size=34)
    axes.set(xlim=(-LIMIT, LIMIT), ylim=(-LIMIT, LIMIT))


# The toy data of the appendix: curves (figures 11 and 12), acquisitions (13 to 15), and gain against cost.

VARIANT_NAMES = {
    "random": "random",
    "probabilistic-coreset": "probabilistic",
    EXPLOITIVE: "exploitive",
    "entropy": "entropy",
    "least-confidence": "least confidence",
}
NOISE = "#D9CBB8"


def toy_figure(finding: ToyCurves) -> Figure:
    """Accuracy against labels."""
    means = {curve.name: float(area(curve).mean()) for curve in finding.curves}
    best = max((name for name in means if name not in VARIANTS), key=lambda name: means[name])
    lead = 100 * (min(means[name] for name in VARIANTS) - means[best])
    overlap = "hardly overlap" if finding.deviation < 0.75 else "overlap much"
    seeds = len(finding.curves[0].accuracy)
    return learning_figure(
        finding.curves,
        f"clusters that {overlap}: both probabilistic core-sets lead {best}, by {lead:.1f} points over the rounds"
        if lead > 0
        else f"clusters that {overlap}: {best} is level with a probabilistic core-set, or above",
        f"25 clusters of standard deviation {finding.deviation:g}, a small network; mean and one standard deviation of "
        f"{seeds} seeds",
    )


def acquisitions_figure(finding: Acquisitions) -> Figure:
    """A panel for each method; noisy regions are shaded."""
    hard = {name: float((finding.noise[rows] > NOISY).mean()) for name, rows in finding.picked.items()}
    figure, (panels,) = square_figure(
        len(VARIANT_NAMES),
        headline=f"in noise lie {hard['entropy']:.0%} of entropy's picks, {hard['random']:.0%} of random's, "
        f"{hard['probabilistic-coreset']:.0%} of the probabilistic core-set's",
        detail=f"{len(finding.picked['random'])} picks of the first seed; shaded: noise, where over {NOISY:.0%} of the "
        "points cannot be got right",
    )
    for axes, (name, shown) in zip(panels, VARIANT_NAMES.items(), strict=True):
        is_hard = finding.noise > NOISY
        draw_points(axes, finding.points[~is_hard], FAINT)
        draw_points(axes, finding.points[is_hard], NOISE)
        draw_picks(axes, finding.points[finding.picked[name]], strategy_color(name), size=13)
        frame_panel(axes, shown, f"{hard[name]:.0%} in noise", strategy_color(name))
    return figure


def negative_figure(finding: NegativeResult) -> Figure:
    """Left: gain over random with its interval. Right: time of a selection in seconds."""
    figure = Figure(figsize=(9.6, 3.6), facecolor="white")
    left, right = figure.subplots(1, 2, gridspec_kw={"width_ratios": (1.25, 1.0)})
    figure.subplots_adjust(left=0.155, right=0.975, top=0.75, bottom=0.15, wspace=0.5)
    numbers = finding.verdict().numbers
    gains = " and ".join(f"{100 * numbers[f'gain over random at {each:g}']:+.1f}" for each in finding.deviations)
    times = numbers["times the cost of Algorithm 2"]
    headline_of(
        figure,
        f"the probabilistic core-set: {gains} points over random, at {times:,.0f} times the cost of Algorithm 2",
        f"25 clusters of standard deviation {' and '.join(f'{each:g}' for each in finding.deviations)}; mean accuracy "
        "over the rounds, with 95% intervals over seeds",
    )
    _draw_gains(left, finding)
    _draw_costs(right, finding)
    return figure


def _draw_gains(axes: Axes, finding: NegativeResult) -> None:
    make_axes_plain(axes)
    axes.axvline(0.0, color=QUIET, linewidth=1.0)
    names = [curve.name for curve in finding.curves[0] if curve.name != "random"]
    for i, (curves, marker) in enumerate(zip(finding.curves, ("o", "s"), strict=True)):
        base = next(area(curve) for curve in curves if curve.name == "random")
        for position, name in enumerate(names):
            interval, _ = paired_test(next(area(curve) for curve in curves if curve.name == name) - base)
            height, color = position + (0.16 if i else -0.16), strategy_color(name)
            axes.plot(
                [100 * interval.low, 100 * interval.high], [height, height], color=color, linewidth=1.6, alpha=0.6
            )
            face = "white" if i else color
            axes.plot(100 * interval.estimate, height, marker, color=color, markerfacecolor=face, markersize=6)
    axes.set_yticks(range(len(names)), [_display_name(name) for name in names])
    axes.invert_yaxis()
    axes.tick_params(axis="y", length=0, labelsize=9, labelcolor=INK)
    axes.spines["left"].set_visible(False)
    first, second = (f"{each:g}" for each in finding.deviations)
    axes.set_xlabel(f"points over random (filled: {first}, hollow: {second})", color=INK, fontsize=9)


def _draw_costs(axes: Axes, finding: NegativeResult) -> None:
    make_axes_plain(axes)
    mean = {name: float(np.mean([each[name] for each in finding.seconds])) for name in finding.seconds[0]}
    names = sorted(mean, key=lambda name: mean[name])
    for position, name in enumerate(names):
        axes.plot([min(mean.values()) / 3, mean[name]], [position, position], color=FAINT, linewidth=1.4, zorder=1)
        axes.plot(mean[name], position, "o", color=strategy_color(name), markersize=8)
        label = f"{1000 * mean[name]:,.3g} ms"
        add_label(axes, label, (mean[name], position), (8, 0), va="center", fontsize=9, color=INK)
    axes.set_yticks(range(len(names)), [_display_name(name) for name in names])
    axes.set_xscale("log")
    axes.set_xlim(min(mean.values()) / 3, max(mean.values()) * 12)
    axes.margins(y=0.1)
    axes.tick_params(axis="y", length=0, labelsize=9, labelcolor=INK)
    axes.spines["left"].set_visible(False)
    axes.set_xlabel("seconds for a selection", color=INK, fontsize=9)


def _display_name(name: str) -> str:
    return "Algorithm 2" if name == ALGORITHM_2 else VARIANT_NAMES[name]
