"""Plots of the figures of the paper: each function draws the finding of a study."""

from collections.abc import Callable
from typing import Any

import numpy as np
from matplotlib.axes import Axes
from matplotlib.colors import LinearSegmentedColormap, TwoSlopeNorm
from matplotlib.figure import Figure
from matplotlib.layout_engine import ConstrainedLayoutEngine
from matplotlib.ticker import LogLocator, MaxNLocator, MultipleLocator, NullLocator, PercentFormatter

from dubito.errors import InvalidArgument
from dubito.experiments.plots.learning import draw_learning, learning_figure, learning_size
from dubito.experiments.plots.style import (
    FAINT,
    INK,
    OKABE_ITO,
    QUIET,
    add_label,
    make_axes_plain,
    new_figure,
    strategy_color,
    title,
)
from dubito.matrix import FloatArray, IntArray
from dubito.paper.coreset_studies import Beams, Quadrants, Radii
from dubito.paper.mixture_studies import LINE, Heatmap, MixtureFit, Tail
from dubito.paper.network_studies import MIN_TRAINING_ACCURACY, Ablation, Epochs, MainExperiments
from dubito.paper.pool_plots import (
    acquisitions_figure,
    beams_figure,
    concentration_figure,
    headline_of,
    negative_figure,
    quadrants_figure,
    radii_figure,
    toy_figure,
)
from dubito.paper.statement_studies import PAPER_SECONDS, PAPER_SIZES, Beta, Discussion, Timing
from dubito.paper.toy_studies import Acquisitions, Concentration, NegativeResult, ToyCurves
from dubito.paper.toys import line_density

# Plots of the signed line: the mixture (figure 8), three batches (9), the distribution of scores (10).

TRUE, FITTED = OKABE_ITO["black"], OKABE_ITO["vermilion"]
CLASS_COLORS = (OKABE_ITO["blue"], OKABE_ITO["orange"])
HEIGHT_SEED = 20_211
"""Seed of the random heights in the first panel, which have no meaning."""
BATCH = OKABE_ITO["vermilion"]
SKEW_COLORS = LinearSegmentedColormap.from_list("skew", [OKABE_ITO["blue"], "#FFFFFF", OKABE_ITO["vermilion"]])


def mixture_figure(finding: MixtureFit) -> Figure:
    """The points by sign, the true density, and the fitted mixture."""
    figure = Figure(figsize=(10.0, 3.5), facecolor="white")
    panels = figure.subplots(1, 3, sharex=True)
    figure.subplots_adjust(left=0.05, right=0.988, top=0.72, bottom=0.14, wspace=0.16)
    mismatch = finding.verdict().numbers["total variation distance"]
    headline_of(
        figure,
        f"{finding.components} Gaussians follow the density of two peaks to {mismatch:.0%} of its mass, and overfit it",
        f"{len(finding.points):,} numbers, to be told apart by their sign",
    )
    _draw_signed_points(panels[0], finding)
    for axes, values, color, name in (
        (panels[1], finding.true, TRUE, "the true density"),
        (panels[2], finding.fitted, FITTED, f"a mixture of {finding.components}"),
    ):
        axes.fill_between(LINE, values, color=color, alpha=0.12, linewidth=0)
        axes.plot(LINE, values, color=color, linewidth=1.8)
        axes.set_ylim(0, 1.12 * max(finding.fitted.max(), finding.true.max()))
        _title_panel(axes, name, color)
    panels[2].plot(LINE, finding.true, color=TRUE, linewidth=1.0, linestyle=(0, (4, 3)))
    return figure


def _title_panel(axes: Axes, name: str, color: str = INK, note: str = "") -> None:
    make_axes_plain(axes)
    axes.set_title(name, loc="left", color=color, fontsize=10, fontweight="bold")
    if note:
        axes.set_title(note, loc="right", color=QUIET, fontsize=9)


def _draw_signed_points(axes: Axes, finding: MixtureFit) -> None:
    heights = np.random.default_rng(HEIGHT_SEED).uniform(0.0, 1.0, len(finding.points))
    colors = np.array(CLASS_COLORS)[finding.labels]
    axes.scatter(finding.points, heights, s=8, c=colors.tolist(), alpha=0.55, linewidths=0, rasterized=True)
    axes.axvline(0.0, color=QUIET, linewidth=0.9, linestyle=(0, (4, 3)))
    axes.set_yticks([])
    axes.set_ylim(-0.05, 1.05)
    _title_panel(axes, "the points", note="height is chance")
    axes.spines["left"].set_visible(False)


