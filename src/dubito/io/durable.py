"""A file written whole or not at all: under a temporary name beside it, synced to disk, then put in its place.

A process that is killed in the write leaves the temporary file. It is locked while somebody writes it, so that the next
who writes the same file can tell those that nobody will ever finish, and removes them.
"""

import errno
import fcntl
import hashlib
import io
import os
import re
import secrets
import shutil
import stat
import time
import zipfile
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any, BinaryIO, cast

import numpy as np

from dubito.errors import FORCE, DubitoError, InvalidArgument, InvalidData, MissingFile, OutputExists
from dubito.io.source import reading
from dubito.matrix import AnyArray

# What a disk does to a program: locks, names that must last, short writes, no room left and closed doors.

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
def file_lock(path: str, *, waiting: Callable[[], None] | None = None, needed: bool = True) -> Iterator[None]:
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
    ...     with file_lock(os.path.join(folder, "picks.csv")):
    ...         os.listdir(folder)
    ...     os.listdir(folder)
    ['.picks.csv.lock']
    []
    """
    folder, name = os.path.split(os.path.realpath(path))
    lock = Path(folder, f".{name[:LONGEST_NAME]}.lock")
    with explain_write_errors(path):
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
            with explain_lock_errors(called, needed=needed):
                if not try_lock(file):
                    if waiting is not None:
                        waiting()
                        waiting = None
                    fcntl.flock(file, fcntl.LOCK_EX)
            if is_same_file(file, lock):
                return file
        except BaseException:
            os.close(file)
            raise
        os.close(file)


def try_lock(file: int) -> bool:
    """Whether nobody else has locked the file; it is ours then."""
    try:
        fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    return True


def is_same_file(file: int, path: Path) -> bool:
    """False where the file was removed between our opening and locking it, by one who had done with it."""
    try:
        return os.path.samestat(os.fstat(file), os.stat(path))
    except FileNotFoundError:
        return False


@contextmanager
def explain_lock_errors(path: str, *, needed: bool = True) -> Iterator[None]:
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
def explain_write_errors(path: str) -> Iterator[None]:
    """Turn what the system says on writing a file into an error that names it."""
    try:
        yield
    except DubitoError:
        raise
    except FileNotFoundError as error:
        raise MissingFile(f"{path} cannot be written: its folder does not exist", hint="make it first.") from error
    except (PermissionError, IsADirectoryError, NotADirectoryError) as error:
        raise InvalidArgument(f"{path} cannot be written: {reason(error)}", hint="choose another path.") from error
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
def explain_disk_full(path: Path) -> Iterator[None]:
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


SECONDS_KEPT = 60.0
"""A temporary file is left alone for so long, whoever holds it: not every file system tells of another host's locks."""
NO_LINKS = errno.EPERM, errno.ENOTSUP, errno.EOPNOTSUPP, errno.ENOSYS
"""What a file system says that has no hard links."""


def write_atomically(path: str, data: bytes, *, new: bool = False, private: bool = False) -> None:
    """Write a file whole or not at all.

    A link stays a link and its target is replaced; the mode of a file that exists is kept. A device or pipe is
    written to directly, as nothing can be renamed onto it.

    Parameters
    ----------
    path : str
        Where to.
    data : bytes
        All of it.
    new : bool
        Refuse a file that exists, also one that another process makes at this moment.
    private : bool
        Let nobody but its owner read it, whatever mode it had.

    Examples
    --------
    >>> import os, tempfile
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     write_atomically(os.path.join(folder, "note"), b"whole")
    ...     os.listdir(folder)
    ['note']
    """
    target = os.path.realpath(path)
    with explain_write_errors(path):
        if is_device(target):
            with open(path, "wb") as file:
                file.write(data)
        else:
            _write_beside(path, target, data, new, private)


def is_device(path: str) -> bool:
    """Whether the path is a device, pipe or socket, which cannot be replaced."""
    try:
        mode = os.stat(path).st_mode
    except OSError:
        return False
    return not stat.S_ISREG(mode) and not stat.S_ISDIR(mode)


def _write_beside(path: str, target: str, data: bytes, new: bool, private: bool) -> None:
    folder, name = os.path.split(target)
    remove_stale_temporaries(folder, name)
    temporary = os.path.join(folder, f".{name[:LONGEST_NAME]}.{secrets.token_hex(4)}.tmp")
    try:
        # open() rather than tempfile: the user's umask decides who may read the result.
        with open(temporary, "xb", opener=_open_private if private else None) as file:
            with suppress(OSError):
                try_lock(file.fileno())  # Ours until it is closed: whoever sweeps leaves it alone.
            file.write(data)
            file.flush()
            os.fsync(file.fileno())
            if new:
                _put_new(path, temporary, target)
            else:
                _put(temporary, target, private)
        sync_folder(folder)
    finally:
        with suppress(FileNotFoundError):
            os.unlink(temporary)


