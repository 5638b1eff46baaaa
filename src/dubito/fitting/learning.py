"""The models by name, and the linear one: what each makes of labels that are held out, and of the pool."""

from collections.abc import Callable, Mapping
from typing import NamedTuple

import numpy as np

from dubito.fitting.folds import kept_in, log_loss
from dubito.fitting.linear import ROUGH, Spanned, Weights, solve, span_of
from dubito.matrix import AnyArray, FloatArray, IntArray, Matrix, blocks, len_of, rows_per_read
from dubito.scales import Scale, measure_scale

PENALTY = 0.02
"""The penalty where labels cannot tell, for each feature: standardised rows have a squared length of about d."""
STEP = 10.0**0.5
DECADES = 1.0
"""How far a penalty lies from `PENALTY` before anything is known, in powers of ten."""
FARTHEST = 10
"""Steps to either side."""
CLEARLY = 2.0
"""Nats of log-loss, over all that is held out, for which features keep their sizes."""


class Course(NamedTuple):
    """What a model learns from, and what it is asked."""

    pool: Matrix
    features: Matrix
    """(m, d) of what is labelled."""
    codes: IntArray
    """(m,) classes from 0 to c - 1, at least two of them, none without a label."""
    folds: IntArray
    """(m,) as `dubito.fitting.folds.deal` has them."""
    seed: int

    @property
    def n_classes(self) -> int:
        """How many classes there are."""
        return int(self.codes.max()) + 1


class Learned(NamedTuple):
    """What a model makes of it, before it is calibrated."""

    held_out: FloatArray
    """(m, c) logits of labels, each by a model that has not seen it; NaN for those that are never held out."""
    logits: AnyArray
    """(n, c) of the pool."""
    settings: Mapping[str, float]


Learn = Callable[[Course], Learned]


def learn_linear(course: Course) -> Learned:
    """Multinomial logistic regression; its penalty, and whether features keep their sizes, by cross-validation.

    O(n·d·c), and for the labels O(m·d·min(m, d)) and O(m·min(m, d)·c) a step.
    """
    scale, search = _best_scale(course)
    place, span = search.best(), search.span
    everything = np.ones((1, len(course.codes)), dtype=np.bool_)
    weights = solve(span, course.codes, search.penalty(place), everything)
    slopes = (span.directions @ weights.slopes[0]).astype(np.float32)
    logits = np.empty((len_of(course.pool), course.n_classes), dtype=np.float32)
    for rows in blocks(len(logits), rows_per_read(course.pool)):
        logits[rows] = scale.applied(course.pool[rows], np.dtype(np.float32)) @ slopes
    logits += weights.intercepts[0].astype(np.float32)
    return Learned(search.held_out(place), logits, {"penalty": search.penalty(place)})


def _best_scale(course: Course) -> tuple[Scale, "PenaltySearch"]:
    """Features standardised by the pool each, or all by one number where that is clearly better on what is held out.

    Columns of a table have units, which mean nothing. Directions of an embedding have sizes, which may: those of words
    fall off, and standardised the last are noise as loud as the first.
    """
    each = measure_scale(course.pool)
    scales = each, each.in_common()
    unit = max(1.0, float(np.isfinite(each.deviation).sum()))
    given = np.asarray(course.features[:])
    found = [
        PenaltySearch(span_of(scale.applied(given, np.dtype(np.float64))), course.codes, course.folds, unit)
        for scale in scales
    ]
    costs = [search.cost(search.best()) for search in found]
    best = int(costs[1] < costs[0] - CLEARLY)
    return scales[best], found[best]


class PenaltySearch:
    """Which penalty is best for labels that are held out: down the hill from `PENALTY`, each step from the last."""

    def __init__(self, span: Spanned, codes: IntArray, folds: IntArray, unit: float) -> None:
        self.span, self.codes, self.folds, self.unit = span, codes, folds, unit
        self.is_tested = folds >= 0
        self.known: dict[int, FloatArray] = {}
        self.last: Weights | None = None

    def penalty(self, place: int) -> float:
        """The penalty so many steps from the first."""
        return float(self.unit * PENALTY * STEP**place)

    def held_out(self, place: int) -> FloatArray:
        """(m, c) logits of what is held out under this penalty."""
        if place not in self.known:
            logits = np.full((len(self.codes), int(self.codes.max()) + 1), np.nan)
            if self.is_tested.any():
                self.last = solve(
                    self.span, self.codes, self.penalty(place), kept_in(self.folds), self.last, ROUGH, np.float32
                )
            for fold in range(int(self.folds.max()) + 1):
                assert self.last is not None
                rows = self.folds == fold
                logits[rows] = self.last.logits(fold, self.span.coordinates[rows])
            self.known[place] = logits
        return self.known[place]

    def cost(self, place: int) -> float:
        """The log-loss of all that is held out together, and a prior that a few labels cannot move far."""
        if not self.is_tested.any():
            return 0.0
        logits = self.held_out(place)[self.is_tested]
        prior = 0.5 * (place * np.log10(STEP) / DECADES) ** 2
        return log_loss(logits, self.codes[self.is_tested]) * len(logits) + float(prior)

    def best(self) -> int:
        """The place of the best penalty; 0 where nothing can be held out."""
        place = 0
        if not self.is_tested.any():
            return place
        for way in (1, -1):
            while abs(place) < FARTHEST and self.cost(place + way) < self.cost(place):
                place += way
        return place
