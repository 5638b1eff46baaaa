"""The `Matrix` protocol: features that are read in blocks of rows.

NumPy arrays and memory maps implement it, and so do `Rows` (some rows of another matrix, not copied), `Stack` (several
matrices concatenated, such as the shards of a folder) and `OnDevice` (a GPU tensor).
"""

import sys
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property
from math import prod
from typing import Any, Protocol

import numpy as np
import numpy.typing as npt

FloatArray = npt.NDArray[np.float64]
IntArray = npt.NDArray[np.int64]
BoolArray = npt.NDArray[np.bool_]
AnyArray = npt.NDArray[Any]

READ_BYTES = 1 << 20
"""Approximate size of the blocks in which checks and sums read a matrix."""


class Matrix(Protocol):
    """Rows of numbers that can be read a block at a time."""

    @property
    def shape(self) -> tuple[int, ...]:
        """(n, d)."""

    @property
    def dtype(self) -> np.dtype[Any]:
        """The element type of every block."""

    def __getitem__(self, rows: Any, /) -> Any:
        """A block of rows: a slice or an array of row numbers."""


@dataclass(frozen=True, slots=True, weakref_slot=True)
class Rows:
    """Some rows of a matrix, in the given order, read on access."""

    matrix: Matrix
    rows: IntArray

    @property
    def shape(self) -> tuple[int, int]:
        return len(self.rows), self.matrix.shape[1]

    @property
    def dtype(self) -> np.dtype[Any]:
        return self.matrix.dtype

    def __getitem__(self, rows: slice | IntArray) -> AnyArray:
        return np.asarray(self.matrix[self.rows[rows]])


class Stack:
    """Matrices of equal width, concatenated by rows without a copy.

    Examples
    --------
    >>> stack = Stack([np.zeros((2, 3)), np.ones((1, 3))])
    >>> stack.shape, stack[1:3].tolist()
    ((3, 3), [[0.0, 0.0, 0.0], [1.0, 1.0, 1.0]])
    """

    def __init__(self, parts: Sequence[Matrix]) -> None:
        self.parts = tuple(parts)
        self.starts = np.cumsum([0, *(len_of(part) for part in parts)])
        self.shape = int(self.starts[-1]), int(parts[0].shape[1])
        self.dtype = np.result_type(*(part.dtype for part in parts))

    def __getitem__(self, rows: slice | IntArray) -> AnyArray:
        if isinstance(rows, slice):
            start, stop, step = rows.indices(self.shape[0])
            if step != 1:
                return self[np.arange(start, stop, step)]
            return self._span(start, stop)
        rows = np.asarray(rows)
        block = np.empty((len(rows), self.shape[1]), self.dtype)
        owner = np.searchsorted(self.starts, rows, side="right") - 1
        for part in np.unique(owner):
            here = owner == part
            block[here] = self.parts[part][rows[here] - self.starts[part]]
        return block

    def _span(self, start: int, stop: int) -> AnyArray:
        pieces = [
            np.asarray(part[max(start - first, 0) : stop - first])
            for part, first in zip(self.parts, self.starts[:-1], strict=True)
            if start < first + len_of(part) and stop > first
        ]
        if not pieces:
            return np.empty((0, self.shape[1]), self.dtype)
        return np.concatenate(pieces, dtype=self.dtype) if len(pieces) > 1 else pieces[0].astype(self.dtype, copy=False)


def len_of(matrix: Matrix) -> int:
    return int(matrix.shape[0])


def blocks(n_rows: int, rows_per_block: int) -> Iterator[slice]:
    """Slices that split ``n_rows`` into blocks.

    Examples
    --------
    >>> list(blocks(5, 2))
    [slice(0, 2, None), slice(2, 4, None), slice(4, 5, None)]
    """
    for start in range(0, n_rows, rows_per_block):
        yield slice(start, min(start + rows_per_block, n_rows))


def rows_per_read(matrix: Matrix, bytes_per_value: int = 8) -> int:
    """Number of rows in a block of about `READ_BYTES`."""
    return max(1, READ_BYTES // max(1, prod(matrix.shape[1:]) * bytes_per_value))


class OnDevice:
    """A float tensor (n, d) that stays on its device; indexing copies blocks to the host."""

    def __init__(self, tensor: Any) -> None:
        self.tensor = tensor.detach()
        self.shape = tuple(int(length) for length in tensor.shape)
        name = str(tensor.dtype).removeprefix("torch.")
        # NumPy has no bfloat16; float32 represents it exactly.
        self.dtype = np.dtype("float32" if name == "bfloat16" else name)

    def __getitem__(self, rows: slice | IntArray) -> AnyArray:
        block = self.tensor[rows].cpu()
        return np.asarray((block.float() if str(block.dtype) == "torch.bfloat16" else block).numpy())

    @cached_property
    def extremes(self) -> tuple[float, float]:
        """The smallest and the largest number, in one pass on the device; NaN if there is a NaN."""
        lowest, highest = sys.modules["torch"].stack(self.tensor.aminmax()).tolist()
        return lowest, highest

    def magnitude(self) -> float:
        """The largest magnitude; NaN if there is a NaN."""
        lowest, highest = self.extremes
        return max(highest, -lowest) if lowest == lowest else float("nan")

    def first_zero_row(self) -> int | None:
        is_zero = ~self.tensor.any(dim=1)
        return int(is_zero.int().argmax()) if bool(is_zero.any()) else None
