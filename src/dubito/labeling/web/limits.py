"""How much a client may ask of the server before it has shown the token."""

import hashlib
import logging
import math
import time
from collections import OrderedDict
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from ipaddress import IPv6Address, ip_address

MOST_ADDRESSES = 10_000
"""Client addresses that are remembered; the one that was quiet for longest is forgotten first."""
MOST_REMEMBERED = 100
"""Wrong tokens that are remembered per address."""

log = logging.getLogger("dubito.labeling.web")


@dataclass(frozen=True, slots=True)
class Limits:
    """Limits of connections, of the time that a client may take, and of wrong tokens."""

    connections: int = 2000
    """Open connections, of all clients together."""
    connections_per_address: int = 250
    head_seconds: float = 10.0
    """Time for the whole head of a request, and for the rest of a body that nobody wants."""
    stall_seconds: float = 30.0
    """Time without progress after which the body of a request is given up."""
    send_seconds: float = 120.0
    """Time without progress after which an answer is given up."""
    guesses_per_minute: int = 300
    """Requests with a wrong token, of all clients together."""
    guesses_per_address: int = 20
    """Requests with a wrong token in a minute from one address."""


class TooManyGuesses(Exception):
    """No token is checked for this client now."""

    def __init__(self, seconds: float) -> None:
        super().__init__(f"Too many wrong tokens; try again in {math.ceil(seconds)} s.")
        self.seconds = math.ceil(seconds)


def client_key(host: str) -> str:
    """The part of a client's address that limits go by: of IPv6 the network, as one machine has all of its addresses.

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
    """So many a minute, at once or one by one."""

    def __init__(self, per_minute: int, now: float) -> None:
        self._most, self._left, self._at = float(per_minute), float(per_minute), now

    def wait(self, now: float) -> float:
        """Seconds until the next is allowed; 0 where it is."""
        self._left = min(self._most, self._left + (now - self._at) * self._most / 60.0)
        self._at = now
        return max(0.0, (1.0 - self._left) * 60.0 / self._most)

    def take(self) -> None:
        """Count one."""
        self._left -= 1.0


@dataclass(slots=True)
class _Client:
    bucket: Bucket
    wrong: OrderedDict[bytes, None] = field(default_factory=OrderedDict)
    """Digests of wrong tokens that were counted: a page that is left open repeats the same one."""
    has_signed_in: bool = False


class TokenCheck:
    """Compares tokens, and stops comparing for clients that guess.

    An address from which the right token came before is held to its own limit alone: guesses from elsewhere do not lock
    it out. A connection on which it came before is held to none, as long as it brings no other: guesses of somebody who
    shares the address do not lock it out.

    Parameters
    ----------
    fits : callable
        Whether a token is the right one.
    limits : Limits
        How many may be wrong.
    clock : callable
        Seconds.
    """

    def __init__(
        self, fits: Callable[[str], bool], limits: Limits, clock: Callable[[], float] = time.monotonic
    ) -> None:
        self._fits, self._limits, self._clock = fits, limits, clock
        self._all = Bucket(limits.guesses_per_minute, clock())
        self._clients: OrderedDict[str, _Client] = OrderedDict()
        self._known: OrderedDict[tuple[str, int], bool] = OrderedDict()
        """Connections on which the right token came."""

    def __call__(self, host: str, tokens: Iterable[str], port: int = 0) -> bool:
        """Whether one of the tokens of a request is right; raises `TooManyGuesses`.

        ``port`` is that of the client, which tells connections of a host apart; 0 where it is not known.
        """
        key, now = client_key(host), self._clock()
        client = self._client(key, now)
        by_digest = {hashlib.blake2b(each.encode("utf-8", "surrogateescape")).digest(): each for each in tokens}
        new = [digest for digest in by_digest if digest not in client.wrong]
        if not new:
            return False
        if self._known.pop((host, port), False) and any(self._fits(by_digest[digest]) for digest in new):
            self._remember(host, port)
            return True
        wait = client.bucket.wait(now)
        if not client.has_signed_in:
            wait = max(wait, self._all.wait(now))
        if wait > 0.0:
            log.warning("too many wrong tokens from %s: none is checked for %d s", key, math.ceil(wait))
            raise TooManyGuesses(wait)
        if any(self._fits(by_digest[digest]) for digest in new):
            client.has_signed_in = True
            self._remember(host, port)
            return True
        log.warning("wrong token from %s", key)
        client.bucket.take()
        self._all.take()
        client.wrong |= dict.fromkeys(new)
        while len(client.wrong) > MOST_REMEMBERED:
            client.wrong.popitem(last=False)
        return False

    def _remember(self, host: str, port: int) -> None:
        if port:
            self._known[host, port] = True
            if len(self._known) > MOST_ADDRESSES:
                self._known.popitem(last=False)

    def _client(self, key: str, now: float) -> _Client:
        client = self._clients.pop(key, None) or _Client(Bucket(self._limits.guesses_per_address, now))
        self._clients[key] = client
        if len(self._clients) > MOST_ADDRESSES:
            self._clients.popitem(last=False)
        return client
