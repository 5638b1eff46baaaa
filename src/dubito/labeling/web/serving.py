"""Listening: on this machine alone unless somebody says otherwise, and never without a token."""

import asyncio
import errno
import logging
import re
import socket
import sys
from collections.abc import Callable
from dataclasses import replace
from ipaddress import ip_address

import uvicorn

from dubito.errors import InvalidArgument
from dubito.labeling.service import LabelingService
from dubito.labeling.web.app import make_app
from dubito.labeling.web.connections import AT_ONCE, allowed_connections, bound_logs, close_stalled, connection_class
from dubito.labeling.web.limits import Limits

PORT = 8901
TRIES = 20
"""Ports after the first that are tried, where none was asked for."""
WAITING = 128
"""Connections that the system holds until they are accepted."""


def is_local(host: str) -> bool:
    """Whether an address is this machine's own."""
    if host == "localhost":
        return True
    try:
        return ip_address(host).is_loopback
    except ValueError:
        return False


def read_public(url: str) -> str:
    """The origin of an address, as a browser sends it.

    Examples
    --------
    >>> read_public("https://Labels.example.org:443/")
    'https://labels.example.org'
    """
    found = re.fullmatch(r"(https?)://([a-z0-9.-]+|\[[0-9a-f:.]+\])(?::([0-9]{1,5}))?/?", url.lower())
    if found is None:
        hint = "write https://labels.example.org: a name, perhaps a port, no path."
        raise InvalidArgument("is no address of a server", argument="public", value=url, hint=hint)
    scheme, name, port = found.groups()
    is_usual = port is None or int(port) == {"https": 443, "http": 80}[scheme]
    return f"{scheme}://{name}" if is_usual else f"{scheme}://{name}:{int(port)}"


def open_socket(host: str, port: int | None) -> socket.socket:
    """A socket that listens; without a port, the first that is free from `PORT` on."""
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    wanted = [port] if port is not None else list(range(PORT, PORT + TRIES))
    for number in wanted:
        # Said outright: only of such a socket does asyncio turn Nagle's wait of 40 ms off.
        opened = socket.socket(family, socket.SOCK_STREAM, socket.IPPROTO_TCP)
        opened.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            opened.bind((host, number))
        except OSError as error:
            opened.close()
            if isinstance(error, socket.gaierror) or error.errno == errno.EADDRNOTAVAIL:
                hint = "name an address of this machine, such as 127.0.0.1."
                raise InvalidArgument("is none of this machine", argument="host", value=host, hint=hint) from None
            reason = (error.strerror or str(error)).lower()
            if number == wanted[-1]:
                hint = "choose another, or leave it out."
                raise InvalidArgument(
                    f"cannot be listened on: {reason}", argument="port", value=number, hint=hint
                ) from None
            continue
        opened.listen(WAITING)
        return opened
    raise AssertionError


def address_of(opened: socket.socket, host: str) -> str:
    """The address that a person opens."""
    shown = {"0.0.0.0": socket.gethostname(), "::": socket.gethostname()}.get(host, host)
    return f"http://{f'[{shown}]' if ':' in shown else shown}:{opened.getsockname()[1]}/"


class Ready(uvicorn.Server):
    """A server that says when it listens, and closes connections that keep it waiting."""

    def __init__(self, config: uvicorn.Config, ready: Callable[[], None], stop_streams: Callable[[], None]) -> None:
        super().__init__(config)
        self._ready, self._stop_streams = ready, stop_streams

    async def startup(self, sockets: list[socket.socket] | None = None) -> None:
        """As ever, and then say so."""
        await super().startup(sockets)
        for each in sockets or ():
            each.listen(WAITING)  # uvicorn has just set it to the number that is accepted at once.
        self._ready()

    async def on_tick(self, counter: int) -> bool:
        """As ever; once in a second, look at all connections."""
        if counter % 10 == 0:
            close_stalled(self.server_state.connections)
        return await super().on_tick(counter)

    async def shutdown(self, sockets: list[socket.socket] | None = None) -> None:
        """End the event streams first, which would otherwise be waited for and then cancelled."""
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
    """Serve until the process is told to stop. No log has an address in it: the token is in one."""
    # The thread that writes should not hold up the one that answers.
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
        backlog=AT_ONCE,
        proxy_headers=public is not None,
    )
    bound_logs(("dubito.labeling.web", "uvicorn.error", "asyncio"))
    Ready(config, ready, stop_streams).run([opened])
