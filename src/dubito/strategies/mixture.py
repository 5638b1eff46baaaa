"""A Gaussian mixture of the pool, and the paper's modified BatchBALD score of a batch under it (M-bBALD).

The K components play the part of posterior samples, each as probable as another. A point has one binary label, which
is 1 under component k with the probability that k is responsible for the point. A batch's score is the mutual
information between its labels and the component: 0 where the labels tell nothing, and at most ln K.
"""

import warnings
from dataclasses import dataclass
from typing import TYPE_CHECKING, Literal

import numpy as np

from dubito.matrix import AnyArray, FloatArray, IntArray, blocks

if TYPE_CHECKING:
    from sklearn.mixture import GaussianMixture

Covariance = Literal["full", "tied", "diag", "spherical"]

FARTHEST = 1e6
"""Standard deviations; points beyond count as so far away, lest their squares overflow."""
LEAST_PROBABILITY = 1e-12
"""Labels are never more certain than this, so that every labelling has a logarithm."""
POINTS_AT_ONCE = 1024


@dataclass(frozen=True, slots=True, eq=False)
class ClippedScale:
    """Centre and spread of features."""

    centre: FloatArray
    """(d,)"""
    deviation: FloatArray
    """(d,) one standard deviation of each feature; 1 where it is constant."""

    def standardise(self, points: AnyArray) -> FloatArray:
        """(n, d) in standard deviations from the centre."""
        return np.clip((np.asarray(points, dtype=np.float64) - self.centre) / self.deviation, -FARTHEST, FARTHEST)


def scale_of(points: AnyArray) -> ClippedScale:
    """Mean and standard deviation of each feature."""
    points = np.asarray(points, dtype=np.float64)
    deviation = points.std(axis=0)
    return ClippedScale(points.mean(axis=0), np.where(deviation > 0, deviation, 1.0))


@dataclass(frozen=True, slots=True, eq=False)
class Mixture:
    """A mixture fitted to standardised features."""

    model: "GaussianMixture"
    scale: ClippedScale

    @property
    def components(self) -> int:
        """K."""
        return int(self.model.n_components)

    def log_density(self, points: AnyArray) -> FloatArray:
        """(n,) logarithm of the density at each point, in the units of the features."""
        inside = np.asarray(self.model.score_samples(self.scale.standardise(points)))
        return np.asarray(inside - np.log(self.scale.deviation).sum())


