"""Pictures of what was picked: one row of small images for each strategy, in the order picked."""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from dubito.experiments.plots.style import INK, QUIET, strategy_color
from dubito.matrix import AnyArray, BoolArray, IntArray

TILE, LEFT, HEADER = 0.46, 1.75, 0.62
"""Inches: an image with its share of the gaps, the room for names, and that for the title."""
ROW = 0.66


@dataclass(frozen=True, slots=True, eq=False)
class AskedPictures:
    """What one strategy asked for."""

    name: str
    rows: IntArray
    """(b,) rows of the images, in the order picked."""
    misread: BoolArray
    """(b,) True where the model, before these labels, had the class wrong."""


def picks_figure(
    images: AnyArray, classes: AnyArray, asked: Sequence[AskedPictures], headline: str, detail: str = ""
) -> Figure:
    """What each strategy asked for first; a bar below an image marks what the model had wrong.

    Parameters
    ----------
    images : array (n, height, width)
        Gray images, dark where large.
    classes : array (n,)
        True classes, to count how many kinds were asked for.
    asked : sequence of AskedPictures
        One row of the picture each.

    Examples
    --------
    >>> asked = AskedPictures("random", np.array([1, 0]), np.array([True, False]))
    >>> figure = picks_figure(np.zeros((2, 3, 3)), np.array([0, 1]), [asked], "what random asks for")
    >>> [text.get_text() for text in figure.axes[0].texts]
    ['random', '2 classes, 1 misread']
    """
    n_columns = max(len(each.rows) for each in asked)
    # Room for the title even where few images make the picture narrow.
    width, height = max(LEFT + TILE * n_columns + 0.1, 8.0), HEADER + ROW * len(asked)
    figure = Figure(figsize=(width, height), facecolor="white")
    for place, each in enumerate(asked):
        bottom = (height - HEADER - ROW * (place + 1)) / height
        axes = figure.add_axes((LEFT / width, bottom, TILE * n_columns / width, ROW / height))
        draw_row(axes, images, classes, each, n_columns)
    top = 1 - 0.12 / height
    figure.text(0.12 / width, top, headline, color=INK, fontsize=11.5, fontweight="bold", va="top")
    figure.text(0.12 / width, top - 0.23 / height, detail, color=QUIET, fontsize=9, va="top")
    return figure


def draw_row(axes: Axes, images: AnyArray, classes: AnyArray, asked: AskedPictures, n_columns: int) -> None:
    """One strategy's images side by side, its name and two counts to the left."""
    height, width = map(float, images.shape[1:])
    step = width * 1.2
    for place, (row, wrong) in enumerate(zip(asked.rows, asked.misread, strict=True)):
        left = place * step
        axes.imshow(images[row], cmap="gray_r", extent=(left, left + width, 0, height), interpolation="nearest")
        if wrong:
            bar = -0.16 * height
            axes.plot([left, left + width], [bar, bar], color=INK, linewidth=1.8, solid_capstyle="butt")
    axes.set(xlim=(0, n_columns * step), ylim=(-0.35 * height, height * 1.05))
    axes.set_axis_off()
    kinds = len(np.unique(classes[asked.rows]))
    counts = f"{kinds} classes, {int(asked.misread.sum())} misread"
    for text, middle, size, color, weight in (
        (asked.name, 0.68, 10.0, strategy_color(asked.name), "bold"),
        (counts, 0.38, 8.5, QUIET, "normal"),
    ):
        axes.annotate(
            text,
            (0.0, middle),
            xytext=(-8, 0),
            xycoords="axes fraction",
            textcoords="offset points",
            ha="right",
            va="center",
            color=color,
            fontsize=size,
            fontweight=weight,
        )
