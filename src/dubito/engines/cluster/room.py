"""Room for picks behind a shard's own rows, and what the mean of all shards is made of."""

from typing import Any

import numpy as np

from dubito.distances import SUM_ROWS, add_columns, read_rows
from dubito.matrix import AnyArray, FloatArray, IntArray, Matrix, blocks, len_of
from dubito.problem import Metric


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
    """(d,) as `dubito.distances.column_sums` adds a block."""
    return add_columns(np.ascontiguousarray(rows.T))


def _closed(total: FloatArray, begun: FloatArray) -> tuple[FloatArray, FloatArray]:
    return (total + _sum(begun), begun[:0]) if len(begun) == SUM_ROWS else (total, begun)


def whole_sum(total: FloatArray, begun: FloatArray) -> FloatArray:
    """(d,) with the last block, which need not be full."""
    return total + _sum(begun) if len(begun) else total
