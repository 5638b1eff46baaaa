"""The models by name, and the linear one: each predicts the held-out labeled rows and the pool."""

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
# Weights outside the span of the labeled rows are 0 at the optimum, and a rotation changes neither loss nor penalty:
# so the rows are replaced once by their coordinates along their principal directions, at most as many as there are
# rows or features. There the Hessian is nearly a diagonal, by which coordinates are scaled: L-BFGS then needs few
# steps, for every penalty and for every part of the rows alike. Models that leave out one fold each are found
# together, since one wide product is quicker than many narrow ones.

DIRECTIONS = 1e-12
"""Directions whose share of the squared length is less than this are rounding."""
CURVATURE = 0.03
"""Approximate contribution of a label to the Hessian along a direction: p(1 - p) of well separated classes."""
STEPS = 1000
ROUGH, FINE = 1e-5, 1e-12
"""Relative decrease of the loss below which the solver stops: while penalties are compared, and for the result."""


class PrincipalCoordinates(NamedTuple):
    """Rows in the directions they span."""

    coordinates: FloatArray
    """(m, r)"""
    squared: FloatArray
    """(r,) squared length of all rows together along each direction."""
    directions: FloatArray
    """(d, r) orthonormal columns."""


class Weights(NamedTuple):
    """Linear models of the coordinates, one for each set of rows they were learned from."""

    slopes: FloatArray
    """(k, r, c)"""
    intercepts: FloatArray
    """(k, c)"""

    def logits(self, model: int, coordinates: FloatArray) -> FloatArray:
        """(m, c) logits of one of the models."""
        return np.asarray(coordinates @ self.slopes[model] + self.intercepts[model])


def span_of(rows: AnyArray) -> PrincipalCoordinates:
    """Rows (m, d) in their principal directions; O(m·d·min(m, d)), by the smaller of the two Gram matrices.

    Examples
    --------
    >>> span_of(np.array([[3.0, 4.0], [6.0, 8.0], [0.0, 0.0]])).coordinates.round(9).tolist()
    [[5.0], [10.0], [0.0]]
    """
    wide = np.ascontiguousarray(rows, dtype=np.float64)
    if len(wide) < wide.shape[1]:
        squared, vectors = _largest(wide @ wide.T)
        directions = (wide.T @ vectors) / np.sqrt(squared)
    else:
        squared, directions = _largest(wide.T @ wide)
    # LAPACK's signs differ from machine to machine.
    directions *= np.where(directions.sum(axis=0) < 0.0, -1.0, 1.0)
    return PrincipalCoordinates(wide @ directions, squared, directions)


def _largest(gram: FloatArray) -> tuple[FloatArray, FloatArray]:
    values, vectors = np.linalg.eigh(gram)
    kept = values > DIRECTIONS * max(float(values[-1]), float(np.finfo(np.float64).tiny))
    return values[kept], vectors[:, kept]


