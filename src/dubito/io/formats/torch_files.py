"""PyTorch's ``.pt`` and ``.pth`` files of tensors. Nothing is unpickled, and PyTorch is not needed.

Since PyTorch 1.6, files are zip archives of uncompressed tensors, which are memory-mapped after their checksums have
been verified. Older files are several pickles, followed by the numbers.
"""

import io
import math
import os
import pickletools
import struct
import zipfile
import zlib
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from functools import partial
from typing import IO, Any, NamedTuple

import numpy as np

from dubito.errors import InvalidData
from dubito.io.cells import as_text
from dubito.io.limits import reserve_memory
from dubito.io.source import Entry, Source, content_of, reading
from dubito.matrix import AnyArray

# An interpreter of the opcodes that torch.save writes for tensors; any other opcode is an error.
#
# torch.load(weights_only=True) would need torch (574 MB on disk), and does not verify checksums when it memory-maps
# tensors. pickle.Unpickler with its own find_class executes BUILD on any object, and a few bytes (LONG_BINPUT with a
# large index) make it allocate gigabytes.


class UnsupportedOpcode(Exception):
    """An opcode or call that is not needed for tensors, named in the message."""


class Global(NamedTuple):
    """The name of a global in a pickle. It is never imported."""

    module: str
    name: str


@dataclass(frozen=True, slots=True)
class Storage:
    """A block of numbers that one or more tensors use."""

    kind: Global
    key: str
    size: int
    """In elements, or in bytes if the storage has no element type."""
    start: int = 0
    """First element, for a view of another storage in old files."""


@dataclass(frozen=True, slots=True)
class StoredTensor:
    storage: Storage
    offset: int
    shape: tuple[int, ...]
    strides: tuple[int, ...]
    dtype: Global | None = None
    """The element type, if the storage has none."""


def _tensor(storage: object, offset: object, shape: object, strides: object, *more: object) -> StoredTensor:
    dtype = more[2] if len(more) > 2 and isinstance(more[2], Global) else None
    if (
        isinstance(storage, Storage)
        and isinstance(offset, int)
        and isinstance(shape, tuple)
        and isinstance(strides, tuple)
    ):
        are_sizes = all(type(each) is int and each >= 0 for each in (offset, *shape, *strides))
        if are_sizes and len(shape) == len(strides):
            return StoredTensor(storage, offset, shape, strides, dtype)
    raise ValueError("the description of a tensor is invalid")


def _dictionary(pairs: object = ()) -> dict[Any, Any]:
    return dict(pairs) if isinstance(pairs, list | tuple) else {}


SUPPORTED_CALLS: dict[Global, Callable[..., object]] = {
    Global("torch._utils", "_rebuild_tensor"): _tensor,
    Global("torch._utils", "_rebuild_tensor_v2"): _tensor,
    Global("torch._utils", "_rebuild_tensor_v3"): _tensor,
    Global("torch._utils", "_rebuild_parameter"): lambda tensor, *more: tensor,
    Global("collections", "OrderedDict"): _dictionary,
    Global("torch", "Size"): lambda numbers=(): numbers,
}
"""The calls that are supported, and what they return."""

IGNORED_OPCODES = {"PROTO", "FRAME"}
CONSTANT_OPCODES = {"NONE": None, "NEWTRUE": True, "NEWFALSE": False}
VALUE_OPCODES = {
    *("BININT", "BININT1", "BININT2", "LONG1", "LONG4", "BINFLOAT"),
    *("BINUNICODE", "SHORT_BINUNICODE", "BINUNICODE8", "BINSTRING", "SHORT_BINSTRING"),
}
"""Opcodes whose argument is the value itself."""
TUPLE_OPCODES = {"TUPLE1": 1, "TUPLE2": 2, "TUPLE3": 3}


MEMORY_PER_BYTE = 50
"""Upper bound on the memory that is needed per byte of a pickle."""
CHUNK = 1 << 20


def read_pickle(file: IO[bytes], reserve: Callable[[int], None] | None = None) -> object:
    """Read a pickle, with a `StoredTensor` for each tensor. Leaves the file positioned after the pickle.

    ``reserve`` is called after each `CHUNK` with the memory needed so far, for pickles whose size is not known before.
    """
    interpreter, start = PickleInterpreter(), file.tell()
    n_reserved = 0
    for opcode, argument, position in pickletools.genops(file):
        n_bytes = (position or 0) - start
        if reserve is not None and n_bytes - n_reserved > CHUNK:
            reserve(MEMORY_PER_BYTE * n_bytes)
            n_reserved = n_bytes
        if opcode.name == "STOP":
            return interpreter.stack.pop()
        interpreter.execute(opcode.name, argument)
    raise ValueError("the pickle is incomplete")


