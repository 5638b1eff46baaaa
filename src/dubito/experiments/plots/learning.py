"""Learning curves: accuracy against labels, and the difference to a baseline with its interval."""

import re
from collections.abc import Sequence
from dataclasses import dataclass
from math import ceil

import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.ticker import MaxNLocator, PercentFormatter

from dubito.experiments.plots.style import (
    FAINT,
    INK,
    QUIET,
    add_headline,
    add_label,
    make_axes_plain,
    new_figure,
    strategy_color,
    title,
)
from dubito.experiments.records import Curve
from dubito.experiments.statistics import Interval, Saving, paired_test
from dubito.experiments.summary import format_interval, is_sure
from dubito.matrix import FloatArray

# Line styles of strategies, and positions of names that do not overlap.

LineStyle = str | tuple[float, tuple[float, ...]]
STYLES: tuple[tuple[LineStyle, str], ...] = (
    ("-", "o"),
    ((0, (5, 1.5)), "s"),
    ((0, (1.2, 1.2)), "^"),
    ((0, (6, 1.5, 1.2, 1.5)), "D"),
    ((0, (9, 2.5)), "v"),
    ((0, (4, 1, 1, 1, 1, 1)), "P"),
)
"""Dashes and markers of strategies that share a color."""
BASELINE: tuple[LineStyle, str] = ((0, (4, 2)), "o")


@dataclass(frozen=True, slots=True)
class CurveStyle:
    """How one strategy is style_of."""

    color: str
    line: LineStyle
    marker: str


def styles(names: Sequence[str]) -> dict[str, CurveStyle]:
    """The style of each name: the color of the strategy, and a different line for each name of that color.

    Examples
    --------
    >>> by_name = styles(["coreset", "doubt-coreset", "doubt-coreset:strength=0.5"])
    >>> by_name["doubt-coreset"].color == by_name["doubt-coreset:strength=0.5"].color
    True
    >>> by_name["doubt-coreset"].line, by_name["doubt-coreset:strength=0.5"].marker
    ('-', 's')
    """
    result: dict[str, CurveStyle] = {}
    for name in names:
        color = strategy_color(name)
        used = sum(style.color == color for style in result.values())
        line, marker = BASELINE if color == QUIET else STYLES[used % len(STYLES)]
        result[name] = CurveStyle(color, line, marker)
    return result


def wrapped(name: str, width: int = 22) -> str:
    r"""A long name wrapped after the strategy and between options; longer parts are truncated.

    Examples
    --------
    >>> wrapped("margin"), wrapped("doubt-coreset:strength=0.25,beam_width=4")
    ('margin', 'doubt-coreset:\nstrength=0.25,\nbeam_width=4')
    """
    if len(name) <= width:
        return name
    lines = [""]
    for piece in re.findall(r"[^:,]+[:,]?|[:,]", name):
        fits = len(lines[-1]) + len(piece) <= width and not lines[-1].endswith(":")
        lines[-1:] = [lines[-1] + piece] if fits or not lines[-1] else [lines[-1], piece]
    return "\n".join(line if len(line) <= width + 8 else f"{line[: width + 7]}…" for line in lines)


def longest_line(names: Sequence[str]) -> int:
    """The number of letters in the longest line of the names."""
    return max((len(line) for name in names for line in name.splitlines()), default=0)


def spread_apart(positions: FloatArray, gap: float) -> FloatArray:
    """Positions moved to be at least ``gap`` apart, in the same order and around the same center.

    Examples
    --------
    >>> spread_apart(np.array([0.5, 0.5, 0.0]), 0.1).round(2).tolist()
    [0.45, 0.55, 0.0]
    """
    order = np.argsort(positions, kind="stable")
    groups: list[list[float]] = []
    for position in positions[order]:
        groups.append([float(position)])
        while len(groups) > 1 and _top(groups[-2], gap) + gap > _bottom(groups[-1], gap):
            groups[-2:] = [groups[-2] + groups[-1]]
    moved = [_bottom(group, gap) + gap * i for group in groups for i in range(len(group))]
    result = np.empty(len(positions))
    result[order] = moved
    return result


def shift_below(positions: FloatArray, limit: float, gap: float) -> FloatArray:
    """Positions moved down to stay below ``limit`` and at least ``gap`` apart, in the same order.

    Examples
    --------
    >>> shift_below(np.array([0.9, 1.05, 0.2]), 1.0, 0.15).round(2).tolist()
    [0.85, 1.0, 0.2]
    """
    rank = np.argsort(np.argsort(-positions, kind="stable"))
    return np.asarray(np.minimum(positions, limit - gap * rank))


