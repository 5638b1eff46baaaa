"""The default strategy: it chooses between two strategies by whether the features were trained with the labels.

A network trained on the labels has memorized them and has shaped its feature space around them: distant points are
worth labeling, and doubt is a secondary signal (``doubt-coreset`` at a low strength). In all other features -
embeddings, pixels, tables - distant points are outliers, and covering doubt works better (``doubt-coverage``).
``docs/results/regret.md`` has the measurements behind the settings and the worst-case loss.
"""

from dataclasses import dataclass, replace
from typing import Any, ClassVar, Literal, get_args

import numpy as np

from dubito.core.coverage_reference import CoverageProblem
from dubito.core.distances import read_rows
from dubito.core.problem import Request, Scaling
from dubito.engines.dispatch import is_for
from dubito.errors import InvalidArgument, named
from dubito.matrix import BoolArray, FloatArray, IntArray, blocks, len_of
from dubito.request.arrays import check_choice
from dubito.strategies.base import Choice, Planner, Strategy
from dubito.strategies.coreset import Coreset, DoubtCoreset
from dubito.strategies.coverage import Coverage, DoubtCoverage

Origin = Literal["frozen", "trained"]

WITHOUT_DOUBT = Coverage()
FROZEN = DoubtCoverage(strength=3.0, sharpen=0.9)
EARLY = DoubtCoverage(strength=1.0)
"""For a model trained on very few labels, which may be confident about classes it has never seen."""
TRAINED = DoubtCoreset(strength=0.25)
FROZEN_NOTE = "auto chose doubt-coverage, strength {:g}: the features were not trained on the labels ({})."
ASSUMED_NOTE = (
    "auto chose doubt-coverage (strength {:g}), which suits raw or pretrained features. If your features come from a "
    "network that you trained on these labels, use auto:features=trained; with {}, auto cannot detect that."
)
TRAINED_NOTE = (
    f"auto chose doubt-coreset, strength {TRAINED.strength:g}: the features were trained on the labels ({{}})."
)
MEMORIZED_DOUBT = 0.01
"""Labels are memorized if their mean doubt is below this fraction of the mean doubt of the other rows."""
SAME_CLASS_FRACTION = 0.99
"""In trained features at least this fraction of labeled rows have a nearest labeled row of their own class."""
FEWEST = 20
"""Models trained on fewer labels than this are overconfident."""
MIN_LABELS_TO_DETECT = 100
"""With fewer labels than this, trained features cannot be detected: any model memorizes a few."""
MAX_SEARCHED, MAX_QUERIES = 4096, 1024
"""Maximum number of labeled rows to search for nearest neighbors, and of rows whose neighbor is searched."""
BLOCK = 512
LARGE, SAMPLE = 200_000, 20_000
"""In pools with more rows than `LARGE`, a sample of `SAMPLE` rows is covered."""


