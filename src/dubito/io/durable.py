"""Atomic writes and file locks.

Locks are ``flock`` on the files themselves, or on a separate file for those that are replaced; on Windows, which has no
``flock``, a byte after the end of the file is locked. filelock (0.6 MB) can lock only separate files.

A file is written under a temporary name in the same folder, synced to disk, and renamed. The temporary file is locked
during the write, so that the next writer of the same file can recognize and remove temporary files of killed processes.
"""

import errno
import hashlib
import io
import os
import re
import secrets
import shutil
import stat
import sys
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

if sys.platform == "win32":
    import msvcrt

    LOCKED_BYTE = 2**31 - 2
    """Windows does not let others read locked bytes, so this one is after the content."""

    def lock_without_waiting(file: int) -> None:
        position = os.lseek(file, 0, os.SEEK_CUR)
        os.lseek(file, LOCKED_BYTE, os.SEEK_SET)
        try:
            msvcrt.locking(file, msvcrt.LK_NBLCK, 1)
        except PermissionError as error:
            raise BlockingIOError(*error.args) from None
        finally:
            os.lseek(file, position, os.SEEK_SET)

    def lock_waiting(file: int) -> None:
        while True:
            with suppress(BlockingIOError):
                return lock_without_waiting(file)
            time.sleep(0.05)

else:
    import fcntl

    def lock_without_waiting(file: int) -> None:
        fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)

    def lock_waiting(file: int) -> None:
        fcntl.flock(file, fcntl.LOCK_EX)


NO_LOCKS = errno.ENOLCK, errno.ENOSYS, errno.ENOTSUP, errno.EOPNOTSUPP
"""Errors of ``flock`` on a file system without locks."""
LONGEST_NAME = 40
"""Characters of a file's name used in the names of its lock and temporary files, which might become too long."""


FILE_KINDS = {
    stat.S_IFIFO: "a named pipe",
    stat.S_IFSOCK: "a socket",
    stat.S_IFCHR: "a device",
    stat.S_IFBLK: "a device",
    stat.S_IFDIR: "a folder",
}


class DiskFull(DubitoError, OSError):
    """The disk is full; files written before are intact."""


class NotRegularFile(OSError):
    """A path is a pipe, socket, device or folder; the message is the predicate of a sentence about the path."""


def open_regular(path: str | os.PathLike[str], flags: int = 0) -> BinaryIO:
    """Open a regular file for reading, without ever blocking on a pipe or opening a device.

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
        check_regular(os.fstat(file.fileno()))  # The path may have been replaced since os.stat.
    except BaseException:
        file.close()
        raise
    return file


def check_regular(found: os.stat_result) -> None:
    if not stat.S_ISREG(found.st_mode):
        kind = FILE_KINDS.get(stat.S_IFMT(found.st_mode), "something else")
        raise NotRegularFile(f"is {kind}, not a regular file")


@contextmanager
def locked(path: Path) -> Iterator[int]:
    """Open a file for appending, create it if missing, and hold an exclusive lock on it."""
    is_new = not path.exists()
    file = _open_locked(path, str(path), os.O_APPEND)
    try:
        if is_new:
            sync_folder(path.parent)
        yield file
    finally:
        os.close(file)


@contextmanager
def file_lock(path: str, *, waiting: Callable[[], None] | None = None, needed: bool = True) -> Iterator[None]:
    """Keep other dubito processes from replacing a file while the block runs.

    A file that is replaced by renaming cannot be locked itself, so the lock is on ``.NAME.lock`` in the same folder,
    which is removed afterwards.

    Parameters
    ----------
    path : str
        The file, which need not exist.
    waiting : callable, optional
        Called once before waiting for another process.
    needed : bool
        Raise an error on a file system without locks; otherwise continue there without a lock.

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
        file = _open_locked(lock, path, waiting=waiting, needed=needed)
    try:
        yield
    finally:
        # Removed while it is locked, so that no other process locks it in between; Windows cannot remove open files.
        with suppress(OSError):
            lock.unlink()
        os.close(file)
        if sys.platform == "win32":
            with suppress(OSError):
                lock.unlink()


def _open_locked(
    lock: Path, shown_path: str, flags: int = 0, *, waiting: Callable[[], None] | None = None, needed: bool = True
) -> int:
    """Open and lock a file. If the previous holder of the lock removed or replaced the file, start over."""
    while True:
        file = os.open(lock, os.O_RDWR | os.O_CREAT | getattr(os, "O_BINARY", 0) | flags, 0o666)
        try:
            with explain_lock_errors(shown_path, needed=needed):
                if not try_lock(file):
                    if waiting is not None:
                        waiting()
                        waiting = None
                    lock_waiting(file)
            if is_same_file(file, lock):
                return file
        except BaseException:
            os.close(file)
            raise
        os.close(file)


