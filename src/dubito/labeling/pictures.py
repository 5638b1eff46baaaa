"""The pictures of a project: located inside the source, decoded within limits, and cached."""

import asyncio
import hashlib
import os
import threading
import time
from concurrent.futures import Future, ThreadPoolExecutor
from typing import BinaryIO, NamedTuple

from dubito.errors import MissingFile
from dubito.io.durable import NotRegularFile, open_regular
from dubito.labeling.contents import Contents
from dubito.labeling.decoder import (
    N_PROCESSES,
    DecoderUnavailable,
    LargePicture,
    PictureDecoder,
    ShownPicture,
    UndisplayablePicture,
)
from dubito.labeling.thumbnails import ThumbnailCache

MAX_BYTES = 64_000_000
"""Maximum size of a picture file."""
LARGEST_EDGE = 4096
"""Maximum value of `edge` in a request, in pixels."""
SMALL_PIXELS = 5_000_000
"""Pictures with at most this many pixels have their own decoder, so that they never wait for larger ones."""
MAX_WAITING = 256
"""Maximum number of pictures waiting to be decoded; further requests are rejected."""
N_LOOKUPS = 4
"""Threads that look up pictures on disk."""
MIN_AGE = 2.0
"""Seconds after a change of a file during which another change might not alter its timestamp."""
FAILURE_SECONDS = 60.0
"""Seconds before a picture that cannot be shown is tried again."""
MAX_FAILURES = 1000
VERSION = 1
"""Version of the encoding; thumbnails of another version are not used."""


class PictureSource(NamedTuple):
    """Where a picture is, and an identity that changes with its contents."""

    name: str
    content: str | bytes
    """Path of the file, or its bytes."""
    identity: str
    is_cacheable: bool
    """Whether every later change would alter the identity."""


class Pictures:
    """Decodes the pictures of a project in child processes and caches the results in the project folder.

    Cached pictures do not wait for decoding, small pictures do not wait for large ones, and no request blocks a thread
    that others need. If too many pictures are waiting, a request raises `DecoderUnavailable`.

    Parameters
    ----------
    cache : ThumbnailCache
        Cache of encoded pictures.
    n_processes : int
        Number of child processes for small pictures, and again for large ones.
    """

    def __init__(self, cache: ThumbnailCache, n_processes: int = N_PROCESSES) -> None:
        self.cache = cache
        self.small = PictureDecoder(n_processes, pixels_at_once=n_processes * SMALL_PIXELS, max_pixels=SMALL_PIXELS)
        self.large = PictureDecoder(n_processes)
        self._lookups = ThreadPoolExecutor(N_LOOKUPS, "pictures-lookup")
        self._threads = {each: ThreadPoolExecutor(n_processes, "pictures-decode") for each in (self.small, self.large)}
        self._lock = threading.Lock()
        self._n_waiting = 0
        self._failures: dict[str, tuple[str, str, float]] = {}
        """By key: problem, hint and time of expiry."""

    async def show(self, contents: Contents, item: int, edge: int) -> ShownPicture:
        """The picture of an item, upright, without metadata, and scaled to at most ``edge`` pixels per side."""
        cached = await asyncio.get_running_loop().run_in_executor(self._lookups, self._look_up, contents, item, edge)
        if cached is not None:
            return cached
        try:
            return await asyncio.wrap_future(self._submit(self.small, contents, item, edge))
        except LargePicture:
            return await asyncio.wrap_future(self._submit(self.large, contents, item, edge))

    def close(self) -> None:
        """Cancel waiting requests and end the child processes."""
        self._lookups.shutdown(wait=False, cancel_futures=True)
        for decoder, threads in self._threads.items():
            threads.shutdown(wait=False, cancel_futures=True)
            decoder.close()
        for threads in self._threads.values():
            threads.shutdown()

    def _look_up(self, contents: Contents, item: int, edge: int) -> ShownPicture | None:
        return self._load_cached(_key(find_picture(contents, item), edge))

    def _load_cached(self, key: str) -> ShownPicture | None:
        """The cached picture, if any; raises `UndisplayablePicture` if it could not be decoded a moment ago."""
        with self._lock:
            problem, hint, until = self._failures.get(key, ("", "", 0.0))
        if time.monotonic() < until:
            raise UndisplayablePicture(problem, hint=hint)
        return self.cache.load(key)

    def _submit(self, decoder: PictureDecoder, contents: Contents, item: int, edge: int) -> "Future[ShownPicture]":
        with self._lock:
            if self._n_waiting >= MAX_WAITING:
                raise DecoderUnavailable(
                    f"{self._n_waiting} pictures wait to be decoded", hint="try again in a moment."
                )
            self._n_waiting += 1
        try:
            future = self._threads[decoder].submit(self._decode, decoder, contents, item, edge)
        except RuntimeError:
            self._count_down()
            raise DecoderUnavailable("pictures can no longer be decoded: the server is stopping") from None
        future.add_done_callback(lambda done: self._count_down())
        return future

    def _count_down(self) -> None:
        with self._lock:
            self._n_waiting -= 1

    def _decode(self, decoder: PictureDecoder, contents: Contents, item: int, edge: int) -> ShownPicture:
        before = find_picture(contents, item)
        key = _key(before, edge)
        if (cached := self._load_cached(key)) is not None:
            return cached  # Another request has decoded it in the meantime.
        data = before.content if isinstance(before.content, bytes) else read_picture(before)
        after = find_picture(contents, item)
        is_same = before.is_cacheable and before.identity == after.identity
        try:
            shown = decoder.decode(data, before.name, edge)
        except UndisplayablePicture as failure:
            if is_same:
                self._remember_failure(key, failure)
            raise
        if is_same:
            self.cache.save(key, shown)
        return shown

    def _remember_failure(self, key: str, failure: UndisplayablePicture) -> None:
        with self._lock:
            self._failures.pop(key, None)
            self._failures[key] = failure.problem, failure.hint, time.monotonic() + FAILURE_SECONDS
            if len(self._failures) > MAX_FAILURES:
                del self._failures[next(iter(self._failures))]


