"""Remove near-copies: keep rows such that every other row lies near one of them."""

from dataclasses import dataclass

import numpy as np

from dubito.core.distances import exact_sq_distances, read_rows
from dubito.core.problem import Metric, Progress
from dubito.matrix import FloatArray, IntArray, Matrix, blocks, len_of
from dubito.pool import Pool
from dubito.request.arrays import check_real

FIRST_BUDGET = 256
"""Rows that the first selection keeps; every further one keeps twice as many."""
BLOCK = 1024


@dataclass(frozen=True, slots=True, eq=False)
class Cover:
    """Rows that are kept so that every other row lies within a radius of one of them."""

    within: float
    kept: IntArray
    """(k,) in the order in which they were chosen: each is the farthest from those before it."""
    radii: FloatArray
    """(k,) entry j is the smallest radius of the first j rows; that of no rows is infinite."""
    dropped: IntArray
    """(m,) ascending."""
    nearest: IntArray
    """(m,) a kept row within the radius of each dropped one."""
    distances: FloatArray
    """(m,) the distance to it, in float64."""

    def curve(self) -> list[tuple[int, float]]:
        """Pairs of a number of kept rows and the radius that they reach; the numbers grow by an eighth."""
        numbers = np.unique(np.ceil(np.geomspace(1, max(1, len(self.kept) - 1), 60)).astype(np.int64))
        return [(number, float(self.radii[number])) for number in numbers.tolist() if number < len(self.radii)]


def deduplicate(
    features: Matrix, within: float, *, metric: Metric = "euclidean", progress: Progress | None = None
) -> Cover:
    """Keep the farthest rows, one after the other, until every row lies within a radius of one that is kept.

    Kept rows are farther than the radius from each other. The picks are those of the core-set engines, hence exact.
    Afterwards each dropped row is compared with the kept ones in float64.

    Parameters
    ----------
    features : array (n, d)
        The rows, never changed.
    within : float
        The radius, 0 or more; with 0, only exact copies are dropped.
    metric : {"euclidean", "cosine"}
        The distance; for cosine, that of the rows scaled to length 1.
    progress : callable, optional
        As for `dubito.select`.

    Examples
    --------
    >>> found = deduplicate(np.array([[0.0], [0.1], [5.0], [5.0]]), 0.5)
    >>> sorted(found.kept.tolist()), found.dropped.tolist(), found.distances.round(3).tolist()
    ([1, 2], [0, 3], [0.1, 0.0])
    """
    radius = check_real("within", within, least=0.0)
    pool = Pool(features, metric=metric, standardize=False)
    kept, radii, budget = [np.empty(0, dtype=np.int64)], [np.empty(0)], FIRST_BUDGET
    n_kept, n = 0, len_of(features)
    while n_kept < n:
        picked = pool.select(min(budget, n - n_kept), strategy="coreset", progress=progress)
        is_far = picked.priorities > radius
        if n_kept == 0:
            is_far[0] = True  # Nothing was kept before the first row.
        n_far = len(is_far) if is_far.all() else int(np.argmin(is_far))
        kept.append(picked.indices[:n_far])
        radii.append(picked.priorities[:n_far])
        n_kept, budget = n_kept + n_far, 2 * budget
        if n_far < len(is_far):
            break
        pool.label(picked)
    rows, reached = np.concatenate(kept), np.concatenate(radii)
    if len(reached):
        reached[0] = np.inf
    dropped = np.setdiff1d(np.arange(n), rows)
    nearest, distances = _nearest(features, dropped, rows, radius, metric)
    return Cover(radius, rows, reached, dropped, nearest, distances)


def _nearest(
    features: Matrix, dropped: IntArray, kept: IntArray, radius: float, metric: Metric
) -> tuple[IntArray, FloatArray]:
    """For each dropped row, a kept row within the radius, and their exact distance.

    Matrix products find the candidate; where rounding has picked one that is too far, all kept rows are compared.
    """
    nearest, distances = np.empty(len(dropped), dtype=np.int64), np.empty(len(dropped))
    for span in blocks(len(dropped), BLOCK):
        points = read_rows(features, dropped[span], metric)
        best, place = np.full(len(points), np.inf), np.zeros(len(points), dtype=np.int64)
        for part in blocks(len(kept), BLOCK):
            others = read_rows(features, kept[part], metric)
            squared = (others * others).sum(axis=1) - 2.0 * (points @ others.T)
            found = squared.argmin(axis=1)
            lowest = squared[np.arange(len(points)), found]
            is_better = lowest < best
            best[is_better], place[is_better] = lowest[is_better], found[is_better] + part.start
        exact = np.sqrt(exact_sq_distances(points, read_rows(features, kept[place], metric)))
        for row in np.flatnonzero(exact > radius).tolist():
            squared = exact_sq_distances(read_rows(features, kept, metric), points[row])
            place[row] = int(squared.argmin())
            exact[row] = np.sqrt(squared[place[row]])
        nearest[span], distances[span] = kept[place], exact
    if len(distances) and distances.max() > radius:
        raise AssertionError(f"a dropped row is {distances.max()} away from the kept ones")
    return nearest, distances
