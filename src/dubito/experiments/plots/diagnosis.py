"""The plot of a diagnosis: distance to the nearest label, and doubt."""

from math import ceil, floor, inf, log10

import numpy as np
from matplotlib.axes import Axes
from matplotlib.colors import LinearSegmentedColormap
from matplotlib.figure import Figure
from matplotlib.ticker import FixedLocator, FuncFormatter, LogLocator, NullFormatter, NullLocator

from dubito.diagnosis import Diagnosis
from dubito.experiments.plots.learning import spread_apart
from dubito.experiments.plots.style import INK, OKABE_ITO, QUIET, add_label, new_figure, title
from dubito.matrix import FloatArray
from dubito.theory import doubt_bound

MAX_DECADES = 6
"""Doubt below 1e-6 is drawn at 1e-6; confident models have doubts down to 1e-25."""
MIN_FOR_HEXAGONS = 2_000
"""Fewer points than this are drawn individually."""
NAME_WIDTH, NAME_GAP, MIN_DISTANCE = 0.2, 0.036, 0.2
"""Fractions of the axes: width of a name, gap between names, and distance of line ends whose names do not overlap."""
HEAD, DATA, QUADRATIC = OKABE_ITO["vermilion"], OKABE_ITO["blue"], OKABE_ITO["green"]


def diagnosis_figure(diagnosis: Diagnosis) -> Figure:
    """Doubt against distance to the nearest label, both logarithmic, with the bounds on λ_c.

    The quadratic region, where r·λ_c < 1 by both bounds, is shaded; where only one bound allows it, the shade is
    fainter. Doubt cannot exceed r·λ_c, so the line of the head lies above the points, and that of the data touches the
    highest one.

    Examples
    --------
    >>> from dubito.diagnosis import diagnose
    >>> diagnosis = diagnose([[0.0], [1.0], [2.0]], labeled=[0], doubt=[0.0, 0.1, 0.3])
    >>> diagnosis_figure(diagnosis).axes[0].get_xlabel()
    'distance to the nearest labeled point, r'
    """
    figure, axes = new_figure(8.0, 5.2)
    least_doubt = _least_doubt(diagnosis)
    # A fifth of the height, above doubt 1, is left for names.
    axes.set(xscale="log", yscale="log", xlim=_distance_limits(diagnosis), ylim=(least_doubt**1.05, least_doubt**-0.26))
    _draw_points(axes, diagnosis, least_doubt)
    _shade_regions(axes, diagnosis)
    _draw_bounds(axes, diagnosis)
    _mark_radii(axes, diagnosis, least_doubt)
    _name_axes(axes, diagnosis, least_doubt)
    return figure


def _least_doubt(diagnosis: Diagnosis) -> float:
    """A power of ten below nearly all doubts, but at least 1e-6."""
    low = float(np.quantile(diagnosis.doubt, 0.01))
    decades = ceil(-log10(low)) if low > 0.0 else MAX_DECADES
    return float(10.0 ** -min(max(decades, 1), MAX_DECADES))


def _distance_limits(diagnosis: Diagnosis) -> tuple[float, float]:
    """Limits that include all points, and the end of the quadratic region unless it is far away."""
    positive = diagnosis.radii[diagnosis.radii > 0.0]
    nearest, farthest = (float(positive.min()), float(positive.max())) if len(positive) else (0.5, 1.0)
    ends = [_region_end(diagnosis.lambda_c_data), _region_end(diagnosis.lambda_c_head)]
    near_ends = [end for end in ends if nearest / 30.0 <= end <= farthest * 3.0]
    return min([nearest, *near_ends]) / 1.8, max([farthest, *near_ends]) * 1.35


def _region_end(slope: float | None) -> float:
    """1/λ_c, the distance at which doubt may reach 1; 0 without a bound, infinite if λ_c is 0."""
    if slope is None:
        return 0.0
    return 1.0 / slope if slope > 0.0 else inf


def _draw_points(axes: Axes, diagnosis: Diagnosis, least_doubt: float) -> None:
    radii, doubt = np.maximum(diagnosis.radii, axes.get_xlim()[0]), np.maximum(diagnosis.doubt, least_doubt)
    if diagnosis.n < MIN_FOR_HEXAGONS:
        axes.scatter(radii, doubt, s=13, color=INK, alpha=0.4, linewidths=0, zorder=2)
        return
    shades = LinearSegmentedColormap.from_list("ink", ["#BFBFBF", "#808080", INK])
    axes.hexbin(
        radii,
        doubt,
        gridsize=(60, 30),
        bins="log",
        xscale="log",
        yscale="log",
        mincnt=1,
        cmap=shades,
        linewidths=0.1,
        zorder=2,
    )


def _shade_regions(axes: Axes, diagnosis: Diagnosis) -> None:
    """Shade the regions where r·λ_c < 1 by both bounds and by one, and name those that are wide enough."""
    left, right = axes.get_xlim()
    ends = sorted([_region_end(diagnosis.lambda_c_data), _region_end(diagnosis.lambda_c_head)])
    shares = sorted([diagnosis.share_quadratic_data, diagnosis.share_quadratic_head or 0.0])
    edges, region_shares = np.clip([left, *ends, right], left, right), np.diff([0.0, *shares, 1.0])
    for i, (name, alpha) in enumerate([("quadratic", 0.30), ("undecided", 0.10), ("linear", 0.0)]):
        start, stop = float(edges[i]), float(edges[i + 1])
        axes.axvspan(start, stop, color=QUADRATIC, alpha=alpha, linewidth=0, zorder=0)
        if np.log(stop / start) > 0.11 * np.log(right / left):
            middle, label = float(np.sqrt(start * stop)), f"{name}\n{region_shares[i]:.0%} of the pool"
            transform = axes.get_xaxis_transform()
            axes.text(middle, 0.985, label, color=INK, fontsize=9, ha="center", va="top", transform=transform)


