"""A shard: some rows of the pool in one process, and the state of the lazy algorithm for its candidates."""

import math
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from typing import Any, Protocol

import numpy as np

from dubito.core.coverage_reference import CoverageProblem
from dubito.core.distances import SUM_ROWS, exact_sq_distances, read_rows, sums_by_halving
from dubito.core.problem import Metric, Problem
from dubito.engines.cluster.messages import (
    HOST,
    NO_THRESHOLD,
    Answer,
    Hardware,
    Points,
    ShardInfo,
    Start,
    ranked_bounds,
)
from dubito.engines.cpu.kernels import CpuKernels
from dubito.engines.cuda.engine import missing
from dubito.engines.lazy.bounds import Bounds
from dubito.engines.lazy.front import Threshold
from dubito.engines.lazy.interfaces import Fresh
from dubito.errors import InvalidArgument, named
from dubito.matrix import AnyArray, FloatArray, IntArray, Matrix, blocks, len_of, rows_per_read

NO_ROWS = np.empty(0, dtype=np.int64)


# The sum of all rows, for the mean in a cold start.


class BlockSums:
    """Sums of a shard's rows in the order of `dubito.core.distances.feature_sums`, which adds blocks of the whole pool.

    Blocks inside the shard are summed when this is created, in all shards in parallel. Then the total is passed from
    shard to shard, together with the rows of a block that starts in one shard and ends in another.
    """

    def __init__(self, pool: Matrix, first_row: int, metric: Metric) -> None:
        n_rows = len_of(pool)
        begin = min(n_rows, -first_row % SUM_ROWS)
        end = max(begin, (first_row + n_rows) // SUM_ROWS * SUM_ROWS - first_row)
        self.head = read_rows(pool, slice(0, begin), metric)
        self.tail = read_rows(pool, slice(end, n_rows), metric)
        self.sums = [
            _sum(read_rows(pool, slice(begin + span.start, begin + span.stop), metric))
            for span in blocks(end - begin, SUM_ROWS)
        ]

    def add_to(self, total: FloatArray, incomplete: FloatArray) -> tuple[FloatArray, FloatArray]:
        """The sum (d,) of all complete blocks so far, and the rows of the incomplete block."""
        total, incomplete = _add_complete(total, np.concatenate([incomplete, self.head]))
        for each in self.sums:
            total = total + each
        return _add_complete(total, np.concatenate([incomplete, self.tail]))


def _sum(rows: FloatArray) -> FloatArray:
    return sums_by_halving(np.ascontiguousarray(rows.T))


def _add_complete(total: FloatArray, rows: FloatArray) -> tuple[FloatArray, FloatArray]:
    return (total + _sum(rows), rows[:0]) if len(rows) == SUM_ROWS else (total, rows)


def final_sum(total: FloatArray, incomplete: FloatArray) -> FloatArray:
    """(d,) the total including the last block."""
    return total + _sum(incomplete) if len(incomplete) else total


# The candidates of a shard.


class Candidates(Protocol):
    """The candidates of a shard, numbered from 0, with their bounds."""

    @property
    def weights(self) -> FloatArray | None:
        """(n,) weights of the shard's rows."""

    def add(self, picks: Points) -> None:
        """Make these picks, which may lie in other shards, references."""

    def lower(self, numbers: IntArray, values: FloatArray) -> None:
        """Lower the bounds of candidates to these values."""

    def fresh(self, size: int, own: IntArray) -> Fresh:
        """The first ``size`` candidates and the candidates ``own``, with exact priorities."""

    def ranked_bounds(self, size: int) -> tuple[IntArray, FloatArray]:
        """See `dubito.engines.cluster.messages.ranked_bounds`."""

    def drop(self, numbers: IntArray) -> None:
        """Exclude candidates from further picks."""

    def zeros(self, n_first: int | None) -> IntArray:
        """The first remaining candidates; all of them for None."""


class ExtendedMatrix:
    """A matrix followed by ``n_more`` rows that can be set later."""

    def __init__(self, matrix: Matrix, n_more: int) -> None:
        self.matrix, self.n_own = matrix, len_of(matrix)
        self.shape = self.n_own + n_more, int(matrix.shape[1])
        self.dtype: np.dtype[Any] = matrix.dtype
        self.more = np.empty((n_more, self.shape[1]), self.dtype)

    def __getitem__(self, rows: slice | IntArray) -> AnyArray:
        if isinstance(rows, slice):
            if rows.stop is not None and rows.stop <= self.n_own:
                return np.asarray(self.matrix[rows])
            rows = np.arange(*rows.indices(self.shape[0]))
        own = rows < self.n_own
        if own.all():
            return np.asarray(self.matrix[rows])
        if not own.any():
            return self.more[rows - self.n_own]
        block = np.empty((len(rows), self.shape[1]), self.dtype)
        block[own], block[~own] = self.matrix[rows[own]], self.more[rows[~own] - self.n_own]
        return block

    def store(self, start: int, features: AnyArray) -> IntArray:
        """Set additional rows from ``start`` on; returns their row numbers in this matrix."""
        self.more[start : start + len(features)] = features
        return np.arange(start, start + len(features)) + self.n_own


IMBALANCE = 0.25
"""Memory is reserved for the shard's proportional number of picks plus this fraction of the budget."""


class HostCandidates:
    """Candidates on the CPU. The picks of all shards are stored behind the shard's own rows."""

    def __init__(self, problem: Problem, start: Start) -> None:
        """Compute the first bounds from the references, the picks so far and the cold starts."""
        n_starts, self.n_picks = len(start.cold_starts), 0
        n_more = max(start.budget, len(start.picks)) + n_starts
        self.extended, self.n_own = ExtendedMatrix(problem.pool, n_more), len_of(problem.pool)
        self.all_weights = None if problem.weights is None else np.concatenate([problem.weights, np.zeros(n_more)])
        local = replace(
            problem,
            pool=self.extended,
            references=start.references,
            weights=self.all_weights,
            budget=start.budget,
            largest=start.largest,
        )
        fraction = min(1.0, len(problem.candidates) / max(1, start.n_candidates) + IMBALANCE)
        kernels = self.kernels = CpuKernels(local, math.ceil(fraction * start.budget))
        self.bounds = Bounds(local, kernels)
        # With acquired scaling, a pick scales distances by its own weight and a labeled point by the candidate's.
        # `first_bounds` supports one kind of reference only, so it is called before the picks are added.
        is_mixed = problem.scaling == "acquired" and len(kernels.references) > 0
        if is_mixed:
            self.bounds.bound, self.bounds.seen = kernels.first_bounds()
        self.add(start.picks)
        if len(kernels.references) == 0:
            self.bounds.bound = kernels.farthest_from(self._store(start.cold_starts, n_more - n_starts))
            self.bounds.seen = np.zeros(len(self.bounds.bound), dtype=np.int32)
        elif not is_mixed:
            self.bounds.bound, self.bounds.seen = kernels.first_bounds()

    @property
    def weights(self) -> FloatArray | None:
        return None if self.all_weights is None else self.all_weights[: self.n_own]

    def add(self, picks: Points) -> None:
        self.kernels.references.add(self._store(picks, self.n_picks))
        self.bounds.n_references = len(self.kernels.references)
        self.n_picks += len(picks)

    def _store(self, points: Points, start: int) -> IntArray:
        """Store points behind the shard's own rows; returns their row numbers there."""
        rows = self.extended.store(start, points.features)
        if self.all_weights is not None and points.weights is not None:
            self.all_weights[rows] = points.weights
        return rows

    def lower(self, numbers: IntArray, values: FloatArray) -> None:
        # The bounds of a restored shard may be lower already.
        bound = self.bounds.bound
        bound[numbers] = np.minimum(bound[numbers], values)

    def fresh(self, size: int, own: IntArray) -> Fresh:
        return self.bounds.fresh(size, own)

    def ranked_bounds(self, size: int) -> tuple[IntArray, FloatArray]:
        return ranked_bounds(self.bounds.bound, size)

    def drop(self, numbers: IntArray) -> None:
        self.bounds.drop(numbers)

    def zeros(self, n_first: int | None) -> IntArray:
        return self.bounds.zeros(n_first)


# The shard.


@dataclass(frozen=True, slots=True)
class ShardData:
    """The rows of a shard after they were read."""

    problem: Problem | CoverageProblem
    """These rows alone: features, candidates, doubt, weights and scores, without references."""
    labeled: IntArray = field(default_factory=lambda: np.empty(0, dtype=np.int64))
    """Rows that the shard itself marks as labeled; they are not candidates."""
    ids: AnyArray | None = None
    """(n,) the ids of the rows."""
    early_problem: Problem | CoverageProblem | None = None
    """The problem to solve while few rows are labeled, if it is a different one."""


class ShardSource(Protocol):
    """Where the rows of a shard come from. It is sent to the worker, which reads the rows."""

    def open(self) -> ShardData:
        """Read the rows; an error names what cannot be read."""


class Shard:
    """Executes the calls of the driver. It can be restored at any time from its source and a `Start`."""

    def __init__(self, source: ShardSource, hardware: Hardware = HOST) -> None:
        self.source, self.hardware, self.first_row, self.n_picks = source, hardware, 0, 0
        self.current: Problem | CoverageProblem
        """The problem to solve, without excluded candidates."""
        self.candidates: Candidates | None = None

    def open(self) -> ShardInfo:
        self.data = self.source.open()
        problem = self.current = self.data.problem
        shape = len_of(problem.pool), len(problem.candidates), int(problem.pool.shape[1])
        self.hardware = usable_hardware(self.hardware, shape[2])
        return ShardInfo(
            *shape,
            str(problem.pool.dtype),
            problem.largest,
            has_weights=problem.weights is not None,
            has_scores=getattr(problem, "scores", None) is not None,
            has_doubt=problem.doubt is not None,
            on_device=self.hardware.can_solve(problem),
        )

    def configure(self, first_row: int, excluded: IntArray, is_early: bool = False) -> int:
        """Set the first row in the whole pool and the excluded rows; returns the number of candidates.

        With ``is_early``, solve the problem for few labeled rows.
        """
        self.first_row = first_row
        problem = self.data.early_problem if is_early and self.data.early_problem is not None else self.data.problem
        local = excluded - first_row
        candidates = np.delete(problem.candidates, positions_of(problem.candidates, local))
        self.current = replace(problem, candidates=candidates)
        if isinstance(problem, CoverageProblem):
            weights = problem.weights.copy()
            weights[local[(local >= 0) & (local < len(weights))]] = 0.0
            self.current = replace(problem, candidates=candidates, weights=weights)
        return len(candidates)

    def set_delegate(self, kind: Callable[[Any, int, Hardware], object]) -> None:
        """Create the object that executes `delegate` calls on the shard's rows."""
        self.delegated = kind(self.current, self.first_row, self.hardware)

    def delegate(self, method: str, *arguments: Any) -> Any:
        """Call a method of the object of `set_delegate`."""
        return getattr(self.delegated, method)(*arguments)

    @property
    def problem(self) -> Problem:
        assert isinstance(self.current, Problem)
        return self.current

    def labeled(self) -> AnyArray:
        """(m, d) features of the rows that the shard itself marks as labeled."""
        return np.asarray(self.current.pool[self.data.labeled])

    def ids(self, rows: IntArray) -> tuple[IntArray, AnyArray | None]:
        """The rows of the whole pool that are in this shard, and their ids."""
        local = self._local(rows)
        return local + self.first_row, None if self.data.ids is None else self.data.ids[local]

    def read(self, rows: IntArray) -> Points:
        """The points of the rows of the whole pool that are in this shard."""
        return self._points(self._local(rows))

    def _local(self, rows: IntArray) -> IntArray:
        """The numbers in this shard of rows of the whole pool; rows of other shards are skipped."""
        local = rows - self.first_row
        return local[(local >= 0) & (local < len_of(self.current.pool))]

    def start_sum(self) -> None:
        """Compute the block sums for `add_to_sum`."""
        self.sums = BlockSums(self.problem.pool, self.first_row, self.problem.metric)

    def add_to_sum(self, total: FloatArray, incomplete: FloatArray) -> tuple[FloatArray, FloatArray]:
        """The sum of all shards up to this one."""
        return self.sums.add_to(total, incomplete)

    def cold_order(self, n_first: int, n_pool: int, total: FloatArray | None) -> tuple[FloatArray, Points]:
        """The first candidates of a cold start and their sort keys: by doubt or, given the sum of all rows, by mean."""
        keys, rows = self._cold_keys(n_pool, total), self.problem.candidates
        first = np.argsort(keys, kind="stable")[:n_first]
        return keys[first], self._points(rows[first])

    def _cold_keys(self, n_pool: int, total: FloatArray | None) -> FloatArray:
        problem, rows = self.problem, self.problem.candidates
        costs = 1.0 if problem.costs is None else problem.costs[rows]
        if total is None:
            assert problem.doubt is not None
            return np.asarray(-problem.doubt[rows] / costs)
        keys = np.empty(len(rows))
        with np.errstate(over="ignore"):
            for span in blocks(len(rows), rows_per_read(problem.pool)):
                keys[span] = exact_sq_distances(n_pool * read_rows(problem.pool, rows[span], problem.metric), total)
            return np.asarray(keys * (costs * costs))

    def start(self, start: Start) -> None:
        """Compute the first bounds of all candidates."""
        self.candidates, self.n_picks = None, len(start.picks)
        if len(self.problem.candidates) == 0:
            return
        if self.hardware.can_solve(self.problem):
            from dubito.engines.cluster.device import DeviceCandidates

            self.candidates = DeviceCandidates(self.problem, start, self.hardware)
        else:
            self.candidates = HostCandidates(self.problem, start)
        # The kernels hold the weights; a shard keeps no second copy.
        self.current = replace(self.problem, weights=self.candidates.weights)
        self.drop(start.picks.rows)

    def advance(
        self, n_before: int, picks: Points, size: int, own: IntArray, lowered: IntArray, values: FloatArray
    ) -> Answer:
        """One round: apply the picks and lowered bounds of the last front, and return the first candidates.

        Parameters
        ----------
        n_before, picks : int, Points
            The new picks of all shards, and the number of picks before them.
        size : int
            Number of candidates to return.
        own : (k,) array of int
            Rows of candidates to return in addition.
        lowered, values : (l,) arrays
            Rows of this shard whose bounds the last front lowered, and to what.
        """
        candidates = self.candidates
        if candidates is None:
            return Answer(self._points(NO_ROWS), np.empty(0), NO_THRESHOLD)
        candidates.lower(self._numbers(lowered), values)
        # Picks that the shard knows already are not added twice.
        if n_before == self.n_picks:
            candidates.add(picks)
            self.n_picks += len(picks)
            self.drop(picks.rows)
        fresh = candidates.fresh(size, self._numbers(own))
        threshold, rows = fresh.threshold, self.problem.candidates
        if threshold.row >= 0:
            threshold = Threshold(threshold.value, int(rows[threshold.row]) + self.first_row)
        return Answer(self._points(rows[fresh.rows]), fresh.values, threshold, *candidates.ranked_bounds(size))

    def drop(self, rows: IntArray) -> None:
        """Exclude rows of the whole pool from further picks; rows of other shards are ignored."""
        if self.candidates is not None:
            self.candidates.drop(positions_of(self.problem.candidates, rows - self.first_row))

    def zeros(self, n_first: int | None) -> Points:
        """The first remaining candidates, all of which have priority 0."""
        numbers = NO_ROWS if self.candidates is None else self.candidates.zeros(n_first)
        return self._points(self.problem.candidates[numbers])

    def _points(self, rows: IntArray) -> Points:
        problem = self.current
        scores: IntArray | None = getattr(problem, "scores", None)
        return Points(
            rows + self.first_row,
            np.asarray(problem.pool[rows]),
            None if problem.weights is None else problem.weights[rows],
            None if scores is None else scores[rows],
            None if problem.doubt is None else problem.doubt[rows],
        )

    def _numbers(self, rows: IntArray) -> IntArray:
        """Candidate numbers of rows of the whole pool."""
        return np.searchsorted(self.problem.candidates, rows - self.first_row)


def usable_hardware(hardware: Hardware, n_features: int) -> Hardware:
    """The hardware, or the CPU if the device cannot be used and is not required."""
    reasons = [] if hardware.device is None else missing(hardware.device, n_features)
    if reasons and hardware.is_required:
        hint = f"fix that on every node that has a GPU, or pass {named('workers', 'cpu')}."
        raise InvalidArgument(f"cannot be used by a worker: {reasons[0]}", argument="workers", value="cuda", hint=hint)
    return HOST if reasons else hardware


def positions_of(ascending: IntArray, rows: IntArray) -> IntArray:
    """The positions of those rows that are in the ascending array."""
    positions = np.searchsorted(ascending, rows)
    inside = positions < len(ascending)
    positions, rows = positions[inside], rows[inside]
    return np.asarray(positions[ascending[positions] == rows])
