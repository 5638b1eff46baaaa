"""Pictures as they were shown, kept on the disk so that they need not be decoded again."""

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
MOST_BYTES = 500_000_000
"""Of all files together; the oldest go first."""
KEEP_FREE = 1_000_000_000
"""Bytes that are left on the disk: labels need them more."""
OURS = re.compile(r"[0-9a-f]{32}\.thumbnail(\.[0-9a-f]{8}\.tmp)?")
"""Files that may be removed."""


class ThumbnailCache:
    """Files of encoded pictures in a folder, by keys of 32 hexadecimal digits.

    Nothing depends on it. A file that is missing, cut short or damaged counts as none, as its checksum tells; what
    cannot be written, because the disk is full or read-only, is not kept. Every file is put in its place whole. The
    folder may be removed at any time.

    Parameters
    ----------
    folder : str
        Made when the first picture is kept.
    most_bytes : int
        Size of all files together, beyond which the oldest are removed.
    keep_free : int
        Bytes that must stay free on the disk.
    """

    def __init__(self, folder: str, *, most_bytes: int = MOST_BYTES, keep_free: int = KEEP_FREE) -> None:
        self.folder, self.most_bytes, self.keep_free = folder, most_bytes, keep_free
        self._lock = threading.Lock()
        self._n_bytes: int | None = None
        """In the files; None until they are counted."""

    def load(self, key: str) -> ShownPicture | None:
        """The picture of a key, or None."""
        try:
            with open_regular(self._path(key), getattr(os, "O_NOFOLLOW", 0)) as file:
                head, data = file.readline(200), file.read()
        except OSError:
            return None
        media = next((media for media in MEDIA if head == _head(media, data)), None)
        return None if media is None else ShownPicture(data, media)

    def save(self, key: str, picture: ShownPicture) -> None:
        """Keep a picture, where there is room for it."""
        content = _head(picture.media, picture.data) + picture.data
        if len(content) > self.most_bytes // 10:
            return
        with self._lock, suppress(OSError):
            os.makedirs(self.folder, exist_ok=True)
            if shutil.disk_usage(self.folder).free < self.keep_free + len(content):
                return
            if self._n_bytes is None:
                self._n_bytes = sum(each.st_size for _, each in self._files())
            self._write(self._path(key), content)
            self._n_bytes += len(content)
            if self._n_bytes > self.most_bytes:
                self._remove_oldest()

    def _write(self, path: str, content: bytes) -> None:
        """Without syncing: after a power cut the checksum tells."""
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
        """Down to four fifths of the limit, so that this is done rarely."""
        files = sorted(self._files(), key=lambda each: each[1].st_mtime_ns)
        self._n_bytes = sum(found.st_size for _, found in files)
        for path, found in files:
            if self._n_bytes <= self.most_bytes * 4 // 5:
                break
            with suppress(OSError):
                os.unlink(path)
                self._n_bytes -= found.st_size

    def _files(self) -> list[tuple[str, os.stat_result]]:
        """Ours, those of writes that were interrupted among them."""
        with os.scandir(self.folder) as entries:
            return [(each.path, each.stat(follow_symlinks=False)) for each in entries if OURS.fullmatch(each.name)]

    def _path(self, key: str) -> str:
        return os.path.join(self.folder, f"{key}.thumbnail")


def _head(media: str, data: bytes) -> bytes:
    """The first line of a file: what it is, and the checksum of the rest."""
    return f"dubito thumbnail {media} {hashlib.blake2b(data, digest_size=16).hexdigest()}\n".encode()
