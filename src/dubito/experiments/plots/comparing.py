"""Plots of comparisons: areas with intervals, the pairwise matrix, labels saved, and times of selections."""

from collections.abc import Sequence
from math import inf, isfinite

import numpy as np
from matplotlib.axes import Axes
from matplotlib.colors import LinearSegmentedColormap
from matplotlib.figure import Figure
from matplotlib.ticker import FuncFormatter

from dubito.experiments.plots.learning import longest_line, wrapped
from dubito.experiments.plots.style import FAINT, INK, OKABE_ITO, QUIET, add_headline, make_axes_plain, strategy_color
from dubito.experiments.statistics import Comparison, Saving
from dubito.experiments.summary import NOT_REACHED, format_saved, is_sure
from dubito.matrix import FloatArray

ROW_HEIGHT, MARGIN_HEIGHT = 0.34, 1.35
"""Height in inches of a row, and of everything above and below the rows."""
LETTER_INCHES = 0.085
"""Width of a letter in the names of the matrix."""
LETTER_SHARE = 0.015
"""Width of a letter next to a bar, as a fraction of the chart."""
BEATEN = "mean: beaten by others"
POINTS = FuncFormatter(lambda value, _: f"{value:+g}" if value else "0")
COUNTS = FuncFormatter(lambda value, _: f"{value:,.0f}")


def areas_figure(comparisons: Sequence[Sequence[Comparison]]) -> Figure:
    """The primary endpoint: each strategy's area under the curve less a baseline's, a panel for each baseline.

    Filled markers are significant after Holm's correction, hollow ones are not.

    Examples
    --------
    >>> from dubito.experiments.statistics import Interval
    >>> comparison = Comparison("coreset", "random", 5, Interval(0.02, 0.01, 0.03), 0.01, 0.01, 0.0625, 0.01, None)
    >>> areas_figure([[comparison]]).axes[0].get_title(loc="left")
    'against random'
    """
    shown = [panel for panel in comparisons if panel]
    names = list(dict.fromkeys(each.name for panel in reversed(shown) for each in panel))
    figure = Figure(
        figsize=(2.2 + 3.4 * len(shown), MARGIN_HEIGHT + ROW_HEIGHT * len(names)),
        layout="constrained",
        facecolor="white",
    )
    panels = figure.subplots(1, len(shown), sharey=True, sharex=True, squeeze=False)[0]
    for axes, panel in zip(panels, shown, strict=True):
        _prepare_rows(axes, names)
        axes.axvline(0.0, color=QUIET, linewidth=0.9)
        for each in panel:
            _draw_interval(axes, each, names.index(each.name))
        axes.set_title(f"against {panel[0].baseline}", loc="left", color=INK, fontsize=10, fontweight="bold")
        axes.xaxis.set_major_formatter(POINTS)
    add_headline(figure, "mean accuracy over the curve, difference in points")
    figure.supxlabel("95% t interval over seeds; full: significant after Holm's correction", color=QUIET, fontsize=9)
    return figure


def _draw_interval(axes: Axes, each: Comparison, row: int) -> None:
    color, interval = strategy_color(each.name), each.difference
    if isfinite(interval.low):
        axes.plot(
            [100 * interval.low, 100 * interval.high], [row, row], color=color, linewidth=2.0, solid_capstyle="butt"
        )
    is_significant = each.is_better or each.is_worse
    axes.plot(
        100 * interval.estimate,
        row,
        marker="o",
        markersize=7,
        color=color,
        markerfacecolor=color if is_significant else "white",
        markeredgewidth=1.6,
    )


def pairwise_figure(names: Sequence[str], penalties: FloatArray) -> Figure:
    """Who beats whom: the share of label counts at which the row is significantly above the column.

    The last row is the mean of each column: how often a strategy is beaten by the others, less is better.

    Examples
    --------
    >>> figure = pairwise_figure(["random", "coreset"], np.array([[0.0, 0.0], [1.0, 0.0]]))
    >>> [text.get_text() for text in figure.axes[0].texts]
    ['0', '1', '1', '0']
    """
    k, shown = len(names), [wrapped(name) for name in names]
    table = np.vstack([penalties, penalties.sum(axis=0) / max(k - 1, 1)])
    # Names are to the left of the cells, and above them at an angle.
    left = LETTER_INCHES * max(longest_line(shown), len(BEATEN))
    above = LETTER_INCHES * longest_line(shown)
    n_lines = max(1 + name.count("\n") for name in shown)
    width = max(0.52, 0.24 * n_lines) * k + left + 0.77 * above + 0.3
    height = max(0.4, 0.15 * n_lines) * (k + 1) + 0.65 * above + 1.0
    figure = Figure(figsize=(max(width, 5.4), height), layout="constrained", facecolor="white")
    axes = figure.add_subplot()
    shades = LinearSegmentedColormap.from_list("share", ["#FFFFFF", OKABE_ITO["blue"]])
    axes.pcolormesh(
        np.arange(k + 1) - 0.5, np.arange(k + 2) - 0.5, table, cmap=shades, vmin=0, vmax=1, edgecolor="white", lw=1.5
    )
    for (row, column), share in np.ndenumerate(table):
        if row == column:
            continue
        text = f"{share:.2f}".rstrip("0").rstrip(".")
        axes.text(column, row, text, ha="center", va="center", fontsize=8.5, color=_text_color(share))
    axes.axhline(k - 0.5, color=INK, linewidth=1.0)
    axes.set_xticks(range(k), shown, rotation=40, ha="left", rotation_mode="anchor")
    axes.set_yticks(range(k + 1), [*shown, BEATEN])
    axes.xaxis.tick_top()
    axes.invert_yaxis()
    axes.spines[:].set_visible(False)
    axes.tick_params(length=0, colors=INK, labelsize=9)
    add_headline(figure, "share of label counts at which the row beats the column")
    return figure


