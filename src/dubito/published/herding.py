"""MaxHerding, Uncertainty Herding and ProbCover: greedy coverage with a kernel on features of unit length.

MaxHerding (Bae, Noh and Sutherland, ECCV 2024) covers all candidates with a Gaussian kernel, Uncertainty Herding (Bae,
Sutherland and Oliveira, ICLR 2025) weights them by calibrated uncertainty and adapts the bandwidth, and ProbCover
(Yehuda et al., NeurIPS 2022) uses balls, whose radius follows from the purity of clusters. The authors' code computes
all pairs for each pick; `Coverage` computes only those that could change the pick, with the same result.
"""

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, ClassVar

import numpy as np

from dubito.core.distances import read_rows
from dubito.core.problem import Request
from dubito.doubt import margin_doubt, mean_probabilities
from dubito.errors import InvalidArgument
from dubito.experiments.seeds import derive_seed
from dubito.matrix import FloatArray, IntArray, blocks, len_of
from dubito.request.arrays import check_integer, check_positive, check_real
from dubito.strategies.base import Choice, Strategy, doubt_of, pick_one_by_one, require_doubt
from dubito.strategies.kmeans import cluster_points

if TYPE_CHECKING:
    from dubito.experiments.rounds import Turn, View

Kernel = Callable[[FloatArray], FloatArray]
"""Similarities in [0, 1] from squared distances."""

ROWS_AT_ONCE = 512
UPDATED_AT_ONCE = 64
"""Number of outdated gains that are recomputed together."""
MAX_CANDIDATES = 35_000
"""Uncertainty Herding and MaxHerding use at most this many candidates, drawn at random."""
TEMPERATURES = np.arange(1.0, 20.0, 0.1)
HELD_OUT = 0.3
"""The share of the labels on which a temperature is fitted."""


@dataclass(frozen=True, slots=True)
class MaxHerding:
    """Coverage of all candidates by a Gaussian kernel ``exp(-d²/h²)`` on features of unit length.

    O(n²·d) time for the first pick, a fraction of that for others.

    Parameters
    ----------
    bandwidth : float
        h; the authors use 1.
    """

    name: ClassVar[str] = "max-herding"
    uses_engine: ClassVar[bool] = False
    uses_doubt: ClassVar[bool] = False
    bandwidth: float = 1.0

    def __post_init__(self) -> None:
        check_positive("bandwidth", self.bandwidth)

    def choose(self, request: Request) -> Choice:
        """Priorities are gains of coverage."""
        request = with_fewer_candidates(request)
        return cover(request, np.ones(len(request.candidates)), gaussian(self.bandwidth))


@dataclass(frozen=True, slots=True)
class UncertaintyHerding:
    """`MaxHerding`, with candidates weighted by ``1 - (p1 - p2)``.

    Parameters
    ----------
    bandwidth : float, optional
        h; by default the smallest positive distance of two labeled points, or 1 if there are none.
    temperature : float
        Divisor of the logits. Experiments fit it with each model if it is 1: the model is trained on 70% of the labels,
        and the temperature from 1 to 20 with the least expected calibration error on the rest is used. The authors hold
        out the labels acquired last, this a random part.
    """

    name: ClassVar[str] = "uncertainty-herding"
    uses_engine: ClassVar[bool] = False
    bandwidth: float | None = None
    temperature: float = 1.0

    def __post_init__(self) -> None:
        if self.bandwidth is not None:
            check_positive("bandwidth", self.bandwidth)
        check_positive("temperature", self.temperature)

    def plan(self, request: Request) -> None:
        if len_of(request.references):
            require_doubt(request, self.name)

    def choose(self, request: Request) -> Choice:
        """Priorities are gains of coverage."""
        self.plan(request)
        request = with_fewer_candidates(request)
        bandwidth = smallest_distance(labeled_of(request)) if self.bandwidth is None else self.bandwidth
        return cover(request, self._weights(request), gaussian(bandwidth))

    def _weights(self, request: Request) -> FloatArray:
        """(candidates,) uncertainty; 1 if there is none, as before the first label."""
        if request.doubt is None:
            return np.ones(len(request.candidates))
        if request.probabilities is None or self.temperature == 1.0:
            return doubt_of(request, self.name, "margin")[request.candidates]
        probabilities = mean_probabilities(request.probabilities[request.candidates])
        return margin_doubt(with_temperature(probabilities, self.temperature))

    def in_simulation(self, turn: "Turn", view: "View") -> Strategy:
        """With the temperature of the current model."""
        return replace(self, temperature=held_out_temperature(turn)) if self.temperature == 1.0 else self


