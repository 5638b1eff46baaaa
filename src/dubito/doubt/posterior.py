"""Doubt from posterior samples, split into what labels can reduce (epistemic) and what they cannot (aleatoric).

A *labeling* assigns a class to every point of a batch. Each labeling is stored with the posterior over the k samples
that it implies, so that the information gain of one more label is the mean BALD score over labelings. This equals
BatchBALD's difference of joint entropies, without probabilities that underflow as batches grow.
"""

from dataclasses import dataclass
from typing import NamedTuple

import numpy as np

from dubito.doubt.reading import check_probabilities
from dubito.errors import InvalidArgument
from dubito.matrix import READ_BYTES, AnyArray, FloatArray, IntArray, Matrix, blocks
from dubito.request.arrays import as_array

TIE_DIGITS = 12
"""Gains in nats are rounded to this many decimals, so that equal rows tie despite rounding errors."""


class SplitDoubt(NamedTuple):
    """Doubt about each point in two parts, in nats; their sum is the entropy of the mean prediction."""

    learnable: FloatArray
    """(n,) mutual information between class and posterior samples, from 0 to ln k: the samples' disagreement."""
    unlearnable: FloatArray
    """(n,) mean entropy of the samples: the uncertainty of each sample itself."""


def split_posterior(probabilities: object) -> SplitDoubt:
    """Split doubt into a part that labels can reduce and a part that is inherent in the data.

    Parameters
    ----------
    probabilities : array (n, k, c)
        Class probabilities of k posterior samples: passes with dropout, or members of an ensemble.

    Returns
    -------
    SplitDoubt
        Two arrays (n,). With one sample, the learnable part is 0. O(n·k·c) time.

    Examples
    --------
    >>> disagree, undecided = [[1.0, 0.0], [0.0, 1.0]], [[0.5, 0.5], [0.5, 0.5]]
    >>> learnable, unlearnable = split_posterior(np.array([disagree, undecided]))
    >>> learnable.round(4).tolist(), unlearnable.round(4).tolist()
    ([0.6931, 0.0], [0.0, 0.6931])
    """
    array = as_array("probabilities", probabilities)
    if array.ndim != 3:
        hint = "pass probabilities (n, k, classes) of k posterior samples."
        raise InvalidArgument(f"has shape {array.shape}", argument="probabilities", hint=hint)
    return _split(check_probabilities(array, len(array)))


def _split(probabilities: Matrix) -> SplitDoubt:
    n, k, c = probabilities.shape
    learnable, unlearnable, nothing = np.empty(n), np.empty(n), unlabeled(k)
    for span in blocks(n, max(1, READ_BYTES // (8 * k * c))):
        block = posterior_rows(probabilities, np.arange(span.start, span.stop))
        learnable[span] = information_gain(block, nothing)
        unlearnable[span] = -negative_entropies(block).sum(axis=2).mean(axis=1)
    return SplitDoubt(learnable, np.maximum(unlearnable, 0.0))


def learnable_doubt(probabilities: Matrix) -> FloatArray:
    """(n,) in [0, 1]: the learnable part of `split_posterior` divided by its maximum, ln(min(k, c)).

    Examples
    --------
    >>> disagree, undecided = [[1.0, 0.0], [0.0, 1.0]], [[0.5, 0.5], [0.5, 0.5]]
    >>> learnable_doubt(np.array([disagree, undecided])).tolist()
    [1.0, 0.0]
    """
    _, k, c = probabilities.shape
    return np.asarray(np.minimum(_split(probabilities).learnable / np.log(min(k, c)), 1.0))


def posterior_rows(probabilities: Matrix, rows: IntArray) -> FloatArray:
    """Rows in float64, normalized, since half-precision rows do not sum to 1."""
    block = np.array(probabilities[rows], dtype=np.float64)
    block /= block.sum(axis=2, keepdims=True)
    return block


@dataclass(frozen=True, slots=True, eq=False)
class Labelings:
    """All labelings of a batch, or a sample of them."""

    weights: FloatArray
    """(l,) probability of each labeling; they sum to 1."""
    posterior: FloatArray
    """(l, k) probability of each posterior sample given the labeling; rows sum to 1."""


def unlabeled(n_samples: int) -> Labelings:
    """The only labeling of an empty batch: all posterior samples are equally probable."""
    return Labelings(np.ones(1), np.full((1, n_samples), 1.0 / n_samples))


def information_gain(probabilities: AnyArray, labelings: Labelings) -> FloatArray:
    """Mutual information in nats between each point's label and the posterior samples, once a batch is labeled.

    Parameters
    ----------
    probabilities : array (n, k, c)
        Class probabilities of each posterior sample.
    labelings : Labelings
        Of the batch; `unlabeled` gives BALD's score.

    Returns (n,) numbers from 0 to ln k, rounded to 12 decimals. O(l·k·n·c) time, O(l·n·c) memory.

    Examples
    --------
    >>> split, agreed = [[1.0, 0.0], [0.0, 1.0]], [[0.5, 0.5], [0.5, 0.5]]
    >>> information_gain(np.array([split, agreed]), unlabeled(2)).round(4).tolist()
    [0.6931, 0.0]
    """
    n_points, n_samples, n_classes = probabilities.shape
    by_sample = np.ascontiguousarray(probabilities.transpose(1, 0, 2)).reshape(n_samples, -1)
    expected = labelings.weights @ negative_entropies(labelings.posterior @ by_sample)
    certain = (labelings.weights @ labelings.posterior) @ negative_entropies(by_sample)
    gain = (certain - expected).reshape(n_points, n_classes).sum(axis=1)
    return np.asarray(np.round(np.maximum(gain, 0.0), TIE_DIGITS))


def negative_entropies(probabilities: FloatArray) -> FloatArray:
    """``p·log p`` of each number, 0 at 0; never more than 0."""
    # Taking all logarithms is several times faster than a masked log.
    logs = np.maximum(probabilities, np.finfo(np.float64).tiny)
    np.log(logs, out=logs)
    logs *= probabilities
    return logs
