"""Convert arguments to arrays, without importing torch or pandas; check numbers and features."""

import operator
import re
from collections.abc import Collection
from contextlib import suppress
from difflib import get_close_matches
from importlib import import_module
from importlib.util import find_spec
from typing import Any, NamedTuple, SupportsIndex, TypeVar, cast

import numpy as np

from dubito import native as compiled
from dubito.errors import PASS, TRUE_OR_FALSE, InvalidArgument, InvalidData, at_row, in_python, named
from dubito.matrix import AnyArray, Matrix, OnDevice, Rows, Stack, blocks, len_of, rows_per_read
from dubito.threads import n_threads

GPU_DTYPES = ("torch.float16", "torch.bfloat16", "torch.float32", "torch.float64")
"""Types of tensors that stay on their GPU."""

HINTS_FOR_FRAMES = {
    "pandas": "pass columns of numbers, such as {name}.astype(float), or np.stack(column) for a column of lists.",
    "polars": "pass columns of numbers, or np.array(column.to_list()) for a column of lists.",
}
"""Hints for frames with columns that are not numeric, by package."""


def as_matrix(name: str, value: Any) -> Matrix:
    """An array, or features that stay where they are: `Rows`, `Stack`, or a float tensor or CuPy array on a GPU."""
    if isinstance(value, Rows | Stack | OnDevice):
        return value
    package = type(value).__module__.partition(".")[0]
    if package == "cupy" and find_spec("torch") is not None:
        value, package = import_module("torch").as_tensor(value, device=f"cuda:{value.device.id}"), "torch"
    is_tensor = package == "torch"
    if is_tensor and value.is_cuda and str(value.dtype) in GPU_DTYPES and str(value.layout) == "torch.strided":
        return OnDevice(value)
    return as_array(name, value)


def as_array(name: str, value: Any) -> AnyArray:
    """A NumPy array of numbers, without a copy if possible."""
    package = type(value).__module__.partition(".")[0]
    if isinstance(value, np.ndarray):
        array = value
    elif package == "torch":
        array = _from_torch(name, value)
    elif package == "cupy":
        array = value.get()
    elif package == "pyarrow":
        array = _from_arrow(name, value)
    elif type(value).__module__.startswith("scipy.sparse"):
        hint = f"pass {name}.toarray(), or reduce its width first."
        raise InvalidArgument("is a sparse matrix", argument=name, hint=hint)
    elif package in {"pandas", "polars"}:
        array = np.asarray(value.to_numpy())
    else:
        array = as_names(name, value)
    if array.dtype.kind not in "biuf":
        column = _first_text_column(value) if package in HINTS_FOR_FRAMES else ""
        content = {"U": "text", "S": "bytes", "c": "complex numbers", "M": "dates"}.get(array.dtype.kind, "objects")
        problem = f"holds {content} instead of numbers ({column}dtype {array.dtype})"
        raise InvalidData(problem, argument=name, hint=HINTS_FOR_FRAMES.get(package, "pass numbers.").format(name=name))
    if isinstance(value, np.ma.MaskedArray) and np.ma.is_masked(value):
        hint = f"fill them first with {name}.filled(...)."
        raise InvalidData("is a masked array with masked values", argument=name, hint=hint)
    return array.astype(np.float64) if array.dtype.itemsize > 8 else array


def as_names(name: str, value: Any) -> AnyArray:
    try:
        return value if isinstance(value, np.ndarray) else np.asarray(value)
    except ValueError as error:
        hint = "pass equal rows of numbers."
        raise InvalidArgument(f"cannot be read as an array ({error})", argument=name, hint=hint) from None


def _first_text_column(frame: Any) -> str:
    """The first column of a frame that is not numeric, for a message."""
    names = [name for name in getattr(frame, "columns", ()) if frame[name].to_numpy().dtype.kind not in "biuf"]
    return f"column {names[0]!r}, " if names else ""


def _from_torch(name: str, tensor: Any) -> AnyArray:
    if str(tensor.layout) != "torch.strided":
        hint = f"pass {name}.to_dense(), or reduce its width first."
        raise InvalidArgument("is a sparse tensor", argument=name, hint=hint)
    host = tensor.detach().cpu()
    if str(host.dtype) == "torch.bfloat16":
        host = host.float()  # NumPy has no bfloat16; float32 represents it exactly.
    try:
        return np.asarray(host.numpy())
    except TypeError:
        hint = f"NumPy has no such type: pass {name}.float()."
        raise InvalidArgument(f"is a tensor of {tensor.dtype}", argument=name, hint=hint) from None


