"""Numbers of half precision in single, as quickly as a machine can.

NumPy does it in software on many processors, some nanoseconds a number, where integer and float32 operations are
vectorised everywhere: a half's bits moved into place are its value times 2**-112. In C the rows are gathered in the
same pass.
"""

import time
from collections.abc import Callable
from functools import cache

import numpy as np

from dubito import compiled
from dubito.engines.lazy.rounding import Float32Array
from dubito.matrix import AnyArray, IntArray, Matrix

SIGN, REST, TO_SIGN, TO_REST = np.uint32(0x80000000), np.uint32(0x7FFF), np.uint32(16), np.uint32(13)
RAISED = np.float32(2.0**112)
TRIED = 1 << 15
"""Numbers that both ways are tried on."""


def rows_in_single(matrix: Matrix, rows: slice | IntArray) -> Float32Array:
    """Rows of a matrix of finite float16 or float32 numbers in float32; not copied where they are that already."""
    steps = compiled.steps
    if steps is None or not isinstance(matrix, np.ndarray) or matrix.dtype != np.float16 or not matrix.dtype.isnative:
        return in_single(matrix[rows])
    if isinstance(rows, slice):
        matrix = matrix[rows]
    n_wanted, d = len(matrix) if isinstance(rows, slice) else len(rows), matrix.shape[1]
    if not (matrix.flags.c_contiguous and matrix.flags.aligned) or n_wanted * d < TRIED:
        return in_single(matrix if isinstance(rows, slice) else matrix[rows])
    out = np.empty((n_wanted, d), dtype=np.float32)
    wanted = () if isinstance(rows, slice) else (np.ascontiguousarray(rows, dtype=np.int64),)
    steps.widen((matrix.view(np.uint16), out, *wanted), len(matrix), n_wanted, d, bool(wanted))
    return out


def in_single(block: AnyArray) -> Float32Array:
    """Float32; the block itself where it is that already."""
    if block.dtype == np.float16 and block.dtype.isnative and block.size >= TRIED and is_quicker_by_bits():
        return by_bits(block)
    return np.asarray(block, dtype=np.float32)


def by_bits(halves: AnyArray) -> Float32Array:
    """Finite halves in float32, exactly.

    Examples
    --------
    >>> by_bits(np.array([1.5, -0.0, 6e-08, 65504.0], dtype=np.float16)).tolist()
    [1.5, -0.0, 5.960464477539063e-08, 65504.0]
    """
    bits = np.ascontiguousarray(halves).view(np.uint16).astype(np.uint32)
    signs = bits << TO_SIGN
    signs &= SIGN
    bits &= REST
    bits <<= TO_REST
    values: Float32Array = bits.view(np.float32)
    values *= RAISED
    bits |= signs
    return values


@cache
def is_quicker_by_bits() -> bool:
    """Tried once, on this machine."""
    halves = np.linspace(-8.0, 8.0, TRIED, dtype=np.float16)
    return _least(lambda: by_bits(halves)) < 0.8 * _least(lambda: halves.astype(np.float32))


def _least(run: Callable[[], object]) -> float:
    taken = []
    for _ in range(5):
        started = time.perf_counter()
        run()
        taken.append(time.perf_counter() - started)
    return min(taken)
