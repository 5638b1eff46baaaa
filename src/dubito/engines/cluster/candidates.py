"""The candidates of a shard on the CPU: their bounds, their kernels, and room for picks of all shards."""

import math
from dataclasses import replace
from typing import Any, Protocol

import numpy as np

from dubito.core.distances import SUM_ROWS, add_columns, read_rows
from dubito.core.problem import Metric, Problem
from dubito.engines.cluster.messages import Points, Start, levels_of
from dubito.engines.cpu.kernels import CpuKernels
from dubito.engines.lazy.bounds import Bounds
from dubito.engines.lazy.frontier import Fresh
from dubito.matrix import AnyArray, FloatArray, IntArray, Matrix, blocks, len_of

# Room for picks behind a shard's own rows, and what the mean of all shards is made of.


class Extended:
    """A matrix with room for more rows below, which are filled in later."""

    def __init__(self, matrix: Matrix, room: int) -> None:
        self.matrix, self.n_own = matrix, len_of(matrix)
        self.shape = self.n_own + room, int(matrix.shape[1])
        self.dtype: np.dtype[Any] = matrix.dtype
        self.more = np.empty((room, self.shape[1]), self.dtype)

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
        """Fill some of the room; the rows that these are."""
        self.more[start : start + len(features)] = features
        return np.arange(start, start + len(features)) + self.n_own


class Sums:
    """Sums of a shard's rows in the order in which one machine would add them.

    That order goes by blocks of the whole pool: those that lie in the shard are summed here, all shards at once; then
    the sums go from shard to shard, with the rows of a block that one shard begins and another ends.
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

    def add_to(self, total: FloatArray, begun: FloatArray) -> tuple[FloatArray, FloatArray]:
        """The sum (d,) of all whole blocks up to here, and the rows of the one that is begun."""
        total, begun = _closed(total, np.concatenate([begun, self.head]))
        for each in self.sums:
            total = total + each
        return _closed(total, np.concatenate([begun, self.tail]))


def _sum(rows: FloatArray) -> FloatArray:
    """(d,) as `dubito.core.distances.column_sums` adds a block."""
    return add_columns(np.ascontiguousarray(rows.T))


def _closed(total: FloatArray, begun: FloatArray) -> tuple[FloatArray, FloatArray]:
    return (total + _sum(begun), begun[:0]) if len(begun) == SUM_ROWS else (total, begun)


def whole_sum(total: FloatArray, begun: FloatArray) -> FloatArray:
    """(d,) with the last block, which need not be full."""
    return total + _sum(begun) if len(begun) else total


UNEVEN = 0.25
"""Of all picks, how many more than its share a shard should be ready for."""


class Candidates(Protocol):
    """What a shard knows of its candidates, which are numbered from 0, on whatever machine it has."""

    @property
    def weights(self) -> FloatArray | None:
        """(n,) of the shard's rows."""
        ...

    def add(self, picks: Points) -> None:
        """Picks of the whole pool become references."""
        ...

    def lower(self, numbers: IntArray, values: FloatArray) -> None:
        """Squared priorities are no larger than these."""
        ...

    def fresh(self, size: int, own: IntArray) -> Fresh:
        """The first candidates in order, and some others, all of them up to date."""
        ...

    def levels(self, size: int) -> tuple[IntArray, FloatArray]:
        """Ranks in the order of the bounds, and the bounds there."""
        ...

    def drop(self, numbers: IntArray) -> None:
        """They may not be picked any more."""
        ...

    def zeros(self, n_wanted: int | None) -> IntArray:
        """The first candidates that are left."""
        ...


class HostCandidates:
    """See `Candidates`."""

    def __init__(self, problem: Problem, start: Start) -> None:
        """Bound every candidate by what is labeled and picked; or by the farthest of those that stand apart."""
        n_apart, self.n_picks = len(start.apart), 0
        room = max(start.budget, len(start.picks)) + n_apart
        self.extended, self.n_own = Extended(problem.pool, room), len_of(problem.pool)
        self.all_weights = None if problem.weights is None else np.concatenate([problem.weights, np.zeros(room)])
        local = replace(
            problem,
            pool=self.extended,
            references=start.references,
            weights=self.all_weights,
            budget=start.budget,
            largest=start.largest,
        )
        share = min(1.0, len(problem.candidates) / max(1, start.n_candidates) + UNEVEN)
        kernels = self.kernels = CpuKernels(local, math.ceil(share * start.budget))
        self.bounds = Bounds(local, kernels)
        # A pick scales what is near it by its own weight, and labeled points do not: first bounds know one kind alone.
        is_mixed = problem.scaling == "acquired" and len(kernels.references) > 0
        if is_mixed:
            self.bounds.bound, self.bounds.seen = kernels.first_bounds()
        self.add(start.picks)
        if len(kernels.references) == 0:
            self.bounds.bound = kernels.farthest_from(self._store(start.apart, room - n_apart))
            self.bounds.seen = np.zeros(len(self.bounds.bound), dtype=np.int32)
        elif not is_mixed:
            self.bounds.bound, self.bounds.seen = kernels.first_bounds()

    @property
    def weights(self) -> FloatArray | None:
        """Those that the kernels have: a shard need not keep others."""
        return None if self.all_weights is None else self.all_weights[: self.n_own]

    def add(self, picks: Points) -> None:
        """They are kept behind the shard's own rows."""
        self.kernels.references.add(self._store(picks, self.n_picks))
        self.bounds.n_references = len(self.kernels.references)
        self.n_picks += len(picks)

    def _store(self, points: Points, start: int) -> IntArray:
        """Keep points behind the shard's own; their rows there."""
        rows = self.extended.store(start, points.features)
        if self.all_weights is not None and points.weights is not None:
            self.all_weights[rows] = points.weights
        return rows

    def lower(self, numbers: IntArray, values: FloatArray) -> None:
        """What a shard made anew knows may be less already: both hold."""
        bound = self.bounds.bound
        bound[numbers] = np.minimum(bound[numbers], values)

    def fresh(self, size: int, own: IntArray) -> Fresh:
        """See `dubito.engines.lazy.bounds`."""
        return self.bounds.fresh(size, own)

    def levels(self, size: int) -> tuple[IntArray, FloatArray]:
        """See `levels_of`."""
        return levels_of(self.bounds.bound, size)

    def drop(self, numbers: IntArray) -> None:
        """They count as picked."""
        self.bounds.drop(numbers)

    def zeros(self, n_wanted: int | None) -> IntArray:
        """Whatever is known of them."""
        return self.bounds.zeros(n_wanted)