class PickleInterpreter:
    """The state of the interpreter: the stack, the memo, and the positions of marks in the stack."""

    def __init__(self) -> None:
        self.stack: list[Any] = []
        self.marks: list[int] = []
        self.memo: dict[int, Any] = {}

    def execute(self, name: str, argument: Any) -> None:
        if name in VALUE_OPCODES:
            self.stack.append(argument)
        elif name in CONSTANT_OPCODES:
            self.stack.append(CONSTANT_OPCODES[name])
        elif name in ("BINPUT", "LONG_BINPUT"):
            self.memo[argument] = self.stack[-1]
        elif name == "MEMOIZE":
            self.memo[len(self.memo)] = self.stack[-1]
        elif name in ("BINGET", "LONG_BINGET"):
            self.stack.append(self.memo[argument])
        elif name == "MARK":
            self.marks.append(len(self.stack))
        elif not (self._build(name) or self._call(name, argument) or name in IGNORED_OPCODES):
            raise UnsupportedOpcode(f"the opcode {name}")

    def _build(self, name: str) -> bool:
        """Tuples, lists and dictionaries; False for other opcodes."""
        if name in TUPLE_OPCODES:
            self.stack.append(tuple(self.pop_from(len(self.stack) - TUPLE_OPCODES[name])))
        elif name == "TUPLE":
            self.stack.append(tuple(self.pop_from(self.marks.pop())))
        elif name in ("EMPTY_TUPLE", "EMPTY_LIST", "EMPTY_DICT"):
            self.stack.append({"EMPTY_TUPLE": (), "EMPTY_LIST": [], "EMPTY_DICT": {}}[name])
        elif name in ("APPEND", "APPENDS"):
            values = self.pop_from(self.marks.pop() if name == "APPENDS" else len(self.stack) - 1)
            self.top(list).extend(values)
        elif name in ("SETITEM", "SETITEMS"):
            values = self.pop_from(self.marks.pop() if name == "SETITEMS" else len(self.stack) - 2)
            self.top(dict).update(zip(values[0::2], values[1::2], strict=True))
        elif name == "BUILD":
            self.stack.pop()  # Attributes of an ordered dictionary: the versions of modules.
            self.top(dict)
        else:
            return False
        return True

    def _call(self, name: str, argument: Any) -> bool:
        """Globals, calls and storages; False for other opcodes."""
        if name == "GLOBAL":
            self.stack.append(Global(*argument.split(" ", 1)))
        elif name == "STACK_GLOBAL":
            self.stack.append(Global(*map(str, self.pop_from(len(self.stack) - 2))))
        elif name == "REDUCE":
            called, arguments = self.pop_from(len(self.stack) - 2)
            if called not in SUPPORTED_CALLS:
                called_name = ".".join(called) if isinstance(called, Global) else "a call to an unknown function"
                raise UnsupportedOpcode(called_name)
            self.stack.append(SUPPORTED_CALLS[called](*arguments))
        elif name == "BINPERSID":
            self.stack.append(_storage_of(self.stack.pop()))
        else:
            return False
        return True

    def pop_from(self, start: int) -> list[Any]:
        """Remove the values from ``start`` on from the stack, and return them."""
        if start < 0:
            raise ValueError("the pickle pops from an empty stack")
        values = self.stack[start:]
        del self.stack[start:]
        return values

    def top(self, kind: type) -> Any:
        """The value on top of the stack, which must be of this type."""
        if type(self.stack[-1]) is not kind:
            raise UnsupportedOpcode("an object that is not a tensor")
        return self.stack[-1]


def _storage_of(record: object) -> Storage:
    """The storage for ``("storage", kind, key, device, size)``; old files may add a view of another storage."""
    if not isinstance(record, tuple) or len(record) < 5 or record[0] != "storage":
        raise ValueError("the description of a storage is invalid")
    _, kind, key, _, size, *part = record
    if not isinstance(kind, Global) or type(size) is not int or size < 0:
        raise ValueError("the description of a storage is invalid")
    if part and part[0] is not None:
        _, start, length = part[0]
        return Storage(kind, str(key), int(length), int(start))
    return Storage(kind, str(key), size)


OLD_MAGIC = 0x1950A86A20F9469CFC6C
TYPES = {
    "DoubleStorage": "f8",
    "FloatStorage": "f4",
    "HalfStorage": "f2",
    "BFloat16Storage": "bfloat16",
    "LongStorage": "i8",
    "IntStorage": "i4",
    "ShortStorage": "i2",
    "CharStorage": "i1",
    "ByteStorage": "u1",
    "BoolStorage": "?",
    "uint16": "u2",
    "uint32": "u4",
    "uint64": "u8",
}
"""NumPy's element types by PyTorch's storage types, or by its dtypes for storages without a type."""
MAX_DEPTH, MAX_OBJECTS = 20, 1_000_000
"""Limits on nested objects, which may occur many times and contain themselves."""


