"""A limit on the memory of unpacked inputs, checked before they are read.

Memory-mapped files do not count; archives, tables and images count with their unpacked size.
"""

import gzip
import io
import os
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass, field
from typing import IO, TYPE_CHECKING

from dubito.errors import MemoryLimit, by_interface
from dubito.request.arrays import check_memory_limit

if TYPE_CHECKING:
    from _typeshed import WriteableBuffer

SHARE = 0.5
"""The default limit as a fraction of the machine's memory."""
INPUT_LIMIT_VARIABLE = "DUBITO_INPUT_LIMIT"
"""Environment variable: the limit for this process and its children."""
PICTURE_FORMATS = ("BMP", "GIF", "JPEG", "PNG", "PPM", "TIFF", "WEBP")
"""Formats that Pillow may decode; for some others, such as EPS, it runs external programs."""
CONTAINER_LIMITS = ("/sys/fs/cgroup/memory.max", "/sys/fs/cgroup/memory/memory.limit_in_bytes")


@dataclass(slots=True)
class MemoryBudget:
    """The limit and the sizes of the arrays read so far, by file and name: an array that is read twice counts once."""

    limit: int
    reserved: dict[tuple[str, str], int] = field(default_factory=dict)

    def reserve(self, path: str, name: str, n_bytes: int) -> None:
        """Add an array; raises MemoryLimit if the total exceeds the limit."""
        before = sum(size for key, size in self.reserved.items() if key != (path, name))
        if before + n_bytes > self.limit:
            array = f"{name!r} of {path}" if name else path
            others = f" in addition to the {describe_size(before)} read before" if before else ""
            raise MemoryLimit(
                f"{array} takes {describe_size(n_bytes)} of memory once it is unpacked{others}, and inputs may take "
                f"{describe_size(self.limit)}",
                hint=f"if this is intended, {_limit_hint(before + n_bytes)}, else use a memory-mapped file, such as "
                ".npy.",
            )
        self.reserved[path, name] = n_bytes

    def check_unpacking(self, path: str, n_bytes: int) -> None:
        """Raise MemoryLimit if a compressed stream unpacks to more than the limit, even if not all of it is kept."""
        if n_bytes > self.limit:
            problem = f"{path} unpacks to more than the {describe_size(self.limit)} that inputs may take"
            raise MemoryLimit(problem, hint=f"if this is intended, {_limit_hint(4 * self.limit)}.")


_budget: ContextVar[MemoryBudget | None] = ContextVar("memory_budget", default=None)


@contextmanager
def input_limit(limit: int | None = None) -> Iterator[MemoryBudget]:
    """Limit the total memory of the inputs read in the block; None for half of the machine's memory.

    Without such a block, the default limit applies to each array separately.

    Examples
    --------
    >>> import os, tempfile, numpy as np
    >>> from dubito.io import input_limit, read_pool
    >>> with tempfile.TemporaryDirectory() as folder, input_limit(10**6):
    ...     path = os.path.join(folder, "pool.npz")
    ...     np.savez_compressed(path, features=np.zeros((1000, 1000)))
    ...     read_pool(path)  # doctest: +ELLIPSIS
    Traceback (most recent call last):
    dubito.errors.MemoryLimit: 'features' of ... takes 8 MB of memory once it is unpacked, and inputs may take 1 MB...
    """
    budget = MemoryBudget(default_limit() if limit is None else limit)
    token = _budget.set(budget)
    try:
        yield budget
    finally:
        _budget.reset(token)


def reserve_memory(path: str, name: str, n_bytes: int) -> None:
    """Count an array of a file towards the limit before it is read; raises MemoryLimit if the total exceeds it."""
    memory_budget().reserve(path, name, n_bytes)


def memory_budget() -> MemoryBudget:
    """The budget of the enclosing `input_limit` block, or a new one with the default limit."""
    return _budget.get() or MemoryBudget(default_limit())


def default_limit() -> int:
    """The limit from the environment, or half of the memory of the machine or container."""
    limit = check_memory_limit(os.environ.get(INPUT_LIMIT_VARIABLE), INPUT_LIMIT_VARIABLE)
    return int(machine_memory() * SHARE) if limit is None else limit


def machine_memory() -> int:
    if sys.platform == "win32":
        import ctypes

        # MEMORYSTATUSEX: its own size, the load, then seven numbers of bytes, of which the first is all memory.
        status = (ctypes.c_uint64 * 8)(ctypes.sizeof(ctypes.c_uint64) * 8)
        ctypes.windll.kernel32.GlobalMemoryStatusEx(ctypes.byref(status))
        return int(status[1])
    sizes = [os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE")]
    for path in CONTAINER_LIMITS:
        try:
            with open(path) as file:
                sizes.append(int(file.read()))
        except (OSError, ValueError):  # No container, another cgroup version, or "max".
            continue
    return min(sizes)


def describe_size(n_bytes: int) -> str:
    """A size in bytes for messages.

    Examples
    --------
    >>> describe_size(1_200_000_000), describe_size(50_000), describe_size(7)
    ('1.2 GB', '50 kB', '7 bytes')
    """
    for size, unit in ((10**12, "TB"), (10**9, "GB"), (10**6, "MB"), (10**3, "kB")):
        if n_bytes >= size:
            return f"{n_bytes / size:.3g} {unit}"
    return f"{n_bytes} bytes"


def _limit_hint(n_bytes: int) -> str:
    """How to raise the limit to slightly more than this many bytes."""
    step = 10 ** max(6, len(str(n_bytes)) - 2)
    wanted = -(-n_bytes // step) * step
    return by_interface(
        f"read it within dubito.io.input_limit({wanted})", command=f"pass --input-limit {wanted // 10**6}MB"
    )


GZIP_SUFFIX = ".gz"


class LimitedGzip(io.RawIOBase):
    """Unpacks a gzip file; raises MemoryLimit once the unpacked size exceeds the limit."""

    def __init__(self, path: str) -> None:
        self.path = path
        self.file = gzip.GzipFile(path)
        self.n_bytes = 0
        self.budget = memory_budget()

    def readable(self) -> bool:
        return True

    def readinto(self, buffer: "WriteableBuffer", /) -> int:
        view = memoryview(buffer)
        part = self.file.read(len(view))
        self.n_bytes += len(part)
        self.budget.check_unpacking(self.path, self.n_bytes)
        view[: len(part)] = part
        return len(part)

    def close(self) -> None:
        self.file.close()
        super().close()


def open_bytes(path: str) -> IO[bytes]:
    """Open a file for reading, unpacked if its name ends in ``.gz``."""
    if not path.lower().endswith(GZIP_SUFFIX):
        return open(path, "rb")
    return io.BufferedReader(LimitedGzip(path), 1 << 20)