def solve(
    span: PrincipalCoordinates,
    codes: IntArray,
    penalty: float,
    kept: BoolArray,
    start: Weights | None = None,
    tolerance: float = FINE,
    dtype: npt.DTypeLike = np.float64,
) -> Weights:
    """Minimize the negative log-likelihood of the labels plus ``penalty / 2`` times the squared slopes.

    Intercepts are not penalized.

    Parameters
    ----------
    span : PrincipalCoordinates
        Of all labeled rows.
    codes : array (m,)
        Their classes, from 0 to c - 1.
    penalty : float
        Above 0.
    kept : array (k, m) of bool
        The rows that each model learns from; every class must be among them.
    start : Weights, optional
        Initial weights, such as those for another penalty.
    tolerance : float
        Stop when a step decreases the loss by less than this fraction.
    dtype : dtype
        Type of the matrix products. float32 is enough for `ROUGH`.
    """
    from scipy.optimize import minimize

    n_models, m = kept.shape
    scales = 1.0 / np.sqrt(np.append(CURVATURE * span.squared + penalty, CURVATURE * m))
    design = (np.column_stack([span.coordinates, np.ones(m)]) * scales).astype(dtype)
    pulls = np.append(np.full(len(span.squared), penalty), 0.0) * scales**2
    problem = Objective(design, pulls, codes, np.ascontiguousarray(kept.T, dtype=np.float64), int(codes.max()) + 1)
    first = np.zeros((len(scales), n_models, problem.n_classes))
    if start is not None:
        known = np.concatenate([start.slopes, start.intercepts[:, None]], axis=1)
        first = known.transpose(1, 0, 2) / scales[:, None, None]
    found = minimize(
        problem.loss,
        first.ravel(),
        jac=True,
        method="L-BFGS-B",
        options={"maxiter": STEPS, "maxfun": 2 * STEPS, "ftol": tolerance, "gtol": 1e-10},
    )
    best = (found.x.reshape(first.shape) * scales[:, None, None]).transpose(1, 0, 2)
    return Weights(np.ascontiguousarray(best[:, :-1]), best[:, -1])


class Objective(NamedTuple):
    """The losses of all models together, in scaled coordinates."""

    design: npt.NDArray[Any]
    """(m, r + 1), the last column that of the intercept."""
    pulls: FloatArray
    """(r + 1,) the penalty in these coordinates."""
    codes: IntArray
    kept: FloatArray
    """(m, k)"""
    n_classes: int

    def loss(self, flat: FloatArray) -> tuple[float, FloatArray]:
        """The sum of the losses, and its gradient."""
        m, n_models = self.kept.shape
        wide = flat.reshape(len(self.pulls), -1)
        logits = (self.design @ wide.astype(self.design.dtype, copy=False)).reshape(m, n_models, self.n_classes)
        logits -= logits.max(axis=2, keepdims=True)
        own = logits[np.arange(m), :, self.codes].astype(np.float64)
        np.exp(logits, out=logits)
        sums = logits.sum(axis=2)
        logits *= (self.kept / sums)[:, :, None]
        logits[np.arange(m), :, self.codes] -= self.kept
        pulled = self.pulls[:, None] * wide
        total = float(((np.log(sums) - own) * self.kept).sum() + 0.5 * (pulled * wide).sum())
        return total, (self.design.T @ logits.reshape(m, -1) + pulled).ravel().astype(np.float64, copy=False)


PENALTY = 0.02
"""The default penalty per feature, as the squared norm of standardized rows is about d."""
STEP = 10.0**0.5
DECADES = 1.0
"""Standard deviation of the prior of the penalty around `PENALTY`, in powers of ten."""
MOST_PENALTY_STEPS = 10
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


class Learned(NamedTuple):
    """The predictions of a model before calibration."""

    held_out: FloatArray
    """(m, c) held-out logits of the labeled rows; NaN for rows that are never held out."""
    logits: AnyArray
    """(n, c) logits of the pool."""
    settings: Mapping[str, float]


Learn = Callable[[LabeledData], Learned]


def learn_linear(data: LabeledData) -> Learned:
    """Fit a multinomial logistic regression; cross-validation chooses its penalty and the scaling of features.

    Takes O(n·d·c) time for the pool, and for the labels O(m·d·min(m, d)) and O(m·min(m, d)·c) per step.
    """
    scale, search = _best_scale(data)
    position, span = search.best(), search.span
    everything = np.ones((1, len(data.codes)), dtype=np.bool_)
    weights = solve(span, data.codes, search.penalty(position), everything)
    slopes = (span.directions @ weights.slopes[0]).astype(np.float32)
    logits = np.empty((len_of(data.pool), data.n_classes), dtype=np.float32)
    for rows in blocks(len(logits), rows_per_read(data.pool)):
        logits[rows] = scale.applied(data.pool[rows], np.dtype(np.float32)) @ slopes
    logits += weights.intercepts[0].astype(np.float32)
    return Learned(search.held_out(position), logits, {"penalty": search.penalty(position)})


