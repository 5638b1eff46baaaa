"""`fit`: a model fitted on the labels, with calibrated probabilities and its held-out accuracy."""

from collections.abc import Mapping
from dataclasses import dataclass, replace
from importlib import import_module

import numpy as np

from dubito.doubt import softmax
from dubito.errors import InvalidArgument, american_keywords
from dubito.matrix import AnyArray, FloatArray, IntArray, Matrix, blocks, len_of
from dubito.models.accuracy import AccuracyEstimate, estimate_held_out, weights_of_drawn
from dubito.models.estimators import LabeledData, find_model
from dubito.models.held_out import Share, calibrate, log_loss, stratified_folds
from dubito.models.labels import KnownLabels, parse_labels
from dubito.request.arrays import check_integer
from dubito.request.ids import check_pool
from dubito.request.rows import check_labeled

NO_MODEL = "none"


@dataclass(frozen=True, slots=True, eq=False, repr=False)
class Fit:
    """A fitted model, and its predictions for every row of the pool.

    Examples
    --------
    >>> import numpy as np, dubito
    >>> pool = np.array([[0.0], [1.0], [2.0], [7.0], [8.0], [9.0]])
    >>> fitted = dubito.fit(pool, ["a", "a", None, "b", "b", None])
    >>> fitted
    Fit(linear model, 4 labels of 2 classes, right on 100.0% (51.0% to 100.0%) of those held out)
    >>> fitted.classes.tolist(), fitted.predicted.tolist()
    (['a', 'b'], ['a', 'a', 'a', 'b', 'b', 'b'])
    """

    probabilities: FloatArray | None
    """(n, c), calibrated; None for a cold start: fewer than two classes have a label."""
    classes: AnyArray
    """(c,) the classes that have labels, sorted: integers by value, text alphabetically."""
    counts: IntArray
    """(c,) number of labels of each class."""
    rows: IntArray | None
    """(m,) labeled rows of the pool, ascending; None if features were passed as ``labeled``."""
    model: str
    """The kind of model: ``linear``, ``forest``, an import path; ``none`` for a cold start."""
    tested: Share | None
    """Held-out labels that were predicted correctly; None if no label could be held out."""
    held_out: FloatArray | None
    """(m, c) calibrated held-out probabilities of the labeled rows; NaN for a label that is the only one of its
    class."""
    log_loss: float | None
    """Mean negative log-likelihood of held-out labels; None if no label could be held out."""
    settings: Mapping[str, float]
    """Values chosen by cross-validation: ``temperature``, and ``penalty`` of the linear model."""
    notes: tuple[str, ...] = ()
    """Notes for the user on the reliability of the model."""
    estimate: AccuracyEstimate | None = None
    """Estimated accuracy on the unlabeled rows of the pool, with a 95% interval; None without `drawn` rows."""

    @property
    def n_labels(self) -> int:
        """Number of labels."""
        return int(self.counts.sum())

    @property
    def accuracy(self) -> float | None:
        """Held-out accuracy on the labeled rows, which are not a random sample of the pool."""
        return None if self.tested is None else self.tested.value

    @property
    def interval(self) -> tuple[float, float] | None:
        """Wilson's 95% interval of `accuracy`."""
        return None if self.tested is None else self.tested.interval

    @property
    def predicted(self) -> AnyArray:
        """(n,) the most probable class of every row of the pool; ties go to the first class."""
        if self.probabilities is None:
            problem = "nothing is predicted: fewer than two classes have a label"
            raise InvalidArgument(problem, hint="label some of another class.")
        return np.asarray(self.classes[self.probabilities.argmax(axis=1)])

    @property
    def doubt(self) -> FloatArray | None:
        """(n,) 1 minus the largest probability; None for a cold start."""
        return None if self.probabilities is None else 1.0 - self.probabilities.max(axis=1)

    def described(self) -> str:
        """The kind of model, the numbers of labels and classes, and the held-out accuracy, as text."""
        n, c = self.n_labels, len(self.classes)
        labels = f"{n:,} label{'s' * (n != 1)} of {c:,} class{'es' * (c != 1)}"
        if self.probabilities is None:
            return f"no model: {labels}" if n else "no model: no labels"
        right = "none could be held out" if self.tested is None else f"right on {self.tested} of those held out"
        estimated = "" if self.estimate is None else f", estimated right on {self.estimate} of the unlabeled rows"
        return f"{self.model} model, {labels}, {right}{estimated}"

    def __repr__(self) -> str:
        return f"Fit({self.described()})"


