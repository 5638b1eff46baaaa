"""Samples of a model's posterior: what a label would teach, and what no label will.

A *labelling* gives every point of a batch a class. Beside each labelling stands the posterior it would leave over the
k samples, so that the information in one more label is the mean over labellings of what BALD would say then. This
is BatchBALD's difference of joint entropies, without numbers that vanish as batches grow.
"""

from dataclasses import dataclass
from typing import NamedTuple

import numpy as np

from dubito.doubt.reading import check_probabilities
from dubito.errors import InvalidArgument
from dubito.matrix import READ_BYTES, AnyArray, FloatArray, IntArray, Matrix, blocks
from dubito.request.arrays import as_array

TIE_DIGITS = 12
"""Decimals of a gain in nats that count: beyond them equal rows may differ by the order of additions."""


class SplitDoubt(NamedTuple):
    """A model's doubt about each point, in two parts; their sum is the entropy of its mean prediction. In nats."""

    learnable: FloatArray
    """(n,) the mutual information between a point's class and the posterior samples, from 0 to ln k: they disagree."""
    unlearnable: FloatArray
    """(n,) the mean entropy of the samples: what each of them is unsure of by itself."""


def split_posterior(probabilities: object) -> SplitDoubt:
    """Doubt that a label could settle, and doubt that is in the data.

    Parameters
    ----------
    probabilities : array (n, k, c)
        Of each class, by k samples of the posterior: passes with dropout, or members of an ensemble.

    Returns
    -------
    SplitDoubt
        Two arrays (n,). With one sample nothing can be told apart, and nothing is learnable. O(n·k·c) time.

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
    learnable, unlearnable, nothing = np.empty(n), np.empty(n), unlabelled(k)
    for span in blocks(n, max(1, READ_BYTES // (8 * k * c))):
        block = posterior_rows(probabilities, np.arange(span.start, span.stop))
        learnable[span] = information_gain(block, nothing)
        unlearnable[span] = -negative_entropies(block).sum(axis=2).mean(axis=1)
    return SplitDoubt(learnable, np.maximum(unlearnable, 0.0))


def learnable_doubt(probabilities: Matrix) -> FloatArray:
    """(n,) in [0, 1]: the learnable part of `split_posterior` over the most there can be, ln of k or of c.

    Examples
    --------
    >>> disagree, undecided = [[1.0, 0.0], [0.0, 1.0]], [[0.5, 0.5], [0.5, 0.5]]
    >>> learnable_doubt(np.array([disagree, undecided])).tolist()
    [1.0, 0.0]
    """
    _, k, c = probabilities.shape
    return np.asarray(np.minimum(_split(probabilities).learnable / np.log(min(k, c)), 1.0))


def posterior_rows(probabilities: Matrix, rows: IntArray) -> FloatArray:
    """Rows in float64 that add up to 1 exactly, as half-precision ones do not."""
    block = np.array(probabilities[rows], dtype=np.float64)
    block /= block.sum(axis=2, keepdims=True)
    return block


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
