"""What a disk does to a program: locks, names that must last, short writes, no room left and closed doors."""

import errno
import fcntl
import os
import stat
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import BinaryIO

from dubito.errors import DubitoError, InvalidArgument, MissingFile

NO_LOCKS = errno.ENOLCK, errno.ENOSYS, errno.ENOTSUP, errno.EOPNOTSUPP
"""What ``flock`` says on a file system that has no locks."""
LONGEST_NAME = 40
"""Letters of a file's name in those of its neighbours: with ours around it, a long one might be too long."""


FILE_KINDS = {
    stat.S_IFIFO: "a named pipe",
    stat.S_IFSOCK: "a socket",
    stat.S_IFCHR: "a device",
    stat.S_IFBLK: "a device",
    stat.S_IFDIR: "a folder",
}


class DiskFull(DubitoError, OSError):
    """No room left to write; what is written stays whole."""


class NotRegularFile(OSError):
    """A pipe, socket, device or folder in the place of a file; says so as the end of a sentence about the path."""


def open_regular(path: str | os.PathLike[str], flags: int = 0) -> BinaryIO:
    """Open a regular file for reading, without ever waiting for a pipe or touching a device.

    Parameters
    ----------
    path : str or path
        Links are followed unless ``flags`` says otherwise.
    flags : int
        Further flags of `os.open`.

    Raises
    ------
    NotRegularFile
        With a message such as ``is a named pipe, not a regular file``.
    """
    check_regular(os.stat(path))
    flags |= os.O_RDONLY | getattr(os, "O_NONBLOCK", 0) | getattr(os, "O_CLOEXEC", 0) | getattr(os, "O_BINARY", 0)
    file = os.fdopen(os.open(path, flags), "rb")
    try:
        check_regular(os.fstat(file.fileno()))  # Again: it may have been replaced in between.
    except BaseException:
        file.close()
        raise
    return file


def check_regular(found: os.stat_result) -> None:
    """Raise `NotRegularFile` for what is no regular file."""
    if not stat.S_ISREG(found.st_mode):
        kind = FILE_KINDS.get(stat.S_IFMT(found.st_mode), "something else")
        raise NotRegularFile(f"is {kind}, not a regular file")


@contextmanager
def locked(path: Path) -> Iterator[int]:
    """The file opened for adding, made where it is missing, while no one else holds its lock."""
    is_new = not path.exists()
    file = _locked_in_place(path, str(path), os.O_APPEND)
    try:
        if is_new:
            sync_folder(path.parent)
        yield file
    finally:
        os.close(file)


@contextmanager
def held(path: str, *, waiting: Callable[[], None] | None = None, needed: bool = True) -> Iterator[None]:
    """Let no other dubito replace a file while the block runs.

    A file that is replaced by renaming cannot be locked itself: the lock is on ``.NAME.lock`` beside it, which goes
    with the block.

    Parameters
    ----------
    path : str
        The file, which need not exist.
    waiting : callable, optional
        Called once before waiting for another.
    needed : bool
        Refuse a file system without locks; otherwise go on there without.

    Examples
    --------
    >>> import tempfile
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     with held(os.path.join(folder, "picks.csv")):
    ...         os.listdir(folder)
    ...     os.listdir(folder)
    ['.picks.csv.lock']
    []
    """
    folder, name = os.path.split(os.path.realpath(path))
    lock = Path(folder, f".{name[:LONGEST_NAME]}.lock")
    with naming_output(path):
        file = _locked_in_place(lock, path, waiting=waiting, needed=needed)
    try:
        yield
    finally:
        with suppress(OSError):
            lock.unlink()
        os.close(file)


def _locked_in_place(
    lock: Path, called: str, flags: int = 0, *, waiting: Callable[[], None] | None = None, needed: bool = True
) -> int:
    """The file, locked. Whoever held it before may have removed or replaced it, and then there is another to lock."""
    while True:
        file = os.open(lock, os.O_RDWR | os.O_CREAT | flags, 0o666)
        try:
            with naming_locks(called, needed=needed):
                if not is_free(file):
                    if waiting is not None:
                        waiting()
                        waiting = None
                    fcntl.flock(file, fcntl.LOCK_EX)
            if is_in_place(file, lock):
                return file
        except BaseException:
            os.close(file)
            raise
        os.close(file)


def is_free(file: int) -> bool:
    """Whether nobody else has locked the file; it is ours then."""
    try:
        fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    return True


def is_in_place(file: int, path: Path) -> bool:
    """False where the file was removed between our opening and locking it, by one who had done with it."""
    try:
        return os.path.samestat(os.fstat(file), os.stat(path))
    except FileNotFoundError:
        return False


@contextmanager
def naming_locks(path: str, *, needed: bool = True) -> Iterator[None]:
    """Say it where a file system has no locks; or pass over it, where none is needed."""
    try:
        yield
    except OSError as error:
        if error.errno not in NO_LOCKS:
            raise
        if needed:
            raise DubitoError(
                f"{path} cannot be locked, so that two at once might harm it: {reason(error)}. Choose a folder on a "
                "local disk, or have the file system mounted with locks."
            ) from error


@contextmanager
def naming_output(path: str) -> Iterator[None]:
    """Turn what the system says on writing a file into an error that names it."""
    try:
        yield
    except DubitoError:
        raise
    except FileNotFoundError as error:
        raise MissingFile(f"{path} cannot be written: its folder does not exist", mend="make it first.") from error
    except (PermissionError, IsADirectoryError, NotADirectoryError) as error:
        raise InvalidArgument(f"{path} cannot be written: {reason(error)}", mend="choose another path.") from error
    except OSError as error:
        kind = InvalidArgument if error.errno == errno.EROFS else DubitoError
        raise kind(f"{path} cannot be written: {reason(error)}.") from error


def reason(error: OSError) -> str:
    """What the system says, in the middle of a sentence."""
    return (error.strerror or str(error)).lower()


def sync_folder(folder: str | Path) -> None:
    """Have the names in a folder on the disk: without this a power cut may bring a replaced file back."""
    with suppress(OSError):  # Some file systems cannot.
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
            f"{path} cannot be written: {reason(cause)}. What was done is kept: make room, and run the same command "
            "again."
        ) from error


def write_all(file: int, data: bytes) -> None:
    """One write is the rule; a signal or a disk that fills up may need more."""
    while data:
        data = data[os.write(file, data) :]
