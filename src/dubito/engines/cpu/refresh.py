"""Bringing candidates up to date: exact priorities against references they have not seen.

Sketches rule out nearly all pairs, float32 differences nearly all of the rest, and `settle` decides.
"""

from dataclasses import dataclass

import numpy as np

from dubito.distances import read_rows, settle
from dubito.engines.cpu.references import References
from dubito.engines.lazy.rounding import (
    BEYOND,
    FLOAT32_SMALLEST,
    FLOOR,
    FLOOR_LENGTH,
    PICK_UNITS,
    REACH_UNITS,
    ROUND_DOWN,
    ROUND_UP,
    SMALLEST,
    UNIT,
    Float32Array,
    squared_lengths,
)
from dubito.matrix import FloatArray, IntArray, blocks

PAIR_VALUES = 1 << 16
"""Features in a block of pairs."""


@dataclass(frozen=True, slots=True)
class Pairs:
    """Candidates (by position in their group) against references, with a lower bound on what each pair means."""

    rows: IntArray
    references: IntArray
    lowest: FloatArray

    def within(self, limits: FloatArray) -> "Pairs":
        """Those that may still lower their candidate's limit."""
        near = self.lowest <= limits[self.rows] * ROUND_UP + SMALLEST
        return Pairs(self.rows[near], self.references[near], self.lowest[near])