def _from_arrow(name: str, column: Any) -> AnyArray:
    if hasattr(column, "combine_chunks") and not hasattr(column, "columns"):
        column = column.combine_chunks()
    if getattr(column, "null_count", 0):
        hint = "fill or drop them first."
        raise InvalidData(f"holds {column.null_count} missing values", argument=name, hint=hint)
    if hasattr(column, "columns"):
        return np.column_stack([_from_arrow(name, part) for part in column.columns])
    if "list" not in str(getattr(column, "type", "")):
        return np.asarray(column.to_numpy(zero_copy_only=False))
    values = _from_arrow(name, column.flatten())
    widths = np.asarray(column.value_lengths().to_numpy(zero_copy_only=False))
    if len(column) and (widths != widths[0]).any():
        row = int(np.argmax(widths != widths[0]))
        problem = f"has {widths[row]} values in row {row} and {widths[0]} in row 0"
        raise InvalidData(problem, argument=name, hint="pass equal rows.")
    return values.reshape(len(column), -1)


# Scalars

Name = TypeVar("Name", bound=str)


def check_choice(name: str, value: object, known: Collection[Name]) -> Name:
    """One of the known names; the error for others suggests the closest one.

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
    hint = f"{choose} from {', '.join(sorted(known))}."
    raise InvalidArgument("is not known", argument=name, value=value, hint=hint)


def check_bool(name: str, value: object) -> bool:
    if not isinstance(value, bool | np.bool_):
        raise InvalidArgument("is not allowed", argument=name, value=value, hint=TRUE_OR_FALSE)
    return bool(value)


def check_integer(name: str, value: object, *, least: int) -> int:
    """An integer that is at least ``least``; bools and floats are rejected."""
    # Fast path: the isinstance check of a protocol is slow, and most values are plain ints.
    is_plain = type(value) is int
    if not is_plain and (isinstance(value, bool | np.bool_ | np.ndarray) or not isinstance(value, SupportsIndex)):
        hint = f"{PASS} an integer >= {least}."
        raise InvalidArgument("is not a whole number", argument=name, value=value, hint=hint)
    number = operator.index(cast(SupportsIndex, value))
    if number < least:
        hint = f"{PASS} {named(name)} >= {least}."
        raise InvalidArgument("is too small", argument=name, value=number, hint=hint)
    return number


def check_real(name: str, value: object, *, least: float, most: float = np.inf) -> float:
    """A finite number from ``least`` to ``most``."""
    if isinstance(value, int | float | np.integer | np.floating) and not isinstance(value, bool):
        with suppress(OverflowError):  # An int may be too large for a float.
            number = float(value)
            if np.isfinite(number) and least <= number <= most:
                return number
    hint = f"{PASS} a finite number >= {least:g}." if np.isinf(most) else f"{PASS} a number from {least:g} to {most:g}."
    raise InvalidArgument("is not allowed", argument=name, value=value, hint=hint)


def check_positive(name: str, value: object) -> float:
    number = check_real(name, value, least=0.0)
    if number == 0:
        raise InvalidArgument("is not allowed", argument=name, value=value, hint=f"{PASS} a number above 0.")
    return number


def check_budget(budget: object, n_candidates: int, n_pool: int, unit: str = "point") -> int:
    """An integer from 1 to the number of candidates; ``unit`` is the noun for what the budget counts."""
    number = check_integer("budget", budget, least=1)
    if number > n_candidates:
        limit = f"{unit}s in the pool" if n_candidates == n_pool else f"candidates among the {n_pool} pool {unit}s"
        hint = (
            f"{PASS} {named('budget')} <= {n_candidates}."
            if n_candidates
            else "all are labeled or excluded, so there is nothing left to pick."
        )
        raise InvalidArgument(f"exceeds the {n_candidates} {limit}", argument="budget", value=number, hint=hint)
    return number


def check_memory_limit(value: object, name: str = "memory_limit") -> int | None:
    """Bytes, from a number or text such as "2GB" or "2GiB".

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
            hint = "pass bytes, or text such as '2GB'."
            raise InvalidArgument("is not a size", argument=name, value=value, hint=hint)
        number, prefix, binary = match.groups()
        value = int(float(number) * (1024 if binary else 1000) ** " kmgt".index(prefix.lower() or " "))
    return check_integer(name, value, least=1)


def read_number(text: str) -> int | float | str:
    """Parse an int or a float; other text is returned unchanged, for the library's checks to reject.

    Examples
    --------
    >>> read_number("20"), read_number("2.5"), read_number("many")
    (20, 2.5, 'many')
    """
    for kind in (int, float):
        try:
            return kind(text)
        except ValueError:
            continue
    return text


# Features

