"""TypiClust (Hacohen et al., 2022): one typical point of each large cluster that has no label yet."""

from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from dubito.checks import check_integer
from dubito.distances import read_rows
from dubito.matrix import FloatArray, IntArray, blocks, len_of
from dubito.problem import Request
from dubito.strategies.base import Choice, without_distances
from dubito.strategies.kmeans import cluster_points

MOST_CLUSTERS = 500
BLOCK = 1024


@dataclass(frozen=True, slots=True)
class TypiClust:
    """The point with the nearest neighbours in each of the largest clusters, for a first batch without a model.

    K-means (see `ClosestKMeans`) cuts the candidates and what is labelled into as many clusters as there are labels and
    picks, 500 at most. Clusters with the fewest labels come first, among these the largest; each gives its most typical
    candidate, whose mean distance to its nearest neighbours in the cluster is least. A pick counts as a label. The seed
    decides the clusters.

    Parameters
    ----------
    neighbours : int
        How many nearest neighbours tell how typical a point is.

    O(n·k·d) time for a step of K-means with k clusters, and O(n²·d / k) to compare points within clusters of one size.
    """

    name: ClassVar[str] = "typiclust"
    uses_engine: ClassVar[bool] = False
    uses_doubt: ClassVar[bool] = False
    neighbours: int = 20

    def __post_init__(self) -> None:
        check_integer("neighbours", self.neighbours, least=1)

    def plan(self, request: Request) -> None:
        """It takes any request, and no engine."""

    def choose(self, request: Request) -> Choice:
        """Priorities are how typical a pick is: one over its mean distance to its neighbours."""
        points = read_rows(request.pool, request.candidates, request.metric)
        labelled = read_rows(request.references, slice(0, len_of(request.references)), request.metric)
        n_clusters = min(len(labelled) + request.budget, MOST_CLUSTERS, len(points) + len(labelled))
        cluster = cluster_points(np.concatenate([points, labelled]), n_clusters, request.seed)
        typical = typicality(points, cluster[: len(points)], self.neighbours)
        seen = np.bincount(cluster[len(points) :], minlength=n_clusters)
        picks = in_turn(cluster[: len(points)], typical, seen, request.budget)
        return without_distances(request, request.candidates[picks], typical[picks])


def typicality(points: FloatArray, cluster: IntArray, neighbours: int) -> FloatArray:
    """(n,) one over the mean distance to the nearest others of the same cluster; 0 where a point is alone.

    Examples
    --------
    >>> typicality(np.array([[0.0], [1.0], [3.0], [9.0]]), np.array([0, 0, 0, 1]), 1).tolist()
    [1.0, 1.0, 0.5, 0.0]
    """
    typical = np.zeros(len(points))
    order = np.argsort(cluster, kind="stable")
    for members in np.split(order, np.flatnonzero(np.diff(cluster[order])) + 1):
        inside = points[members] - points[members].mean(axis=0)
        sizes, n_near = (inside * inside).sum(axis=1), min(neighbours, len(members) - 1)
        for span in blocks(len(members), BLOCK) if n_near else ():
            squared = sizes[span, None] + sizes - 2.0 * (inside[span] @ inside.T)
            squared[np.arange(len(squared)), np.arange(span.start, span.stop)] = np.inf
            near = np.partition(squared, n_near - 1, axis=1)[:, :n_near]
            apart = np.sqrt(np.maximum(near, 0.0)).mean(axis=1)
            # Copies are as typical as can be.
            typical[members[span]] = 1.0 / np.maximum(apart, np.finfo(np.float64).tiny)
    return typical


def in_turn(cluster: IntArray, typical: FloatArray, seen: IntArray, n_picks: int) -> IntArray:
    """Places of the picks: from the cluster with the fewest labels, then the largest, its most typical point.

    Examples
    --------
    >>> in_turn(np.array([0, 0, 1, 1, 1]), np.array([1.0, 2.0, 3.0, 5.0, 4.0]), np.array([0, 0]), 3).tolist()
    [3, 1, 4]
    """
    left, seen = np.bincount(cluster, minlength=len(seen)), seen.astype(np.int64)
    sizes, names = left.copy(), np.arange(len(seen))
    # The most typical of each cluster first, of equals the lowest.
    order = np.lexsort((np.arange(len(cluster)), -typical, cluster))
    places = np.concatenate([[0], np.cumsum(sizes)[:-1]])
    picks = list[int]()
    while len(picks) < n_picks:
        there = names[left > 0]
        name = there[np.lexsort((there, -sizes[there], seen[there]))[0]]
        picks.append(int(order[places[name]]))
        places[name] += 1
        left[name] -= 1
        seen[name] += 1
    return np.array(picks)
