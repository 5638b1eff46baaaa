"""What a round is measured by: accuracy, recall, the core-set loss, and how far the data lies from its labels."""

import numpy as np

from dubito.distances import read_rows, settle
from dubito.matrix import AnyArray, FloatArray, IntArray, blocks

LEAST_PROBABILITY = 1e-12
"""What a class that cannot be is taken to have, so that the loss stays finite."""
FIRST_SEEN = 64
"""Labelled rows that every row is measured against at first."""
GROWTH = 8
"""How many times as many labelled rows a row is measured against when that did not settle it."""
LOOK_ROWS = 1024
ROWS_AT_ONCE = 32
"""Rows measured before looking again who could be farthest; then twice as many, and so on."""
PAIRS_BYTES = 8 << 20
"""Of pairs of rows whose distance is settled at once."""
SMALL = 1 << 23
"""Multiplications below which measuring every row costs less than finding out which to measure."""


def accuracy(probabilities: FloatArray, labels: IntArray) -> float:
    """Share of rows whose most probable class is right.

    Examples
    --------
    >>> accuracy(np.array([[0.9, 0.1], [0.8, 0.2]]), np.array([0, 1]))
    0.5
    """
    return float((probabilities.argmax(axis=1) == labels).mean())


def recall(probabilities: FloatArray, labels: IntArray) -> tuple[float | None, ...]:
    """Share of each class's rows that is right; None for a class without rows.

    Examples
    --------
    >>> recall(np.array([[0.9, 0.1, 0.0], [0.8, 0.2, 0.0]]), np.array([0, 1]))
    (1.0, 0.0, None)
    """
    n_classes = probabilities.shape[1]
    right = np.bincount(labels[probabilities.argmax(axis=1) == labels], minlength=n_classes)
    there = np.bincount(labels, minlength=n_classes)
    return tuple(float(r / t) if t else None for r, t in zip(right, there, strict=True))


def core_set_loss(probabilities: FloatArray, labels: IntArray) -> float:
    """Mean cross-entropy over all rows, labelled or not, in nats.

    Examples
    --------
    >>> round(core_set_loss(np.array([[0.5, 0.5], [1.0, 0.0]]), np.array([0, 0])), 4)
    0.3466
    """
    given = probabilities[np.arange(len(labels)), labels]
    return float(-np.log(np.maximum(given, LEAST_PROBABILITY)).mean() + 0.0)


