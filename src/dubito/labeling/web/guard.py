"""What stands before every request: whose it is, where it comes from, how large it may be; and what every answer says.

Plain ASGI, so that nothing a route does can pass it by.
"""

import hmac
import json
from collections.abc import Awaitable, Callable, Iterable, MutableMapping
from contextlib import suppress
from ipaddress import ip_address
from typing import Any
from urllib.parse import unquote

from dubito.labeling.web.limits import Limits, TokenCheck, TooManyGuesses

Scope = MutableMapping[str, Any]
Message = MutableMapping[str, Any]
Receive = Callable[[], Awaitable[Message]]
Send = Callable[[Message], Awaitable[None]]
App = Callable[[Scope, Receive, Send], Awaitable[None]]

COOKIE = "dubito-token"
MOST_SIGN_IN = 4096
MOST_JSON = 16_000_000
MOST_UPLOAD = 1_000_000_000
MOST_COOKIES = 16
"""Tokens in the cookies of one request; a browser sends those of every port of a host."""
SAFE = ("GET", "HEAD", "OPTIONS")
OPEN = {("GET", "/"), ("POST", "/sign-in"), ("GET", "/page/style.css"), ("GET", "/page/icon.svg")}
"""What needs no token: the page that asks for it."""

POLICY = (
    "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self' data: blob:; connect-src 'self'; "
    "font-src 'self'; form-action 'self'; frame-ancestors 'none'; base-uri 'none'"
)
HEADERS = [
    (b"content-security-policy", POLICY.encode()),
    (b"x-content-type-options", b"nosniff"),
    (b"x-frame-options", b"DENY"),
    (b"referrer-policy", b"same-origin"),
    (b"cross-origin-opener-policy", b"same-origin"),
    (b"cross-origin-resource-policy", b"same-origin"),
    (b"permissions-policy", b"camera=(), microphone=(), geolocation=()"),
]


def most_bytes(path: str) -> int:
    """How large the body of a request may be."""
    return {"/api/probabilities": MOST_UPLOAD, "/sign-in": MOST_SIGN_IN}.get(path, MOST_JSON)


class TooLarge(Exception):
    """A body beyond its bound."""


class Guard:
    """Checks each request, and passes on what is right.

    Parameters
    ----------
    app : ASGI application
        What is guarded.
    token : str
        Who has it may do everything, nobody else anything.
    hosts : set of str
        Names by which the server may be called, besides addresses of numbers: a name that somebody else's DNS leads
        here is none of them.
    public : str, optional
        The origin by which people call a server that passes their requests on to this one.
    limits : Limits, optional
        How many wrong tokens are taken.
    """

    def __init__(
        self, app: App, token: str, hosts: set[str], public: str | None = None, limits: Limits | None = None
    ) -> None:
        self._app, self._token, self._hosts = app, token.encode(), {host.lower() for host in hosts}
        self._public = None if public is None else public.lower()
        self._check = TokenCheck(self._fits, limits or Limits())
        self.is_tls = self._public is not None and self._public.startswith("https:")
        """Whether people come by TLS, though this server does not speak it."""
        if self._public is not None:
            self._hosts.add(_without_port(self._public.partition("//")[2]))

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Refuse, or pass on."""
        if scope["type"] != "http":
            if scope["type"] == "lifespan":
                await self._app(scope, receive, send)
            return
        headers = {name.decode("latin-1"): value.decode("latin-1") for name, value in reversed(scope["headers"])}
        refusal = self._refusal(scope, headers)
        if refusal is not None:
            await _refuse(send, *refusal)
            return
        await self._pass_on(scope, receive, send, headers)

    async def _pass_on(self, scope: Scope, receive: Receive, send: Send, headers: dict[str, str]) -> None:
        most = most_bytes(scope["path"])
        n_read, is_too_large = 0, False

        async def bounded() -> Message:
            nonlocal n_read, is_too_large
            message = await receive()
            n_read += len(message.get("body", b""))
            is_too_large = n_read > most
            if is_too_large:
                raise TooLarge
            return message

        async def with_headers(message: Message) -> None:
            if is_too_large:
                return  # Whatever is made of half a body.
            if message["type"] == "http.response.start":
                message["headers"] = [*message.get("headers", []), *_missing(message.get("headers", []))]
            await send(message)

        with suppress(TooLarge):
            await self._app(scope, bounded, with_headers)
        if is_too_large:
            await _refuse(send, 413, f"That is more than the {most:,} bytes that are taken; send less.")

    def is_right(self, scope: Scope, tokens: Iterable[str]) -> bool:
        """Whether one of a request's tokens is the right one; raises `TooManyGuesses` for a client that guesses."""
        host, port = scope.get("client") or ("", 0)
        return self._check(host, tokens, port)

    def _fits(self, token: str) -> bool:
        """Whether it is the token, in a time that tells nothing of it."""
        return hmac.compare_digest(token.encode("utf-8", "surrogateescape"), self._token)

    def _refusal(self, scope: Scope, headers: dict[str, str]) -> tuple[int, str, int | None] | None:
        try:
            found = self._refused(scope, headers)
        except TooManyGuesses as error:
            return 429, str(error), error.seconds
        return None if found is None else (*found, None)

    def _refused(self, scope: Scope, headers: dict[str, str]) -> tuple[int, str] | None:
        if not self._is_called_rightly(headers.get("host", "")):
            return 421, "This server goes by another name; open the address that it printed."
        scope["state"] = {**scope.get("state", {}), "is_known": self.is_right(scope, _tokens(headers))}
        route = (scope["method"], scope["path"])
        if not scope["state"]["is_known"] and route not in OPEN:
            return 401, "Sign in first: open the address that dubito label printed, or send the token as a Bearer."
        if scope["method"] not in SAFE:
            return self._refused_change(scope, headers)
        return None

    def _refused_change(self, scope: Scope, headers: dict[str, str]) -> tuple[int, str] | None:
        """A change must come from the server's own page, or from a program that has the token in its hands."""
        origin = headers.get("origin")
        own = f"{scope.get('scheme', 'http')}://{headers.get('host', '')}"
        if origin is not None and origin not in (own, self._public):
            return 403, "Changes are taken from this server's own page alone."
        if origin is None and _bearer(headers) is None:
            return 403, "A change without an Origin needs the token as a Bearer."
        kind = headers.get("content-type", "").partition(";")[0].strip().lower()
        wanted = _kinds(scope["path"])
        if kind not in wanted and not (scope["method"] == "DELETE" and not kind) and not _is_bare(scope, headers):
            return 415, f"Send it as {wanted[0]}."
        length = headers.get("content-length", "0")
        if not (length.isascii() and length.isdigit() and len(length) < 19):
            return 400, "Its Content-Length is no number."
        most = most_bytes(scope["path"])
        if int(length) > most:
            return 413, f"That is more than the {most:,} bytes that are taken; send less."
        return None

    def _is_called_rightly(self, host: str) -> bool:
        name = _without_port(host)
        if name.lower() in self._hosts:
            return True
        try:
            ip_address(name.strip("[]"))
        except ValueError:
            return False
        return True


