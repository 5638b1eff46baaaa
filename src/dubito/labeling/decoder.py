"""Decodes pictures in child processes with limits on time and memory."""

import json
import os
import signal
import subprocess
import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from typing import Any, NamedTuple

from dubito.errors import DubitoError, InvalidData
from dubito.io import picture_worker
from dubito.io.limits import PICTURE_FORMATS
from dubito.io.picture_worker import LENGTHS, SECONDS, write_message

MAX_PIXELS = 50_000_000
"""Pictures with more pixels are not decoded."""
MAX_LOSSLESS_PIXELS = 1_000_000
"""Pictures in a lossless format with at most this many pixels are sent lossless."""
PIXELS_AT_ONCE = 50_000_000
"""Pixels that all child processes of a decoder may decode at the same time; some formats take 20 bytes per pixel."""
MEMORY = 1_500_000_000
"""Address space of a child process in bytes."""
GRACE = 10.0
"""Seconds past its time limit after which a child process whose own alarm failed is killed; they include the time it
takes to start."""
N_PROCESSES = max(2, min(4, os.cpu_count() or 1))
MAX_REPLY = 4096, 128_000_000
"""Maximum bytes of JSON and of data in a reply."""
MEDIA = ("image/png", "image/jpeg")
WORKER = picture_worker.__file__


class UndisplayablePicture(InvalidData):
    """A picture that cannot be shown."""


class DecoderUnavailable(DubitoError):
    """Pictures cannot be decoded now; the request may succeed later."""


class ShownPicture(NamedTuple):
    """An encoded picture and its media type."""

    data: bytes
    media: str


class ChildEnded(Exception):
    """A child process ended, or sent an invalid reply."""


class TimeLimit(Exception):
    """A child process took too long."""


class LargePicture(Exception):
    """A picture has more pixels than this decoder accepts."""


class PixelBudget:
    """Limits the pixels decoded at the same time; a picture of any size is admitted if it is alone."""

    def __init__(self, limit: int) -> None:
        self.limit = limit
        self.in_flight = self.peak = 0
        self._turn = threading.Lock()
        self._changed = threading.Condition()

    @contextmanager
    def admitted(self, n_pixels: int) -> Iterator[None]:
        """Wait until the pixels fit, and reserve them for the block."""
        # Only one picture waits for pixels at a time, so small pictures cannot overtake a large one forever.
        with self._turn, self._changed:
            self._changed.wait_for(lambda: not self.in_flight or self.in_flight + n_pixels <= self.limit)
            self.in_flight += n_pixels
            self.peak = max(self.peak, self.in_flight)
        try:
            yield
        finally:
            with self._changed:
                self.in_flight -= n_pixels
                self._changed.notify_all()


class Child:
    """A child process that handles one request after another until it fails.

    On Linux it ends when the thread that created it ends, so this should be a long-lived thread.
    """

    def __init__(self, memory: int) -> None:
        # Return blocks of more than a megabyte to the system; otherwise glibc keeps the memory of a large picture.
        environment = {**os.environ, "MALLOC_MMAP_THRESHOLD_": "1000000", "MALLOC_ARENA_MAX": "1"}
        # Run the file by path: importing the package would take seconds and 100 MB.
        command = [sys.executable, "-P", WORKER, str(memory)]
        self.process = subprocess.Popen(
            command, env=environment, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL
        )

    def decode(
        self, request: dict[str, Any], data: bytes, budget: PixelBudget, seconds: float, max_pixels: int
    ) -> tuple[dict[str, Any], bytes] | None:
        """The final reply to a request, or None for a picture that is too large.

        After `ChildEnded` or `TimeLimit` the process cannot be used again.
        """
        stdin = self.process.stdin
        assert stdin is not None
        try:
            with self._time_limit(seconds):
                write_message(stdin, request, data)
                reply = self._reply()
            if "problem" in reply[0]:
                return reply
            n_pixels = max(0, int(reply[0]["pixels"]))
            if n_pixels > max_pixels:
                stdin.write(b"n")
                stdin.flush()
                return None
            with budget.admitted(n_pixels), self._time_limit(seconds):
                stdin.write(b"y")
                stdin.flush()
                return self._reply()
        except (OSError, ValueError, KeyError, TypeError, ChildEnded) as error:
            self.close()
            if hasattr(signal, "SIGALRM") and self.process.returncode == -signal.SIGALRM:
                raise TimeLimit from None
            raise ChildEnded from error

    @contextmanager
    def _time_limit(self, seconds: float) -> Iterator[None]:
        """Kill the process if its own alarm fails to."""
        expired = threading.Event()

        def expire() -> None:
            expired.set()
            self.process.kill()

        timer = threading.Timer(seconds + GRACE, expire)
        timer.daemon = True
        timer.start()
        try:
            yield
        finally:
            timer.cancel()
            timer.join()
            if expired.is_set():
                self.close()
                raise TimeLimit

    def _reply(self) -> tuple[dict[str, Any], bytes]:
        lengths = self._read(LENGTHS.size)
        n_text, n_data = LENGTHS.unpack(lengths)
        if n_text > MAX_REPLY[0] or n_data > MAX_REPLY[1]:
            raise ChildEnded
        facts = json.loads(self._read(n_text))
        if not isinstance(facts, dict):
            raise ChildEnded
        return facts, self._read(n_data)

    def _read(self, n_bytes: int) -> bytes:
        assert self.process.stdout is not None
        data = self.process.stdout.read(n_bytes)
        if len(data) < n_bytes:
            raise ChildEnded
        return data

    def close(self) -> None:
        """End the process."""
        self.process.kill()
        for stream in (self.process.stdin, self.process.stdout):
            with suppress(OSError, ValueError):
                if stream is not None:
                    stream.close()
        self.process.wait()


