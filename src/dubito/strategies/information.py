"""What labels would tell: the mutual information between labels and k samples of a model's posterior.

A *labelling* gives every point of a batch a class. Beside each labelling stands the posterior it would leave over the
k samples, so that the information in one more label is the mean over labellings of what BALD would say then. This
is BatchBALD's difference of joint entropies, without numbers that vanish as batches grow.
"""

from dataclasses import dataclass

import numpy as np

from dubito.matrix import AnyArray, FloatArray

TIE_DIGITS = 12
"""Decimals of a gain in nats that count: beyond them equal rows may differ by the order of additions."""


@dataclass(frozen=True, slots=True, eq=False)
class Labellings:
    """Labellings of a batch: all that can happen, or a sample of them."""

    weights: FloatArray
    """(l,) how probable each is; they add up to 1."""
    posterior: FloatArray
    """(l, k) how probable each posterior sample is, given the labelling; rows add up to 1."""


def unlabelled(n_samples: int) -> Labellings:
    """The one labelling of an empty batch: every posterior sample is as probable as another."""
    return Labellings(np.ones(1), np.full((1, n_samples), 1.0 / n_samples))


def information_gain(probabilities: AnyArray, labellings: Labellings) -> FloatArray:
    """Mutual information in nats between each point's label and the posterior samples, once a batch is labelled.

    Parameters
    ----------
    probabilities : array (n, k, c)
        Of each class, by each posterior sample.
    labellings : Labellings
        Of the batch; `unlabelled` gives BALD's score.

    Returns (n,) numbers from 0 to ln k, rounded to 12 decimals. O(l·k·n·c) time, O(l·n·c) memory.

    Examples
    --------
    >>> split, agreed = [[1.0, 0.0], [0.0, 1.0]], [[0.5, 0.5], [0.5, 0.5]]
    >>> information_gain(np.array([split, agreed]), unlabelled(2)).round(4).tolist()
    [0.6931, 0.0]
    """
    n_points, n_samples, n_classes = probabilities.shape
    by_sample = np.ascontiguousarray(probabilities.transpose(1, 0, 2)).reshape(n_samples, -1)
    expected = labellings.weights @ negative_entropies(labellings.posterior @ by_sample)
    certain = (labellings.weights @ labellings.posterior) @ negative_entropies(by_sample)
    gain = (certain - expected).reshape(n_points, n_classes).sum(axis=1)
    return np.asarray(np.round(np.maximum(gain, 0.0), TIE_DIGITS))


def negative_entropies(probabilities: FloatArray) -> FloatArray:
    """``p·log p`` of each number, 0 at 0; never more than 0."""
    # Every logarithm at once is several times as fast as those of some.
    logs = np.maximum(probabilities, np.finfo(np.float64).tiny)
    np.log(logs, out=logs)
    logs *= probabilities
    return logs


def extend(labellings: Labellings, probabilities: FloatArray, most: int, rng: np.random.Generator) -> Labellings:
    """Labellings of a batch with one more point.

    All that can happen, while they are no more than ``most``; beyond, ``most`` of them drawn in proportion to their
    probability, a draw for each equal share of it: once drawn, a labelling goes on with a label of its own.

    Parameters
    ----------
    labellings : Labellings
        Of the batch before.
    probabilities : array (k, c)
        Of the new point.
    """
    chances = labellings.posterior @ probabilities
    joint = labellings.weights[:, None] * chances
    parents, labels = np.nonzero(joint > 0.0)
    weights = joint[parents, labels]
    if len(weights) > most:
        steps = np.cumsum(weights)
        draws = (np.arange(most) + rng.random(most)) / most * steps[-1]
        # Rounding may put the last draw on the end.
        drawn = np.minimum(np.searchsorted(steps, draws, side="right"), len(steps) - 1)
        parents, labels, weights = parents[drawn], labels[drawn], np.ones(most)
    posterior = labellings.posterior[parents] * probabilities.T[labels]
    return Labellings(weights / weights.sum(), posterior / posterior.sum(axis=1, keepdims=True))