def _best_scale(data: LabeledData) -> tuple[Scale, "PenaltySearch"]:
    """Standardize each feature, or divide all by one number if that has a clearly lower held-out loss.

    The scales of the columns of a table are arbitrary units. Those of the dimensions of an embedding may be meaningful:
    the last dimensions of word embeddings are small, and standardizing them would amplify noise.
    """
    each = measure_scale(data.pool)
    scales = each, each.with_shared_deviation()
    unit = max(1.0, float(np.isfinite(each.deviation).sum()))
    given = np.asarray(data.features[:])
    found = [
        PenaltySearch(span_of(scale.applied(given, np.dtype(np.float64))), data.codes, data.folds, unit)
        for scale in scales
    ]
    costs = [search.cost(search.best()) for search in found]
    best = int(costs[1] < costs[0] - LEAST_GAIN)
    return scales[best], found[best]


class PenaltySearch:
    """Search for the penalty with the lowest held-out loss, in steps from `PENALTY`."""

    def __init__(self, span: PrincipalCoordinates, codes: IntArray, folds: IntArray, unit: float) -> None:
        self.span, self.codes, self.folds, self.unit = span, codes, folds, unit
        self.is_tested = folds >= 0
        self.known: dict[int, FloatArray] = {}
        self.last: Weights | None = None

    def penalty(self, position: int) -> float:
        return float(self.unit * PENALTY * STEP**position)

    def held_out(self, position: int) -> FloatArray:
        """(m, c) held-out logits with this penalty."""
        if position not in self.known:
            logits = np.full((len(self.codes), int(self.codes.max()) + 1), np.nan)
            if self.is_tested.any():
                self.last = solve(
                    self.span,
                    self.codes,
                    self.penalty(position),
                    training_masks(self.folds),
                    self.last,
                    ROUGH,
                    np.float32,
                )
            for fold in range(int(self.folds.max()) + 1):
                assert self.last is not None
                rows = self.folds == fold
                logits[rows] = self.last.logits(fold, self.span.coordinates[rows])
            self.known[position] = logits
        return self.known[position]

    def cost(self, position: int) -> float:
        """The total held-out log-loss, plus a prior that keeps the penalty near the default for few labels."""
        if not self.is_tested.any():
            return 0.0
        logits = self.held_out(position)[self.is_tested]
        prior = 0.5 * (position * np.log10(STEP) / DECADES) ** 2
        return log_loss(logits, self.codes[self.is_tested]) * len(logits) + float(prior)

    def best(self) -> int:
        """The index of the best penalty; 0 if nothing can be held out."""
        position = 0
        if not self.is_tested.any():
            return position
        for step in (1, -1):
            while abs(position) < MOST_PENALTY_STEPS and self.cost(position + step) < self.cost(position):
                position += step
        return position


# Models of scikit-learn: a forest, an import path, or an estimator.

TREES = 200
PREDICTED_SHARE = 0.999
"""Weight of the predictions in a mixture with the uniform distribution: forests may predict exactly 0 and 1."""

Make = Callable[[int], Any]
"""Makes a new estimator from a seed."""


def find_model(model: object) -> tuple[str, Learn]:
    """The name of a model and its fit function, for ``linear``, ``forest``, an import path or an estimator."""
    if model == "linear":
        return "linear", learn_linear
    if model == "forest":
        return "forest", lambda data: learn_with(_forest, data)
    if isinstance(model, str) and "." in model:
        found = import_object("model", model)
        make = _maker(model, found) if callable(found) else _copier(model, found)
        return model, lambda data: learn_with(make, data)
    if isinstance(model, str) or not hasattr(model, "fit") or isinstance(model, type):
        hint = "choose from linear, forest and none, or name a scikit-learn estimator as package.module.Class."
        raise InvalidArgument("is not known", argument="model", value=model, hint=hint)
    copier = _copier(model, model)
    return type(model).__name__, lambda data: learn_with(copier, data)