def heatmap_figure(finding: Heatmap) -> Figure:
    """Top: three batches on the density. Bottom: the responsibilities of the components for their points."""
    figure = Figure(figsize=(10.0, 5.0), facecolor="white")
    panels = figure.subplots(2, 3, gridspec_kw={"height_ratios": (1.0, 1.15)})
    figure.subplots_adjust(left=0.06, right=0.988, top=0.81, bottom=0.1, wspace=0.12, hspace=0.3)
    numbers = finding.verdict().numbers
    headline_of(
        figure,
        f"high scores: points {numbers['distance between points, top 1% over all']:.2f} times as far apart, and "
        f"{numbers['least gap, top 1% over all']:.1f} times the least gap",
        f"the worst, the middle and the best of {len(finding.scores):,} random batches of {finding.shown.shape[1]}",
    )
    ordered = np.sort(finding.scores)
    values = (ordered[0], ordered[len(ordered) // 2], ordered[-1])
    for column, (name, rows, score) in enumerate(
        zip(("lowest", "middle", "highest"), finding.shown, values, strict=True)
    ):
        from_left = rows[np.argsort(finding.points[rows], kind="stable")]
        axes = panels[0][column]
        axes.fill_between(LINE, line_density(LINE), color=FAINT, linewidth=0)
        axes.vlines(finding.points[from_left], 0.0, 0.33, color=BATCH, linewidth=1.3, linestyle=(0, (3, 1.5)))
        axes.set(ylim=(0, 0.34), xlim=(LINE[0], LINE[-1]), yticks=[])
        _title_panel(panels[0][column], f"{name} score", note=f"{score:.2f} nats")
        _draw_components(panels[1][column], finding, from_left)
    panels[1][0].set_ylabel("point of the batch", color=INK, fontsize=9)
    panels[1][1].set_xlabel("component of the mixture, from left to right", color=INK, fontsize=9)
    return figure


def _draw_components(axes: Axes, finding: Heatmap, rows: IntArray) -> None:
    axes.imshow(finding.probabilities[rows], cmap="YlOrBr", aspect="auto", vmin=0.0, vmax=1.0, interpolation="nearest")
    make_axes_plain(axes)
    axes.set_yticks(range(len(rows)), [str(position) for position in range(1, len(rows) + 1)])
    axes.spines[:].set_visible(False)


def tail_figure(finding: Tail) -> Figure:
    """The histogram of scores, and the skewness for other sizes of mixture and batch."""
    figure = Figure(figsize=(10.0, 3.9), facecolor="white")
    grid = figure.add_gridspec(
        1, 2, width_ratios=(1.75, 1.0), left=0.03, right=0.975, top=0.74, bottom=0.15, wspace=0.2
    )
    skew = finding.verdict().numbers["skewness"]
    side = "right" if skew > 0 else "left"
    headline_of(
        figure,
        f"with {finding.components} components and batches of {finding.batch} the longer tail is on the {side}: "
        f"skewness {skew:+.2f}",
        f"M-bBALD of {len(finding.scores):,} random batches on the signed line; the paper shows a long right tail",
    )
    _draw_histogram(figure.add_subplot(grid[0]), finding)
    _draw_skews(figure.add_subplot(grid[1]), finding)
    return figure


def _draw_histogram(axes: Axes, finding: Tail) -> None:
    make_axes_plain(axes)
    axes.hist(finding.scores, bins=60, color=OKABE_ITO["sky"], edgecolor="white", linewidth=0.4)
    for value, name, ink in (
        (np.median(finding.scores), "median", INK),
        (finding.scores.max(), "the batch kept", BATCH),
    ):
        axes.axvline(float(value), color=ink, linewidth=1.3, linestyle=(0, (4, 3)))
        point, coords = (float(value), 1.0), ("data", "axes fraction")
        add_label(axes, name, point, (-4, -2), xycoords=coords, color=ink, fontsize=9, ha="right", va="top")
    axes.set_yticks([])
    axes.spines["left"].set_visible(False)
    axes.set_xlabel(f"score in nats (at most ln {finding.components} = {np.log(finding.components):.2f})", color=INK)


def _draw_skews(axes: Axes, finding: Tail) -> None:
    reach = max(1.0, float(np.abs(finding.skews).max()))
    axes.imshow(finding.skews, cmap=SKEW_COLORS, norm=TwoSlopeNorm(0.0, -reach, reach), aspect="auto")
    make_axes_plain(axes)
    axes.spines[:].set_visible(False)
    axes.set_xticks(range(len(finding.other_batches)), [str(each) for each in finding.other_batches])
    axes.set_yticks(range(len(finding.other_components)), [str(each) for each in finding.other_components])
    for (row, column), value in np.ndenumerate(finding.skews):
        axes.text(column, row, f"{value:+.2f}", ha="center", va="center", color=INK, fontsize=9.5)
    axes.set_xlabel("points in a batch", color=INK, fontsize=9)
    axes.set_ylabel("components", color=INK, fontsize=9)
    axes.set_title("skewness for other sizes", loc="left", color=INK, fontsize=10, fontweight="bold")


# Plots of the bound on β (figure 7), of the timing statement, and of the claim in the discussion.

QUADRATIC, CERTAIN, UNKNOWN = OKABE_ITO["orange"], OKABE_ITO["blue"], OKABE_ITO["sky"]
COLUMNS = 3


def beta_figure(finding: Beta) -> Figure:
    """A panel for each doubt, in which the possible values of β, above the bound, are colored."""
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
    for position, axes in enumerate(panels[: len(finding.z)]):
        _draw_bound(axes, finding, position)
    for axes in panels[len(finding.z) :]:
        axes.set_visible(False)
    figure.supxlabel("δ, distance to the nearest label", color=INK, fontsize=10, y=0.012)
    figure.supylabel("β", color=INK, fontsize=10, x=0.008)
    return figure


def _draw_bound(axes: Axes, finding: Beta, position: int) -> None:
    make_axes_plain(axes)
    deltas, bound, star = finding.deltas, finding.slices[position], float(finding.stars[position])
    quadratic_end = min(1.0 / finding.lambda_c, star)
    for low, high, color, alpha in (
        (0.0, quadratic_end, QUADRATIC, 0.5),
        (quadratic_end, star, CERTAIN, 0.45),
        (star, deltas[-1], UNKNOWN, 0.16),
    ):
        # Include the edges, so that neighboring regions touch.
        inside = np.unique(np.clip(deltas, low, high))
        axes.fill_between(inside, np.interp(inside, deltas, bound), 1.0, color=color, alpha=alpha, linewidth=0)
    axes.plot(deltas, bound, color=INK, linewidth=1.6, clip_on=False)
    axes.axvline(star, color=INK, linewidth=0.9, linestyle=(0, (3, 2)))
    is_far = star > 0.8 * deltas[-1]
    side, shift = ("right", -0.14) if is_far else ("left", 0.05)
    axes.text(star + shift, 0.05, f"δ* = {star:.2f}", color=INK, fontsize=8.5, va="bottom", ha=side)
    axes.set(xlim=(0, deltas[-1]), ylim=(0, 1), yticks=(0, 0.5, 1))
    axes.xaxis.set_major_locator(MultipleLocator(1.0))
    axes.set_title(f"doubt z = {finding.z[position]:g}", loc="left", color=INK, fontsize=10, fontweight="bold", pad=4)
    axes.set_title(f"peak {bound.max():.2f}", loc="right", color=QUIET, fontsize=9, pad=4)


def timing_figure(finding: Timing) -> Figure:
    """All runs as points, the fastest of each size as a line, and the paper's two numbers; a second panel for picks."""
    panels = [("points labeled", finding.sizes, finding.seconds)]
    if len(finding.budgets):
        panels.append((f"picks, {finding.sizes[0]:,} labeled", finding.budgets, finding.picking))
    figure = Figure(figsize=(8.0, 4.4) if len(panels) == 1 else (11.0, 4.6), layout="constrained", facecolor="white")
    all_axes = figure.subplots(1, len(panels), sharey=True, squeeze=False)[0]
    for axes, (label, sizes, seconds) in zip(all_axes, panels, strict=True):
        _draw_seconds(axes, sizes, seconds)
        axes.set_xlabel(label, color=INK)
    _scale_seconds_axis(all_axes[0], finding)
    all_axes[0].set_ylabel("seconds for a selection", color=INK)
    slowest = max(float(times.min(axis=1).max()) for times in finding.seconds.values())
    title(
        all_axes[0],
        f"a core-set of {finding.budget:,} takes {slowest:.2g} s at most on this {finding.device}",
        f"a generated pool of {finding.n:,} × {finding.d}, the labeled among them; dots: runs, line: the least",
    )
    return figure


def _draw_seconds(axes: Axes, sizes: IntArray, seconds: dict[str, FloatArray]) -> None:
    make_axes_plain(axes)
    axes.grid(axis="y", color=FAINT, linewidth=0.8)
    axes.set_axisbelow(True)
    axes.plot(PAPER_SIZES, PAPER_SECONDS, color=QUIET, linewidth=2.0, linestyle=(0, (4, 2)), marker="D", markersize=6)
    paper = PAPER_SIZES[1], PAPER_SECONDS[1]
    add_label(axes, "the paper, a Titan GPU", paper, (-10, 9), color=QUIET, fontweight="bold", ha="right")
    for name, shown, side, offset in (
        ("coreset", "core-set", "bottom", (0, 6)),
        ("doubt-coreset", "scaled core-set", "top", (0, -6)),
    ):
        times, color = seconds[name], strategy_color(name)
        axes.plot(np.repeat(sizes, times.shape[1]), times.ravel(), "o", color=color, alpha=0.3, markersize=4.5)
        axes.plot(sizes, times.min(axis=1), color=color, linewidth=2.2)
        label, end = f"{shown}  {times[-1].min():.2g} s", (float(sizes[-1]), float(times[-1].min()))
        add_label(axes, label, end, offset, color=color, fontweight="bold", ha="right", va=side)
    axes.xaxis.set_major_formatter(lambda value, _: f"{value:,.0f}")


def _scale_seconds_axis(axes: Axes, finding: Timing) -> None:
    """Make the axis logarithmic, with room for names above and below."""
    runs = [*finding.seconds.values(), *finding.picking.values()]
    seconds = np.concatenate([*(times.ravel() for times in runs), PAPER_SECONDS])
    axes.set_yscale("log")
    axes.set_ylim(float(seconds.min()) / 2.0, float(seconds.max()) * 1.6)
    axes.yaxis.set_major_locator(LogLocator(subs=(1.0, 2.0, 5.0)))
    axes.yaxis.set_major_formatter(lambda value, _: f"{value:g}")
    axes.yaxis.set_minor_locator(NullLocator())


def discussion_figure(finding: Discussion) -> Figure:
    """Top: the gain of scaling against labels. Bottom: δ·λ_c between its bounds."""
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
    make_axes_plain(axes)
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
    make_axes_plain(axes)
    lower, upper = ((finding.delta * slope).mean(axis=0) for slope in (finding.by_data, finding.by_head))
    axes.fill_between(finding.labels, lower, upper, color=CERTAIN, alpha=0.2, linewidth=0)
    last, style = float(finding.labels[-1]), {"color": CERTAIN, "fontsize": 9}
    for values in (upper, lower):
        axes.plot(finding.labels, values, color=CERTAIN, linewidth=1.6)
    add_label(axes, "at most, by the head", (last, float(upper[-1])), (0, 11), ha="right", va="bottom", **style)
    add_label(axes, "at least, by the data", (last, float(lower[-1])), (0, -5), ha="right", va="top", **style)
    axes.axhspan(0.0, 1.0, color=QUADRATIC, alpha=0.25, linewidth=0)
    axes.text(finding.labels[0], 0.5, " quadratic regime", color=INK, fontsize=9, va="center")
    axes.set_ylim(0.0, 1.15 * float(upper.max()))
    axes.set_xlabel("labels", color=INK)
    axes.set_ylabel("δ·λ_c", color=INK)


# Figures 5 and 6 and table 1: networks trained on images.

COLORS = {"CIFAR-10": OKABE_ITO["blue"], "CIFAR-100": OKABE_ITO["orange"], "SVHN": OKABE_ITO["green"]}
HEADLINE_HEIGHT = 0.75
"""Space above the first of several panels, in inches."""


def ablation_figure(finding: Ablation) -> Figure:
    holds = finding.verdict().holds
    headline = (
        "a beam helps where distances are scaled, and both together end highest"
        if holds
        else "scaling and a beam do not come out as in the paper"
    )
    seeds = len(finding.curves[0].accuracy)
    return learning_figure(finding.curves, headline, f"VGG16 on CIFAR-10, mean and one deviation of {seeds} seeds")


def main_figure(finding: MainExperiments) -> Figure:
    """Learning curves, with a panel for each collection."""
    sizes = {name: learning_size(curves) for name, curves in finding.curves.items()}
    height = sum(panel_height for _, panel_height in sizes.values()) + HEADLINE_HEIGHT
    below_headline = ConstrainedLayoutEngine(rect=(0, 0, 1, 1 - HEADLINE_HEIGHT / height))
    width = max(panel_width for panel_width, _ in sizes.values())
    figure = Figure(figsize=(width, height), layout=below_headline, facecolor="white")
    panels = figure.subplots(
        len(sizes), 1, squeeze=False, height_ratios=[panel_height for _, panel_height in sizes.values()]
    ).ravel()
    for axes, (name, curves) in zip(panels, finding.curves.items(), strict=True):
        make_axes_plain(axes)
        draw_learning(axes, curves, sizes[name][1])
        axes.set_title(name, loc="left", color=INK, fontsize=11, fontweight="bold")
    headline = (
        "scaled distances with a beam of 10 are above the plain core-set and random"
        if finding.verdict().holds
        else "scaled distances with a beam of 10 are not everywhere above the plain core-set and random"
    )
    seeds = len(next(iter(finding.curves.values()))[0].accuracy)
    headline_of(figure, headline, f"VGG16, mean and one standard deviation of {seeds} seeds{scope_suffix(finding)}")
    return figure


def epochs_figure(finding: Epochs) -> Figure:
    """Mean training accuracy after each training, and the 99% that it should exceed."""
    figure, axes = new_figure(7.2, 4.2)
    axes.grid(axis="y", color=FAINT, linewidth=0.8)
    axes.axhline(MIN_TRAINING_ACCURACY, color=QUIET, linewidth=1.0, linestyle=(0, (4, 2)))
    for name, means in finding.accuracy.items():
        color = COLORS.get(name, INK)
        axes.plot(range(1, len(means) + 1), means, color=color, linewidth=2.2, marker="o", markeredgecolor="white")
        label, end = f"{name}  {means[-1]:.1%}", (len(means), means[-1])
        add_label(axes, label, end, (8, 0), va="center", color=color, fontweight="bold", annotation_clip=False)
    axes.xaxis.set_major_locator(MaxNLocator(integer=True))
    axes.yaxis.set_major_formatter(PercentFormatter(1.0, decimals=1))
    axes.set_xlabel("training", color=INK)
    axes.set_ylabel("training accuracy", color=INK)
    passes = "pass" if finding.verdict().holds else "do not all pass"
    headline = f"trainings of the paper's length {passes} 99% training accuracy"
    title(axes, headline, f"mean over strategies and seeds{scope_suffix(finding)}")
    return figure


def scope_suffix(finding: MainExperiments | Epochs) -> str:
    """The collections that were measured, to append to a headline, if the claim names more."""
    scope = finding.verdict().scope
    return f"; {scope}" if scope else ""


PLOTS: dict[type, Callable[[Any], Figure]] = {
    Ablation: ablation_figure,
    Acquisitions: acquisitions_figure,
    Beams: beams_figure,
    Beta: beta_figure,
    Concentration: concentration_figure,
    Discussion: discussion_figure,
    Epochs: epochs_figure,
    Heatmap: heatmap_figure,
    MainExperiments: main_figure,
    MixtureFit: mixture_figure,
    NegativeResult: negative_figure,
    Quadrants: quadrants_figure,
    Radii: radii_figure,
    Tail: tail_figure,
    Timing: timing_figure,
    ToyCurves: toy_figure,
}
"""The plot of each type of finding."""


def paper_figure(finding: object) -> Figure:
    """The plot of a finding, with the result as the headline.

    Examples
    --------
    >>> from dubito.paper.exhibits import exhibits
    >>> paper_figure(exhibits()["figure-7"].build().measure(0)).texts[0].get_text()
    'surer points have the higher bound on β, and keep it farther out'
    """
    if type(finding) not in PLOTS:
        hint = "pass what Exhibit.build().measure() returns."
        raise InvalidArgument("has no plot", argument="finding", value=finding, hint=hint)
    return PLOTS[type(finding)](finding)
