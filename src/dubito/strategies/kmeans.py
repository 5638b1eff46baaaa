"""Closest-K-means: cluster the pool into as many clusters as there are picks, take the point nearest each center."""

from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from dubito.core.distances import read_rows
from dubito.core.problem import Request
from dubito.matrix import AnyArray, FloatArray, IntArray, blocks, len_of
from dubito.request.arrays import check_integer
from dubito.strategies.base import Choice, without_distances
from dubito.threads import single_blas_thread

# Not sklearn.cluster.KMeans, because it visits every center in every step: for 20,000 points in 64 dimensions and 200
# clusters it takes 1.7 s (Lloyd) or 1.5 s (Elkan) and this 0.24 s, on one thread, with an inertia 0.2% above its own.
# Loading it takes another 4 s.

CENTERS_AT_ONCE = 64
POINTS_AT_ONCE = 1024
CONVERGED = 1 / 100
"""K-means ends once less than this share of the points changes its cluster in a step."""
MOST_STEPS = 100


@dataclass(frozen=True, slots=True)
class ClosestKMeans:
    """The pool point nearest each of b K-means centers, each point once.

    K-means begins with k-means++ by the seed, works in float32, and ends once fewer than one point in 100 changes its
    cluster, after 100 steps at the latest; centers are means in float64. Labeled rows are ignored.

    Holds the candidates in float64 and in float32. The start and each step take O(n·b·d) time at most; later steps
    compare only with the centers that moved.
    """

    name: ClassVar[str] = "closest-kmeans"
    uses_engine: ClassVar[bool] = False
    uses_doubt: ClassVar[bool] = False

    def choose(self, request: Request) -> Choice:
        """Priorities are NaN: the picks have no order of merit."""
        points = read_rows(request.pool, request.candidates, request.metric)
        with single_blas_thread():
            taken = nearest_unpicked(points, cluster_centers(points, request.budget, request.seed))
        return without_distances(request, request.candidates[taken], np.full(request.budget, np.nan))


def cluster_centers(points: FloatArray, n_clusters: int, seed: int) -> FloatArray:
    """K-means centers (b, d).

    Examples
    --------
    >>> sorted(cluster_centers(np.array([[0.0], [1.0], [8.0], [9.0]]), 2, seed=0).ravel().tolist())
    [0.5, 8.5]
    """
    clustering = _converged(points, n_clusters, seed)
    # Where points coincide a cluster may be empty: its center is the point it began at.
    centers = points[clustering.seeds]
    order = np.argsort(clustering.cluster, kind="stable")
    there, starts = np.unique(clustering.cluster[order], return_index=True)
    for name, members in zip(there.tolist(), np.split(order, starts[1:]), strict=True):
        centers[name] = points[members].mean(axis=0)
    return centers


def cluster_points(points: FloatArray, n_clusters: int, seed: int) -> IntArray:
    """(n,) the K-means cluster that each point is in; where points coincide some may be empty.

    Examples
    --------
    >>> cluster = cluster_points(np.array([[0.0], [1.0], [8.0], [9.0]]), 2, seed=0)
    >>> (cluster == cluster[0]).tolist()
    [True, True, False, False]
    """
    return _converged(points, n_clusters, seed).cluster


def _converged(points: FloatArray, n_clusters: int, seed: int) -> "_Clustering":
    clustering = _Clustering(_small(points), n_clusters, np.random.default_rng(seed))
    for _ in range(MOST_STEPS):
        if clustering.step() < CONVERGED * len(points):
            break
    return clustering


def _small(points: FloatArray) -> AnyArray:
    """Points about their mean in float32, in units in which no square overflows and none vanishes."""
    spread = points - points.mean(axis=0)
    largest = float(np.abs(spread).max(initial=0.0))
    return np.asarray(spread / largest if largest > 0 else spread, dtype=np.float32)


