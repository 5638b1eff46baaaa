"""The picture of figure 1: where three strategies ask on noisy clusters, and what they learn."""

import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.ticker import PercentFormatter

from dubito.experiments.plots.learning import spread_apart
from dubito.experiments.plots.style import FAINT, INK, calm, strategy_color
from dubito.paper.concentration import HARD, Concentration
from dubito.paper.plots.panels import bare, draw_classes, draw_picks, draw_points, headline_of

NAMES = {"random": "random", "least-confidence": "least confidence", "coreset": "core-set"}


def concentration_figure(finding: Concentration) -> Figure:
    """The pool and each strategy's picks above, accuracy against labels below."""
    figure = Figure(figsize=(10.6, 6.5), facecolor="white")
    grid = figure.add_gridspec(
        2, 4, height_ratios=(1.0, 0.82), left=0.062, right=0.988, top=0.862, bottom=0.085, hspace=0.14, wspace=0.05
    )
    pool = figure.add_subplot(grid[0, 0])
    draw_classes(pool, finding.points, finding.labels)
    bare(pool, "the pool", f"{len(finding.points):,} points")
    for place, name in enumerate(NAMES, start=1):
        _draw_asked(figure.add_subplot(grid[0, place]), finding, name)
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


def _draw_asked(axes: Axes, finding: Concentration, name: str) -> None:
    rows = finding.picked[name].ravel()
    draw_points(axes, finding.points, FAINT, size=3.5)
    draw_picks(axes, finding.points[rows], strategy_color(name), size=15)
    hard = float((finding.noise[rows] > HARD).mean())
    bare(axes, NAMES[name], f"{hard:.0%} in noise", strategy_color(name))


def _draw_curves(axes: Axes, finding: Concentration) -> None:
    calm(axes)
    axes.grid(axis="y", color=FAINT, linewidth=0.8)
    axes.set_axisbelow(True)
    for curve in finding.curves:
        color = strategy_color(curve.name)
        low, high = curve.mean - curve.spread, curve.mean + curve.spread
        axes.fill_between(curve.labels, low, high, color=color, alpha=0.12, linewidth=0)
        axes.plot(
            curve.labels, curve.mean, color=color, linewidth=2.2, marker="o", markersize=4.5, markeredgecolor="white"
        )
    floor, roof = axes.get_ylim()
    ends = np.array([curve.mean[-1] for curve in finding.curves])
    heights = spread_apart((ends - floor) / (roof - floor), 0.09) * (roof - floor) + floor
    last, first = float(finding.curves[0].labels[-1]), float(finding.curves[0].labels[0])
    for curve, end, height in zip(finding.curves, ends, heights, strict=True):
        text = f"{NAMES[curve.name]}  {end:.1%}"
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
