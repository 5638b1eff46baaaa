"""NumPy files and safetensors. Nothing is unpickled; ``.npy`` and safetensors are memory-mapped."""

import json
import math
import os
import struct
import zipfile
from functools import partial
from typing import IO

import numpy as np

from dubito.errors import InvalidData
from dubito.io.formats.json_rows import unique_names
from dubito.io.limits import reserve_memory
from dubito.io.source import Entry, Source, content_of, reading
from dubito.matrix import AnyArray

SAFETENSORS_TYPES = {
    "F64": "<f8",
    "F32": "<f4",
    "F16": "<f2",
    "BF16": "<u2",
    "I64": "<i8",
    "I32": "<i4",
    "I16": "<i2",
    "I8": "|i1",
    "U64": "<u8",
    "U32": "<u4",
    "U16": "<u2",
    "U8": "|u1",
    "BOOL": "|b1",
}


def open_npy(path: str) -> Source:
    """Open a ``.npy`` file: one array without a name, memory-mapped when read."""
    with reading(path), open(path, "rb") as file:
        shape, dtype = _header(file)
        if not dtype.hasobject:
            _check_length(path, math.prod(shape) * dtype.itemsize, os.fstat(file.fileno()).st_size - file.tell())
    return Source(path, {"": _entry(path, "", shape, dtype, partial(_map_npy, path))})


def open_npz(path: str) -> Source:
    """Open a ``.npz`` file. Reads only the headers of its arrays."""
    entries = {}
    with reading(path), zipfile.ZipFile(path) as archive:
        for member in archive.infolist():
            if not member.filename.endswith(".npy"):
                continue
            with archive.open(member) as file:
                shape, dtype = _header(file)
                n_bytes = math.prod(shape) * dtype.itemsize
                if not dtype.hasobject:
                    _check_length(member.filename, n_bytes, member.file_size - file.tell())
            name = member.filename.removesuffix(".npy")
            if name in entries:
                raise ValueError(f"it holds two arrays called {name}")
            read = partial(_read_member, path, member.filename, n_bytes)
            entries[name] = _entry(path, name, shape, dtype, read)
    if not entries:
        raise InvalidData(f"{path} holds no arrays", hint="write it with numpy.savez.")
    return Source(path, entries)


def open_safetensors(path: str) -> Source:
    """Open a ``.safetensors`` file, memory-mapped; bfloat16 is converted to float32, which is exact."""
    entries = {}
    with reading(path), open(path, "rb") as file:
        (length,) = struct.unpack("<Q", file.read(8))
        n_bytes = os.fstat(file.fileno()).st_size - 8 - length
        if n_bytes < 0:
            raise ValueError("the header is longer than the file")
        header = json.loads(file.read(length), object_pairs_hook=unique_names)
        header.pop("__metadata__", None)
        for name, info in header.items():
            shape, code = tuple(map(int, info["shape"])), str(info["dtype"])
            start, end = map(int, info["data_offsets"])
            _check_span(name, shape, code, start, end, n_bytes)
            entries[name] = _tensor(path, name, shape, code, 8 + length + start)
        _check_cover([tuple(map(int, info["data_offsets"])) for info in header.values()], n_bytes)
    if not entries:
        raise InvalidData(f"{path} holds no arrays.")
    return Source(path, entries)


def _header(file: IO[bytes]) -> tuple[tuple[int, ...], np.dtype[np.generic]]:
    version = np.lib.format.read_magic(file)
    read = np.lib.format.read_array_header_1_0 if version == (1, 0) else np.lib.format.read_array_header_2_0
    shape, _, dtype = read(file)
    return shape, dtype


def _entry(path: str, name: str, shape: tuple[int, ...], dtype: np.dtype[np.generic], read: partial[AnyArray]) -> Entry:
    if dtype.hasobject:
        summary = f"{shape} Python objects"
        return Entry(len(shape), "other", summary, partial(_refuse_objects, path, name))
    summary = f"{shape} {dtype}"
    return Entry(len(shape), content_of(dtype), summary, partial(_decoded, read))


def _refuse_objects(path: str, name: str) -> AnyArray:
    which = f"the array {name!r} of {path}" if name else path
    problem = f"{which} holds Python objects, which only unpickling could read, and dubito never unpickles"
    hint = "save it again as numbers or text, such as array.astype(float) or array.astype(str)."
    raise InvalidData(problem, hint=hint)


def _decoded(read: partial[AnyArray]) -> AnyArray:
    """The array, with byte strings decoded."""
    array = read()
    return np.char.decode(array, "utf-8") if array.dtype.kind == "S" else array


def _map_npy(path: str) -> AnyArray:
    with reading(path):
        array: AnyArray = np.load(path, mmap_mode="r", allow_pickle=False)
        return array


def _check_length(what: str, expected: int, found: int) -> None:
    if found != expected:
        raise ValueError(f"{what} is {'shorter' if found < expected else 'longer'} than its header says")


def _read_member(path: str, member: str, n_bytes: int) -> AnyArray:
    reserve_memory(path, member.removesuffix(".npy"), n_bytes)
    with reading(path), zipfile.ZipFile(path) as archive, archive.open(member) as file:
        array: AnyArray = np.lib.format.read_array(file, allow_pickle=False)
        return array


def _check_span(name: str, shape: tuple[int, ...], code: str, start: int, end: int, n_bytes: int) -> None:
    """Raise if a tensor is outside the file, or its size does not match its shape."""
    wrong_size = (
        code in SAFETENSORS_TYPES and end - start != math.prod(shape) * np.dtype(SAFETENSORS_TYPES[code]).itemsize
    )
    if min(shape, default=0) < 0 or not 0 <= start <= end <= n_bytes or wrong_size:
        raise ValueError(f"the tensor {name!r} does not fit the file")


def _check_cover(spans: list[tuple[int, ...]], n_bytes: int) -> None:
    """Raise if the tensors have gaps or overlap, which the format forbids."""
    ends = [0, *(end for _, end in sorted(spans))]
    if [start for start, _ in sorted(spans)] != ends[:-1] or ends[-1] != n_bytes:
        raise ValueError("its tensors have gaps or overlap")


def _tensor(path: str, name: str, shape: tuple[int, ...], code: str, offset: int) -> Entry:
    if code not in SAFETENSORS_TYPES:
        return Entry(len(shape), "other", f"{shape} {code}", partial(_refuse_type, path, name, code))
    dtype = np.dtype(SAFETENSORS_TYPES[code])
    read = partial(_map_tensor, path, dtype, shape, offset, code == "BF16")
    return Entry(len(shape), "numbers", f"{shape} {'bfloat16' if code == 'BF16' else dtype}", read)


def _refuse_type(path: str, name: str, code: str) -> AnyArray:
    raise InvalidData(f"the array {name!r} of {path} is of type {code}", hint="save it as float32 or float16.")


def _map_tensor(path: str, dtype: np.dtype[np.generic], shape: tuple[int, ...], offset: int, widen: bool) -> AnyArray:
    with reading(path):
        if math.prod(shape) == 0:
            return np.empty(shape, np.float32 if widen else dtype)
        tensor: AnyArray = np.memmap(path, dtype, "r", offset, shape)
        if widen:
            reserve_memory(path, str(offset), 4 * tensor.size)
            return (tensor.astype(np.uint32) << 16).view(np.float32)
        # An odd offset is legal in the format but slow in NumPy.
        return tensor if tensor.flags.aligned else np.array(tensor)
