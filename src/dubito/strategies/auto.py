"""What to take where nobody says: one question that the data answers, and two answers.

Were the features trained with the labels? A network that was has learned its labels by heart and has bent its space
around them: there it pays to look far away, and doubt only helps (``doubt-coreset`` at a low strength). Everything
else - embeddings, pixels, tables - is as it was: there what lies far off is an outlier, and it pays to cover doubt
(``doubt-coverage``). Which settings, and how much is lost at worst, is measured in ``docs/results/regret.md``.
"""

from dataclasses import dataclass, replace
from typing import ClassVar, Literal, get_args

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

FROZEN = DoubtCoverage(strength=3.0)
EARLY = DoubtCoverage(strength=1.0)
"""The same for a model of very few labels: it may be sure of a class that it has never seen."""
TRAINED = DoubtCoreset(strength=0.25)
LEARNED = 0.01
"""A model that has its labels by heart doubts them less than this, for each bit that it doubts the rest."""
BENT = 0.99
"""In a space that was bent around labels at least this share of them have a label of their class next to them."""
FEWEST = 20
"""A model of fewer labels than this is sure too soon."""
TELLING = 100
"""Fewer labels than this say nothing of the features: any model has a few by heart."""
MOST, ASKED = 4096, 1024
"""Labelled rows among which neighbours are looked for, and those whose neighbour is, evenly chosen."""
BLOCK = 512
LARGE, SAMPLE = 200_000, 20_000
"""Rows of a pool beyond which so many stand for all that is to be covered."""


@dataclass(frozen=True, slots=True)
class Auto:
    """Covers doubt; scales a core-set by doubt where the features were trained with the labels.

    Parameters
    ----------
    features : {"frozen", "trained"}, optional
        Whether the features were trained with the labels. By default the labelled rows answer: where the model hardly
        doubts them, and nearly all lie next to one of their own class, they were.
    strength, beam_width, scaling : optional
        Options of ``doubt-coreset``, which is taken where one of them is given, with its own defaults for the others.
    """

    name: ClassVar[str] = "auto"
    uses_engine: ClassVar[bool] = True
    keeps_limits: ClassVar[bool] = True
    features: Origin | None = None
    strength: float | None = None
    beam_width: int | None = None
    scaling: Scaling | None = None

    def __post_init__(self) -> None:
        if self.features is None:
            self._paper()
            return
        check_choice("features", self.features, get_args(Origin))
        for option in self._given():
            problem = f"goes without {named(option)}, which is doubt-coreset's"
            raise InvalidArgument(problem, argument="features", value=self.features, hint="leave one out.")

    def _given(self) -> list[str]:
        """Which options of the paper's method were given."""
        return [name for name in ("strength", "beam_width", "scaling") if getattr(self, name) is not None]

    def _paper(self) -> DoubtCoreset:
        """The paper's method with the options that were given."""
        usual = DoubtCoreset()
        return DoubtCoreset(
            strength=usual.strength if self.strength is None else self.strength,
            beam_width=usual.beam_width if self.beam_width is None else self.beam_width,
            scaling=usual.scaling if self.scaling is None else self.scaling,
        )

    def choose(self, request: Request) -> Choice:
        """What the strategy that is taken chooses, and a note of which and why."""
        taken, note = self.take(request)
        choice = taken.choose(request)
        return replace(choice, taken=taken.name, note=note + describe_of(choice))

    def plan(self, request: Request) -> object:
        """What the strategy that is taken would ask."""
        taken, _ = self.take(request)
        assert isinstance(taken, Planner)
        return taken.plan(request)

    def take(self, request: Request) -> tuple[Strategy, str]:
        """The strategy, and why in a sentence."""
        if given := self._given():
            return self._paper(), f"auto took doubt-coreset, whose {' and '.join(given)} you set."
        covers = is_for(request.engine, CoverageProblem)
        if request.doubt is None:
            if not covers:
                return Coreset(), f"auto took coreset: the engine {request.engine} does not cover."
            idle = ", however the features came about" if self.features else ""
            described = f"auto took coverage: without a model's doubt every row counts alike{idle}."
            return of_sample(Coverage(), request), described
        if covers and not unlabelled_doubt(request).any():
            return of_sample(Coverage(), request), "auto took coverage: the model doubts no row, so all count alike."
        origin, why = (self.features, "as you say") if self.features else origin_of(request)
        if origin == "trained":
            return TRAINED, f"auto took doubt-coreset, strength {TRAINED.strength:g}: features were trained ({why})."
        if not covers:
            return DoubtCoreset(), f"auto took doubt-coreset: the engine {request.engine} does not cover."
        taken = EARLY if len_of(request.references) < FEWEST else FROZEN
        described = f"auto took doubt-coverage, strength {taken.strength:g}: features are frozen ({why})."
        return of_sample(taken, request), described

    def take_unasked(self, is_doubted: bool, n_labelled: int) -> tuple[Strategy, str]:
        """The same of shards: nobody holds what could say whether their features were trained."""
        if given := self._given():
            return self._paper(), f"auto took doubt-coreset, whose {' and '.join(given)} you set."
        if not is_doubted:
            return Coverage(), "auto took coverage: without a model's doubt every row counts alike."
        if self.features == "trained":
            described = f"auto took doubt-coreset, strength {TRAINED.strength:g}: features were trained (as you say)."
            return TRAINED, described
        taken = EARLY if n_labelled < FEWEST else FROZEN
        unasked = "shards are not asked whether their features were trained; where they were, say auto:features=trained"
        why = "features are frozen (as you say)" if self.features else unasked
        return taken, f"auto took doubt-coverage, strength {taken.strength:g}: {why}."


