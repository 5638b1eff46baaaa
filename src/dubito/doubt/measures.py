"""Doubt and other measures of uncertainty. These functions do not validate their input.

Doubt is the paper's ``I(x) = 1 - max_y P(y|x)`` (equation 2), in [0, 1]. For tensors on a GPU, `dubito.doubt.device`
computes it there.
"""

from dataclasses import dataclass

import numpy as np

from dubito.matrix import AnyArray, FloatArray, IntArray, Matrix, OnDevice, blocks

BLOCK_ROWS = 1 << 14
MEDIAN_ROWS = 4096
"""Maximum number of rows whose median doubt determines how much `sharpened_doubt` sharpens."""
LOWEST_LOG_CONFIDENCE = float(np.log(1e-12))
SCORE_STEP = 2.0**-32
"""Beam scores are integer multiples of this, so that the score of a set does not depend on the order of its points."""


def doubt_from_probabilities(probabilities: Matrix) -> FloatArray:
    """I(x) for each row: the sum of all probabilities except the largest, divided by the sum of all.

    ``1 - max`` would lose all precision for a confident float32 row. Probabilities (n, k, c) of k posterior samples are
    averaged over k.

    Examples
    --------
    >>> doubt_from_probabilities(np.array([[0.5, 0.25, 0.25], [1.0, 0.0, 0.0]])).tolist()
    [0.5, 0.0]
    """
    if isinstance(probabilities, OnDevice):
        from dubito.doubt import device

        return device.doubt_from_probabilities(probabilities.tensor)
    doubt = np.empty(probabilities.shape[0])
    for span in blocks(len(doubt), BLOCK_ROWS):
        ascending = np.sort(mean_probabilities(probabilities[span]), axis=1)
        # Add in ascending order, one column at a time: the sum depends neither on the class order nor on the layout.
        others = np.zeros(len(ascending))
        for column in ascending.T[:-1]:
            others += column
        doubt[span] = others / (others + ascending[:, -1])
    return doubt


def doubt_from_logits(logits: Matrix) -> FloatArray:
    """I(x) for each row as exp(logsumexp(others) - logsumexp(all)).

    Examples
    --------
    >>> doubt_from_logits(np.array([[0.0, 0.0], [40.0, 0.0]])).round(20).tolist()
    [0.5, 4.25e-18]
    """
    if isinstance(logits, OnDevice):
        from dubito.doubt import device

        return device.doubt_from_logits(logits.tensor)
    doubt = np.empty(logits.shape[0])
    for span in blocks(len(doubt), BLOCK_ROWS):
        ascending = np.sort(np.asarray(logits[span], dtype=np.float64), axis=1)
        others = np.zeros(len(ascending))
        for column in ascending.T[:-1]:
            others += np.exp(column - ascending[:, -1])
        doubt[span] = others / (others + 1.0)
    return doubt


@dataclass(frozen=True, slots=True)
class Softmax:
    """Probabilities (n, c) of logits, computed on access."""

    logits: Matrix

    @property
    def shape(self) -> tuple[int, ...]:
        """(n, c)."""
        return self.logits.shape

    @property
    def dtype(self) -> np.dtype[np.float64]:
        return np.dtype(np.float64)

    def __getitem__(self, rows: slice | IntArray) -> FloatArray:
        return softmax(self.logits[rows])


def softmax(logits: AnyArray) -> FloatArray:
    """Probabilities of each row of logits."""
    logits = np.asarray(logits, dtype=np.float64)
    unnormalized: FloatArray = np.exp(logits - logits.max(axis=1, keepdims=True))
    return np.asarray(unnormalized / unnormalized.sum(axis=1, keepdims=True))


def mean_probabilities(probabilities: Matrix) -> FloatArray:
    """(n, c) in float64; probabilities (n, k, c) are averaged over the k posterior samples."""
    array = np.asarray(probabilities[:], dtype=np.float64)
    return np.asarray(array.mean(axis=1)) if array.ndim == 3 else array


def predicted_classes(probabilities: Matrix) -> IntArray:
    """(n,) the most probable class of each row; ties go to the lowest number.

    Examples
    --------
    >>> predicted_classes(np.array([[0.5, 0.5], [0.2, 0.8]])).tolist()
    [0, 1]
    """
    classes = np.empty(probabilities.shape[0], dtype=np.int64)
    for span in blocks(len(classes), BLOCK_ROWS):
        classes[span] = mean_probabilities(probabilities[span]).argmax(axis=1)
    return classes


def log_confidence(doubt: FloatArray) -> FloatArray:
    """log(1 - I), clipped at log 1e-12.

    Examples
    --------
    >>> log_confidence(np.array([0.0, 1.0])).round(2).tolist()
    [0.0, -27.63]
    """
    with np.errstate(divide="ignore"):
        return np.maximum(np.log1p(-doubt), LOWEST_LOG_CONFIDENCE) + 0.0


def uncertainty(doubt: FloatArray) -> float:
    """U(s) = -(1/|s|) Σ log(1 - I(x)) over a configuration's points (equation 5); larger is less confident.

    Examples
    --------
    >>> round(uncertainty(np.array([0.0, 0.5])), 4)
    0.3466
    """
    return float(-log_confidence(doubt).mean())


