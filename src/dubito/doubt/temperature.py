"""Temperature scaling (Guo et al., 2017): calibrate logits on labeled rows.

Dividing logits by a temperature changes the confidence but not the prediction. The fitted temperature minimizes the
negative log-likelihood of the labels, which is convex in the inverse temperature, by bisection.
"""

import numpy as np

from dubito.doubt.reading import Temperature
from dubito.errors import InvalidArgument, InvalidData, keyword
from dubito.matrix import FloatArray, IntArray
from dubito.request.arrays import as_array, as_names, check_finite
from dubito.request.labels import as_labels

COLDEST, HOTTEST = 0.05, 20.0
"""Range of a fitted temperature."""
STEPS = 60


def fit_temperature(logits: object, labels: object) -> Temperature:
    """Fit the temperature that maximizes the likelihood of the labels.

    Use rows that the model was **not** trained on. It is more often right on its training rows than elsewhere, so these
    would give a temperature that is too small.

    Parameters
    ----------
    logits : array (m, c)
        Logits of rows whose classes are known.
    labels : array (m,)
        Class numbers from 0 to c - 1, the columns of the logits. At least two different classes.

    Returns
    -------
    Temperature
        Its value is from 0.05 to 20. If every row is predicted correctly, the likelihood has no finite maximum, and the
        temperature stays 1, with a note.

    Examples
    --------
    >>> logits = np.array([[4.0, 0.0], [4.0, 0.0], [4.0, 0.0], [0.0, 4.0]])
    >>> round(fit_temperature(logits, [0, 0, 1, 1]).value, 4)
    3.641
    """
    array = as_array("logits", logits)
    if array.ndim != 2 or 0 in array.shape or array.shape[1] < 2:
        hint = "pass one row of at least two classes for each label."
        raise InvalidArgument(f"has shape {array.shape}", argument="logits", hint=hint)
    check_finite("logits", array)
    classes = class_numbers(labels, len(array), array.shape[1])
    if len(np.unique(classes)) < 2:
        hint = f"label rows of another class, or pass {keyword('temperature')} a number of your own."
        raise InvalidData(f"hold only one class in {len(classes)} rows", argument="labels", hint=hint)
    scores = array.astype(np.float64)
    scores -= scores[np.arange(len(scores)), classes][:, None]
    if scores.max() <= 0.0:
        described = f"all {len(scores)} labeled rows are predicted correctly, so that the temperature cannot be fitted"
        return Temperature(1.0, f"{described} and stays 1: fit it on rows that the model was not trained on")
    low, high = np.log(1.0 / HOTTEST), np.log(1.0 / COLDEST)
    for _ in range(STEPS):
        middle = 0.5 * (low + high)
        low, high = (low, middle) if slope(scores, float(np.exp(middle))) > 0.0 else (middle, high)
    value = 1.0 / float(np.exp(0.5 * (low + high)))
    note = None
    if value < 1.0:
        note = (
            f"the temperature {value:.3g} is below 1: the model is right on the {len(scores)} labeled rows more often "
            "than it expects, as on rows that it was trained on"
        )
    elif value > HOTTEST * 0.999:
        note = (
            f"the temperature is {value:.3g}, the largest that is fitted: the {len(scores)} labeled rows are predicted "
            "no better than by chance"
        )
    return Temperature(value, note)


def slope(scores: FloatArray, inverse: float) -> float:
    """Derivative of the mean negative log-likelihood by the inverse temperature: the mean expected score.

    ``scores`` are logits minus the logit of the label.
    """
    scaled = inverse * scores
    weights = np.exp(scaled - scaled.max(axis=1, keepdims=True))
    return float(((weights * scores).sum(axis=1) / weights.sum(axis=1)).mean())


def class_numbers(labels: object, n_rows: int, n_classes: int) -> IntArray:
    """(m,) labels as column numbers of the logits."""
    values = as_names("labels", labels)
    if values.shape != (n_rows,):
        raise InvalidArgument(
            f"has shape {values.shape}", argument="labels", hint=f"pass one per row, shape ({n_rows},)."
        )
    classes = as_labels(values)
    if classes.dtype.kind != "i":
        odd = next(name for name in classes.tolist() if not name.lstrip("-").isdecimal())
        hint = f"pass class numbers from 0 to {n_classes - 1}, the columns of the logits."
        raise InvalidData(f"holds {odd!r}", argument="labels", hint=hint)
    outside = (classes < 0) | (classes >= n_classes)
    if outside.any():
        row = int(np.argmax(outside))
        hint = f"pass class numbers from 0 to {n_classes - 1}, the columns of the logits."
        raise InvalidData(f"holds {classes[row]} at row {row}", argument="labels", hint=hint)
    return classes.astype(np.int64)
