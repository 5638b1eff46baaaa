"""What a disk does to a program: locks, names that must last, short writes and no room left."""

import errno
import fcntl
import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from dubito.errors import DubitoError


class DiskFull(DubitoError, OSError):
    """No room left to write; what is written stays whole."""


@contextmanager
def locked(path: Path) -> Iterator[int]:
    """The file opened for adding, made where it is missing, while no one else holds its lock."""
    is_new = not path.exists()
    file = os.open(path, os.O_RDWR | os.O_CREAT | os.O_APPEND, 0o666)
    try:
        fcntl.flock(file, fcntl.LOCK_EX)
        if is_new:
            sync_folder(path.parent)
        yield file
    finally:
        os.close(file)


def sync_folder(folder: Path) -> None:
    """Make the names in a folder last."""
    descriptor = os.open(folder, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


@contextmanager
def room_for(path: Path) -> Iterator[None]:
    """Turn a full disk into an error that says what to do."""
    try:
        yield
    except (OSError, DubitoError) as error:
        cause = error if isinstance(error, OSError) else error.__cause__
        if not isinstance(cause, OSError) or cause.errno not in (errno.ENOSPC, errno.EDQUOT, errno.EFBIG):
            raise
        raise DiskFull(
            f"{path} cannot be written: {str(cause.strerror).lower()}. What was done is kept: make room, and run the "
            "same command again."
        ) from error


def write_all(file: int, data: bytes) -> None:
    """One write is the rule; a signal or a disk that fills up may need more."""
    while data:
        data = data[os.write(file, data) :]
