"""Any estimator of scikit-learn's kind, by its import path."""

import inspect
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, ClassVar

import numpy as np

from dubito.errors import InvalidArgument, InvalidData
from dubito.experiments.chance import draw
from dubito.experiments.models.base import Fitted, Lesson, OnHost, State, check_samples, flat, over_all_classes
from dubito.imports import check_options, import_object
from dubito.matrix import AnyArray, FloatArray


@dataclass(frozen=True, slots=True)
class Sklearn(OnHost):
    """Any estimator with ``predict_proba``, by its import path; trained from scratch every turn.

    ``random_state`` is set by the seed and turn where the estimator has one and the options do not set it.
    """

    estimator: str
    """Such as ``sklearn.ensemble.RandomForestClassifier``."""
    options: Mapping[str, object] = field(default_factory=dict)
    samples: int = 0
    kind: ClassVar[str] = "sklearn"

    def __post_init__(self) -> None:
        check_samples(self.samples)
        factory = import_object("estimator", self.estimator)
        if not hasattr(factory, "predict_proba"):
            raise InvalidArgument(
                "has no predict_proba",
                argument="estimator",
                value=self.estimator,
                mend="choose one that gives probabilities.",
            )
        check_options("estimator", self.estimator, factory, self.options)

    def fit(self, lesson: Lesson) -> Fitted:
        """As long as the estimator takes."""
        if len(lesson.present) == 1:
            return Constant(int(lesson.present[0]), lesson.n_classes)
        factory = import_object("estimator", self.estimator)
        chance = {"random_state": draw(lesson.seed, "weights", lesson.turn)}
        wanted = chance if "random_state" in inspect.signature(factory).parameters else {}
        try:
            fitted = factory(**{**wanted, **self.options}).fit(flat(lesson.features), lesson.labels)
        except ValueError as error:
            raise InvalidData(
                f"cannot be trained on these labels: {error}", argument="estimator", value=self.estimator
            ) from error
        if not hasattr(fitted, "predict_proba"):
            raise InvalidArgument(
                "gives no probabilities with these options",
                argument="estimator",
                value=self.estimator,
                mend="choose one that has predict_proba once it is trained.",
            )
        return EstimatorFit(fitted, lesson.n_classes)


@dataclass(frozen=True, slots=True, eq=False)
class EstimatorFit:
    """A fitted estimator of scikit-learn's kind."""

    fitted: Any
    n_classes: int

    @property
    def state(self) -> State:
        """Nothing: an estimator is no dictionary of arrays."""
        return {}

    def predict_proba(self, features: AnyArray) -> FloatArray:
        """(n, c), zero for a class that was not there to learn."""
        try:
            known = np.asarray(self.fitted.predict_proba(flat(features)), dtype=np.float64)
        except ValueError as error:
            raise InvalidData(
                f"gives no probabilities: {error}", argument="estimator", value=type(self.fitted).__name__
            ) from error
        return over_all_classes(known, self.fitted.classes_, self.n_classes)

    def embed(self, features: AnyArray) -> AnyArray:
        """The features themselves."""
        return flat(features)


@dataclass(frozen=True, slots=True)
class Constant:
    """Sure of one class, the only one it saw."""

    code: int
    n_classes: int

    @property
    def state(self) -> State:
        """Nothing."""
        return {}

    def predict_proba(self, features: AnyArray) -> FloatArray:
        """(n, c) all on one class."""
        return over_all_classes(np.ones((len(features), 1)), np.array([self.code]), self.n_classes)

    def embed(self, features: AnyArray) -> AnyArray:
        """The features themselves."""
        return flat(features)