def try_lock(file: int) -> bool:
    """Lock the file without waiting; False if another process holds the lock."""
    try:
        lock_without_waiting(file)
    except BlockingIOError:
        return False
    return True


def is_same_file(file: int, path: Path) -> bool:
    """Whether the path still refers to the open file, which may have been removed before it was locked."""
    try:
        return os.path.samestat(os.fstat(file), os.stat(path))
    except FileNotFoundError:
        return False


@contextmanager
def explain_lock_errors(path: str, *, needed: bool = True) -> Iterator[None]:
    """Raise a `DubitoError` if the file system has no locks, or ignore that if ``needed`` is False."""
    try:
        yield
    except OSError as error:
        if error.errno not in NO_LOCKS:
            raise
        if needed:
            raise DubitoError(
                f"{path} cannot be locked, so two processes could damage it: {reason(error)}. Choose a folder on a "
                "local disk, or mount the file system with locks."
            ) from error


@contextmanager
def explain_write_errors(path: str) -> Iterator[None]:
    """Convert OSErrors on writing a file to `DubitoError`s that name the file."""
    try:
        yield
    except DubitoError:
        raise
    except FileNotFoundError as error:
        raise MissingFile(f"{path} cannot be written: its folder does not exist", hint="create it first.") from error
    except (PermissionError, IsADirectoryError, NotADirectoryError) as error:
        raise InvalidArgument(f"{path} cannot be written: {reason(error)}", hint="choose another path.") from error
    except OSError as error:
        kind = InvalidArgument if error.errno == errno.EROFS else DubitoError
        raise kind(f"{path} cannot be written: {reason(error)}.") from error


def reason(error: OSError) -> str:
    """The system's error message in lower case, for the middle of a sentence."""
    return (error.strerror or str(error)).lower()


def sync_folder(folder: str | Path) -> None:
    """Flush a folder's entries to disk; without this a power failure may undo a rename."""
    with suppress(OSError):  # Not supported by some file systems.
        descriptor = os.open(folder, os.O_RDONLY)
        try:
            os.fsync(descriptor)
        finally:
            os.close(descriptor)


@contextmanager
def explain_disk_full(path: Path) -> Iterator[None]:
    try:
        yield
    except (OSError, DubitoError) as error:
        cause = error if isinstance(error, OSError) else error.__cause__
        if not isinstance(cause, OSError) or cause.errno not in (errno.ENOSPC, errno.EDQUOT, errno.EFBIG):
            raise
        raise DiskFull(
            f"{path} cannot be written: {reason(cause)}. Everything written before is kept: free some space, and run "
            "the same command again."
        ) from error


def read_at(file: int, n_bytes: int, start: int) -> bytes:
    """Up to ``n_bytes`` from ``start`` on, like ``os.pread``, which Windows lacks; the position is moved."""
    os.lseek(file, start, os.SEEK_SET)
    return os.read(file, n_bytes)


def write_all(file: int, data: bytes) -> None:
    """Write all bytes; a signal or a nearly full disk can make a single write incomplete."""
    while data:
        data = data[os.write(file, data) :]


SECONDS_KEPT = 60.0
"""Minimum age of the temporary files that are removed: some file systems do not show the locks of other hosts."""
NO_LINKS = errno.EPERM, errno.ENOTSUP, errno.EOPNOTSUPP, errno.ENOSYS
"""Errors of ``link`` on a file system without hard links."""


