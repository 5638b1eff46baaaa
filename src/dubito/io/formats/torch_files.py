"""PyTorch's ``.pt`` and ``.pth``, of tensors alone: nothing is unpickled, and PyTorch need not be there.

Files since PyTorch 1.6 are zip archives whose tensors lie in them as they are: those are memory-mapped, after their
checksum was compared. Older files are pickles one behind another, and then the numbers.
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
from dubito.io.limits import hold
from dubito.io.source import Entry, Source, content_of, reading
from dubito.matrix import AnyArray

# An interpreter of the opcodes that torch.save writes for tensors; any other opcode is an error.
#
# Not torch.load(weights_only=True), because torch takes 574 MB on the disk, and because this maps the tensors into
# memory after comparing their checksums. Not pickle.Unpickler with its own find_class either: it executes BUILD on any
# object, and a few bytes (LONG_BINPUT with a large index) make it allocate gigabytes.


class Refused(Exception):
    """A step that has nothing to do with tensors; the message says which."""


class Global(NamedTuple):
    """Something a pickle names. It is never looked up."""

    module: str
    name: str


@dataclass(frozen=True, slots=True)
class Storage:
    """Where the numbers of one or more tensors lie."""

    kind: Global
    key: str
    size: int
    """In elements of its kind, in bytes where it has none."""
    start: int = 0
    """First element of a part of a storage, as old files have it."""


@dataclass(frozen=True, slots=True)
class StoredTensor:
    storage: Storage
    offset: int
    shape: tuple[int, ...]
    strides: tuple[int, ...]
    dtype: Global | None = None
    """Where the storage does not tell."""


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
    raise ValueError("a tensor is put together wrongly")


def _dictionary(pairs: object = ()) -> dict[Any, Any]:
    return dict(pairs) if isinstance(pairs, list | tuple) else {}


KNOWN: dict[Global, Callable[..., object]] = {
    Global("torch._utils", "_rebuild_tensor"): _tensor,
    Global("torch._utils", "_rebuild_tensor_v2"): _tensor,
    Global("torch._utils", "_rebuild_tensor_v3"): _tensor,
    Global("torch._utils", "_rebuild_parameter"): lambda tensor, *more: tensor,
    Global("collections", "OrderedDict"): _dictionary,
    Global("torch", "Size"): lambda numbers=(): numbers,
}
"""What a call of each becomes."""

PASSED_OVER = {"PROTO", "FRAME"}
CONSTANTS = {"NONE": None, "NEWTRUE": True, "NEWFALSE": False}
VALUES = {
    *("BININT", "BININT1", "BININT2", "LONG1", "LONG4", "BINFLOAT"),
    *("BINUNICODE", "SHORT_BINUNICODE", "BINUNICODE8", "BINSTRING", "SHORT_BINSTRING"),
}
"""Steps whose argument is the value itself."""
TUPLES = {"TUPLE1": 1, "TUPLE2": 2, "TUPLE3": 3}


def read_pickle(file: IO[bytes]) -> object:
    """What a pickle of tensors holds, with a `StoredTensor` in place of each; the file is left behind its end."""
    machine = Machine()
    for step, argument, _ in pickletools.genops(file):
        if step.name == "STOP":
            return machine.stack.pop()
        machine.take(step.name, argument)
    raise ValueError("the pickle has no end")


class Machine:
    """A stack, what was remembered, and where lists in the making begin."""

    def __init__(self) -> None:
        self.stack: list[Any] = []
        self.marks: list[int] = []
        self.memo: dict[int, Any] = {}

    def take(self, name: str, argument: Any) -> None:
        if name in VALUES:
            self.stack.append(argument)
        elif name in CONSTANTS:
            self.stack.append(CONSTANTS[name])
        elif name in ("BINPUT", "LONG_BINPUT"):
            self.memo[argument] = self.stack[-1]
        elif name == "MEMOIZE":
            self.memo[len(self.memo)] = self.stack[-1]
        elif name in ("BINGET", "LONG_BINGET"):
            self.stack.append(self.memo[argument])
        elif name == "MARK":
            self.marks.append(len(self.stack))
        elif not (self.build(name) or self.name(name, argument) or name in PASSED_OVER):
            raise Refused(f"the step {name}")

    def build(self, name: str) -> bool:
        if name in TUPLES:
            self.stack.append(tuple(self.popped(len(self.stack) - TUPLES[name])))
        elif name == "TUPLE":
            self.stack.append(tuple(self.popped(self.marks.pop())))
        elif name in ("EMPTY_TUPLE", "EMPTY_LIST", "EMPTY_DICT"):
            self.stack.append({"EMPTY_TUPLE": (), "EMPTY_LIST": [], "EMPTY_DICT": {}}[name])
        elif name in ("APPEND", "APPENDS"):
            values = self.popped(self.marks.pop() if name == "APPENDS" else len(self.stack) - 1)
            self.top(list).extend(values)
        elif name in ("SETITEM", "SETITEMS"):
            values = self.popped(self.marks.pop() if name == "SETITEMS" else len(self.stack) - 2)
            self.top(dict).update(zip(values[0::2], values[1::2], strict=True))
        elif name == "BUILD":
            self.stack.pop()  # What an ordered dictionary has beside its items: the versions of modules.
            self.top(dict)
        else:
            return False
        return True

    def name(self, name: str, argument: Any) -> bool:
        if name == "GLOBAL":
            self.stack.append(Global(*argument.split(" ", 1)))
        elif name == "STACK_GLOBAL":
            self.stack.append(Global(*map(str, self.popped(len(self.stack) - 2))))
        elif name == "REDUCE":
            called, arguments = self.popped(len(self.stack) - 2)
            if called not in KNOWN:
                raise Refused(".".join(called) if isinstance(called, Global) else "a call of something it made")
            self.stack.append(KNOWN[called](*arguments))
        elif name == "BINPERSID":
            self.stack.append(_storage_of(self.stack.pop()))
        else:
            return False
        return True

    def popped(self, start: int) -> list[Any]:
        """What lies on the stack from there on, taken off."""
        if start < 0:
            raise ValueError("the pickle takes more than it has")
        values = self.stack[start:]
        del self.stack[start:]
        return values

    def top(self, kind: type) -> Any:
        """What lies uppermost, of that kind."""
        if type(self.stack[-1]) is not kind:
            raise Refused("something built in another way than tensors are")
        return self.stack[-1]


def _storage_of(record: object) -> Storage:
    """``("storage", kind, key, device, size)``, in old files with a part of another storage behind it."""
    if not isinstance(record, tuple) or len(record) < 5 or record[0] != "storage":
        raise ValueError("a storage is named wrongly")
    _, kind, key, _, size, *part = record
    if not isinstance(kind, Global) or type(size) is not int or size < 0:
        raise ValueError("a storage is named wrongly")
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
"""NumPy's names for what PyTorch's storages, or where they have no kind its types, hold."""
CHUNK = 1 << 20
DEEPEST, MOST_THINGS = 20, 1_000_000
"""A file may name one thing in many places, and itself inside itself."""
BYTES_A_STEP = 50
"""Memory that a byte of a pickle may come to."""


class ByteSpan(NamedTuple):
    """Where the numbers of a storage lie in the file."""

    offset: int
    n_bytes: int
    checksum: int | None
    member: str | None
    """Its name in the archive where it was packed, and must be unpacked."""


def open_tensors(path: str) -> Source:
    """A ``.pt`` or ``.pth`` file: a tensor, or dictionaries, lists and tuples of them, and plain values beside."""
    with reading(path):
        try:
            content, spans, order = _read_archive(path) if zipfile.is_zipfile(path) else _read_old(path)
        except Refused as refused:
            raise InvalidData(
                f"{path} holds more than tensors ({refused}), which only unpickling could read, and dubito never "
                "unpickles",
                hint="save tensors alone, such as torch.save({'features': tensor}, path), or use safetensors.",
            ) from None
        entries = dict(_entries(path, content, spans, order))
    if not entries:
        raise InvalidData(f"{path} holds no tensors.")
    return Source(path, entries)


def _read_archive(path: str) -> tuple[object, dict[str, ByteSpan], str]:
    """What the pickle of an archive holds, the spans of its storages, and the order of their bytes."""
    with zipfile.ZipFile(path) as archive, open(path, "rb") as file:
        members = {member.filename: member for member in archive.infolist()}
        pickles = [name for name in members if name.endswith("data.pkl")]
        if len(pickles) != 1 or len(members) < len(archive.infolist()):
            raise ValueError("it is no archive of torch.save")
        folder = pickles[0].removesuffix("data.pkl")
        if f"{folder}constants.pkl" in members:
            raise Refused("a program of TorchScript")
        if members[pickles[0]].file_size > CHUNK:  # Small ones are no matter.
            hold(path, pickles[0], BYTES_A_STEP * members[pickles[0]].file_size)
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
        raise ValueError(f"{member.filename} is not where the archive says")
    n_name, n_extra = struct.unpack("<HH", header[26:30])
    offset = member.header_offset + 30 + n_name + n_extra
    if offset + member.file_size > os.fstat(file.fileno()).st_size:
        raise ValueError(f"{member.filename} is cut short")
    return ByteSpan(offset, member.file_size, member.CRC, None)


def _read_old(path: str) -> tuple[object, dict[str, ByteSpan], str]:
    """The same of a file from before PyTorch 1.6: the sizes of storages stand before their numbers."""
    size = os.path.getsize(path)
    with open(path, "rb") as file:
        if read_pickle(file) != OLD_MAGIC:
            raise ValueError("it was not written by torch.save")
        read_pickle(file)
        system, content, keys = read_pickle(file), read_pickle(file), read_pickle(file)
        if not isinstance(system, Mapping) or not isinstance(keys, list):
            raise ValueError("it was not written by torch.save")
        kinds = {
            tensor.storage.key: tensor.storage.kind for _, tensor in _walk(content) if isinstance(tensor, StoredTensor)
        }
        spans = {}
        for key in keys:
            (length,) = struct.unpack("<q", file.read(8))
            # A storage that no tensor names cannot be passed over: its kind is not known.
            n_bytes = length * _itemsize(kinds[key])
            if not 0 <= n_bytes <= size - file.tell():
                raise ValueError("it is cut short")
            spans[key] = ByteSpan(file.tell(), n_bytes, None, None)
            file.seek(n_bytes, os.SEEK_CUR)
        if file.tell() != size:
            raise ValueError("it goes on behind its end")
    return content, spans, "<" if system.get("little_endian", True) else ">"


def _itemsize(kind: Global) -> int:
    code = TYPES.get(kind.name, "")
    if not code:
        raise Refused(".".join(kind))
    return 2 if code == "bfloat16" else np.dtype(code).itemsize


def _walk(content: object) -> Iterator[tuple[str, object]]:
    """Whatever is held, by the names that lead to it with dots between: tensors, and lists of plain values."""
    left: list[tuple[str, object, int]] = [("", content, 0)]
    for _ in range(MOST_THINGS):
        if not left:
            return
        name, thing, depth = left.pop()
        if isinstance(thing, StoredTensor) or (isinstance(thing, list) and thing and _are_plain(thing)):
            yield name, thing
        elif isinstance(thing, Mapping | list | tuple) and not isinstance(thing, Global) and depth < DEEPEST:
            inside = thing.items() if isinstance(thing, Mapping) else enumerate(thing)
            left += [(f"{name}.{key}" if name else str(key), each, depth + 1) for key, each in inside][::-1]
    raise ValueError("it holds things inside things without end")


def _are_plain(values: list[Any]) -> bool:
    return all(type(value) is str for value in values) or all(type(value) in (int, float) for value in values)


def _entries(path: str, content: object, spans: Mapping[str, ByteSpan], order: str) -> Iterator[tuple[str, Entry]]:
    for name, value in _walk(content):
        if isinstance(value, StoredTensor):
            yield name, _entry(path, name, value, spans, order)
        elif isinstance(value, list):
            array = as_text(value, path, name) if type(value[0]) is str else np.array(value)
            if array.dtype != np.object_:  # Whole numbers of too many digits are no matter here.
                yield (
                    name,
                    Entry(1, content_of(array.dtype), f"{array.shape} {array.dtype}", partial(np.asarray, array)),
                )


def _entry(path: str, name: str, tensor: StoredTensor, spans: Mapping[str, ByteSpan], order: str) -> Entry:
    """A tensor that fits its storage, which must fit the file."""
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
        raise ValueError(f"the tensor {name!r} does not fit its numbers")
    read = partial(_read, path, name, tensor, span, dtype, code == "bfloat16")
    return Entry(ndim, "numbers", f"{tensor.shape} {'bfloat16' if code == 'bfloat16' else dtype}", read)


def _refuse(path: str, name: str, kind_name: str) -> AnyArray:
    raise InvalidData(f"the tensor {name!r} of {path} is of type {kind_name}", hint="save it as float32 or float16.")


def _read(path: str, name: str, tensor: StoredTensor, span: ByteSpan, dtype: np.dtype[Any], widen: bool) -> AnyArray:
    n_bytes = math.prod(tensor.shape) * dtype.itemsize
    with reading(path):
        if not n_bytes:
            return np.empty(tensor.shape, np.float32 if widen else dtype)
        if widen or n_bytes > span.n_bytes:  # Widened, or one number in many places: as large as it says.
            hold(path, name, n_bytes * (2 if widen else 1))
        numbers = _storage(path, tensor.storage, span, dtype)[tensor.storage.start + tensor.offset :]
        strides = tuple(stride * dtype.itemsize for stride in tensor.strides)
        array: AnyArray = np.lib.stride_tricks.as_strided(numbers, tensor.shape, strides, subok=True, writeable=False)
        return (array.astype(np.uint32) << 16).view(np.float32) if widen else array


def _storage(path: str, storage: Storage, span: ByteSpan, dtype: np.dtype[Any]) -> AnyArray:
    """The numbers of a storage, whose checksum is right."""
    if span.member is not None:
        hold(path, storage.key, span.n_bytes)
        with zipfile.ZipFile(path) as archive:
            return np.frombuffer(archive.read(span.member), dtype)
    numbers: AnyArray = np.memmap(path, np.uint8, "r", span.offset, (span.n_bytes,))
    if span.checksum is not None and _checksum(numbers) != span.checksum:
        raise ValueError(f"the checksum of {storage.key} is wrong")
    if span.offset % dtype.itemsize:
        hold(path, storage.key, span.n_bytes)
        numbers = np.array(numbers)
    return numbers[: span.n_bytes // dtype.itemsize * dtype.itemsize].view(dtype)


def _checksum(numbers: AnyArray) -> int:
    found = 0
    for start in range(0, len(numbers), CHUNK):
        found = zlib.crc32(numbers[start : start + CHUNK].data, found)
    return found
