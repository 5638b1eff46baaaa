"""How much of a pool lies near a label."""

import numpy as np

from dubito.coverage import CoverageProblem, cold_reach, kernel, sample_rows
from dubito.distances import squared_radii
from dubito.matrix import IntArray, Matrix, Rows, len_of
from dubito.scales import measure_scale, on_scale


def covered_share(pool: Matrix, labelled: IntArray) -> float:
    """The mean over rows, 4,096 of them at most, of how near the nearest label is: 1 on it, 0 from a fixed reach on.

    The reach is half the usual distance of two rows, on standardised features. It does not depend on the labels, so
    that the share grows with them.

    Examples
    --------
    >>> pool = np.array([[0.0], [0.1], [9.9], [10.0]])
    >>> round(covered_share(pool, np.array([0])), 2), round(covered_share(pool, np.array([0, 3])), 2)
    (0.5, 1.0)
    """
    if len(labelled) == 0:
        return 0.0
    scaled = on_scale(pool, measure_scale(pool))
    sample = sample_rows(np.arange(len_of(pool)))
    reach = cold_reach(CoverageProblem(scaled, scaled[:0], sample[:0], 0, np.empty(0), sample))
    squared = squared_radii(Rows(scaled, sample), Rows(scaled, labelled), "euclidean")
    return float(kernel(squared, reach).mean() if reach > 0.0 else (squared == 0.0).mean())
