"""The few steps of a pickle that put tensors together, taken by a machine that can do nothing else.

A pickle is a program. The standard reader imports whatever it names and calls it; this one imports nothing and calls
nothing. It knows how lists, tuples, dictionaries, numbers and text are made, and by name the three or four functions
that PyTorch writes for a tensor, which become records here. A pickle that does anything else is refused at that step.
"""

import pickletools
from collections.abc import Callable
from dataclasses import dataclass
from typing import IO, Any, NamedTuple


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
    """A view of a storage."""

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


def _parameter(tensor: object, *more: object) -> object:
    return tensor


def _dictionary(pairs: object = ()) -> dict[Any, Any]:
    return dict(pairs) if isinstance(pairs, list | tuple) else {}


def _size(numbers: object = ()) -> object:
    return numbers


KNOWN: dict[Global, Callable[..., object]] = {
    Global("torch._utils", "_rebuild_tensor"): _tensor,
    Global("torch._utils", "_rebuild_tensor_v2"): _tensor,
    Global("torch._utils", "_rebuild_tensor_v3"): _tensor,
    Global("torch._utils", "_rebuild_parameter"): _parameter,
    Global("collections", "OrderedDict"): _dictionary,
    Global("torch", "Size"): _size,
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
        """One step."""
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
        """Lists, tuples and dictionaries."""
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
        """Things named, calls of them, and storages."""
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
            self.stack.append(_storage(self.stack.pop()))
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


def _storage(record: object) -> Storage:
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