class NearestLabelled:
    """How far each row is from its nearest labelled one, known only as well as was asked.

    Distances once measured are upper bounds for ever: labelled rows only come to be more. A question for the largest
    measures the rows whose bounds are largest, against the labelled rows they have not met, until no other bound can
    beat what was found. Where there is little to measure, it is done at once. The answer depends on the labelled rows
    and the batches they came in, not on what was asked before. O(n) memory.

    Examples
    --------
    >>> nearest = NearestLabelled(np.array([[0.0], [1.0], [5.0]]))
    >>> nearest.add(np.array([0]))
    >>> nearest.largest(), nearest.largest(np.array([0.0, 1.0, 0.1]))
    (5.0, 1.0)
    """

    def __init__(self, features: AnyArray) -> None:
        self.features = features
        self.references = np.empty(0, dtype=np.int64)
        self.squared = np.full(len(features), np.inf)
        self.seen = np.zeros(len(features), dtype=np.int64)
        self.centred: tuple[FloatArray, FloatArray] | None = None
        self.near = features[:0].astype(np.promote_types(features.dtype, np.float32))
        """The labelled rows about the first of them, as many as were needed yet: what a quick look is taken at."""

    def copy(self) -> "NearestLabelled":
        """The same knowledge, to go on from on its own."""
        twin = NearestLabelled(self.features)
        twin.references, twin.squared, twin.seen = self.references, self.squared.copy(), self.seen.copy()
        twin.centred, twin.near = self.centred, self.near
        return twin

    def add(self, rows: IntArray) -> None:
        """These rows are labelled from now on."""
        is_small = self.features.size * len(rows) <= SMALL
        if is_small and len(rows) and (self.seen == len(self.references)).all():
            np.minimum(self.squared, self._squared_to_nearest(rows), out=self.squared)
            self.seen += len(rows)
        self.references = np.concatenate([self.references, rows])
        self.squared[rows] = 0.0

    def largest(self, doubt: FloatArray | None = None) -> float:
        """δ, the largest distance; or δ̂, the largest distance times doubt."""
        weights = np.ones(len(self.squared)) if doubt is None else doubt * doubt
        most = ROWS_AT_ONCE
        while len(rows := self._unsettled(weights, most)):
            self._measure(rows)
            most *= 2 if self.seen[rows[0]] == len(self.references) else 1
        return float(np.sqrt(self._scaled(weights).max()))

    def tighten(self) -> None:
        """Bring every bound near the truth by one quick look at all labelled rows.

        Worth it where many questions follow. Θ(n·m·d) in float32.
        """
        if (self.seen == len(self.references)).all():
            return
        origin = self.features.mean(axis=0, dtype=np.float64)
        references = (self.features[self.references] - origin).astype(np.float32)
        sizes = np.einsum("ij,ij->i", references, references)
        for span in blocks(len(self.features), LOOK_ROWS):
            near = (self.features[span] - origin).astype(np.float32)
            nearest = self.references[(sizes - 2.0 * near @ references.T).argmin(axis=1)]
            # Whichever row that look takes for the nearest, the distance to it bounds the one to the nearest.
            bound = settle(read_rows(self.features, span), read_rows(self.features, nearest))
            self.squared[span] = np.minimum(self.squared[span], bound)

    def _scaled(self, weights: FloatArray) -> FloatArray:
        scaled = np.zeros_like(weights)
        np.multiply(self.squared, weights, out=scaled, where=weights > 0)  # Nothing times infinity is nothing here.
        return scaled

    def _unsettled(self, weights: FloatArray, most: int) -> IntArray:
        """The rows of largest bound that could still be farthest, all having met as many labelled ones."""
        is_exact = (self.seen == len(self.references)) | (self.squared == 0)
        if is_exact.all():
            return np.empty(0, dtype=np.int64)
        scaled = self._scaled(weights)
        rows = np.flatnonzero(~is_exact & (scaled > scaled[is_exact].max(initial=0.0)))
        if len(rows) > most and np.isfinite(self.squared).all():
            rows = rows[np.argpartition(-scaled[rows], most)[:most]]
        return rows[self.seen[rows] == self.seen[rows].min()] if len(rows) else rows

    def _measure(self, rows: IntArray) -> None:
        """Measure rows against the next labelled ones they have not met, in blocks."""
        start = int(self.seen[rows[0]])
        stop = min(len(self.references), max(FIRST_SEEN, GROWTH * start))
        for span in blocks(len(rows), LOOK_ROWS):
            for others in blocks(stop - start, LOOK_ROWS):
                first, last = start + others.start, min(start + others.stop, stop)
                self._lower(rows[span], first, last)
        self.seen[rows] = stop

    def _lower(self, rows: IntArray, first: int, last: int) -> None:
        """Lower the bounds of rows by some labelled ones: a product finds which can be nearest, `settle` decides."""
        others = self._near_references(last)[first:last]
        with np.errstate(over="ignore", invalid="ignore"):
            near = self._about_the_first(rows)
            sizes, other_sizes = np.einsum("ij,ij->i", near, near), np.einsum("ij,ij->i", others, others)
            squared = other_sizes - 2.0 * near @ others.T
            # Rounding grows with the sizes; generous, since what it lets through is only settled.
            slack = (near.shape[1] + 8) * 8.0 * np.finfo(near.dtype).eps * (sizes + other_sizes.max())
            is_out = squared > (squared.min(axis=1) + slack)[:, None]
        # What overflowed compares as false, and is settled.
        row, other = np.nonzero(~is_out)
        for pairs in blocks(len(row), max(1, PAIRS_BYTES // (8 * near.shape[1]))):
            one, two = rows[row[pairs]], self.references[first + other[pairs]]
            np.minimum.at(self.squared, one, settle(read_rows(self.features, one), read_rows(self.features, two)))

    def _near_references(self, count: int) -> AnyArray:
        """The first ``count`` labelled rows about the first of them."""
        if len(self.near) < count:
            self.near = np.concatenate([self.near, self._about_the_first(self.references[len(self.near) :])])
        return self.near

    def _about_the_first(self, rows: IntArray) -> AnyArray:
        """Rows less the first labelled one, in float32 at least."""
        return np.asarray(self.features[rows].astype(self.near.dtype) - self.features[self.references[0]])

    def _squared_to_nearest(self, rows: IntArray) -> FloatArray:
        """(n,) squared distance to the nearest of these rows."""
        if self.centred is None:
            # About their mean, or large coordinates would drown the differences.
            near = self.features - self.features.mean(axis=0, dtype=np.float64)
            self.centred = near, np.einsum("ij,ij->i", near, near)
        near, sizes = self.centred
        products = (-2.0 * near[rows]) @ near.T
        products += sizes[rows, None]
        squared: FloatArray = sizes + products.min(axis=0)
        return np.maximum(squared, 0.0, out=squared)