def _text_color(share: float) -> str:
    """A text color that is legible in this cell of the matrix, also in dark mode."""
    if share == 0.0:
        return INK
    return "#FEFEFE" if share > 0.55 else "#111111"


def savings_figure(savings: Sequence[Saving]) -> Figure:
    """Labels saved against the baseline at equal accuracy, as bars with their bootstrap interval.

    Examples
    --------
    >>> from dubito.experiments.statistics import Interval
    >>> saving = Saving("coreset", "random", 0.9, 100.0, 140.0, Interval(40.0, 20.0, 60.0))
    >>> [text.get_text() for text in savings_figure([saving]).axes[0].texts]
    ['40 [20 to 60]']
    """
    figure, axes = _bar_figure([each.name for each in savings])
    axes.axvline(0.0, color=QUIET, linewidth=0.9)
    ends = [end for each in savings for end in (each.saved.estimate, each.saved.low, each.saved.high) if isfinite(end)]
    reach = max([abs(end) for end in ends], default=1.0) or 1.0
    low = min([0.0, *ends]) - 0.12 * reach
    margin = 0.05 + LETTER_SHARE * max(len(format_saved(each)) for each in savings)
    axes.set_xlim(low, low + (max([0.0, *ends]) - low) / (1.0 - min(margin, 0.6)))
    for row, each in enumerate(savings):
        _draw_saving(axes, each, row, reach)
    axes.xaxis.set_major_formatter(COUNTS)
    baseline, first = savings[0].baseline, savings[0]
    axes.set_xlabel(f"labels; {baseline} needs {round(first.baseline_needed):,} for {first.accuracy:.1%}", color=INK)
    interval = "" if all(np.isnan(each.saved.low) for each in savings) else ", with 95% bootstrap interval"
    add_headline(figure, f"labels saved for what {baseline} learns{interval}")
    return figure


def _draw_saving(axes: Axes, each: Saving, row: int, reach: float) -> None:
    """A bar, faint if the interval contains 0, and the interval, with an arrow at the edge for an infinite end."""
    saved, color = each.saved, strategy_color(each.name)
    if saved.estimate == -inf:
        axes.text(0.02 * reach, row, NOT_REACHED, va="center", fontsize=9, color=QUIET)
        return
    axes.barh(row, saved.estimate, height=0.6, color=color, alpha=0.85 if is_sure(each) else 0.35)
    low = max(saved.low, axes.get_xlim()[0])
    if not np.isnan(saved.low):
        axes.plot([low, saved.high], [row, row], color=INK, linewidth=1.3, solid_capstyle="butt")
        axes.plot(low, row, marker="<" if saved.low == -inf else "|", color=INK, markersize=6, clip_on=False)
        axes.plot(saved.high, row, marker="|", color=INK, markersize=6)
    right = max(saved.estimate, 0.0 if np.isnan(saved.high) else saved.high, 0.0)
    axes.text(right + 0.025 * reach, row, format_saved(each), va="center", fontsize=9, color=INK)


def times_figure(names: Sequence[str], seconds: Sequence[float], training: float) -> Figure:
    """Mean seconds of a selection, a bar for each strategy.

    Examples
    --------
    >>> [text.get_text() for text in times_figure(["random", "coreset"], [0.0, 0.25], 1.0).axes[0].texts]
    ['0.0 ms', '250 ms']
    """
    figure, axes = _bar_figure(names)
    longest = max(seconds, default=0.0) or 1.0
    for row, (name, each) in enumerate(zip(names, seconds, strict=True)):
        axes.barh(row, each, height=0.6, color=strategy_color(name), alpha=0.85)
        axes.text(each + 0.015 * longest, row, format_seconds(each), va="center", fontsize=9, color=INK)
    axes.set_xlim(0.0, 1.15 * longest)
    axes.set_xlabel(f"seconds; a training takes {format_seconds(training)} on average", color=INK)
    add_headline(figure, "mean time of a selection")
    return figure


def format_seconds(seconds: float) -> str:
    """Seconds or milliseconds with about three digits.

    Examples
    --------
    >>> format_seconds(0.00123), format_seconds(0.25), format_seconds(12.34)
    ('1.2 ms', '250 ms', '12.3 s')
    """
    if seconds >= 1.0:
        return f"{seconds:.3g} s" if seconds < 1000 else f"{seconds:,.0f} s"
    return f"{1000 * seconds:.1f} ms" if seconds < 0.01 else f"{1000 * seconds:.0f} ms"


def _bar_figure(names: Sequence[str]) -> tuple[Figure, Axes]:
    figure = Figure(figsize=(7.4, MARGIN_HEIGHT + ROW_HEIGHT * len(names)), layout="constrained", facecolor="white")
    axes = figure.add_subplot()
    _prepare_rows(axes, names)
    return figure, axes


def _prepare_rows(axes: Axes, names: Sequence[str]) -> None:
    """One row per strategy, the first at the top, with colored names."""
    make_axes_plain(axes)
    axes.spines["left"].set_visible(False)
    axes.grid(axis="x", color=FAINT, linewidth=0.6)
    axes.set_axisbelow(True)
    axes.set_yticks(range(len(names)), [wrapped(name, 38) for name in names])
    axes.set_ylim(len(names) - 0.4, -0.6)
    axes.tick_params(axis="y", length=0, labelsize=9.5)
    # Of panels that share rows, only the first has names.
    for label, name in zip(axes.get_yticklabels(), names, strict=False):
        label.set(color=strategy_color(name), fontweight="bold")
