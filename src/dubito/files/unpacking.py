"""Bytes of a file, unpacked as they are read where its name ends in ``.gz``, and counted: none unpacks forever."""

import gzip
import io
from typing import IO, TYPE_CHECKING

from dubito.files.limits import allowance

if TYPE_CHECKING:
    from _typeshed import WriteableBuffer

PACKED = ".gz"


class Counted(io.RawIOBase):
    """What a packed file gives, refused once it is more than inputs may take."""

    def __init__(self, path: str) -> None:
        self.path = path
        self.packed = gzip.GzipFile(path)
        self.n_bytes = 0
        self.allowance = allowance()

    def readable(self) -> bool:
        """It is read and never written."""
        return True

    def readinto(self, buffer: "WriteableBuffer", /) -> int:
        """The next bytes."""
        view = memoryview(buffer)
        part = self.packed.read(len(view))
        self.n_bytes += len(part)
        self.allowance.check_unpacking(self.path, self.n_bytes)
        view[: len(part)] = part
        return len(part)

    def close(self) -> None:
        """Let the file go."""
        self.packed.close()
        super().close()


def open_bytes(path: str) -> IO[bytes]:
    """The file to read bytes from, those that were packed rather than the packed ones."""
    if not path.lower().endswith(PACKED):
        return open(path, "rb")
    return io.BufferedReader(Counted(path), 1 << 20)
