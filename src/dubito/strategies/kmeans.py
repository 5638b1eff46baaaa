"""K-means strategies: the point nearest each of b centers (closest-kmeans), and TypiClust."""

from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from dubito.core.distances import read_rows
from dubito.core.problem import Request
from dubito.matrix import AnyArray, FloatArray, IntArray, blocks, len_of
from dubito.request.arrays import check_integer
from dubito.strategies.base import Choice, without_distances
from dubito.threads import single_blas_thread

# Not sklearn.cluster.KMeans, because it compares with every center in every step: for 20,000 points in 64 dimensions
# and 200 clusters it takes 1.7 s (Lloyd) or 1.5 s (Elkan), and this takes 0.24 s, on one thread, with an inertia 0.2%
# higher. Importing it takes another 4 s.

CENTERS_PER_BLOCK = 64
POINTS_PER_BLOCK = 1024
CONVERGED = 1 / 100
"""K-means ends when less than this share of the points changes its cluster in a step."""
MOST_STEPS = 100


@dataclass(frozen=True, slots=True)
class ClosestKMeans:
    """The pool point nearest each of b K-means centers, each point once.

    K-means is initialized by k-means++ with the seed, works in float32, and ends when fewer than one point in 100
    changes its cluster, or after 100 steps; centers are means in float64. Labeled rows are ignored.

    Copies the candidates to float64 and to float32. The initialization and each step take O(n·b·d) time at most; later
    steps compare only with the centers that moved.
    """

    name: ClassVar[str] = "closest-kmeans"
    uses_engine: ClassVar[bool] = False
    uses_doubt: ClassVar[bool] = False

    def choose(self, request: Request) -> Choice:
        """Priorities are NaN, because the picks are not ranked."""
        points = read_rows(request.pool, request.candidates, request.metric)
        with single_blas_thread():
            picks = nearest_unpicked(points, cluster_centers(points, request.budget, request.seed))
        return without_distances(request, request.candidates[picks], np.full(request.budget, np.nan))


def cluster_centers(points: FloatArray, n_clusters: int, seed: int) -> FloatArray:
    """K-means centers (b, d).

    Examples
    --------
    >>> sorted(cluster_centers(np.array([[0.0], [1.0], [8.0], [9.0]]), 2, seed=0).ravel().tolist())
    [0.5, 8.5]
    """
    clustering = _converged(points, n_clusters, seed)
    # If points coincide, a cluster may be empty: its center is then its initial one.
    centers = points[clustering.seeds]
    order = np.argsort(clustering.cluster, kind="stable")
    numbers, starts = np.unique(clustering.cluster[order], return_index=True)
    for number, members in zip(numbers.tolist(), np.split(order, starts[1:]), strict=True):
        centers[number] = points[members].mean(axis=0)
    return centers


def cluster_points(points: FloatArray, n_clusters: int, seed: int) -> IntArray:
    """(n,) the K-means cluster of each point; clusters may be empty if points coincide.

    Examples
    --------
    >>> cluster = cluster_points(np.array([[0.0], [1.0], [8.0], [9.0]]), 2, seed=0)
    >>> (cluster == cluster[0]).tolist()
    [True, True, False, False]
    """
    return _converged(points, n_clusters, seed).cluster


def _converged(points: FloatArray, n_clusters: int, seed: int) -> "_Clustering":
    clustering = _Clustering(_normalized(points), n_clusters, np.random.default_rng(seed))
    for _ in range(MOST_STEPS):
        if clustering.step() < CONVERGED * len(points):
            break
    return clustering


def _normalized(points: FloatArray) -> AnyArray:
    """Points centered on their mean and divided by the largest coordinate, in float32, so that no square overflows."""
    spread = points - points.mean(axis=0)
    largest = float(np.abs(spread).max(initial=0.0))
    return np.asarray(spread / largest if largest > 0 else spread, dtype=np.float32)


def plus_plus(points: AnyArray, n_seeds: int, rng: np.random.Generator) -> IntArray:
    """Rows (b,) drawn by k-means++: with probability proportional to the squared distance to the nearest earlier one.

    The distances of all points are updated once for many draws. Between updates, rows are drawn by the old distances,
    which are upper bounds, and accepted with probability new / old: rejection sampling from the same distribution.
    If every remaining point coincides with a drawn one, the rest is drawn uniformly. O(n·b·d) time.
    """
    sizes = np.einsum("ij,ij->i", points, points)
    seeds = [int(rng.integers(len(points)))]
    new, squared = seeds[:], np.full(len(points), np.inf, dtype=np.float32)
    while len(seeds) < n_seeds:
        np.minimum(squared, _squared_to_nearest(points, sizes, np.array(new)), out=squared)
        squared[seeds] = 0.0
        steps = np.cumsum(squared, dtype=np.float64)
        if steps[-1] <= 0.0:
            left = np.setdiff1d(np.arange(len(points)), seeds)
            return np.concatenate([seeds, rng.permutation(left)[: n_seeds - len(seeds)]])
        new = _draw(points, squared, steps, min(CENTERS_PER_BLOCK, len(seeds), n_seeds - len(seeds)), rng)
        seeds += new
    return np.array(seeds)


