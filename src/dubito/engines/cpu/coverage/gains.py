"""The gain of each candidate, which is what it adds to the cover: upper bounds, made exact for the first candidates."""

from collections.abc import Callable
from typing import Protocol

import numpy as np

from dubito import native as compiled
from dubito.core.coverage_reference import kernel, sums_in_order
from dubito.core.distances import QUANTUM, UNIT64, exact_sq_distances
from dubito.engines.cpu.coverage.pairs import NEAR_PAIRS, Pairs, PairSearch, ReportPhase, TooManyPairs
from dubito.engines.cpu.coverage.space import Space
from dubito.engines.lazy.bounds import ROUND_UP, SMALLEST, first_in_order
from dubito.matrix import FloatArray, IntArray, blocks, rows_per_read

NO_PAIRS, BOUNDED, EXACT = range(3)
"""What is stored of a candidate's pairs: nothing, upper bounds on kernels, or exact kernels."""
PICKED_ALL, NEEDS_PAIRS, NEEDS_EXACT, TIME_OUT = range(4)
"""Why the greedy loop in C returned."""
CALL_WORK = 20_000_000
"""Maximum number of features and pairs that a call of the greedy loop in C reads, in some hundredths of a second."""
MEMORY_MARGIN = 1.5
"""Memory for so many times the expected number of pairs is reserved."""
HEAP_SIZE, N_PICKS = range(2)
"""Indices in ``state``: the size of the heap (0 if it is not filled yet), and the number of picks."""


class Gains(Protocol):
    """The gains of candidates, which are numbered from 0 in the order of their rows, and the picks so far."""

    bound: FloatArray
    """(c,) upper bounds on the gains over the costs; -1 once picked."""
    picks: IntArray
    """(budget,) of which the first `n_picks` are set."""
    gained: FloatArray
    """(budget,) the gains of the picks."""

    @property
    def n_picks(self) -> int: ...

    def pick(self, limit: int) -> None:
        """Pick until there are ``limit`` picks, or some hundredths of a second have passed."""
        ...

    def cover_of(self, rows: IntArray) -> FloatArray:
        """The exact cover of rows of the pool, which must have a weight."""
        ...

    def raise_cover(self, rows: IntArray, kernels: FloatArray) -> None:
        """Raise the cover of such rows to these kernels, which makes all bounds stale."""
        ...

    def update(self, candidates: IntArray, is_exact: bool) -> IntArray:
        """Update the bounds of candidates, exactly with ``is_exact``, and return the candidates that were updated.

        Candidates for whose pairs there is no memory are left out.
        """
        ...

    def stale(self, candidates: IntArray) -> IntArray:
        """The candidates whose bounds `update` would change."""
        ...

    def pairs(self, candidate: int) -> tuple[IntArray, FloatArray]:
        """The rows, ascending, to which an exact candidate adds cover, and the kernels there."""
        ...

    def drop(self, candidates: IntArray) -> None: ...


