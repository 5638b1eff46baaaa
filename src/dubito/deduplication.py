"""Remove near-copies: keep rows so that every other row lies near a kept one."""

import time
from dataclasses import dataclass
from typing import Any

import numpy as np

from dubito.arguments import check_points
from dubito.core.distances import exact_sq_distances, read_rows
from dubito.core.problem import Metric, Progress
from dubito.matrix import FloatArray, IntArray, Matrix, blocks, len_of, rows_per_read
from dubito.request.arrays import check_integer, check_real
from dubito.threads import n_threads

N_AXES = 16
"""Number of principal axes on which rows are compared first."""
AXES_SAMPLE = 2000
"""Rows from which the axes are computed."""
SLACK = 1e-9
"""An upper bound of the relative rounding error of coordinates on the axes."""
MAX_FOUND, MAX_QUERIES = 1_000_000, 4096
"""Rows that the queries of a group should find in all, and the number of queries in a group."""
CURVE_SAMPLE = 1000
"""Rows whose nearest other row is found, to choose a radius."""


@dataclass(frozen=True, slots=True, eq=False)
class Cover:
    """The kept rows, such that every other row lies within a radius of one of them."""

    within: float
    kept: IntArray
    """(k,) ascending."""
    dropped: IntArray
    """(m,) ascending."""
    nearest: IntArray
    """(m,) the first kept row within the radius of each dropped one."""
    distances: FloatArray
    """(m,) the distance to it, in float64."""


def deduplicate(
    features: Matrix, within: float, *, metric: Metric = "euclidean", progress: Progress | None = None
) -> Cover:
    """Keep rows in their order, and drop every row that lies within a radius of a kept one.

    Kept rows are farther than the radius from each other. Appending rows does not change which of the earlier ones are
    kept. A k-d tree of coordinates on the principal axes finds the rows that could be near, because distances there
    are never larger than those of the rows; the distance that decides is computed in float64 from all features.

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
    >>> found.kept.tolist(), found.dropped.tolist(), found.distances.round(3).tolist()
    ([0, 2], [1, 3], [0.1, 0.0])
    """
    from scipy.spatial import KDTree

    started = time.monotonic()
    radius = check_real("within", within, least=0.0)
    points = check_points(features, None, metric, standardize=False)
    n = len_of(points.pool)
    coordinates, slack = _coordinates(points.pool, metric)
    tree = KDTree(coordinates, copy_data=False)
    nearest, distances = np.full(n, -1, dtype=np.int64), np.zeros(n)
    first, n_queries = 0, 1
    while first < n:
        queried = first + np.flatnonzero(nearest[first:] < 0)[:n_queries]
        if not len(queried):
            break
        near: Any = tree.query_ball_point(coordinates[queried], radius * (1.0 + SLACK) + slack, workers=n_threads())
        for row, found in zip(queried.tolist(), near, strict=True):
            if nearest[row] < 0:  # Keep the row, and drop the rows within the radius that are neither kept nor dropped.
                nearest[row] = row
                candidates = np.array(found)
                candidates = np.sort(candidates[nearest[candidates] < 0])
                dropped, exact = _rows_within(points.pool, metric, row, candidates, radius)
                nearest[dropped], distances[dropped] = row, exact
        first = int(queried[-1]) + 1
        per_query = max(1, sum(len(each) for each in near) // len(queried))
        n_queries = min(2 * n_queries, MAX_QUERIES, max(1, MAX_FOUND // per_query))
        if progress is not None:
            progress(first, n, None, time.monotonic() - started)
    is_kept = nearest == np.arange(n)
    kept, dropped = np.flatnonzero(is_kept), np.flatnonzero(~is_kept)
    return Cover(radius, kept, dropped, nearest[dropped], distances[dropped])


def _rows_within(
    features: Matrix, metric: Metric, row: int, candidates: IntArray, radius: float
) -> tuple[IntArray, FloatArray]:
    """The candidates within a radius of a row, and their distances to it."""
    if not len(candidates):
        return candidates, np.empty(0)
    point = read_rows(features, np.array([row]), metric)[0]
    spans = blocks(len(candidates), rows_per_read(features))
    parts = [exact_sq_distances(read_rows(features, candidates[span], metric), point) for span in spans]
    distances = np.sqrt(np.concatenate(parts))
    is_near = distances <= radius
    return candidates[is_near], distances[is_near]


def _coordinates(features: Matrix, metric: Metric) -> tuple[FloatArray, float]:
    """(n, k) coordinates on the first principal axes, and how much rounding may have moved two of them apart."""
    n = len_of(features)
    sample = read_rows(features, np.unique(np.linspace(0, n - 1, AXES_SAMPLE).astype(np.int64)), metric)
    center = sample.mean(axis=0)
    axes = np.linalg.svd(sample - center, full_matrices=False)[2][:N_AXES].T
    coordinates, longest = np.empty((n, axes.shape[1])), 0.0
    for span in blocks(n, rows_per_read(features)):
        shifted = read_rows(features, span, metric) - center
        coordinates[span] = shifted @ axes
        longest = max(longest, float(np.linalg.norm(shifted, axis=1).max()))
    return coordinates, SLACK * longest


def distances_to_nearest(
    features: Matrix,
    *,
    metric: Metric = "euclidean",
    sample: int = CURVE_SAMPLE,
    seed: int = 0,
    progress: Progress | None = None,
) -> FloatArray:
    """The distances of some rows, drawn at random, to the nearest other row, ascending: to choose a radius.

    A share of them within a radius estimates the share of all rows that have a near-copy within it, which are the most
    that `deduplicate` can drop.

    Examples
    --------
    >>> distances_to_nearest(np.array([[0.0], [0.1], [5.0], [5.0]])).round(3).tolist()
    [0.0, 0.0, 0.1, 0.1]
    """
    started = time.monotonic()
    points = check_points(features, None, metric, standardize=False)
    n = len_of(points.pool)
    rows = np.sort(np.random.default_rng(seed).permutation(n)[: check_integer("sample", sample, least=1)])
    chosen = read_rows(points.pool, rows, metric)
    best, nearest = np.full(len(rows), np.inf), np.zeros(len(rows), dtype=np.int64)
    for span in blocks(n, min(rows_per_read(points.pool), 4096)):
        others = read_rows(points.pool, span, metric) - chosen[0]
        squared = (others * others).sum(axis=1) - 2.0 * ((chosen - chosen[0]) @ others.T)
        is_here = (rows >= span.start) & (rows < span.stop)
        squared[is_here, rows[is_here] - span.start] = np.inf
        lowest = squared.argmin(axis=1)
        found = squared[np.arange(len(rows)), lowest]
        is_nearer = found < best
        best[is_nearer], nearest[is_nearer] = found[is_nearer], lowest[is_nearer] + span.start
        if progress is not None:
            progress(span.stop, n, None, time.monotonic() - started)
    exact = np.sqrt(exact_sq_distances(chosen, read_rows(points.pool, nearest, metric)))
    return np.sort(exact if n > 1 else np.full(len(rows), np.inf))
