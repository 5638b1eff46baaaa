"""The farthest point of the largest cluster (LCMD; Holzmüller et al., 2023)."""

from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from dubito.core.distances import exact_sq_distances, read_rows, scaled_sq_distances_from_mean
from dubito.core.problem import Metric, Request
from dubito.doubt import scaling_weights
from dubito.matrix import FloatArray, IntArray, Matrix, blocks, len_of
from dubito.request.arrays import check_real
from dubito.strategies.base import Choice, pick_one_by_one, require_doubt
from dubito.threads import single_blas_thread

BLOCK = 1024


@dataclass(frozen=True, slots=True)
class LargestCluster:
    """Picks the point farthest from its center in the cluster with the largest spread.

    Labeled points and picks are the centers. A cluster consists of the candidates nearest to its center, and its spread
    is the sum of their squared distances. It needs no classes, so it also works for regression. Without labels, the
    first pick is the candidate nearest the mean.

    Parameters
    ----------
    strength : float
        Distances are multiplied by doubt to this power; 0 ignores doubt.

    O(n·(m + b)·d) time; copies the candidates to float64.
    """

    name: ClassVar[str] = "largest-cluster"
    uses_engine: ClassVar[bool] = False
    strength: float = 0.0

    def __post_init__(self) -> None:
        check_real("strength", self.strength, least=0.0)

    @property
    def uses_doubt(self) -> bool:
        """Whether ``strength`` is positive."""
        return self.strength > 0.0

    def plan(self, request: Request) -> None:
        if self.strength > 0.0:
            require_doubt(request, self.name)

    def choose(self, request: Request) -> Choice:
        """Priorities are distances to the center, scaled by doubt; infinite for the first pick of a cold start."""
        weights = np.ones(len(request.candidates))
        if self.strength > 0.0:
            weights = scaling_weights(require_doubt(request, self.name), self.strength)[request.candidates]
        with single_blas_thread():
            return pick_one_by_one(request, _Clusters(request, weights).pick)


class _Clusters:
    """The center of each candidate, and the squared distance to it."""

    def __init__(self, request: Request, weights: FloatArray) -> None:
        self.points = read_rows(request.pool, request.candidates, request.metric)
        self.sizes = (self.points * self.points).sum(axis=1)
        self.squared, self.owner = nearest_references(self.points, request.references, request.metric)
        self.weights, self.n_centers = weights, len_of(request.references)
        self.is_left = np.ones(len(self.points), dtype=np.bool_)
        self.cold = None
        if self.n_centers == 0:
            self.cold = int(np.argmin(scaled_sq_distances_from_mean(request.pool, request.candidates, request.metric)))

    def pick(self) -> tuple[int, float]:
        """The farthest point of the largest cluster; ties go to the oldest cluster and the lowest index."""
        if self.cold is not None:
            best, priority, self.cold = self.cold, np.inf, None
        else:
            spread = np.where(self.is_left, self.squared * self.weights, 0.0)
            sums = np.bincount(self.owner, weights=spread, minlength=self.n_centers)
            inside = np.where(self.is_left & (self.owner == np.argmax(sums)), spread, -1.0)
            # If all spreads are 0, the first remaining candidate is picked.
            best = int(np.argmax(inside if sums.max() > 0.0 else np.where(self.is_left, 0.0, -1.0)))
            priority = float(np.sqrt(spread[best]))
        self._add(best)
        return best, priority

    def _add(self, best: int) -> None:
        """Make the pick a center, and move candidates that are nearer to it than to their center."""
        self.is_left[best] = False
        center = self.points[best]
        near = self.sizes + self.sizes[best] - 2.0 * (self.points @ center)
        rows = np.flatnonzero(near <= self.squared + slack(self.points.shape[1], self.sizes + self.sizes[best]))
        exact = exact_sq_distances(self.points[rows], center)
        rows, exact = rows[exact < self.squared[rows]], exact[exact < self.squared[rows]]
        self.squared[rows], self.owner[rows] = exact, self.n_centers
        self.n_centers += 1


def slack(d: int, sizes: FloatArray) -> FloatArray:
    """A bound on the rounding of ``|x|² + |y|² - 2·x·y`` in float64; a larger bound only costs time."""
    return (d + 8) * 8e-16 * sizes


def nearest_references(points: FloatArray, references: Matrix, metric: Metric) -> tuple[FloatArray, IntArray]:
    """(n,) squared distances to the nearest reference, and its number; ties go to the first.

    Examples
    --------
    >>> squared, which = nearest_references(np.array([[0.0], [4.0]]), np.array([[1.0], [9.0], [-1.0]]), "euclidean")
    >>> squared.tolist(), which.tolist()
    ([1.0, 9.0], [0, 0])
    """
    squared, owner = np.full(len(points), np.inf), np.zeros(len(points), dtype=np.int64)
    for others in blocks(len_of(references), BLOCK):
        centers = read_rows(references, others, metric)
        for span in blocks(len(points), BLOCK):
            nearest, which = _nearest(points[span], centers)
            rows = span.start + np.flatnonzero(nearest < squared[span])
            squared[rows], owner[rows] = nearest[rows - span.start], which[rows - span.start] + others.start
    return squared, owner


def _nearest(points: FloatArray, centers: FloatArray) -> tuple[FloatArray, IntArray]:
    """The squared distance to the nearest center, and its number. Products find candidates, exact distances decide."""
    sizes = (points * points).sum(axis=1)[:, None] + (centers * centers).sum(axis=1)
    products, unsure = sizes - 2.0 * (points @ centers.T), slack(points.shape[1], sizes)
    point, center = np.nonzero(products - unsure <= (products + unsure).min(axis=1, keepdims=True))
    step = max(1, (1 << 20) // points.shape[1])
    pairs = blocks(len(point), step)
    exact = np.concatenate([exact_sq_distances(points[point[each]], centers[center[each]]) for each in pairs])
    order = np.lexsort((center, exact, point))
    first = order[np.flatnonzero(np.diff(point[order], prepend=-1))]
    return exact[first], center[first]