class ByteSpan(NamedTuple):
    offset: int
    n_bytes: int
    checksum: int | None
    member: str | None
    """Its name in the archive if it is compressed, else None."""


def open_tensors(path: str) -> Source:
    """Open a ``.pt`` or ``.pth`` file: a tensor, or dictionaries, lists and tuples of tensors and plain values."""
    with reading(path):
        try:
            content, spans, order = _read_archive(path) if zipfile.is_zipfile(path) else _read_old(path)
        except UnsupportedOpcode as error:
            raise InvalidData(
                f"{path} holds more than tensors ({error}), which only unpickling could read, and dubito never "
                "unpickles",
                hint="save only tensors, for example with torch.save({'features': tensor}, path), or use safetensors.",
            ) from None
        entries = dict(_entries(path, content, spans, order))
    if not entries:
        raise InvalidData(f"{path} holds no tensors.")
    return Source(path, entries)


def _read_archive(path: str) -> tuple[object, dict[str, ByteSpan], str]:
    """The content of the pickle in an archive, the spans of its storages, and their byte order."""
    with zipfile.ZipFile(path) as archive, open(path, "rb") as file:
        members = {member.filename: member for member in archive.infolist()}
        pickles = [name for name in members if name.endswith("data.pkl")]
        if len(pickles) != 1 or len(members) < len(archive.infolist()):
            raise ValueError("it was not written by torch.save")
        folder = pickles[0].removesuffix("data.pkl")
        if f"{folder}constants.pkl" in members:
            raise UnsupportedOpcode("a TorchScript program")
        if members[pickles[0]].file_size > CHUNK:  # Small ones are not counted.
            reserve_memory(path, pickles[0], MEMORY_PER_BYTE * members[pickles[0]].file_size)
        content = read_pickle(io.BytesIO(archive.read(pickles[0])))
        order = archive.read(f"{folder}byteorder") if f"{folder}byteorder" in members else b"little"
        spans = {
            name.removeprefix(f"{folder}data/"): _span(file, member)
            for name, member in members.items()
            if name.startswith(f"{folder}data/")
        }
    return content, spans, {b"little": "<", b"big": ">"}[order]


def _span(file: IO[bytes], member: zipfile.ZipInfo) -> ByteSpan:
    if member.compress_type != zipfile.ZIP_STORED:
        return ByteSpan(0, member.file_size, member.CRC, member.filename)
    file.seek(member.header_offset)
    header = file.read(30)
    if header[:4] != b"PK\x03\x04" or len(header) < 30:
        raise ValueError(f"{member.filename} is not at the position listed in the archive")
    n_name, n_extra = struct.unpack("<HH", header[26:30])
    offset = member.header_offset + 30 + n_name + n_extra
    if offset + member.file_size > os.fstat(file.fileno()).st_size:
        raise ValueError(f"{member.filename} is truncated")
    return ByteSpan(offset, member.file_size, member.CRC, None)


def _read_old(path: str) -> tuple[object, dict[str, ByteSpan], str]:
    """The same for a file from before PyTorch 1.6, in which the size of each storage precedes its numbers."""
    size = os.path.getsize(path)
    with open(path, "rb") as file:
        names = ("magic.pkl", "protocol.pkl", "system.pkl", "content.pkl", "keys.pkl")
        pickles = (read_pickle(file, partial(reserve_memory, path, name)) for name in names)
        if next(pickles) != OLD_MAGIC:
            raise ValueError("it was not written by torch.save")
        _, system, content, keys = pickles
        if not isinstance(system, Mapping) or not isinstance(keys, list):
            raise ValueError("it was not written by torch.save")
        kinds = {
            tensor.storage.key: tensor.storage.kind for _, tensor in _walk(content) if isinstance(tensor, StoredTensor)
        }
        spans = {}
        for key in keys:
            (length,) = struct.unpack("<q", file.read(8))
            # A storage that no tensor uses is a KeyError here: its size in bytes is unknown.
            kind = kinds[key]
            code = TYPES.get(kind.name, "")
            if not code:
                raise UnsupportedOpcode(".".join(kind))
            n_bytes = length * (2 if code == "bfloat16" else np.dtype(code).itemsize)
            if not 0 <= n_bytes <= size - file.tell():
                raise ValueError("it is cut short")
            spans[key] = ByteSpan(file.tell(), n_bytes, None, None)
            file.seek(n_bytes, os.SEEK_CUR)
        if file.tell() != size:
            raise ValueError("it has extra bytes at its end")
    return content, spans, "<" if system.get("little_endian", True) else ">"


