"""A Gaussian mixture of the pool, and the paper's modified BatchBALD score of a batch under it (M-bBALD).

The K components are used like posterior samples with equal probabilities. A point has a binary label, which under
component k is 1 with the probability that k is responsible for the point. The score of a batch is the mutual
information of its labels and the component, from 0 to ln K.
"""

import warnings
from dataclasses import dataclass
from typing import TYPE_CHECKING, ClassVar, Literal, get_args

import numpy as np

from dubito.core.distances import read_rows
from dubito.core.problem import Request
from dubito.errors import InvalidArgument
from dubito.matrix import AnyArray, FloatArray, IntArray, blocks
from dubito.request.arrays import check_choice, check_integer, check_real
from dubito.strategies.base import Choice, require_doubt, without_distances

if TYPE_CHECKING:
    from sklearn.mixture import GaussianMixture

Covariance = Literal["full", "tied", "diag", "spherical"]

FARTHEST = 1e6
"""In standard deviations. Farther points are moved to this distance, so that squares do not overflow."""
LEAST_PROBABILITY = 1e-12
"""Probabilities are clipped to this distance from 0 and 1, so that logarithms are finite."""
POINTS_PER_BLOCK = 1024


@dataclass(frozen=True, slots=True, eq=False)
class ClippedScale:
    """Center and spread of features."""

    center: FloatArray
    """(d,)"""
    deviation: FloatArray
    """(d,) the standard deviation of each feature; 1 for constant features."""

    def standardize(self, points: AnyArray) -> FloatArray:
        """(n, d) in standard deviations from the center."""
        return np.clip((np.asarray(points, dtype=np.float64) - self.center) / self.deviation, -FARTHEST, FARTHEST)


def scale_of(points: AnyArray) -> ClippedScale:
    """Mean and standard deviation of each feature."""
    points = np.asarray(points, dtype=np.float64)
    deviation = points.std(axis=0)
    return ClippedScale(points.mean(axis=0), np.where(deviation > 0, deviation, 1.0))


@dataclass(frozen=True, slots=True, eq=False)
class Mixture:
    """A mixture fitted to standardized features."""

    model: "GaussianMixture"
    scale: ClippedScale

    @property
    def components(self) -> int:
        return int(self.model.n_components)

    def log_density(self, points: AnyArray) -> FloatArray:
        """(n,) logarithm of the density at each point, in the units of the features."""
        inside = np.asarray(self.model.score_samples(self.scale.standardize(points)))
        return np.asarray(inside - np.log(self.scale.deviation).sum())


def fit_mixture(
    points: AnyArray,
    components: int = 32,
    *,
    covariance: Covariance = "diag",
    seed: int = 0,
    scale: ClippedScale | None = None,
) -> Mixture:
    """Fit a Gaussian mixture by expectation-maximization, initialized with K-means.

    Parameters
    ----------
    points : array (n, d)
        Features.
    components : int
        K; n if there are fewer points.
    covariance : {"full", "tied", "diag", "spherical"}
        The covariance of the components. ``full`` takes d times as long as ``diag``.
    seed : int
        For K-means.
    scale : ClippedScale, optional
        The scale of the features, by default that of the points.

    Returns a Mixture. O(n·K·d) time per step with ``diag``; stops after 100 steps, converged or not.

    Examples
    --------
    >>> mixture = fit_mixture(np.array([[0.0], [0.1], [5.0], [5.1]]), 2)
    >>> mixture_probabilities(mixture, np.array([[0.0], [5.0]])).max(axis=1).round(3).tolist()
    [1.0, 1.0]
    """
    from sklearn.exceptions import ConvergenceWarning
    from sklearn.mixture import GaussianMixture

    scale = scale_of(points) if scale is None else scale
    model = GaussianMixture(min(components, len(points)), covariance_type=covariance, random_state=seed % 2**32)
    with warnings.catch_warnings():
        # The fit is used even with fewer distinct points than components, or without convergence.
        warnings.simplefilter("ignore", ConvergenceWarning)
        # scikit-learn requires two points; repeating a single point gives the same density.
        standard = scale.standardize(points)
        model.fit(standard if len(standard) > 1 else np.repeat(standard, 2, axis=0))
    return Mixture(model, scale)


