"""TypiClust (Hacohen, Dekel and Weinshall, ICML 2022), as its authors' code has it.

It differs from dubito's ``typiclust`` in this: features have unit length; clusters of five points or fewer are left
out; the order of the clusters, by labels and then by size, is fixed before the first pick; and typicality is one over
the mean *squared* distance to half of the cluster, 20 neighbors at most. K-means is dubito's.
"""

from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from dubito.core.problem import Request
from dubito.matrix import FloatArray, IntArray, blocks, len_of
from dubito.published.herding import unit_length
from dubito.strategies.base import Choice, without_distances
from dubito.strategies.kmeans import MOST_CLUSTERS, cluster_points

NEIGHBORS = 20
ROWS_AT_ONCE = 1024
SMALLEST = 5
"""Clusters with so many points or fewer are left out."""


@dataclass(frozen=True, slots=True)
class PublishedTypiClust:
    """The most typical point of each of the largest clusters without a label. O(n·k·d) time for k clusters."""

    name: ClassVar[str] = "typiclust-published"
    uses_engine: ClassVar[bool] = False
    uses_doubt: ClassVar[bool] = False

    def choose(self, request: Request) -> Choice:
        """Priorities are NaN: the picks have no order of merit."""
        points = unit_length(request, request.pool, request.candidates)
        labeled = unit_length(request, request.references, slice(0, len_of(request.references)))
        n_clusters = min(len(labeled) + request.budget, MOST_CLUSTERS, len(labeled) + len(points))
        cluster = cluster_points(np.concatenate([labeled, points]), n_clusters, request.seed)
        picks = typical_in_turn(points, cluster[len(labeled) :], cluster[: len(labeled)], request.budget)
        return without_distances(request, request.candidates[picks], np.full(request.budget, np.nan))


def typical_in_turn(points: FloatArray, cluster: IntArray, labeled: IntArray, budget: int) -> IntArray:
    """Positions of the picks, from clusters (n,) of the points and (m,) of what is labeled."""
    n_clusters = int(np.concatenate([cluster, labeled]).max()) + 1
    seen = np.bincount(labeled, minlength=n_clusters)
    sizes = seen + np.bincount(cluster, minlength=n_clusters)
    order = np.lexsort((np.arange(n_clusters), -sizes, seen))
    order = order[sizes[order] > SMALLEST] if (sizes > SMALLEST).any() else order[sizes[order] > 0]
    is_left, picks = np.ones(len(points), dtype=np.bool_), list[int]()
    for number in range(budget):
        turn = number % len(order)
        for name in (*order[turn:], *order[:turn]):
            if len(members := np.flatnonzero(is_left & (cluster == name))):
                break
        else:  # Only small clusters are left.
            members = np.flatnonzero(is_left)
        picks.append(int(members[most_typical(points[members])]))
        is_left[picks[-1]] = False
    return np.array(picks)


def most_typical(points: FloatArray) -> int:
    """The point with the least mean squared distance to its nearest neighbors.

    Examples
    --------
    >>> most_typical(np.array([[0.0], [4.0], [5.0], [9.0]]))
    1
    """
    n_near = min(NEIGHBORS, len(points) // 2)
    if n_near == 0:
        return 0
    sizes, apart = (points * points).sum(axis=1), np.empty(len(points))
    for span in blocks(len(points), ROWS_AT_ONCE):
        squared = sizes[span, None] + sizes - 2.0 * (points[span] @ points.T)
        squared[np.arange(len(squared)), np.arange(span.start, span.stop)] = np.inf
        apart[span] = np.partition(squared, n_near - 1, axis=1)[:, :n_near].sum(axis=1)
    return int(apart.argmin())
