"""A cache of decoded and scaled pictures on disk."""

import hashlib
import os
import re
import secrets
import shutil
import threading
from contextlib import suppress

from dubito.io.durable import open_regular
from dubito.labeling.decoder import MEDIA, ShownPicture

FOLDER = "thumbnails"
MAX_BYTES = 500_000_000
"""Total size of the cache; the oldest files are removed first."""
KEEP_FREE = 1_000_000_000
"""Bytes to leave free on the disk, for labels."""
CACHE_FILE = re.compile(r"[0-9a-f]{32}\.thumbnail(\.[0-9a-f]{8}\.tmp)?")
"""Names of files that the cache may remove."""


class ThumbnailCache:
    """Encoded pictures in files of a folder, by keys of 32 hexadecimal digits.

    A missing or damaged file (by its checksum) is a cache miss; a file that cannot be written, because the disk is full
    or read-only, is not cached. Files are written atomically. The folder may be removed at any time.

    Parameters
    ----------
    folder : str
        Created when the first picture is saved.
    max_bytes : int
        Total size beyond which the oldest files are removed.
    keep_free : int
        Bytes that must stay free on the disk.
    """

    def __init__(self, folder: str, *, max_bytes: int = MAX_BYTES, keep_free: int = KEEP_FREE) -> None:
        self.folder, self.max_bytes, self.keep_free = folder, max_bytes, keep_free
        self._lock = threading.Lock()
        self._n_bytes: int | None = None
        """Total size of the files; None until computed."""

    def load(self, key: str) -> ShownPicture | None:
        """The picture of a key, or None if it is not cached."""
        try:
            with open_regular(self._path(key), getattr(os, "O_NOFOLLOW", 0)) as file:
                head, data = file.readline(200), file.read()
        except OSError:
            return None
        media = next((media for media in MEDIA if head == _head(media, data)), None)
        return None if media is None else ShownPicture(data, media)

    def save(self, key: str, picture: ShownPicture) -> None:
        """Cache a picture if there is enough disk space."""
        content = _head(picture.media, picture.data) + picture.data
        if len(content) > self.max_bytes // 10:
            return
        with self._lock, suppress(OSError):
            os.makedirs(self.folder, exist_ok=True)
            if shutil.disk_usage(self.folder).free < self.keep_free + len(content):
                return
            if self._n_bytes is None:
                self._n_bytes = sum(status.st_size for _, status in self._files())
            path = self._path(key)
            n_replaced = os.lstat(path).st_size if os.path.lexists(path) else 0
            self._write(path, content)
            self._n_bytes += len(content) - n_replaced
            if self._n_bytes > self.max_bytes:
                self._remove_oldest()

    def _write(self, path: str, content: bytes) -> None:
        """Write without fsync: the checksum detects a file that a power failure damaged."""
        temporary = f"{path}.{secrets.token_hex(4)}.tmp"
        try:
            with open(temporary, "xb") as file:
                file.write(content)
            os.replace(temporary, path)
        except BaseException:
            with suppress(OSError):
                os.unlink(temporary)
            raise

    def _remove_oldest(self) -> None:
        """Reduce the cache to four fifths of the limit, so that this is rare."""
        files = sorted(self._files(), key=lambda file: file[1].st_mtime_ns)
        self._n_bytes = sum(status.st_size for _, status in files)
        for path, status in files:
            if self._n_bytes <= self.max_bytes * 4 // 5:
                break
            with suppress(OSError):
                os.unlink(path)
                self._n_bytes -= status.st_size

    def _files(self) -> list[tuple[str, os.stat_result]]:
        """Files of the cache, including those of interrupted writes."""
        with os.scandir(self.folder) as entries:
            return [
                (entry.path, entry.stat(follow_symlinks=False)) for entry in entries if CACHE_FILE.fullmatch(entry.name)
            ]

    def _path(self, key: str) -> str:
        return os.path.join(self.folder, f"{key}.thumbnail")


def _head(media: str, data: bytes) -> bytes:
    """First line of a file: media type and checksum of the data."""
    return f"dubito thumbnail {media} {hashlib.blake2b(data, digest_size=16).hexdigest()}\n".encode()
