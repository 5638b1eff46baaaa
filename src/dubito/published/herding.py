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
from dubito.matrix import FloatArray, IntArray, Matrix, blocks, len_of
from dubito.request.arrays import check_integer, check_positive, check_real
from dubito.strategies.base import Choice, Strategy, doubt_of, pick_one_by_one, require_doubt
from dubito.strategies.kmeans import cluster_points

if TYPE_CHECKING:
    from dubito.experiments.rounds import Turn, View

Kernel = Callable[[FloatArray], FloatArray]
"""Similarities in [0, 1] from squared distances."""

ROWS_AT_ONCE = 512
STALE_AT_ONCE = 64
"""Number of candidates whose gains are brought up to date at once."""
MOST_CANDIDATES = 35_000
"""Uncertainty Herding and MaxHerding draw at most so many candidates at random."""
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
        labeled = unit_length(request, request.references, slice(0, len_of(request.references)))
        bandwidth = smallest_distance(labeled) if self.bandwidth is None else self.bandwidth
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
    """The greatest number of candidates within a distance of what is labeled or picked, on features of unit length.

    Parameters
    ----------
    delta : float, optional
        The distance. By default the largest at which the balls around 95% of the points hold one K-means cluster only,
        with as many clusters as classes. (The authors search it on a grid of 64 steps; this is the exact one.)
    purity : float
        The share of the balls.
    classes : int, optional
        The number of clusters; by default that of the columns of the probabilities.
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
        """Priorities are numbers of points covered anew. Once all are covered, the first rows follow."""
        self.plan(request)
        delta = self.delta or self._delta(request)
        return cover(request, np.ones(len(request.candidates)), ball(delta))

    def _delta(self, request: Request) -> float:
        labeled = unit_length(request, request.references, slice(0, len_of(request.references)))
        points = np.concatenate([unit_length(request, request.pool, request.candidates), labeled])
        n_classes = self.classes or (request.probabilities.shape[-1] if request.probabilities is not None else 1)
        cluster = cluster_points(points, min(n_classes, len(points)), request.seed)
        return pure_distance(points, cluster, self.purity)


# Greedy coverage.


class Coverage:
    """Greedy maximization of ``Σ w(x) · max over labeled and picked y of k(x, y)``; ties go to the first candidate.

    A gain only falls as coverage grows, so an old one is an upper bound: only candidates whose bound exceeds the best
    gain are computed again.
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
            n_rows = min(STALE_AT_ONCE, int(self.is_stale.sum()))
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
    """Cover the candidates, given those that what is labeled covers."""
    points = unit_length(request, request.pool, request.candidates)
    labeled = unit_length(request, request.references, slice(0, len_of(request.references)))
    covered, sizes = np.zeros(len(points)), (labeled * labeled).sum(axis=1)
    for span in blocks(len(points), ROWS_AT_ONCE) if len(labeled) else ():
        near = points[span]
        squared = (near * near).sum(axis=1)[:, None] + sizes - 2.0 * (near @ labeled.T)
        covered[span] = kernel(np.maximum(squared, 0.0)).max(axis=1)
    return pick_one_by_one(request, Coverage(points, covered, weights, kernel).pick)


def gaussian(bandwidth: float) -> Kernel:
    """``exp(-d²/h²)``."""
    return lambda squared: np.exp(squared / -(bandwidth * bandwidth))


def ball(radius: float) -> Kernel:
    return lambda squared: np.asarray(squared < radius * radius, dtype=np.float64)


def unit_length(request: Request, matrix: Matrix, rows: IntArray | slice) -> FloatArray:
    """Features of unit length; rows of zeros stay."""
    points = read_rows(matrix, rows, request.metric)
    lengths = np.sqrt((points * points).sum(axis=1, keepdims=True))
    return np.asarray(points / np.where(lengths > 0.0, lengths, 1.0))


def with_fewer_candidates(request: Request) -> Request:
    """The request with a random subset of the candidates, as large as the authors' memory allowed."""
    n_known = len_of(request.references) + request.budget
    fitting = int(np.sqrt(45_000 * 45_000 + n_known**2 / 4) - 1.5 * n_known)
    n_kept = max(min(MOST_CANDIDATES, fitting), request.budget)
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
    least = np.inf
    for row in range(1, len(points)):
        apart = np.linalg.norm(points[:row] - points[row], axis=1)
        least = min(least, apart[apart > 0.0].min(initial=np.inf))
    return float(least) if np.isfinite(least) else 1.0


def pure_distance(points: FloatArray, cluster: IntArray, purity: float) -> float:
    """The largest distance at which this share of the balls holds points of one cluster; 2 if there is one cluster.

    Examples
    --------
    >>> pure_distance(np.array([[0.0], [1.0], [5.0], [9.0]]), np.array([0, 0, 1, 1]), 0.5)
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
    """The temperature with the least calibration error on a part of the labels that the model is not trained on."""
    rows = np.random.default_rng(derive_seed(turn.seed_data.seed, "held-out", turn.number)).permutation(turn.rows)
    n_held = int(HELD_OUT * len(rows))
    if n_held == 0:
        return 1.0
    held, data = rows[:n_held], turn.seed_data.data
    fitted = turn.experiment.model.fit(replace(turn, rows=np.sort(rows[n_held:])).train_set({}))
    probabilities = fitted.predict_proba(data.features[held])
    errors = [calibration_error(with_temperature(probabilities, each), data.labels[held]) for each in TEMPERATURES]
    return float(TEMPERATURES[int(np.argmin(errors))])
