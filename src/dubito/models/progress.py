"""Progress of labeling: what is labeled, how accurate a model is, and whether to continue."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np

from dubito.core.coverage_reference import CoverageProblem, cold_reach, kernel, sample_rows
from dubito.core.distances import squared_radii
from dubito.matrix import IntArray, Matrix, Rows, len_of
from dubito.models.fit import Fit, fit
from dubito.models.held_out import Share
from dubito.request.scaling import measure_scale, on_scale

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
    scaled = on_scale(pool, measure_scale(pool))
    sample = sample_rows(np.arange(len_of(pool)))
    reach = cold_reach(CoverageProblem(scaled, scaled[:0], sample[:0], 0, np.empty(0), sample))
    squared = squared_radii(Rows(scaled, sample), Rows(scaled, labeled), "euclidean")
    return float(kernel(squared, reach).mean() if reach > 0.0 else (squared == 0.0).mean())


SURE = 0.98
"""Held-out and expected accuracy above which further labels may teach little."""
DOUBTED = 0.5
"""A row is in doubt if its most probable class is less probable than this."""
FEWEST = 30
"""Minimum number of labels for the advice to stop."""


class Advice(NamedTuple):
    """Whether to continue labeling."""

    stop: bool
    """Whether further labels may teach little."""
    text: str


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

    @property
    def counts(self) -> dict[str, int]:
        return {str(name): int(n) for name, n in zip(self.fitted.classes.tolist(), self.fitted.counts, strict=True)}

    def advice(self) -> Advice:
        found = self.fitted
        if found.probabilities is None:
            return Advice(False, "go on: label until at least two classes have labels; there is no model yet.")
        if found.tested is None or found.n_labels < FEWEST:
            return Advice(False, f"go on: {found.n_labels} labels are too few to tell how well the model does.")
        low, _ = found.tested.interval
        alone = int((found.counts == 1).sum())
        if alone:
            few = f"{alone} of {len(found.counts)} classes have one label only, and nothing is known of them."
            return Advice(False, f"go on: {few}")
        if found.tested.value < SURE or (self.expected or 0.0) < SURE:
            return Advice(
                False,
                "go on if that is not good enough for you: the model is wrong on some of what was held out, or expects "
                "to be wrong on some of the rest.",
            )
        return Advice(
            True,
            f"further labels may teach little (at least {low:.0%} of the held-out are right, at 95%). Check before you "
            "stop: label a few dozen rows drawn at random (--strategy random), since picks are chosen, and only a "
            "random sample tells of the pool.",
        )


def measure_progress(
    pool: Matrix, labels: Mapping[int, str], before: Mapping[int, str], model: object = "linear"
) -> LabelsSoFar:
    """Statistics of labels by row; ``before`` are the labels from before the last batch.

    Examples
    --------
    >>> pool = np.array([[0.0], [1.0], [2.0], [7.0], [8.0], [9.0]])
    >>> found = measure_progress(pool, {0: "a", 1: "a", 2: "a", 4: "b", 5: "b"}, {0: "a", 5: "b"})
    >>> found.counts, found.last_batch
    ({'a': 3, 'b': 2}, Share(right=3, of=3))
    """
    fitted = fit(pool, labels, model=model, no_label="empty")
    n_pool = len_of(pool)
    expected, in_doubt = None, None
    if fitted.probabilities is not None:
        rest = np.setdiff1d(np.arange(n_pool), list(labels))
        likeliest = fitted.probabilities[rest].max(axis=1)
        expected = float(likeliest.mean()) if len(rest) else None
        in_doubt = int((likeliest < DOUBTED).sum())
    covered = covered_share(pool, np.array(sorted(labels), dtype=np.int64))
    return LabelsSoFar(n_pool, fitted, _last_batch(pool, labels, before, model), expected, in_doubt, covered)


def _last_batch(pool: Matrix, labels: Mapping[int, str], before: Mapping[int, str], model: object) -> Share | None:
    last = {row: label for row, label in labels.items() if row not in before}
    if not last or len(set(before.values())) < 2:
        return None
    earlier = fit(pool, before, model=model, no_label="empty").predicted
    return Share(sum(str(earlier[row]) == label for row, label in last.items()), len(last))