LARGEST_FEATURE = 1e140
"""Beyond this magnitude, squared distances could overflow float64."""
BLOCKS = 256
"""Number of blocks that the compiled code checks in one call, on all threads."""
SINGLE_THREAD_SIZE = 1 << 18
"""Up to this many numbers, one thread is as fast as several."""


class Features(NamedTuple):
    """Checked features and their largest magnitude."""

    matrix: Matrix
    largest: float


def check_features(name: str, value: object) -> Features:
    """Check that a value is a matrix (n, d) of finite numbers with n, d >= 1."""
    matrix = as_matrix(name, value)
    shape = matrix.shape
    if len(shape) != 2:
        reshape = in_python(f"; use {name}.reshape(-1, 1) for one feature per row") if len(shape) == 1 else ""
        hint = f"pass a 2-D array (rows, features){reshape}."
        raise InvalidArgument(f"has shape {shape}", argument=name, hint=hint)
    if shape[0] == 0:
        raise InvalidArgument(f"is empty (shape {shape})", argument=name, hint="pass at least one row.")
    if shape[1] == 0:
        raise InvalidArgument(f"has no features (shape {shape})", argument=name, hint="pass at least one column.")
    return Features(matrix, check_finite(name, matrix))


def check_finite(name: str, matrix: Matrix) -> float:
    """The largest magnitude; raises InvalidData for NaN, infinities and values whose square could overflow."""
    if isinstance(matrix, OnDevice) and (largest := matrix.magnitude()) <= LARGEST_FEATURE:
        return largest
    largest, n_rows = 0.0, rows_per_read(matrix, matrix.dtype.itemsize)
    # The compiled code reads the matrix in place; NumPy copies one block at a time.
    is_read_in_place = isinstance(matrix, np.ndarray) and compiled.steps is not None and compiled.can_read(matrix)
    for span in blocks(len_of(matrix), BLOCKS * n_rows if is_read_in_place else n_rows):
        block = np.asarray(matrix[span])
        if block.size == 0:
            continue
        if compiled.steps is not None and compiled.can_read(block):
            workers = n_threads() if block.size > SINGLE_THREAD_SIZE else 1
            block_largest = compiled.steps.magnitude((block,), block.size, block.itemsize, workers)
        elif block.dtype == np.float16 and block.dtype.isnative:
            # Bit patterns of magnitudes sort like the magnitudes, and integer maxima are much faster than float16 ones.
            block_largest = float((block.view(np.uint16) & np.uint16(0x7FFF)).max().view(np.float16))
        else:
            block_largest = max(float(block.max()), -float(block.min()))
        if not block_largest <= LARGEST_FEATURE:  # It may be NaN.
            raise _invalid_feature(name, matrix, span)
        largest = max(largest, block_largest)
    return largest


def _invalid_feature(name: str, matrix: Matrix, rows: slice) -> InvalidData:
    """The error for the first number in these rows that is not finite, or too large."""
    for span in blocks(rows.stop - rows.start, rows_per_read(matrix)):
        start = rows.start + span.start
        wide = np.asarray(matrix[start : rows.start + span.stop]).astype(np.float64)
        found = np.argwhere(~(np.abs(wide) <= LARGEST_FEATURE))
        if len(found):
            break
    position = tuple(int(i) for i in found[0])
    value, where = wide[position], at_row(start + position[0]) + "".join(f", column {i}" for i in position[1:])
    hint = f"distances would overflow: rescale so that no value exceeds {LARGEST_FEATURE:g}."
    hint = hint if np.isfinite(value) else "remove or fill such rows first."
    return InvalidData(f"holds {value:g} at {where}", argument=name, hint=hint)


def refuse_zero_rows(name: str, matrix: Matrix) -> None:
    """Raise for a row of zeros, which has no direction and so no cosine distance."""
    row = matrix.first_zero_row() if isinstance(matrix, OnDevice) else _first_zero_row(matrix)
    if row is not None:
        hint = f"drop such rows or pass {named('metric', 'euclidean')}."
        raise InvalidData(f"is all zeros at {at_row(row)}, which has no direction", argument=name, hint=hint)


def _first_zero_row(matrix: Matrix) -> int | None:
    for span in blocks(len_of(matrix), rows_per_read(matrix)):
        zero = ~np.asarray(matrix[span]).any(axis=1)
        if zero.any():
            return int(span.start + np.argmax(zero))
    return None


def different_widths(n_labeled: int, n_pool: int) -> InvalidArgument:
    """The error for labeled features and a pool of different widths."""
    problem = f"has {n_labeled} features and pool has {n_pool}"
    return InvalidArgument(problem, argument="labeled", hint="pass the same features for both.")