def _walk(content: object) -> Iterator[tuple[str, object]]:
    """Yield the tensors and the lists of plain values in nested containers, each with its dotted path."""
    stack: list[tuple[str, object, int]] = [("", content, 0)]
    for _ in range(MAX_OBJECTS):
        if not stack:
            return
        name, value, depth = stack.pop()
        if isinstance(value, StoredTensor) or (isinstance(value, list) and value and _are_plain(value)):
            yield name, value
        elif isinstance(value, Mapping | list | tuple) and not isinstance(value, Global) and depth < MAX_DEPTH:
            items = value.items() if isinstance(value, Mapping) else enumerate(value)
            stack += [(f"{name}.{key}" if name else str(key), each, depth + 1) for key, each in items][::-1]
    raise ValueError("it has too many nested objects")


def _are_plain(values: list[Any]) -> bool:
    return all(type(value) is str for value in values) or all(type(value) in (int, float) for value in values)


def _entries(path: str, content: object, spans: Mapping[str, ByteSpan], order: str) -> Iterator[tuple[str, Entry]]:
    for name, value in _walk(content):
        if isinstance(value, StoredTensor):
            yield name, _entry(path, name, value, spans, order)
        elif isinstance(value, list):
            array = as_text(value, path, name) if type(value[0]) is str else np.array(value)
            if array.dtype != np.object_:  # Integers beyond 64 bits are left out.
                yield (
                    name,
                    Entry(1, content_of(array.dtype), f"{array.shape} {array.dtype}", partial(np.asarray, array)),
                )


def _entry(path: str, name: str, tensor: StoredTensor, spans: Mapping[str, ByteSpan], order: str) -> Entry:
    """The entry of a tensor. Raises ValueError if it is larger than its storage."""
    kind, ndim = tensor.dtype or tensor.storage.kind, len(tensor.shape)
    code = TYPES.get(kind.name)
    if code is None:
        kind_name = kind.name.removesuffix("Storage").lower()
        return Entry(ndim, "other", f"{tensor.shape} {kind_name}", partial(_refuse, path, name, kind_name))
    dtype = np.dtype("u2" if code == "bfloat16" else code).newbyteorder(">" if order == ">" else "<")
    span, last = spans[tensor.storage.key], tensor.storage.start + tensor.offset
    if 0 not in tensor.shape:
        last += sum((size - 1) * stride for size, stride in zip(tensor.shape, tensor.strides, strict=True)) + 1
    if last * dtype.itemsize > span.n_bytes:
        raise ValueError(f"the tensor {name!r} is larger than its storage")
    read = partial(_read, path, name, tensor, span, dtype, code == "bfloat16")
    return Entry(ndim, "numbers", f"{tensor.shape} {'bfloat16' if code == 'bfloat16' else dtype}", read)


def _refuse(path: str, name: str, kind_name: str) -> AnyArray:
    raise InvalidData(f"the tensor {name!r} of {path} is of type {kind_name}", hint="save it as float32 or float16.")


def _read(path: str, name: str, tensor: StoredTensor, span: ByteSpan, dtype: np.dtype[Any], widen: bool) -> AnyArray:
    n_bytes = math.prod(tensor.shape) * dtype.itemsize
    with reading(path):
        if not n_bytes:
            return np.empty(tensor.shape, np.float32 if widen else dtype)
        if widen or n_bytes > span.n_bytes:  # Converted, or expanded by strides of 0.
            reserve_memory(path, name, n_bytes * (2 if widen else 1))
        numbers = _storage(path, tensor.storage, span, dtype)[tensor.storage.start + tensor.offset :]
        strides = tuple(stride * dtype.itemsize for stride in tensor.strides)
        array: AnyArray = np.lib.stride_tricks.as_strided(numbers, tensor.shape, strides, subok=True, writeable=False)
        return (array.astype(np.uint32) << 16).view(np.float32) if widen else array


def _storage(path: str, storage: Storage, span: ByteSpan, dtype: np.dtype[Any]) -> AnyArray:
    """The numbers of a storage, after its checksum has been verified."""
    if span.member is not None:
        reserve_memory(path, storage.key, span.n_bytes)
        with zipfile.ZipFile(path) as archive:
            return np.frombuffer(archive.read(span.member), dtype)
    numbers: AnyArray = np.memmap(path, np.uint8, "r", span.offset, (span.n_bytes,))
    if span.checksum is not None and _checksum(numbers) != span.checksum:
        raise ValueError(f"the checksum of {storage.key} is wrong")
    if span.offset % dtype.itemsize:
        reserve_memory(path, storage.key, span.n_bytes)
        numbers = np.array(numbers)
    return numbers[: span.n_bytes // dtype.itemsize * dtype.itemsize].view(dtype)


def _checksum(numbers: AnyArray) -> int:
    found = 0
    for start in range(0, len(numbers), CHUNK):
        found = zlib.crc32(numbers[start : start + CHUNK].data, found)
    return found
