"""A labeling round, run by the worker: fit a model to the labels, estimate its accuracy, and select the next items."""

import time
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any, ClassVar

import numpy as np

from dubito.api import select
from dubito.core.coverage_reference import CoverageProblem, cold_squared_reach, kernel, sample_rows
from dubito.core.distances import squared_radii
from dubito.core.problem import Request, Selection
from dubito.matrix import AnyArray, BoolArray, FloatArray, IntArray, Matrix, Rows, blocks, len_of
from dubito.models.accuracy import AccuracyEstimate, estimate_held_out
from dubito.models.fit import Fit, fit
from dubito.models.held_out import Share
from dubito.models.progress import DOUBTED, Advice, Change, LabelsSoFar, change_of_predictions
from dubito.pool import Pool
from dubito.request.scaling import measure_scale, standardized
from dubito.strategies import Strategy
from dubito.strategies.auto import Auto
from dubito.strategies.base import Choice, Planner
from dubito.strategies.coverage import Coverage, DoubtCoverage

LARGE_POOL = 20_000
"""Pools with more rows are subsampled, so that a round takes seconds."""
COVER_SAMPLE = 5_000
"""Number of rows to cover in place of all rows of a large pool."""


@dataclass(frozen=True, slots=True)
class AutoOnSample:
    """The strategy that ``auto`` chooses; one that is based on coverage covers only a sample of the pool."""

    name: ClassVar[str] = "auto"
    uses_engine: ClassVar[bool] = True
    keeps_limits: ClassVar[bool] = True

    def choose(self, request: Request) -> Choice:
        return self._chosen(request).choose(request)

    def plan(self, request: Request) -> object:
        chosen = self._chosen(request)
        assert isinstance(chosen, Planner)
        return chosen.plan(request)

    def _chosen(self, request: Request) -> Strategy:
        chosen, _ = Auto().take(request)
        return replace(chosen, sample=COVER_SAMPLE) if isinstance(chosen, Coverage | DoubtCoverage) else chosen


def first_picks(features: Matrix, labeled: IntArray, candidates: BoolArray, budget: int, seed: int) -> IntArray:
    """Select rows without class probabilities; on a large pool, from a random sample of the candidates."""
    rows = np.flatnonzero(candidates)
    if len_of(features) > LARGE_POOL:
        drawn = np.random.default_rng([seed, 5]).choice(rows, min(len(rows), max(COVER_SAMPLE, budget)), replace=False)
        rows = np.sort(drawn)
    sample = np.asarray(features[rows])
    known = np.asarray(Rows(features, labeled)[:]) if len(labeled) else None
    return rows[select(sample, min(budget, len(rows)), labeled=known, seed=seed).indices]


REPORTED_DOUBT = 0.1
"""A pick whose doubt (1 - maximum probability) exceeds this is reported as "in doubt", any other as "covers"."""


@dataclass(frozen=True, slots=True)
class Job:
    """The input of a round."""

    round: int
    items: IntArray
    """(m,) labeled rows, ascending."""
    labels: Sequence[str]
    closed: IntArray
    """Rows that may not be selected: skipped or leased."""
    allowed: IntArray | None
    """The only rows that may be selected, if the user restricted them."""
    budget: int
    audit: float
    strategy: str
    audited: IntArray
    """Labeled rows of the audit, which were drawn uniformly at random."""
    order: IntArray
    """(m,) indices of ``items`` in the order in which they were labeled."""
    last_batch: Share | None
    """Share of the last batch that the model predicted correctly before it was trained on it."""
    probabilities: FloatArray | None = None
    """(n, c) probabilities of the user's own model, with columns in the order of ``classes``."""
    classes: tuple[str, ...] = ()