MAX_FLOAT64 = 1 << 25
"""If there are more probabilities than this, they are stored in float32."""
BLOCK_ROWS = 1 << 14
MAX_NAMES = 3
"""Maximum number of classes that a note names."""


@american_keywords
def fit(
    pool: object,
    labels: object,
    *,
    labeled: object = None,
    model: object = "linear",
    ids: object = None,
    no_label: object = None,
    drawn: object = None,
    seed: int = 0,
) -> Fit:
    """Fit a model on the labels, and predict the class of every row of the pool.

    The linear model is a multinomial logistic regression on features that are standardized by the pool. Its penalty is
    chosen by cross-validation, and its probabilities are calibrated with a temperature on the held-out predictions:
    leave-one-out up to 20 labels, 10 folds up to 200, else 5 folds.

    Parameters
    ----------
    pool : array (n, d)
        Features, as in `dubito.select`.
    labels : array, mapping or frame
        An array (n,) with None for unlabeled rows; ``{id: label}``, or ``{row: label}`` if the pool has no ids; a
        Series or data frame whose rows have the pool's ids; or, with ``labeled``, an array of the labels of those
        rows. None, NaN, blank text and similar values mean unlabeled. Classes are integers, Booleans or text.
    labeled : array, optional
        The rows that the labels belong to, or their features (m, d), as in `dubito.select`. Default: every row that
        has a label.
    model : str or estimator
        ``"linear"``, ``"forest"``, a scikit-learn estimator, or the import path of an estimator class or of a function
        that returns an estimator. All but the linear model use the features without standardization.
    ids : sequence (n,), optional
        The ids of the pool rows, as in `dubito.select`.
    no_label : object, optional
        A value that means unlabeled, such as -1, or several of them; with ``"empty"``, only empty values do.
    drawn : array or mapping, optional
        The labeled rows that were drawn at random, from all rows that have none of the other labels: row numbers, ids
        or a mask, or ``{row or id: probability}`` if some were drawn with a higher probability than others. At least 5
        of them give `Fit.estimate`. Drawn rows without a label do not count.
    seed : int
        Seed of models that use random numbers; the linear model does not.

    Returns
    -------
    Fit
        Probabilities (n, c), classes, and the held-out accuracy. If fewer than two classes have labels, there is no
        model, and a note says so.

    Examples
    --------
    >>> import numpy as np, dubito
    >>> pool = np.array([[0.0], [1.0], [2.0], [7.0], [8.0], [9.0]])
    >>> dubito.fit(pool, {0: "a", 1: "a", 4: "b", 5: "b"}).predicted.tolist()
    ['a', 'a', 'a', 'b', 'b', 'b']
    >>> dubito.fit(pool, {0: "a"}).notes
    ("only one class has labels ('a', 1): nothing to tell apart yet, so this is a cold start.",)
    """
    (matrix, _), names = check_pool(pool, ids)
    known = parse_labels(labels, labeled, check_labeled(labeled, matrix, names), matrix, names, no_label)
    fitted = fit_known(matrix, known, model, check_integer("seed", seed, least=0))
    if drawn is not None:
        if known.rows is None:
            problem = "is given, but the labels are of points outside the pool"
            raise InvalidArgument(problem, argument="drawn", hint="pass the labels by row or id.")
        weights = weights_of_drawn(drawn, len_of(matrix), names)[known.rows]
        order = np.argsort(weights > 0.0, kind="stable")  # Rows are drawn from those without any other label.
        estimate = estimate_held_out(fitted.held_out, fitted.probabilities, known.values, known.rows, weights, order)
        fitted = replace(fitted, estimate=estimate)
    if known.texts is None:
        return fitted
    return replace(fitted, classes=np.array([known.texts[each] for each in fitted.classes.tolist()], dtype=np.str_))


