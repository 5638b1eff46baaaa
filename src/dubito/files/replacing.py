"""A file written whole or not at all: under a temporary name beside it, synced to disk, then put in its place.

A process that is killed in the write leaves the temporary file. It is locked while somebody writes it, so that the next
who writes the same file can tell those that nobody will ever finish, and removes them.
"""

import errno
import os
import re
import secrets
import shutil
import stat
import time
from contextlib import suppress

from dubito.errors import OutputExists
from dubito.files.disk import LONGEST_NAME, is_free, naming_output, sync_folder
from dubito.wording import FORCE

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
    with naming_output(path):
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
    sweep(folder, name)
    temporary = os.path.join(folder, f".{name[:LONGEST_NAME]}.{secrets.token_hex(4)}.tmp")
    try:
        # open() rather than tempfile: the user's umask decides who may read the result.
        with open(temporary, "xb", opener=_open_private if private else None) as file:
            with suppress(OSError):
                is_free(file.fileno())  # Ours until it is closed: whoever sweeps leaves it alone.
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
        raise OutputExists(f"{path} exists", mend=f"pass {FORCE} to replace it, or another path.") from None


def sweep(folder: str, name: str) -> None:
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
            if is_free(file):
                os.unlink(path)
        finally:
            os.close(file)