def beam_scores(doubt: FloatArray) -> IntArray:
    """-log(1 - I) of each point, in units of `SCORE_STEP`, rounded to integers."""
    return np.rint(-log_confidence(doubt) / SCORE_STEP).astype(np.int64)


def sharpened_doubt(probabilities: Matrix, unlabeled: IntArray, most: float) -> FloatArray:
    """`margin_doubt` of probabilities that are sharpened until the median over the unlabeled rows is at most ``most``.

    Sharpening divides the logarithms of all probabilities by one temperature: the largest of 1, 2^-1/4, 2^-1/2, ...,
    2^-12 for which that median, over at most 4,096 of the rows, evenly spaced, is low enough; else 2^-12.

    Examples
    --------
    >>> unsure = np.array([[0.25, 0.375, 0.375], [0.3, 0.3, 0.4], [0.2, 0.3, 0.5]])
    >>> sharpened_doubt(unsure, np.arange(3), 1.0).round(2).tolist()
    [1.0, 0.9, 0.8]
    >>> sharpened_doubt(unsure, np.arange(3), 0.5).round(2).tolist()
    [1.0, 0.42, 0.11]
    """
    doubt = margin_doubt(probabilities)
    rows = unlabeled[np.linspace(0, len(unlabeled) - 1, min(len(unlabeled), MEDIAN_ROWS)).astype(np.int64)]
    if len(rows) == 0 or np.median(doubt[rows]) <= most:
        return doubt

    def sharpened(rows: slice | IntArray, temperature: float) -> FloatArray:
        logits = np.log(np.maximum(mean_probabilities(probabilities[rows]), np.finfo(np.float64).tiny))
        return margin_doubt(softmax(logits / temperature))

    temperatures = 0.5 ** (np.arange(1, 49) / 4.0)
    chosen = next((each for each in temperatures if np.median(sharpened(rows, each)) <= most), temperatures[-1])
    for span in blocks(len(doubt), BLOCK_ROWS):
        # Rounded to single precision, since the last bits of logarithms depend on the machine.
        doubt[span] = sharpened(span, chosen).astype(np.float32)
    return doubt


def scaling_weights(doubt: FloatArray, strength: float) -> FloatArray:
    """Squared scaling factors I ** (2 * strength); ``0 ** 0`` is 1.

    Strengths 0, 0.25, 0.5, 1 and 2 use only products and square roots, which are rounded identically on every machine.

    Examples
    --------
    >>> scaling_weights(np.array([0.0, 0.25, 1.0]), 0.5).tolist()
    [0.0, 0.25, 1.0]
    """
    if strength == 0.0:
        return np.ones_like(doubt)
    if strength in (0.25, 0.5):
        return np.sqrt(doubt) if strength == 0.25 else doubt
    if strength in (1.0, 2.0):
        squared = doubt * doubt
        return squared if strength == 1.0 else squared * squared
    return np.asarray(np.power(doubt, 2.0 * strength))


def entropy(probabilities: Matrix) -> FloatArray:
    """Entropy of each row in nats.

    Examples
    --------
    >>> entropy(np.array([[0.5, 0.5], [1.0, 0.0]])).round(4).tolist()
    [0.6931, 0.0]
    """
    p = mean_probabilities(probabilities)
    logs = np.log(p, out=np.zeros_like(p), where=p > 0)
    return np.asarray(np.maximum(-(p * logs).sum(axis=1), 0.0))


def margin(probabilities: Matrix) -> FloatArray:
    """Difference of the largest and second largest probability of each row; small if the model is undecided.

    Examples
    --------
    >>> margin(np.array([[0.5, 0.25, 0.25], [1.0, 0.0, 0.0]])).tolist()
    [0.25, 1.0]
    """
    ascending = np.sort(mean_probabilities(probabilities), axis=1)
    return np.asarray(ascending[:, -1] - ascending[:, -2])


def margin_doubt(probabilities: Matrix) -> FloatArray:
    """``1 - (p1 - p2)`` of each row: 1 if the two most probable classes are equally probable.

    Computed without a difference from 1, which would lose all precision for a confident row.

    Examples
    --------
    >>> margin_doubt(np.array([[0.5, 0.5, 0.0], [0.5, 0.25, 0.25], [1.0, 0.0, 0.0]])).tolist()
    [1.0, 0.75, 0.0]
    """
    source = probabilities.logits if isinstance(probabilities, Softmax) else probabilities
    if isinstance(source, OnDevice):
        from dubito.doubt import device

        return device.margin_doubt(source.tensor if source is probabilities else device.softmax(source.tensor))
    doubt = np.empty(probabilities.shape[0])
    for span in blocks(len(doubt), BLOCK_ROWS):
        ascending = np.sort(mean_probabilities(probabilities[span]), axis=1)
        others = np.zeros(len(ascending))
        for column in ascending.T[:-1]:
            others += column
        doubt[span] = (others + ascending[:, -2]) / (others + ascending[:, -1])
    return doubt
