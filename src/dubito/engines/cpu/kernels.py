"""The lazy engine's kernels on NumPy and BLAS: products in float32, decisions in float64."""

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from itertools import pairwise

import numpy as np

from dubito.core.distances import exact_sq_distances, read_rows
from dubito.core.problem import Problem
from dubito.engines.cpu.anchors import DistanceBounds, FirstBounds, point_term, read_candidates
from dubito.engines.cpu.memory import plan_memory
from dubito.engines.cpu.references import KeptReferences, References
from dubito.engines.cpu.rowsteps import RowSteps, Stale, row_steps
from dubito.engines.cpu.sketch import Sketch, fit_sketch, plain_sketch, without_directions
from dubito.engines.lazy.bounds import (
    BEYOND,
    FLOAT32_SMALLEST,
    FLOOR,
    FLOOR_LENGTH,
    LENGTH_UNITS,
    MEDIAN_ROWS,
    PICK_UNITS,
    ROUND_DOWN,
    ROUND_UP,
    SMALLEST,
    UNIT,
    Float32Array,
    front_slack,
    squared_lengths,
)
from dubito.engines.lazy.front import Front
from dubito.matrix import AnyArray, BoolArray, FloatArray, IntArray, blocks, len_of

# Refreshing candidates: exact priorities, by comparison with the references that they have not seen.
#
# Sketches rule out nearly all pairs, float32 differences rule out nearly all of the rest, and `exact_sq_distances`
# decides.

PAIR_VALUES = 1 << 16
"""Number of features in a block of pairs."""


@dataclass(frozen=True, slots=True)
class Pairs:
    """Pairs of candidates (as positions in a group) and references, with a lower bound on each squared priority."""

    rows: IntArray
    references: IntArray
    lowest: FloatArray

    def within(self, limits: FloatArray) -> "Pairs":
        """The pairs that may lower the limit of their candidate."""
        near = self.lowest <= limits[self.rows] * ROUND_UP + SMALLEST
        return Pairs(self.rows[near], self.references[near], self.lowest[near])