def _draw(points: AnyArray, squared: AnyArray, steps: FloatArray, most: int, rng: np.random.Generator) -> list[int]:
    """Up to ``most`` next seeds, from squared distances (n,) to the earlier seeds and their cumulative sums."""
    new: list[int] = []
    for _ in range(2 * most):
        row = int(np.searchsorted(steps, rng.random() * steps[-1], side="right"))
        apart = points[new] - points[row]
        nearest = np.einsum("ij,ij->i", apart, apart).min(initial=squared[row])
        if rng.random() * squared[row] < nearest:
            new.append(row)
        if len(new) == most:
            break
    return new


def _squared_to_nearest(points: AnyArray, sizes: AnyArray, rows: IntArray) -> AnyArray:
    """(n,) squared distance to the nearest of some rows."""
    squared = np.empty_like(sizes)
    for span in blocks(len(points), POINTS_PER_BLOCK):
        squared[span] = (sizes[rows] - 2.0 * points[span] @ points[rows].T).min(axis=1)
    return np.asarray(np.maximum(squared + sizes, 0.0))


class _Clustering:
    """The clusters and centers of a K-means run."""

    def __init__(self, points: AnyArray, n_clusters: int, rng: np.random.Generator) -> None:
        self.points = points
        self.seeds = plus_plus(points, n_clusters, rng)
        self.centers = points[self.seeds]
        self.sums = np.zeros(self.centers.shape)
        self.counts = np.zeros(n_clusters, dtype=np.int64)
        self.cluster = np.full(len(points), -1, dtype=np.int64)
        self.nearness = np.full(len(points), np.inf, dtype=np.float32)
        """(n,) squared distance to the center of the point's cluster, minus the squared norm of the point."""
        self.has_moved = np.ones(n_clusters, dtype=np.bool_)

    def step(self) -> int:
        """Assign every point to its nearest center, and move the centers. Returns the number of points that changed."""
        before = self.cluster.copy()
        # A point whose center did not move can change only to a center that did.
        needs_all = self.has_moved[self.cluster] | (self.cluster < 0)
        self._assign(np.flatnonzero(needs_all), np.arange(len(self.centers)), only_if_nearer=False)
        self._assign(np.flatnonzero(~needs_all), np.flatnonzero(self.has_moved), only_if_nearer=True)
        changed = np.flatnonzero(self.cluster != before)
        self._move(changed, before[changed])
        return len(changed)

    def _assign(self, rows: IntArray, numbers: IntArray, *, only_if_nearer: bool) -> None:
        """Assign points to the nearest of some centers, always or only if it is nearer than their current one."""
        centers = self.centers[numbers]
        sizes = np.einsum("ij,ij->i", centers, centers)
        centers *= -2.0
        for span in blocks(len(rows), POINTS_PER_BLOCK) if len(numbers) else ():
            part = rows[span]
            squared = self.points[part] @ centers.T
            squared += sizes
            nearest = squared.argmin(axis=1)
            least = squared[np.arange(len(part)), nearest]
            changes = (not only_if_nearer) | (least < self.nearness[part])
            self.cluster[part[changes]] = numbers[nearest[changes]]
            self.nearness[part[changes]] = least[changes]

    def _move(self, changed: IntArray, before: IntArray) -> None:
        """Update sums and centers for points that changed their cluster; mark the centers that moved."""
        self.has_moved[:] = False
        for numbers, sign in ((before, -1), (self.cluster[changed], 1)):
            is_assigned = numbers >= 0
            order = np.argsort(numbers[is_assigned], kind="stable")
            touched, starts, counts = np.unique(numbers[is_assigned][order], return_index=True, return_counts=True)
            if len(touched) == 0:
                continue
            members = self.points[changed[is_assigned][order]]
            self.sums[touched] += sign * np.add.reduceat(members, starts, axis=0, dtype=np.float64)
            self.counts[touched] += sign * counts
            self.has_moved[touched] = True
        self.has_moved &= self.counts > 0
        self.centers[self.has_moved] = self.sums[self.has_moved] / self.counts[self.has_moved, None]


