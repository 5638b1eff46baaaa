"""DropQuery and ALFA-Mix: candidates whose predicted class changes with their features, then one of each cluster.

DropQuery (Gupte et al., 2024) drops features at random; ALFA-Mix (Parvaneh et al., CVPR 2022) mixes them with the mean
of each class. Both need the model's predictions for the changed features. `linear_head` reconstructs the linear model
that gave the probabilities: exactly if it was linear in these features, else by least squares. ALFA-Mix groups the
labeled rows by predicted class, while the authors group them by label.
"""

from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from dubito.core.coverage_reference import sample_rows
from dubito.core.distances import read_rows
from dubito.core.problem import Request
from dubito.doubt import mean_probabilities, softmax
from dubito.matrix import BoolArray, FloatArray, IntArray, len_of
from dubito.request.arrays import check_integer, check_real
from dubito.strategies.base import Choice, require_probabilities, without_distances
from dubito.strategies.kmeans import cluster_centers, nearest_unpicked

CANDIDATES_PER_PICK = 25
MIN_PROBABILITY = 1e-300
"""Smaller probabilities are replaced by this before taking logarithms."""


@dataclass(frozen=True, slots=True)
class LinearHead:
    """Weights (d, k) and biases (k,) of the k classes that have probabilities above 0."""

    weights: FloatArray
    biases: FloatArray
    classes: IntArray
    n_classes: int

    def predict(self, points: FloatArray) -> IntArray:
        """(n,) the most probable class."""
        return np.asarray(self.classes[(points @ self.weights + self.biases).argmax(axis=1)])

    def probabilities(self, points: FloatArray) -> FloatArray:
        probabilities = np.zeros((len(points), self.n_classes))
        probabilities[:, self.classes] = softmax(points @ self.weights + self.biases)
        return probabilities


def linear_head(points: FloatArray, probabilities: FloatArray) -> LinearHead:
    """The linear model that gives these probabilities, by least squares of their logarithms over at most 4,096 rows.

    Examples
    --------
    >>> points = np.array([[0.0], [1.0], [2.0]])
    >>> head = linear_head(points, softmax(points * [1.0, 3.0] + [1.0, 0.0]))
    >>> (head.weights[0, 1] - head.weights[0, 0]).round(6), (head.biases[1] - head.biases[0]).round(6)
    (np.float64(2.0), np.float64(-1.0))
    """
    rows = sample_rows(np.arange(len(points)))
    classes = np.flatnonzero(probabilities.max(axis=0) > 0.0)
    logits = np.log(np.maximum(probabilities[np.ix_(rows, classes)], MIN_PROBABILITY))
    logits -= logits.mean(axis=1, keepdims=True)
    solution = np.linalg.lstsq(np.column_stack([points[rows], np.ones(len(rows))]), logits, rcond=None)[0]
    return LinearHead(solution[:-1], solution[-1], classes, probabilities.shape[1])


@dataclass(frozen=True, slots=True)
class DropQuery:
    """Of the candidates whose prediction changes when features are dropped, those nearest the K-means centers.

    Parameters
    ----------
    rate : float
        The share of the features that is dropped.
    passes : int
        How often features are dropped. More than half of the passes must change the prediction, or fewer passes if
        otherwise less than 25 candidates per pick would remain.
    """

    name: ClassVar[str] = "dropquery"
    uses_engine: ClassVar[bool] = False
    rate: float = 0.75
    passes: int = 3

    def __post_init__(self) -> None:
        check_real("rate", self.rate, least=0.0)
        check_integer("passes", self.passes, least=1)

    def plan(self, request: Request) -> None:
        require_probabilities(request, self.name)

    def choose(self, request: Request) -> Choice:
        """Priorities are NaN: the picks have no order of merit."""
        points, probabilities = read_candidates(request, self.name)
        head, rng = linear_head(points, probabilities), np.random.default_rng(request.seed)
        predicted, n_changed = probabilities.argmax(axis=1), np.zeros(len(points), dtype=np.int64)
        for _ in range(self.passes):
            kept = rng.random(points.shape) >= self.rate
            n_changed += head.predict(points * kept / max(1.0 - self.rate, 1e-12)) != predicted
        threshold = self.passes // 2
        while threshold > 0 and (n_changed > threshold).sum() < CANDIDATES_PER_PICK * request.budget:
            threshold -= 1
        return one_of_each_cluster(request, points, n_changed > threshold, rng)


@dataclass(frozen=True, slots=True)
class AlfaMix:
    """Of the candidates whose prediction changes when mixed with a class mean, those nearest the K-means centers.

    The mixture is the one, at most 0.2/√d long in units of the distance, that changes the loss most.
    """

    name: ClassVar[str] = "alfamix"
    uses_engine: ClassVar[bool] = False

    def plan(self, request: Request) -> None:
        require_probabilities(request, self.name)

    def choose(self, request: Request) -> Choice:
        """Priorities are NaN: the picks have no order of merit."""
        points, probabilities = read_candidates(request, self.name)
        head, rng = linear_head(points, probabilities), np.random.default_rng(request.seed)
        predicted = head.predict(points)
        labeled = read_rows(request.references, slice(0, len_of(request.references)), request.metric)
        classes = head.predict(labeled) if len(labeled) else np.empty(0, dtype=np.int64)
        errors = head.probabilities(points)
        errors[np.arange(len(points)), predicted] -= 1.0
        gradients = errors[:, head.classes] @ head.weights.T
        lengths = np.linalg.norm(gradients, axis=1, keepdims=True)
        is_changed = np.zeros(len(points), dtype=np.bool_)
        for code in np.unique(classes):
            to_mean = labeled[classes == code].mean(axis=0) - points
            with np.errstate(divide="ignore", invalid="ignore"):
                share = np.linalg.norm(to_mean, axis=1, keepdims=True) * gradients / (lengths * to_mean)
            share = 0.2 / np.sqrt(points.shape[1]) * np.nan_to_num(share, posinf=0.0, neginf=0.0)
            is_changed |= head.predict(points + share * to_mean) != predicted
        return one_of_each_cluster(request, points, is_changed, rng)


def read_candidates(request: Request, strategy: str) -> tuple[FloatArray, FloatArray]:
    """(n, d) features and (n, c) probabilities of the candidates."""
    probabilities = require_probabilities(request, strategy)
    points = read_rows(request.pool, request.candidates, request.metric)
    return points, mean_probabilities(probabilities[request.candidates])


def one_of_each_cluster(request: Request, points: FloatArray, is_kept: BoolArray, rng: np.random.Generator) -> Choice:
    """The kept candidate nearest each of b K-means centers; if too few are kept, all of them and random others."""
    kept = np.flatnonzero(is_kept)
    if len(kept) < request.budget:
        others = rng.choice(np.flatnonzero(~is_kept), request.budget - len(kept), replace=False)
        picks = np.concatenate([kept, others])
    else:
        lengths = np.linalg.norm(points[kept], axis=1, keepdims=True)
        unit = points[kept] / np.where(lengths > 0.0, lengths, 1.0)
        picks = kept[nearest_unpicked(unit, cluster_centers(unit, request.budget, request.seed))]
    return without_distances(request, request.candidates[picks], np.full(request.budget, np.nan))
