"""Standard output and error that are written whole, or say that they could not be.

Python's own may do neither: with ``PYTHONUNBUFFERED`` a write that a full disk cuts short passes for whole, and a
stream that the shell closed is None, for which ``print`` takes the other one or nothing at all.
"""

import errno
import io
import os
import sys
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from typing import TYPE_CHECKING, TextIO

if TYPE_CHECKING:
    from _typeshed import ReadableBuffer


class Raw(io.FileIO):
    """A file descriptor whose errors say which stream they come from; the buffer above it sees to short writes."""

    def __init__(self, file: int, called: str, *, closefd: bool = False) -> None:
        super().__init__(file, "wb", closefd=closefd)
        self.called = called
        self.given_up = False
        """Set, everything is dropped: what is left in the buffer must not fail a second time."""

    def write(self, data: "ReadableBuffer", /) -> int:
        """Write some of the data."""
        if self.given_up:
            return memoryview(data).nbytes
        try:
            return super().write(data)
        except OSError as error:
            error.filename = self.called
            if error.errno == errno.EBADF:
                error.strerror = "it is closed"
            raise


@contextmanager
def whole_streams() -> Iterator[None]:
    """Standard output and error that fail aloud, while the block runs."""
    before = sys.stdout, sys.stderr
    ours = made_whole(sys.stdout, "stdout"), made_whole(sys.stderr, "stderr")
    sys.stdout, sys.stderr = ours
    try:
        yield
    finally:
        sys.stdout, sys.stderr = before
        for stream in set(ours) - set(before):
            with suppress(OSError):
                stream.close()


def made_whole(stream: TextIO | None, called: str) -> TextIO:
    """The same stream through a buffer of ours; one that is no file stays as it is."""
    if stream is None:
        return closed_stream(called)
    if not isinstance(stream, io.TextIOWrapper):
        return stream
    try:
        file = stream.fileno()
    except OSError:
        # A δ on a terminal that knows only ASCII is no reason to fail.
        stream.reconfigure(errors="replace")
        return stream
    stream.flush()
    by_line = stream.line_buffering or stream.write_through
    return io.TextIOWrapper(io.BufferedWriter(Raw(file, called)), stream.encoding, "replace", line_buffering=by_line)


def closed_stream(called: str) -> TextIO:
    """In place of a stream that the shell closed: notes go nowhere, as was wished, and data is refused."""
    mode = os.O_WRONLY if called == "stderr" else os.O_RDONLY
    raw = Raw(os.open(os.devnull, mode), called, closefd=True)
    return io.TextIOWrapper(io.BufferedWriter(raw), "utf-8", "replace", line_buffering=True)


def let_go() -> bool:
    """Write what the buffers hold; False, and it is dropped, where that fails."""
    written = [is_written(stream) for stream in (sys.stdout, sys.stderr)]
    return all(written)


def is_written(stream: TextIO) -> bool:
    """Whether a stream has written all it was given."""
    try:
        stream.flush()
    except OSError:
        raw = getattr(getattr(stream, "buffer", None), "raw", None)
        if isinstance(raw, Raw):
            raw.given_up = True
            stream.flush()
        return False
    return True