@dataclass(frozen=True, slots=True)
class ProbCover:
    """As many candidates as possible within a distance of a labeled or picked point, on features of unit length.

    Parameters
    ----------
    delta : float, optional
        The distance. By default the largest one at which the balls around 95% of the points contain points of a single
        K-means cluster, with as many clusters as classes. (The authors search a grid of 64 steps; this is exact.)
    purity : float
        The share of the balls that must contain a single cluster.
    classes : int, optional
        The number of clusters; by default the number of columns of the probabilities.
    """

    name: ClassVar[str] = "probcover"
    uses_engine: ClassVar[bool] = False
    delta: float | None = None
    purity: float = 0.95
    classes: int | None = None

    def __post_init__(self) -> None:
        if self.delta is not None:
            check_positive("delta", self.delta)
        check_real("purity", self.purity, least=0.0)
        if self.classes is not None:
            check_integer("classes", self.classes, least=1)

    def plan(self, request: Request) -> None:
        if self.delta is None and self.classes is None and request.probabilities is None:
            problem = "needs the number of classes, or class probabilities"
            raise InvalidArgument(problem, argument="strategy", value=self.name, hint="write probcover:classes=10.")

    def choose(self, request: Request) -> Choice:
        """Priorities are numbers of newly covered points. Once all are covered, the first rows follow."""
        self.plan(request)
        delta = self.delta or self._delta(request)
        return cover(request, np.ones(len(request.candidates)), ball(delta))

    def _delta(self, request: Request) -> float:
        points = np.concatenate([candidates_of(request), labeled_of(request)])
        n_classes = self.classes or (request.probabilities.shape[-1] if request.probabilities is not None else 1)
        cluster = cluster_points(points, min(n_classes, len(points)), request.seed)
        return purity_radius(points, cluster, self.purity)


# Greedy coverage.


class Coverage:
    """Greedy maximization of ``Σ w(x) · max over labeled and picked y of k(x, y)``; ties go to the first candidate.

    Gains never increase as coverage grows, so an outdated gain is an upper bound: only candidates whose bound exceeds
    the best gain are recomputed.
    """

    def __init__(self, points: FloatArray, covered: FloatArray, weights: FloatArray, kernel: Kernel) -> None:
        self.points, self.covered, self.weights, self.kernel = points, covered, weights, kernel
        self.sizes = (points * points).sum(axis=1)
        self.gains = np.empty(len(points))
        self.is_stale = np.zeros(len(points), dtype=np.bool_)
        self.is_picked = np.zeros(len(points), dtype=np.bool_)
        for span in blocks(len(points), ROWS_AT_ONCE):
            self._update(np.arange(span.start, span.stop))

    def pick(self) -> tuple[int, float]:
        """The candidate of largest gain, and its gain."""
        best = int(self.gains.argmax())
        while self.is_stale[best]:
            bounds = np.where(self.is_stale, self.gains, -np.inf)
            n_rows = min(UPDATED_AT_ONCE, int(self.is_stale.sum()))
            self._update(np.argpartition(-bounds, n_rows - 1)[:n_rows])
            best = int(self.gains.argmax())
        gain = float(self.gains[best])
        self.covered = np.maximum(self.covered, self._similarities(np.array([best]))[0])
        self.is_picked[best], self.gains[best] = True, -np.inf
        self.is_stale = ~self.is_picked
        return best, gain

    def _update(self, rows: IntArray) -> None:
        terms = self._similarities(rows) - self.covered
        self.gains[rows] = np.maximum(terms, 0.0, out=terms) @ self.weights
        self.is_stale[rows] = False

    def _similarities(self, rows: IntArray) -> FloatArray:
        squared = self.sizes[rows, None] + self.sizes - 2.0 * (self.points[rows] @ self.points.T)
        squared[np.arange(len(rows)), rows] = 0.0
        return self.kernel(np.maximum(squared, 0.0, out=squared))


def cover(request: Request, weights: FloatArray, kernel: Kernel) -> Choice:
    """Pick greedily to cover the candidates, starting from the coverage of the labeled points."""
    points, labeled = candidates_of(request), labeled_of(request)
    covered, sizes = np.zeros(len(points)), (labeled * labeled).sum(axis=1)
    for span in blocks(len(points), ROWS_AT_ONCE) if len(labeled) else ():
        block = points[span]
        squared = (block * block).sum(axis=1)[:, None] + sizes - 2.0 * (block @ labeled.T)
        covered[span] = kernel(np.maximum(squared, 0.0)).max(axis=1)
    return pick_one_by_one(request, Coverage(points, covered, weights, kernel).pick)


def gaussian(bandwidth: float) -> Kernel:
    """``exp(-d²/h²)``."""
    return lambda squared: np.exp(squared / -(bandwidth * bandwidth))


def ball(radius: float) -> Kernel:
    return lambda squared: np.asarray(squared < radius * radius, dtype=np.float64)


