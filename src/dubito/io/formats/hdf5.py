"""HDF5: datasets by their path; contiguous ones are memory-mapped (extra ``hdf5``).

Only the file itself is read: links to other files are not followed, and datasets with external values are an error.
"""

import math
import mmap
import os
import struct
from functools import partial
from types import ModuleType
from typing import Any

import numpy as np

from dubito.errors import InvalidData
from dubito.io.cells import as_text
from dubito.io.limits import reserve_memory
from dubito.io.source import Entry, Source, content_of, reading
from dubito.matrix import AnyArray
from dubito.registry import require

HEAP = b"GCOL\x01\x00\x00\x00"
"""Start of a global heap, which stores variable-length text."""
ROWS_PER_READ = 4096
"""Rows of text to read at a time; no header contains their size."""


def open_hdf5(path: str) -> Source:
    """Open an ``.h5`` or ``.hdf5`` file. If all datasets are in one group, its path is left out of their names."""
    h5py = require("h5py", extra="hdf5")
    found: dict[str, Any] = {}
    with reading(path), _opened(h5py, path) as file:

        def visit(name: str, item: Any) -> None:
            if isinstance(item, h5py.Dataset) and item.shape is not None:
                found[name] = _entry(h5py, path, name, item, file.userblock_size)

        file.visititems(visit)
    if not found:
        raise InvalidData(f"{path} holds no arrays.")
    group = os.path.commonpath([os.path.dirname(name) for name in found]) if len(found) > 1 else ""
    return Source(path, {name.removeprefix(f"{group}/") if group else name: entry for name, entry in found.items()})


def _opened(h5py: ModuleType, path: str) -> Any:
    with open(path, "rb"):  # HDF5's own errors do not say why a file cannot be opened.
        return h5py.File(path, "r", locking=False)


def _entry(h5py: ModuleType, path: str, name: str, dataset: Any, userblock: int) -> Entry:
    shape, dtype = dataset.shape, dataset.dtype
    if dataset.external or dataset.is_virtual:
        return Entry(
            len(shape), "other", f"{shape} in other files", partial(_refuse, path, name, "lies in other files")
        )
    if h5py.check_string_dtype(dtype) is not None:
        return Entry(len(shape), "text", f"{shape} text", partial(_texts, h5py, path, name))
    if content_of(dtype) != "numbers":
        return Entry(len(shape), "other", f"{shape} {dtype}", partial(_refuse, path, name, f"is of type {dtype}"))
    offset = None if userblock or dataset.chunks else dataset.id.get_offset()
    if offset is not None and math.prod(shape) and dtype.kind != "b":
        if offset + math.prod(shape) * dtype.itemsize > os.path.getsize(path):
            raise ValueError(f"the dataset {name} is longer than the file")
        return Entry(len(shape), "numbers", f"{shape} {dtype}", partial(_map, path, dtype, shape, offset))
    return Entry(len(shape), "numbers", f"{shape} {dtype}", partial(_numbers, h5py, path, name))


def _refuse(path: str, name: str, why: str) -> AnyArray:
    raise InvalidData(f"the array {name!r} of {path} {why}", hint="save it as numbers or text in this file.")


def _map(path: str, dtype: np.dtype[np.generic], shape: tuple[int, ...], offset: int) -> AnyArray:
    with reading(path):
        array: AnyArray = np.memmap(path, dtype, "r", offset, shape)
        return array if array.flags.aligned else np.array(array)


def _numbers(h5py: ModuleType, path: str, name: str) -> AnyArray:
    with reading(path), _opened(h5py, path) as file:
        dataset = file[name]
        reserve_memory(path, name, math.prod(dataset.shape) * dataset.dtype.itemsize)
        return np.asarray(dataset[()])


def _texts(h5py: ModuleType, path: str, name: str) -> AnyArray:
    """One-dimensional text, read in blocks: many rows may refer to the same long text."""
    values: list[str] = []
    n_characters = 0
    with reading(path), _opened(h5py, path) as file:
        _check_heaps(path)
        dataset = file[name]
        if len(dataset.shape) != 1:
            _refuse(path, name, f"is text of shape {dataset.shape}")
        for start in range(0, dataset.shape[0], ROWS_PER_READ):
            values += dataset.asstr()[start : start + ROWS_PER_READ].tolist()
            n_characters += sum(map(len, values[start:]))
            reserve_memory(path, name, n_characters)
    return as_text(values, path, name)


def _check_heaps(path: str) -> None:
    """Raise if a heap has an object of size 0, on which HDF5 2.0 would loop forever."""
    with open(path, "rb") as file, mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ) as content:
        heap = content.find(HEAP)
        while heap >= 0:
            (size,) = struct.unpack_from("<Q", content, heap + 8) if heap + 16 <= len(content) else (0,)
            position, end = heap + 16, min(heap + size, len(content))
            while position + 16 <= end:
                index, _, length = struct.unpack_from("<HHxxxxQ", content, position)
                if index == 0 and length == 0:
                    raise ValueError("a heap of text is damaged")
                position += length if index == 0 else 16 + -(-length // 8) * 8
            heap = content.find(HEAP, heap + 1)
