"""Argument checks at the door.

Each takes the argument's name, returns the value in the form the inside trusts, and otherwise raises an error that
names the argument, the value and the mend. Nothing handed in is changed. Tensors, frames and Arrow columns are
recognised without importing their packages.
"""

import operator
import re
from collections.abc import Collection
from contextlib import suppress
from difflib import get_close_matches
from typing import Any, NamedTuple, SupportsIndex, TypeVar

import numpy as np

from dubito.errors import InvalidArgument, InvalidData
from dubito.matrix import AnyArray, BoolArray, IntArray, Matrix, OnDevice, Rows, Stack, blocks, len_of, rows_per_read

LARGEST_FEATURE = 1e140
"""Beyond this, squared distances could overflow float64."""

KEPT_TENSORS = ("torch.float16", "torch.bfloat16", "torch.float32", "torch.float64")
"""What a tensor on a GPU may hold to stay there."""

MENDS = {
    "pandas": "pass columns of numbers, such as {name}.astype(float), or np.stack(column) for a column of lists.",
    "polars": "pass columns of numbers, or np.array(column.to_list()) for a column of lists.",
}
"""What to do about a frame that is no array of numbers, by its package."""

Choice = TypeVar("Choice", bound=str)


def check_choice(name: str, value: object, known: Collection[Choice]) -> Choice:
    """One of the known names, or an error that offers the nearest.

    Examples
    --------
    >>> check_choice("metric", "cosine", ("euclidean", "cosine"))
    'cosine'
    """
    for choice in known:
        if isinstance(value, str) and value == choice:
            return choice
    near = get_close_matches(str(value), known, n=1, cutoff=0.65)
    choose = f"did you mean {near[0]!r}? Choose" if near else "choose"
    raise InvalidArgument(f"{name}={value!r} is not known; {choose} from {', '.join(sorted(known))}.")


def check_integer(name: str, value: object, *, least: int) -> int:
    """A whole number of at least ``least``; a bool or a float is not one."""
    if isinstance(value, bool | np.bool_ | np.ndarray) or not isinstance(value, SupportsIndex):
        raise InvalidArgument(f"{name}={shorten(value)} is not a whole number; pass an integer >= {least}.")
    number = operator.index(value)
    if number < least:
        raise InvalidArgument(f"{name}={number} is too small; pass {name} >= {least}.")
    return number


def check_real(name: str, value: object, *, least: float) -> float:
    """A finite number of at least ``least``."""
    if isinstance(value, int | float | np.integer | np.floating) and not isinstance(value, bool):
        with suppress(OverflowError):  # A whole number may be too large for a float.
            number = float(value)
            if np.isfinite(number) and number >= least:
                return number
    raise InvalidArgument(f"{name}={shorten(value)} is not allowed; pass a finite number >= {least:g}.")


def check_budget(budget: object, n_candidates: int, n_pool: int) -> int:
    """A whole number from 1 to the number of points that may be picked."""
    number = check_integer("budget", budget, least=1)
    if number > n_candidates:
        whose = "points in the pool" if n_candidates == n_pool else f"candidates among the {n_pool} pool points"
        mend = f"pass budget <= {n_candidates}." if n_candidates else "there is nothing left to pick."
        raise InvalidArgument(f"budget={number} exceeds the {n_candidates} {whose}; {mend}")
    return number


def check_memory_limit(value: object) -> int | None:
    """Bytes, from a number or from text such as "2GB" or "2GiB".

    Examples
    --------
    >>> check_memory_limit("2GB"), check_memory_limit("512 MiB"), check_memory_limit(None)
    (2000000000, 536870912, None)
    """
    if value is None:
        return None
    if isinstance(value, str):
        match = re.fullmatch(r"\s*(\d{1,15}(?:\.\d+)?)\s*([kMGT]?)(i?)B?\s*", value, re.IGNORECASE)
        if match is None:
            raise InvalidArgument(f"memory_limit={value!r} is not a size; pass bytes, or text such as '2GB'.")
        number, prefix, binary = match.groups()
        value = int(float(number) * (1024 if binary else 1000) ** " kmgt".index(prefix.lower() or " "))
    return check_integer("memory_limit", value, least=1)


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
    if len(matrix.shape) != 2:
        mend = f"; use {name}.reshape(-1, 1) for one feature a row" if len(matrix.shape) == 1 else ""
        raise InvalidArgument(f"{name} has shape {matrix.shape}; pass a 2-D array (rows, features){mend}.")
    if len_of(matrix) == 0:
        raise InvalidArgument(f"{name} is empty (shape {matrix.shape}); pass at least one row.")
    if matrix.shape[1] == 0:
        raise InvalidArgument(f"{name} has no features (shape {matrix.shape}); pass at least one column.")
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
            raise InvalidData(f"{name} holds {wide[position]:g} at {where}; {_mend(wide[position])}")
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


def as_matrix(name: str, value: Any) -> Matrix:
    """An array, or a tensor of floats that stays on its GPU."""
    is_tensor = type(value).__module__.partition(".")[0] == "torch"
    if is_tensor and value.is_cuda and str(value.dtype) in KEPT_TENSORS and str(value.layout) == "torch.strided":
        return OnDevice(value)
    return as_array(name, value)