def find_picture(contents: Contents, item: int) -> PictureSource:
    """Locate the picture of an item; it must be a regular file inside the source after resolving links."""
    if contents.kind != "pictures" or contents.shown is None:
        raise MissingFile(f"item {item} has no picture", hint="it is shown as a text or as columns.")
    name, shown = contents.ids[item], contents.shown[item]
    if item in contents.gone:
        raise MissingFile(f"the picture {name} is not in the source any more", hint="restore it, or skip it.")
    if isinstance(shown, bytes):
        _check_size(name, len(shown))
        return PictureSource(name, shown, hashlib.blake2b(shown, digest_size=16).hexdigest(), True)
    root = os.path.realpath(contents.root)
    try:
        path = os.path.realpath(os.path.join(root, str(shown)))
    except ValueError:
        raise MissingFile(f"the path of the picture {name} contains a NUL character", hint="skip it.") from None
    if os.path.commonpath([path, root]) != root:
        raise MissingFile(f"the picture {name} is outside the source", hint="move it into the source, or skip it.")
    with _open(path, name) as file:
        status = os.fstat(file.fileno())
    _check_size(name, status.st_size)
    # Include inode and ctime: a replaced file can have the same size and mtime.
    times = f"{status.st_mtime_ns} {status.st_ctime_ns}"
    identity = f"{os.path.relpath(path, root)}\0{status.st_size} {status.st_ino} {times}"
    is_cacheable = time.time() - max(status.st_mtime, status.st_ctime) > MIN_AGE
    return PictureSource(name, path, identity, is_cacheable)


def read_picture(found: PictureSource) -> bytes:
    assert isinstance(found.content, str)
    with _open(found.content, found.name) as file:
        data = file.read(MAX_BYTES + 1)
    _check_size(found.name, len(data))
    return data


def _open(path: str, name: str) -> BinaryIO:
    try:
        return open_regular(path, getattr(os, "O_NOFOLLOW", 0))
    except NotRegularFile as error:
        raise MissingFile(f"the picture {name} {error}", hint="skip it.") from None
    except OSError as error:
        problem = f"the picture {name} cannot be opened: {(error.strerror or str(error)).lower()}"
        raise MissingFile(problem, hint="restore it, or skip it.") from None


def _check_size(name: str, n_bytes: int) -> None:
    if not n_bytes:
        raise UndisplayablePicture(f"the picture {name} is empty (0 bytes)", hint="skip it, or fix the file.")
    if n_bytes > MAX_BYTES:
        problem = f"the picture {name} has {n_bytes:,} bytes, more than the {MAX_BYTES:,} that are shown"
        raise UndisplayablePicture(problem, hint="skip it, or make it smaller.")


def _key(found: PictureSource, edge: int) -> str:
    text = f"{VERSION}\0{edge}\0{found.identity}"
    return hashlib.blake2b(text.encode("utf-8", "backslashreplace"), digest_size=16).hexdigest()