def candidates_of(request: Request) -> FloatArray:
    """Features of the candidates, of unit length."""
    return _unit_length(read_rows(request.pool, request.candidates, request.metric))


def labeled_of(request: Request) -> FloatArray:
    """Features of the labeled points, of unit length."""
    return _unit_length(read_rows(request.references, slice(0, len_of(request.references)), request.metric))


def _unit_length(points: FloatArray) -> FloatArray:
    """Scale rows to unit length; rows of zeros stay zeros."""
    lengths = np.sqrt((points * points).sum(axis=1, keepdims=True))
    return np.asarray(points / np.where(lengths > 0.0, lengths, 1.0))


def with_fewer_candidates(request: Request) -> Request:
    """The request with a random subset of the candidates, of the size that the authors use."""
    n_labeled = len_of(request.references) + request.budget
    limit = int(np.sqrt(45_000 * 45_000 + n_labeled**2 / 4) - 1.5 * n_labeled)
    n_kept = max(min(MAX_CANDIDATES, limit), request.budget)
    if n_kept >= len(request.candidates):
        return request
    kept = np.random.default_rng(request.seed).choice(request.candidates, n_kept, replace=False)
    return replace(request, candidates=np.sort(kept))


def smallest_distance(points: FloatArray) -> float:
    """The smallest positive distance of two points; 1 if there are none.

    Examples
    --------
    >>> smallest_distance(np.array([[0.0], [0.0], [3.0], [5.0]]))
    2.0
    """
    smallest = np.inf
    for row in range(1, len(points)):
        distances = np.linalg.norm(points[:row] - points[row], axis=1)
        smallest = min(smallest, distances[distances > 0.0].min(initial=np.inf))
    return float(smallest) if np.isfinite(smallest) else 1.0


def purity_radius(points: FloatArray, cluster: IntArray, purity: float) -> float:
    """The largest radius at which this share of the balls contains one cluster only; 2 if there is a single cluster.

    Examples
    --------
    >>> purity_radius(np.array([[0.0], [1.0], [5.0], [9.0]]), np.array([0, 0, 1, 1]), 0.5)
    5.0
    """
    nearest, sizes = np.full(len(points), np.inf), (points * points).sum(axis=1)
    for span in blocks(len(points), ROWS_AT_ONCE):
        squared = sizes[span, None] + sizes - 2.0 * (points[span] @ points.T)
        squared[cluster[span, None] == cluster] = np.inf
        nearest[span] = squared.min(axis=1)
    n_impure = int((1.0 - purity) * len(points))
    return float(np.sqrt(max(np.sort(nearest)[n_impure], 0.0))) if np.isfinite(nearest).all() else 2.0


# Calibration.


def with_temperature(probabilities: FloatArray, temperature: float) -> FloatArray:
    """Probabilities whose logits are divided by a temperature.

    Examples
    --------
    >>> with_temperature(np.array([[0.8, 0.2], [0.0, 1.0]]), 2.0).round(3).tolist()
    [[0.667, 0.333], [0.0, 1.0]]
    """
    powers = (probabilities / probabilities.max(axis=1, keepdims=True)) ** (1.0 / temperature)
    return np.asarray(powers / powers.sum(axis=1, keepdims=True))


def calibration_error(probabilities: FloatArray, labels: IntArray) -> float:
    """The expected calibration error, with as many bins of confidence as classes.

    Examples
    --------
    >>> round(calibration_error(np.array([[0.9, 0.1], [0.6, 0.4]]), np.array([0, 1])), 6)
    0.25
    """
    n_classes = probabilities.shape[1]
    confidence, is_right = probabilities.max(axis=1), probabilities.argmax(axis=1) == labels
    bins = np.ceil(confidence * n_classes).astype(np.int64)
    gaps = np.bincount(bins, weights=confidence - is_right, minlength=n_classes + 2)
    return float(np.abs(gaps).sum() / len(labels))


def held_out_temperature(turn: "Turn") -> float:
    """The temperature with the smallest calibration error on labels that the model is not trained on."""
    rows = np.random.default_rng(derive_seed(turn.seed_data.seed, "held-out", turn.number)).permutation(turn.rows)
    n_held_out = int(HELD_OUT * len(rows))
    if n_held_out == 0:
        return 1.0
    held_out, data = rows[:n_held_out], turn.seed_data.data
    fitted = turn.experiment.model.fit(replace(turn, rows=np.sort(rows[n_held_out:])).train_set({}))
    probabilities, labels = fitted.predict_proba(data.features[held_out]), data.labels[held_out]
    errors = [calibration_error(with_temperature(probabilities, each), labels) for each in TEMPERATURES]
    return float(TEMPERATURES[int(np.argmin(errors))])
