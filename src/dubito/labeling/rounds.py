"""A round: a model of the labels so far, how right it is, and what to ask for next. Run by the worker."""

import time
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any, ClassVar

import numpy as np

from dubito.api import select
from dubito.core.coverage_reference import CoverageProblem, cold_reach, kernel, sample_rows
from dubito.core.distances import squared_radii
from dubito.core.problem import Request
from dubito.matrix import AnyArray, BoolArray, FloatArray, IntArray, Matrix, Rows, blocks, len_of
from dubito.models.fit import Fit, fit
from dubito.models.held_out import Share
from dubito.models.progress import DOUBTED, LabelsSoFar
from dubito.pool import Pool
from dubito.request.scaling import measure_scale, on_scale
from dubito.strategies import Strategy
from dubito.strategies.auto import Auto
from dubito.strategies.base import Choice, Planner
from dubito.strategies.coverage import Coverage, DoubtCoverage

# Picks of a large pool within seconds, so that nobody waits: fewer rows stand for all that is to be covered.

LARGE = 20_000
"""Rows beyond which a pool is large here."""
SAMPLE = 5_000
"""Rows that then stand for all."""


@dataclass(frozen=True, slots=True)
class QuickAuto:
    """What ``auto`` takes, with a sample to cover where it covers."""

    name: ClassVar[str] = "auto"
    uses_engine: ClassVar[bool] = True
    keeps_limits: ClassVar[bool] = True

    def choose(self, request: Request) -> Choice:
        """What the strategy that is taken chooses."""
        return self._taken(request).choose(request)

    def plan(self, request: Request) -> object:
        """What it would ask."""
        taken = self._taken(request)
        assert isinstance(taken, Planner)
        return taken.plan(request)

    def _taken(self, request: Request) -> Strategy:
        taken, _ = Auto().take(request)
        return replace(taken, sample=SAMPLE) if isinstance(taken, Coverage | DoubtCoverage) else taken


def strategy_for(name: str, n_rows: int) -> str | Strategy:
    """The strategy of a name, or of a large pool what is quicker and nearly the same."""
    return QuickAuto() if name == "auto" and n_rows > LARGE else name


def first_picks(features: Matrix, labelled: IntArray, candidates: BoolArray, budget: int, seed: int) -> IntArray:
    """Rows that cover a random sample of a large pool: where nothing tells classes apart, that is soon done."""
    rows = np.flatnonzero(candidates)
    if len_of(features) > LARGE:
        drawn = np.random.default_rng([seed, 5]).choice(rows, min(len(rows), max(SAMPLE, budget)), replace=False)
        rows = np.sort(drawn)
    sample = np.asarray(features[rows])
    known = np.asarray(Rows(features, labelled)[:]) if len(labelled) else None
    return rows[select(sample, min(budget, len(rows)), labelled=known, seed=seed).indices]


IN_DOUBT = 0.1
"""A pick is one in doubt where the model doubts it more than this; else it covers what lies about it."""


@dataclass(frozen=True, slots=True)
class Job:
    """What a round is asked for."""

    round: int
    items: IntArray
    """(m,) the rows that have labels, ascending."""
    labels: Sequence[str]
    closed: IntArray
    """Rows that are not to be asked for: skipped, held, excluded."""
    only: IntArray | None
    """The only rows that are, where a person restricted them."""
    budget: int
    audit: float
    strategy: str
    audited: IntArray
    """Labelled rows that were drawn at random."""
    foreseen: Share | None
    """Of the last batch, those that the model had guessed right before it saw them."""
    probabilities: FloatArray | None = None
    """(n, c) of the user's own model, in the order of ``classes``."""
    classes: tuple[str, ...] = ()


