"""Pictures of figures 5 and 6 and of table 1: networks trained on images."""

from matplotlib.figure import Figure
from matplotlib.layout_engine import ConstrainedLayoutEngine
from matplotlib.ticker import MaxNLocator, PercentFormatter

from dubito.experiments.plots.learning import draw_learning, learning_figure, learning_size
from dubito.experiments.plots.style import FAINT, INK, OKABE_ITO, QUIET, calm, new_figure, title
from dubito.paper.networks import PASSED, Ablation, Epochs, MainExperiments
from dubito.paper.plots.panels import headline_of

COLORS = {
    "CIFAR-10": OKABE_ITO["blue"],
    "CIFAR-100": OKABE_ITO["orange"],
    "SVHN": OKABE_ITO["green"],
}
HEAD = 0.75
"""Inches above the first of several panels."""


def ablation_figure(finding: Ablation) -> Figure:
    """The learning curves of the ablation."""
    holds = finding.verdict().holds
    headline = (
        "a beam helps where distances are scaled, and both together end highest"
        if holds
        else "scaling and a beam do not come out as in the paper"
    )
    seeds = len(finding.curves[0].accuracy)
    return learning_figure(finding.curves, headline, f"VGG16 on CIFAR-10, mean and one deviation of {seeds} seeds")


def main_figure(finding: MainExperiments) -> Figure:
    """A panel of learning curves for each collection, one below another."""
    sizes = {name: learning_size(found) for name, found in finding.curves.items()}
    height = sum(tall for _, tall in sizes.values()) + HEAD
    below_headline = ConstrainedLayoutEngine(rect=(0, 0, 1, 1 - HEAD / height))
    width = max(wide for wide, _ in sizes.values())
    figure = Figure(figsize=(width, height), layout=below_headline, facecolor="white")
    panels = figure.subplots(len(sizes), 1, squeeze=False, height_ratios=[tall for _, tall in sizes.values()]).ravel()
    for axes, (name, found) in zip(panels, finding.curves.items(), strict=True):
        calm(axes)
        draw_learning(axes, found, sizes[name][1])
        axes.set_title(name, loc="left", color=INK, fontsize=11, fontweight="bold")
    headline = (
        "scaled distances with a beam of 10 are above the plain core-set and random"
        if finding.verdict().holds
        else "scaled distances with a beam of 10 are not everywhere above the plain core-set and random"
    )
    seeds = len(next(iter(finding.curves.values()))[0].accuracy)
    headline_of(figure, headline, f"VGG16, mean and one standard deviation of {seeds} seeds{only(finding)}")
    return figure


def epochs_figure(finding: Epochs) -> Figure:
    """Mean training accuracy after each training, and the 99% it is to pass."""
    figure, axes = new_figure(7.2, 4.2)
    axes.grid(axis="y", color=FAINT, linewidth=0.8)
    axes.axhline(PASSED, color=QUIET, linewidth=1.0, linestyle=(0, (4, 2)))
    for name, means in finding.accuracy.items():
        color = COLORS.get(name, INK)
        axes.plot(range(1, len(means) + 1), means, color=color, linewidth=2.2, marker="o", markeredgecolor="white")
        axes.annotate(
            f"{name}  {means[-1]:.1%}",
            xy=(len(means), means[-1]),
            xytext=(8, 0),
            textcoords="offset points",
            color=color,
            fontweight="bold",
            va="center",
            annotation_clip=False,
        )
    axes.xaxis.set_major_locator(MaxNLocator(integer=True))
    axes.yaxis.set_major_formatter(PercentFormatter(1.0, decimals=1))
    axes.set_xlabel("training", color=INK)
    axes.set_ylabel("training accuracy", color=INK)
    passes = "pass" if finding.verdict().holds else "do not all pass"
    headline = f"trainings of the paper's length {passes} 99% training accuracy"
    title(axes, headline, f"mean over strategies and seeds{only(finding)}")
    return figure


def only(finding: MainExperiments | Epochs) -> str:
    """What a headline is about, where that is a part of the claim."""
    scope = finding.verdict().scope
    return f"; {scope}" if scope else ""