def mixture_probabilities(mixture: Mixture, points: AnyArray) -> FloatArray:
    """Responsibility of each component for each point: ``P(y=1 | x, θ_k)``, shape (n, K); rows sum to 1.

    Examples
    --------
    >>> mixture = fit_mixture(np.array([[-1.0], [-1.0], [1.0], [1.0]]), 2)
    >>> mixture_probabilities(mixture, np.array([[0.0]])).round(2).tolist()
    [[0.5, 0.5]]
    """
    if len(points) == 0:
        return np.empty((0, mixture.components))
    return np.asarray(mixture.model.predict_proba(mixture.scale.standardize(points)))


def batch_scores(
    probabilities: FloatArray,
    batches: IntArray,
    *,
    given: FloatArray | None = None,
    samples: int = 1024,
    seed: int = 0,
) -> FloatArray:
    """M-bBALD of batches in nats: ``H(y_1..y_b) - mean_k Σ_i H(y_i | θ_k)`` of each.

    Exact, over all ``2**(b + m)`` labelings of a batch and the m labeled points, if these are at most ``samples``.
    Otherwise the mean over ``samples`` labelings (rounded up to a multiple of K), drawn in equal numbers from each
    component: unbiased, and with the same random numbers for all batches, so that differences are precise.

    Parameters
    ----------
    probabilities : array (n, K)
        ``P(y=1 | x, θ_k)``, from `mixture_probabilities`.
    batches : array (number, b)
        Rows of ``probabilities``.
    given : array (m, K), optional
        The same for the labeled points, which are added to every batch.
    samples : int
        Maximum number of labelings, or number of labelings drawn.
    seed : int
        For drawing labelings.

    Returns (number,) scores from 0 to ln K. O((number·b + m)·K·samples) time, O((b + K)·samples) memory.

    Examples
    --------
    >>> batch_scores(np.eye(4), np.array([[0, 1], [2, 2]])).round(3).tolist()
    [1.04, 0.562]
    """
    probabilities = np.clip(probabilities, LEAST_PROBABILITY, 1.0 - LEAST_PROBABILITY)
    given = np.clip(probabilities[:0] if given is None else given, LEAST_PROBABILITY, 1.0 - LEAST_PROBABILITY)
    if 2 ** (batches.shape[1] + len(given)) <= samples:
        return np.array([_exact_score(np.concatenate([given, probabilities[batch]])) for batch in batches])
    rng, n_components = np.random.default_rng(seed), probabilities.shape[1]
    draws = n_components, -(-samples // n_components)
    known = np.zeros((draws[0] * draws[1], n_components))
    for span in blocks(len(given), POINTS_PER_BLOCK):
        known += _drawn_logs(given[span], rng.random((len(given[span]), *draws)))
    uniforms = rng.random((batches.shape[1], *draws))
    return np.array([learned(known + _drawn_logs(probabilities[batch], uniforms)).mean() for batch in batches])


def _exact_score(probabilities: FloatArray) -> float:
    """The score by all labelings of a batch (b, K)."""
    n_points = len(probabilities)
    labels = (np.arange(2**n_points)[:, None] >> np.arange(n_points)) & 1
    logs = _labeling_logs(labels.astype(np.float64), probabilities)
    return float(np.exp(logs).mean(axis=1) @ learned(logs))


def _drawn_logs(probabilities: FloatArray, uniforms: FloatArray) -> FloatArray:
    """`_labeling_logs` of labelings drawn from each component with ``uniforms`` (b, K, r)."""
    labels = (uniforms < probabilities[:, :, None]).reshape(len(probabilities), -1)
    return _labeling_logs(labels.T.astype(np.float64), probabilities)


def _labeling_logs(labels: FloatArray, probabilities: FloatArray) -> FloatArray:
    """Logarithm of P(labeling | θ_k), shape (l, K), of labelings (l, b) of points (b, K)."""
    misses = np.log1p(-probabilities)
    return np.asarray(labels @ (np.log(probabilities) - misses) + misses.sum(axis=0))


def learned(logs: FloatArray) -> FloatArray:
    """The information of each labeling about the component: ln K minus the remaining entropy.

    ``logs`` (l, K) are log P(labeling | θ_k). The mean over labelings is the mutual information, like a difference of
    joint entropies; but each value is between 0 and ln K, so that the mean over a sample has a small variance.

    Examples
    --------
    >>> learned(np.array([[0.0, 0.0], [0.0, -1e9]])).round(4).tolist()
    [0.0, 0.6931]
    """
    logs = logs - logs.max(axis=1, keepdims=True)
    posterior = np.exp(logs)
    total = posterior.sum(axis=1)
    entropy = np.log(total) - (posterior * logs).sum(axis=1) / total
    return np.asarray(np.maximum(np.log(logs.shape[1]) - entropy, 0.0))


# The probabilistic core-set (appendix).


@dataclass(frozen=True, slots=True)
class ProbabilisticCoreset:
    """The random batch with the largest M-bBALD score (see `dubito.strategies.mixture`), of many.

    With labeled points, a mixture is fitted to them, candidates that are more likely under it than a quantile are
    dropped, a second mixture is fitted to the rest, and batches are scored together with the labeled points. The paper
    found it barely better than random: the score is at most ln K, and all batches of many more points than components
    come near that.

    Copies the candidates to float64 and needs K numbers per candidate. O(n·K·d) time for each step of a fit with
    ``diag``, then O((batches·b + m)·K·samples).

    Parameters
    ----------
    components : int
        K; large on purpose.
    batches : int
        Number of random batches.
    quantile : float
        The fraction of candidates to keep if there are labeled points: the least likely ones, at least the budget.
    exploit : float
        Weight of the batch's mean doubt, the rest being the weight of its score divided by ln K. The paper's
        exploitive variant has 0.1.
    covariance : {"full", "tied", "diag", "spherical"}
        The covariance of the components, which the paper does not specify.
    samples : int
        Maximum number of labelings in a score; if a batch has more, a sample of this size is used.
    """

    name: ClassVar[str] = "probabilistic-coreset"
    uses_engine: ClassVar[bool] = False
    uses_doubt: ClassVar[bool] = False
    components: int = 32
    batches: int = 1000
    quantile: float = 0.5
    exploit: float = 0.0
    covariance: Covariance = "diag"
    samples: int = 1024

    def __post_init__(self) -> None:
        for name in ("batches", "samples"):
            check_integer(name, getattr(self, name), least=1)
        check_integer("components", self.components, least=2)
        _check_fraction("quantile", self.quantile)
        _check_fraction("exploit", self.exploit)
        check_choice("covariance", self.covariance, get_args(Covariance))

    def plan(self, request: Request) -> None:
        if self.exploit > 0:
            require_doubt(request, self.name)

    def choose(self, request: Request) -> Choice:
        """The priority of every pick is the score of the batch, weighted with ``exploit``; picks have no order."""
        doubt = require_doubt(request, self.name)[request.candidates] if self.exploit > 0 else None
        rng = np.random.default_rng(request.seed)
        points = read_rows(request.pool, request.candidates, request.metric)
        labeled = read_rows(request.references, slice(None), request.metric)
        scale = scale_of(points)
        kept = np.arange(len(points))
        if len(labeled):
            kept = self._least_likely(self._fit(labeled, scale, rng).log_density(points), request.budget)
        mixture = self._fit(points[kept], scale, rng)
        batches = draw_batches(len(kept), request.budget, self.batches, rng)
        scores = batch_scores(
            mixture_probabilities(mixture, points[kept]),
            batches,
            given=mixture_probabilities(mixture, labeled),
            samples=self.samples,
            seed=int(rng.integers(2**32)),
        )
        if doubt is not None:
            most = np.log(max(mixture.components, 2))
            scores = (1.0 - self.exploit) * scores / most + self.exploit * doubt[kept[batches]].mean(axis=1)
        best = int(scores.argmax())
        picks = request.candidates[kept[batches[best]]]
        return without_distances(request, picks, np.full(request.budget, scores[best]))

    def _fit(self, points: FloatArray, scale: ClippedScale, rng: np.random.Generator) -> Mixture:
        seed = int(rng.integers(2**32))
        return fit_mixture(points, self.components, covariance=self.covariance, seed=seed, scale=scale)

    def _least_likely(self, likelihood: FloatArray, budget: int) -> IntArray:
        """Positions of the points whose likelihood is at most the quantile, ascending; at least ``budget``."""
        is_kept = likelihood <= np.quantile(likelihood, self.quantile)
        is_kept[np.argsort(likelihood, kind="stable")[:budget]] = True
        return np.flatnonzero(is_kept)


def draw_batches(n_points: int, budget: int, number: int, rng: np.random.Generator) -> IntArray:
    """Random batches (number, b) of distinct points; only one batch if it contains all points.

    Examples
    --------
    >>> draw_batches(3, 3, 1000, np.random.default_rng(0)).shape
    (1, 3)
    """
    if budget == n_points:
        return np.arange(n_points)[None]
    return np.stack([rng.choice(n_points, budget, replace=False) for _ in range(number)])


def _check_fraction(name: str, value: object) -> None:
    if check_real(name, value, least=0.0) > 1.0:
        raise InvalidArgument("is not a fraction", argument=name, value=value, hint="pass a number from 0 to 1.")