class RoundPlayer:
    """The pool as the worker holds it from round to round."""

    def __init__(self, features: Matrix, standardise: bool | None) -> None:
        self.features, self._standardise = features, standardise
        self._pool = Pool(features, standardise=standardise)
        scaled = on_scale(features, measure_scale(features))
        self._sample = Rows(scaled, sample_rows(np.arange(len_of(features))))
        self._scaled = scaled
        self._pooled = scaled if standardise else features
        self._reach = cold_reach(
            CoverageProblem(scaled, scaled[:0], self._sample.rows[:0], 0, np.empty(0), self._sample.rows)
        )

    def play(self, job: Job) -> tuple[dict[str, AnyArray], dict[str, Any]]:
        """Arrays for the server to read, and the facts of the round."""
        begun = time.monotonic()
        is_labelled = np.zeros(len_of(self.features), dtype=np.bool_)
        is_labelled[job.items] = True
        fitted = (
            fit(self.features, list(job.labels), labelled=is_labelled, no_label="empty") if len(job.items) else None
        )
        described = _describe_of(job, fitted)
        picked, why, notes = self._picks(job, described)
        covered = self.covered(job.items, picked)
        standing = _standing(len_of(self.features), job, fitted, described, covered[0])
        arrays: dict[str, AnyArray] = {"picks": picked, "why": np.array(why, dtype="U10"), "covered": covered}
        if described.probabilities is not None:
            arrays |= {
                "probabilities": described.probabilities.astype(np.float32),
                "classes": np.array(described.classes),
            }
        arrays |= _held_out(fitted)
        facts = {
            **_facts(job, fitted, standing),
            "notes": notes,
            "own": job.probabilities is not None,
            "seconds": time.monotonic() - begun,
        }
        return arrays, facts

    def _mask(self, rows: IntArray) -> BoolArray:
        """Rows 0 and 1 of a pool of two could be taken for a mask themselves."""
        mask = np.zeros(len_of(self.features), dtype=np.bool_)
        mask[rows] = True
        return mask

    def covered(self, labelled: IntArray, picked: IntArray) -> FloatArray:
        """(1 + b,) the share of the pool near a label, before the picks and after each of them."""
        nearest = np.full(len_of(self._sample), np.inf)
        if len(labelled):
            nearest = squared_radii(self._sample, Rows(self._scaled, labelled), "euclidean")
        shares = [self._share(nearest)]
        sample = np.asarray(self._sample[:], dtype=np.float64)
        lengths = (sample * sample).sum(axis=1)
        for span in blocks(len(picked), 64):
            points = np.asarray(self._scaled[picked[span]], dtype=np.float64)
            squared = lengths + (points * points).sum(axis=1)[:, None] - 2.0 * (points @ sample.T)
            for row in np.maximum(squared, 0.0):
                nearest = np.minimum(nearest, row)
                shares.append(self._share(nearest))
        return np.array(shares)

    def _share(self, squared: FloatArray) -> float:
        if not np.isfinite(squared).all():
            return 0.0
        return float(kernel(squared, self._reach).mean() if self._reach > 0.0 else (squared == 0.0).mean())

    def _picks(self, job: Job, described: "_Heard") -> tuple[IntArray, list[str], list[str]]:
        """The rows to ask for in order, why each of them, and what the strategy said."""
        n_pool = len_of(self.features)
        is_open = np.zeros(n_pool, dtype=np.bool_)
        is_open[np.arange(n_pool) if job.only is None else job.only] = True
        is_open[job.closed] = False
        is_open[job.items] = False
        drawn, places = _drawn(is_open, job)
        left = is_open.copy()
        left[drawn] = False
        budget = min(job.budget - len(drawn), int(left.sum()))
        chosen, notes = np.empty(0, dtype=np.int64), []
        if budget > 0 and described.probabilities is None and n_pool > LARGE:
            chosen = first_picks(self._pooled, job.items, left, budget, job.round)
        elif budget > 0:
            selection = self._select(job, described, budget, left)
            chosen, notes = selection.indices, list(selection.notes)
        why = [self._why(described, item) for item in chosen.tolist()]
        # From a part of the pool, an estimate for all of it cannot be drawn.
        name = "audit" if job.only is None else "random"
        return *_dealt(chosen, why, drawn, places, name), notes

    def _select(self, job: Job, described: "_Heard", budget: int, candidates: BoolArray) -> Any:
        if not np.isin(self._pool.labelled, job.items).all():  # A label was taken back.
            self._pool = Pool(self.features, standardise=self._standardise)
        if len(job.items):
            self._pool.label(rows=self._mask(job.items))
        return self._pool.select(
            budget,
            probabilities=described.by_meeting,
            strategy=strategy_for(job.strategy, len_of(self.features)),
            candidates=np.flatnonzero(candidates),
            seed=job.round,
        )

    @staticmethod
    def _why(described: "_Heard", item: int) -> str:
        if described.probabilities is None:
            return "first"
        return "in doubt" if 1.0 - described.probabilities[item].max() > IN_DOUBT else "covers"


