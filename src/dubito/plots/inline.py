"""A figure as SVG text to stand inside a page, in the page's own ink: light and dark alike."""

import re
from html import escape
from io import StringIO

from matplotlib import rc_context
from matplotlib.figure import Figure

from dubito.plots.style import FAINT, INK, QUIET

PAGE_COLOURS = {INK: "var(--ink)", QUIET: "var(--quiet)", FAINT: "var(--faint)", "#FFFFFF": "var(--paper)"}
"""Colours that the page decides; those of the strategies stay."""


def inline_svg(figure: Figure, name: str, alt: str) -> str:
    """The figure as one ``<svg>`` element, scaled to its container, that a screen reader calls by ``alt``.

    Ids begin with ``name``, so that several figures can share a page. The same figure gives the same text.

    Examples
    --------
    >>> from dubito.plots.style import new_figure
    >>> text = inline_svg(new_figure()[0], "radii", "Radii against picks")
    >>> text[:44]
    '<svg role="img" aria-label="Radii against pi'
    """
    picture = StringIO()
    with rc_context({"svg.hashsalt": "dubito"}):
        nothing = dict.fromkeys(("Date", "Creator", "Format", "Type"))
        figure.savefig(picture, format="svg", transparent=True, metadata=nothing)
    text = picture.getvalue()
    text = text[text.index("<svg") :].strip()
    text = re.sub(r"<metadata>.*?</metadata>\s*", "", text, flags=re.DOTALL)
    text = re.sub(r'<svg [^>]*?viewBox="([^"]*)"[^>]*>', rf'<svg {_opening(alt)} viewBox="\1">', text, count=1)
    text = re.sub(r'\bid="', f'id="{name}-', text)
    text = re.sub(r"url\(#", f"url(#{name}-", text)
    text = re.sub(r'xlink:href="#', f'href="#{name}-', text)
    for colour, variable in PAGE_COLOURS.items():
        text = re.sub(rf"(?<=: ){colour}(?=[;\"])", variable, text, flags=re.IGNORECASE)
    return text


def _opening(alt: str) -> str:
    return f'role="img" aria-label="{escape(alt, quote=True)}" xmlns="http://www.w3.org/2000/svg"'