@dataclass(frozen=True, slots=True)
class Auto:
    """Covers doubt, or scales a core-set by doubt if the features were trained with the labels.

    Parameters
    ----------
    features : {"frozen", "trained"}, optional
        Whether the features were trained with the labels. By default this is decided from the labeled rows: the
        features count as trained if the model hardly doubts these rows and nearly all are next to one of their class.
    strength, beam_width, scaling : optional
        Options of ``doubt-coreset``. If any is given, that strategy is used, with its own defaults for the others.
    """

    name: ClassVar[str] = "auto"
    uses_engine: ClassVar[bool] = True
    keeps_limits: ClassVar[bool] = True
    picks_groups: ClassVar[bool] = True
    features: Origin | None = None
    strength: float | None = None
    beam_width: int | None = None
    scaling: Scaling | None = None

    def __post_init__(self) -> None:
        options = self._core_set_options()
        if self.features is None:
            if options:
                DoubtCoreset(**options)  # Checks them.
            return
        check_choice("features", self.features, get_args(Origin))
        for option in options:
            problem = f"cannot be combined with {named(option)}, an option of doubt-coreset"
            raise InvalidArgument(problem, argument="features", value=self.features, hint="leave one out.")

    def _core_set_options(self) -> dict[str, Any]:
        """The options of `DoubtCoreset` that were given."""
        options = {"strength": self.strength, "beam_width": self.beam_width, "scaling": self.scaling}
        return {name: value for name, value in options.items() if value is not None}

    def choose(self, request: Request) -> Choice:
        """The choice of the selected strategy, with a note that says which and why."""
        taken, note = self.take(request)
        choice = taken.choose(request)
        return replace(choice, taken=taken.name, note=note + coverage_note(choice))

    def plan(self, request: Request) -> object:
        """The plan of the selected strategy."""
        taken, _ = self.take(request)
        assert isinstance(taken, Planner)
        return taken.plan(request)

    def take(self, request: Request) -> tuple[Strategy, str]:
        """The strategy to use, and a sentence that says why."""
        if options := self._core_set_options():
            return DoubtCoreset(**options), f"auto chose doubt-coreset, since you set {' and '.join(options)}."
        covers = is_for(request.engine, CoverageProblem)
        if request.doubt is None:
            if not covers:
                return Coreset(), f"auto chose coreset: the engine {request.engine} does not support coverage."
            ignored = ", and features is ignored" if self.features else ""
            note = f"auto chose coverage: without a model's doubt all rows have the same weight{ignored}."
            return sampled_if_large(WITHOUT_DOUBT, request), note
        if covers and not unlabeled_doubt(request).any():
            note = "auto chose coverage: the model has no doubt about any row, so all have the same weight."
            return sampled_if_large(WITHOUT_DOUBT, request), note
        origin, why = (self.features, "as you set") if self.features else detect_origin(request)
        if origin == "trained":
            return TRAINED, TRAINED_NOTE.format(why)
        if not covers:
            return DoubtCoreset(), f"auto chose doubt-coreset: the engine {request.engine} does not support coverage."
        taken = EARLY if len_of(request.references) < FEWEST else FROZEN
        note = FROZEN_NOTE if origin else ASSUMED_NOTE
        return sampled_if_large(taken, request), note.format(taken.strength, why)

    def take_for_shards(self, has_doubt: bool, n_labeled: int) -> tuple[Strategy, str]:
        """`take` for shards, from which it cannot be detected whether the features were trained."""
        if options := self._core_set_options():
            return DoubtCoreset(**options), f"auto chose doubt-coreset, since you set {' and '.join(options)}."
        if not has_doubt:
            return WITHOUT_DOUBT, "auto chose coverage: without a model's doubt all rows have the same weight."
        if self.features == "trained":
            return TRAINED, TRAINED_NOTE.format("as you set")
        taken = EARLY if n_labeled < FEWEST else replace(FROZEN, sharpen=1.0)
        if self.features:
            return taken, FROZEN_NOTE.format(taken.strength, "as you set")
        return taken, ASSUMED_NOTE.format(taken.strength, "shards")


def sampled_if_large(strategy: Coverage | DoubtCoverage, request: Request) -> Strategy:
    """Cover a sample if the pool is too large for all pairs; `Selection.note` says so."""
    return strategy if len_of(request.pool) <= LARGE else replace(strategy, sample=SAMPLE)


def coverage_note(choice: Choice) -> str:
    """Sentences for the note: whether a sample was covered, and whether some picks cover nothing new."""
    sampled = "" if choice.sampled is None else f" A sample of {choice.sampled:,} rows is covered."
    best = choice.configurations[0]
    n_zero = 0 if best.covered is None else int(np.count_nonzero(best.priorities == 0.0))
    rest = f" The last {n_zero:,} picks cover nothing more, and are the first rows left." if n_zero else ""
    return sampled + rest


