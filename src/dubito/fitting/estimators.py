"""Models of scikit-learn's kind: a forest, an import path, or an estimator that is handed over."""

import inspect
from collections.abc import Callable
from typing import Any

import numpy as np

from dubito.errors import InvalidArgument, InvalidData
from dubito.fitting.folds import kept_in
from dubito.fitting.learning import Course, Learn, Learned, learn_linear
from dubito.imports import import_object
from dubito.matrix import AnyArray, FloatArray, blocks, len_of, rows_per_read

TREES = 200
SURE = 0.999
"""No class is certain, however sure a model is: trees say 0 and 1."""

Make = Callable[[int], Any]
"""A new estimator, by its seed."""


def find_model(model: object) -> tuple[str, Learn]:
    """What a model is called, and how it learns: ``linear``, ``forest``, an import path or an estimator."""
    if model == "linear":
        return "linear", learn_linear
    if model == "forest":
        return "forest", lambda course: learn_with(_forest, course)
    if isinstance(model, str) and "." in model:
        found = import_object("model", model)
        make = _maker(model, found) if callable(found) else _copier(model, found)
        return model, lambda course: learn_with(make, course)
    if isinstance(model, str) or not hasattr(model, "fit") or isinstance(model, type):
        mend = "choose from linear, forest and none, or name a scikit-learn estimator as package.module.Class."
        raise InvalidArgument("is not known", argument="model", value=model, mend=mend)
    copier = _copier(model, model)
    return type(model).__name__, lambda course: learn_with(copier, course)


def _refuse_without_answers(model: object, estimator: object) -> None:
    if not hasattr(estimator, "predict_proba"):
        mend = "choose one that gives probabilities."
        raise InvalidArgument("has no predict_proba", argument="model", value=model, mend=mend)


def _forest(seed: int) -> Any:
    from sklearn.ensemble import RandomForestClassifier

    return RandomForestClassifier(n_estimators=TREES, min_samples_leaf=2, random_state=seed)


def _maker(model: str, factory: Any) -> Make:
    """By a class of estimators, or a function that makes one."""
    takes_seed = "random_state" in inspect.signature(factory).parameters

    def make(seed: int) -> Any:
        try:
            estimator = factory(**({"random_state": seed} if takes_seed else {}))
        except TypeError as error:
            mend = "name what needs no arguments, such as a function of yours that makes it."
            raise InvalidArgument(f"cannot be made ({error})", argument="model", value=model, mend=mend) from error
        _refuse_without_answers(model, estimator)
        return estimator

    make(0)
    return make


def _copier(model: object, estimator: object) -> Make:
    """By copies of an estimator, none of them trained."""
    from sklearn.base import clone

    _refuse_without_answers(model, estimator)
    try:
        clone(estimator)
    except TypeError as error:
        mend = "pass an estimator of scikit-learn's kind."
        raise InvalidArgument("cannot be cloned", argument="model", value=model, mend=mend) from error
    return lambda seed: clone(estimator)


def learn_with(make: Make, course: Course) -> Learned:
    """An estimator trained once for each fold, and once on everything, on the features as they are."""
    features = np.asarray(course.features[:])
    held_out = np.full((len(features), course.n_classes), np.nan)
    for fold, kept in enumerate(kept_in(course.folds)):
        estimator = _trained(make(course.seed), features[kept], course.codes[kept])
        rows = course.folds == fold
        held_out[rows] = _logits(estimator, features[rows], course.n_classes)
    estimator = _trained(make(course.seed), features, course.codes)
    logits = np.empty((len_of(course.pool), course.n_classes))
    # Wide blocks: an estimator may take longer to begin than to answer.
    for rows_read in blocks(len(logits), 16 * rows_per_read(course.pool)):
        logits[rows_read] = _logits(estimator, np.asarray(course.pool[rows_read]), course.n_classes)
    return Learned(held_out, logits, {})


def _trained(estimator: Any, features: AnyArray, codes: AnyArray) -> Any:
    try:
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
        mend = "choose one that gives a finite number for each."
        raise InvalidData(problem, argument="model", value=name, mend=mend)
    shares = np.zeros((len(features), n_classes))
    shares[:, known] = given
    return np.log(SURE * shares + (1.0 - SURE) / n_classes)
