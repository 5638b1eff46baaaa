"""Arrays that dubito keeps for itself, in an ``.npz`` with a checksum over all of them.

A zip archive guards the bytes of each array, but not their names, nor that none is missing or of another save.
"""

import hashlib
import io
import zipfile
from collections.abc import Callable, Mapping
from typing import Any, cast

import numpy as np

from dubito.errors import InvalidData
from dubito.files.entries import reading
from dubito.files.replacing import write_atomically
from dubito.matrix import AnyArray

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