class CompiledGains:
    """Gains from lists of pairs, in C."""

    def __init__(
        self,
        search: PairSearch,
        limits: FloatArray,
        covered: FloatArray,
        reach: float,
        capacity: int,
        report_phase: ReportPhase,
        budget: int,
        find_all_pairs: Callable[[], Pairs] | None = None,
    ) -> None:
        """``limits`` and ``covered`` are arguments of `PairSearch.run`.

        ``find_all_pairs`` returns the pairs of all candidates; by default, ``search`` finds them.
        """
        self.steps, self.search, self.space, self.problem = search.steps, search, search.space, search.space.problem
        self.limits, self.covered, self.reach, self.capacity, self.report_phase = (
            limits,
            covered,
            reach,
            capacity,
            report_phase,
        )
        problem, n, quotas = self.problem, len(self.problem.candidates), self.problem.quotas
        self.costs = None if problem.costs is None else problem.costs[problem.candidates]
        none = np.empty(0, dtype=np.int64)
        self.classes = none if quotas is None else quotas.classes[problem.candidates].astype(np.int64)
        self.remaining = none if quotas is None else quotas.limits.astype(np.int64)
        self.cloud, self.candidates = search.cloud, search.cloud.numbers[problem.candidates].astype(np.int64)
        self.bound, self.pair_state = np.full(n, np.inf), np.zeros(n, dtype=np.uint8)
        self.stamp, self.heap = np.full(n, -1, dtype=np.int64), np.empty(n, dtype=np.int64)
        self.picks, self.gained = np.empty(budget, dtype=np.int64), np.empty(budget)
        self.state = np.array([0, 0, -1])
        self.n_per_search = n
        try:
            all_pairs = (
                find_all_pairs()
                if find_all_pairs
                else search.run(limits, covered, np.arange(n), reach, capacity, report_phase)
            )
            self._store_pairs(all_pairs, np.arange(n))
            self.update(np.arange(n), is_exact=False)
        except TooManyPairs:
            sums = np.zeros(n)
            search.run(limits, covered, np.arange(n), reach, 0, report_phase, sums)
            zeros = np.zeros(n, dtype=np.int64)
            self._store_pairs(Pairs(zeros, zeros.copy(), np.empty(0, np.int32), np.empty(0, np.float32)), none)
            self.bound = sums * ROUND_UP if self.costs is None else sums * ROUND_UP / self.costs
            self.n_per_search = max(1, n // 8)

    def _store_pairs(self, pairs: Pairs, candidates: IntArray) -> None:
        self.stored, self.stops = pairs, pairs.stops
        self.exact = np.empty(len(pairs.rows))
        self.pair_state[:] = NO_PAIRS
        self.pair_state[candidates] = BOUNDED

    @property
    def n_picks(self) -> int:
        return int(self.state[N_PICKS])

    def open(self) -> None:
        """Find the pairs of the candidates with the largest bounds, as many as fit in memory."""
        reach = self.reach * self.space.unit
        # At squared distances above R²·(1 - √cover), the kernel is not larger than the cover.
        now = reach * ((1.0 - np.sqrt(self.covered[:, 0])) * (1.0 + 1e-9) + 1e-12)
        limits = np.where(self.limits > 0.0, np.minimum(self.limits, now), -1.0)
        while True:
            first, _ = first_in_order(self.bound, self.n_per_search)
            # A single candidate has at most one pair per row; threads reserve some entries in advance.
            capacity = self.capacity if len(first) > 1 else len(limits) + 64 * (len(limits) // 32 + 1)
            try:
                pairs = self.search.run(limits, self.covered, first, self.reach, capacity, self.report_phase)
            except TooManyPairs:
                self.n_per_search = max(1, len(first) // 4)
            else:
                break
        self._store_pairs(pairs, first)
        self.n_per_search = max(1, int(len(first) * self.capacity / (MEMORY_MARGIN * max(len(pairs.rows), 1))))
        self.n_per_search = min(self.n_per_search, len(self.bound))
        self.update(first, is_exact=False)
        self.state[HEAP_SIZE] = 0

    def pick(self, limit: int) -> None:
        numbers = *self._sizes(), limit, CALL_WORK, self.space.itemsize, *self.space.flags, self.costs is not None
        why = self.steps.pick_covering(self._arrays(), *numbers, self.space.n_threads)
        if why == NEEDS_PAIRS:
            self.open()
        elif why == NEEDS_EXACT:
            self._make_exact(int(self.heap[0]))

    def _arrays(self) -> compiled.Arrays:
        return (
            *(*self.space.arrays(self.reach), self.cloud.points.rows, self.cloud.rows, self.candidates, self.covered),
            *(np.empty(0) if self.costs is None else self.costs, self.classes, self.remaining),
            *(
                self.stored.starts,
                self.stops,
                self.stored.rows,
                self.stored.kernels,
                self.exact,
                self.pair_state,
                self.bound,
            ),
            *(self.stamp, self.heap, self.picks, self.gained, self.state),
        )

    def _sizes(self) -> tuple[int, ...]:
        n, n_pairs, budget = len(self.problem.candidates), len(self.stored.rows), len(self.picks)
        return (
            self.problem.pool.shape[1],
            self.space.n_matrix,
            len(self.covered),
            n,
            len(self.remaining),
            n_pairs,
            budget,
        )

    def _make_exact(self, candidate: int) -> None:
        """Compute the exact kernels of a candidate with NumPy, for features that C cannot read."""
        start, stop = self.stored.starts[candidate], self.stops[candidate]
        rows, point = self.stored.rows[start:stop], self.space.exact(self.problem.candidates[[candidate]])
        near = np.sort(self.cloud.rows[rows[self.stored.kernels[start:stop] > self.covered[rows, 0]]])
        squared = [exact_sq_distances(self.space.exact(near[part]), point[0]) for part in blocks(len(near), 1024)]
        stop = start + len(near)
        self.stored.rows[start:stop] = self.cloud.numbers[near]
        self.stops[candidate], self.pair_state[candidate] = stop, EXACT
        self.exact[start:stop] = kernel(np.concatenate([np.empty(0), *squared]), self.reach)
        self.stamp[candidate] = -1  # The bound was computed from upper bounds on kernels.

    def cover_of(self, rows: IntArray) -> FloatArray:
        return np.asarray(self.covered[self.cloud.numbers[rows], 0])

    def raise_cover(self, rows: IntArray, kernels: FloatArray) -> None:
        numbers = self.cloud.numbers[rows]
        self.covered[numbers, 0] = np.maximum(self.covered[numbers, 0], kernels)
        self.state[N_PICKS] += 1

    def update(self, candidates: IntArray, is_exact: bool) -> IntArray:
        if (self.pair_state[candidates] == NO_PAIRS).any():
            self.open()
            candidates = candidates[self.pair_state[candidates] != NO_PAIRS]
        if is_exact and self.space.pool is None:
            for candidate in candidates[self.pair_state[candidates] == BOUNDED].tolist():
                self._make_exact(candidate)
        arrays, is_exact = (*self._arrays(), np.ascontiguousarray(candidates)), is_exact and self.space.pool is not None
        numbers = *self._sizes(), len(candidates), self.space.itemsize, *self.space.flags, self.costs is not None
        self.steps.update_gains(arrays, *numbers, is_exact, self.space.n_threads)
        return candidates

    def stale(self, candidates: IntArray) -> IntArray:
        is_stale = (self.stamp[candidates] < self.state[N_PICKS]) | (self.pair_state[candidates] < EXACT)
        return np.asarray(candidates[is_stale & (self.bound[candidates] > 0.0)])

    def pairs(self, candidate: int) -> tuple[IntArray, FloatArray]:
        if self.pair_state[candidate] < EXACT:
            return np.empty(0, dtype=np.int64), np.empty(0)
        span = slice(self.stored.starts[candidate], self.stops[candidate])
        numbers, kernels = self.stored.rows[span], self.exact[span]
        adds_cover = kernels > self.covered[numbers, 0]
        return self.cloud.rows[numbers[adds_cover]], kernels[adds_cover]

    def drop(self, candidates: IntArray) -> None:
        self.bound[candidates] = -1.0


class PlainGains:
    """Gains with NumPy, if there is no C extension: a pass over all rows makes the gain of a candidate exact."""

    def __init__(
        self, space: Space, cover: FloatArray, limits: FloatArray, reach: float, report_phase: ReportPhase, budget: int
    ) -> None:
        self.space, self.problem, self.cover, self.reach = space, space.problem, cover, reach
        self.picks, self.gained, self.n_picks = np.empty(budget, dtype=np.int64), np.empty(budget), 0
        problem, n = self.problem, len(self.problem.candidates)
        self.costs = None if problem.costs is None else problem.costs[problem.candidates]
        self.rows = np.flatnonzero(limits > 0.0)
        self.stamp, self.n_raised = np.full(n, -1, dtype=np.int64), 0
        self.exact: dict[int, tuple[IntArray, FloatArray]] = {}
        self.bound = np.zeros(n)
        for span in blocks(n, max(1, rows_per_read(problem.pool))):
            for rows in blocks(len(self.rows), 1024):
                self.bound[span] += self._upper(self.rows[rows], problem.candidates[span])
            report_phase(NEAR_PAIRS, span.stop / n)
        self.bound = problem.priorities(slice(None), self.bound * ROUND_UP)

    def _upper(self, rows: IntArray, others: IntArray) -> FloatArray:
        """(others,) upper bounds on the cover that each of ``others`` adds to ``rows``, from products in float64."""
        points, targets = self.space.exact(rows), self.space.exact(others)
        origin = points[0].copy()
        with np.errstate(over="ignore", invalid="ignore"):
            points -= origin
            targets -= origin
            sizes = (points**2).sum(axis=1)[:, None] + (targets**2).sum(axis=1)
            # As in `dubito.core.distances.squared_radii`, with twice the margin.
            slack = 8.0 * (points.shape[1] + 8) * (UNIT64 * sizes + QUANTUM)
            squared = np.nan_to_num(sizes - 2.0 * (points @ targets.T) - slack, nan=0.0, posinf=np.inf)
        kernels = kernel(np.maximum(squared, 0.0), self.reach) * (1.0 + 1e-9)
        terms = np.maximum(kernels - self.cover[rows][:, None], 0.0)
        return np.asarray((terms * self.problem.weights[rows][:, None]).sum(axis=0) + SMALLEST * len(rows))

    def pick(self, limit: int) -> None:
        problem, first = self.problem, int(self.bound.argmax())
        if problem.quotas is not None:
            remaining = problem.quotas.remaining(problem.candidates[self.picks[: self.n_picks]])
            if remaining[problem.quotas.classes[problem.candidates[first]]] == 0:
                self.bound[first] = -1.0
                return
        if self.bound[first] > 0.0 and self.stamp[first] < self.n_raised:
            self.update(np.array([first]), is_exact=True)
            return
        gain = 0.0
        if self.bound[first] > 0.0:
            rows, kernels = self.pairs(first)
            gain = float(sums_in_order((kernels - self.cover[rows]) * problem.weights[rows]))
            self.cover[rows] = kernels
        self.picks[self.n_picks], self.gained[self.n_picks] = first, gain
        self.drop(np.array([first]))
        self.n_raised += 1
        self.n_picks += 1

    def cover_of(self, rows: IntArray) -> FloatArray:
        return np.asarray(self.cover[rows])

    def raise_cover(self, rows: IntArray, kernels: FloatArray) -> None:
        self.cover[rows] = np.maximum(self.cover[rows], kernels)
        self.n_raised += 1

    def update(self, candidates: IntArray, is_exact: bool) -> IntArray:
        for candidate in candidates.tolist():
            if candidate not in self.exact:
                point = self.space.exact(self.problem.candidates[candidate : candidate + 1])[0]
                parts = blocks(len(self.rows), rows_per_read(self.problem.pool))
                squared = [exact_sq_distances(self.space.exact(self.rows[part]), point) for part in parts]
                kernels = kernel(np.concatenate([np.empty(0), *squared]), self.reach)
                adds_cover = kernels > self.cover[self.rows]
                self.exact[candidate] = self.rows[adds_cover], kernels[adds_cover]
            rows, kernels = self.exact[candidate]
            terms = np.maximum(kernels - self.cover[rows], 0.0) * self.problem.weights[rows]
            gain = float(sums_in_order(terms)) if len(terms) else 0.0
            self.bound[candidate] = gain if self.costs is None else gain / self.costs[candidate]
            self.stamp[candidate] = self.n_raised
        return candidates

    def stale(self, candidates: IntArray) -> IntArray:
        return np.asarray(candidates[(self.stamp[candidates] < self.n_raised) & (self.bound[candidates] > 0.0)])

    def pairs(self, candidate: int) -> tuple[IntArray, FloatArray]:
        rows, kernels = self.exact.get(candidate, (np.empty(0, dtype=np.int64), np.empty(0)))
        adds_cover = kernels > self.cover[rows]
        return rows[adds_cover], kernels[adds_cover]

    def drop(self, candidates: IntArray) -> None:
        self.bound[candidates] = -1.0
        for candidate in candidates.tolist():
            self.exact.pop(candidate, None)
