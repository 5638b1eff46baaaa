"""TypiClust (Hacohen, Dekel and Weinshall, ICML 2022), as in its authors' code.

Differences from dubito's ``typiclust``: features have unit length; clusters of five points or fewer are ignored; the
order of the clusters, by labels and then by size, is fixed before the first pick; and typicality is one over the mean
*squared* distance to half of the cluster, at most 20 neighbors. K-means is dubito's.
"""

from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from dubito.core.problem import Request
from dubito.matrix import FloatArray, IntArray, blocks
from dubito.published.herding import candidates_of, labeled_of
from dubito.strategies.base import Choice, without_distances
from dubito.strategies.kmeans import MOST_CLUSTERS, cluster_points

NEIGHBORS = 20
ROWS_AT_ONCE = 1024
MAX_IGNORED = 5
"""Clusters of this size or smaller are ignored."""


@dataclass(frozen=True, slots=True)
class PublishedTypiClust:
    """The most typical point of each of the largest clusters without a label. O(n·k·d) time for k clusters."""

    name: ClassVar[str] = "typiclust-published"
    uses_engine: ClassVar[bool] = False
    uses_doubt: ClassVar[bool] = False

    def choose(self, request: Request) -> Choice:
        """Priorities are NaN: the picks have no order of merit."""
        points, labeled = candidates_of(request), labeled_of(request)
        n_clusters = min(len(labeled) + request.budget, MOST_CLUSTERS, len(labeled) + len(points))
        cluster = cluster_points(np.concatenate([labeled, points]), n_clusters, request.seed)
        picks = pick_typical(points, cluster[len(labeled) :], cluster[: len(labeled)], request.budget)
        return without_distances(request, request.candidates[picks], np.full(request.budget, np.nan))


def pick_typical(points: FloatArray, cluster: IntArray, labeled_cluster: IntArray, budget: int) -> IntArray:
    """Positions of the picks, given the clusters (n,) of the points and (m,) of the labeled points."""
    n_clusters = int(np.concatenate([cluster, labeled_cluster]).max()) + 1
    n_labeled = np.bincount(labeled_cluster, minlength=n_clusters)
    sizes = n_labeled + np.bincount(cluster, minlength=n_clusters)
    order = np.lexsort((np.arange(n_clusters), -sizes, n_labeled))
    order = order[sizes[order] > MAX_IGNORED] if (sizes > MAX_IGNORED).any() else order[sizes[order] > 0]
    is_unpicked, picks = np.ones(len(points), dtype=np.bool_), list[int]()
    for number in range(budget):
        turn = number % len(order)
        for code in (*order[turn:], *order[:turn]):
            if len(members := np.flatnonzero(is_unpicked & (cluster == code))):
                break
        else:  # Only ignored clusters have unpicked points.
            members = np.flatnonzero(is_unpicked)
        picks.append(int(members[most_typical(points[members])]))
        is_unpicked[picks[-1]] = False
    return np.array(picks)


def most_typical(points: FloatArray) -> int:
    """The position of the point with the smallest mean squared distance to its nearest neighbors.

    Examples
    --------
    >>> most_typical(np.array([[0.0], [4.0], [5.0], [9.0]]))
    1
    """
    n_near = min(NEIGHBORS, len(points) // 2)
    if n_near == 0:
        return 0
    norms, totals = (points * points).sum(axis=1), np.empty(len(points))
    for span in blocks(len(points), ROWS_AT_ONCE):
        squared = norms[span, None] + norms - 2.0 * (points[span] @ points.T)
        squared[np.arange(len(squared)), np.arange(span.start, span.stop)] = np.inf
        totals[span] = np.partition(squared, n_near - 1, axis=1)[:, :n_near].sum(axis=1)
    return int(totals.argmin())