def unlabeled_doubt(request: Request) -> FloatArray:
    """The doubt of the unlabeled rows."""
    assert request.doubt is not None
    is_left = np.ones(len(request.doubt), dtype=np.bool_)
    is_left[request.labeled] = False
    return request.doubt[is_left]


def detect_origin(request: Request) -> tuple[Origin | None, str]:
    """Whether the features are frozen or trained (None if this cannot be told), and the reason."""
    doubt, rows, n_labels = request.doubt, request.labeled, len_of(request.references)
    if doubt is None or len(rows) < MIN_LABELS_TO_DETECT or request.probabilities is None:
        few = f"only {n_labels} labeled row{'s' * (n_labels != 1)}"
        return None, few if n_labels < MIN_LABELS_TO_DETECT else "so little data"
    left = unlabeled_doubt(request)
    if doubt[rows].mean() >= MEMORIZED_DOUBT * (left.mean() if len(left) else 0.0):
        return "frozen", "the model still doubts labeled rows"
    fraction = same_class_fraction(request, evenly_spaced(rows, MAX_SEARCHED))
    if fraction is None:
        return "frozen", "one class has nearly all labels"
    if fraction < SAME_CLASS_FRACTION:
        return "frozen", f"only {fraction:.0%} of the labeled rows are next to one of their class"
    return (
        "trained",
        f"the model is sure of labeled rows, and {fraction:.1%} of them are next to one of their class",
    )


def same_class_fraction(request: Request, rows: IntArray) -> float | None:
    """The fraction of labeled rows whose nearest labeled row has their class, averaged over classes.

    None if fewer than two classes have two rows.
    """
    classes, queries = predicted_classes(request, rows), evenly_spaced(np.arange(len(rows)), MAX_QUERIES)
    alike = nearest_has_same_class(request, rows, queries, classes)
    counts = np.bincount(classes)
    fractions = [alike[classes[queries] == own].mean() for own in np.unique(classes[queries]) if counts[own] > 1]
    return float(np.mean(fractions)) if len(fractions) > 1 else None


def nearest_has_same_class(request: Request, rows: IntArray, queries: IntArray, classes: IntArray) -> BoolArray:
    """Whether the nearest other row of each of ``queries`` (positions in ``rows``) has the same predicted class."""
    points, nearest = read_rows(request.pool, rows[queries], request.metric), np.full(len(queries), np.inf)
    own, found = (points * points).sum(axis=1), np.zeros(len(queries), dtype=np.int64)
    for span in blocks(len(rows), BLOCK):
        others = read_rows(request.pool, rows[span], request.metric)
        squared = _squared(points, own, others)
        at = np.arange(span.start, span.start + len(others))
        squared[queries[:, None] == at] = np.inf
        best = squared.argmin(axis=1)
        smaller = squared[np.arange(len(queries)), best]
        found = np.where(smaller < nearest, span.start + best, found)
        nearest = np.minimum(nearest, smaller)
    return np.asarray(classes[found] == classes[queries])


def predicted_classes(request: Request, rows: IntArray) -> IntArray:
    """The predicted class of each row; posterior samples are averaged."""
    assert request.probabilities is not None
    read = [np.asarray(request.probabilities[rows[span]]) for span in blocks(len(rows), BLOCK)]
    return np.concatenate([(each if each.ndim == 2 else each.mean(axis=1)).argmax(axis=1) for each in read])


def evenly_spaced(rows: IntArray, most: int) -> IntArray:
    """At most ``most`` of the rows, evenly spaced.

    Examples
    --------
    >>> evenly_spaced(np.arange(10), 4).tolist()
    [0, 3, 6, 9]
    """
    return rows[np.linspace(0, len(rows) - 1, min(len(rows), most)).astype(np.int64)]


def _squared(points: FloatArray, own: FloatArray, others: FloatArray) -> FloatArray:
    return np.asarray(own[:, None] + (others * others).sum(axis=1) - 2.0 * (points @ others.T))
