"""Models by name: the linear one, and estimators of scikit-learn. Each predicts the pool and held-out labels."""

import inspect
import warnings
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from dubito.errors import InvalidArgument, InvalidData
from dubito.matrix import AnyArray, BoolArray, FloatArray, IntArray, Matrix, blocks, len_of, rows_per_read
from dubito.models.held_out import log_loss, training_masks
from dubito.registry import import_object
from dubito.request.scaling import Scale, measure_scale

# Multinomial logistic regression with an L2 penalty, in the few directions that the labeled rows span.
#
# Weights outside the span of the labeled rows are 0 at the optimum, and a rotation changes neither loss nor penalty.
# So the rows are replaced once by their coordinates along their principal directions, of which there are at most as
# many as rows or features. In these coordinates the Hessian is nearly diagonal; scaled by that diagonal, L-BFGS needs
# few steps for every penalty and every subset of the rows. The models that leave out one fold each are fitted
# together, because one wide matrix product is faster than many narrow ones.

SMALLEST_EIGENVALUE = 1e-12
"""Directions with a smaller eigenvalue, relative to the largest, are due to rounding errors."""
CURVATURE = 0.03
"""Approximate contribution of a label to the Hessian along a direction: p(1 - p) of well separated classes."""
MAX_STEPS = 1000
ROUGH, FINE = 1e-5, 1e-12
"""Relative decrease of the loss below which the solver stops: while penalties are compared, and for the result."""


class PrincipalCoordinates(NamedTuple):
    """Rows in the directions they span."""

    coordinates: FloatArray
    """(m, r)"""
    squared: FloatArray
    """(r,) sum of squared coordinates along each direction."""
    directions: FloatArray
    """(d, r) orthonormal columns."""


class Weights(NamedTuple):
    """k linear models of the coordinates, each fitted on another subset of the rows."""

    slopes: FloatArray
    """(k, r, c)"""
    intercepts: FloatArray
    """(k, c)"""

    def logits(self, model: int, coordinates: FloatArray) -> FloatArray:
        """(m, c) logits of one of the models."""
        return np.asarray(coordinates @ self.slopes[model] + self.intercepts[model])


def principal_coordinates(rows: AnyArray) -> PrincipalCoordinates:
    """Rotate rows (m, d) to their principal directions; O(m·d·min(m, d)), from the smaller of the two Gram matrices.

    Examples
    --------
    >>> principal_coordinates(np.array([[3.0, 4.0], [6.0, 8.0], [0.0, 0.0]])).coordinates.round(9).tolist()
    [[5.0], [10.0], [0.0]]
    """
    matrix = np.ascontiguousarray(rows, dtype=np.float64)
    is_wide = len(matrix) < matrix.shape[1]
    values, vectors = np.linalg.eigh(matrix @ matrix.T if is_wide else matrix.T @ matrix)
    kept = values > SMALLEST_EIGENVALUE * max(float(values[-1]), float(np.finfo(np.float64).tiny))
    squared, vectors = values[kept], vectors[:, kept]
    directions = (matrix.T @ vectors) / np.sqrt(squared) if is_wide else vectors
    # LAPACK's signs differ from machine to machine.
    directions *= np.where(directions.sum(axis=0) < 0.0, -1.0, 1.0)
    return PrincipalCoordinates(matrix @ directions, squared, directions)


