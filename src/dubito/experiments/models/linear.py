"""Multinomial logistic regression: the linear model that is the default."""

import warnings
from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from dubito.checks import check_integer
from dubito.doubt import softmax
from dubito.experiments.models.base import (
    Fitted,
    Lesson,
    OnHost,
    State,
    check_positive,
    check_samples,
    flat,
    over_all_classes,
)
from dubito.matrix import AnyArray, FloatArray, IntArray


@dataclass(frozen=True, slots=True)
class Linear(OnHost):
    """Multinomial logistic regression on the features as they are (scikit-learn's, L-BFGS).

    It goes on from the weights of the turn before while the same classes are present. One class alone is a model
    that is sure of it.
    """

    c: float = 1.0
    """Inverse of the L2 penalty's strength."""
    iterations: int = 1000
    samples: int = 0
    kind: ClassVar[str] = "linear"
    is_convex: ClassVar[bool] = True
    goes_on: ClassVar[bool] = True

    def __post_init__(self) -> None:
        check_positive("c", self.c)
        check_integer("iterations", self.iterations, least=1)
        check_samples(self.samples)

    def fit(self, lesson: Lesson) -> Fitted:
        """O(m·d·c) an iteration."""
        from sklearn.linear_model import LogisticRegression

        features = flat(lesson.features)
        if len(lesson.present) == 1:
            return LinearFit(np.zeros((1, features.shape[1])), np.zeros(1), lesson.present, lesson.n_classes)
        model = LogisticRegression(C=self.c, max_iter=self.iterations, warm_start=True)
        if np.array_equal(lesson.state.get("classes", ()), lesson.present):
            model.coef_, model.intercept_ = lesson.state["coef"].copy(), lesson.state["intercept"].copy()
            model.classes_ = lesson.present
        with warnings.catch_warnings():
            # A fit that stops at its last iteration is a model like any other, only not the best one.
            warnings.simplefilter("ignore")
            model.fit(features, lesson.labels)
        return LinearFit(model.coef_, model.intercept_, lesson.present, lesson.n_classes)


@dataclass(frozen=True, slots=True, eq=False)
class LinearFit:
    """A fitted `Linear`, in scikit-learn's form: two classes have one row of weights."""

    coef: AnyArray
    intercept: AnyArray
    classes: IntArray
    n_classes: int

    @property
    def state(self) -> State:
        """Weights and the classes they are of."""
        return {"coef": self.coef, "intercept": self.intercept, "classes": self.classes}

    def predict_proba(self, features: AnyArray) -> FloatArray:
        """(n, c), zero for a class that was not there to learn."""
        logits = np.asarray(flat(features) @ self.coef.T + self.intercept, dtype=np.float64)
        if len(self.classes) == 2:
            logits = np.hstack([np.zeros_like(logits), logits])
        return over_all_classes(softmax(logits), self.classes, self.n_classes)

    def embed(self, features: AnyArray) -> AnyArray:
        """The features themselves."""
        return flat(features)
