"""Connections of clients that nobody knows yet: how many there may be, and how long they may keep the server waiting.

uvicorn has a timeout for idle connections alone. `Connection` counts what uvicorn does not, and `close_stalled`, called
every second, closes connections that make no progress.
"""

import asyncio
import logging
import time
from collections.abc import Iterable
from typing import Any

import h11
from uvicorn.protocols.http.h11_impl import H11Protocol

from dubito.labeling.web.limits import Limits, client_key

PROGRESS = 16_384
"""Bytes of a body within `Limits.stall_seconds` that count as progress."""
MOST_FILES, OTHER_FILES = 4096, 256
"""Files that the process may open, if the system lets it, and those among them that are no connections."""
AT_ONCE = 32
"""Connections that asyncio accepts before it looks at any of them: `OTHER_FILES` has room for a few such lots."""
LINES_PER_MINUTE = 10
ALL = "in all"
BUSY = b"HTTP/1.1 503 Service Unavailable\r\nretry-after: 10\r\nconnection: close\r\ncontent-length: 0\r\n\r\n"

log = logging.getLogger("dubito.labeling.web")


class Connection(H11Protocol):
    """uvicorn's connection, which counts."""

    limits: Limits
    is_direct: bool
    """Whether clients connect themselves, so that their addresses tell them apart."""

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        self.key, self.n_bytes, self.n_answers = "", 0, 0
        self._phase: tuple[object, ...] = ()
        self._since = time.monotonic()

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        """Take it, or answer 503 where there are too many; of connections without a request the oldest makes room."""
        peer = transport.get_extra_info("peername")
        self.key = client_key(peer[0]) if isinstance(peer, tuple) else ""
        full = self._is_full()
        if full is None or (full == ALL and self._make_room()):
            super().connection_made(transport)
            return
        log.warning("refused a connection from %s: there are too many %s", self.key, full)
        transport.write(BUSY)
        transport.close()

    def _is_full(self) -> str | None:
        others = [each for each in self.connections if isinstance(each, Connection) and each.key == self.key]
        if self.is_direct and len(others) >= self.limits.connections_per_address:
            return "from there"
        return ALL if len(self.connections) >= self.limits.connections else None

    def _make_room(self) -> bool:
        idle = [each for each in self.connections if isinstance(each, Connection) and each.is_idle]
        if idle:
            min(idle, key=lambda each: each._since).transport.abort()
        return bool(idle)

    @property
    def is_idle(self) -> bool:
        """Whether no request is being answered on it."""
        is_done = self.cycle is None or self.cycle.response_complete
        return is_done and not self.transport.is_closing()

    def connection_lost(self, exc: Exception | None) -> None:
        """As ever, unless it was refused."""
        if self in self.connections:
            super().connection_lost(exc)

    def data_received(self, data: bytes) -> None:
        """As ever, and count."""
        if self in self.connections:
            self.n_bytes += len(data)
            super().data_received(data)

    def send_400_response(self, msg: str) -> None:
        """As ever, unless an answer has begun; the application's own answer, if there is one, goes nowhere."""
        if self.cycle is not None:
            self.cycle.disconnected = True
        if self.conn.our_state in (h11.IDLE, h11.SEND_RESPONSE):
            super().send_400_response(msg)
        else:
            self.transport.close()

    def on_response_complete(self) -> None:
        """As ever, and count."""
        self.n_answers += 1
        super().on_response_complete()

    def stalls(self, now: float) -> bool:
        """Whether it has been waiting for the same thing for too long; asked again and again."""
        phase, most = self._waits_for()
        if phase != self._phase:
            self._phase, self._since = phase, now
        return most is not None and now - self._since >= most

    def _waits_for(self) -> tuple[tuple[object, ...], float | None]:
        """What has to change, and within how many seconds; None for what is not the client's to change."""
        limits, unsent = self.limits, self.transport.get_write_buffer_size()
        if unsent:
            return ("answer", self.n_answers, unsent), limits.send_seconds
        if self.conn.their_state is h11.IDLE and self.timeout_keep_alive_task is None:
            return ("head", self.n_answers), limits.head_seconds
        if self.conn.their_state is h11.SEND_BODY and self.cycle.response_complete:
            return ("ignored body", self.n_answers), limits.head_seconds
        if self.conn.their_state is h11.SEND_BODY and not self.flow.read_paused:
            return ("body", self.n_answers, self.n_bytes // PROGRESS), limits.stall_seconds
        return ("server", self.n_answers), None


def connection_class(limits: Limits, *, is_direct: bool) -> type[Connection]:
    """The class of connections with such limits, of which uvicorn makes its own."""
    return type("LimitedConnection", (Connection,), {"limits": limits, "is_direct": is_direct})


def close_stalled(connections: Iterable[object]) -> None:
    """Close what keeps the server waiting."""
    now = time.monotonic()
    for each in list(connections):
        if isinstance(each, Connection) and each.stalls(now):
            each.transport.abort()


def allowed_connections(wanted: int) -> int:
    """As many as wanted, or as the system lets the process open; its limit is raised first."""
    try:
        import resource
    except ImportError:  # Windows has no such limit.
        return wanted
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    if soft == resource.RLIM_INFINITY:
        return wanted
    most = MOST_FILES if hard == resource.RLIM_INFINITY else min(hard, MOST_FILES)
    if soft < most:
        try:
            resource.setrlimit(resource.RLIMIT_NOFILE, (most, hard))
            soft = most
        except (OSError, ValueError):
            log.warning("the system's limit of %d open files could not be raised", soft)
    return min(wanted, soft - min(OTHER_FILES, soft // 2))


class FewLines(logging.Filter):
    """Lets `LINES_PER_MINUTE` records of each place in the code through, and then says how many it left out."""

    def __init__(self) -> None:
        super().__init__()
        self._windows: dict[tuple[str, int], tuple[float, int]] = {}

    def filter(self, record: logging.LogRecord) -> bool:
        """Whether it is let through."""
        place, now = (record.pathname, record.lineno), time.monotonic()
        began, n_records = self._windows.get(place, (now, 0))
        if now - began >= 60.0:
            if n_records > LINES_PER_MINUTE:
                record.msg = f"({n_records - LINES_PER_MINUTE:,} like the next were left out) {record.msg}"
            began, n_records = now, 0
        self._windows[place] = began, n_records + 1
        return n_records < LINES_PER_MINUTE


def bound_logs(names: Iterable[str]) -> None:
    """Keep loggers from writing more than a person reads, whatever clients do."""
    for name in names:
        logging.getLogger(name).addFilter(FewLines())
