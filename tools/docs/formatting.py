"""Markdown tables and pictures that several pages share."""

from collections.abc import Iterator, Sequence
from pathlib import Path

import numpy as np
from matplotlib.figure import Figure
from PIL import Image

from dubito.experiments.plots.style import save_figure
from dubito.experiments.statistics import Interval, Rounded, format_p


def table_head(names: Sequence[str]) -> Iterator[str]:
    yield f"| {' | '.join(names)} |"
    yield f"|{' --- |' * len(names)}"


def format_points(interval: Interval) -> str:
    """A difference in points, with its interval if it has one."""
    estimate, low, high = (Rounded(100 * each) for each in (interval.estimate, interval.low, interval.high))
    return f"{estimate:+.2f}" + ("" if np.isnan(low) else f" [{low:+.2f}, {high:+.2f}]")


def bold_p(p: float) -> str:
    """A p value, in bold if it is below 0.05."""
    return f"**{format_p(p)}**" if p < 0.05 else format_p(p)


def reduce_colors(source: Path, target: Path, colors: int = 200, max_side: int | None = None) -> None:
    """Save a picture with a palette, which takes a quarter of the bytes and looks the same."""
    with Image.open(source) as picture:
        rgb = picture.convert("RGB")
    if max_side is not None:
        rgb.thumbnail((max_side, max_side), Image.Resampling.LANCZOS)
    rgb.quantize(colors, dither=Image.Dither.NONE).save(target, optimize=True)


def save_png(figure: Figure, target: Path) -> None:
    """Save a figure as a PNG with a palette."""
    target.parent.mkdir(parents=True, exist_ok=True)
    save_figure(figure, target, formats=("png",), force=True)
    reduce_colors(target, target)