class PictureDecoder:
    """Decodes pictures in child processes, so that no picture can harm the server or delay the others.

    What happens when something fails:

    - A picture that is damaged, too large, or takes more memory than a child process may have raises
      `UndisplayablePicture`.
    - So does one that takes longer than ``seconds``; its child process is killed, by its own alarm or by the server,
      and the next picture gets a new one.
    - A child process that ends in any other way (a crash, out of memory) is replaced, and the picture is tried once
      more; if that process ends too, the picture raises `UndisplayablePicture`.
    - If no child process can be started, the request raises `DecoderUnavailable`, and the next one tries again.
    - The total number of pixels decoded at the same time is limited; further pictures wait.
    - A server that stops closes the decoder, which kills the child processes. If the server is killed, an idle child
      process ends with its input; a busy one is killed by the kernel at once on Linux, elsewhere by its alarm.

    Memory limits require a system that enforces RLIMIT_AS (Linux does, macOS does not); alarms require POSIX.

    Parameters
    ----------
    n_processes : int
        Maximum number of child processes; they are started when needed.
    seconds : float
        Time limit for opening a picture, and again for decoding it.
    memory : int
        Address space of a child process in bytes.
    pixels_at_once : int
        Pixels that may be decoded at the same time.
    max_pixels : int
        Pictures with more pixels (but at most `MAX_PIXELS`) raise `LargePicture` without being decoded.
    """

    def __init__(
        self,
        n_processes: int = N_PROCESSES,
        *,
        seconds: float = SECONDS,
        memory: int = MEMORY,
        pixels_at_once: int = PIXELS_AT_ONCE,
        max_pixels: int = MAX_PIXELS,
    ) -> None:
        self.n_processes, self.seconds, self.memory, self.max_pixels = n_processes, seconds, memory, max_pixels
        self.budget = PixelBudget(pixels_at_once)
        self.n_started = 0
        self._slots = threading.Semaphore(n_processes)
        self._lock = threading.Lock()
        self._idle: list[Child] = []
        self._children: set[Child] = set()
        self._is_closed = False

    def decode(self, data: bytes, name: str, edge: int) -> ShownPicture:
        """Decode a picture for the page: upright, scaled to at most ``edge`` pixels per side, without metadata."""
        request = {
            "edge": edge,
            "formats": PICTURE_FORMATS,
            "max_pixels": MAX_PIXELS,
            "max_lossless_pixels": MAX_LOSSLESS_PIXELS,
            "seconds": self.seconds,
        }
        try:
            reply = self._decode_with_retry(request, data)
        except TimeLimit:
            problem = f"the picture {name} needs more than {self.seconds:g} seconds to decode"
            raise UndisplayablePicture(problem, hint="skip it, or make it smaller.") from None
        except ChildEnded:
            problem = f"the picture {name} crashes the process that decodes it"
            raise UndisplayablePicture(problem, hint="skip it, or replace the file.") from None
        if reply is None:
            raise LargePicture
        facts, encoded = reply
        if "problem" in facts:
            subject, hint = facts.get("subject", "picture"), str(facts.get("hint", "skip it."))
            raise UndisplayablePicture(f"the {subject} {name} {facts['problem']}", hint=hint)
        return ShownPicture(encoded, facts["media"])

    def _decode_with_retry(self, request: dict[str, Any], data: bytes) -> tuple[dict[str, Any], bytes] | None:
        """Retry once: the child process may have been killed while idle, which is not the picture's fault."""
        with self._slots:
            try:
                return self._decode_once(request, data, is_new=False)
            except ChildEnded:
                return self._decode_once(request, data, is_new=True)

    def _decode_once(self, request: dict[str, Any], data: bytes, is_new: bool) -> tuple[dict[str, Any], bytes] | None:
        child = self._take(is_new)
        try:
            reply = child.decode(request, data, self.budget, self.seconds, self.max_pixels)
            if reply is not None and "problem" not in reply[0] and reply[0].get("media") not in MEDIA:
                raise ChildEnded
        except BaseException:
            with self._lock:
                self._remove(child)
            raise
        with self._lock:
            if not self._is_closed:
                self._idle.append(child)
                return reply
        child.close()
        return reply

    def _take(self, is_new: bool) -> Child:
        """An idle child process, or a new one."""
        with self._lock:
            if self._is_closed:
                raise DecoderUnavailable("pictures can no longer be decoded: the server is stopping")
            if self._idle and not is_new:
                return self._idle.pop()
            for idle in self._idle[: max(0, len(self._children) + 1 - self.n_processes)]:
                self._remove(idle)
            try:
                child = Child(self.memory)
            except OSError as error:
                problem = f"no process to decode pictures can be started: {(error.strerror or str(error)).lower()}"
                raise DecoderUnavailable(problem, hint="try again in a moment.") from None
            self._children.add(child)
            self.n_started += 1
            return child

    def _remove(self, child: Child) -> None:
        child.close()
        self._children.discard(child)
        if child in self._idle:
            self._idle.remove(child)

    @property
    def process_ids(self) -> list[int]:
        with self._lock:
            return sorted(child.process.pid for child in self._children)

    def close(self) -> None:
        """End all child processes; waiting requests raise `DecoderUnavailable`."""
        with self._lock:
            self._is_closed = True
            children, idle = list(self._children), list(self._idle)
            self._children.clear()
            self._idle.clear()
        for child in children:
            child.process.kill()  # The thread that waits for its reply then closes it.
        for child in idle:
            child.close()