def plus_plus(points: AnyArray, n_seeds: int, rng: np.random.Generator) -> IntArray:
    """Rows (b,) drawn by k-means++, each with probability proportional to its squared distance to those before.

    The distances of all points are updated once for many draws. Between updates, rows are drawn by the old distances,
    which are upper bounds, and accepted with probability new / old: rejection sampling from the same distribution.
    Once every point coincides with a drawn one, the rest is drawn uniformly. O(n·b·d) time.
    """
    sizes = np.einsum("ij,ij->i", points, points)
    seeds = [int(rng.integers(len(points)))]
    fresh, squared = seeds[:], np.full(len(points), np.inf, dtype=np.float32)
    while len(seeds) < n_seeds:
        np.minimum(squared, _squared_to_nearest(points, sizes, np.array(fresh)), out=squared)
        squared[seeds] = 0.0
        steps = np.cumsum(squared, dtype=np.float64)
        if steps[-1] <= 0.0:
            left = np.setdiff1d(np.arange(len(points)), seeds)
            return np.concatenate([seeds, rng.permutation(left)[: n_seeds - len(seeds)]])
        fresh = _draw(points, squared, steps, min(CENTERS_AT_ONCE, len(seeds), n_seeds - len(seeds)), rng)
        seeds += fresh
    return np.array(seeds)


def _draw(points: AnyArray, squared: AnyArray, steps: FloatArray, most: int, rng: np.random.Generator) -> list[int]:
    """Up to ``most`` next seeds, from squared distances (n,) to the earlier seeds and their cumulative sums."""
    fresh: list[int] = []
    for _ in range(2 * most):
        row = int(np.searchsorted(steps, rng.random() * steps[-1], side="right"))
        apart = points[fresh] - points[row]
        nearest = np.einsum("ij,ij->i", apart, apart).min(initial=squared[row])
        if rng.random() * squared[row] < nearest:
            fresh.append(row)
        if len(fresh) == most:
            break
    return fresh


def _squared_to_nearest(points: AnyArray, sizes: AnyArray, rows: IntArray) -> AnyArray:
    """(n,) squared distance to the nearest of some rows."""
    squared = np.empty_like(sizes)
    for span in blocks(len(points), POINTS_AT_ONCE):
        squared[span] = (sizes[rows] - 2.0 * points[span] @ points[rows].T).min(axis=1)
    return np.asarray(np.maximum(squared + sizes, 0.0))


class _Clustering:
    """K-means: which cluster each point is in, and where the centers are."""

    def __init__(self, points: AnyArray, n_clusters: int, rng: np.random.Generator) -> None:
        self.points = points
        self.seeds = plus_plus(points, n_clusters, rng)
        self.centers = points[self.seeds]
        self.sums = np.zeros(self.centers.shape)
        self.counts = np.zeros(n_clusters, dtype=np.int64)
        self.cluster = np.full(len(points), -1, dtype=np.int64)
        self.nearness = np.full(len(points), np.inf, dtype=np.float32)
        """(n,) squared distance to the own center, less the point's own square."""
        self.has_moved = np.ones(n_clusters, dtype=np.bool_)

    def step(self) -> int:
        """Give every point to its nearest center, and move the centers to their means; how many points changed."""
        before = self.cluster.copy()
        # A point whose center stays can only change to one that has moved.
        is_loose = self.has_moved[self.cluster] | (self.cluster < 0)
        self._assign(np.flatnonzero(is_loose), np.arange(len(self.centers)), anew=True)
        self._assign(np.flatnonzero(~is_loose), np.flatnonzero(self.has_moved), anew=False)
        changed = np.flatnonzero(self.cluster != before)
        self._move(changed, before[changed])
        return len(changed)

    def _assign(self, rows: IntArray, names: IntArray, *, anew: bool) -> None:
        """Assign points to the nearest of some centers, if it is nearer than their present one or ``anew`` is set."""
        centers = self.centers[names]
        sizes = np.einsum("ij,ij->i", centers, centers)
        centers *= -2.0
        for span in blocks(len(rows), POINTS_AT_ONCE) if len(names) else ():
            chosen = rows[span]
            found = self.points[chosen] @ centers.T
            found += sizes
            nearest = found.argmin(axis=1)
            least = found[np.arange(len(chosen)), nearest]
            is_nearer = anew | (least < self.nearness[chosen])
            self.cluster[chosen[is_nearer]] = names[nearest[is_nearer]]
            self.nearness[chosen[is_nearer]] = least[is_nearer]

    def _move(self, changed: IntArray, before: IntArray) -> None:
        """Update sums and centers for points that changed their cluster; mark the centers that moved."""
        self.has_moved[:] = False
        for names, sign in ((before, -1), (self.cluster[changed], 1)):
            inside = names >= 0
            order = np.argsort(names[inside], kind="stable")
            touched, starts, counts = np.unique(names[inside][order], return_index=True, return_counts=True)
            if len(touched) == 0:
                continue
            members = self.points[changed[inside][order]]
            self.sums[touched] += sign * np.add.reduceat(members, starts, axis=0, dtype=np.float64)
            self.counts[touched] += sign * counts
            self.has_moved[touched] = True
        self.has_moved &= self.counts > 0
        self.centers[self.has_moved] = self.sums[self.has_moved] / self.counts[self.has_moved, None]


