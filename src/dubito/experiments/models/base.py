"""What learns from the labels: a `Model` is a frozen dataclass of its settings, and `fit` gives a `Fitted` one.

Whatever a model carries from one turn to the next is a `State`, a dictionary of arrays: it can be saved without
pickling, and the next turn goes on from it bit for bit. A kind of one's own inherits from `OnHost`, which answers what
the runner asks of a plain model; then `kind` and `fit` are left to write, and a line in `kinds.BUILT_IN`.
"""

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, ClassVar, Protocol, runtime_checkable

import numpy as np

from dubito.errors import PASS, InvalidArgument, named
from dubito.experiments.seeds import draw
from dubito.matrix import AnyArray, FloatArray, IntArray
from dubito.request.arrays import check_integer, check_real

if TYPE_CHECKING:
    from dubito.experiments.images import DownloadProgress

State = Mapping[str, AnyArray]
Facts = Mapping[str, object]


@dataclass(frozen=True, slots=True, eq=False)
class Lesson:
    """What a model is trained on, and what its chance is drawn from."""

    features: AnyArray
    """(m, d) the labeled rows, in ascending order of their row numbers."""
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
        """(n, c) probabilities over all classes; 0 for a class never seen, but by networks, which rule out none."""
        ...

    def embed(self, features: AnyArray) -> AnyArray:
        """(n, e) what distances are measured between."""
        ...


@runtime_checkable
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

    @property
    def takes_images(self) -> bool:
        """Whether it takes 8-bit images (n, h, w, 3) as they are, and scales them on its own."""
        ...

    @property
    def packages(self) -> tuple[str, ...]:
        """Distributions besides NumPy and scikit-learn whose versions its results hang on."""
        ...

    @property
    def on_gpu(self) -> bool:
        """Whether it is trained on a GPU, where several processes would only take turns."""
        ...

    @property
    def runner(self) -> str:
        """What trains it, by its name in `dubito.experiments.runner.RUNNERS`."""
        ...

    def fit(self, lesson: Lesson) -> Fitted:
        """Train; the same lesson gives the same bits on one machine."""
        ...

    def facts(self) -> dict[str, str]:
        """What a journal's header says of training here: ``device``, and whatever else could tell results apart."""
        ...

    def refusal(self, begun: Facts, now: Facts, labels: IntArray) -> str | None:
        """Why a run cannot go on here, with the fix; None where it can.

        Parameters
        ----------
        begun : mapping
            The header that the run began with: what `facts` said then, in whichever version of dubito.
        now : mapping
            What `facts` says now.
        labels : array (rounds + 1,)
            Labels owned at each training.
        """
        ...


@runtime_checkable
class NeedsFiles(Protocol):
    """A model that starts from files, which have to be there before it is trained."""

    def locate(self, folder: str) -> Model:
        """The same model, with relative paths of its files taken from a folder."""
        ...

    def fetch(self, *, download: bool, progress: "DownloadProgress | None") -> None:
        """Find its files, or download those missing if allowed; `MissingFile` says what is missing."""
        ...


class OnHost:
    """What most models are: trained on the host from features that stay put, each cell by itself, each turn anew."""

    __slots__ = ()
    is_convex: ClassVar[bool] = False
    goes_on: ClassVar[bool] = False
    takes_images: ClassVar[bool] = False
    packages: ClassVar[tuple[str, ...]] = ()

    @property
    def moves(self) -> bool:
        """Distances are measured between the features as they are."""
        return False

    @property
    def samples(self) -> int:
        """No committee."""
        return 0

    @property
    def on_gpu(self) -> bool:
        """On the host."""
        return False

    @property
    def runner(self) -> str:
        """Each run by itself."""
        return "one-by-one"

    def facts(self) -> dict[str, str]:
        """On the CPU."""
        return {"device": "cpu"}

    def refusal(self, begun: Facts, now: Facts, labels: IntArray) -> str | None:
        """A run goes on wherever its data is."""
        return None


def committee_proba(model: Model, lesson: Lesson, start: State, features: AnyArray) -> FloatArray:
    """(n, k, c) probabilities by k = ``model.samples`` models, each trained on a bootstrap resample of the lesson.

    Members of a convex model go on from ``start``, the fitted one's state, which only saves time; others start anew,
    each from weights of its own.
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
            state=start if model.is_convex else {},
        )
        answers.append(model.fit(resampled).predict_proba(features))
    return np.stack(answers, axis=1)


def check_samples(samples: object) -> None:
    """A committee has no members, or at least two."""
    if check_integer("samples", samples, least=0) == 1:
        hint = f"{PASS} {named('samples')} >= 2, or 0 for none."
        raise InvalidArgument("is no committee", argument="samples", value=1, hint=hint)


def check_positive(name: str, value: object) -> float:
    """A finite number above 0."""
    number = check_real(name, value, least=0.0)
    if number == 0:
        raise InvalidArgument("is not allowed", argument=name, value=value, hint=f"{PASS} a number above 0.")
    return number


def flat(features: AnyArray) -> AnyArray:
    """(n, d) whatever the shape of an item."""
    return features.reshape(len(features), -1)


def over_all_classes(known: FloatArray, classes: IntArray, n_classes: int) -> FloatArray:
    """(n, c) probabilities out of those of some classes."""
    everything = np.zeros((len(known), n_classes))
    everything[:, classes] = known
    return everything