def _draw_bounds(axes: Axes, diagnosis: Diagnosis) -> None:
    """Draw the lines r·λ_c up to 1, with names at their upper ends, where there are no points."""
    bounds = [(diagnosis.lambda_c_data, DATA, rf"data: $\lambda_c \geq$ {diagnosis.lambda_c_data:.3g}")]
    if diagnosis.lambda_c_head is not None:
        # The steeper line comes first: it ends farther left, and at the same height its name is placed lower.
        bounds.insert(0, (diagnosis.lambda_c_head, HEAD, rf"head: $\lambda_c \leq$ {diagnosis.lambda_c_head:.3g}"))
    ends = np.array([_draw_line(axes, slope, color) for slope, color, _ in bounds])
    for (_, color, name), (across, _), up in zip(bounds, ends, _name_heights(ends), strict=True):
        is_left_of_end = _is_left_of_end(across)
        offset, side = ((-3, 3), "right") if is_left_of_end else ((4, 3), "left")
        style = {"xycoords": "axes fraction", "color": color, "fontsize": 9.5, "zorder": 5}
        add_label(axes, name, (across, up), offset, ha=side, va="bottom", **style)


def _draw_line(axes: Axes, slope: float, color: str) -> tuple[float, float]:
    """Draw one bound, and return its upper end in fractions of the axes."""
    left, right = axes.get_xlim()
    end = min(max(_region_end(slope), left), right)
    axes.plot([left, end], doubt_bound([left, end], slope), color=color, linewidth=1.8, zorder=4)
    height = max(float(doubt_bound(end, slope)), axes.get_ylim()[0])
    across, up = (axes.transScale + axes.transLimits).transform((end, height))
    return float(across), float(up)


def _is_left_of_end(across: float) -> bool:
    """Whether a name fits to the left of the end of its line."""
    return across > NAME_WIDTH


def _name_heights(ends: FloatArray) -> FloatArray:
    """The heights of names: at the ends of their lines, or above both if they would overlap."""
    heights = ends[:, 1]
    starts = np.array([across - NAME_WIDTH * _is_left_of_end(across) for across in ends[:, 0]])
    if np.ptp(starts) >= NAME_WIDTH or np.ptp(heights) >= MIN_DISTANCE:
        return heights
    rows = spread_apart(heights, NAME_GAP)
    return np.asarray(rows + (heights.max() - rows.min()))


def _mark_radii(axes: Axes, diagnosis: Diagnosis, least_doubt: float) -> None:
    """Mark δ, and δ* if it is known and within the limits."""
    left, right = axes.get_xlim()
    star = diagnosis.delta_star or 0.0
    for distance, other, name in [(diagnosis.delta, star, "δ"), (star, diagnosis.delta, "δ*")]:
        if not left < distance < right:
            continue
        axes.plot([distance, distance], [least_doubt, 1.0], color=QUIET, linewidth=0.9, linestyle=(0, (4, 3)), zorder=1)
        # On the side that is farther from the other mark.
        offset, side = ((4, 10), "left") if distance > other else ((-4, 10), "right")
        label, style = f"{name} = {distance:.3g}", {"color": QUIET, "fontsize": 9, "rotation": 90}
        add_label(axes, label, (distance, least_doubt), offset, ha=side, va="bottom", **style)


def _name_axes(axes: Axes, diagnosis: Diagnosis, least_doubt: float) -> None:
    axes.set_xlabel("distance to the nearest labeled point, r", color=INK, fontsize=10)
    axes.set_ylabel("doubt, 1 − max P", color=INK, fontsize=10)
    axes.xaxis.set_major_locator(LogLocator(subs=(1.0, 2.0, 5.0)))
    axes.xaxis.set_major_formatter(FuncFormatter(lambda value, _: f"{value:g}"))
    axes.xaxis.set_minor_formatter(NullFormatter())
    powers = range(floor(log10(least_doubt) + 0.5), 1)
    axes.yaxis.set_major_locator(FixedLocator([10.0**power for power in powers]))
    hides_some = bool((diagnosis.doubt < least_doubt).any())
    axes.yaxis.set_major_formatter(FuncFormatter(lambda value, _: _doubt_label(value, least_doubt, hides_some)))
    axes.yaxis.set_minor_locator(NullLocator())
    axes.spines["left"].set_bounds(least_doubt, 1.0)
    ratio = diagnosis.delta_over_delta_star
    headline = "δ/δ* unknown without outcomes" if ratio is None else f"δ/δ* = {ratio:.3g}"
    shade = ", darker: more points" if diagnosis.n >= MIN_FOR_HEXAGONS else ""
    title(
        axes, f"{headline}, {diagnosis.regime} regime", f"{diagnosis.n:,} pool points, {diagnosis.m:,} labeled{shade}"
    )


def _doubt_label(value: float, least: float, hides_some: bool) -> str:
    below = "<" if hides_some and value < 2.0 * least else ""
    return rf"${below}10^{{{round(log10(value))}}}$" if value < 5e-4 else rf"${below}{value:g}$"
