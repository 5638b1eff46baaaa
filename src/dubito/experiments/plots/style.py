"""The common style of all plots: colors that color-blind readers can distinguish, plain axes, SVG and PNG."""

import re
from collections.abc import Sequence
from html import escape
from io import BytesIO, StringIO
from pathlib import Path
from typing import Any
from zlib import crc32

from matplotlib import rc_context
from matplotlib.axes import Axes
from matplotlib.colors import to_rgb
from matplotlib.figure import Figure

from dubito.errors import FORCE, InvalidArgument, MissingFile, OutputExists
from dubito.io import write_atomically

OKABE_ITO = {
    "black": "#000000",
    "orange": "#E69F00",
    "sky": "#56B4E9",
    "green": "#009E73",
    "yellow": "#F0E442",
    "blue": "#0072B2",
    "vermilion": "#D55E00",
    "purple": "#CC79A7",
}
"""The palette of Okabe & Ito."""

INK = "#222222"
QUIET = "#767676"
FAINT = "#E3E3E3"

STRATEGY_COLORS = {
    "random": QUIET,
    "auto": "#3300FF",
    "coreset": OKABE_ITO["blue"],
    "doubt-coreset": OKABE_ITO["vermilion"],
    "coverage": "#0B6E6E",
    "doubt-coverage": "#B8860B",
    "largest-cluster": "#E91E63",
    "filter-then-cover": "#8F2D56",
    "power": "#A3D977",
    "typiclust": "#5C6B00",
    "least-confidence": OKABE_ITO["green"],
    "margin": OKABE_ITO["sky"],
    "entropy": OKABE_ITO["purple"],
    "closest-kmeans": OKABE_ITO["orange"],
    "optimal-coreset": OKABE_ITO["black"],
    "badge": "#7A4A1E",
    "bald": "#F4A6B7",
    "batchbald": "#332288",
    "probabilistic-coreset": "#5A1A1A",
}
"""Random, the baseline, is gray. The palette has too few colors for all strategies, so some colors are not in it."""


def strategy_color(name: str) -> str:
    """The color of a strategy, the same in all plots and for all options.

    A name without a color gets one that depends only on the name.

    Examples
    --------
    >>> strategy_color("doubt-coreset:strength=0.5") == strategy_color("doubt-coreset")
    True
    """
    strategy = name.partition(":")[0]
    if strategy in STRATEGY_COLORS:
        return STRATEGY_COLORS[strategy]
    color = list(OKABE_ITO.values())[1:][crc32(strategy.encode()) % 7]
    red, green, blue = (round(255 * 0.62 * part) for part in to_rgb(color))
    return f"#{red:02X}{green:02X}{blue:02X}"


def new_figure(width: float = 7.0, height: float = 4.6) -> tuple[Figure, Axes]:
    """A figure with one pair of plain axes; the size is in inches."""
    figure = Figure(figsize=(width, height), layout="constrained", facecolor="white")
    axes = figure.add_subplot()
    make_axes_plain(axes)
    return figure, axes


def make_axes_plain(axes: Axes) -> None:
    """Show two gray spines instead of a box, and small gray ticks."""
    axes.spines[["top", "right"]].set_visible(False)
    axes.spines[["left", "bottom"]].set_color(QUIET)
    axes.tick_params(which="both", colors=QUIET, labelsize=9, width=0.6)


def title(axes: Axes, headline: str, detail: str = "") -> None:
    """Add a bold headline at the left edge, and a gray line below it."""
    axes.set_title(headline, loc="left", color=INK, fontsize=11.5, fontweight="bold", pad=26 if detail else 8)
    if detail:
        axes.text(0.0, 1.035, detail, transform=axes.transAxes, color=QUIET, fontsize=9, va="bottom")


def add_headline(figure: Figure, text: str) -> None:
    """Add a bold headline at the left edge of a figure with several panels."""
    figure.suptitle(text, x=0.01, ha="left", color=INK, fontsize=11.5, fontweight="bold")


