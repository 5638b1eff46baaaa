"""A temperature from labels that were held out, drawn towards 1 where they are few."""

import numpy as np

from dubito.doubt.temperature import COLDEST, HOTTEST, STEPS, slope
from dubito.matrix import FloatArray, IntArray

SPREAD = 0.5
"""How far the logarithm of a temperature lies from 0 before anything is known: it is mostly between 0.4 and 2.7."""


def calibrate(logits: FloatArray, codes: IntArray) -> float:
    """The likeliest temperature for logits (m, c) of labels that a model has not seen.

    A few labels that are all right would make a model certain: so the logarithm of the temperature has a normal prior
    about 0, which a few dozen labels outweigh. 1 without a label.

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
