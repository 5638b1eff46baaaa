"""Models of scikit-learn: the linear probe that is the default, and any estimator with ``predict_proba``."""

import inspect
import os
import sys
import warnings
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from importlib import import_module
from typing import Any, ClassVar

import numpy as np

from dubito.checks import check_integer, check_real
from dubito.doubt import softmax
from dubito.errors import InvalidArgument, InvalidData
from dubito.experiments.chance import draw
from dubito.experiments.models.base import Fitted, Lesson, State, check_samples
from dubito.matrix import AnyArray, FloatArray, IntArray


@dataclass(frozen=True, slots=True)
class Linear:
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
    moves: ClassVar[bool] = False

    def __post_init__(self) -> None:
        check_positive("c", self.c)
        check_integer("iterations", self.iterations, least=1)
        check_samples(self.samples)

    def fit(self, lesson: Lesson) -> Fitted:
        """O(m·d·c) an iteration."""
        from sklearn.linear_model import LogisticRegression

        features = flat(lesson.features)
        if len(lesson.present) == 1:
            return Weights(np.zeros((1, features.shape[1])), np.zeros(1), lesson.present, lesson.n_classes)
        model = LogisticRegression(C=self.c, max_iter=self.iterations, warm_start=True)
        if np.array_equal(lesson.state.get("classes", ()), lesson.present):
            model.coef_, model.intercept_ = lesson.state["coef"].copy(), lesson.state["intercept"].copy()
            model.classes_ = lesson.present
        with warnings.catch_warnings():
            # A fit that stops at its last iteration is a model like any other, only not the best one.
            warnings.simplefilter("ignore")
            model.fit(features, lesson.labels)
        return Weights(model.coef_, model.intercept_, lesson.present, lesson.n_classes)


@dataclass(frozen=True, slots=True, eq=False)
class Weights:
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


@dataclass(frozen=True, slots=True)
class Sklearn:
    """Any estimator with ``predict_proba``, by its import path; trained from scratch every turn.

    ``random_state`` is set by the seed and turn where the estimator has one and the options do not set it.
    """

    estimator: str
    """Such as ``sklearn.ensemble.RandomForestClassifier``."""
    options: Mapping[str, object] = field(default_factory=dict)
    samples: int = 0
    kind: ClassVar[str] = "sklearn"
    is_convex: ClassVar[bool] = False
    goes_on: ClassVar[bool] = False
    moves: ClassVar[bool] = False

    def __post_init__(self) -> None:
        check_samples(self.samples)
        factory = import_object("estimator", self.estimator)
        if not hasattr(factory, "predict_proba"):
            raise InvalidArgument(
                f"estimator={self.estimator!r} has no predict_proba; choose one that gives probabilities."
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
            raise InvalidData(f"estimator={self.estimator!r} cannot be trained on these labels: {error}") from error
        if not hasattr(fitted, "predict_proba"):
            raise InvalidArgument(
                f"estimator={self.estimator!r} gives no probabilities with these options; choose one that has "
                "predict_proba once it is trained."
            )
        return Estimator(fitted, lesson.n_classes)


@dataclass(frozen=True, slots=True)
class Forest:
    """A random forest (scikit-learn's), grown anew every turn; it asks nothing of the features' scales."""

    trees: int = 100
    samples: int = 0
    kind: ClassVar[str] = "forest"
    is_convex: ClassVar[bool] = False
    goes_on: ClassVar[bool] = False
    moves: ClassVar[bool] = False

    def __post_init__(self) -> None:
        check_integer("trees", self.trees, least=1)
        check_samples(self.samples)

    def fit(self, lesson: Lesson) -> Fitted:
        """O(trees·m log m·√d)."""
        return Sklearn("sklearn.ensemble.RandomForestClassifier", {"n_estimators": self.trees}).fit(lesson)


@dataclass(frozen=True, slots=True, eq=False)
class Estimator:
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
            raise InvalidData(f"estimator={type(self.fitted).__name__!r} gives no probabilities: {error}") from error
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


def flat(features: AnyArray) -> AnyArray:
    """(n, d) whatever the shape of an item."""
    return features.reshape(len(features), -1)


def over_all_classes(known: FloatArray, classes: IntArray, n_classes: int) -> FloatArray:
    """(n, c) probabilities out of those of some classes."""
    everything = np.zeros((len(known), n_classes))
    everything[:, classes] = known
    return everything


def check_positive(name: str, value: object) -> float:
    """A finite number above 0."""
    number = check_real(name, value, least=0.0)
    if number == 0:
        raise InvalidArgument(f"{name}={value} is not allowed; pass a number above 0.")
    return number


def import_object(name: str, path: object) -> Any:
    """What an import path such as ``package.module.Class`` leads to."""
    module, dot, attribute = str(path).rpartition(".")
    if not isinstance(path, str) or not dot:
        raise InvalidArgument(f"{name}={path!r} is no import path; write package.module.Name.")
    try:
        with here_first():
            found = import_module(module)
    except ImportError as error:
        raise InvalidArgument(
            f"{name}={path!r} cannot be imported ({error}). Searched are the current folder, {os.getcwd()}, and "
            "installed packages; check the spelling, or run it where the module is."
        ) from error
    if not hasattr(found, attribute):
        raise InvalidArgument(f"{name}={path!r} is not there: {module} has no {attribute}; check the spelling.")
    return getattr(found, attribute)


@contextmanager
def here_first() -> Iterator[None]:
    """Let modules of the current folder be found, as ``python -m`` does."""
    sys.path.insert(0, os.getcwd())
    try:
        yield
    finally:
        sys.path.remove(os.getcwd())


def check_options(name: str, path: str, factory: Any, options: object) -> None:
    """Options that a factory takes by name."""
    if not isinstance(options, Mapping):
        raise InvalidArgument(f"options={options!r} is no table; write options = {{name = value}}.")
    try:
        inspect.signature(factory).bind_partial(**options)
    except TypeError as error:
        raise InvalidArgument(f"options of {name}={path!r} do not fit: {error}.") from error
