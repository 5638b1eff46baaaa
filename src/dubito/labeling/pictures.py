"""A picture of the pool as a page may show it: from inside the source, and decoded within bounds."""

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
from dubito.labeling.decoder import N_PROCESSES, LargePicture, PictureDecoder, PicturesBusy, ShownPicture, Unshowable
from dubito.labeling.thumbnails import ThumbnailCache

MOST_BYTES = 64_000_000
"""A file with more is not read."""
LARGEST_EDGE = 4096
SMALL_PIXELS = 5_000_000
"""Pictures with no more, at the size they are decoded at, never wait for the memory that larger ones take."""
MOST_WAITING = 256
"""Pictures that wait to be decoded; further ones are refused."""
N_LOOKUPS = 4
"""Threads that look for pictures on the disk."""
SETTLED = 2.0
"""Seconds after a change in which a file may change again without its times telling."""
FAILURE_KEPT = 60.0
"""Seconds for which a picture that cannot be shown is not tried again."""
MOST_FAILURES = 1000
VERSION = 1
"""Of how pictures are encoded: thumbnails of another one are not used."""


class Found(NamedTuple):
    """Where a picture is, and what tells it from another in the same place."""

    name: str
    place: str | bytes
    """The path of a file, or its bytes."""
    identity: str
    is_settled: bool
    """Whether a change from now on would show in the identity."""


class Pictures:
    """The pictures of a project: decoded by child processes, and kept in the project's folder as they were shown.

    Pictures that are kept wait for none that is decoded, small ones for no large one, and no request waits in a thread
    that others need. Where too many pictures wait already, a request raises `PicturesBusy`.

    Parameters
    ----------
    cache : ThumbnailCache
        Where pictures are kept.
    n_processes : int
        Child processes for small pictures, and as many for large ones.
    """

    def __init__(self, cache: ThumbnailCache, n_processes: int = N_PROCESSES) -> None:
        self.cache = cache
        self.small = PictureDecoder(n_processes, pixels_at_once=n_processes * SMALL_PIXELS, largest=SMALL_PIXELS)
        self.large = PictureDecoder(n_processes)
        self._lookups = ThreadPoolExecutor(N_LOOKUPS, "pictures-lookup")
        self._threads = {each: ThreadPoolExecutor(n_processes, "pictures-decode") for each in (self.small, self.large)}
        self._lock = threading.Lock()
        self._n_waiting = 0
        self._failures: dict[str, tuple[str, str, float]] = {}
        """By key: problem, hint, and until when it counts."""

    async def show(self, contents: Contents, item: int, edge: int) -> ShownPicture:
        """The picture of an item, turned as the camera was held, without anything but its pixels."""
        kept = await asyncio.get_running_loop().run_in_executor(self._lookups, self._look_up, contents, item, edge)
        if kept is not None:
            return kept
        try:
            return await asyncio.wrap_future(self._submit(self.small, contents, item, edge))
        except LargePicture:
            return await asyncio.wrap_future(self._submit(self.large, contents, item, edge))

    def close(self) -> None:
        """Refuse what waits, and end the child processes."""
        self._lookups.shutdown(wait=False, cancel_futures=True)
        for decoder, threads in self._threads.items():
            threads.shutdown(wait=False, cancel_futures=True)
            decoder.close()
        for threads in self._threads.values():
            threads.shutdown()

    def _look_up(self, contents: Contents, item: int, edge: int) -> ShownPicture | None:
        return self._kept(_key(find_picture(contents, item), edge))

    def _kept(self, key: str) -> ShownPicture | None:
        with self._lock:
            problem, hint, until = self._failures.get(key, ("", "", 0.0))
        if time.monotonic() < until:
            raise Unshowable(problem, hint=hint)
        return self.cache.load(key)

    def _submit(self, decoder: PictureDecoder, contents: Contents, item: int, edge: int) -> "Future[ShownPicture]":
        with self._lock:
            if self._n_waiting >= MOST_WAITING:
                raise PicturesBusy(f"{self._n_waiting} pictures wait to be decoded", hint="try again in a moment.")
            self._n_waiting += 1
        try:
            future = self._threads[decoder].submit(self._decode, decoder, contents, item, edge)
        except RuntimeError:
            self._count_down()
            raise PicturesBusy("pictures are not decoded any more: the server is stopping") from None
        future.add_done_callback(lambda done: self._count_down())
        return future

    def _count_down(self) -> None:
        with self._lock:
            self._n_waiting -= 1

    def _decode(self, decoder: PictureDecoder, contents: Contents, item: int, edge: int) -> ShownPicture:
        before = find_picture(contents, item)
        key = _key(before, edge)
        if (kept := self._kept(key)) is not None:
            return kept  # Made for another request while this one waited.
        data = before.place if isinstance(before.place, bytes) else read_picture(before)
        after = find_picture(contents, item)
        is_same = before.is_settled and before.identity == after.identity
        try:
            shown = decoder.decode(data, before.name, edge)
        except Unshowable as failure:
            if is_same:
                self._keep_failure(key, failure)
            raise
        if is_same:
            self.cache.save(key, shown)
        return shown

    def _keep_failure(self, key: str, failure: Unshowable) -> None:
        with self._lock:
            self._failures.pop(key, None)
            self._failures[key] = failure.problem, failure.hint, time.monotonic() + FAILURE_KEPT
            if len(self._failures) > MOST_FAILURES:
                del self._failures[next(iter(self._failures))]