def _open_private(path: str, flags: int) -> int:
    return os.open(path, flags, 0o600)


def _put(temporary: str, target: str, private: bool) -> None:
    if os.path.isfile(target) and not private:
        shutil.copymode(target, temporary)
    os.replace(temporary, target)


def _put_new(path: str, temporary: str, target: str) -> None:
    """A name is linked only where there is none; without links, an empty file is made there first."""
    try:
        try:
            os.link(temporary, target)
        except OSError as error:
            if error.errno not in NO_LINKS:
                raise
            os.close(os.open(target, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o666))
            os.replace(temporary, target)
    except FileExistsError:
        if os.path.isdir(target):
            raise IsADirectoryError(errno.EISDIR, os.strerror(errno.EISDIR)) from None
        raise OutputExists(f"{path} exists", hint=f"pass {FORCE} to replace it, or another path.") from None


def remove_stale_temporaries(folder: str, name: str) -> None:
    """Remove the temporary files of a name that nobody will finish: they are a minute old, and nobody holds them."""
    ours = re.compile(re.escape(f".{name[:LONGEST_NAME]}.") + r"[0-9a-f]{8}\.tmp")
    with suppress(OSError), os.scandir(folder or ".") as entries:
        for entry in entries:
            if ours.fullmatch(entry.name) and entry.is_file(follow_symlinks=False):
                _remove_abandoned(entry.path)


def _remove_abandoned(path: str) -> None:
    with suppress(OSError):  # Another may sweep as well; and what cannot be removed is no reason to fail.
        if time.time() - os.stat(path).st_mtime < SECONDS_KEPT:
            return
        file = os.open(path, os.O_RDWR)
        try:
            if try_lock(file):
                os.unlink(path)
        finally:
            os.close(file)


# Arrays that dubito keeps for itself, in an ``.npz`` with a checksum over all of them.
#
# A zip archive guards the bytes of each array, but not their names, nor that none is missing or of another save.

CHECKSUM = "checksum"
"""The array that holds it, as hexadecimal digits."""


def save_sealed(path: str, arrays: Mapping[str, AnyArray], *, private: bool = False) -> None:
    """Write arrays, whole or not at all; ``private`` lets nobody but the file's owner read them.

    Examples
    --------
    >>> import os, tempfile
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     save_sealed(os.path.join(folder, "kept.npz"), {"rows": np.arange(3)})
    ...     load_sealed(os.path.join(folder, "kept.npz"))
    {'rows': array([0, 1, 2])}
    """
    buffer, sealed = io.BytesIO(), cast("dict[str, Any]", {**arrays, CHECKSUM: np.array(checksum_of(arrays))})
    np.savez(buffer, **sealed)
    write_atomically(path, buffer.getvalue(), private=private)


def load_sealed(
    path: str, *, check_size: Callable[[int], None] = lambda n_bytes: None, needed: bool = False
) -> dict[str, AnyArray]:
    """The arrays that were saved; a file that is damaged is refused by its name.

    Parameters
    ----------
    path : str
        The file.
    check_size : callable
        Called with the bytes that it unpacks to, before anything is read; it may refuse them.
    needed : bool
        Refuse a file without a checksum, as the first versions wrote.
    """
    with reading(path), open(path, "rb") as stream:
        with zipfile.ZipFile(stream) as archive:
            check_size(sum(member.file_size for member in archive.infolist()))
        stream.seek(0)
        with np.load(stream, allow_pickle=False) as archive:
            arrays: dict[str, AnyArray] = dict(archive)
    checksum = arrays.pop(CHECKSUM, None)
    if needed if checksum is None else str(checksum) != checksum_of(arrays):
        raise InvalidData(f"{path} is damaged: what it holds does not fit its checksum.")
    return arrays


def checksum_of(arrays: Mapping[str, AnyArray]) -> str:
    """Hexadecimal digits that change with any name, type, shape or value."""
    digest = hashlib.blake2b(digest_size=16)
    for name in sorted(arrays):
        array = np.ascontiguousarray(arrays[name])
        digest.update(repr((name, array.dtype.str, arrays[name].shape)).encode())
        digest.update(array.data if array.dtype.kind in "biuf" else array.tobytes())
    return digest.hexdigest()
