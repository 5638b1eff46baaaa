"""Pictures of the bound on β (figure 7), of the timing statement, and of the discussion's claim."""

import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.ticker import LogLocator, MultipleLocator, NullLocator

from dubito.experiments.plots.style import FAINT, INK, OKABE_ITO, QUIET, calm, strategy_color, title
from dubito.matrix import FloatArray, IntArray
from dubito.paper.beta import Beta
from dubito.paper.discussion import Discussion
from dubito.paper.plots.panels import headline_of
from dubito.paper.timing import PAPER_SECONDS, PAPER_SIZES, Timing

QUADRATIC, CERTAIN, UNKNOWN = OKABE_ITO["orange"], OKABE_ITO["blue"], OKABE_ITO["sky"]
COLUMNS = 3


def beta_figure(finding: Beta) -> Figure:
    """A panel for each doubt; colored are the values β may have, at or above the bound."""
    rows = -(-len(finding.z) // COLUMNS)
    figure = Figure(figsize=(10.0, 2.35 * rows + 0.85), facecolor="white")
    panels = figure.subplots(rows, COLUMNS, sharex=True, sharey=True, squeeze=False).ravel()
    figure.subplots_adjust(
        left=0.062, right=0.988, top=1 - 1.03 / (2.35 * rows + 0.85), bottom=0.11, wspace=0.07, hspace=0.24
    )
    headline_of(
        figure,
        "surer points have the higher bound on β, and keep it farther out",
        f"colored: what β may be (λ_c = {finding.lambda_c:g}, λ_ε = {finding.lambda_epsilon:g}); orange: quadratic "
        "convergence; blue: at least as good as the core-set; pale: past δ*, nothing can be said",
    )
    for place, axes in enumerate(panels[: len(finding.z)]):
        _draw_slice(axes, finding, place)
    for axes in panels[len(finding.z) :]:
        axes.set_visible(False)
    figure.supxlabel("δ, distance to the nearest label", color=INK, fontsize=10, y=0.012)
    figure.supylabel("β", color=INK, fontsize=10, x=0.008)
    return figure


def _draw_slice(axes: Axes, finding: Beta, place: int) -> None:
    calm(axes)
    deltas, bound, star = finding.deltas, finding.slices[place], float(finding.stars[place])
    turn = min(1.0 / finding.lambda_c, star)
    for low, high, color, alpha in (
        (0.0, turn, QUADRATIC, 0.5),
        (turn, star, CERTAIN, 0.45),
        (star, deltas[-1], UNKNOWN, 0.16),
    ):
        # The edges themselves, so that neighbors meet.
        inside = np.unique(np.clip(deltas, low, high))
        axes.fill_between(inside, np.interp(inside, deltas, bound), 1.0, color=color, alpha=alpha, linewidth=0)
    axes.plot(deltas, bound, color=INK, linewidth=1.6, clip_on=False)
    axes.axvline(star, color=INK, linewidth=0.9, linestyle=(0, (3, 2)))
    is_far = star > 0.8 * deltas[-1]
    side, shift = ("right", -0.14) if is_far else ("left", 0.05)
    axes.text(star + shift, 0.05, f"δ* = {star:.2f}", color=INK, fontsize=8.5, va="bottom", ha=side)
    axes.set(xlim=(0, deltas[-1]), ylim=(0, 1), yticks=(0, 0.5, 1))
    axes.xaxis.set_major_locator(MultipleLocator(1.0))
    axes.set_title(f"doubt z = {finding.z[place]:g}", loc="left", color=INK, fontsize=10, fontweight="bold", pad=4)
    axes.set_title(f"peak {bound.max():.2f}", loc="right", color=QUIET, fontsize=9, pad=4)


def timing_figure(finding: Timing) -> Figure:
    """Every run as a point, the least of each size joined, beside the paper's two numbers; a panel more for picks."""
    panels = [("points labeled", finding.sizes, finding.seconds)]
    if len(finding.budgets):
        panels.append((f"picks, {finding.sizes[0]:,} labeled", finding.budgets, finding.picking))
    figure = Figure(figsize=(8.0, 4.4) if len(panels) == 1 else (11.0, 4.6), layout="constrained", facecolor="white")
    drawn = figure.subplots(1, len(panels), sharey=True, squeeze=False)[0]
    for axes, (asked, sizes, seconds) in zip(drawn, panels, strict=True):
        _draw_seconds(axes, sizes, seconds)
        axes.set_xlabel(asked, color=INK)
    _seconds_axis(drawn[0], finding)
    drawn[0].set_ylabel("seconds for a selection", color=INK)
    slowest = max(float(taken.min(axis=1).max()) for taken in finding.seconds.values())
    title(
        drawn[0],
        f"a core-set of {finding.budget:,} takes {slowest:.2g} s at most on this {finding.device}",
        f"a generated pool of {finding.n:,} × {finding.d}, the labeled among them; dots: runs, line: the least",
    )
    return figure


def _draw_seconds(axes: Axes, sizes: IntArray, seconds: dict[str, FloatArray]) -> None:
    calm(axes)
    axes.grid(axis="y", color=FAINT, linewidth=0.8)
    axes.set_axisbelow(True)
    axes.plot(PAPER_SIZES, PAPER_SECONDS, color=QUIET, linewidth=2.0, linestyle=(0, (4, 2)), marker="D", markersize=6)
    axes.annotate(
        "the paper, a Titan GPU",
        (PAPER_SIZES[1], PAPER_SECONDS[1]),
        xytext=(-10, 9),
        textcoords="offset points",
        color=QUIET,
        fontweight="bold",
        ha="right",
    )
    for name, shown, side in (("coreset", "core-set", "bottom"), ("doubt-coreset", "scaled core-set", "top")):
        taken, color = seconds[name], strategy_color(name)
        axes.plot(np.repeat(sizes, taken.shape[1]), taken.ravel(), "o", color=color, alpha=0.3, markersize=4.5)
        axes.plot(sizes, taken.min(axis=1), color=color, linewidth=2.2)
        axes.annotate(
            f"{shown}  {taken[-1].min():.2g} s",
            (float(sizes[-1]), float(taken[-1].min())),
            xytext=(0, 6 if side == "bottom" else -6),
            textcoords="offset points",
            color=color,
            fontweight="bold",
            ha="right",
            va=side,
        )
    axes.xaxis.set_major_formatter(lambda value, _: f"{value:,.0f}")


def _seconds_axis(axes: Axes, finding: Timing) -> None:
    """Logarithmic, with room for names above and below."""
    runs = [*finding.seconds.values(), *finding.picking.values()]
    every = np.concatenate([*(taken.ravel() for taken in runs), PAPER_SECONDS])
    axes.set_yscale("log")
    axes.set_ylim(float(every.min()) / 2.0, float(every.max()) * 1.6)
    axes.yaxis.set_major_locator(LogLocator(subs=(1.0, 2.0, 5.0)))
    axes.yaxis.set_major_formatter(lambda value, _: f"{value:g}")
    axes.yaxis.set_minor_locator(NullLocator())


def discussion_figure(finding: Discussion) -> Figure:
    """The gain of scaling against labels above, δ·λ_c between its bounds below."""
    figure = Figure(figsize=(8.4, 5.6), facecolor="white")
    upper, lower = figure.subplots(2, 1, sharex=True, gridspec_kw={"height_ratios": (1.15, 1.0)})
    figure.subplots_adjust(left=0.09, right=0.975, top=0.865, bottom=0.095, hspace=0.14)
    numbers = finding.verdict().numbers
    headline_of(
        figure,
        f"scaling gains most at {numbers['labels at the largest gain']:,.0f} labels, where δ·λ_c is "
        f"{numbers['δ·λ_c there, at least']:.2g} or more",
        f"scikit-learn's digits, a linear probe, {len(finding.gains)} seeds; quadratic regime: δ·λ_c < 1",
    )
    _draw_gain(upper, finding)
    _draw_regime(lower, finding)
    return figure


def _draw_gain(axes: Axes, finding: Discussion) -> None:
    calm(axes)
    gains = 100.0 * finding.gains
    mean, error = gains.mean(axis=0), _standard_error(gains)
    color = strategy_color("doubt-coreset")
    axes.axhline(0.0, color=QUIET, linewidth=0.9)
    axes.fill_between(finding.labels, mean - error, mean + error, color=color, alpha=0.15, linewidth=0)
    axes.plot(finding.labels, mean, color=color, linewidth=2.2)
    peak = int(mean.argmax())
    axes.plot(finding.labels[peak], mean[peak], "o", color=color, markersize=7, markeredgecolor="white")
    axes.set_ylabel("points over the core-set", color=INK)
    axes.text(
        1.0, 0.97, "mean ± standard error", transform=axes.transAxes, color=QUIET, fontsize=9, ha="right", va="top"
    )


def _standard_error(gains: FloatArray) -> FloatArray:
    seeds = len(gains)
    return np.asarray(gains.std(axis=0, ddof=1 if seeds > 1 else 0) / np.sqrt(seeds))


def _draw_regime(axes: Axes, finding: Discussion) -> None:
    calm(axes)
    least, most = ((finding.delta * slope).mean(axis=0) for slope in (finding.by_data, finding.by_head))
    axes.fill_between(finding.labels, least, most, color=CERTAIN, alpha=0.2, linewidth=0)
    for values, name, side in ((most, "at most, by the head", "bottom"), (least, "at least, by the data", "top")):
        axes.plot(finding.labels, values, color=CERTAIN, linewidth=1.6)
        axes.annotate(
            name,
            (float(finding.labels[-1]), float(values[-1])),
            xytext=(0, 11 if side == "bottom" else -5),
            textcoords="offset points",
            color=CERTAIN,
            fontsize=9,
            ha="right",
            va=side,
        )
    axes.axhspan(0.0, 1.0, color=QUADRATIC, alpha=0.25, linewidth=0)
    axes.text(finding.labels[0], 0.5, " quadratic regime", color=INK, fontsize=9, va="center")
    axes.set_ylim(0.0, 1.15 * float(most.max()))
    axes.set_xlabel("labels", color=INK)
    axes.set_ylabel("δ·λ_c", color=INK)
