"""Limits on the number of connections, and timeouts for those that make no progress.

uvicorn has a timeout for idle connections only. `Connection` records progress, and `close_stalled`, called every
second, closes connections that make none.
"""

import asyncio
import logging
import time
from collections.abc import Iterable
from typing import Any

import h11
from uvicorn.protocols.http.h11_impl import H11Protocol

from dubito.labeling.web.limits import Limits, client_key

PROGRESS_BYTES = 16_384
"""A client that sends fewer bytes of a body within `Limits.stall_seconds` makes no progress."""
MAX_FILES, OTHER_FILES = 4096, 256
"""The limit on open files that the process requests, and how many of them are not for connections."""
ACCEPT_BATCH = 32
"""Connections that asyncio accepts in one step; `OTHER_FILES` allows for a few such steps."""
LINES_PER_MINUTE = 10
EVENTS = "/api/events"
ALL = "in all"
BUSY = b"HTTP/1.1 503 Service Unavailable\r\nretry-after: 10\r\nconnection: close\r\ncontent-length: 0\r\n\r\n"

log = logging.getLogger("dubito.labeling.web")


class Connection(H11Protocol):
    """An uvicorn connection that enforces limits and records progress."""

    limits: Limits
    is_direct: bool
    """Whether clients connect directly (not through a proxy), so that limits per address apply."""

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        self.key, self.n_bytes, self.n_answers = "", 0, 0
        self._phase: tuple[object, ...] = ()
        self._since = time.monotonic()

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        """Accept the connection or answer 503; if the server is full, the oldest idle connection is closed first."""
        peer = transport.get_extra_info("peername")
        self.key = client_key(peer[0]) if isinstance(peer, tuple) else ""
        exceeded = self._exceeded_limit()
        if exceeded is None or (exceeded == ALL and self._close_oldest_idle()):
            super().connection_made(transport)
            return
        log.warning("refused a connection from %s: there are too many %s", self.key, exceeded)
        transport.write(BUSY)
        transport.close()

    def _exceeded_limit(self) -> str | None:
        others = [each for each in self.connections if isinstance(each, Connection) and each.key == self.key]
        if self.is_direct and len(others) >= self.limits.connections_per_address:
            return "from there"
        return ALL if len(self.connections) >= self.limits.connections else None

    def _close_oldest_idle(self) -> bool:
        idle = [each for each in self.connections if isinstance(each, Connection) and each.is_idle]
        if idle:
            min(idle, key=lambda each: each._since).transport.abort()
        return bool(idle)

    @property
    def is_idle(self) -> bool:
        """Whether it is open without a request in progress."""
        is_done = self.cycle is None or self.cycle.response_complete
        return is_done and not self.transport.is_closing()

    def connection_lost(self, exc: Exception | None) -> None:
        if self in self.connections:
            super().connection_lost(exc)

    def data_received(self, data: bytes) -> None:
        if self in self.connections:
            self.n_bytes += len(data)
            super().data_received(data)

    def eof_received(self) -> bool | None:  # type: ignore[override]
        """Answer the request of a client that has closed its sending side before the connection is closed.

        An event stream is closed at once, since it never ends: its page was closed.
        """
        cycle = self.cycle
        if cycle is None or cycle.response_complete or cycle.scope["path"] == EVENTS or cycle.more_body:
            return None
        cycle.keep_alive = False
        return True

    def send_400_response(self, msg: str) -> None:
        """Send the 400 response unless a response has started; a later one of the application is dropped."""
        if self.cycle is not None:
            self.cycle.disconnected = True
        if self.conn.our_state in (h11.IDLE, h11.SEND_RESPONSE):
            super().send_400_response(msg)
        else:
            self.transport.close()

    def on_response_complete(self) -> None:
        self.n_answers += 1
        super().on_response_complete()

    def stalls(self, now: float) -> bool:
        """Whether the client has made no progress for too long; must be called regularly."""
        phase, limit = self._waiting_for()
        if phase != self._phase:
            self._phase, self._since = phase, now
        return limit is not None and now - self._since >= limit

    def _waiting_for(self) -> tuple[tuple[object, ...], float | None]:
        """What the connection waits for, and the time limit in seconds; no limit if it waits for the server."""
        limits, unsent = self.limits, self.transport.get_write_buffer_size()
        if unsent:
            return ("answer", self.n_answers, unsent), limits.send_seconds
        if self.conn.their_state is h11.IDLE and self.timeout_keep_alive_task is None:
            return ("head", self.n_answers), limits.head_seconds
        if self.conn.their_state is h11.SEND_BODY and self.cycle.response_complete:
            return ("ignored body", self.n_answers), limits.head_seconds
        if self.conn.their_state is h11.SEND_BODY and not self.flow.read_paused:
            return ("body", self.n_answers, self.n_bytes // PROGRESS_BYTES), limits.stall_seconds
        return ("server", self.n_answers), None


def connection_class(limits: Limits, *, is_direct: bool) -> type[Connection]:
    """A `Connection` class with these limits, for uvicorn to instantiate."""
    return type("LimitedConnection", (Connection,), {"limits": limits, "is_direct": is_direct})


def close_stalled(connections: Iterable[object]) -> None:
    """Close connections whose client makes no progress."""
    now = time.monotonic()
    for each in list(connections):
        if isinstance(each, Connection) and each.stalls(now):
            each.transport.abort()


def allowed_connections(wanted: int) -> int:
    """Raise the limit on open files; returns `wanted`, or fewer if the limit allows no more."""
    try:
        import resource
    except ImportError:  # Windows has no such limit.
        return wanted
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    if soft == resource.RLIM_INFINITY:
        return wanted
    target = MAX_FILES if hard == resource.RLIM_INFINITY else min(hard, MAX_FILES)
    if soft < target:
        try:
            resource.setrlimit(resource.RLIMIT_NOFILE, (target, hard))
            soft = target
        except (OSError, ValueError):
            log.warning("the system's limit of %d open files could not be raised", soft)
    return min(wanted, soft - min(OTHER_FILES, soft // 2))


class RateLimitFilter(logging.Filter):
    """Passes `LINES_PER_MINUTE` records per source line, and then reports how many were dropped."""

    def __init__(self) -> None:
        super().__init__()
        self._windows: dict[tuple[str, int], tuple[float, int]] = {}

    def filter(self, record: logging.LogRecord) -> bool:
        source, now = (record.pathname, record.lineno), time.monotonic()
        began, n_records = self._windows.get(source, (now, 0))
        if now - began >= 60.0:
            if n_records > LINES_PER_MINUTE:
                record.msg = f"({n_records - LINES_PER_MINUTE:,} similar lines were dropped) {record.msg}"
            began, n_records = now, 0
        self._windows[source] = began, n_records + 1
        return n_records < LINES_PER_MINUTE


def limit_logs(names: Iterable[str]) -> None:
    """Limit the rate of log lines, so that clients cannot flood the log."""
    for name in names:
        logging.getLogger(name).addFilter(RateLimitFilter())