def _without_port(host: str) -> str:
    return host.rsplit(":", 1)[0] if not host.endswith("]") and ":" in host else host


def _kinds(path: str) -> tuple[str, ...]:
    if path == "/sign-in":
        return ("application/x-www-form-urlencoded",)
    if path == "/api/probabilities":
        return ("application/octet-stream",)
    if path == "/api/release":
        return ("application/json", "text/plain")
    return ("application/json",)


def _is_bare(scope: Scope, headers: dict[str, str]) -> bool:
    """A request for a round, which has nothing to say."""
    return scope["path"] == "/api/round" and headers.get("content-length", "0") == "0"


def _bearer(headers: dict[str, str]) -> str | None:
    kind, _, token = headers.get("authorization", "").partition(" ")
    return token.strip() if kind.lower() == "bearer" and token.strip() else None


def cookie_name(port: int | str | None) -> str:
    """The name of the cookie; it has the port, since a browser gives cookies to every port of a host."""
    return f"{COOKIE}-{port or 80}"


def _tokens(headers: dict[str, str]) -> list[str]:
    """What a request shows as its token: a Bearer, and our own cookies, the one of this port first.

    Cookies of other programs on the same host may hold anything.
    """
    parts = (part.strip().partition("=") for part in headers.get("cookie", "").split(";"))
    ours = [(name, value) for name, _, value in parts if name == COOKIE or name.startswith(f"{COOKIE}-")]
    port = headers.get("host", "").rpartition(":")[2]
    ours.sort(key=lambda each: each[0] != cookie_name(port if port.isdigit() else None))
    bearer = _bearer(headers)
    found = [unquote(value.strip('"')) for _, value in ours[:MOST_COOKIES]]
    return found if bearer is None else [bearer, *found]


def _missing(headers: list[tuple[bytes, bytes]]) -> list[tuple[bytes, bytes]]:
    known = {name.lower() for name, _ in headers}
    more = [(name, value) for name, value in HEADERS if name not in known]
    return more if b"cache-control" in known else [*more, (b"cache-control", b"no-store")]


async def _refuse(send: Send, status: int, sentence: str, retry_after: int | None = None) -> None:
    body = json.dumps({"error": sentence}).encode()
    headers = [(b"content-type", b"application/json"), (b"content-length", str(len(body)).encode())]
    more = [(b"www-authenticate", b"Bearer")] if status == 401 else []
    more += [] if retry_after is None else [(b"retry-after", str(retry_after).encode())]
    await send({"type": "http.response.start", "status": status, "headers": [*headers, *more, *_missing(headers)]})
    await send({"type": "http.response.body", "body": body})