def of_sample(strategy: Coverage | DoubtCoverage, request: Request) -> Strategy:
    """Of a pool that is too large for every pair, a sample is covered; the Selection says so."""
    return strategy if len_of(request.pool) <= LARGE else replace(strategy, sample=SAMPLE)


def describe_of(choice: Choice) -> str:
    """That a sample was covered, and that nothing was left to cover, where it was so."""
    sampled = "" if choice.sampled is None else f" {choice.sampled:,} rows stand for all that is to be covered."
    best = choice.configurations[0]
    n_idle = 0 if best.covered is None else int(np.count_nonzero(best.priorities == 0.0))
    idle = f" The last {n_idle:,} picks cover nothing more, and are the first rows left." if n_idle else ""
    return sampled + idle


def unlabelled_doubt(request: Request) -> FloatArray:
    """The doubt of all rows that have no label."""
    assert request.doubt is not None
    is_left = np.ones(len(request.doubt), dtype=np.bool_)
    is_left[request.labelled] = False
    return request.doubt[is_left]


def origin_of(request: Request) -> tuple[Origin, str]:
    """Frozen or trained, and what says so."""
    doubt, rows, n_labels = request.doubt, request.labelled, len_of(request.references)
    if doubt is None or len(rows) < TELLING or request.probabilities is None:
        few = f"{n_labels} label is" if n_labels == 1 else f"{n_labels} labels are"
        known = few if n_labels < TELLING else "what is given is"
        return "frozen", f"{known} too little to tell; where they were trained, say auto:features=trained"
    left = unlabelled_doubt(request)
    if doubt[rows].mean() >= LEARNED * (left.mean() if len(left) else 0.0):
        return "frozen", "the model still doubts what is labelled"
    share = own_share(request, evenly(rows, MOST))
    if share is None:
        return "frozen", "one class has nearly all labels, which say too little"
    if share < BENT:
        return "frozen", f"only {share:.0%} of the labelled lie next to one of their class"
    return "trained", f"the model is sure of what is labelled, and {share:.1%} of it lies next to its own class"


def own_share(request: Request, rows: IntArray) -> float | None:
    """The share of labelled rows next to one of their class, by class; None without two classes of two rows."""
    classes, asked = likeliest(request, rows), evenly(np.arange(len(rows)), ASKED)
    alike = like_their_nearest(request, rows, asked, classes)
    counts = np.bincount(classes)
    shares = [alike[classes[asked] == own].mean() for own in np.unique(classes[asked]) if counts[own] > 1]
    return float(np.mean(shares)) if len(shares) > 1 else None


def like_their_nearest(request: Request, rows: IntArray, asked: IntArray, classes: IntArray) -> BoolArray:
    """Whether each of the rows that are asked has another of its class, as the model sees it, for its nearest one."""
    points, nearest = read_rows(request.pool, rows[asked], request.metric), np.full(len(asked), np.inf)
    own, found = (points * points).sum(axis=1), np.zeros(len(asked), dtype=np.int64)
    for span in blocks(len(rows), BLOCK):
        others = read_rows(request.pool, rows[span], request.metric)
        squared = _squared(points, own, others)
        at = np.arange(span.start, span.start + len(others))
        squared[asked[:, None] == at] = np.inf
        best = squared.argmin(axis=1)
        smaller = squared[np.arange(len(asked)), best]
        found = np.where(smaller < nearest, span.start + best, found)
        nearest = np.minimum(nearest, smaller)
    return np.asarray(classes[found] == classes[asked])


def likeliest(request: Request, rows: IntArray) -> IntArray:
    """The class of each row as the model sees it; of posterior samples, as they see it together."""
    assert request.probabilities is not None
    read = [np.asarray(request.probabilities[rows[span]]) for span in blocks(len(rows), BLOCK)]
    return np.concatenate([(each if each.ndim == 2 else each.mean(axis=1)).argmax(axis=1) for each in read])


def evenly(rows: IntArray, most: int) -> IntArray:
    """At most so many of the rows, as far apart as can be.

    Examples
    --------
    >>> evenly(np.arange(10), 4).tolist()
    [0, 3, 6, 9]
    """
    return rows[np.linspace(0, len(rows) - 1, min(len(rows), most)).astype(np.int64)]


def _squared(points: FloatArray, own: FloatArray, others: FloatArray) -> FloatArray:
    return np.asarray(own[:, None] + (others * others).sum(axis=1) - 2.0 * (points @ others.T))