class CandidateGroup:
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
        """(r,) smallest exact squared distance so far."""
        self.is_unfinished = np.zeros(len(pool_rows), dtype=np.bool_)
        """(r,) True once the limit is below ``needed``: the exact priority of such a candidate is not computed."""
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
        """Pairs that sketches do not rule out."""
        self.nearest: list[Pairs] = []
        """The pairs of candidates with the nearest reference of each span by sketches, which are compared first."""

    def bound_references(self, span: slice) -> None:
        """Bound every distance to a span of references; store the pairs that may matter."""
        nearness = self.probes @ self.references.targets(span).T
        pick_weights = self.references.pick_weights(span)
        if pick_weights is not None:
            # Minus a lower bound on each pair's priority in scaled units: the weight of the pick scales it.
            lower = np.maximum(self.margins[:, None] - nearness, 0.0)
            nearness = np.asarray(-lower * pick_weights, dtype=np.float32)
        self._lower(nearness, span, pick_weights)
        thresholds = self._thresholds(pick_weights)
        thresholds = np.where(self.is_unfinished | (self.limits == 0.0), np.float32(np.inf), thresholds)
        flat = np.flatnonzero(nearness >= thresholds[:, None])
        rows, columns = np.divmod(flat, nearness.shape[1])
        lowest = self._lowest(rows, nearness.ravel()[flat], pick_weights)
        self.pairs.append(Pairs(rows, columns + span.start, lowest))
        self.references.count_pairs(nearness.size, len(rows))

    def _lower(self, nearness: Float32Array, span: slice, pick_weights: FloatArray | None) -> None:
        """Lower the limits by the nearest reference of a span according to sketches, and exclude that pair."""
        best = nearness.argmax(axis=1)
        near = np.flatnonzero(nearness[np.arange(len(best)), best] >= self._thresholds(pick_weights))
        nearest = self._tighten(Pairs(near, best[near] + span.start, np.zeros(len(near))))
        # Duplicates of a reference: once one has made the limit 0, the others need not be compared.
        self._make_exact(nearest.within(np.zeros(len(self.limits))))
        self.nearest.append(nearest)
        nearness[near, best[near]] = -np.inf
        self.is_unfinished |= self.limits < self.needed

    def _thresholds(self, pick_weights: FloatArray | None) -> Float32Array:
        """(r,) the minimum nearness at which a pair may lower its candidate's limit."""
        if pick_weights is not None:
            # With a margin, because the weighted nearness and this threshold are both rounded to float32.
            limits = np.minimum((self.limits + SMALLEST) * self.unit, BEYOND)
            return np.asarray(limits * -(1.0 + PICK_UNITS * UNIT) - FLOAT32_SMALLEST, dtype=np.float32)
        # If a weight is 0, the limit does not matter.
        with np.errstate(over="ignore", divide="ignore"):
            limits = np.minimum((self.limits + SMALLEST) / self.weights * (ROUND_UP * self.unit), BEYOND)
        return np.asarray(self.margins - limits, dtype=np.float32)

    def _lowest(self, rows: IntArray, nearness: Float32Array, pick_weights: FloatArray | None) -> FloatArray:
        """Lower bounds on the squared priorities of pairs."""
        if pick_weights is not None:
            lower = nearness.astype(np.float64) * (PICK_UNITS * UNIT - 1.0) - FLOAT32_SMALLEST
            return np.asarray(np.maximum(lower, 0.0) / self.unit)
        lower = self.margins[rows] - nearness.astype(np.float64)
        return np.asarray(np.maximum(lower, 0.0) * (ROUND_DOWN / self.unit) * self.weights[rows])

    def _tighten(self, pairs: Pairs) -> Pairs:
        """Lower the limits by float32 differences; returns the pairs with better lower bounds."""
        rows, width = pairs.rows, self.shifted.shape[1]
        squared = np.empty(len(rows))
        for span in blocks(len(rows), max(1, PAIR_VALUES // width)):
            points = self.shifted[rows[span]]
            points -= self.references.rows(pairs.references[span])
            squared[span] = squared_lengths(points)
        length = np.sqrt(squared)
        # Triangle inequality: a reference is at most as long as its candidate plus their distance.
        error = LENGTH_UNITS * UNIT * (self.lengths[rows] + length) + FLOOR_LENGTH
        low = np.maximum(length * (1.0 - width * UNIT) - error, 0.0)
        high = length * (1.0 + width * UNIT) + error
        # As in the reference implementation, distances are multiplied by the weight last, so that rounding keeps their
        # order.
        weights = self._pair_weights(rows, pairs.references)
        np.minimum.at(self.limits, rows, high * high * (ROUND_UP / self.unit) * weights)
        return Pairs(rows, pairs.references, low * low * (ROUND_DOWN / self.unit) * weights)

    def _pair_weights(self, rows: IntArray, references: IntArray) -> FloatArray:
        by_pick = references >= self.references.n_labeled
        problem = self.references.problem
        if problem.weights is None or problem.scaling == "respective" or not by_pick.any():
            return self.weights[rows]
        weights = self.weights[rows].copy()
        picks = self.references.picks[references[by_pick] - self.references.n_labeled]
        weights[by_pick] = problem.weights[picks]
        return weights

    def finish(self) -> FloatArray:
        """Exact squared priorities; upper bounds where `is_unfinished`."""
        others = self._tighten(_concatenated(self.pairs).within(self.limits))
        limits = np.where(self.is_unfinished | (self.limits == 0.0), -np.inf, self.limits)
        self._make_exact(_concatenated([*self.nearest, others]).within(limits))
        return self.limits

    def _make_exact(self, pairs: Pairs) -> None:
        """Lower ``limits`` and ``squared`` by the exact distances of pairs."""
        problem = self.references.problem
        for span in blocks(len(pairs.rows), max(1, PAIR_VALUES // self.shifted.shape[1])):
            rows, references = pairs.rows[span], pairs.references[span]
            points = read_rows(problem.pool, self.pool_rows[rows], problem.metric)
            exact = exact_sq_distances(points, self.references.points(references))
            np.minimum.at(self.squared, rows, exact)
            np.minimum.at(self.limits, rows, exact * self._pair_weights(rows, references))


def _concatenated(pairs: list[Pairs]) -> Pairs:
    parts = zip(*((each.rows, each.references, each.lowest) for each in pairs), strict=True)
    return Pairs(*map(np.concatenate, parts))


Reduction = Callable[..., AnyArray]

SAMPLE_ROWS = 1024
SMALL_PROBLEM = 1e9
"""With fewer products of features than this, finding a sketch costs more than it saves."""
ANCHORS = 64
"""Number of references that every candidate is compared with first."""
MIDDLE_ROWS = 16
"""Number of points from which the center of a front is computed."""
WASTED_PAIRS = 1 << 18
"""Rows that have seen more references than others are refreshed separately if this saves more than so many pairs."""


@dataclass(frozen=True, slots=True)
class PoolRows:
    """Rows of the pool in float64, read on access."""

    problem: Problem
    rows: IntArray

    def __getitem__(self, positions: IntArray) -> FloatArray:
        return read_rows(self.problem.pool, self.rows[positions], self.problem.metric)


class CpuKernels:
    """See `dubito.engines.lazy.interfaces.Kernels`."""

    def __init__(self, problem: Problem, n_picks: int | None = None) -> None:
        """``n_picks``: the approximate number of picks among these candidates, if others are picked elsewhere."""
        self.problem, self.n_picks = problem, n_picks
        self.plan = plan_memory(len_of(problem.pool), problem.pool.shape[1], problem.memory_limit)
        # With "acquired" scaling and in beams, a priority is not the distance to the nearest reference of this run.
        is_plain = problem.scaling == "respective" and problem.beam_width == 1
        self.known_to_update = problem.known if is_plain else None
        kept = problem.known.kept if problem.known is not None else None
        sketch = kept.sketch if isinstance(kept, KeptReferences) else self._fit()
        self.plain = without_directions(sketch, problem.pool.shape[1])
        self.in_c = row_steps(problem) if self.plan.has_full_blocks else None
        # With "acquired" scaling, the weight of each pick scales the distances to it.
        packer = self.in_c if problem.scaling == "respective" else None
        self.references = References(problem, sketch, self.plan.cache_bytes, packer)

    def _fit(self) -> Sketch:
        problem, d = self.problem, self.problem.pool.shape[1]
        sample = read_rows(problem.pool, self._sample(MEDIAN_ROWS), problem.metric)
        plain = plain_sketch(sample, problem.largest)
        if len(problem.candidates) * (len_of(problem.references) + problem.budget) * d < SMALL_PROBLEM:
            return plain
        return fit_sketch(plain, plain.read(problem.pool, self._sample(SAMPLE_ROWS), problem.metric))

    def keep(self) -> None:
        """Store the references for the next run on these points."""
        if self.problem.known is not None:
            n_kept = len(self.references) if self.known_to_update is not None else self.references.n_labeled
            self.problem.known.kept = self.references.keep(n_kept)

    def _sample(self, n_rows: int) -> IntArray:
        """Evenly spaced candidates, as rows of the pool."""
        rows = self.problem.candidates
        if len(rows) <= n_rows:
            return rows
        return np.asarray(rows[np.linspace(0, len(rows) - 1, n_rows).astype(np.int64)])

    def _weights(self, rows: IntArray) -> FloatArray:
        if self.problem.weights is None:
            return np.ones(len(rows))
        return self.problem.weights[self.problem.candidates[rows]]

    @property
    def front_rows(self) -> int:
        return self.plan.front_rows

    def add_references(self, picks: IntArray) -> None:
        rows = self.problem.candidates[picks]
        self.references.add(rows)
        if self.known_to_update is not None:
            self.known_to_update.added = np.concatenate([self.known_to_update.added, rows])

    def first_bounds(self) -> tuple[FloatArray, AnyArray]:
        """Bounds from an earlier run, or else from products with a few anchors."""
        known, rows = self.problem.known, self.problem.candidates
        pick_weights = self.references.pick_weights(slice(0, len(self.references)))
        # The first pick of a cold start is a reference of this run only, unless the run updates the known distances.
        is_only_here = self.known_to_update is None and self.references.n_labeled == 0
        if known is None or pick_weights is not None or is_only_here:
            squared = self._first_sq_distances(pick_weights)
            return self._scale(squared, pick_weights), np.zeros(len(rows), dtype=np.int32)
        if not np.isfinite(known.squared[rows]).all():
            known.squared[rows] = np.minimum(known.squared[rows], self._first_sq_distances(None))
        return self._scale(known.squared[rows], None), known.seen[rows]

    def farthest_bounds(self, picks: IntArray) -> FloatArray:
        """Bounds from the distance to the farthest of these candidates."""
        return self.farthest_from(self.problem.candidates[picks])

    def farthest_from(self, rows: IntArray) -> FloatArray:
        """Bounds from the distance to the farthest of some rows of the pool."""
        problem = self.problem
        pick_weights = problem.weights[rows] if problem.scaling == "acquired" and problem.weights is not None else None
        points = read_rows(problem.pool, rows, problem.metric)
        return self._scale(self._bounds_to(points, pick_weights, np.ndarray.max), pick_weights)

    def _first_sq_distances(self, pick_weights: FloatArray | None) -> FloatArray:
        """(n,) upper bounds on squared distances to the nearest reference, scaled by ``pick_weights`` if given."""
        if pick_weights is not None:
            points = self.references.points(np.arange(len(pick_weights)))
            return self._bounds_to(points, pick_weights, np.ndarray.min)
        first = FirstBounds(self.problem, self.references, self.plain, self.plan, ANCHORS, self.n_picks, self.in_c)
        return first.compute()

    def _scale(self, squared: FloatArray, pick_weights: FloatArray | None) -> FloatArray:
        """Turn squared distances into squared priorities, in place.

        Distances that are scaled by ``pick_weights`` already are only set to 0 for candidates without doubt.
        """
        weights, rows = self.problem.weights, self.problem.candidates
        if weights is not None:
            for span in blocks(len(squared), 1 << 16):
                # Candidates are ascending: if there are as many as rows of the pool, they are all its rows.
                part = weights[span] if len(rows) == len(weights) else weights[rows[span]]
                squared[span] *= part if pick_weights is None else part > 0.0
        return squared

    def _bounds_to(self, anchors: FloatArray, anchor_weights: FloatArray | None, reduce: Reduction) -> FloatArray:
        """(n,) upper bounds on squared distances, reduced over anchors, and scaled by the anchors' weights if given."""
        shifted, n_candidates = self.plain.shift(anchors), len(self.problem.candidates)
        upper = DistanceBounds(self.plain, shifted, squared_lengths(shifted))
        bounds = np.empty(n_candidates)
        for span in blocks(n_candidates, 2 * self.plan.refresh_rows):
            points = read_candidates(self.problem, self.plain, span)
            squared = upper.squared(points) + point_term(self.plain, points)[:, None]
            # Distances are multiplied by the weight last: then rounding keeps their order, however small the weight.
            unscaled = np.maximum(squared, 0.0) / self.plain.scale**2
            bounds[span] = reduce(unscaled * (1.0 if anchor_weights is None else anchor_weights), axis=1)
        return bounds

    def refresh(
        self, rows: IntArray, bounds: FloatArray, seen: AnyArray, needed: float
    ) -> tuple[FloatArray, BoolArray]:
        """See `Kernels.refresh`. Candidates that have seen about as many references are refreshed together."""
        if self.known_to_update is not None:
            needed = 0.0  # Finish all candidates, so that the next run need not refresh them again.
        order = np.argsort(seen, kind="stable")
        in_c = None if self.in_c is None else self._refresh_in_c(self.in_c, rows, order, bounds, seen, needed)
        if in_c is not None:
            return in_c
        exact, is_fresh = np.empty(len(rows)), np.empty(len(rows), dtype=np.bool_)
        for part in self._groups_by_seen(order, seen):
            group = self._bounded_group(rows[part], bounds[part], int(seen[part[0]]), needed)
            if self.references.drop_useless_sketch():
                group = self._bounded_group(rows[part], bounds[part], int(seen[part[0]]), needed)
            exact[part] = group.finish()
            is_fresh[part] = ~group.is_unfinished
            self._store_known(rows[part], group.squared, group.is_unfinished)
        return exact, is_fresh

    def _refresh_in_c(
        self, in_c: RowSteps, rows: IntArray, order: IntArray, bounds: FloatArray, seen: AnyArray, needed: float
    ) -> tuple[FloatArray, BoolArray] | None:
        """The result of `refresh`; None if the arrays that C reads are not stored."""
        if self.references.panels is None:
            return None
        ordered = rows[order]
        stale = Stale(self.problem.candidates[ordered], bounds[order], self._weights(ordered), seen[order])
        done = in_c.refresh(self.references, stale, needed)
        if done is None:
            return None
        exact, is_fresh = np.empty(len(rows)), np.empty(len(rows), dtype=np.bool_)
        exact[order], is_fresh[order] = done.limits, ~done.is_unfinished
        self._store_known(ordered, done.squared, done.is_unfinished)
        return exact, is_fresh

    def _bounded_group(self, rows: IntArray, bounds: FloatArray, first: int, needed: float) -> CandidateGroup:
        """A group of candidates with bounds on the distances to all references from ``first`` on."""
        group = CandidateGroup(self.references, self.problem.candidates[rows], bounds, self._weights(rows), needed)
        for start, stop in self._spans(first):
            group.bound_references(slice(start, stop))
        return group

    def _groups_by_seen(self, order: IntArray, seen: AnyArray) -> Iterator[IntArray]:
        """Divide rows, ordered by references seen. A group is compared with all references that its first row has not
        seen.
        """
        values, starts = np.unique(seen[order], return_index=True)
        cuts, stops = [0], [*starts[1:].tolist(), len(order)]
        for value, start, stop in zip(values.tolist(), starts.tolist(), stops, strict=True):
            if (value - int(seen[order[cuts[-1]]])) * (stop - start) > WASTED_PAIRS:
                cuts.append(start)
        for begin, end in pairwise([*cuts, len(order)]):
            for span in blocks(end - begin, self.plan.refresh_rows):
                yield order[begin:end][span]

    def _store_known(self, rows: IntArray, squared: FloatArray, is_unfinished: BoolArray) -> None:
        """Store unscaled distances for the next run on these points."""
        known = self.known_to_update
        if known is None:
            return
        done = self.problem.candidates[rows[~is_unfinished]]
        known.squared[done] = np.minimum(known.squared[done], squared[~is_unfinished])
        known.seen[done] = len(self.references)

    def _spans(self, first: int) -> list[tuple[int, int]]:
        """Spans of references from ``first`` on; labeled points and picks are separate if weighted differently."""
        cuts = [max(first, self.references.n_labeled)] if self.problem.scaling == "acquired" else []
        return [
            (start, min(start + self.plan.reference_rows, stop))
            for begin, stop in pairwise([first, *cuts, len(self.references)])
            for start in range(begin, stop, self.plan.reference_rows)
        ]

    def front(self, rows: IntArray) -> Front:
        """Distances from one symmetric product in float64: its tight bounds save more time than float32 would."""
        problem, points, scale = self.problem, PoolRows(self.problem, self.problem.candidates[rows]), self.plain.scale
        # Centering makes the points of a front shorter, and so the bounds on rounding tighter. The center is the median
        # of each feature, which outliers do not affect.
        sample = points[np.arange(0, len(rows), 1 + len(rows) // MIDDLE_ROWS)]
        position = len(sample) // 2
        middle = (
            np.asarray(np.partition(sample, position, axis=0)[position]) if len(sample) else np.zeros(sample.shape[1])
        )
        if self.in_c is not None:
            squared, sizes = self.in_c.pairwise(points.rows, middle, scale)
        else:
            squared, sizes = _pairwise_sq_distances((points[np.arange(len(rows))] - middle) * scale)
        error = front_slack(len(middle)) * sizes + FLOOR
        return Front(points, squared, error, 1.0 / scale**2, self._weights(rows), problem.scaling == "acquired")


def _pairwise_sq_distances(points: FloatArray) -> tuple[FloatArray, FloatArray]:
    """(r, r) squared distances by products, and (r,) squared lengths."""
    sizes = np.einsum("ij,ij->i", points, points)
    squared: FloatArray = points @ points.T
    squared *= -2.0
    squared += sizes
    squared += sizes[:, None]
    return squared, sizes
