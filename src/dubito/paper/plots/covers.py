"""The picture of figure 2: covers of three core-sets."""

import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.patches import Circle

from dubito.experiments.plots.style import strategy_color
from dubito.paper.plots.panels import bare, draw_crosses, draw_points, square_figure
from dubito.paper.radii import Radii

NAMES = {"optimal-coreset": "optimal", "coreset": "greedy", "closest-kmeans": "closest K-means"}


def radii_figure(finding: Radii) -> Figure:
    """A circle of the radius around every pick; the pool's farthest point lies on a rim."""
    radii = {name: finding.covers[name].radius for name in NAMES}
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
    for axes, name in zip(panels, NAMES, strict=True):
        _draw_cover(axes, finding, name)
        axes.set(xlim=(low[0], high[0]), ylim=(low[1], high[1]))
        times = "" if name == "optimal-coreset" else f", {radii[name] / first:.2f}×"
        bare(axes, NAMES[name], f"δ = {radii[name]:.2f}{times}", strategy_color(name))
    return figure


def _limits(finding: Radii) -> tuple[list[float], list[float]]:
    """A square that holds every circle."""
    corners = [
        finding.pool[cover.picks] + side * cover.radius for cover in finding.covers.values() for side in (-1.0, 1.0)
    ]
    every = np.concatenate(corners)
    middle, half = (every.max(axis=0) + every.min(axis=0)) / 2, 0.52 * float(np.ptp(every, axis=0).max())
    return (middle - half).tolist(), (middle + half).tolist()


def _draw_cover(axes: Axes, finding: Radii, name: str) -> None:
    color, cover = strategy_color(name), finding.covers[name]
    for x, y in finding.pool[cover.picks]:
        axes.add_patch(Circle((x, y), cover.radius, facecolor=color, alpha=0.13, linewidth=0))
        axes.add_patch(Circle((x, y), cover.radius, fill=False, edgecolor=color, linewidth=1.0, alpha=0.7))
    draw_points(axes, finding.pool, "#9A9A9A", size=10)
    draw_crosses(axes, finding.pool[cover.picks], size=46)
