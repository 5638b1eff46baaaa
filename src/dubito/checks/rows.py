"""Features, and which of their rows are labelled or may be picked."""

from typing import NamedTuple

import numpy as np

from dubito.checks.arrays import as_array, as_matrix
from dubito.errors import InvalidArgument, InvalidData
from dubito.matrix import AnyArray, BoolArray, IntArray, Matrix, OnDevice, Rows, Stack, blocks, len_of, rows_per_read
from dubito.wording import by_door, in_python, named

LARGEST_FEATURE = 1e140
"""Beyond this, squared distances could overflow float64."""


class Features(NamedTuple):
    """Checked features and the largest magnitude among them."""

    matrix: Matrix
    largest: float


class Labelled(NamedTuple):
    """What is labelled: its features (m, d), the rows of the pool it is (none for foreign features)."""

    references: Matrix
    rows: IntArray
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
    largest = 0.0
    for span in blocks(len_of(matrix), rows_per_read(matrix, matrix.dtype.itemsize)):
        block = np.asarray(matrix[span])
        largest = max(largest, _magnitude(block))
        if not largest <= LARGEST_FEATURE:
            wide = block.astype(np.float64)
            wrong = ~(np.abs(wide) <= LARGEST_FEATURE)
            position = tuple(int(i) for i in np.argwhere(wrong)[0])
            where = f"row {span.start + position[0]}" + "".join(f", column {i}" for i in position[1:])
            raise InvalidData(f"holds {wide[position]:g} at {where}", argument=name, mend=_mend(wide[position]))
    return largest


def _magnitude(block: AnyArray) -> float:
    """Largest magnitude; infinite where there is a NaN."""
    if block.size == 0:
        return 0.0
    if block.dtype == np.float16 and block.dtype.isnative:
        # Magnitudes order as their bits do, and integer maxima are far faster than half-precision ones.
        bits = (np.ascontiguousarray(block).view(np.uint16) & np.uint16(0x7FFF)).max()
        largest = float(bits.view(np.float16))
    else:
        largest = max(float(block.max()), -float(block.min()))
    return np.inf if np.isnan(largest) else largest


def _mend(value: float) -> str:
    too_large = f"distances would overflow: rescale so that no value passes {LARGEST_FEATURE:g}."
    return too_large if np.isfinite(value) else "remove or fill such rows first."


def refuse_zero_rows(name: str, matrix: Matrix) -> None:
    """A row of zeros has no direction, so no cosine distance."""
    row = matrix.first_zero_row() if isinstance(matrix, OnDevice) else _first_zero_row(matrix)
    if row is not None:
        mend = f"drop such rows or pass {named('metric', 'euclidean')}."
        raise InvalidData(f"is all zeros at row {row}, which has no direction", argument=name, mend=mend)


def _first_zero_row(matrix: Matrix) -> int | None:
    for span in blocks(len_of(matrix), rows_per_read(matrix)):
        zero = ~np.asarray(matrix[span]).any(axis=1)
        if zero.any():
            return int(span.start + np.argmax(zero))
    return None


def check_labelled(labelled: object, pool: Matrix) -> Labelled:
    """Features (m, d), or rows of the pool by number or mask; nothing is allowed."""
    no_rows = np.empty(0, dtype=np.int64)
    nothing = Labelled(Rows(pool, no_rows), no_rows, 0.0)
    if labelled is None:
        return nothing
    array = labelled if isinstance(labelled, Rows | Stack) else as_matrix("labelled", labelled)
    if 0 in array.shape:
        return nothing
    if len(array.shape) == 1:
        rows = check_rows("labelled", np.asarray(array[:]), len_of(pool))
        return Labelled(Rows(pool, rows), rows, 0.0)
    references, largest = check_features("labelled", array)
    if references.shape[1] != pool.shape[1]:
        raise unlike_features(references.shape[1], pool.shape[1])
    return Labelled(references, no_rows, largest)


def unlike_features(n_labelled: int, n_pool: int) -> InvalidArgument:
    """What is labelled has another width than the pool."""
    problem = f"has {n_labelled} features and pool has {n_pool}"
    return InvalidArgument(problem, argument="labelled", mend="pass features of one kind.")


def check_rows(name: str, array: AnyArray, n_pool: int) -> IntArray:
    """Row numbers, ascending and once each, from a boolean mask (n,) or from integers."""
    if array.ndim != 1:
        mend = "pass a 1-D mask or 1-D row numbers."
        raise InvalidArgument(f"has shape {array.shape}", argument=name, mend=mend)
    if array.dtype.kind == "b":
        if len(array) != n_pool:
            problem = f"is a mask of {len(array)} and the pool has {n_pool} rows"
            raise InvalidArgument(problem, argument=name, mend="pass one a row.")
        return np.flatnonzero(array)
    if array.dtype.kind not in "iu":
        mend = "pass row numbers as integers, a boolean mask, or 2-D features."
        raise InvalidArgument(f"is 1-D with dtype {array.dtype}", argument=name, mend=mend)
    outside = (array < 0) | (array >= n_pool)
    if outside.any():
        at = int(np.argmax(outside))
        problem = f"holds {array[at]} at position {at}, which is no row of the pool"
        raise InvalidArgument(problem, argument=name, mend=f"pass row numbers from 0 to {n_pool - 1}.")
    return np.unique(array.astype(np.int64))


def check_candidates(candidates: object, n_pool: int, labelled_rows: IntArray) -> IntArray:
    """Rows that may be picked, ascending: the candidates, or every row, less what is labelled."""
    if candidates is None:
        allowed: BoolArray = np.ones(n_pool, dtype=np.bool_)
    else:
        array = as_array("candidates", candidates)
        if array.size == 0:
            else_all = by_door("pass None for the whole pool", command="leave it out")
            raise InvalidArgument("is empty", argument="candidates", mend=f"pass at least one row, or {else_all}.")
        allowed = np.zeros(n_pool, dtype=np.bool_)
        allowed[check_rows("candidates", array, n_pool)] = True
    allowed[labelled_rows] = False
    return np.flatnonzero(allowed)
