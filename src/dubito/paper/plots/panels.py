"""What the paper's pictures are built from: square panels, pools as quiet points, picks as squares."""

import numpy as np
from matplotlib.axes import Axes
from matplotlib.colors import LinearSegmentedColormap
from matplotlib.figure import Figure, SubFigure

from dubito.experiments.plots.style import FAINT, INK, OKABE_ITO, QUIET
from dubito.matrix import FloatArray, IntArray

CLASSES = tuple(OKABE_ITO[name] for name in ("sky", "orange", "green", "purple", "yellow"))
SHADES = "YlGnBu"
"""How far places look."""
GRAYS = LinearSegmentedColormap.from_list("doubt", ["#EFEFEF", "#8C8C8C"])
"""Doubt, from none to much: quiet, so that picks stand out in color."""


def square_figure(columns: int, rows: int = 1, *, headline: str, detail: str = "") -> tuple[Figure, list[list[Axes]]]:
    """A figure of square panels under a headline."""
    width, height = 2.55 * columns, 2.75 * rows + 0.75
    figure = Figure(figsize=(width, height), facecolor="white")
    top = 1.0 - 0.98 / height
    grid = figure.subplots(rows, columns, squeeze=False)
    figure.subplots_adjust(left=0.012, right=0.988, bottom=0.02, top=top, wspace=0.05, hspace=0.12)
    headline_of(figure, headline, detail)
    return figure, [list(row) for row in grid]


def headline_of(figure: Figure | SubFigure, headline: str, detail: str = "") -> None:
    """A bold line at the upper left of the whole figure, and a quieter one below."""
    height = figure.get_figure(root=True).get_figheight() if isinstance(figure, SubFigure) else figure.get_figheight()
    figure.text(0.012, 1.0 - 0.14 / height, headline, color=INK, fontsize=12, fontweight="bold", va="top")
    if detail:
        figure.text(0.012, 1.0 - 0.39 / height, detail, color=QUIET, fontsize=9, va="top")


def bare(axes: Axes, name: str = "", note: str = "", color: str = INK) -> None:
    """No ticks, a faint frame, a name above at the left and a note above at the right."""
    axes.set(xticks=[], yticks=[], aspect="equal")
    axes.spines[:].set_color(FAINT)
    axes.set_title(name, loc="left", color=color, fontsize=10, fontweight="bold", pad=4)
    if note:
        axes.set_title(note, loc="right", color=QUIET, fontsize=9, pad=4)


def draw_points(axes: Axes, points: FloatArray, color: str, *, size: float = 5.0) -> None:
    """A pool, or part of it, in one color."""
    axes.scatter(points[:, 0], points[:, 1], s=size, color=color, linewidths=0, rasterized=True)


def draw_classes(axes: Axes, points: FloatArray, labels: IntArray, *, size: float = 5.0, alpha: float = 0.55) -> None:
    """A pool, each class in its color."""
    colors = np.array(CLASSES)[labels % len(CLASSES)]
    axes.scatter(points[:, 0], points[:, 1], s=size, c=colors.tolist(), alpha=alpha, linewidths=0, rasterized=True)


def draw_doubt(axes: Axes, points: FloatArray, doubt: FloatArray, *, size: float = 6.0) -> None:
    """A pool of the quadrants, shaded by doubt."""
    axes.scatter(
        points[:, 0], points[:, 1], c=doubt, cmap=GRAYS, s=size, vmin=0.0, vmax=0.6, linewidths=0, rasterized=True
    )


def draw_picks(axes: Axes, points: FloatArray, color: str, *, size: float = 20.0, alpha: float = 1.0) -> None:
    """Squares with a white rim."""
    axes.scatter(
        points[:, 0],
        points[:, 1],
        marker="s",
        s=size,
        color=color,
        alpha=alpha,
        edgecolors="white",
        linewidths=0.6,
        zorder=4,
    )


def draw_crosses(axes: Axes, points: FloatArray, *, size: float = 24.0) -> None:
    """What is labeled."""
    axes.scatter(points[:, 0], points[:, 1], marker="x", s=size, color=INK, linewidths=0.29 * size**0.5, zorder=3)