def fit_known(pool: Matrix, labels: KnownLabels, model: object, seed: int) -> Fit:
    """Implementation of `fit` for labels that have been checked."""
    name, fit_model = find_model(model)
    classes, sorted_codes, counts = np.unique(labels.values, return_inverse=True, return_counts=True)
    if len(classes) < 2:
        note = cold_start(classes, len(sorted_codes))
        return Fit(None, classes, counts, labels.rows, NO_MODEL, None, None, None, {}, (note,))
    # Models use class codes in the order of first occurrence, so that renaming a class does not change the result.
    positions = np.argsort(first_occurrence(labels.values)).astype(np.int64)
    codes = positions[sorted_codes]
    folds = stratified_folds(codes)
    # There are many small matrix products, for which several BLAS threads are slower than one.
    with import_module("threadpoolctl").threadpool_limits(1):
        predictions = fit_model(LabeledData(pool, labels.features, codes, folds, seed))
    is_tested = folds >= 0
    held_out, expected = predictions.held_out[is_tested], codes[is_tested]
    temperature = calibrate(held_out, expected)
    return Fit(
        probabilities=_probabilities(predictions.logits, temperature, positions),
        classes=classes,
        counts=counts,
        rows=labels.rows,
        model=name,
        tested=Share(int((held_out.argmax(axis=1) == expected).sum()), len(expected)) if len(expected) else None,
        held_out=softmax(predictions.held_out / temperature)[:, positions],
        log_loss=log_loss(held_out / temperature, expected) if len(expected) else None,
        settings={**predictions.settings, "temperature": temperature},
        notes=_notes_on_rare_classes(classes, counts),
    )


def first_occurrence(values: AnyArray) -> IntArray:
    """(c,) indices of the sorted classes, in the order in which their first labels occur.

    Examples
    --------
    >>> first_occurrence(np.array(["dog", "ant", "dog", "cat"])).tolist()
    [2, 0, 1]
    """
    return np.argsort(np.unique(values, return_index=True)[1]).astype(np.int64)


def _probabilities(logits: AnyArray, temperature: float, positions: IntArray) -> FloatArray:
    """(n, c) with the columns in this order, in float32 if there are more than `MAX_FLOAT64`."""
    probabilities = np.empty(logits.shape, dtype=np.float64 if logits.size <= MAX_FLOAT64 else np.float32)
    for rows in blocks(len(logits), BLOCK_ROWS):
        probabilities[rows] = softmax(logits[rows].astype(np.float64) / temperature)[:, positions]
    return probabilities


def cold_start(classes: AnyArray, n_labels: int) -> str:
    if not n_labels:
        return "nothing is labeled yet, so this is a cold start."
    only = repr(classes.tolist()[0])
    return f"only one class has labels ({only}, {n_labels}): nothing to tell apart yet, so this is a cold start."


def _notes_on_rare_classes(classes: AnyArray, counts: IntArray) -> tuple[str, ...]:
    names = classes.tolist()
    alone = [names[position] for position in np.flatnonzero(counts == 1)]
    if not alone:
        return ()
    shown = ", ".join(map(repr, alone[:MAX_NAMES])) + (", ..." if len(alone) > MAX_NAMES else "")
    return (
        f"{len(alone)} class{'es have' if len(alone) > 1 else ' has'} one label only ({shown}), which cannot be held "
        "out: nothing is known of how well such a class is predicted.",
    )


def is_disabled(model: object) -> bool:
    """Whether no model is wanted: ``model="none"``."""
    if model is None:
        raise InvalidArgument("is not a model", argument="model", value=None, hint=f"pass {NO_MODEL!r} for none.")
    return isinstance(model, str) and model == NO_MODEL


__all__ = ["Fit", "Share", "fit"]