def _bottom(group: list[float], gap: float) -> float:
    """The lowest position of a group that is spread around its center."""
    return sum(group) / len(group) - gap * (len(group) - 1) / 2


def _top(group: list[float], gap: float) -> float:
    return _bottom(group, gap) + gap * (len(group) - 1)


NAME_HEIGHT = 0.22
"""Distance in inches of the names of two curves."""
HIGHEST_NAME = 0.985
"""The highest position of a name, as a fraction of the axis."""
MANY_CURVES = 7
"""From this number of curves on, bands are fainter and names smaller."""
MAX_COLUMNS, PANEL_HEIGHT = 4, 2.05
"""Panels per row in the plot of differences, and the height of a panel in inches."""


def learning_figure(
    curves: Sequence[Curve], headline: str, detail: str = "", *, saving: Saving | None = None
) -> Figure:
    """Mean accuracy of each strategy with a band of one standard deviation, and its name at the end of the curve.

    A ``saving`` whose interval is above 0 is marked by an arrow.

    Examples
    --------
    >>> labels = np.array([10, 20, 30])
    >>> random = Curve("random", labels, np.array([[0.5, 0.6, 0.7]]))
    >>> coreset = Curve("coreset", labels, np.array([[0.5, 0.7, 0.8]]))
    >>> figure = learning_figure([random, coreset], "coreset learns faster")
    >>> [text.get_text() for text in figure.axes[0].texts]
    ['random  70.0%', 'coreset  80.0%']
    """
    width, height = learning_size(curves)
    figure, axes = new_figure(width, height)
    draw_learning(axes, curves, height)
    if saving is not None and is_sure(saving):
        _mark_saving(axes, saving)
    title(axes, headline, detail)
    return figure


def learning_size(curves: Sequence[Curve]) -> tuple[float, float]:
    """Width and height of the plot in inches."""
    return 6.4 + 0.088 * max(len(curve.name) + 7 for curve in curves), max(5.0, 1.9 + NAME_HEIGHT * len(curves))


def draw_learning(axes: Axes, curves: Sequence[Curve], height: float) -> None:
    """Draw curves with bands and names on axes with this height in inches."""
    axes.grid(axis="y", color=FAINT, linewidth=0.8)
    axes.set_axisbelow(True)
    style_of = styles([curve.name for curve in curves])
    for curve in curves:
        _draw_curve(axes, curve, style_of[curve.name], is_one_of_many=len(curves) >= MANY_CURVES)
    _label_axis(axes, curves[0], max_ticks=9)
    axes.set_ylabel("accuracy on held-out data", color=INK)
    axes.yaxis.set_major_formatter(PercentFormatter(1.0, decimals=0))
    axes.yaxis.set_major_locator(MaxNLocator(nbins=7, steps=[1, 2, 5, 10]))
    axes.margins(x=0.02)
    _name_curves(axes, curves, style_of, gap=NAME_HEIGHT / (height - 1.3))


def _draw_curve(axes: Axes, curve: Curve, style: CurveStyle, *, is_one_of_many: bool) -> None:
    """The mean as a line, one standard deviation as a band."""
    mean, spread = curve.mean, curve.spread
    shade = 0.05 if is_one_of_many else 0.1
    axes.fill_between(curve.labels, mean - spread, mean + spread, color=style.color, alpha=shade, linewidth=0)
    axes.plot(
        curve.labels,
        mean,
        color=style.color,
        linewidth=1.7 if is_one_of_many else 2.2,
        linestyle=style.line,
        marker=style.marker,
        markersize=4.5,
        markeredgecolor="white",
        markeredgewidth=0.8,
    )


def _label_axis(axes: Axes, curve: Curve, max_ticks: int) -> None:
    axes.set_xticks(curve.labels[:: ceil(len(curve.labels) / max_ticks)])
    axes.xaxis.set_major_formatter(lambda value, _: f"{value:,.0f}")
    axes.set_xlabel("labels", color=INK)


def _name_curves(axes: Axes, curves: Sequence[Curve], style_of: dict[str, CurveStyle], gap: float) -> None:
    """Names to the right of the last points, connected to them by a line."""
    low, high = axes.get_ylim()
    ends = np.array([curve.mean[-1] for curve in curves])
    positions = shift_below(spread_apart((ends - low) / (high - low), gap), HIGHEST_NAME, gap) * (high - low) + low
    last, width = float(curves[0].labels[-1]), axes.get_xlim()[1] - axes.get_xlim()[0]
    for curve, end, position in zip(curves, ends, positions, strict=True):
        style = style_of[curve.name]
        axes.annotate(
            f"{curve.name}  {end:.1%}",
            xy=(last, end),
            xytext=(last + 0.07 * width, position),
            color=style.color,
            fontsize=9 if len(curves) >= MANY_CURVES else 10,
            fontweight="bold",
            va="center",
            annotation_clip=False,
            arrowprops={
                "arrowstyle": "-",
                "color": style.color,
                "linestyle": style.line,
                "linewidth": 1.0,
                "alpha": 0.6,
                "shrinkA": 2,
                "shrinkB": 4,
                "relpos": (0, 0.5),
            },
        )
    axes.set_ylim(low, high)


