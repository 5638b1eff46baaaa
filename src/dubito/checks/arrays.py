"""Arrays out of whatever is handed in: lists, tensors, frames and Arrow columns, their packages not imported."""

from typing import Any

import numpy as np

from dubito.errors import InvalidArgument, InvalidData
from dubito.matrix import AnyArray, Matrix, OnDevice

KEPT_TENSORS = ("torch.float16", "torch.bfloat16", "torch.float32", "torch.float64")
"""What a tensor on a GPU may hold to stay there."""

MENDS = {
    "pandas": "pass columns of numbers, such as {name}.astype(float), or np.stack(column) for a column of lists.",
    "polars": "pass columns of numbers, or np.array(column.to_list()) for a column of lists.",
}
"""What to do about a frame that is no array of numbers, by its package."""


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
        mend = f"pass {name}.toarray(), or reduce its width first."
        raise InvalidArgument("is a sparse matrix", argument=name, mend=mend)
    elif package in {"pandas", "polars"}:
        array = np.asarray(value.to_numpy())
    else:
        array = _from_sequence(name, value)
    if array.dtype.kind not in "biuf":
        where = _odd_column(value) if package in MENDS else ""
        problem = f"holds {_kind(array)} where numbers belong ({where}dtype {array.dtype})"
        raise InvalidData(problem, argument=name, mend=MENDS.get(package, "pass numbers.").format(name=name))
    if isinstance(value, np.ma.MaskedArray) and np.ma.is_masked(value):
        mend = f"fill them first with {name}.filled(...)."
        raise InvalidData("is a masked array with masked values", argument=name, mend=mend)
    return array.astype(np.float64) if array.dtype.itemsize > 8 else array


def as_names(name: str, value: Any) -> AnyArray:
    """An array of whatever names classes: numbers, text or both."""
    return _from_sequence(name, value)


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
        mend = "pass equal rows of numbers."
        raise InvalidArgument(f"cannot be read as an array ({error})", argument=name, mend=mend) from None


def _from_torch(name: str, tensor: Any) -> AnyArray:
    if str(tensor.layout) != "torch.strided":
        mend = f"pass {name}.to_dense(), or reduce its width first."
        raise InvalidArgument("is a sparse tensor", argument=name, mend=mend)
    host = tensor.detach().cpu()
    if str(host.dtype) == "torch.bfloat16":
        host = host.float()  # NumPy has no bfloat16; float32 holds every one of them.
    try:
        return np.asarray(host.numpy())
    except TypeError:
        mend = f"NumPy has no such type: pass {name}.float()."
        raise InvalidArgument(f"is a tensor of {tensor.dtype}", argument=name, mend=mend) from None


def _from_arrow(name: str, column: Any) -> AnyArray:
    if hasattr(column, "combine_chunks") and not hasattr(column, "columns"):
        column = column.combine_chunks()
    if getattr(column, "null_count", 0):
        mend = "fill or drop them first."
        raise InvalidData(f"holds {column.null_count} missing values", argument=name, mend=mend)
    if hasattr(column, "columns"):
        return np.column_stack([_from_arrow(name, part) for part in column.columns])
    if "list" not in str(getattr(column, "type", "")):
        return np.asarray(column.to_numpy(zero_copy_only=False))
    values = _from_arrow(name, column.flatten())
    widths = np.asarray(column.value_lengths().to_numpy(zero_copy_only=False))
    if len(column) and (widths != widths[0]).any():
        row = int(np.argmax(widths != widths[0]))
        problem = f"has {widths[row]} values in row {row} and {widths[0]} in row 0"
        raise InvalidData(problem, argument=name, mend="pass equal rows.")
    return values.reshape(len(column), -1)