def fit_mixture(
    points: AnyArray,
    components: int = 32,
    *,
    covariance: Covariance = "diag",
    seed: int = 0,
    scale: ClippedScale | None = None,
) -> Mixture:
    """Fit a Gaussian mixture by expectation-maximisation, begun with K-means.

    Parameters
    ----------
    points : array (n, d)
        Features.
    components : int
        K; n where there are fewer points.
    covariance : {"full", "tied", "diag", "spherical"}
        Shape of the components. ``full`` costs d times as much as ``diag``.
    seed : int
        For K-means.
    scale : ClippedScale, optional
        Units to fit in, by default those of the points themselves.

    Returns a Mixture. O(n·K·d) time a step with ``diag``, and at most 100 steps: a fit not finished by then is taken
    as it is.

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
        # Fewer distinct points than components, or more steps wanted: the fit there is will do.
        warnings.simplefilter("ignore", ConvergenceWarning)
        # scikit-learn wants two points, and a point twice is the same density as once.
        standard = scale.standardise(points)
        model.fit(standard if len(standard) > 1 else np.repeat(standard, 2, axis=0))
    return Mixture(model, scale)


def mixture_probabilities(mixture: Mixture, points: AnyArray) -> FloatArray:
    """Responsibility of each component for each point: ``P(y=1 | x, θ_k)``, shape (n, K); rows add up to 1.

    Examples
    --------
    >>> mixture = fit_mixture(np.array([[-1.0], [-1.0], [1.0], [1.0]]), 2)
    >>> mixture_probabilities(mixture, np.array([[0.0]])).round(2).tolist()
    [[0.5, 0.5]]
    """
    if len(points) == 0:
        return np.empty((0, mixture.components))
    return np.asarray(mixture.model.predict_proba(mixture.scale.standardise(points)))


def batch_score(
    probabilities: FloatArray, *, given: FloatArray | None = None, samples: int = 1024, seed: int = 0
) -> float:
    """M-bBALD of one batch in nats: ``H(y_1..y_b) - mean_k Σ_i H(y_i | θ_k)``; see `batch_scores`.

    Parameters
    ----------
    probabilities : array (b, K)
        ``P(y=1 | x, θ_k)`` of the batch's points, from `mixture_probabilities`.

    Examples
    --------
    >>> apart, alike = np.eye(4)[:3], np.eye(4)[[0, 0, 0]]
    >>> round(batch_score(apart), 3), round(batch_score(alike), 3), round(float(np.log(4)), 3)
    (1.386, 0.562, 1.386)
    """
    batch = np.arange(len(probabilities))[None]
    return float(batch_scores(probabilities, batch, given=given, samples=samples, seed=seed)[0])


def batch_scores(
    probabilities: FloatArray,
    batches: IntArray,
    *,
    given: FloatArray | None = None,
    samples: int = 1024,
    seed: int = 0,
) -> FloatArray:
    """M-bBALD of many batches in nats.

    Exact, over all ``2**b`` labellings of a batch, while these are no more than ``samples``. Beyond, the mean over
    labellings drawn under each component in turn, ``samples`` in all (rounded up to a multiple of K); without bias,
    and with the same random numbers for every batch, so that batches are compared fairly.

    Parameters
    ----------
    probabilities : array (n, K)
        ``P(y=1 | x, θ_k)``, from `mixture_probabilities`.
    batches : array (number, b)
        Rows of ``probabilities``.
    given : array (m, K), optional
        The same of what is labelled; it joins every batch.
    samples : int
        Labellings at most, or drawn.
    seed : int
        For the draw.

    Returns (number,) scores from 0 to ln K. O(number·b·K·samples) time, O((b + K)·samples) memory.

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
    for span in blocks(len(given), POINTS_AT_ONCE):
        known += _drawn_logs(given[span], rng.random((len(given[span]), *draws)))
    uniforms = rng.random((batches.shape[1], *draws))
    return np.array([learned(known + _drawn_logs(probabilities[batch], uniforms)).mean() for batch in batches])


def _exact_score(probabilities: FloatArray) -> float:
    """The score by all labellings of a batch (b, K)."""
    n_points = len(probabilities)
    labels = (np.arange(2**n_points)[:, None] >> np.arange(n_points)) & 1
    logs = _labelling_logs(labels.astype(np.float64), probabilities)
    return float(np.exp(logs).mean(axis=1) @ learned(logs))


def _drawn_logs(probabilities: FloatArray, uniforms: FloatArray) -> FloatArray:
    """`_labelling_logs` of labellings drawn under each component in turn by ``uniforms`` (b, K, r)."""
    labels = (uniforms < probabilities[:, :, None]).reshape(len(probabilities), -1)
    return _labelling_logs(labels.T.astype(np.float64), probabilities)


def _labelling_logs(labels: FloatArray, probabilities: FloatArray) -> FloatArray:
    """Logarithm of P(labelling | θ_k), shape (l, K), of labellings (l, b) of points (b, K)."""
    misses = np.log1p(-probabilities)
    return np.asarray(labels @ (np.log(probabilities) - misses) + misses.sum(axis=0))


def learned(logs: FloatArray) -> FloatArray:
    """What each labelling tells of the component: ln K less the entropy left, from log P(labelling | θ_k) (l, K).

    Its mean over labellings is the mutual information, as a difference of joint entropies is; but it lies between 0
    and ln K for every single labelling, so that a sample of them goes a long way.

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
