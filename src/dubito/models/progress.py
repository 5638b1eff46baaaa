"""Progress of labeling: what is labeled, how accurate a model is, and whether to continue."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np

from dubito.core.coverage_reference import CoverageProblem, cold_squared_reach, kernel, sample_rows
from dubito.core.distances import squared_radii
from dubito.matrix import FloatArray, IntArray, Matrix, Rows, len_of
from dubito.models.accuracy import AccuracyEstimate, estimate_held_out
from dubito.models.fit import Fit, fit
from dubito.models.held_out import Share
from dubito.request.scaling import measure_scale, standardized

# Coverage of the pool by the labels.


def covered_share(pool: Matrix, labeled: IntArray) -> float:
    """Share of the pool near a labeled row: the mean kernel value of the nearest label, over at most 4,096 rows.

    The kernel is 1 at distance 0, and 0 beyond a fixed reach: half the typical distance of two rows, on standardized
    features. The reach does not depend on the labels, so the share never shrinks when labels are added.

    Examples
    --------
    >>> pool = np.array([[0.0], [0.1], [9.9], [10.0]])
    >>> round(covered_share(pool, np.array([0])), 2), round(covered_share(pool, np.array([0, 3])), 2)
    (0.5, 1.0)
    """
    if len(labeled) == 0:
        return 0.0
    scaled = standardized(pool, measure_scale(pool))
    sample = sample_rows(np.arange(len_of(pool)))
    reach = cold_squared_reach(CoverageProblem(scaled, scaled[:0], sample[:0], 0, np.empty(0), sample))
    squared = squared_radii(Rows(scaled, sample), Rows(scaled, labeled), "euclidean")
    return float(kernel(squared, reach).mean() if reach > 0.0 else (squared == 0.0).mean())


SUFFICIENT_ACCURACY = 0.98
"""Held-out and expected accuracy above which further labels may teach little."""
DOUBTED = 0.5
"""A row is in doubt if its most probable class is less probable than this."""
MIN_LABELS = 30
"""Minimum number of labels for the advice to stop."""


class Advice(NamedTuple):
    stop: bool
    """Whether further labels may teach little."""
    text: str


class Change(NamedTuple):
    """How the last labels changed the predictions for the rows that are still unlabeled."""

    labels: int
    """Number of the last labels."""
    changed: int
    """Number of rows whose predicted class changed."""
    expected: float
    """The gain in accuracy from these changes, according to the present model."""


def change_of_predictions(
    probabilities: FloatArray,
    classes: Sequence[str],
    earlier_classes: Sequence[str],
    earlier: IntArray,
    labeled: IntArray,
    n_last: int,
) -> Change:
    """Compare the predictions of a model, (n, c) probabilities, with those of an earlier one: (n,) indices of classes.

    Examples
    --------
    >>> now = np.array([[0.6, 0.4], [0.2, 0.8], [0.9, 0.1]])
    >>> change_of_predictions(now, ["a", "b"], ["a", "b"], np.array([0, 0, 0]), np.array([2]), 1)
    Change(labels=1, changed=1, expected=0.3)
    """
    columns = np.array([classes.index(name) if name in classes else -1 for name in earlier_classes], dtype=np.int64)
    unlabeled = np.setdiff1d(np.arange(len(probabilities)), labeled)
    now, before = probabilities[unlabeled], columns[earlier[unlabeled]]
    expected_before = np.where(before < 0, 0.0, now[np.arange(len(unlabeled)), before])
    gain = float((now.max(axis=1) - expected_before).mean()) if len(unlabeled) else 0.0
    return Change(n_last, int((now.argmax(axis=1) != before).sum()), round(gain, 6))


@dataclass(frozen=True, slots=True, eq=False)
class LabelsSoFar:
    """Statistics of the labels and of a model fitted on them."""

    n_pool: int
    fitted: Fit
    """The model of all labels."""
    last_batch: Share | None
    """Accuracy of a model of the earlier labels on the last batch; None if there was no such model or batch."""
    expected: float | None
    """The accuracy that the calibrated model expects on the unlabeled rows."""
    in_doubt: int | None
    """Number of unlabeled rows whose most probable class has a probability below one half."""
    covered: float
    """Share of the pool near a label; see `covered_share`."""
    estimate: AccuracyEstimate | None = None
    """Estimated accuracy on the unlabeled rows, from labels of rows that were drawn at random."""
    change: Change | None = None
    """What the last batch of labels changed; None if there was no model before it."""

    @property
    def counts(self) -> dict[str, int]:
        return {str(name): int(n) for name, n in zip(self.fitted.classes.tolist(), self.fitted.counts, strict=True)}

    def advice(self) -> Advice:
        fitted = self.fitted
        if fitted.n_labels >= self.n_pool:
            return Advice(True, "every row is labeled.")
        if fitted.probabilities is None:
            return Advice(False, "go on: label until at least two classes have labels; there is no model yet.")
        if fitted.tested is None or fitted.n_labels < MIN_LABELS:
            return Advice(False, f"go on: {fitted.n_labels} labels are too few to tell how well the model does.")
        n_single = int((fitted.counts == 1).sum())
        if n_single:
            few = f"{n_single} of {len(fitted.counts)} classes have one label only, and nothing is known of them."
            return Advice(False, f"go on: {few}")
        numbers = self._described()
        value = fitted.tested.value if self.estimate is None else self.estimate.value
        if value < SUFFICIENT_ACCURACY or (self.expected or 0.0) < SUFFICIENT_ACCURACY:
            return Advice(False, f"go on if that is not good enough for you: {numbers}")
        if self.estimate is not None:
            return Advice(True, f"further labels may teach little: {numbers}")
        return Advice(
            True,
            f"further labels may teach little: {numbers} Check before you stop: label a few dozen rows drawn at random "
            "(--strategy random), since only a random sample tells of the pool.",
        )

    def _described(self) -> str:
        """The accuracy, what the last labels changed, and how many rows are uncertain, in one sentence."""
        estimate, n_unlabeled = self.estimate, self.n_pool - self.fitted.n_labels
        if estimate is not None:
            parts = [
                f"{estimate.value:.0%} ({estimate.low:.0%} to {estimate.high:.0%}) of the unlabeled are estimated right"
            ]
        elif self.fitted.tested is not None:
            low, high = self.fitted.tested.interval
            of = "held-out labels, which were chosen and not drawn at random, are"
            parts = [f"{self.fitted.tested.value:.0%} ({low:.0%} to {high:.0%}) of the {of} right"]
        if self.change is not None:
            labels = f"{self.change.labels:,} label{'s' * (self.change.labels != 1)}"
            changed = f"{self.change.changed:,} prediction{'s' * (self.change.changed != 1)}"
            parts.append(
                f"the last {labels} changed {changed}, by which the model expects to gain "
                f"{100.0 * self.change.expected:+.1f} points"
            )
        if self.in_doubt is not None:
            parts.append(f"{self.in_doubt:,} of {n_unlabeled:,} are uncertain")
        return "; ".join(parts) + "."


def measure_progress(
    pool: Matrix,
    labels: Mapping[int, str],
    before: Mapping[int, str],
    model: object = "linear",
    drawn: Mapping[int, float] | None = None,
) -> LabelsSoFar:
    """Statistics of labels by row, in the order in which they were made.

    ``before`` are the labels from before the last batch, and ``drawn`` the rows that were drawn at random, with their
    probabilities.

    Examples
    --------
    >>> pool = np.array([[0.0], [1.0], [2.0], [7.0], [8.0], [9.0]])
    >>> found = measure_progress(pool, {0: "a", 1: "a", 2: "a", 4: "b", 5: "b"}, {0: "a", 5: "b"})
    >>> found.counts, found.last_batch
    ({'a': 3, 'b': 2}, Share(right=3, of=3))
    """
    fitted = fit(pool, labels, model=model, no_label="empty")
    estimate = _estimate(fitted, labels, drawn or {})
    n_pool = len_of(pool)
    expected, in_doubt = None, None
    if fitted.probabilities is not None:
        unlabeled = np.setdiff1d(np.arange(n_pool), list(labels))
        confidence = fitted.probabilities[unlabeled].max(axis=1)
        expected = float(confidence.mean()) if len(unlabeled) else None
        in_doubt = int((confidence < DOUBTED).sum())
    rows = np.array(sorted(labels), dtype=np.int64)
    covered = covered_share(pool, rows)
    last_batch, change = _last_batch(pool, labels, before, model, fitted, rows)
    return LabelsSoFar(n_pool, fitted, last_batch, expected, in_doubt, covered, estimate, change)


def _estimate(fitted: Fit, labels: Mapping[int, str], drawn: Mapping[int, float]) -> AccuracyEstimate | None:
    rows = np.array(sorted(labels), dtype=np.int64)
    values = np.array([labels[row] for row in rows.tolist()], dtype=object)
    weights = np.array([1.0 / drawn[row] if row in drawn else 0.0 for row in rows.tolist()])
    order = np.searchsorted(rows, np.array(list(labels), dtype=np.int64))
    return estimate_held_out(fitted.held_out, fitted.probabilities, values, rows, weights, order)


def _last_batch(
    pool: Matrix, labels: Mapping[int, str], before: Mapping[int, str], model: object, fitted: Fit, rows: IntArray
) -> tuple[Share | None, Change | None]:
    """How a model of the earlier labels does on the last batch, and what the batch changed."""
    last = {row: label for row, label in labels.items() if row not in before}
    if not last or len(set(before.values())) < 2:
        return None, None
    earlier = fit(pool, before, model=model, no_label="empty")
    predicted = earlier.predicted
    right = Share(sum(str(predicted[row]) == label for row, label in last.items()), len(last))
    if earlier.probabilities is None or fitted.probabilities is None:
        return right, None
    classes, earlier_classes = ([str(name) for name in model.classes.tolist()] for model in (fitted, earlier))
    codes = earlier.probabilities.argmax(axis=1)
    return right, change_of_predictions(fitted.probabilities, classes, earlier_classes, codes, rows, len(last))
