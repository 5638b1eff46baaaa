"""Models from scikit-learn: logistic regression (the default), random forests, and any estimator by its import path."""

import inspect
import warnings
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, ClassVar

import numpy as np

from dubito.doubt import softmax
from dubito.errors import InvalidArgument, InvalidData
from dubito.experiments.models.base import (
    Fitted,
    ModelDefaults,
    State,
    TrainingSet,
    check_samples,
    flat,
    over_all_classes,
)
from dubito.experiments.seeds import derive_seed
from dubito.matrix import AnyArray, FloatArray, IntArray
from dubito.models.estimators import ignore_many_classes_warning
from dubito.registry import check_options, import_object
from dubito.request.arrays import check_integer, check_positive


@dataclass(frozen=True, slots=True)
class Linear(ModelDefaults):
    """Multinomial logistic regression of scikit-learn (L-BFGS), on the original features.

    Training continues from the weights of the previous turn if the same classes are present. If only one class is
    present, its probability is 1.
    """

    c: float = 1.0
    """Inverse of the L2 penalty's strength."""
    iterations: int = 1000
    samples: int = 0
    kind: ClassVar[str] = "linear"
    is_convex: ClassVar[bool] = True
    continues: ClassVar[bool] = True

    def __post_init__(self) -> None:
        check_positive("c", self.c)
        check_integer("iterations", self.iterations, least=1)
        check_samples(self.samples)

    def fit(self, train_set: TrainingSet) -> Fitted:
        """Take O(m·d·n_classes) time per iteration, for m labels and d features."""
        from sklearn.linear_model import LogisticRegression

        features = flat(train_set.features)
        if len(train_set.present) == 1:
            return LinearFit(np.zeros((1, features.shape[1])), np.zeros(1), train_set.present, train_set.n_classes)
        model = LogisticRegression(C=self.c, max_iter=self.iterations, warm_start=True)
        if np.array_equal(train_set.state.get("classes", ()), train_set.present):
            model.coef_, model.intercept_ = train_set.state["coef"].copy(), train_set.state["intercept"].copy()
            model.classes_ = train_set.present
        with warnings.catch_warnings():
            # The weights after the last iteration are used even if training has not converged.
            warnings.simplefilter("ignore")
            model.fit(features, train_set.labels)
        return LinearFit(model.coef_, model.intercept_, train_set.present, train_set.n_classes)


@dataclass(frozen=True, slots=True, eq=False)
class LinearFit:
    """A fitted `Linear`, in scikit-learn's form: two classes have one row of weights."""

    coef: AnyArray
    intercept: AnyArray
    classes: IntArray
    n_classes: int

    @property
    def state(self) -> State:
        return {"coef": self.coef, "intercept": self.intercept, "classes": self.classes}

    def predict_proba(self, features: AnyArray) -> FloatArray:
        logits = np.asarray(flat(features) @ self.coef.T + self.intercept, dtype=np.float64)
        if len(self.classes) == 2:
            logits = np.hstack([np.zeros_like(logits), logits])
        return over_all_classes(softmax(logits), self.classes, self.n_classes)

    def embed(self, features: AnyArray) -> AnyArray:
        return flat(features)


# Any estimator of scikit-learn, by its import path.


@dataclass(frozen=True, slots=True)
class Sklearn(ModelDefaults):
    """Any estimator with ``predict_proba``, by its import path; trained from scratch every turn.

    ``random_state``, if the estimator has one and the options do not set it, depends on the seed and turn.
    """

    estimator: str
    """Import path, such as ``sklearn.ensemble.RandomForestClassifier``."""
    options: Mapping[str, object] = field(default_factory=dict)
    samples: int = 0
    kind: ClassVar[str] = "sklearn"

    def __post_init__(self) -> None:
        check_samples(self.samples)
        factory = import_object("estimator", self.estimator)
        if not hasattr(factory, "predict_proba"):
            hint = "choose one that predicts probabilities."
            raise InvalidArgument("has no predict_proba", argument="estimator", value=self.estimator, hint=hint)
        check_options("estimator", self.estimator, factory, self.options)

    def fit(self, train_set: TrainingSet) -> Fitted:
        if len(train_set.present) == 1:  # Most estimators need two classes.
            from sklearn.dummy import DummyClassifier

            constant = DummyClassifier().fit(flat(train_set.features), train_set.labels)
            return EstimatorFit(constant, train_set.n_classes)
        factory = import_object("estimator", self.estimator)
        options = dict(self.options)
        if "random_state" in inspect.signature(factory).parameters:
            options.setdefault("random_state", derive_seed(train_set.seed, "weights", train_set.turn))
        try:
            with ignore_many_classes_warning():
                fitted = factory(**options).fit(flat(train_set.features), train_set.labels)
        except ValueError as error:
            problem = f"cannot be trained on these labels: {error}"
            raise InvalidData(problem, argument="estimator", value=self.estimator) from error
        if not hasattr(fitted, "predict_proba"):
            problem = "does not predict probabilities with these options"
            hint = "choose one that has predict_proba after fitting."
            raise InvalidArgument(problem, argument="estimator", value=self.estimator, hint=hint)
        return EstimatorFit(fitted, train_set.n_classes)


@dataclass(frozen=True, slots=True, eq=False)
class EstimatorFit:
    fitted: Any
    n_classes: int

    @property
    def state(self) -> State:
        """Empty, as an estimator cannot be saved as arrays."""
        return {}

    def predict_proba(self, features: AnyArray) -> FloatArray:
        try:
            known = np.asarray(self.fitted.predict_proba(flat(features)), dtype=np.float64)
        except ValueError as error:
            problem = f"cannot predict probabilities: {error}"
            raise InvalidData(problem, argument="estimator", value=type(self.fitted).__name__) from error
        return over_all_classes(known, self.fitted.classes_, self.n_classes)

    def embed(self, features: AnyArray) -> AnyArray:
        return flat(features)


# ``forest``: a random forest.


@dataclass(frozen=True, slots=True)
class Forest(ModelDefaults):
    """A random forest of scikit-learn, trained from scratch in every turn. Feature scales do not matter."""

    trees: int = 100
    samples: int = 0
    kind: ClassVar[str] = "forest"

    def __post_init__(self) -> None:
        check_integer("trees", self.trees, least=1)
        check_samples(self.samples)

    def fit(self, train_set: TrainingSet) -> Fitted:
        """Take O(trees·m log m·√d) time."""
        return Sklearn("sklearn.ensemble.RandomForestClassifier", {"n_estimators": self.trees}).fit(train_set)