def as_array(name: str, value: Any) -> AnyArray:
    """A NumPy array of numbers, without a copy where possible."""
    package = type(value).__module__.partition(".")[0]
    if package == "torch":
        array = _from_torch(name, value)
    elif package == "pyarrow":
        array = _from_arrow(name, value)
    elif type(value).__module__.startswith("scipy.sparse"):
        raise InvalidArgument(f"{name} is a sparse matrix; pass {name}.toarray(), or reduce its width first.")
    elif package in {"pandas", "polars"}:
        array = np.asarray(value.to_numpy())
    else:
        array = _from_sequence(name, value)
    if array.dtype.kind not in "biuf":
        where = _odd_column(value) if package in MENDS else ""
        mend = MENDS.get(package, "pass numbers.").format(name=name)
        raise InvalidData(f"{name} holds {_kind(array)} where numbers belong ({where}dtype {array.dtype}); {mend}")
    if isinstance(value, np.ma.MaskedArray) and np.ma.is_masked(value):
        raise InvalidData(f"{name} is a masked array with masked values; fill them first with {name}.filled(...).")
    return array.astype(np.float64) if array.dtype.itemsize > 8 else array


def _odd_column(frame: Any) -> str:
    """The first column of a frame that holds no numbers, as the message has it."""
    odd = [each for each in getattr(frame, "columns", ()) if frame[each].to_numpy().dtype.kind not in "biuf"]
    return f"column {odd[0]!r}, " if odd else ""


def _kind(array: AnyArray) -> str:
    return {"U": "text", "S": "bytes", "c": "complex numbers", "M": "dates"}.get(array.dtype.kind, "objects")


def _from_sequence(name: str, value: Any) -> AnyArray:
    try:
        return value if isinstance(value, np.ndarray) else np.asarray(value)
    except ValueError as error:
        raise InvalidArgument(f"{name} cannot be read as an array ({error}); pass equal rows of numbers.") from None


def _from_torch(name: str, tensor: Any) -> AnyArray:
    if str(tensor.layout) != "torch.strided":
        raise InvalidArgument(f"{name} is a sparse tensor; pass {name}.to_dense(), or reduce its width first.")
    host = tensor.detach().cpu()
    if str(host.dtype) == "torch.bfloat16":
        host = host.float()  # NumPy has no bfloat16; float32 holds every one of them.
    try:
        return np.asarray(host.numpy())
    except TypeError:
        raise InvalidArgument(
            f"{name} is a tensor of {tensor.dtype}; NumPy has no such type: pass {name}.float()."
        ) from None


def _from_arrow(name: str, column: Any) -> AnyArray:
    if hasattr(column, "combine_chunks") and not hasattr(column, "columns"):
        column = column.combine_chunks()
    if getattr(column, "null_count", 0):
        raise InvalidData(f"{name} holds {column.null_count} missing values; fill or drop them first.")
    if hasattr(column, "columns"):
        return np.column_stack([_from_arrow(name, part) for part in column.columns])
    if "list" not in str(getattr(column, "type", "")):
        return np.asarray(column.to_numpy(zero_copy_only=False))
    values = _from_arrow(name, column.flatten())
    widths = np.asarray(column.value_lengths().to_numpy(zero_copy_only=False))
    if len(column) and (widths != widths[0]).any():
        row = int(np.argmax(widths != widths[0]))
        raise InvalidData(f"{name} has {widths[row]} values in row {row} and {widths[0]} in row 0; pass equal rows.")
    return values.reshape(len(column), -1)


def refuse_zero_rows(name: str, matrix: Matrix) -> None:
    """A row of zeros has no direction, so no cosine distance."""
    row = matrix.first_zero_row() if isinstance(matrix, OnDevice) else _first_zero_row(matrix)
    if row is not None:
        raise InvalidData(
            f"{name} is all zeros at row {row}, which has no direction; drop such rows or pass metric='euclidean'."
        )


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
        raise InvalidArgument(
            f"labelled has {references.shape[1]} features and pool has {pool.shape[1]}; pass features of one kind."
        )
    return Labelled(references, no_rows, largest)


def check_rows(name: str, array: AnyArray, n_pool: int) -> IntArray:
    """Row numbers, ascending and once each, from a boolean mask (n,) or from integers."""
    if array.ndim != 1:
        raise InvalidArgument(f"{name} has shape {array.shape}; pass a 1-D mask or 1-D row numbers.")
    if array.dtype.kind == "b":
        if len(array) != n_pool:
            raise InvalidArgument(f"{name} is a mask of {len(array)} and the pool has {n_pool} rows; pass one a row.")
        return np.flatnonzero(array)
    if array.dtype.kind not in "iu":
        raise InvalidArgument(
            f"{name} is 1-D with dtype {array.dtype}; pass row numbers as integers, a boolean mask, or 2-D features."
        )
    outside = (array < 0) | (array >= n_pool)
    if outside.any():
        at = int(np.argmax(outside))
        raise InvalidArgument(
            f"{name}[{at}]={array[at]} is no row of the pool; pass row numbers from 0 to {n_pool - 1}."
        )
    return np.unique(array.astype(np.int64))


def check_candidates(candidates: object, n_pool: int, labelled_rows: IntArray) -> IntArray:
    """Rows that may be picked, ascending: the candidates, or every row, less what is labelled."""
    if candidates is None:
        allowed: BoolArray = np.ones(n_pool, dtype=np.bool_)
    else:
        array = as_array("candidates", candidates)
        if array.size == 0:
            raise InvalidArgument("candidates is empty; pass at least one row, or None for the whole pool.")
        allowed = np.zeros(n_pool, dtype=np.bool_)
        allowed[check_rows("candidates", array, n_pool)] = True
    allowed[labelled_rows] = False
    return np.flatnonzero(allowed)


def shorten(value: object) -> str:
    """The value as it reads in an error message, cut where it is long."""
    text = repr(value)
    return text if len(text) <= 60 else text[:57] + "..."
