"""How unsure a model is of each point: doubt, and its relatives.

Doubt is the paper's ``I(x) = 1 - max_y P(y|x)`` (equation 2), in [0, 1]. `read_doubt` checks
what a caller hands in; the other functions trust their input.
"""

from collections.abc import Collection
from dataclasses import dataclass

import numpy as np

from dubito.checks import as_array, check_finite, in_pool_order
from dubito.errors import InvalidArgument, InvalidData
from dubito.matrix import AnyArray, FloatArray, IntArray, Matrix, blocks
from dubito.names import NO_NAMES, RowNames
from dubito.wording import keyword, named

SUM_TOLERANCE = {2: 0.02, 4: 1e-3, 8: 1e-4}
"""How far a row of probabilities may miss 1, by the bytes of its numbers."""
BFLOAT16_TOLERANCE = 0.06
BLOCK_ROWS = 1 << 14
LOWEST_LOG_CONFIDENCE = float(np.log(1e-12))
SCORE_STEP = 2.0**-32
"""A beam's scores are whole multiples of this, so that a set's score does not depend on the order of its points."""
DOUBT_SOURCES = f"{keyword('probabilities')}, {keyword('logits')} or {keyword('doubt')}"
"""What to pass, in a message's words, where doubt is needed."""


def doubt_from_probabilities(probabilities: AnyArray) -> FloatArray:
    """I(x) for each row: the sum of all but one largest probability over the sum of all.

    ``1 - max`` would lose every digit of a confident float32 row. With probabilities (n, k, c) of k posterior
    samples, the mean over k counts.

    Examples
    --------
    >>> doubt_from_probabilities(np.array([[0.5, 0.25, 0.25], [1.0, 0.0, 0.0]])).tolist()
    [0.5, 0.0]
    """
    doubt = np.empty(len(probabilities))
    for span in blocks(len(doubt), BLOCK_ROWS):
        ascending = np.sort(mean_probabilities(probabilities[span]), axis=1)
        # Smallest first and one column at a time: the same sum whatever the order of the classes or the memory.
        others = np.zeros(len(ascending))
        for column in ascending.T[:-1]:
            others += column
        doubt[span] = others / (others + ascending[:, -1])
    return doubt


def doubt_from_logits(logits: AnyArray) -> FloatArray:
    """I(x) for each row as exp(logsumexp(others) - logsumexp(all)).

    Examples
    --------
    >>> doubt_from_logits(np.array([[0.0, 0.0], [40.0, 0.0]])).round(20).tolist()
    [0.5, 4.25e-18]
    """
    doubt = np.empty(len(logits))
    for span in blocks(len(doubt), BLOCK_ROWS):
        ascending = np.sort(np.asarray(logits[span], dtype=np.float64), axis=1)
        others = np.zeros(len(ascending))
        for column in ascending.T[:-1]:
            others += np.exp(column - ascending[:, -1])
        doubt[span] = others / (others + 1.0)
    return doubt


@dataclass(frozen=True, slots=True)
class Softmax:
    """Probabilities (n, c) of logits, computed where they are read: a pool's doubt needs none of them."""

    logits: AnyArray

    @property
    def shape(self) -> tuple[int, ...]:
        """(n, c)."""
        return self.logits.shape

    @property
    def dtype(self) -> np.dtype[np.float64]:
        """float64."""
        return np.dtype(np.float64)

    def __getitem__(self, rows: slice | IntArray) -> FloatArray:
        return softmax(self.logits[rows])


def softmax(logits: AnyArray) -> FloatArray:
    """Probabilities of each row of logits."""
    logits = np.asarray(logits, dtype=np.float64)
    unnormalised: FloatArray = np.exp(logits - logits.max(axis=1, keepdims=True))
    return np.asarray(unnormalised / unnormalised.sum(axis=1, keepdims=True))


def mean_probabilities(probabilities: Matrix) -> FloatArray:
    """(n, c) in float64; probabilities (n, k, c) are averaged over the k posterior samples."""
    array = np.asarray(probabilities[:], dtype=np.float64)
    return np.asarray(array.mean(axis=1)) if array.ndim == 3 else array


def predicted_classes(probabilities: Matrix) -> IntArray:
    """(n,) the likeliest class of each row, ties to the lowest number.

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
    """log(1 - I), not below log 1e-12.

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
    """-log(1 - I) of each point, rounded once to a whole number of `SCORE_STEP`."""
    return np.rint(-log_confidence(doubt) / SCORE_STEP).astype(np.int64)