def add_label(
    axes: Axes,
    text: str,
    point: tuple[float, float],
    offset: tuple[float, float],
    *,
    ha: str = "left",
    va: str = "baseline",
    **options: Any,
) -> None:
    """Add text at an offset in typographic points from a point of the data; ``options`` as in `Axes.annotate`."""
    axes.annotate(text, point, xytext=offset, textcoords="offset points", ha=ha, va=va, **options)


def save_figure(
    figure: Figure, path: str | Path, *, formats: Sequence[str] = ("svg", "png"), force: bool = False
) -> list[Path]:
    """Write a figure to ``path`` with the suffix of each format, atomically, and return the paths.

    Existing files are replaced only with ``force=True``.

    Examples
    --------
    >>> import tempfile
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     [each.name for each in save_figure(new_figure()[0], folder + "/radii")]
    ['radii.svg', 'radii.png']
    """
    path = Path(path)
    unknown = [each for each in formats if each not in ("svg", "png")]
    if unknown:
        raise InvalidArgument(f"holds {unknown[0]!r}", argument="formats", hint="choose from svg, png.")
    if not path.parent.is_dir():
        hint = f"make {str(path.parent)!r} first."
        raise MissingFile("is in a folder that does not exist", argument="path", value=str(path), hint=hint)
    stem = path.with_suffix("") if path.suffix in (".svg", ".png") else path
    targets = [stem.with_name(f"{stem.name}.{each}") for each in formats]
    existing = [target for target in targets if target.exists()]
    if existing and not force:
        raise OutputExists(f"{existing[0]} exists", hint=f"pass {FORCE} to replace it, or another path.")
    for target in targets:
        picture, suffix = BytesIO(), target.suffix[1:]
        figure.savefig(picture, format=suffix, dpi=160, metadata={"Date": None} if suffix == "svg" else None)
        write_atomically(str(target), picture.getvalue())
    return targets


# A figure as SVG text inside an HTML page, which sets its colors for light and dark mode.

PAGE_COLORS = {INK: "var(--ink)", QUIET: "var(--quiet)", FAINT: "var(--faint)", "#FFFFFF": "var(--paper)"}
"""Colors that the page sets; those of the strategies are kept."""


def inline_svg(figure: Figure, name: str, alt: str) -> str:
    """The figure as an ``<svg>`` element, scaled to its container, with ``alt`` as the text for screen readers.

    Ids begin with ``name``, so that a page can contain several figures. The same figure gives the same text.

    Examples
    --------
    >>> text = inline_svg(new_figure()[0], "radii", "Radii against picks")
    >>> text[:44]
    '<svg role="img" aria-label="Radii against pi'
    """
    picture = StringIO()
    with rc_context({"svg.hashsalt": "dubito"}):
        no_metadata = dict.fromkeys(("Date", "Creator", "Format", "Type"))
        figure.savefig(picture, format="svg", transparent=True, metadata=no_metadata)
    text = picture.getvalue()
    text = text[text.index("<svg") :].strip()
    text = re.sub(r"<metadata>.*?</metadata>\s*", "", text, flags=re.DOTALL)
    attributes = f'role="img" aria-label="{escape(alt, quote=True)}" xmlns="http://www.w3.org/2000/svg"'
    opening = re.compile(r'<svg [^>]*?viewBox="([^"]*)"[^>]*>')
    text = opening.sub(lambda found: f'<svg {attributes} viewBox="{found[1]}">', text, count=1)
    text = re.sub(r'\bid="', f'id="{name}-', text)
    text = re.sub(r"url\(#", f"url(#{name}-", text)
    text = re.sub(r'xlink:href="#', f'href="#{name}-', text)
    for color, variable in PAGE_COLORS.items():
        text = re.sub(rf"(?<=: ){color}(?=[;\"])", variable, text, flags=re.IGNORECASE)
    return text
