"""Closest-K-means: cluster the pool into as many clusters as there are picks, take the point nearest each centre."""

from dataclasses import dataclass

import numpy as np

from dubito.distances import read_rows
from dubito.matrix import FloatArray, IntArray
from dubito.problem import Request
from dubito.strategies.base import Choice, without_distances

CENTRES_AT_ONCE = 64


@dataclass(frozen=True, slots=True)
class ClosestKMeans:
    """The pool point nearest each of b K-means centres, each point once.

    What is labelled plays no part. Holds the candidates in float64; O(n·b·d) time for each K-means step.
    """

    name: str = "closest-kmeans"
    uses_engine: bool = False

    def choose(self, request: Request) -> Choice:
        """Priorities are NaN: the picks have no order of merit."""
        points = read_rows(request.pool, request.candidates, request.metric)
        taken = nearest_untaken(points, cluster_centres(points, request.budget, request.seed))
        return without_distances(request, request.candidates[taken], np.full(request.budget, np.nan))


def cluster_centres(points: FloatArray, n_clusters: int, seed: int) -> FloatArray:
    """K-means centres (b, d)."""
    import warnings

    from sklearn.cluster import KMeans
    from sklearn.exceptions import ConvergenceWarning

    with warnings.catch_warnings():
        # Fewer distinct points than clusters: some centres coincide, and the next nearest points are taken.
        warnings.simplefilter("ignore", ConvergenceWarning)
        centres: FloatArray = KMeans(n_clusters, random_state=seed % 2**32, n_init="auto").fit(points).cluster_centers_
    return centres


def nearest_untaken(points: FloatArray, centres: FloatArray) -> IntArray:
    """For each centre in turn the nearest point not taken yet; ties to the lowest index."""
    sizes = (points * points).sum(axis=1)
    is_taken = np.zeros(len(points), dtype=np.bool_)
    picks = np.empty(len(centres), dtype=np.int64)
    for start in range(0, len(centres), CENTRES_AT_ONCE):
        block = centres[start : start + CENTRES_AT_ONCE]
        for offset, distances in enumerate(sizes - 2.0 * (block @ points.T)):
            distances[is_taken] = np.inf
            picks[start + offset] = np.argmin(distances)
            is_taken[picks[start + offset]] = True
    return picks