class CandidateGroup:
    """Candidates that are brought up to date together."""

    def __init__(
        self,
        references: References,
        pool_rows: IntArray,
        bounds: FloatArray,
        weights: FloatArray,
        needed: float,
    ) -> None:
        self.references, self.pool_rows, self.weights, self.needed = references, pool_rows, weights, needed
        self.limits = bounds.copy()
        """(r,) upper bounds on squared priorities."""
        self.squared = np.full(len(pool_rows), np.inf)
        """(r,) smallest settled squared distance."""
        self.is_out = np.zeros(len(pool_rows), dtype=np.bool_)
        """(r,) True once a limit fell under ``needed``: such a candidate is left unfinished."""
        sketch, problem = references.sketch, references.problem
        self.shifted = sketch.read(problem.pool, pool_rows, problem.metric)
        sizes = squared_lengths(self.shifted)
        self.lengths = np.sqrt(sizes)
        sketches, margins = sketch.apply(self.shifted, sizes)
        self.margins = margins - FLOOR
        self.probes = np.empty((len(sketches), sketches.shape[1] + 1), dtype=np.float32)
        self.probes[:, :-1], self.probes[:, -1] = sketches, 1.0
        self.unit = sketch.scale**2
        self.pairs: list[Pairs] = []
        """Pairs that sketches leave."""
        self.nearest: list[Pairs] = []
        """The nearest reference by sketches, in each span: tightened at once."""

    def look_at(self, span: slice) -> None:
        """Bound every distance to a span of references; keep the pairs that may matter."""
        nearness = self.probes @ self.references.targets(span).T
        own = self.references.pick_weights(span)
        if own is not None:
            nearness = self._scaled_by_pick(nearness, own)
        self._lower(nearness, span, own)
        thresholds = np.where(self.is_out | (self.limits == 0.0), np.float32(np.inf), self._thresholds(own))
        flat = np.flatnonzero(nearness >= thresholds[:, None])
        rows, columns = np.divmod(flat, nearness.shape[1])
        lowest = self._lowest(rows, nearness.ravel()[flat], own)
        self.pairs.append(Pairs(rows, columns + span.start, lowest))
        self.references.note(nearness.size, len(rows))

    def _lower(self, nearness: Float32Array, span: slice, own: FloatArray | None) -> None:
        """Lower the limits by the nearest reference of a span, as sketches have it, and be done with that one."""
        best = nearness.argmax(axis=1)
        near = np.flatnonzero(nearness[np.arange(len(best)), best] >= self._thresholds(own))
        nearest = self._tighten(Pairs(near, best[near] + span.start, np.zeros(len(near))))
        # Copies of a reference: nothing can come nearer, and all other copies would have to be settled too.
        self._settle(nearest.within(np.zeros(len(self.limits))))
        self.nearest.append(nearest)
        nearness[near, best[near]] = -np.inf
        self.is_out |= self.limits < self.needed

    def _scaled_by_pick(self, nearness: Float32Array, own: FloatArray) -> Float32Array:
        """Minus a lower bound on each pair's priority in scaled units, where the pick's weight scales it."""
        lower = np.maximum(self.margins[:, None] - nearness, 0.0)
        return np.asarray(-lower * own, dtype=np.float32)

    def _thresholds(self, own: FloatArray | None) -> Float32Array:
        """The nearness (r,) at which a pair may reach its candidate's limit."""
        if own is not None:
            # Some last digits less, because the products above were rounded to float32, and this is.
            reach = np.minimum((self.limits + SMALLEST) * self.unit, BEYOND)
            return np.asarray(reach * -(1.0 + PICK_UNITS * UNIT) - FLOAT32_SMALLEST, dtype=np.float32)
        # A weight may be 0: whatever its limit then is, nothing of it counts.
        with np.errstate(over="ignore", divide="ignore"):
            reach = np.minimum((self.limits + SMALLEST) / self.weights * (ROUND_UP * self.unit), BEYOND)
        return np.asarray(self.margins - reach, dtype=np.float32)

    def _lowest(self, rows: IntArray, nearness: Float32Array, own: FloatArray | None) -> FloatArray:
        if own is not None:
            lower = nearness.astype(np.float64) * (PICK_UNITS * UNIT - 1.0) - FLOAT32_SMALLEST
            return np.asarray(np.maximum(lower, 0.0) / self.unit)
        lower = self.margins[rows] - nearness.astype(np.float64)
        return np.asarray(np.maximum(lower, 0.0) * (ROUND_DOWN / self.unit) * self.weights[rows])

    def _tighten(self, pairs: Pairs) -> Pairs:
        """Lower the limits by float32 differences, and sharpen the pairs' lower bounds."""
        rows, width = pairs.rows, self.shifted.shape[1]
        squared = np.empty(len(rows))
        for span in blocks(len(rows), max(1, PAIR_VALUES // width)):
            points = self.shifted[rows[span]]
            points -= self.references.rows(pairs.references[span])
            squared[span] = squared_lengths(points)
        length = np.sqrt(squared)
        # A reference is no longer than its candidate and the way to it.
        reach = REACH_UNITS * UNIT * (self.lengths[rows] + length) + FLOOR_LENGTH
        low = np.maximum(length * (1.0 - width * UNIT) - reach, 0.0)
        high = length * (1.0 + width * UNIT) + reach
        # Distances first, then one product with a weight, as the reference has it: rounding keeps their order.
        weights = self._pair_weights(rows, pairs.references)
        np.minimum.at(self.limits, rows, high * high * (ROUND_UP / self.unit) * weights)
        return Pairs(rows, pairs.references, low * low * (ROUND_DOWN / self.unit) * weights)

    def _pair_weights(self, rows: IntArray, references: IntArray) -> FloatArray:
        by_pick = references >= self.references.n_labelled
        problem = self.references.problem
        if problem.weights is None or problem.scaling == "respective" or not by_pick.any():
            return self.weights[rows]
        weights = self.weights[rows].copy()
        picks = self.references.picks[references[by_pick] - self.references.n_labelled]
        weights[by_pick] = problem.weights[picks]
        return weights

    def finish(self) -> FloatArray:
        """Exact squared priorities; upper bounds where `is_out`."""
        others = self._tighten(_joined(self.pairs).within(self.limits))
        wanted = np.where(self.is_out | (self.limits == 0.0), -np.inf, self.limits)
        self._settle(_joined([*self.nearest, others]).within(wanted))
        return self.limits

    def _settle(self, pairs: Pairs) -> None:
        """Lower limits and distances by the exact distances of pairs."""
        problem = self.references.problem
        for span in blocks(len(pairs.rows), max(1, PAIR_VALUES // self.shifted.shape[1])):
            rows, references = pairs.rows[span], pairs.references[span]
            points = read_rows(problem.pool, self.pool_rows[rows], problem.metric)
            exact = settle(points, self.references.points(references))
            np.minimum.at(self.squared, rows, exact)
            np.minimum.at(self.limits, rows, exact * self._pair_weights(rows, references))


def _joined(pairs: list[Pairs]) -> Pairs:
    parts = zip(*((each.rows, each.references, each.lowest) for each in pairs), strict=True)
    return Pairs(*map(np.concatenate, parts))
