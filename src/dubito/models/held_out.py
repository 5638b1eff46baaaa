"""Cross-validation folds, held-out accuracy with its interval, and calibration."""

from math import sqrt
from typing import NamedTuple

import numpy as np

from dubito.doubt.temperature import COLDEST, HOTTEST, STEPS, slope
from dubito.matrix import BoolArray, FloatArray, IntArray

MAX_LEAVE_ONE_OUT, MAX_TEN_FOLDS = 20, 200
"""Leave-one-out up to the first number of labels, 10 folds up to the second, else 5 folds."""
Z = 1.959963984540054
"""Normal quantile of a 95% interval."""


def stratified_folds(codes: IntArray) -> IntArray:
    """The fold (m,) in which each label is held out, stratified by class; -1 for the only label of its class.

    Whichever fold is held out, every class is among the remaining labels.

    Examples
    --------
    >>> stratified_folds(np.array([0, 1, 0, 2, 1])).tolist()
    [0, 2, 1, -1, 3]
    """
    counts = np.bincount(codes)
    order = np.argsort(codes, kind="stable")
    order = order[counts[codes[order]] > 1]
    n_folds = len(order) if len(order) <= MAX_LEAVE_ONE_OUT else 10 if len(order) <= MAX_TEN_FOLDS else 5
    folds = np.full(len(codes), -1, dtype=np.int64)
    folds[order] = np.arange(len(order)) % max(n_folds, 1)
    return folds


def training_masks(folds: IntArray) -> BoolArray:
    """(k, m) for each fold, which labels are trained on when it is held out."""
    return np.asarray(folds[None, :] != np.arange(int(folds.max(initial=-1)) + 1)[:, None])


class Share(NamedTuple):
    """A number of correct predictions out of a total, with an interval for the true proportion."""

    right: int
    of: int

    @property
    def value(self) -> float:
        return self.right / self.of

    @property
    def interval(self) -> tuple[float, float]:
        """Wilson's 95% interval, which is valid for small numbers and for proportions near 0 and 1.

        Examples
        --------
        >>> [round(end, 3) for end in Share(9, 10).interval], [round(end, 3) for end in Share(5, 5).interval]
        ([0.596, 0.982], [0.566, 1.0])
        """
        # scipy.stats.binomtest gives the same, but every fit would have to load scipy.stats, which takes 1.7 s.
        n, share = self.of, self.value
        middle = (share + Z * Z / (2 * n)) / (1 + Z * Z / n)
        half = Z * sqrt(share * (1 - share) / n + Z * Z / (4 * n * n)) / (1 + Z * Z / n)
        return max(0.0, middle - half), min(1.0, middle + half)

    def __str__(self) -> str:
        low, high = self.interval
        return f"{self.value:.1%} ({low:.1%} to {high:.1%})"


def log_loss(logits: FloatArray, codes: IntArray) -> float:
    """The mean negative log-likelihood of the classes.

    Examples
    --------
    >>> round(log_loss(np.zeros((3, 4)), np.array([0, 1, 3])), 4)
    1.3863
    """
    top = logits.max(axis=1)
    sums = np.exp(logits - top[:, None]).sum(axis=1)
    return float((np.log(sums) + top - logits[np.arange(len(codes)), codes]).mean())


# The temperature from held-out labels, shrunk towards 1 if there are few.

SPREAD = 0.5
"""Standard deviation of the prior of the log temperature: temperatures are mostly between 0.4 and 2.7."""


def calibrate(logits: FloatArray, codes: IntArray) -> float:
    """The most probable temperature for held-out logits (m, c); 1 if there are none.

    If all of a few labels are predicted correctly, the likelihood alone would make the model certain. Therefore, the
    logarithm of the temperature has a normal prior around 0, which a few dozen labels outweigh.

    Examples
    --------
    >>> logits = np.array([[4.0, 0.0], [4.0, 0.0], [4.0, 0.0], [0.0, 4.0]])
    >>> round(calibrate(logits, np.array([0, 0, 1, 1])), 3), round(calibrate(logits[:2], np.array([0, 0])), 3)
    (1.571, 0.968)
    """
    if not len(codes):
        return 1.0
    scores = logits - logits[np.arange(len(codes)), codes][:, None]
    low, high = np.log(1.0 / HOTTEST), np.log(1.0 / COLDEST)
    for _ in range(STEPS):
        middle = 0.5 * (low + high)
        inverse = float(np.exp(middle))
        rising = len(codes) * inverse * slope(scores, inverse) + middle / SPREAD**2 > 0.0
        low, high = (low, middle) if rising else (middle, high)
    return float(np.exp(-0.5 * (low + high)))
