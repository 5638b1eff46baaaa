"""Pictures of the signed line: the mixture (figure 8), three batches (9), the distribution of scores (10)."""

import numpy as np
from matplotlib.axes import Axes
from matplotlib.colors import LinearSegmentedColormap, TwoSlopeNorm
from matplotlib.figure import Figure

from dubito.experiments.built_in_data import line_density
from dubito.experiments.plots.style import FAINT, INK, OKABE_ITO, QUIET, calm
from dubito.paper.mixture import LINE, Heatmap, MixtureFit, Tail
from dubito.paper.plots.panels import headline_of

TRUE, FITTED = OKABE_ITO["black"], OKABE_ITO["vermilion"]
SIDES = (OKABE_ITO["blue"], OKABE_ITO["orange"])
HEIGHTS = 20_211
"""Seed of the heights in the first panel, which mean nothing."""
BATCH = OKABE_ITO["vermilion"]
LEFT_TO_RIGHT = LinearSegmentedColormap.from_list("skew", [OKABE_ITO["blue"], "#FFFFFF", OKABE_ITO["vermilion"]])


def mixture_figure(finding: MixtureFit) -> Figure:
    """The points by sign, the density they come from, the mixture fitted to them."""
    figure = Figure(figsize=(10.0, 3.5), facecolor="white")
    panels = figure.subplots(1, 3, sharex=True)
    figure.subplots_adjust(left=0.05, right=0.988, top=0.72, bottom=0.14, wspace=0.16)
    astray = finding.verdict().numbers["total variation distance"]
    headline_of(
        figure,
        f"{finding.components} Gaussians follow the density of two peaks to {astray:.0%} of its mass, and overfit it",
        f"{len(finding.points):,} numbers, to be told apart by their sign",
    )
    _draw_points(panels[0], finding)
    for axes, values, color, name in (
        (panels[1], finding.true, TRUE, "the true density"),
        (panels[2], finding.fitted, FITTED, f"a mixture of {finding.components}"),
    ):
        axes.fill_between(LINE, values, color=color, alpha=0.12, linewidth=0)
        axes.plot(LINE, values, color=color, linewidth=1.8)
        axes.set_ylim(0, 1.12 * max(finding.fitted.max(), finding.true.max()))
        _name(axes, name, color)
    panels[2].plot(LINE, finding.true, color=TRUE, linewidth=1.0, linestyle=(0, (4, 3)))
    return figure


def _name(axes: Axes, name: str, color: str = INK, note: str = "") -> None:
    calm(axes)
    axes.set_title(name, loc="left", color=color, fontsize=10, fontweight="bold")
    if note:
        axes.set_title(note, loc="right", color=QUIET, fontsize=9)


def _draw_points(axes: Axes, finding: MixtureFit) -> None:
    heights = np.random.default_rng(HEIGHTS).uniform(0.0, 1.0, len(finding.points))
    colors = np.array(SIDES)[finding.labels]
    axes.scatter(finding.points, heights, s=8, c=colors.tolist(), alpha=0.55, linewidths=0, rasterized=True)
    axes.axvline(0.0, color=QUIET, linewidth=0.9, linestyle=(0, (4, 3)))
    axes.set_yticks([])
    axes.set_ylim(-0.05, 1.05)
    _name(axes, "the points", note="height is chance")
    axes.spines["left"].set_visible(False)


def heatmap_figure(finding: Heatmap) -> Figure:
    """Three batches on the density above, the responsibilities of the components for their points below."""
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
        placed = rows[np.argsort(finding.points[rows], kind="stable")]
        _draw_batch(panels[0][column], finding, placed)
        _name(panels[0][column], f"{name} score", note=f"{score:.2f} nats")
        _draw_components(panels[1][column], finding, placed)
    panels[1][0].set_ylabel("point of the batch", color=INK, fontsize=9)
    panels[1][1].set_xlabel("component of the mixture, from left to right", color=INK, fontsize=9)
    return figure


def _draw_batch(axes: Axes, finding: Heatmap, rows: "np.ndarray[tuple[int], np.dtype[np.int64]]") -> None:
    axes.fill_between(LINE, line_density(LINE), color=FAINT, linewidth=0)
    axes.vlines(finding.points[rows], 0.0, 0.33, color=BATCH, linewidth=1.3, linestyle=(0, (3, 1.5)))
    axes.set(ylim=(0, 0.34), xlim=(LINE[0], LINE[-1]), yticks=[])


def _draw_components(axes: Axes, finding: Heatmap, rows: "np.ndarray[tuple[int], np.dtype[np.int64]]") -> None:
    axes.imshow(finding.likely[rows], cmap="YlOrBr", aspect="auto", vmin=0.0, vmax=1.0, interpolation="nearest")
    calm(axes)
    axes.set_yticks(range(len(rows)), [str(place) for place in range(1, len(rows) + 1)])
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
    calm(axes)
    axes.hist(finding.scores, bins=60, color=OKABE_ITO["sky"], edgecolor="white", linewidth=0.4)
    for value, name, ink in (
        (np.median(finding.scores), "median", INK),
        (finding.scores.max(), "the batch kept", BATCH),
    ):
        axes.axvline(float(value), color=ink, linewidth=1.3, linestyle=(0, (4, 3)))
        axes.annotate(
            name,
            (float(value), 1.0),
            xycoords=("data", "axes fraction"),
            xytext=(-4, -2),
            textcoords="offset points",
            color=ink,
            fontsize=9,
            ha="right",
            va="top",
        )
    axes.set_yticks([])
    axes.spines["left"].set_visible(False)
    axes.set_xlabel(f"score in nats (at most ln {finding.components} = {np.log(finding.components):.2f})", color=INK)


def _draw_skews(axes: Axes, finding: Tail) -> None:
    reach = max(1.0, float(np.abs(finding.skews).max()))
    axes.imshow(finding.skews, cmap=LEFT_TO_RIGHT, norm=TwoSlopeNorm(0.0, -reach, reach), aspect="auto")
    calm(axes)
    axes.spines[:].set_visible(False)
    axes.set_xticks(range(len(finding.other_batches)), [str(each) for each in finding.other_batches])
    axes.set_yticks(range(len(finding.other_components)), [str(each) for each in finding.other_components])
    for (row, column), value in np.ndenumerate(finding.skews):
        axes.text(column, row, f"{value:+.2f}", ha="center", va="center", color=INK, fontsize=9.5)
    axes.set_xlabel("points in a batch", color=INK, fontsize=9)
    axes.set_ylabel("components", color=INK, fontsize=9)
    axes.set_title("skewness for other sizes", loc="left", color=INK, fontsize=10, fontweight="bold")