def _refuse_without_probabilities(model: object, estimator: object) -> None:
    if not hasattr(estimator, "predict_proba"):
        hint = "choose one that predicts probabilities."
        raise InvalidArgument("has no predict_proba", argument="model", value=model, hint=hint)


def _forest(seed: int) -> Any:
    from sklearn.ensemble import RandomForestClassifier

    return RandomForestClassifier(n_estimators=TREES, min_samples_leaf=2, random_state=seed)


def _maker(model: str, factory: Any) -> Make:
    """Make estimators with a class or a function."""
    takes_seed = "random_state" in inspect.signature(factory).parameters

    def make(seed: int) -> Any:
        try:
            estimator = factory(**({"random_state": seed} if takes_seed else {}))
        except TypeError as error:
            hint = "name a class or function that needs no arguments."
            raise InvalidArgument(f"cannot be made ({error})", argument="model", value=model, hint=hint) from error
        _refuse_without_probabilities(model, estimator)
        return estimator

    make(0)
    return make


def _copier(model: object, estimator: object) -> Make:
    """Make unfitted clones of an estimator."""
    from sklearn.base import clone

    _refuse_without_probabilities(model, estimator)
    try:
        clone(estimator)
    except TypeError as error:
        hint = "pass a scikit-learn estimator."
        raise InvalidArgument("cannot be cloned", argument="model", value=model, hint=hint) from error
    return lambda seed: clone(estimator)


def learn_with(make: Make, data: LabeledData) -> Learned:
    """Train an estimator for each fold and on all labels, on features without standardization."""
    features = np.asarray(data.features[:])
    held_out = np.full((len(features), data.n_classes), np.nan)
    for fold, kept in enumerate(training_masks(data.folds)):
        estimator = _trained(make(data.seed), features[kept], data.codes[kept])
        rows = data.folds == fold
        held_out[rows] = _logits(estimator, features[rows], data.n_classes)
    estimator = _trained(make(data.seed), features, data.codes)
    logits = np.empty((len_of(data.pool), data.n_classes))
    # Large blocks, because each call of an estimator may have a large overhead.
    for rows_read in blocks(len(logits), 16 * rows_per_read(data.pool)):
        logits[rows_read] = _logits(estimator, np.asarray(data.pool[rows_read]), data.n_classes)
    return Learned(held_out, logits, {})


@contextmanager
def many_classes() -> Iterator[None]:
    """Silence the warning that labels with many classes may be numbers: the first labels often have many."""
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", "The number of unique classes is greater than 50% of the number of samples")
        yield


def _trained(estimator: Any, features: AnyArray, codes: AnyArray) -> Any:
    try:
        with many_classes():
            fitted = estimator.fit(features, codes)
    except ValueError as error:
        name = type(estimator).__name__
        raise InvalidData(f"cannot be trained on these labels: {error}", argument="model", value=name) from error
    return estimator if fitted is None else fitted


def _logits(estimator: Any, features: AnyArray, n_classes: int) -> FloatArray:
    name = type(estimator).__name__
    try:
        given = np.asarray(estimator.predict_proba(features), dtype=np.float64)
    except (ValueError, AttributeError) as error:
        raise InvalidData(f"gives no probabilities: {error}", argument="model", value=name) from error
    known = np.asarray(estimator.classes_, dtype=np.int64)
    if given.shape != (len(features), len(known)) or not np.isfinite(given).all():
        problem = f"gives probabilities of shape {given.shape} for {len(features)} rows and {len(known)} classes"
        hint = "choose one that predicts a finite number for each."
        raise InvalidData(problem, argument="model", value=name, hint=hint)
    shares = np.zeros((len(features), n_classes))
    shares[:, known] = given
    return np.log(PREDICTED_SHARE * shares + (1.0 - PREDICTED_SHARE) / n_classes)
