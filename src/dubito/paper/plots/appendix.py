"""Pictures of the appendix's toys: curves (figures 11 and 12), acquisitions (13 to 15), and gain against cost."""

import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from dubito.experiments.plots.learning import learning_figure
from dubito.experiments.plots.style import FAINT, INK, QUIET, calm, strategy_color
from dubito.experiments.statistics import area, paired_test
from dubito.paper.appendix import ALGORITHM_2, HARD, VARIANTS, Acquisitions, Negative, Toy
from dubito.paper.learning import EXPLOITIVE
from dubito.paper.plots.panels import bare, draw_picks, draw_points, headline_of, square_figure

NAMES = {
    "random": "random",
    "probabilistic-coreset": "probabilistic",
    EXPLOITIVE: "exploitive",
    "entropy": "entropy",
    "least-confidence": "least confidence",
}
NOISE = "#D9CBB8"


def toy_figure(finding: Toy) -> Figure:
    """Accuracy against labels."""
    means = {curve.name: float(area(curve).mean()) for curve in finding.curves}
    best = max((name for name in means if name not in VARIANTS), key=lambda name: means[name])
    lead = 100 * (min(means[name] for name in VARIANTS) - means[best])
    where = "hardly overlap" if finding.deviation < 0.75 else "overlap much"
    seeds = len(finding.curves[0].accuracy)
    return learning_figure(
        finding.curves,
        f"clusters that {where}: both probabilistic core-sets lead {best}, by {lead:.1f} points over the rounds"
        if lead > 0
        else f"clusters that {where}: {best} is level with a probabilistic core-set, or above",
        f"25 clusters of standard deviation {finding.deviation:g}, a small network; mean and one standard deviation of "
        f"{seeds} seeds",
    )


def acquisitions_figure(finding: Acquisitions) -> Figure:
    """A panel for each method; noisy places are shaded."""
    hard = {name: float((finding.noise[rows] > HARD).mean()) for name, rows in finding.picked.items()}
    figure, (panels,) = square_figure(
        len(NAMES),
        headline=f"in noise lie {hard['entropy']:.0%} of entropy's picks, {hard['random']:.0%} of random's, "
        f"{hard['probabilistic-coreset']:.0%} of the probabilistic core-set's",
        detail=f"{len(finding.picked['random'])} picks of the first seed; shaded: noise, where over {HARD:.0%} of the "
        "points cannot be got right",
    )
    for axes, (name, shown) in zip(panels, NAMES.items(), strict=True):
        is_hard = finding.noise > HARD
        draw_points(axes, finding.points[~is_hard], FAINT)
        draw_points(axes, finding.points[is_hard], NOISE)
        draw_picks(axes, finding.points[finding.picked[name]], strategy_color(name), size=13)
        bare(axes, shown, f"{hard[name]:.0%} in noise", strategy_color(name))
    return figure


def negative_figure(finding: Negative) -> Figure:
    """Gain over random with its interval at the left, seconds of a selection at the right."""
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


def _draw_gains(axes: Axes, finding: Negative) -> None:
    calm(axes)
    axes.axvline(0.0, color=QUIET, linewidth=1.0)
    names = [curve.name for curve in finding.curves[0] if curve.name != "random"]
    for which, (curves, marker) in enumerate(zip(finding.curves, ("o", "s"), strict=True)):
        base = next(area(curve) for curve in curves if curve.name == "random")
        for place, name in enumerate(names):
            interval, _ = paired_test(next(area(curve) for curve in curves if curve.name == name) - base)
            height, color = place + (0.16 if which else -0.16), strategy_color(name)
            axes.plot(
                [100 * interval.low, 100 * interval.high], [height, height], color=color, linewidth=1.6, alpha=0.6
            )
            face = "white" if which else color
            axes.plot(100 * interval.estimate, height, marker, color=color, markerfacecolor=face, markersize=6)
    axes.set_yticks(range(len(names)), [_shown(name) for name in names])
    axes.invert_yaxis()
    axes.tick_params(axis="y", length=0, labelsize=9, labelcolor=INK)
    axes.spines["left"].set_visible(False)
    first, second = (f"{each:g}" for each in finding.deviations)
    axes.set_xlabel(f"points over random (filled: {first}, hollow: {second})", color=INK, fontsize=9)


def _draw_costs(axes: Axes, finding: Negative) -> None:
    calm(axes)
    mean = {name: float(np.mean([each[name] for each in finding.seconds])) for name in finding.seconds[0]}
    names = sorted(mean, key=lambda name: mean[name])
    for place, name in enumerate(names):
        axes.plot([min(mean.values()) / 3, mean[name]], [place, place], color=FAINT, linewidth=1.4, zorder=1)
        axes.plot(mean[name], place, "o", color=strategy_color(name), markersize=8)
        axes.annotate(
            f"{1000 * mean[name]:,.3g} ms",
            (mean[name], place),
            xytext=(8, 0),
            textcoords="offset points",
            va="center",
            fontsize=9,
            color=INK,
        )
    axes.set_yticks(range(len(names)), [_shown(name) for name in names])
    axes.set_xscale("log")
    axes.set_xlim(min(mean.values()) / 3, max(mean.values()) * 12)
    axes.margins(y=0.1)
    axes.tick_params(axis="y", length=0, labelsize=9, labelcolor=INK)
    axes.spines["left"].set_visible(False)
    axes.set_xlabel("seconds for a selection", color=INK, fontsize=9)


def _shown(name: str) -> str:
    return "Algorithm 2" if name == ALGORITHM_2 else NAMES[name]
