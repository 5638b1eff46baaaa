"""Learning curves: accuracy against labels, mean and one standard deviation over seeds."""

import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.ticker import PercentFormatter

from dubito.matrix import FloatArray
from dubito.plots.style import FAINT, INK, QUIET, new_figure, strategy_colour, title
from dubito.rehearsal import Curve, Rehearsal, best_saver, finding

NAME_GAP = 0.055
"""Least distance between two names beside the curves, as a share of the axis."""
HIGHEST_NAME = 0.97
"""No name stands above this share of the axis, where the headline begins."""


def curves_figure(played: Rehearsal, baseline: str = "random", detail: str = "") -> Figure:
    """Each strategy's mean accuracy with a band of one standard deviation, its name at its end.

    The headline says what the rehearsal showed, also where that is nothing.

    Examples
    --------
    >>> from dubito.rehearsal import Plan
    >>> labels = np.array([10, 20, 30])
    >>> random = Curve("random", labels, np.array([[0.5, 0.6, 0.7]]))
    >>> coreset = Curve("coreset", labels, np.array([[0.5, 0.7, 0.8]]))
    >>> figure = curves_figure(Rehearsal(Plan(10, 10, 2, 1), (random, coreset), ()))
    >>> figure.axes[0].get_title(loc="left")
    'coreset needs 20 labels for what random learns from 30'
    """
    figure, axes = new_figure(8.0, 5.0)
    axes.grid(axis="y", color=FAINT, linewidth=0.8)
    axes.set_axisbelow(True)
    for curve in played.curves:
        draw_curve(axes, curve, is_baseline=curve.name == baseline)
    axes.set_xticks(played.plan.labels)
    axes.set_xlabel("labels", color=INK)
    axes.set_ylabel("accuracy on held-out data", color=INK)
    axes.yaxis.set_major_formatter(PercentFormatter(1.0, decimals=0))
    axes.margins(x=0.02)
    name_curves(axes, played.curves)
    mark_saving(axes, played, baseline)
    title(axes, finding(played, baseline), detail)
    return figure


def draw_curve(axes: Axes, curve: Curve, *, is_baseline: bool) -> None:
    """The mean as a line, one standard deviation as a band."""
    colour = strategy_colour(curve.name)
    mean, spread = curve.mean, curve.spread
    axes.fill_between(curve.labels, mean - spread, mean + spread, color=colour, alpha=0.1, linewidth=0)
    axes.plot(
        curve.labels,
        mean,
        color=colour,
        linewidth=2.2,
        linestyle=(0, (4, 2)) if is_baseline else "-",
        marker="o",
        markersize=4.5,
        markeredgecolor="white",
        markeredgewidth=0.8,
    )


def name_curves(axes: Axes, curves: tuple[Curve, ...]) -> None:
    """Names to the right of the last points, moved apart where they would overlap."""
    low, high = axes.get_ylim()
    ends = np.array([curve.mean[-1] for curve in curves])
    places = held_below(spread_apart((ends - low) / (high - low), NAME_GAP), HIGHEST_NAME, NAME_GAP)
    places = places * (high - low) + low
    last = float(curves[0].labels[-1])
    width = axes.get_xlim()[1] - axes.get_xlim()[0]
    for curve, end, place in zip(curves, ends, places, strict=True):
        axes.annotate(
            f"{curve.name}  {end:.1%}",
            xy=(last, end),
            xytext=(last + 0.035 * width, place),
            color=strategy_colour(curve.name),
            fontsize=10,
            fontweight="bold",
            va="center",
            annotation_clip=False,
            arrowprops={
                "arrowstyle": "-",
                "color": FAINT,
                "linewidth": 0.8,
                "shrinkA": 2,
                "shrinkB": 4,
                "relpos": (0, 0.5),
            },
        )


def spread_apart(places: FloatArray, gap: float) -> FloatArray:
    """Places at least ``gap`` apart, in the same order, around the same middle.

    Examples
    --------
    >>> spread_apart(np.array([0.5, 0.5, 0.0]), 0.1).round(2).tolist()
    [0.45, 0.55, 0.0]
    """
    order = np.argsort(places, kind="stable")
    groups: list[list[float]] = []
    for place in places[order]:
        groups.append([float(place)])
        while len(groups) > 1 and _top(groups[-2], gap) + gap > _bottom(groups[-1], gap):
            groups[-2:] = [groups[-2] + groups[-1]]
    moved = [_bottom(group, gap) + gap * i for group in groups for i in range(len(group))]
    result = np.empty(len(places))
    result[order] = moved
    return result


def held_below(places: FloatArray, limit: float, gap: float) -> FloatArray:
    """Places moved down as far as it takes to stay under ``limit`` and ``gap`` apart, in the same order.

    Examples
    --------
    >>> held_below(np.array([0.9, 1.05, 0.2]), 1.0, 0.15).round(2).tolist()
    [0.85, 1.0, 0.2]
    """
    rank = np.argsort(np.argsort(-places, kind="stable"))
    return np.asarray(np.minimum(places, limit - gap * rank))


def _bottom(group: list[float], gap: float) -> float:
    """Lowest place of a group laid out around its middle."""
    return sum(group) / len(group) - gap * (len(group) - 1) / 2


def _top(group: list[float], gap: float) -> float:
    return _bottom(group, gap) + gap * (len(group) - 1)


def mark_saving(axes: Axes, played: Rehearsal, baseline: str) -> None:
    """Where the best curve reaches the baseline's best accuracy, and how many labels that spares."""
    best = best_saver(played, baseline)
    if best is None:
        return
    reference, saved = played.curve(baseline), best[1]
    height, end = float(reference.mean.max()), float(reference.labels[reference.mean.argmax()])
    low, high = axes.get_ylim()
    floor = low + 0.3 * (high - low)
    axes.plot(
        [end - saved, end - saved, end, end],
        [floor, height, height, floor],
        color=QUIET,
        linewidth=0.9,
        linestyle=(0, (1, 2)),
        zorder=1,
    )
    axes.annotate(
        "",
        xy=(end - saved, floor),
        xytext=(end, floor),
        arrowprops={"arrowstyle": "<|-|>", "color": INK, "linewidth": 1.1, "shrinkA": 0, "shrinkB": 0},
    )
    axes.annotate(
        f"{round(saved)} labels saved\nat equal accuracy",
        xy=(end - saved / 2, floor),
        xytext=(0, -6),
        textcoords="offset points",
        color=INK,
        fontsize=10,
        ha="center",
        va="top",
        linespacing=1.35,
    )
