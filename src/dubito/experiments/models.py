"""What learns from the labels: a `Model` is a frozen dataclass of its settings, and `fit` gives a `Fitted` one.

Whatever a model carries from one turn to the next is a `State`, a dictionary of arrays: it can be saved without
pickling, and the next turn goes on from it bit for bit.
"""

from collections.abc import Callable, Mapping
from dataclasses import MISSING, Field, dataclass, fields, is_dataclass, replace
from typing import Protocol

import numpy as np

from dubito.checks import check_choice, check_integer
from dubito.errors import InvalidArgument
from dubito.experiments.chance import draw
from dubito.experiments.toml import check_keys
from dubito.matrix import AnyArray, FloatArray, IntArray

State = Mapping[str, AnyArray]


@dataclass(frozen=True, slots=True, eq=False)
class Lesson:
    """What a model is trained on, and what its chance is drawn from."""

    features: AnyArray
    """(m, d) the labelled rows, in ascending order of their row numbers."""
    labels: IntArray
    """(m,) codes below ``n_classes``."""
    n_classes: int
    seed: int
    """The same for all strategies of an experiment's seed: initial weights depend on it alone."""
    turn: int
    """Minibatches depend on seed and turn, so that equal sets are seen in equal order."""
    state: State
    """What the turn before left; empty at first, and when training from scratch."""

    @property
    def present(self) -> IntArray:
        """The classes that occur, ascending."""
        return np.unique(self.labels)


class Fitted(Protocol):
    """A trained model."""

    @property
    def state(self) -> State:
        """What the next turn goes on from; empty where every turn starts from scratch."""
        ...

    def predict_proba(self, features: AnyArray) -> FloatArray:
        """(n, c) probabilities over all classes; 0 for a class never seen."""
        ...

    def embed(self, features: AnyArray) -> AnyArray:
        """(n, e) what distances are measured between."""
        ...


class Model(Protocol):
    """Something to train."""

    @property
    def kind(self) -> str:
        """What ``kind =`` calls it."""
        ...

    @property
    def is_convex(self) -> bool:
        """One best answer whatever the start: a start nearby then only saves time."""
        ...

    @property
    def goes_on(self) -> bool:
        """Whether a turn goes on from the state of the one before."""
        ...

    @property
    def moves(self) -> bool:
        """Whether training moves the points that distances are measured between."""
        ...

    @property
    def samples(self) -> int:
        """Members of the committee that ``bald`` and ``batchbald`` ask; 0 for none."""
        ...

    def fit(self, lesson: Lesson) -> Fitted:
        """Train; the same lesson gives the same bits on one machine."""
        ...


def models() -> dict[str, Callable[..., Model]]:
    """Every kind of model, by name."""
    from dubito.experiments.models_probe import Probe
    from dubito.experiments.models_sklearn import Linear, Sklearn
    from dubito.experiments.models_torch import Mlp, Torch

    return {"linear": Linear, "sklearn": Sklearn, "mlp": Mlp, "probe": Probe, "torch": Torch}


def settings_of(model: object) -> dict[str, Field[object]]:
    """The settings of a model or of its class, by name."""
    return {each.name: each for each in fields(model)} if is_dataclass(model) else {}


def model_from_table(table: Mapping[str, object]) -> Model:
    """A model out of a ``[model]`` table: its ``kind``, and the settings of that kind.

    Examples
    --------
    >>> model_from_table({"kind": "linear", "c": 10.0})
    Linear(c=10.0, iterations=1000, samples=0)
    """
    known = models()
    kind = check_choice("kind", table.get("kind", "linear"), known)
    given = {key: tuple(value) if isinstance(value, list) else value for key, value in table.items() if key != "kind"}
    check_keys(f"kind = {kind!r}", given, settings_of(known[kind]))
    missing = [
        name
        for name, each in settings_of(known[kind]).items()
        if each.default is MISSING and each.default_factory is MISSING and name not in given
    ]
    if missing:
        raise InvalidArgument(f"kind = {kind!r} needs the key {missing[0]!r}; add it.")
    return known[kind](**given)


def model_as_table(model: Model, *, explicit: bool = True) -> dict[str, object]:
    """A model as a ``[model]`` table, with or without what is as by default."""
    table: dict[str, object] = {"kind": model.kind}
    for name, each in settings_of(model).items():
        value = getattr(model, name)
        if explicit or value != (each.default_factory() if each.default_factory is not MISSING else each.default):
            table[name] = value
    return table


def committee_proba(model: Model, lesson: Lesson, fitted: Fitted, features: AnyArray) -> FloatArray:
    """(n, k, c) probabilities by k = ``model.samples`` models, each trained on a bootstrap resample of the lesson.

    Members of a convex model start from the fitted one, which only saves time; others start anew, each from weights
    of its own.
    """
    answers = []
    for member in range(model.samples):
        chance = draw(lesson.seed, "committee", lesson.turn, member)
        rows = np.sort(np.random.default_rng(chance).integers(len(lesson.labels), size=len(lesson.labels)))
        resampled = replace(
            lesson,
            features=lesson.features[rows],
            labels=lesson.labels[rows],
            seed=chance,
            state=fitted.state if model.is_convex else {},
        )
        answers.append(model.fit(resampled).predict_proba(features))
    return np.stack(answers, axis=1)


def check_samples(samples: object) -> None:
    """A committee has no members, or at least two."""
    if check_integer("samples", samples, least=0) == 1:
        raise InvalidArgument("samples=1 is no committee; pass samples >= 2, or 0 for none.")
