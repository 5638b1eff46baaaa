"""Estimated accuracy of a model on the rows without a label, from labels of rows that were drawn at random.

The estimate is model-assisted (a difference estimator, as in prediction-powered inference and active statistical
inference, arXiv 2301.09633 and 2403.03208): the model's mean confidence on the unlabeled rows, corrected by what the
randomly drawn labels say about it. A row is drawn from the rows that had no label at that time. Rows that were labeled
later are no longer among the unlabeled rows, so their known results are subtracted (as in Farquhar et al., arXiv
2101.11665).

The interval contains every accuracy that a score test does not reject. The test shifts the logits of the confidences
until their mean on the unlabeled rows is that accuracy. With equal confidences and a large pool this is Wilson's
interval.
"""

from collections.abc import Mapping
from typing import NamedTuple

import numpy as np

from dubito.errors import InvalidArgument, InvalidData
from dubito.matrix import AnyArray, FloatArray, IntArray
from dubito.models.held_out import Z
from dubito.request.ids import RowIds
from dubito.request.labels import as_labels
from dubito.request.rows import rows_in_order

MIN_DRAWN = 5
"""Minimum number of randomly drawn labels for an estimate."""
MIN_CONFIDENCE = 1e-3
"""Confidences are clipped to this and to 1 minus this."""
BINS = 256
"""Confidences are rounded to this many equidistant logits."""
SHIFTS = np.linspace(-12.0, 12.0, 2401)
"""Shifts of the logits that are tested."""
SLOPE, SLOPE_DEVIATION = 0.5, 0.5
"""Mean and standard deviation of the prior of the slope, by which the logits of the confidences are multiplied: it is 1
if confidences are calibrated, and 0 if they do not distinguish correct from incorrect predictions."""
PRIOR_LABELS = 20.0
"""Weight of the assumption that the variance is the binomial one, as a number of labels."""


class AccuracyEstimate(NamedTuple):
    """Estimated share of the unlabeled rows whose class the model predicts correctly, with a 95% interval."""

    value: float
    low: float
    high: float
    n_drawn: int
    """Number of randomly drawn labels."""
    n_unlabeled: int

    def __str__(self) -> str:
        return f"{self.value:.1%} ({self.low:.1%} to {self.high:.1%})"


def estimate_accuracy(
    is_right: AnyArray, confidence: FloatArray, weights: FloatArray, unlabeled: FloatArray
) -> AccuracyEstimate | None:
    """Estimate the accuracy of a model on the unlabeled rows; None with fewer than `MIN_DRAWN` random labels.

    Parameters
    ----------
    is_right : array (m,)
        Whether held-out predictions of the labeled rows are right, in the order in which they were labeled.
    confidence : array (m,)
        The largest probability of each held-out prediction.
    weights : array (m,)
        0 for rows that were chosen. For rows that were drawn at random, 1, or proportional to 1 over the known
        probability with which the row was drawn.
    unlabeled : array (u,)
        The largest probability of each unlabeled row.

    Examples
    --------
    >>> confidence, is_right = np.full(10, 0.8), np.arange(10) > 0
    >>> print(estimate_accuracy(is_right, confidence, np.ones(10), np.full(1000, 0.8)))
    89.9% (59.4% to 98.2%)
    """
    from scipy.special import expit

    is_drawn = weights > 0.0
    n_drawn, n_unlabeled, n_labels = int(is_drawn.sum()), len(unlabeled), len(weights)
    if n_drawn < MIN_DRAWN or not n_unlabeled:
        return None
    relative_weights = weights / weights[is_drawn].mean()
    n_before = n_unlabeled + np.arange(n_labels, 0, -1)  # Number of unlabeled rows just before each label was assigned.
    # The weight of each label's residual in the mean of the estimates of all draws.
    factors = (relative_weights * n_before - np.cumsum(is_drawn)) / (n_drawn * n_unlabeled)

    logits, unlabeled_logits = _logits(confidence), _logits(unlabeled)
    slope = _fitted_slope(logits[is_drawn], is_right[is_drawn], relative_weights[is_drawn])
    edges = np.linspace(_logits(np.zeros(1))[0], _logits(np.ones(1))[0], BINS + 1)
    shifted = expit(slope * (edges[1:] + edges[:-1])[:, None] / 2.0 + SHIFTS)
    variances = shifted * (1.0 - shifted)

    def weighted_sum(logits: FloatArray, weights: FloatArray, values: FloatArray) -> FloatArray:
        return np.asarray(np.histogram(logits, edges, weights=weights)[0] @ values)

    equal = np.full(n_unlabeled, 1.0 / n_unlabeled)
    means = weighted_sum(unlabeled_logits, equal, shifted)
    errors = float(factors @ is_right) - weighted_sum(logits, factors, shifted)
    variance = weighted_sum(logits, factors**2, variances) + weighted_sum(unlabeled_logits, equal**2, variances)
    best = int(np.abs(errors).argmin())

    predicted = expit(slope * logits[is_drawn] + SHIFTS[best])
    squares = factors[is_drawn] ** 2
    observed = float(squares @ (is_right[is_drawn] - predicted) ** 2)
    binomial = float(squares @ (predicted * (1.0 - predicted)))
    excess = (PRIOR_LABELS + n_drawn * observed / binomial) / (PRIOR_LABELS + n_drawn)
    limit = Z * np.sqrt(variance * max(1.0, excess))
    accepted = np.append(np.flatnonzero(np.abs(errors) <= limit), best)
    first, last = int(accepted.min()), int(accepted.max())
    value = float(np.clip(means[best] + errors[best], 0.0, 1.0))
    low = 0.0 if first == 0 else min(float(means[first]), value)
    high = 1.0 if last == len(SHIFTS) - 1 else max(float(means[last]), value)
    return AccuracyEstimate(value, low, high, n_drawn, n_unlabeled)