@dataclass(frozen=True, slots=True, eq=False)
class _Heard:
    """What a model says of every row: dubito's own, or the user's."""

    probabilities: FloatArray | None
    classes: tuple[str, ...]
    by_meeting: FloatArray | None
    """The same with classes in the order of their first labels, so that ties do not depend on names."""


def _describe_of(job: Job, fitted: Fit | None) -> _Heard:
    if job.probabilities is not None:
        return _Heard(job.probabilities, job.classes, job.probabilities)
    if fitted is None or fitted.probabilities is None:
        return _Heard(None, (), None)
    names = tuple(str(each) for each in fitted.classes.tolist())
    first = {name: place for place, name in reversed(list(enumerate(job.labels)))}
    order = sorted(range(len(names)), key=lambda place: first.get(names[place], len(first)))
    return _Heard(fitted.probabilities, names, fitted.probabilities[:, order])


def _drawn(is_open: BoolArray, job: Job) -> tuple[IntArray, list[int]]:
    """Rows by chance for the audit, and the places they take among the picks."""
    rows = np.flatnonzero(is_open)
    rng = np.random.default_rng([job.round, 17])
    places = np.flatnonzero(rng.random(min(job.budget, len(rows))) < job.audit).tolist()
    return rng.choice(rows, len(places), replace=False) if places else rows[:0], places


def _dealt(
    chosen: IntArray, why: list[str], drawn: IntArray, places: list[int], name: str
) -> tuple[IntArray, list[str]]:
    """Picks with those by chance, under that name, at their places among them."""
    picks, reasons = chosen.tolist(), list(why)
    for place, item in zip(places, drawn.tolist(), strict=True):
        picks.insert(place, item)
        reasons.insert(place, name)
    return np.array(picks, dtype=np.int64), reasons


def _held_out(fitted: Fit | None) -> dict[str, AnyArray]:
    """What models that had not seen a label say of it."""
    if fitted is None or fitted.held_out is None or fitted.rows is None:
        return {}
    classes = np.array([str(each) for each in fitted.classes.tolist()])
    return {
        "held_rows": fitted.rows,
        "held_out": fitted.held_out.astype(np.float32),
        "held_classes": classes,
    }


def _standing(n_pool: int, job: Job, fitted: Fit | None, described: _Heard, covered: float) -> LabelsSoFar | None:
    if fitted is None:
        return None
    expected, in_doubt = None, None
    if described.probabilities is not None:
        is_left = np.ones(n_pool, dtype=np.bool_)
        is_left[job.items] = False
        likeliest = described.probabilities[is_left].max(axis=1)
        expected = float(likeliest.mean()) if len(likeliest) else None
        in_doubt = int((likeliest < DOUBTED).sum())
    return LabelsSoFar(n_pool, fitted, job.foreseen, expected, in_doubt, covered)


def _facts(job: Job, fitted: Fit | None, standing: LabelsSoFar | None) -> dict[str, Any]:
    """The round as a record has it."""
    advice = "go on: nothing is labelled yet." if standing is None else standing.advice()
    audited = _audited(job, fitted)
    return {
        "round": job.round,
        "labels": len(job.items),
        "n_right": None if fitted is None or fitted.tested is None else fitted.tested.right,
        "n_tested": None if fitted is None or fitted.tested is None else fitted.tested.of,
        "covered": 0.0 if standing is None else standing.covered,
        "audited_right": None if audited is None else audited.right,
        "audited": None if audited is None else audited.of,
        "stop": not advice.startswith("go on"),
        "advice": advice,
        "message": "nothing is labelled yet" if fitted is None else fitted.described(),
    }


def _audited(job: Job, fitted: Fit | None) -> Share | None:
    """How many of the labels drawn at random were named right by models that had not seen them."""
    if fitted is None or fitted.held_out is None or not len(job.audited):
        return None
    places = np.flatnonzero(np.isin(job.items, job.audited))
    held = fitted.held_out[places]
    places, held = places[~np.isnan(held[:, 0])], held[~np.isnan(held[:, 0])]
    if not len(places):
        return None
    named = [str(each) for each in fitted.classes[held.argmax(axis=1)].tolist()]
    return Share(sum(job.labels[place] == name for place, name in zip(places.tolist(), named, strict=True)), len(named))