def find_picture(contents: Contents, item: int) -> Found:
    """Where the picture of an item is; only a regular file inside the source counts, whatever links lead to."""
    if contents.what != "pictures" or contents.shown is None:
        raise MissingFile(f"item {item} has no picture", hint="it is shown by its text or its columns.")
    name, shown = contents.ids[item], contents.shown[item]
    if isinstance(shown, bytes):
        _check_size(name, len(shown))
        return Found(name, shown, hashlib.blake2b(shown, digest_size=16).hexdigest(), True)
    home = os.path.realpath(contents.root)
    try:
        place = os.path.realpath(os.path.join(home, str(shown)))
    except ValueError:  # No path has a NUL in it.
        raise MissingFile(f"the picture {name} has a path that none can be", hint="skip it.") from None
    if os.path.commonpath([place, home]) != home:
        raise MissingFile(f"the picture {name} lies outside the source", hint="only what is inside it is shown.")
    with _opened(place, name) as file:
        found = os.fstat(file.fileno())
    _check_size(name, found.st_size)
    # The inode and its time, too: size and time of the content may be those of the file that was there before.
    times = f"{found.st_mtime_ns} {found.st_ctime_ns}"
    identity = f"{os.path.relpath(place, home)}\0{found.st_size} {found.st_ino} {times}"
    is_settled = time.time() - max(found.st_mtime, found.st_ctime) > SETTLED
    return Found(name, place, identity, is_settled)


def read_picture(found: Found) -> bytes:
    """The bytes of a file."""
    assert isinstance(found.place, str)
    with _opened(found.place, found.name) as file:
        data = file.read(MOST_BYTES + 1)
    _check_size(found.name, len(data))
    return data


def _opened(place: str, name: str) -> BinaryIO:
    try:
        return open_regular(place, getattr(os, "O_NOFOLLOW", 0))
    except NotRegularFile as error:
        raise MissingFile(f"the picture {name} {error}", hint="skip it.") from None
    except OSError as error:
        problem = f"the picture {name} cannot be opened: {(error.strerror or str(error)).lower()}"
        raise MissingFile(problem, hint="put it back, or skip it.") from None


def _check_size(name: str, n_bytes: int) -> None:
    if not n_bytes:
        raise Unshowable(f"the picture {name} is empty (0 bytes)", hint="skip it, or fix the file.")
    if n_bytes > MOST_BYTES:
        problem = f"the picture {name} has {n_bytes:,} bytes, more than the {MOST_BYTES:,} that are shown"
        raise Unshowable(problem, hint="skip it, or make it smaller.")


def _key(found: Found, edge: int) -> str:
    text = f"{VERSION}\0{edge}\0{found.identity}"
    return hashlib.blake2b(text.encode("utf-8", "backslashreplace"), digest_size=16).hexdigest()