class RoundRunner:
    """Runs rounds on a pool, and keeps the data that they share."""

    def __init__(self, features: Matrix, standardize: bool | None) -> None:
        self.features, self._standardize, self.is_table = features, standardize, standardize is True
        self._pool = Pool(features, standardize=standardize)
        self._scaled = scaled = standardized(features, measure_scale(features))
        self._sample = Rows(scaled, sample_rows(np.arange(len_of(features))))
        self._last: tuple[int, tuple[str, ...], IntArray] | None = None
        """The number of labels, the classes and the predicted class of every row in the previous round."""
        self._reach = cold_squared_reach(
            CoverageProblem(scaled, scaled[:0], self._sample.rows[:0], 0, np.empty(0), self._sample.rows)
        )

    def run(self, job: Job) -> tuple[dict[str, AnyArray], dict[str, Any]]:
        """Run a round; returns the arrays of its model file and the facts of its record."""
        started = time.monotonic()
        labeled = self._mask(job.items)
        fitted = fit(self.features, list(job.labels), labeled=labeled, no_label="empty") if len(job.items) else None
        predictions = _predictions_for(job, fitted)
        picked, why, notes = self._picks(job, predictions)
        covered = self.covered(job.items, picked)
        change = self._change(job, predictions)
        progress = _progress(len_of(self.features), job, fitted, predictions, covered[0], change)
        arrays: dict[str, AnyArray] = {"picks": picked, "why": np.array(why, dtype="U10"), "covered": covered}
        if predictions.probabilities is not None:
            arrays |= {
                "probabilities": predictions.probabilities.astype(np.float32),
                "classes": np.array(predictions.classes),
            }
        arrays |= _held_out(fitted)
        facts = {
            **_facts(job, fitted, progress),
            "notes": notes,
            "own": job.probabilities is not None,
            "seconds": time.monotonic() - started,
        }
        return arrays, facts

    def _change(self, job: Job, predictions: "_Predictions") -> Change | None:
        """How the predictions have changed since the previous round."""
        probabilities, classes, last = predictions.probabilities, predictions.classes, self._last
        if probabilities is None:
            self._last = None
            return None
        self._last = len(job.items), classes, probabilities.argmax(axis=1)
        if last is None or last[0] >= len(job.items):
            return None
        return change_of_predictions(probabilities, classes, last[1], last[2], job.items, len(job.items) - last[0])

    def _mask(self, rows: IntArray) -> BoolArray:
        """(n,) mask of the rows; in a pool of two, `Pool` could mistake the row numbers 0 and 1 for a mask."""
        mask = np.zeros(len_of(self.features), dtype=np.bool_)
        mask[rows] = True
        return mask

    def covered(self, labeled: IntArray, picked: IntArray) -> FloatArray:
        """(1 + b,) the coverage of the pool by labeled rows, before the picks and after each of them."""
        nearest = np.full(len_of(self._sample), np.inf)
        if len(labeled):
            nearest = squared_radii(self._sample, Rows(self._scaled, labeled), "euclidean")
        shares = [self._covered_share(nearest)]
        sample = np.asarray(self._sample[:], dtype=np.float64)
        lengths = (sample * sample).sum(axis=1)
        for span in blocks(len(picked), 64):
            points = np.asarray(self._scaled[picked[span]], dtype=np.float64)
            squared = lengths + (points * points).sum(axis=1)[:, None] - 2.0 * (points @ sample.T)
            for row in np.maximum(squared, 0.0):
                nearest = np.minimum(nearest, row)
                shares.append(self._covered_share(nearest))
        return np.array(shares)

    def _covered_share(self, squared: FloatArray) -> float:
        if not np.isfinite(squared).all():
            return 0.0
        return float(kernel(squared, self._reach).mean() if self._reach > 0.0 else (squared == 0.0).mean())

    def _picks(self, job: Job, predictions: "_Predictions") -> tuple[IntArray, list[str], list[str]]:
        """The selected rows in order, the reason for each, and the notes of the strategy."""
        n_pool = len_of(self.features)
        is_open = np.ones(n_pool, dtype=np.bool_) if job.allowed is None else self._mask(job.allowed)
        is_open[job.closed] = False
        is_open[job.items] = False
        drawn, positions = _draw_audit(is_open, job)
        is_candidate = is_open.copy()
        is_candidate[drawn] = False
        budget = min(job.budget - len(drawn), int(is_candidate.sum()))
        chosen, notes = np.empty(0, dtype=np.int64), []
        if budget > 0 and predictions.probabilities is None and n_pool > LARGE_POOL:
            points = self._scaled if self._standardize else self.features
            chosen = first_picks(points, job.items, is_candidate, budget, job.round)
        elif budget > 0:
            selection = self._select(job, predictions, budget, is_candidate)
            chosen, notes = selection.indices, list(selection.notes)
        why = [self._why(predictions, item) for item in chosen.tolist()]
        picks = chosen.tolist()
        for position, item in zip(positions, drawn.tolist(), strict=True):
            picks.insert(position, item)
            # Rows of a restricted pool give no estimate for the whole pool, so they are not an audit.
            why.insert(position, "audit" if job.allowed is None else "random")
        return np.array(picks, dtype=np.int64), why, notes

    def _select(self, job: Job, predictions: "_Predictions", budget: int, is_candidate: BoolArray) -> Selection:
        if not np.isin(self._pool.labeled, job.items).all():  # A label was undone.
            self._pool = Pool(self.features, standardize=self._standardize)
        if len(job.items):
            self._pool.label(rows=self._mask(job.items))
        return self._pool.select(
            budget,
            probabilities=predictions.by_first_label,
            strategy=AutoOnSample() if job.strategy == "auto" and len_of(self.features) > LARGE_POOL else job.strategy,
            candidates=np.flatnonzero(is_candidate),
            seed=job.round,
        )

    @staticmethod
    def _why(predictions: "_Predictions", item: int) -> str:
        if predictions.probabilities is None:
            return "first"
        return "in doubt" if 1.0 - predictions.probabilities[item].max() > REPORTED_DOUBT else "covers"


