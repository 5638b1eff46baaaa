"""The lazy engine's kernels on NumPy and BLAS: products in float32, decisions in float64."""

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from itertools import pairwise

import numpy as np

from dubito.core.distances import exact_sq_distances, read_rows
from dubito.core.problem import Problem
from dubito.engines.cpu.anchors import FirstBounds, Reach, own_part, read_candidates
from dubito.engines.cpu.memory import plan_memory
from dubito.engines.cpu.references import Kept, References
from dubito.engines.cpu.rowsteps import RowSteps, Stale, row_steps
from dubito.engines.cpu.sketch import Sketch, fit_sketch, plain_sketch, whole
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

# Refreshing candidates: exact priorities, by comparison with the references they have not seen.
#
# Sketches rule out nearly all pairs, float32 differences nearly all of the rest, and `exact_sq_distances` decides.

PAIR_VALUES = 1 << 16
"""Features in a block of pairs."""


@dataclass(frozen=True, slots=True)
class Pairs:
    """Pairs of candidates (positions in their group) and references, with a lower bound on each squared priority."""

    rows: IntArray
    references: IntArray
    lowest: FloatArray

    def within(self, limits: FloatArray) -> "Pairs":
        """The pairs that may still lower their candidate's limit."""
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
        self.is_out = np.zeros(len(pool_rows), dtype=np.bool_)
        """(r,) True once the limit fell below ``needed``: such a candidate is left unfinished."""
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
        """The nearest reference by sketches in each span, compared first."""

    def bound_references(self, span: slice) -> None:
        """Bound every distance to a span of references; keep the pairs that may matter."""
        nearness = self.probes @ self.references.targets(span).T
        own = self.references.pick_weights(span)
        if own is not None:
            # Minus a lower bound on each pair's priority in scaled units: the weight of the pick scales it.
            lower = np.maximum(self.margins[:, None] - nearness, 0.0)
            nearness = np.asarray(-lower * own, dtype=np.float32)
        self._lower(nearness, span, own)
        thresholds = np.where(self.is_out | (self.limits == 0.0), np.float32(np.inf), self._thresholds(own))
        flat = np.flatnonzero(nearness >= thresholds[:, None])
        rows, columns = np.divmod(flat, nearness.shape[1])
        lowest = self._lowest(rows, nearness.ravel()[flat], own)
        self.pairs.append(Pairs(rows, columns + span.start, lowest))
        self.references.note(nearness.size, len(rows))

    def _lower(self, nearness: Float32Array, span: slice, own: FloatArray | None) -> None:
        """Lower the limits by the nearest reference of a span according to sketches, and exclude that pair."""
        best = nearness.argmax(axis=1)
        near = np.flatnonzero(nearness[np.arange(len(best)), best] >= self._thresholds(own))
        nearest = self._tighten(Pairs(near, best[near] + span.start, np.zeros(len(near))))
        # Copies of a reference: nothing is nearer, and without this all other copies would be compared as well.
        self._make_exact(nearest.within(np.zeros(len(self.limits))))
        self.nearest.append(nearest)
        nearness[near, best[near]] = -np.inf
        self.is_out |= self.limits < self.needed

    def _thresholds(self, own: FloatArray | None) -> Float32Array:
        """The nearness (r,) at which a pair may reach its candidate's limit."""
        if own is not None:
            # A margin, because both the products above and this are rounded to float32.
            reach = np.minimum((self.limits + SMALLEST) * self.unit, BEYOND)
            return np.asarray(reach * -(1.0 + PICK_UNITS * UNIT) - FLOAT32_SMALLEST, dtype=np.float32)
        # If a weight is 0, the limit does not matter.
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
        # Triangle inequality: a reference is at most as long as its candidate plus their distance.
        reach = LENGTH_UNITS * UNIT * (self.lengths[rows] + length) + FLOOR_LENGTH
        low = np.maximum(length * (1.0 - width * UNIT) - reach, 0.0)
        high = length * (1.0 + width * UNIT) + reach
        # As in the reference implementation, distances are multiplied by the weight last: rounding keeps their order.
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
        """Exact squared priorities; upper bounds where `is_out`."""
        others = self._tighten(_joined(self.pairs).within(self.limits))
        wanted = np.where(self.is_out | (self.limits == 0.0), -np.inf, self.limits)
        self._make_exact(_joined([*self.nearest, others]).within(wanted))
        return self.limits

    def _make_exact(self, pairs: Pairs) -> None:
        """Lower limits and distances by the exact distances of pairs."""
        problem = self.references.problem
        for span in blocks(len(pairs.rows), max(1, PAIR_VALUES // self.shifted.shape[1])):
            rows, references = pairs.rows[span], pairs.references[span]
            points = read_rows(problem.pool, self.pool_rows[rows], problem.metric)
            exact = exact_sq_distances(points, self.references.points(references))
            np.minimum.at(self.squared, rows, exact)
            np.minimum.at(self.limits, rows, exact * self._pair_weights(rows, references))


def _joined(pairs: list[Pairs]) -> Pairs:
    parts = zip(*((each.rows, each.references, each.lowest) for each in pairs), strict=True)
    return Pairs(*map(np.concatenate, parts))


Reduction = Callable[..., AnyArray]

SAMPLE_ROWS = 1024
SMALL_PROBLEM = 1e9
"""Products of features below which finding a sketch costs more than it saves."""
ANCHORS = 64
"""Number of references that every candidate is compared with first."""
MIDDLE_ROWS = 16
"""Number of points from which the center of a front is computed."""
WASTED_PAIRS = 1 << 18
"""Rows that have seen more references are refreshed separately if that saves more than this many pairs."""


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
        # With "acquired" scaling, and in a beam, the nearest reference need not be the one that counts.
        is_plain = problem.scaling == "respective" and problem.beam_width == 1
        self.learned = problem.known if is_plain else None
        kept = problem.known.kept if problem.known is not None else None
        sketch = kept.sketch if isinstance(kept, Kept) else self._fit()
        self.full = whole(sketch, problem.pool.shape[1])
        self.in_c = row_steps(problem) if self.plan.is_ample else None
        # With "acquired" scaling, the weight of each pick scales the distances to it.
        packer = self.in_c if problem.scaling == "respective" else None
        self.references = References(problem, sketch, self.plan.cache_bytes, packer)

    def _fit(self) -> Sketch:
        problem, d = self.problem, self.problem.pool.shape[1]
        few = read_rows(problem.pool, self._sample(MEDIAN_ROWS), problem.metric)
        plain = plain_sketch(few, problem.largest)
        if len(problem.candidates) * (len_of(problem.references) + problem.budget) * d < SMALL_PROBLEM:
            return plain
        return fit_sketch(plain, plain.read(problem.pool, self._sample(SAMPLE_ROWS), problem.metric))

    def keep(self) -> None:
        """Keep the references for the next run on these points."""
        if self.problem.known is not None:
            n_kept = len(self.references) if self.learned is not None else self.references.n_labeled
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
        if self.learned is not None:
            self.learned.added = np.concatenate([self.learned.added, rows])

    def first_bounds(self) -> tuple[FloatArray, AnyArray]:
        """Bounds from an earlier run, or else from products with a few anchors."""
        known, rows = self.problem.known, self.problem.candidates
        own = self.references.pick_weights(slice(0, len(self.references)))
        # The first pick of a cold start is a reference of this run only, unless the run updates what is known.
        is_own = self.learned is None and self.references.n_labeled == 0
        if known is None or own is not None or is_own:
            return self._scale(self._anchored(own), own), np.zeros(len(rows), dtype=np.int32)
        if not np.isfinite(known.squared[rows]).all():
            known.squared[rows] = np.minimum(known.squared[rows], self._anchored(None))
        return self._scale(known.squared[rows], None), known.seen[rows]

    def farthest_bounds(self, picks: IntArray) -> FloatArray:
        """Bounds from the distance to the farthest of these candidates."""
        return self.farthest_from(self.problem.candidates[picks])

    def farthest_from(self, rows: IntArray) -> FloatArray:
        """Bounds from the distance to the farthest of some rows of the pool."""
        problem = self.problem
        own = problem.weights[rows] if problem.scaling == "acquired" and problem.weights is not None else None
        points = read_rows(problem.pool, rows, problem.metric)
        return self._scale(self._bounds_to(points, own, np.ndarray.max), own)

    def _anchored(self, own: FloatArray | None) -> FloatArray:
        if own is not None:
            return self._bounds_to(self.references.points(np.arange(len(own))), own, np.ndarray.min)
        first = FirstBounds(self.problem, self.references, self.full, self.plan, ANCHORS, self.n_picks, self.in_c)
        return first.compute()

    def _scale(self, squared: FloatArray, own: FloatArray | None) -> FloatArray:
        """Turn squared distances into squared priorities, in place. With ``own``, only set those without doubt to 0."""
        weights, rows = self.problem.weights, self.problem.candidates
        if weights is not None:
            for span in blocks(len(squared), 1 << 16):
                # Candidates ascend: as many as there are rows, they are the rows.
                each = weights[span] if len(rows) == len(weights) else weights[rows[span]]
                squared[span] *= each if own is None else each > 0.0
        return squared

    def _bounds_to(self, anchors: FloatArray, own: FloatArray | None, reduce: Reduction) -> FloatArray:
        """(n,) upper bounds on squared distances over anchors, scaled by the anchors' own weights where given."""
        shifted, n_candidates = self.full.shift(anchors), len(self.problem.candidates)
        reach = Reach(self.full, shifted, squared_lengths(shifted))
        bounds = np.empty(n_candidates)
        for span in blocks(n_candidates, 2 * self.plan.refresh_rows):
            points = read_candidates(self.problem, self.full, span)
            squared = reach.squared(points) + own_part(self.full, points)[:, None]
            # Distances first, then one product with a weight: rounding keeps their order, however small the weights.
            scaled = np.maximum(squared, 0.0) / self.full.scale**2 * (1.0 if own is None else own)
            bounds[span] = reduce(scaled, axis=1)
        return bounds

    def refresh(
        self, rows: IntArray, bounds: FloatArray, seen: AnyArray, needed: float
    ) -> tuple[FloatArray, BoolArray]:
        """See `Kernels.refresh`. Candidates that have seen about as many references are refreshed together."""
        if self.learned is not None:
            needed = 0.0  # Finish all, so that the next run need not refresh them again.
        order = np.argsort(seen, kind="stable")
        in_c = None if self.in_c is None else self._refresh_in_c(self.in_c, rows, order, bounds, seen, needed)
        if in_c is not None:
            return in_c
        exact, is_fresh = np.empty(len(rows)), np.empty(len(rows), dtype=np.bool_)
        for part in self._parts(order, seen):
            group = self._bounded(rows[part], bounds[part], int(seen[part[0]]), needed)
            if self.references.drop_useless_sketch():
                group = self._bounded(rows[part], bounds[part], int(seen[part[0]]), needed)
            exact[part] = group.finish()
            is_fresh[part] = ~group.is_out
            self._learn(rows[part], group.squared, group.is_out)
        return exact, is_fresh

    def _refresh_in_c(
        self, in_c: RowSteps, rows: IntArray, order: IntArray, bounds: FloatArray, seen: AnyArray, needed: float
    ) -> tuple[FloatArray, BoolArray] | None:
        """None if the arrays that C reads are not stored."""
        if self.references.panels is None:
            return None
        ordered = rows[order]
        stale = Stale(self.problem.candidates[ordered], bounds[order], self._weights(ordered), seen[order])
        done = in_c.refresh(self.references, stale, needed)
        if done is None:
            return None
        exact, is_fresh = np.empty(len(rows)), np.empty(len(rows), dtype=np.bool_)
        exact[order], is_fresh[order] = done.limits, ~done.is_out
        self._learn(ordered, done.squared, done.is_out)
        return exact, is_fresh

    def _bounded(self, rows: IntArray, bounds: FloatArray, first: int, needed: float) -> CandidateGroup:
        """A group of candidates with bounds on the distances to all references from ``first`` on."""
        group = CandidateGroup(self.references, self.problem.candidates[rows], bounds, self._weights(rows), needed)
        for start, stop in self._spans(first):
            group.bound_references(slice(start, stop))
        return group

    def _parts(self, order: IntArray, seen: AnyArray) -> Iterator[IntArray]:
        """Divide rows, ordered by references seen; a part is compared with all references that its first row lacks."""
        values, starts = np.unique(seen[order], return_index=True)
        cuts, stops = [0], [*starts[1:].tolist(), len(order)]
        for value, start, stop in zip(values.tolist(), starts.tolist(), stops, strict=True):
            if (value - int(seen[order[cuts[-1]]])) * (stop - start) > WASTED_PAIRS:
                cuts.append(start)
        for begin, end in pairwise([*cuts, len(order)]):
            for span in blocks(end - begin, self.plan.refresh_rows):
                yield order[begin:end][span]

    def _learn(self, rows: IntArray, squared: FloatArray, is_out: BoolArray) -> None:
        """Keep unscaled distances for the next run on these points."""
        known = self.learned
        if known is None:
            return
        done = self.problem.candidates[rows[~is_out]]
        known.squared[done] = np.minimum(known.squared[done], squared[~is_out])
        known.seen[done] = len(self.references)

    def _spans(self, first: int) -> list[tuple[int, int]]:
        """Spans of references from ``first`` on; labeled points and picks are separate if weighted differently."""
        apart = [max(first, self.references.n_labeled)] if self.problem.scaling == "acquired" else []
        return [
            (start, min(start + self.plan.reference_rows, stop))
            for begin, stop in pairwise([first, *apart, len(self.references)])
            for start in range(begin, stop, self.plan.reference_rows)
        ]

    def front(self, rows: IntArray) -> Front:
        """Distances from one symmetric product, in float64, whose tight bounds save more than float32 would."""
        problem, own, scale = self.problem, PoolRows(self.problem, self.problem.candidates[rows]), self.full.scale
        # Centering makes the points of a front shorter, and the bounds on rounding tighter; at the median of each
        # feature, which outliers do not move.
        few = own[np.arange(0, len(rows), 1 + len(rows) // MIDDLE_ROWS)]
        position = len(few) // 2
        middle = np.asarray(np.partition(few, position, axis=0)[position]) if len(few) else np.zeros(few.shape[1])
        if self.in_c is not None:
            squared, sizes = self.in_c.pairwise(own.rows, middle, scale)
        else:
            squared, sizes = _among((own[np.arange(len(rows))] - middle) * scale)
        error = front_slack(len(middle)) * sizes + FLOOR
        return Front(own, squared, error, 1.0 / scale**2, self._weights(rows), problem.scaling == "acquired")


def _among(points: FloatArray) -> tuple[FloatArray, FloatArray]:
    """(r, r) squared distances by products, and (r,) squared lengths."""
    sizes = np.einsum("ij,ij->i", points, points)
    squared: FloatArray = points @ points.T
    squared *= -2.0
    squared += sizes
    squared += sizes[:, None]
    return squared, sizes
