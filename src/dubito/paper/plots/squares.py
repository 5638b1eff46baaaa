"""Pictures of the quadrants: acquisitions step by step with the warped space (figure 3), and a beam's ranks (4)."""

import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from dubito.experiments.plots.style import INK, OKABE_ITO, strategy_color
from dubito.paper.beams import Beams
from dubito.paper.plots.panels import SHADES, bare, draw_crosses, draw_doubt, draw_picks, square_figure
from dubito.paper.quadrants import VIEWS, Quadrants, farthest_in

EDGE = 1.06
ROWS = {"coreset": "core-set", "doubt-coreset": "scaled core-set"}
FROM = {"origin": "seen from the origin", "corner": "seen from (-1, 1)"}


def quadrants_figure(finding: Quadrants) -> Figure:
    """A row for each strategy, a column for each step; the last column is the warped space from two places."""
    steps = len(finding.acquired["coreset"])
    plain, scaled = (float(finding.shares[name].mean()) for name in ROWS)
    figure, rows = square_figure(
        steps + 2,
        2,
        headline=f"scaled by doubt, {scaled:.0%} of the acquisitions lie within {finding.near:g} of a class boundary; "
        f"plain, {plain:.0%}",
        detail=f"{len(finding.acquired['coreset'][0])} a step; darker: more doubt, or farther in the "
        f"warped space; {finding.uniform:.0%} of the pool lie so near",
    )
    for row, (name, shown), view in zip(rows, ROWS.items(), FROM, strict=True):
        _draw_start(row[0], finding, shown, strategy_color(name))
        for step in range(steps):
            _draw_step(row[step + 1], finding, name, step)
        _draw_view(row[-1], finding, view)
    return figure


def _draw_start(axes: Axes, finding: Quadrants, name: str, color: str) -> None:
    draw_doubt(axes, finding.pool, finding.doubt)
    draw_crosses(axes, finding.pool[finding.initial])
    axes.set(xlim=(-EDGE, EDGE), ylim=(-EDGE, EDGE))
    bare(axes, name, "at first", color)


def _draw_step(axes: Axes, finding: Quadrants, name: str, step: int) -> None:
    draw_doubt(axes, finding.pool, finding.doubt)
    draw_crosses(axes, finding.pool[finding.initial])
    steps = finding.acquired[name]
    before = steps[:step].ravel()
    draw_picks(axes, finding.pool[before], strategy_color(name), size=17, alpha=0.42)
    draw_picks(axes, finding.pool[steps[step]], strategy_color(name), size=26)
    axes.set(xlim=(-EDGE, EDGE), ylim=(-EDGE, EDGE))
    bare(axes, f"step {step + 1}")


def _draw_view(axes: Axes, finding: Quadrants, name: str) -> None:
    view, place = finding.views[name], VIEWS[name]
    axes.imshow(view, cmap=SHADES, origin="lower", extent=(-1, 1, -1, 1), interpolation="bilinear")
    farthest = farthest_in(view)
    axes.plot(*farthest, marker="*", color=OKABE_ITO["yellow"], markeredgecolor=INK, markersize=12, clip_on=False)
    axes.plot(*place, marker="s", color=OKABE_ITO["vermilion"], markeredgecolor="white", markersize=8, clip_on=False)
    axes.set(xlim=(-EDGE, EDGE), ylim=(-EDGE, EDGE))
    bare(axes, FROM[name], "★ farthest")


def beams_figure(finding: Beams) -> Figure:
    """A panel for each configuration, the first rank at the left."""
    width = len(finding.ranked)
    gain = float((finding.uncertainty[:, 0] / finding.uncertainty[:, 1]).mean())
    figure, (panels,) = square_figure(
        width,
        headline=f"a beam of {width} finds a configuration with {gain:.2f} times the uncertainty of greedy's",
        detail="ranked by U, the mean of -log confidence; filled: not in every configuration",
    )
    shared = set(finding.ranked[0].indices.tolist()).intersection(
        *(set(each.indices.tolist()) for each in finding.ranked)
    )
    for rank, (axes, each) in enumerate(zip(panels, finding.ranked, strict=True), start=1):
        _draw_rank(axes, finding, each.indices.tolist(), shared)
        bare(axes, f"rank {rank}", f"U = {each.uncertainty:.4f}")
    return figure


def _draw_rank(axes: Axes, finding: Beams, picked: list[int], shared: set[int]) -> None:
    draw_doubt(axes, finding.pool, finding.doubt)
    draw_crosses(axes, finding.pool[finding.initial])
    color = strategy_color("doubt-coreset")
    common = finding.pool[np.array([row for row in picked if row in shared], dtype=np.int64)]
    own = finding.pool[np.array([row for row in picked if row not in shared], dtype=np.int64)]
    axes.scatter(
        common[:, 0], common[:, 1], marker="s", s=24, facecolor="white", edgecolors=color, linewidths=1.4, zorder=4
    )
    draw_picks(axes, own, color, size=34)
    axes.set(xlim=(-EDGE, EDGE), ylim=(-EDGE, EDGE))