def nearest_unpicked(points: FloatArray, centers: FloatArray) -> IntArray:
    """For each center in turn the nearest point not taken yet; ties to the lowest index.

    Points are centered and divided by their largest coordinate, so that squares neither lose digits nor underflow.
    """
    origin = points.mean(axis=0)
    points = points - origin
    unit = np.abs(points).max() or 1.0
    points, centers = points / unit, (centers - origin) / unit
    sizes = (points * points).sum(axis=1)
    is_taken = np.zeros(len(points), dtype=np.bool_)
    picks = np.empty(len(centers), dtype=np.int64)
    for start in range(0, len(centers), CENTERS_AT_ONCE):
        block = centers[start : start + CENTERS_AT_ONCE]
        for offset, distances in enumerate(sizes - 2.0 * (block @ points.T)):
            distances[is_taken] = np.inf
            picks[start + offset] = np.argmin(distances)
            is_taken[picks[start + offset]] = True
    return picks


# TypiClust (Hacohen et al., 2022): one typical point of each large cluster that has no label yet.

MOST_CLUSTERS = 500
BLOCK = 1024


@dataclass(frozen=True, slots=True)
class TypiClust:
    """The point with the nearest neighbors in each of the largest clusters, for a first batch without a model.

    K-means (see `ClosestKMeans`) cuts the candidates and what is labeled into as many clusters as there are labels and
    picks, 500 at most. Clusters with the fewest labels come first, among these the largest; each gives its most typical
    candidate, whose mean distance to its nearest neighbors in the cluster is least. A pick counts as a label. The seed
    decides the clusters.

    Parameters
    ----------
    neighbors : int
        How many nearest neighbors tell how typical a point is.

    O(n·k·d) time for a step of K-means with k clusters, and O(n²·d / k) to compare points within clusters of one size.
    """

    name: ClassVar[str] = "typiclust"
    uses_engine: ClassVar[bool] = False
    uses_doubt: ClassVar[bool] = False
    neighbors: int = 20

    def __post_init__(self) -> None:
        check_integer("neighbors", self.neighbors, least=1)

    def choose(self, request: Request) -> Choice:
        """Priorities are how typical a pick is: one over its mean distance to its neighbors."""
        points = read_rows(request.pool, request.candidates, request.metric)
        labeled = read_rows(request.references, slice(0, len_of(request.references)), request.metric)
        n_clusters = min(len(labeled) + request.budget, MOST_CLUSTERS, len(points) + len(labeled))
        with single_blas_thread():
            cluster = cluster_points(np.concatenate([points, labeled]), n_clusters, request.seed)
            typical = typicality(points, cluster[: len(points)], self.neighbors)
        seen = np.bincount(cluster[len(points) :], minlength=n_clusters)
        picks = in_turn(cluster[: len(points)], typical, seen, request.budget)
        return without_distances(request, request.candidates[picks], typical[picks])


def typicality(points: FloatArray, cluster: IntArray, neighbors: int) -> FloatArray:
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
        sizes, n_near = (inside * inside).sum(axis=1), min(neighbors, len(members) - 1)
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
    positions = np.concatenate([[0], np.cumsum(sizes)[:-1]])
    picks = list[int]()
    while len(picks) < n_picks:
        there = names[left > 0]
        name = there[np.lexsort((there, -sizes[there], seen[there]))[0]]
        picks.append(int(order[positions[name]]))
        positions[name] += 1
        left[name] -= 1
        seen[name] += 1
    return np.array(picks)