def solve(
    rows: PrincipalCoordinates,
    codes: IntArray,
    penalty: float,
    masks: BoolArray,
    start: Weights | None = None,
    tolerance: float = FINE,
    dtype: npt.DTypeLike = np.float64,
) -> Weights:
    """Minimize the negative log-likelihood of the labels plus ``penalty / 2`` times the squared slopes.

    Intercepts are not penalized.

    Parameters
    ----------
    rows : PrincipalCoordinates
        All labeled rows.
    codes : array (m,)
        Their classes, from 0 to c - 1.
    penalty : float
        Above 0.
    masks : array (k, m) of bool
        The rows that each of k models is fitted on; they must contain every class.
    start : Weights, optional
        Initial weights, such as those for another penalty.
    tolerance : float
        Stop when a step decreases the loss by less than this fraction.
    dtype : dtype
        Type of the matrix products. float32 is enough for `ROUGH`.
    """
    from scipy.optimize import minimize

    n_models, m = masks.shape
    scales = 1.0 / np.sqrt(np.append(CURVATURE * rows.squared + penalty, CURVATURE * m))
    design = (np.column_stack([rows.coordinates, np.ones(m)]) * scales).astype(dtype)  # The last column: intercepts.
    penalties = np.append(np.full(len(rows.squared), penalty), 0.0) * scales**2
    row_weights = np.ascontiguousarray(masks.T, dtype=np.float64)

    def loss(flat: FloatArray) -> tuple[float, FloatArray]:
        """The sum of the losses of all models, and its gradient, in scaled coordinates."""
        weights = flat.reshape(len(penalties), -1)
        logits = (design @ weights.astype(design.dtype, copy=False)).reshape(m, n_models, -1)
        logits -= logits.max(axis=2, keepdims=True)
        true_logits = logits[np.arange(m), :, codes].astype(np.float64)
        np.exp(logits, out=logits)
        sums = logits.sum(axis=2)
        logits *= (row_weights / sums)[:, :, None]
        logits[np.arange(m), :, codes] -= row_weights
        shrinkage = penalties[:, None] * weights
        total = float(((np.log(sums) - true_logits) * row_weights).sum() + 0.5 * (shrinkage * weights).sum())
        return total, (design.T @ logits.reshape(m, -1) + shrinkage).ravel().astype(np.float64, copy=False)

    first = np.zeros((len(scales), n_models, int(codes.max()) + 1))
    if start is not None:
        initial = np.concatenate([start.slopes, start.intercepts[:, None]], axis=1)
        first = initial.transpose(1, 0, 2) / scales[:, None, None]
    result = minimize(
        loss,
        first.ravel(),
        jac=True,
        method="L-BFGS-B",
        options={"maxiter": MAX_STEPS, "maxfun": 2 * MAX_STEPS, "ftol": tolerance, "gtol": 1e-10},
    )
    weights = (result.x.reshape(first.shape) * scales[:, None, None]).transpose(1, 0, 2)
    return Weights(np.ascontiguousarray(weights[:, :-1]), weights[:, -1])


PENALTY = 0.02
"""The default penalty per feature, as the squared norm of standardized rows is about d."""
STEP = 10.0**0.5
"""Factor between neighboring penalties of the search."""
PRIOR_DECADES = 1.0
"""Standard deviation of the prior of the penalty around `PENALTY`, in powers of ten."""
MAX_PENALTY_STEPS = 10
"""Maximum number of steps from the default penalty, up or down."""
LEAST_GAIN = 2.0
"""Use a shared scale of features if it lowers the total held-out log-loss by more than this, in nats."""


class LabeledData(NamedTuple):
    pool: Matrix
    features: Matrix
    """(m, d) features of the labeled rows."""
    codes: IntArray
    """(m,) classes from 0 to c - 1, c >= 2; every class occurs."""
    folds: IntArray
    """(m,) as returned by `dubito.models.held_out.stratified_folds`."""
    seed: int

    @property
    def n_classes(self) -> int:
        return int(self.codes.max()) + 1


class Predictions(NamedTuple):
    """Predictions of a fitted model, before calibration."""

    held_out: FloatArray
    """(m, c) held-out logits of the labeled rows; NaN for rows that are never held out."""
    logits: AnyArray
    """(n, c) logits of the pool."""
    settings: Mapping[str, float]


Fitter = Callable[[LabeledData], Predictions]
"""Fits a model on labeled data and predicts."""


def fit_linear(data: LabeledData) -> Predictions:
    """Fit a multinomial logistic regression; cross-validation chooses its penalty and the scaling of features.

    Takes O(n·d·c) time for the pool, and for the labels O(m·d·min(m, d)) and O(m·min(m, d)·c) per step.
    """
    scale, search = _best_scale(data)
    position = search.best()
    all_rows = np.ones((1, len(data.codes)), dtype=np.bool_)
    weights = solve(search.rows, data.codes, search.penalty(position), all_rows)
    slopes = (search.rows.directions @ weights.slopes[0]).astype(np.float32)
    logits = np.empty((len_of(data.pool), data.n_classes), dtype=np.float32)
    for block in blocks(len(logits), rows_per_read(data.pool)):
        logits[block] = scale.applied(data.pool[block], np.dtype(np.float32)) @ slopes
    logits += weights.intercepts[0].astype(np.float32)
    return Predictions(search.held_out(position), logits, {"penalty": search.penalty(position)})


