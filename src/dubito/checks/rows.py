"""Features: rows of finite numbers."""

from typing import NamedTuple

import numpy as np

from dubito import compiled
from dubito.checks.arrays import as_matrix
from dubito.errors import InvalidArgument, InvalidData
from dubito.matrix import AnyArray, Matrix, OnDevice, Rows, Stack, blocks, len_of, rows_per_read
from dubito.threads import n_threads
from dubito.wording import at_row, in_python, named

LARGEST_FEATURE = 1e140
"""Beyond this, squared distances could overflow float64."""
BLOCKS = 256
"""Blocks of what C reads as it lies that are looked through together, by all threads."""
ALONE = 1 << 18
"""Numbers that one thread looks through as quickly as many."""


class Features(NamedTuple):
    """Checked features and the largest magnitude among them."""

    matrix: Matrix
    largest: float


def check_features(name: str, value: object) -> Features:
    """(n, d) finite numbers, n and d at least 1, as an array or another `Matrix`."""
    matrix = value if isinstance(value, Rows | Stack | OnDevice) else as_matrix(name, value)
    shape = matrix.shape
    if len(shape) != 2:
        more = in_python(f"; use {name}.reshape(-1, 1) for one feature a row") if len(shape) == 1 else ""
        mend = f"pass a 2-D array (rows, features){more}."
        raise InvalidArgument(f"has shape {shape}", argument=name, mend=mend)
    if shape[0] == 0:
        raise InvalidArgument(f"is empty (shape {shape})", argument=name, mend="pass at least one row.")
    if shape[1] == 0:
        raise InvalidArgument(f"has no features (shape {shape})", argument=name, mend="pass at least one column.")
    return Features(matrix, check_finite(name, matrix))


def check_finite(name: str, matrix: Matrix) -> float:
    """The largest magnitude, after a check that there is no NaN, no infinity, nothing whose square overflows.

    Read blockwise, once.
    """
    if isinstance(matrix, OnDevice) and (largest := matrix.magnitude()) <= LARGEST_FEATURE:
        return largest
    largest, n_rows = 0.0, rows_per_read(matrix, matrix.dtype.itemsize)
    for span in blocks(len_of(matrix), n_rows if _steps_for(matrix) is None else BLOCKS * n_rows):
        own = _magnitude(np.asarray(matrix[span]))
        if not own <= LARGEST_FEATURE:
            raise _unusable(name, matrix, span)
        largest = max(largest, own)
    return largest


def _steps_for(matrix: Matrix) -> compiled.CompiledSteps | None:
    """C, where it looks through a matrix as it lies; None for NumPy, which copies a block at a time."""
    return compiled.steps if isinstance(matrix, np.ndarray) and compiled.can_read(matrix) else None


def _magnitude(block: AnyArray) -> float:
    """Largest magnitude; a NaN where there is one."""
    if block.size == 0:
        return 0.0
    if (steps := _steps_for(block)) is not None:
        workers = n_threads() if block.size > ALONE else 1
        return steps.magnitude((block,), block.size, block.itemsize, workers)
    if block.dtype == np.float16 and block.dtype.isnative:
        # Magnitudes order as their bits do, and integer maxima are far faster than half-precision ones.
        bits = (block.view(np.uint16) & np.uint16(0x7FFF)).max()
        return float(bits.view(np.float16))
    return max(float(block.max()), -float(block.min()))


def _unusable(name: str, matrix: Matrix, within: slice) -> InvalidData:
    """Which number it is that is no finite one, or too large."""
    for span in blocks(within.stop - within.start, rows_per_read(matrix)):
        start = within.start + span.start
        wide = np.asarray(matrix[start : within.start + span.stop]).astype(np.float64)
        found = np.argwhere(~(np.abs(wide) <= LARGEST_FEATURE))
        if len(found):
            break
    position = tuple(int(i) for i in found[0])
    where = at_row(start + position[0]) + "".join(f", column {i}" for i in position[1:])
    return InvalidData(f"holds {wide[position]:g} at {where}", argument=name, mend=_mend(wide[position]))


def _mend(value: float) -> str:
    too_large = f"distances would overflow: rescale so that no value passes {LARGEST_FEATURE:g}."
    return too_large if np.isfinite(value) else "remove or fill such rows first."


def refuse_zero_rows(name: str, matrix: Matrix) -> None:
    """A row of zeros has no direction, so no cosine distance."""
    row = matrix.first_zero_row() if isinstance(matrix, OnDevice) else _first_zero_row(matrix)
    if row is not None:
        mend = f"drop such rows or pass {named('metric', 'euclidean')}."
        raise InvalidData(f"is all zeros at {at_row(row)}, which has no direction", argument=name, mend=mend)


def _first_zero_row(matrix: Matrix) -> int | None:
    for span in blocks(len_of(matrix), rows_per_read(matrix)):
        zero = ~np.asarray(matrix[span]).any(axis=1)
        if zero.any():
            return int(span.start + np.argmax(zero))
    return None


def unlike_features(n_labelled: int, n_pool: int) -> InvalidArgument:
    """What is labelled has another width than the pool."""
    problem = f"has {n_labelled} features and pool has {n_pool}"
    return InvalidArgument(problem, argument="labelled", mend="pass features of one kind.")