def _mark_saving(axes: Axes, saving: Saving) -> None:
    """Mark where the curve reaches the last accuracy of the baseline, and the labels saved."""
    start, end, height = saving.needed, saving.baseline_needed, saving.accuracy
    low, high = axes.get_ylim()
    floor = low + 0.3 * (high - low)
    axes.plot(
        [start, start, end, end],
        [floor, height, height, floor],
        color=QUIET,
        linewidth=0.9,
        linestyle=(0, (1, 2)),
        zorder=1,
    )
    axes.annotate(
        "",
        xy=(start, floor),
        xytext=(end, floor),
        arrowprops={"arrowstyle": "<|-|>", "color": INK, "linewidth": 1.1, "shrinkA": 0, "shrinkB": 0},
    )
    label = f"{round(saving.saved.estimate):,} labels saved\n(95% interval {format_interval(saving)})"
    middle, style = ((start + end) / 2, floor), {"color": INK, "fontsize": 10, "linespacing": 1.35}
    add_label(axes, label, middle, (0, -6), ha="center", va="top", **style)


def differences_figure(curves: Sequence[Curve], baseline: str = "random") -> Figure:
    """A panel for each strategy with its accuracy minus that of the baseline, and the paired 95% t interval.

    Examples
    --------
    >>> labels = np.array([10, 20])
    >>> random = Curve("random", labels, np.array([[0.5, 0.6], [0.5, 0.7]]))
    >>> coreset = Curve("coreset", labels, np.array([[0.5, 0.7], [0.5, 0.9]]))
    >>> differences_figure([random, coreset]).axes[0].get_title(loc="left")
    'coreset'
    """
    reference = next(curve for curve in curves if curve.name == baseline)
    others = [curve for curve in curves if curve.name != baseline]
    style_of = styles([curve.name for curve in curves])
    columns = min(MAX_COLUMNS, max(len(others), 1))
    rows = ceil(max(len(others), 1) / columns)
    figure = Figure(
        figsize=(max(2.6 * columns, 4.2), PANEL_HEIGHT * rows + 0.9), layout="constrained", facecolor="white"
    )
    panels = figure.subplots(rows, columns, sharex=True, sharey=True, squeeze=False).ravel()
    for axes, curve in zip(panels, others, strict=False):
        intervals = [_interval(gain) for gain in 100.0 * (curve.accuracy - reference.accuracy).T]
        _draw_difference(axes, curve, intervals, style_of[curve.name])
    for position, axes in enumerate(panels):
        axes.set_visible(position < len(others))
        axes.tick_params(labelbottom=position + columns >= len(others))
    seeds = len(reference.accuracy)
    interval = f", mean and 95% interval of {seeds} seeds" if seeds > 1 else ""
    add_headline(figure, f"accuracy above {baseline}, in points")
    figure.supxlabel(f"labels{interval}", color=INK, fontsize=10)
    return figure


def _interval(gains: FloatArray) -> Interval:
    """The t interval; a single point if all gains are 0, as with the initial labels."""
    return paired_test(gains)[0] if gains.any() else Interval(0.0, 0.0, 0.0)


def _draw_difference(axes: Axes, curve: Curve, intervals: Sequence[Interval], style: CurveStyle) -> None:
    make_axes_plain(axes)
    axes.axhline(0.0, color=QUIET, linewidth=0.9)
    axes.grid(axis="y", color=FAINT, linewidth=0.6)
    axes.set_axisbelow(True)
    axes.fill_between(
        curve.labels,
        [each.low for each in intervals],
        [each.high for each in intervals],
        color=style.color,
        alpha=0.18,
        linewidth=0,
    )
    axes.plot(
        curve.labels,
        [each.estimate for each in intervals],
        color=style.color,
        linewidth=1.8,
        marker=style.marker,
        ms=3.5,
    )
    # Long names are wrapped, so that they do not overlap the next panel.
    axes.set_title(wrapped(curve.name), loc="left", color=style.color, fontsize=9, fontweight="bold", pad=4)
    _label_axis(axes, curve, max_ticks=4)
    axes.set_xlabel("")
    axes.yaxis.set_major_formatter(lambda value, _: f"{value:+g}" if value else "0")
