"""The interface of a model: a `Model` is a frozen dataclass of its settings, and its `fit` returns a `Fitted` model.

A model's `State`, a dictionary of arrays, is saved without pickling after each turn, and the next turn continues from
it exactly. A new kind inherits from `ModelDefaults`, which implements everything but `kind` and `fit`, and is added to
`kinds.BUILT_IN`.
"""

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, ClassVar, Protocol, runtime_checkable

import numpy as np

from dubito.errors import PASS, InvalidArgument, named
from dubito.experiments.seeds import derive_seed
from dubito.matrix import AnyArray, FloatArray, IntArray
from dubito.request.arrays import check_integer

if TYPE_CHECKING:
    from dubito.experiments.images import DownloadProgress

State = Mapping[str, AnyArray]
Facts = Mapping[str, object]


@dataclass(frozen=True, slots=True, eq=False)
class TrainingSet:
    """The training data of a model, and its seeds."""

    features: AnyArray
    """(m, d) the labeled rows, in ascending order of their row numbers."""
    labels: IntArray
    """(m,) class codes below ``n_classes``."""
    n_classes: int
    seed: int
    """The same for all strategies under one seed of the experiment; initial weights depend only on it."""
    turn: int
    """Minibatches depend on seed and turn, so that the same rows are seen in the same order."""
    state: State
    """The state after the previous turn; empty in the first turn, and when training from scratch."""

    @property
    def present(self) -> IntArray:
        """The classes that occur in the labels, ascending."""
        return np.unique(self.labels)


class Fitted(Protocol):
    """A trained model."""

    @property
    def state(self) -> State:
        """The state from which the next turn continues; empty if every turn starts from scratch."""

    def predict_proba(self, features: AnyArray) -> FloatArray:
        """(n, c) probabilities over all classes; 0 for a class without labels, except by networks."""

    def embed(self, features: AnyArray) -> AnyArray:
        """(n, e) the features in which distances are measured."""


@runtime_checkable
class Model(Protocol):
    """A kind of model with its settings."""

    @property
    def kind(self) -> str:
        """Its name, the value of ``kind`` in a ``[model]`` table."""

    @property
    def is_convex(self) -> bool:
        """Whether training has a single optimum, so that initial weights affect only the time."""

    @property
    def continues(self) -> bool:
        """Whether a turn continues from the state of the previous one."""

    @property
    def learns_features(self) -> bool:
        """Whether training changes the features in which distances are measured."""

    @property
    def samples(self) -> int:
        """Number of members of the committee for ``bald`` and ``batchbald``; 0 for none."""

    @property
    def takes_images(self) -> bool:
        """Whether it takes 8-bit images (n, h, w, 3) and scales them itself."""

    @property
    def packages(self) -> tuple[str, ...]:
        """Packages besides NumPy and scikit-learn whose versions affect the results."""

    @property
    def on_gpu(self) -> bool:
        """Whether it is trained on a GPU; there, several processes are not faster than one."""

    @property
    def runner(self) -> str:
        """The name of its runner in `dubito.experiments.runner.RUNNERS`."""

    def fit(self, train_set: TrainingSet) -> Fitted:
        """Train; the same training set gives bit-identical results on one machine."""

    def facts(self) -> dict[str, str]:
        """Entries for the header of a journal: ``device``, and anything else that may affect results."""

    def refusal(self, begun: Facts, now: Facts, labels: IntArray) -> str | None:
        """Why a run cannot be continued here, with the fix; None if it can.

        Parameters
        ----------
        begun : mapping
            The header from the start of the run, with what `facts` returned then, perhaps in another version of dubito.
        now : mapping
            What `facts` returns now.
        labels : array (rounds + 1,)
            Number of labels at each training.
        """


@runtime_checkable
class NeedsFiles(Protocol):
    """A model that needs files, such as pretrained weights."""

    def locate(self, folder: str) -> Model:
        """The same model, with the paths of its files relative to a folder."""

    def fetch(self, *, download: bool, progress: "DownloadProgress | None") -> None:
        """Find its files, and download missing ones if allowed. Raises `MissingFile` with what is missing."""


class ModelDefaults:
    """Base class with defaults: trained on the CPU, on fixed features, from scratch in every turn."""

    __slots__ = ()
    is_convex: ClassVar[bool] = False
    continues: ClassVar[bool] = False
    takes_images: ClassVar[bool] = False
    packages: ClassVar[tuple[str, ...]] = ()

    @property
    def learns_features(self) -> bool:
        return False

    @property
    def samples(self) -> int:
        return 0

    @property
    def on_gpu(self) -> bool:
        return False

    @property
    def runner(self) -> str:
        return "one-by-one"

    def facts(self) -> dict[str, str]:
        return {"device": "cpu"}

    def refusal(self, begun: Facts, now: Facts, labels: IntArray) -> str | None:
        """A run can be continued anywhere."""
        return None


def committee_proba(model: Model, train_set: TrainingSet, start: State, features: AnyArray) -> FloatArray:
    """(n, k, c) probabilities of k = ``model.samples`` models, each trained on a bootstrap sample of the training set.

    Members of a convex model start from ``start``, the state of the fitted model, which only saves time; others start
    from different initial weights.
    """
    probabilities = []
    for member in range(model.samples):
        seed = derive_seed(train_set.seed, "committee", train_set.turn, member)
        rows = np.sort(np.random.default_rng(seed).integers(len(train_set.labels), size=len(train_set.labels)))
        resampled = replace(
            train_set,
            features=train_set.features[rows],
            labels=train_set.labels[rows],
            seed=seed,
            state=start if model.is_convex else {},
        )
        probabilities.append(model.fit(resampled).predict_proba(features))
    return np.stack(probabilities, axis=1)


def check_samples(samples: object) -> None:
    """Raise unless the number of members of a committee is 0 or at least 2."""
    if check_integer("samples", samples, least=0) == 1:
        hint = f"{PASS} {named('samples')} >= 2, or 0 for none."
        raise InvalidArgument("is not a committee", argument="samples", value=1, hint=hint)


def flat(features: AnyArray) -> AnyArray:
    """Items of any shape as rows (n, d)."""
    return features.reshape(len(features), -1)


def over_all_classes(known: FloatArray, classes: IntArray, n_classes: int) -> FloatArray:
    """(n, c) probabilities of all classes, given those of some classes; 0 for the others."""
    probabilities = np.zeros((len(known), n_classes))
    probabilities[:, classes] = known
    return probabilities
