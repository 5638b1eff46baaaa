"""Names beside what they name, moved apart where they would overlap; and looks that tell strategies apart."""

import re
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from dubito.matrix import FloatArray
from dubito.plots.style import QUIET, strategy_colour

LineStyle = str | tuple[float, tuple[float, ...]]
STYLES: tuple[tuple[LineStyle, str], ...] = (
    ("-", "o"),
    ((0, (5, 1.5)), "s"),
    ((0, (1.2, 1.2)), "^"),
    ((0, (6, 1.5, 1.2, 1.5)), "D"),
    ((0, (9, 2.5)), "v"),
    ((0, (4, 1, 1, 1, 1, 1)), "P"),
)
"""For those that share a colour, in turn: how the line is broken, and the marker."""
BASELINE: tuple[LineStyle, str] = ((0, (4, 2)), "o")


@dataclass(frozen=True, slots=True)
class Look:
    """How one strategy is drawn."""

    colour: str
    line: LineStyle
    marker: str


def looks(names: Sequence[str]) -> dict[str, Look]:
    """A look for each name: the strategy's colour, and a line of its own among those of one colour.

    Examples
    --------
    >>> drawn = looks(["coreset", "doubt-coreset", "doubt-coreset:strength=0.5"])
    >>> drawn["doubt-coreset"].colour == drawn["doubt-coreset:strength=0.5"].colour
    True
    >>> drawn["doubt-coreset"].line, drawn["doubt-coreset:strength=0.5"].marker
    ('-', 's')
    """
    result: dict[str, Look] = {}
    for name in names:
        colour = strategy_colour(name)
        used = sum(look.colour == colour for look in result.values())
        line, marker = BASELINE if colour == QUIET else STYLES[used % len(STYLES)]
        result[name] = Look(colour, line, marker)
    return result


def broken(name: str, width: int = 22) -> str:
    r"""A long name on several lines, broken after its strategy and between its options; what is longer still is cut.

    Examples
    --------
    >>> broken("margin"), broken("doubt-coreset:strength=0.25,beam_width=4")
    ('margin', 'doubt-coreset:\nstrength=0.25,\nbeam_width=4')
    """
    if len(name) <= width:
        return name
    lines = [""]
    for piece in re.findall(r"[^:,]+[:,]?|[:,]", name):
        fits = len(lines[-1]) + len(piece) <= width and not lines[-1].endswith(":")
        lines[-1:] = [lines[-1] + piece] if fits or not lines[-1] else [lines[-1], piece]
    return "\n".join(line if len(line) <= width + 8 else f"{line[: width + 7]}…" for line in lines)


def longest_line(names: Sequence[str]) -> int:
    """Letters of the longest line among names."""
    return max((len(line) for name in names for line in name.splitlines()), default=0)


def spread_apart(places: FloatArray, gap: float) -> FloatArray:
    """Places at least ``gap`` apart, in the same order, around the same middle.

    Examples
    --------
    >>> spread_apart(np.array([0.5, 0.5, 0.0]), 0.1).round(2).tolist()
    [0.45, 0.55, 0.0]
    """
    order = np.argsort(places, kind="stable")
    groups: list[list[float]] = []
    for place in places[order]:
        groups.append([float(place)])
        while len(groups) > 1 and _top(groups[-2], gap) + gap > _bottom(groups[-1], gap):
            groups[-2:] = [groups[-2] + groups[-1]]
    moved = [_bottom(group, gap) + gap * i for group in groups for i in range(len(group))]
    result = np.empty(len(places))
    result[order] = moved
    return result


def held_below(places: FloatArray, limit: float, gap: float) -> FloatArray:
    """Places moved down as far as it takes to stay under ``limit`` and ``gap`` apart, in the same order.

    Examples
    --------
    >>> held_below(np.array([0.9, 1.05, 0.2]), 1.0, 0.15).round(2).tolist()
    [0.85, 1.0, 0.2]
    """
    rank = np.argsort(np.argsort(-places, kind="stable"))
    return np.asarray(np.minimum(places, limit - gap * rank))


def _bottom(group: list[float], gap: float) -> float:
    """Lowest place of a group laid out around its middle."""
    return sum(group) / len(group) - gap * (len(group) - 1) / 2


def _top(group: list[float], gap: float) -> float:
    return _bottom(group, gap) + gap * (len(group) - 1)
