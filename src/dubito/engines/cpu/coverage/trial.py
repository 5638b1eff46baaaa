"""How wide probes should be: tried on a few pairs."""

import numpy as np

from dubito.engines.cpu.coverage.probes import WIDTHS, Probes, right
from dubito.engines.cpu.coverage.space import Space, evenly
from dubito.engines.cpu.products import product
from dubito.engines.lazy.rounding import squared_lengths
from dubito.matrix import FloatArray, IntArray

TRIAL_ROWS = 512
CLOSER_LOOK = 30.0
"""A feature of a pair that is looked at closely costs as much as so many of a product."""


def choose_probes(space: Space, widest: Probes, rows: IntArray, limits: FloatArray) -> tuple[Probes, float]:
    """The probes that should cost least, and the share of all pairs that they let through.

    ``limits`` (r,) are those of some ``rows`` of the pool, squared, among shifted points.
    """
    few, candidates = evenly(len(rows), TRIAL_ROWS), space.problem.candidates
    others = candidates[evenly(len(candidates), TRIAL_ROWS)]
    near, far = space.shifted(rows[few]), space.shifted(others)
    # A row and itself are a pair that there is one of, not one in a few hundred.
    floor = np.where(rows[few][:, None] == others, np.inf, -0.5 * limits[few][:, None])
    widths = [] if widest.directions is None else [width for width in WIDTHS if width <= widest.width]
    tried = list[tuple[float, Probes, float]]()
    for width in (*widths, near.shape[1]):
        probes = widest.narrow(width)
        nearness = product(probes.left(near, squared_lengths(near)), right(probes.left(far, squared_lengths(far))))
        share = float(np.mean(nearness > floor)) if len(few) else 0.0
        # A product serves both ways about.
        closer = 0.0 if probes.directions is None else share * CLOSER_LOOK * near.shape[1]
        tried.append((0.5 * probes.width + closer, probes, share))
    _, probes, share = min(tried, key=lambda each: each[0])
    return probes, share