def scaling_weights(doubt: FloatArray, strength: float) -> FloatArray:
    """Squared scaling factors I ** (2 * strength); ``0 ** 0`` is 1.

    Strengths 0, 0.25, 0.5, 1 and 2 use only products and square roots, which every machine rounds alike.

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
    """Largest less second largest probability of each row: small where the model wavers.

    Examples
    --------
    >>> margin(np.array([[0.5, 0.25, 0.25], [1.0, 0.0, 0.0]])).tolist()
    [0.25, 1.0]
    """
    ascending = np.sort(mean_probabilities(probabilities), axis=1)
    return np.asarray(ascending[:, -1] - ascending[:, -2])


def margin_doubt(probabilities: Matrix) -> FloatArray:
    """``1 - (p1 - p2)`` of each row: 1 where the two likeliest classes are equally likely.

    As everything but the largest probability, and the second largest again, over the sum of all: a difference from 1
    would lose every digit of a confident row.

    Examples
    --------
    >>> margin_doubt(np.array([[0.5, 0.5, 0.0], [0.5, 0.25, 0.25], [1.0, 0.0, 0.0]])).tolist()
    [1.0, 0.75, 0.0]
    """
    doubt = np.empty(probabilities.shape[0])
    for span in blocks(len(doubt), BLOCK_ROWS):
        ascending = np.sort(mean_probabilities(probabilities[span]), axis=1)
        others = np.zeros(len(ascending))
        for column in ascending.T[:-1]:
            others += column
        doubt[span] = (others + ascending[:, -2]) / (others + ascending[:, -1])
    return doubt


def read_doubt(
    n_pool: int,
    probabilities: object = None,
    logits: object = None,
    doubt: object = None,
    *,
    names: RowNames = NO_NAMES,
) -> tuple[Matrix | None, FloatArray | None]:
    """Probabilities and doubt from whichever one source was given, checked; (None, None) from none.

    Rows go by ``names``, what the pool's rows are called, where the source names its own.

    Examples
    --------
    >>> read_doubt(2, doubt=[0.5, 0.25])[1].tolist()
    [0.5, 0.25]
    """
    sources = {"probabilities": probabilities, "logits": logits, "doubt": doubt}
    given = [name for name, value in sources.items() if value is not None]
    if len(given) > 1:
        raise two_sources(given)
    if not given:
        return None, None
    (source,) = given
    value = in_pool_order(source, sources[source], names, n_pool)
    if source == "probabilities":
        checked = check_probabilities(value, n_pool)
        return checked, doubt_from_probabilities(checked)
    if source == "logits":
        array = _check_rows_of_classes("logits", value, n_pool, (2,))
        return Softmax(array), doubt_from_logits(array)
    return None, check_doubt(value, n_pool)


def two_sources(given: Collection[str]) -> InvalidArgument:
    """Doubt was given twice, by the arguments of these names."""
    names = " and ".join(map(named, given))
    return InvalidArgument(f"{names} are two sources of doubt", mend="pass only one of them.")


def check_doubt(doubt: object, n_pool: int) -> FloatArray:
    """(n,) numbers in [0, 1] as float64."""
    array = as_array("doubt", doubt)
    if array.shape == (n_pool, 1):
        array = array[:, 0]  # A frame of one column.
    if array.shape != (n_pool,):
        mend = f"pass one number a pool row, shape ({n_pool},)."
        raise InvalidArgument(f"has shape {array.shape}", argument="doubt", mend=mend)
    check_finite("doubt", array)
    outside = (array < 0) | (array > 1)
    if outside.any():
        row = int(np.argmax(outside))
        problem = f"holds {array[row]:g} at row {row}"
        raise InvalidData(problem, argument="doubt", mend="pass numbers from 0 to 1.")
    return array.astype(np.float64)


def check_probabilities(probabilities: object, n_pool: int) -> AnyArray:
    """(n, c) or (n, k, c) probabilities whose rows sum to one."""
    array = _check_rows_of_classes("probabilities", probabilities, n_pool, (2, 3))
    if array.min() < 0:
        at = tuple(int(i) for i in np.argwhere(array < 0)[0])
        problem = f"holds {array[at]:g} at row {at[0]}"
        raise InvalidData(problem, argument="probabilities", mend="pass numbers from 0 to 1.")
    sums = array.sum(axis=-1, dtype=np.float64)
    is_bfloat16 = str(getattr(probabilities, "dtype", "")) == "torch.bfloat16"
    tolerance = BFLOAT16_TOLERANCE if is_bfloat16 else SUM_TOLERANCE.get(array.dtype.itemsize, 1e-4)
    wrong = ~(np.abs(sums - 1.0) <= tolerance)
    if wrong.any():
        at = tuple(int(i) for i in np.argwhere(wrong)[0])
        mend = f"pass rows that sum to 1 (raw scores go in as {named('logits')})."
        raise InvalidData(f"sum to {sums[at]:g} at row {at[0]}", argument="probabilities", mend=mend)
    return array


def _check_rows_of_classes(name: str, value: object, n_pool: int, dimensions: tuple[int, ...]) -> AnyArray:
    array = as_array(name, value)
    if array.ndim not in dimensions or array.shape[0] != n_pool or array.shape[-1] < 2 or array.shape[1] < 1:
        samples = f", or ({n_pool}, k, classes) of k posterior samples" if 3 in dimensions else ""
        mend = (
            f"pass one row of at least two classes for each of the {n_pool} pool rows, "
            f"shape ({n_pool}, classes){samples}."
        )
        raise InvalidArgument(f"has shape {array.shape}", argument=name, mend=mend)
    check_finite(name, array)
    return array
