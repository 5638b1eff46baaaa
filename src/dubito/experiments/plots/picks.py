"""A plot of the first picks: one row of small images for each strategy."""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from dubito.experiments.plots.style import INK, QUIET, add_label, strategy_color
from dubito.matrix import AnyArray, BoolArray, IntArray

IMAGE_WIDTH, NAMES_WIDTH, TITLE_HEIGHT, ROW_HEIGHT = 0.46, 1.75, 0.62, 0.66
"""In inches; `IMAGE_WIDTH` includes the gap between images."""


@dataclass(frozen=True, slots=True, eq=False)
class PickedPictures:
    """The first picks of one strategy."""

    name: str
    rows: IntArray
    """(b,) rows of the images, in the order of the picks."""
    misread: BoolArray
    """(b,) whether the model misclassified the image before these labels."""


def picks_figure(
    images: AnyArray, classes: AnyArray, picked: Sequence[PickedPictures], headline: str, detail: str = ""
) -> Figure:
    """The first picks of each strategy; a bar below an image marks that the model misclassified it.

    Parameters
    ----------
    images : array (n, height, width)
        Gray images; larger values are darker.
    classes : array (n,)
        True classes, to count how many each strategy picked.
    picked : sequence of PickedPictures
        One row of images for each strategy.

    Examples
    --------
    >>> picked = PickedPictures("random", np.array([1, 0]), np.array([True, False]))
    >>> figure = picks_figure(np.zeros((2, 3, 3)), np.array([0, 1]), [picked], "what random asks for")
    >>> [text.get_text() for text in figure.axes[0].texts]
    ['random', '2 classes, 1 misread']
    """
    n_columns = max(len(each.rows) for each in picked)
    # At least as wide as the title.
    width, height = max(NAMES_WIDTH + IMAGE_WIDTH * n_columns + 0.1, 8.0), TITLE_HEIGHT + ROW_HEIGHT * len(picked)
    figure = Figure(figsize=(width, height), facecolor="white")
    for position, each in enumerate(picked):
        bottom = (height - TITLE_HEIGHT - ROW_HEIGHT * (position + 1)) / height
        axes = figure.add_axes((NAMES_WIDTH / width, bottom, IMAGE_WIDTH * n_columns / width, ROW_HEIGHT / height))
        draw_row(axes, images, classes, each, n_columns)
    top = 1 - 0.12 / height
    figure.text(0.12 / width, top, headline, color=INK, fontsize=11.5, fontweight="bold", va="top")
    figure.text(0.12 / width, top - 0.23 / height, detail, color=QUIET, fontsize=9, va="top")
    return figure


def draw_row(axes: Axes, images: AnyArray, classes: AnyArray, picked: PickedPictures, n_columns: int) -> None:
    """Draw the images of one strategy, with its name and two counts to the left."""
    height, width = map(float, images.shape[1:])
    step = width * 1.2
    for position, (row, wrong) in enumerate(zip(picked.rows, picked.misread, strict=True)):
        left = position * step
        axes.imshow(images[row], cmap="gray_r", extent=(left, left + width, 0, height), interpolation="nearest")
        if wrong:
            bar = -0.16 * height
            axes.plot([left, left + width], [bar, bar], color=INK, linewidth=1.8, solid_capstyle="butt")
    axes.set(xlim=(0, n_columns * step), ylim=(-0.35 * height, height * 1.05))
    axes.set_axis_off()
    n_classes = len(np.unique(classes[picked.rows]))
    counts = f"{n_classes} classes, {int(picked.misread.sum())} misread"
    for text, middle, size, color, weight in (
        (picked.name, 0.68, 10.0, strategy_color(picked.name), "bold"),
        (counts, 0.38, 8.5, QUIET, "normal"),
    ):
        style = {"xycoords": "axes fraction", "color": color, "fontsize": size, "fontweight": weight}
        add_label(axes, text, (0.0, middle), (-8, 0), ha="right", va="center", **style)