def write_atomically(path: str, data: bytes, *, new: bool = False, private: bool = False) -> None:
    """Write a file atomically.

    The target of a symbolic link is replaced, not the link; the mode of an existing file is kept. Devices and pipes are
    written to directly.

    Parameters
    ----------
    path : str
        The file to write.
    data : bytes
        Its whole content.
    new : bool
        Raise `OutputExists` if the file exists, even if another process creates it at the same time.
    private : bool
        Make the file readable by its owner only, whatever its mode was.

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
            _write_and_rename(path, target, data, new, private)


def is_device(path: str) -> bool:
    """Whether the path is a device, pipe or socket, which must not be replaced."""
    try:
        mode = os.stat(path).st_mode
    except OSError:
        return False
    return not stat.S_ISREG(mode) and not stat.S_ISDIR(mode)


def _write_and_rename(path: str, target: str, data: bytes, new: bool, private: bool) -> None:
    folder, name = os.path.split(target)
    remove_stale_temporaries(folder, name)
    temporary = os.path.join(folder, f".{name[:LONGEST_NAME]}.{secrets.token_hex(4)}.tmp")
    try:
        # open() rather than tempfile, so that the user's umask applies.
        opener = (lambda name, flags: os.open(name, flags, 0o600)) if private else None
        with open(temporary, "xb", opener=opener) as file:
            with suppress(OSError):
                try_lock(file.fileno())  # Locked until closed, so that other processes do not remove it as stale.
            file.write(data)
            file.flush()
            os.fsync(file.fileno())
            if sys.platform == "win32":
                file.close()  # Windows cannot rename open files.
            if new:
                _create(path, temporary, target)
            else:
                _replace(temporary, target, private)
        sync_folder(folder)
    finally:
        with suppress(FileNotFoundError):
            os.unlink(temporary)


def _replace(temporary: str, target: str, private: bool) -> None:
    if os.path.isfile(target) and not private:
        shutil.copymode(target, temporary)
    os.replace(temporary, target)


def _create(path: str, temporary: str, target: str) -> None:
    """Rename if the target does not exist: by a hard link, or else after creating the target exclusively."""
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
    """Remove temporary files of killed processes for this file name: over a minute old and not locked."""
    temporary = re.compile(re.escape(f".{name[:LONGEST_NAME]}.") + r"[0-9a-f]{8}\.tmp")
    with suppress(OSError), os.scandir(folder or ".") as entries:
        for entry in entries:
            if temporary.fullmatch(entry.name) and entry.is_file(follow_symlinks=False):
                _remove_abandoned(entry.path)


def _remove_abandoned(path: str) -> None:
    with suppress(OSError):  # Best effort: another process may remove it at the same time.
        if time.time() - os.stat(path).st_mtime < SECONDS_KEPT:
            return
        file = os.open(path, os.O_RDWR)
        try:
            is_abandoned = try_lock(file)
            if is_abandoned and sys.platform != "win32":
                os.unlink(path)
        finally:
            os.close(file)
        if is_abandoned and sys.platform == "win32":
            os.unlink(path)


# ``.npz`` files with a checksum over all arrays. A zip archive protects the bytes of each array, but does not detect
# renamed or missing arrays, or arrays from another save.

CHECKSUM = "checksum"
"""The name of the array that holds the checksum, as hexadecimal digits."""


def save_with_checksum(path: str, arrays: Mapping[str, AnyArray], *, private: bool = False) -> None:
    """Write arrays with a checksum, atomically; ``private`` makes the file readable by its owner only.

    Examples
    --------
    >>> import os, tempfile
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     save_with_checksum(os.path.join(folder, "kept.npz"), {"rows": np.arange(3)})
    ...     load_with_checksum(os.path.join(folder, "kept.npz"))
    {'rows': array([0, 1, 2])}
    """
    buffer, with_checksum = io.BytesIO(), cast("dict[str, Any]", {**arrays, CHECKSUM: np.array(checksum_of(arrays))})
    np.savez(buffer, **with_checksum)
    write_atomically(path, buffer.getvalue(), private=private)


def load_with_checksum(
    path: str, *, check_size: Callable[[int], None] = lambda n_bytes: None, needed: bool = False
) -> dict[str, AnyArray]:
    """Read arrays written by `save_with_checksum`; raises InvalidData if the file is damaged.

    Parameters
    ----------
    path : str
        The file.
    check_size : callable
        Called with the unpacked size in bytes before anything is read; may raise.
    needed : bool
        Reject files without a checksum, which the first versions wrote.
    """
    with reading(path), open(path, "rb") as stream:
        with zipfile.ZipFile(stream) as archive:
            check_size(sum(member.file_size for member in archive.infolist()))
        stream.seek(0)
        with np.load(stream, allow_pickle=False) as archive:
            arrays: dict[str, AnyArray] = dict(archive)
    checksum = arrays.pop(CHECKSUM, None)
    if needed if checksum is None else str(checksum) != checksum_of(arrays):
        raise InvalidData(f"{path} is damaged: its content does not match its checksum.")
    return arrays


def checksum_of(arrays: Mapping[str, AnyArray]) -> str:
    """A hash of all names, types, shapes and values, as hexadecimal digits."""
    digest = hashlib.blake2b(digest_size=16)
    for name in sorted(arrays):
        array = np.ascontiguousarray(arrays[name])
        digest.update(repr((name, array.dtype.str, arrays[name].shape)).encode())
        digest.update(array.data if array.dtype.kind in "biuf" else array.tobytes())
    return digest.hexdigest()


def check_writable(path: str, *, force: bool) -> None:
    """Raise if a file could not be written or already exists, before anything is computed for it."""
    if not os.path.isdir(os.path.dirname(os.path.abspath(path))):
        raise MissingFile(f"{path} cannot be written: its folder does not exist", hint="create it first.")
    if os.path.exists(path) and not force:
        raise OutputExists(f"{path} exists", hint=f"pass {FORCE} to replace it, or another path.")