@dataclass(frozen=True, slots=True, eq=False)
class _Predictions:
    """Class probabilities of every row, from dubito's model or the user's."""

    probabilities: FloatArray | None
    classes: tuple[str, ...]
    by_first_label: FloatArray | None
    """The probabilities with columns in the order in which classes were first labeled, so that ties do not depend on
    class names; those of the user's own model keep their order."""


def _predictions_for(job: Job, fitted: Fit | None) -> _Predictions:
    if job.probabilities is not None:
        return _Predictions(job.probabilities, job.classes, job.probabilities)
    if fitted is None or fitted.probabilities is None:
        return _Predictions(None, (), None)
    names = tuple(str(each) for each in fitted.classes.tolist())
    first = {name: index for index, name in reversed(list(enumerate(job.labels)))}
    order = sorted(range(len(names)), key=lambda column: first.get(names[column], len(first)))
    return _Predictions(fitted.probabilities, names, fitted.probabilities[:, order])


def _draw_audit(is_open: BoolArray, job: Job) -> tuple[IntArray, list[int]]:
    """Draw rows uniformly for the audit, and their positions among the picks."""
    rows = np.flatnonzero(is_open)
    rng = np.random.default_rng([job.round, 17])
    positions = np.flatnonzero(rng.random(min(job.budget, len(rows))) < job.audit).tolist()
    return rng.choice(rows, len(positions), replace=False) if positions else rows[:0], positions


def _held_out(fitted: Fit | None) -> dict[str, AnyArray]:
    """Cross-validated predictions of the labeled rows, for the model file."""
    if fitted is None or fitted.held_out is None or fitted.rows is None:
        return {}
    classes = np.array([str(each) for each in fitted.classes.tolist()])
    return {"held_rows": fitted.rows, "held_out": fitted.held_out.astype(np.float32), "held_classes": classes}


def _progress(
    n_pool: int, job: Job, fitted: Fit | None, predictions: _Predictions, covered: float, change: Change | None
) -> LabelsSoFar | None:
    if fitted is None:
        return None
    expected, in_doubt = None, None
    if predictions.probabilities is not None:
        is_unlabeled = np.ones(n_pool, dtype=np.bool_)
        is_unlabeled[job.items] = False
        confidence = predictions.probabilities[is_unlabeled].max(axis=1)
        expected = float(confidence.mean()) if len(confidence) else None
        in_doubt = int((confidence < DOUBTED).sum())
    return LabelsSoFar(n_pool, fitted, job.last_batch, expected, in_doubt, covered, _estimate(job, fitted), change)


def _facts(job: Job, fitted: Fit | None, progress: LabelsSoFar | None) -> dict[str, Any]:
    """The facts of the round's record."""
    advice = Advice(False, "go on: nothing is labeled yet.") if progress is None else progress.advice()
    audited = _audited(job, fitted)
    estimate = None if progress is None else progress.estimate
    return {
        "round": job.round,
        "labels": len(job.items),
        "n_right": None if fitted is None or fitted.tested is None else fitted.tested.right,
        "n_tested": None if fitted is None or fitted.tested is None else fitted.tested.of,
        "covered": 0.0 if progress is None else progress.covered,
        "audited_right": None if audited is None else audited.right,
        "audited": None if audited is None else audited.of,
        "estimated": None if estimate is None else estimate.value,
        "estimated_low": None if estimate is None else estimate.low,
        "estimated_high": None if estimate is None else estimate.high,
        "stop": advice.stop,
        "advice": advice.text,
        "message": "nothing is labeled yet" if fitted is None else fitted.described(),
    }


def _audited(job: Job, fitted: Fit | None) -> Share | None:
    """Share of the audited labels that cross-validated models predict correctly."""
    if fitted is None or fitted.held_out is None or not len(job.audited):
        return None
    indices = np.flatnonzero(np.isin(job.items, job.audited))
    held_out = fitted.held_out[indices]
    indices, held_out = indices[~np.isnan(held_out[:, 0])], held_out[~np.isnan(held_out[:, 0])]
    if not len(indices):
        return None
    predicted = [str(each) for each in fitted.classes[held_out.argmax(axis=1)].tolist()]
    n_right = sum(job.labels[index] == name for index, name in zip(indices.tolist(), predicted, strict=True))
    return Share(n_right, len(predicted))


def _estimate(job: Job, fitted: Fit) -> AccuracyEstimate | None:
    """Estimated accuracy of dubito's model on the unlabeled rows, from the labels of the audit."""
    weights = np.isin(job.items, job.audited).astype(np.float64)
    labels = np.array(job.labels, dtype=object)
    return estimate_held_out(fitted.held_out, fitted.probabilities, labels, job.items, weights, job.order)