def _logits(confidence: AnyArray) -> FloatArray:
    clipped = np.clip(np.asarray(confidence, dtype=np.float64), MIN_CONFIDENCE, 1.0 - MIN_CONFIDENCE)
    return np.asarray(np.log(clipped) - np.log1p(-clipped))


def _fitted_slope(logits: FloatArray, is_right: AnyArray, weights: FloatArray) -> float:
    """The slope of a logistic regression of `is_right` on the logits, between 0 and 1.5; its prior is `SLOPE`."""
    from scipy.special import expit

    design = np.column_stack([np.ones(len(logits)), logits])
    mean, precision = np.array([0.0, SLOPE]), np.array([0.05, SLOPE_DEVIATION**-2])
    coefficients = mean.copy()
    for _ in range(30):
        expected = expit(design @ coefficients)
        gradient = design.T @ (weights * (is_right - expected)) - precision * (coefficients - mean)
        hessian = (design.T * (weights * expected * (1.0 - expected))) @ design + np.diag(precision)
        coefficients += np.clip(np.linalg.solve(hessian, gradient), -1.0, 1.0)
    return float(np.clip(coefficients[1], 0.0, 1.5))


def estimate_held_out(
    held_out: FloatArray | None,
    probabilities: FloatArray | None,
    labels: AnyArray,
    rows: IntArray,
    weights: FloatArray,
    order: IntArray,
) -> AccuracyEstimate | None:
    """`estimate_accuracy` with the predictions of a fitted model.

    Parameters
    ----------
    held_out : array (m, c), optional
        Held-out probabilities of the labeled rows; NaN for the only label of a class, which cannot be held out.
    probabilities : array (n, c), optional
        Probabilities of all rows of the pool.
    labels : array (m,)
        The labels; their sorted distinct values are the columns of both arrays of probabilities.
    rows : array (m,)
        The labeled rows.
    weights : array (m,)
        As in `estimate_accuracy`.
    order : array (m,)
        Indices of the labels in the order in which they were made.
    """
    if held_out is None or probabilities is None or not weights.any():
        return None
    is_unlabeled = np.ones(len(probabilities), dtype=np.bool_)
    is_unlabeled[rows] = False
    unlabeled = probabilities[is_unlabeled].max(axis=1)
    if not len(unlabeled):
        return None
    is_tested = ~np.isnan(held_out[:, 0])
    codes = np.unique(as_labels(labels), return_inverse=True)[1]
    is_right = is_tested & (held_out.argmax(axis=1) == codes)
    confidence = np.where(is_tested, held_out.max(axis=1), unlabeled.mean())
    return estimate_accuracy(is_right[order], confidence[order], weights[order], unlabeled)


def weights_of_drawn(drawn: object, n_pool: int, names: RowIds) -> FloatArray:
    """(n,) the weights of `estimate_accuracy` from the argument ``drawn`` of `dubito.fit`: 0 for rows not drawn."""
    weights = np.zeros(n_pool)
    if not isinstance(drawn, Mapping):
        weights[rows_in_order("drawn", drawn, n_pool, names)] = 1.0
        return weights
    hint = "give each drawn row the probability with which it was drawn, above 0 and at most 1."
    probabilities = np.empty(len(drawn))
    for number, value in enumerate(drawn.values()):
        try:
            probabilities[number] = float(value)
        except (TypeError, ValueError, OverflowError):
            raise InvalidArgument("is not a probability", argument="drawn", value=value, hint=hint) from None
    wrong = np.flatnonzero(~((probabilities > 0.0) & (probabilities <= 1.0)))
    if len(wrong):
        raise InvalidData("is not a probability", argument="drawn", value=float(probabilities[wrong[0]]), hint=hint)
    weights[rows_in_order("drawn", list(drawn), n_pool, names)] = 1.0 / probabilities
    return weights
