"""Run the server: by default on the loopback interface only, and always with a token."""

import asyncio
import errno
import logging
import os
import re
import socket
import sys
from collections.abc import Callable
from dataclasses import replace
from ipaddress import ip_address
from types import FrameType

import uvicorn

from dubito.errors import InvalidArgument
from dubito.labeling.service import LabelingService
from dubito.labeling.web.app import make_app
from dubito.labeling.web.connections import (
    ACCEPT_BATCH,
    allowed_connections,
    close_stalled,
    connection_class,
    limit_logs,
)
from dubito.labeling.web.limits import Limits

PORT = 8901
N_PORTS = 20
"""Number of ports to try, starting at `PORT`, if none is given."""
BACKLOG = 128
"""Connections that the operating system queues until they are accepted."""


def is_local(host: str) -> bool:
    """Whether a host is the loopback interface."""
    if host == "localhost":
        return True
    try:
        return ip_address(host).is_loopback
    except ValueError:
        return False


def read_public(url: str) -> str:
    """The origin of a URL, as a browser sends it.

    Examples
    --------
    >>> read_public("https://Labels.example.org:443/")
    'https://labels.example.org'
    """
    found = re.fullmatch(r"(https?)://([a-z0-9.-]+|\[[0-9a-f:.]+\])(?::([0-9]{1,5}))?/?", url.lower())
    if found is None:
        hint = "write https://labels.example.org: a name, perhaps a port, no path."
        raise InvalidArgument("is not the address of a server", argument="public", value=url, hint=hint)
    scheme, name, port = found.groups()
    is_default = port is None or int(port) == {"https": 443, "http": 80}[scheme]
    return f"{scheme}://{name}" if is_default else f"{scheme}://{name}:{int(port)}"


def open_socket(host: str, port: int | None) -> socket.socket:
    """A listening socket; without a port, on the first free one starting at `PORT`."""
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    ports = [port] if port is not None else list(range(PORT, PORT + N_PORTS))
    for number in ports:
        # The protocol is explicit because asyncio sets TCP_NODELAY only on such sockets (Nagle delays by 40 ms).
        opened = socket.socket(family, socket.SOCK_STREAM, socket.IPPROTO_TCP)
        opened.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            opened.bind((host, number))
        except OSError as error:
            opened.close()
            if isinstance(error, socket.gaierror) or error.errno == errno.EADDRNOTAVAIL:
                hint = "pass one of its addresses, such as 127.0.0.1."
                raise InvalidArgument(
                    "is not an address of this machine", argument="host", value=host, hint=hint
                ) from None
            reason = (error.strerror or str(error)).lower()
            if number == ports[-1]:
                problem, hint = f"cannot be used: {reason}", "choose another, or leave it out."
                raise InvalidArgument(problem, argument="port", value=number, hint=hint) from None
            continue
        opened.listen(BACKLOG)
        return opened
    raise AssertionError


def address_of(opened: socket.socket, host: str) -> str:
    """The URL to open in a browser."""
    shown = {"0.0.0.0": socket.gethostname(), "::": socket.gethostname()}.get(host, host)
    return f"http://{f'[{shown}]' if ':' in shown else shown}:{opened.getsockname()[1]}/"


class LabelServer(uvicorn.Server):
    """A server that calls `ready` when it listens, and closes stalled connections."""

    def __init__(self, config: uvicorn.Config, ready: Callable[[], None], stop_streams: Callable[[], None]) -> None:
        super().__init__(config)
        self._ready, self._stop_streams = ready, stop_streams
        self._n_signals = 0

    async def startup(self, sockets: list[socket.socket] | None = None) -> None:
        await super().startup(sockets)
        for each in sockets or ():
            each.listen(BACKLOG)  # uvicorn has just set the backlog to ACCEPT_BATCH.
        self._ready()

    async def on_tick(self, counter: int) -> bool:
        """Check all connections once per second."""
        if counter % 10 == 0:
            close_stalled(self.server_state.connections)
        return await super().on_tick(counter)

    def handle_exit(self, sig: int, frame: FrameType | None) -> None:
        """Stop. A second Ctrl-C is ignored; a third ends the process at once, since confirmed labels are stored."""
        self._n_signals += 1
        if self._n_signals == 1:
            super().handle_exit(sig, frame)
        elif self._n_signals > 2:
            os._exit(130)

    async def shutdown(self, sockets: list[socket.socket] | None = None) -> None:
        """End the event streams first; otherwise the shutdown waits for them and then cancels them."""
        self._stop_streams()
        await super().shutdown(sockets)


def serve(
    service: LabelingService,
    token: str,
    opened: socket.socket,
    host: str,
    ready: Callable[[], None],
    public: str | None = None,
    limits: Limits | None = None,
) -> None:
    """Serve until the process is stopped. URLs are never logged, since one contains the token."""
    # Switch threads often, so that the writer does not delay responses.
    sys.setswitchinterval(0.001)
    handler = logging.StreamHandler()
    handler.setFormatter(logging.Formatter("%(asctime)s %(message)s", "%Y-%m-%d %H:%M:%S"))
    logging.getLogger("dubito.labeling.web").addHandler(handler)
    names = {host, socket.gethostname(), socket.getfqdn()} if not is_local(host) else {host}
    is_stopping = asyncio.Event()
    limits = limits or Limits()
    limits = replace(limits, connections=allowed_connections(limits.connections))

    def stop_streams() -> None:
        is_stopping.set()
        service.announce("ping", {})

    config = uvicorn.Config(
        make_app(service, token, names, public, is_stopping, limits),
        http=connection_class(limits, is_direct=public is None),
        log_level="warning",
        access_log=False,
        server_header=False,
        timeout_graceful_shutdown=2,
        timeout_keep_alive=75,
        lifespan="on",
        ws="none",
        backlog=ACCEPT_BATCH,
        proxy_headers=public is not None,
    )
    limit_logs(("dubito.labeling.web", "uvicorn.error", "asyncio"))
    LabelServer(config, ready, stop_streams).run([opened])