def _best_scale(data: LabeledData) -> tuple[Scale, "PenaltySearch"]:
    """Standardize each feature, or divide all by one number if that has a clearly lower held-out loss.

    The scales of the columns of a table are arbitrary units. Those of the dimensions of an embedding may be meaningful:
    the last dimensions of word embeddings are small, and standardizing them would amplify noise.
    """
    per_feature = measure_scale(data.pool)
    scales = per_feature, per_feature.with_shared_deviation()
    n_varying = max(1.0, float(np.isfinite(per_feature.deviation).sum()))
    features = np.asarray(data.features[:])
    searches = [
        PenaltySearch(principal_coordinates(scale.applied(features, np.dtype(np.float64))), data, n_varying)
        for scale in scales
    ]
    costs = [search.cost(search.best()) for search in searches]
    best = int(costs[1] < costs[0] - LEAST_GAIN)
    return scales[best], searches[best]


class PenaltySearch:
    """Search for the penalty with the lowest held-out loss, in steps from `PENALTY`."""

    def __init__(self, rows: PrincipalCoordinates, data: LabeledData, n_features: float) -> None:
        self.rows, self.data, self.n_features = rows, data, n_features
        self.is_tested = data.folds >= 0
        self.computed: dict[int, FloatArray] = {}
        self.last: Weights | None = None

    def penalty(self, position: int) -> float:
        return float(self.n_features * PENALTY * STEP**position)

    def held_out(self, position: int) -> FloatArray:
        """(m, c) held-out logits with this penalty."""
        if position not in self.computed:
            codes, folds, penalty = self.data.codes, self.data.folds, self.penalty(position)
            logits = np.full((len(codes), self.data.n_classes), np.nan)
            if self.is_tested.any():
                weights = solve(self.rows, codes, penalty, training_masks(folds), self.last, ROUGH, np.float32)
                for fold in range(int(folds.max()) + 1):
                    rows = folds == fold
                    logits[rows] = weights.logits(fold, self.rows.coordinates[rows])
                self.last = weights
            self.computed[position] = logits
        return self.computed[position]

    def cost(self, position: int) -> float:
        """The total held-out log-loss, plus a prior that keeps the penalty near the default for few labels."""
        if not self.is_tested.any():
            return 0.0
        logits = self.held_out(position)[self.is_tested]
        prior = 0.5 * (position * np.log10(STEP) / PRIOR_DECADES) ** 2
        return log_loss(logits, self.data.codes[self.is_tested]) * len(logits) + float(prior)

    def best(self) -> int:
        """The index of the best penalty; 0 if nothing can be held out."""
        position = 0
        for step in (1, -1):
            while abs(position) < MAX_PENALTY_STEPS and self.cost(position + step) < self.cost(position):
                position += step
        return position


# Estimators of scikit-learn: a random forest, an import path, or an object.

TREES = 200
PREDICTED_SHARE = 0.999
"""Weight of the predictions in a mixture with the uniform distribution: forests may predict exactly 0 and 1."""

EstimatorFactory = Callable[[int], Any]
"""Returns a new estimator for a seed."""


def find_model(model: object) -> tuple[str, Fitter]:
    """The name of a model and the function that fits it, for ``linear``, ``forest``, an import path or an estimator."""
    if model == "linear":
        return "linear", fit_linear
    if model == "forest":
        return "forest", lambda data: fit_estimator(_new_forest, data)
    if isinstance(model, str) and "." in model:
        imported = import_object("model", model)
        factory = _seeded_factory(model, imported) if callable(imported) else _clone_factory(model, imported)
        return model, lambda data: fit_estimator(factory, data)
    if isinstance(model, str) or not hasattr(model, "fit") or isinstance(model, type):
        hint = "choose from linear, forest and none, or name a scikit-learn estimator as package.module.Class."
        raise InvalidArgument("is not known", argument="model", value=model, hint=hint)
    factory = _clone_factory(model, model)
    return type(model).__name__, lambda data: fit_estimator(factory, data)