def nearest_unpicked(points: FloatArray, centers: FloatArray) -> IntArray:
    """For each center in turn, the nearest point that is not picked yet; ties to the lowest index.

    Points are centered and divided by their largest coordinate, so that squares neither lose digits nor underflow.
    """
    origin = points.mean(axis=0)
    points = points - origin
    unit = np.abs(points).max() or 1.0
    points, centers = points / unit, (centers - origin) / unit
    sizes = (points * points).sum(axis=1)
    is_picked = np.zeros(len(points), dtype=np.bool_)
    picks = np.empty(len(centers), dtype=np.int64)
    for start in range(0, len(centers), CENTERS_PER_BLOCK):
        block = centers[start : start + CENTERS_PER_BLOCK]
        for offset, distances in enumerate(sizes - 2.0 * (block @ points.T)):
            distances[is_picked] = np.inf
            picks[start + offset] = np.argmin(distances)
            is_picked[picks[start + offset]] = True
    return picks


# TypiClust (Hacohen et al., 2022): a typical point of each large cluster without labels.

MOST_CLUSTERS = 500


@dataclass(frozen=True, slots=True)
class TypiClust:
    """The most typical point of each of the largest clusters, for a first batch without a model.

    K-means (see `ClosestKMeans`) divides the candidates and the labeled points into as many clusters as there are
    labels and picks, at most 500. Each pick is the most typical candidate of the cluster with the fewest labels, or of
    the largest of these: the one with the smallest mean distance to its nearest neighbors in the cluster. A pick counts
    as a label. The seed determines the clusters.

    Parameters
    ----------
    neighbors : int
        The number of nearest neighbors that count.

    O(n·k·d) time for a step of K-means with k clusters, and O(n²·d / k) to compare points within clusters of one size.
    """

    name: ClassVar[str] = "typiclust"
    uses_engine: ClassVar[bool] = False
    uses_doubt: ClassVar[bool] = False
    neighbors: int = 20

    def __post_init__(self) -> None:
        check_integer("neighbors", self.neighbors, least=1)

    def choose(self, request: Request) -> Choice:
        """Priorities are typicality: one over the mean distance to the neighbors."""
        points = read_rows(request.pool, request.candidates, request.metric)
        labeled = read_rows(request.references, slice(0, len_of(request.references)), request.metric)
        n_clusters = min(len(labeled) + request.budget, MOST_CLUSTERS, len(points) + len(labeled))
        with single_blas_thread():
            cluster = cluster_points(np.concatenate([points, labeled]), n_clusters, request.seed)
            typical = typicality(points, cluster[: len(points)], self.neighbors)
        n_labels = np.bincount(cluster[len(points) :], minlength=n_clusters)
        picks = picks_by_cluster(cluster[: len(points)], typical, n_labels, request.budget)
        return without_distances(request, request.candidates[picks], typical[picks])


def typicality(points: FloatArray, cluster: IntArray, neighbors: int) -> FloatArray:
    """(n,) one over the mean distance to the nearest neighbors in the cluster; 0 for a point alone in its cluster.

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
        for span in blocks(len(members), POINTS_PER_BLOCK) if n_near else ():
            squared = sizes[span, None] + sizes - 2.0 * (inside[span] @ inside.T)
            squared[np.arange(len(squared)), np.arange(span.start, span.stop)] = np.inf
            near = np.partition(squared, n_near - 1, axis=1)[:, :n_near]
            distance = np.sqrt(np.maximum(near, 0.0)).mean(axis=1)
            # Exact copies have the largest finite typicality.
            typical[members[span]] = 1.0 / np.maximum(distance, np.finfo(np.float64).tiny)
    return typical


def picks_by_cluster(cluster: IntArray, typical: FloatArray, n_labels: IntArray, n_picks: int) -> IntArray:
    """Positions of the picks: the most typical point of the cluster with the fewest labels, or of the largest of these.

    Examples
    --------
    >>> picks_by_cluster(np.array([0, 0, 1, 1, 1]), np.array([1.0, 2.0, 3.0, 5.0, 4.0]), np.array([0, 0]), 3).tolist()
    [3, 1, 4]
    """
    sizes, n_labels = np.bincount(cluster, minlength=len(n_labels)), n_labels.astype(np.int64)
    n_left, numbers = sizes.copy(), np.arange(len(n_labels))
    # The most typical points of each cluster first, ties to the lowest index.
    order = np.lexsort((np.arange(len(cluster)), -typical, cluster))
    positions = np.concatenate([[0], np.cumsum(sizes)[:-1]])
    picks = list[int]()
    while len(picks) < n_picks:
        open_ones = numbers[n_left > 0]
        best = open_ones[np.lexsort((open_ones, -sizes[open_ones], n_labels[open_ones]))[0]]
        picks.append(int(order[positions[best]]))
        positions[best] += 1
        n_left[best] -= 1
        n_labels[best] += 1
    return np.array(picks)
