"""Limits on connections and on wrong tokens."""

import hashlib
import logging
import math
import time
from collections import OrderedDict
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from ipaddress import IPv6Address, ip_address

MAX_ADDRESSES = 10_000
"""Maximum number of client addresses to remember; the least recently used is dropped first."""
MAX_WRONG_TOKENS = 100
"""Maximum number of wrong tokens to remember per address."""

log = logging.getLogger("dubito.labeling.web")


@dataclass(frozen=True, slots=True)
class Limits:
    """Limits on connections, on the time that a client may take, and on wrong tokens."""

    connections: int = 2000
    """Open connections of all clients together."""
    connections_per_address: int = 250
    head_seconds: float = 10.0
    """Time to send the head of a request, or the rest of a body that is ignored."""
    stall_seconds: float = 30.0
    """Time without progress after which a connection that sends a body is closed."""
    send_seconds: float = 120.0
    """Time without progress after which a connection that receives a response is closed."""
    guesses_per_minute: int = 300
    """Requests per minute with a wrong token, of all clients together."""
    guesses_per_address: int = 20
    """Requests per minute with a wrong token, from one address."""


class TooManyGuesses(Exception):
    """The client has sent too many wrong tokens; none is checked for a while."""

    def __init__(self, seconds: float) -> None:
        super().__init__(f"Too many wrong tokens; try again in {math.ceil(seconds)} s.")
        self.seconds = math.ceil(seconds)


def client_key(host: str) -> str:
    """The part of a client's address that limits apply to: for IPv6 the /64 network, which one machine may own.

    Examples
    --------
    >>> client_key("192.0.2.7"), client_key("::ffff:192.0.2.7"), client_key("2001:db8::1:2"), client_key("somebody")
    ('192.0.2.7', '192.0.2.7', '2001:db8::/64', 'unknown')
    """
    try:
        address = ip_address(host)
    except ValueError:
        return "unknown"
    if not isinstance(address, IPv6Address) or address.is_loopback:
        return str(address)
    return str(address.ipv4_mapped or f"{IPv6Address(int(address) >> 64 << 64)}/64")


class Bucket:
    """A token bucket that allows `per_minute` events."""

    def __init__(self, per_minute: int, now: float) -> None:
        self._capacity, self._left, self._at = float(per_minute), float(per_minute), now

    def wait(self, now: float) -> float:
        """Seconds until the next event is allowed; 0 if it is allowed now."""
        self._left = min(self._capacity, self._left + (now - self._at) * self._capacity / 60.0)
        self._at = now
        return max(0.0, (1.0 - self._left) * 60.0 / self._capacity)

    def take(self) -> None:
        """Count an event."""
        self._left -= 1.0


@dataclass(slots=True)
class _Client:
    bucket: Bucket
    wrong: OrderedDict[bytes, None] = field(default_factory=OrderedDict)
    """Digests of wrong tokens already counted: a page left open sends the same one repeatedly."""
    has_signed_in: bool = False


class TokenCheck:
    """Checks tokens, and stops checking them for clients that guess.

    An address that has sent the right token is subject only to its own limit, so that guesses from elsewhere do not
    lock it out. A connection that has sent the right token is subject to no limit as long as it sends no other, so
    that guesses from the same address do not lock it out.

    Parameters
    ----------
    is_right : callable
        Whether a token is the right one.
    limits : Limits
        Limits on wrong tokens.
    clock : callable
        Returns the current time in seconds.
    """

    def __init__(
        self, is_right: Callable[[str], bool], limits: Limits, clock: Callable[[], float] = time.monotonic
    ) -> None:
        self._is_right, self._limits, self._clock = is_right, limits, clock
        self._all = Bucket(limits.guesses_per_minute, clock())
        self._clients: OrderedDict[str, _Client] = OrderedDict()
        self._known: OrderedDict[tuple[str, int], bool] = OrderedDict()
        """Connections (host, port) that have sent the right token."""

    def __call__(self, host: str, tokens: Iterable[str], port: int = 0) -> bool:
        """Whether one of the tokens of a request is right; raises `TooManyGuesses`.

        ``port`` is the client's, which identifies the connection; 0 if unknown.
        """
        key, now = client_key(host), self._clock()
        client = self._client(key, now)
        by_digest = {hashlib.blake2b(each.encode("utf-8", "surrogateescape")).digest(): each for each in tokens}
        new = [digest for digest in by_digest if digest not in client.wrong]
        if not new:
            return False
        if self._known.pop((host, port), False) and any(self._is_right(by_digest[digest]) for digest in new):
            self._remember(host, port)
            return True
        wait = client.bucket.wait(now)
        if not client.has_signed_in:
            wait = max(wait, self._all.wait(now))
        if wait > 0.0:
            log.warning("too many wrong tokens from %s: none is checked for %d s", key, math.ceil(wait))
            raise TooManyGuesses(wait)
        if any(self._is_right(by_digest[digest]) for digest in new):
            client.has_signed_in = True
            self._remember(host, port)
            return True
        log.warning("wrong token from %s", key)
        client.bucket.take()
        self._all.take()
        client.wrong |= dict.fromkeys(new)
        while len(client.wrong) > MAX_WRONG_TOKENS:
            client.wrong.popitem(last=False)
        return False

    def _remember(self, host: str, port: int) -> None:
        if port:
            self._known[host, port] = True
            if len(self._known) > MAX_ADDRESSES:
                self._known.popitem(last=False)

    def _client(self, key: str, now: float) -> _Client:
        client = self._clients.pop(key, None) or _Client(Bucket(self._limits.guesses_per_address, now))
        self._clients[key] = client
        if len(self._clients) > MAX_ADDRESSES:
            self._clients.popitem(last=False)
        return client