def _check_has_probabilities(model: object, estimator: object) -> None:
    if not hasattr(estimator, "predict_proba"):
        hint = "choose one that predicts probabilities."
        raise InvalidArgument("has no predict_proba", argument="model", value=model, hint=hint)


def _new_forest(seed: int) -> Any:
    from sklearn.ensemble import RandomForestClassifier

    return RandomForestClassifier(n_estimators=TREES, min_samples_leaf=2, random_state=seed)


def _seeded_factory(model: str, factory: Any) -> EstimatorFactory:
    """Call a class or function, with ``random_state`` if it has that parameter."""
    takes_seed = "random_state" in inspect.signature(factory).parameters

    def make(seed: int) -> Any:
        try:
            estimator = factory(**({"random_state": seed} if takes_seed else {}))
        except TypeError as error:
            hint = "name a class or function that needs no arguments."
            raise InvalidArgument(f"cannot be made ({error})", argument="model", value=model, hint=hint) from error
        _check_has_probabilities(model, estimator)
        return estimator

    make(0)
    return make


def _clone_factory(model: object, estimator: object) -> EstimatorFactory:
    """Clone an estimator, without what it was fitted on."""
    from sklearn.base import clone

    _check_has_probabilities(model, estimator)
    try:
        clone(estimator)
    except TypeError as error:
        hint = "pass a scikit-learn estimator."
        raise InvalidArgument("cannot be cloned", argument="model", value=model, hint=hint) from error
    return lambda seed: clone(estimator)


def fit_estimator(factory: EstimatorFactory, data: LabeledData) -> Predictions:
    """Fit an estimator without each fold and on all labels; features are not standardized."""
    features = np.asarray(data.features[:])
    held_out = np.full((len(features), data.n_classes), np.nan)
    for fold, kept in enumerate(training_masks(data.folds)):
        estimator = _fitted(factory(data.seed), features[kept], data.codes[kept])
        rows = data.folds == fold
        held_out[rows] = _logits(estimator, features[rows], data.n_classes)
    estimator = _fitted(factory(data.seed), features, data.codes)
    logits = np.empty((len_of(data.pool), data.n_classes))
    # Large blocks, because each call of an estimator may have a large overhead.
    for block in blocks(len(logits), 16 * rows_per_read(data.pool)):
        logits[block] = _logits(estimator, np.asarray(data.pool[block]), data.n_classes)
    return Predictions(held_out, logits, {})


@contextmanager
def ignore_many_classes_warning() -> Iterator[None]:
    """Ignore scikit-learn's warning that labels with many classes may be numbers: the first labels often have many."""
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", "The number of unique classes is greater than 50% of the number of samples")
        yield


def _fitted(estimator: Any, features: AnyArray, codes: AnyArray) -> Any:
    try:
        with ignore_many_classes_warning():
            fitted = estimator.fit(features, codes)
    except ValueError as error:
        name = type(estimator).__name__
        raise InvalidData(f"cannot be trained on these labels: {error}", argument="model", value=name) from error
    return estimator if fitted is None else fitted


def _logits(estimator: Any, features: AnyArray, n_classes: int) -> FloatArray:
    name = type(estimator).__name__
    try:
        predicted = np.asarray(estimator.predict_proba(features), dtype=np.float64)
    except (ValueError, AttributeError) as error:
        raise InvalidData(f"cannot predict probabilities: {error}", argument="model", value=name) from error
    known = np.asarray(estimator.classes_, dtype=np.int64)
    if predicted.shape != (len(features), len(known)) or not np.isfinite(predicted).all():
        problem = f"predicts probabilities of shape {predicted.shape} for {len(features)} rows and {len(known)} classes"
        hint = "choose one that predicts a finite number for each."
        raise InvalidData(problem, argument="model", value=name, hint=hint)
    probabilities = np.zeros((len(features), n_classes))
    probabilities[:, known] = predicted
    return np.log(PREDICTED_SHARE * probabilities + (1.0 - PREDICTED_SHARE) / n_classes)
