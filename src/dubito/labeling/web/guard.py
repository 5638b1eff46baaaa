"""Checks every request (token, host, origin, content type, size) and adds security headers to every response.

It is plain ASGI around the whole application, so that no route can bypass it.
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
MAX_SIGN_IN_BYTES = 4096
MAX_JSON_BYTES = 16_000_000
MAX_UPLOAD_BYTES = 1_000_000_000
MAX_COOKIES = 16
"""Maximum number of cookies checked per request; a browser sends those of every port of a host."""
SAFE_METHODS = ("GET", "HEAD", "OPTIONS")
PUBLIC_ROUTES = {("GET", "/"), ("POST", "/sign-in"), ("GET", "/page/style.css"), ("GET", "/page/icon.svg")}
"""Routes that need no token: the sign-in page and its files."""

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


def max_body_bytes(path: str) -> int:
    """Maximum size of a request body."""
    return {"/api/probabilities": MAX_UPLOAD_BYTES, "/sign-in": MAX_SIGN_IN_BYTES}.get(path, MAX_JSON_BYTES)


class TooLarge(Exception):
    """A request body exceeds its maximum size."""


class Guard:
    """ASGI middleware that rejects invalid requests and passes on all others.

    Parameters
    ----------
    app : ASGI application
        The application to protect.
    token : str
        The secret that grants full access; without it nothing is accessible.
    hosts : set of str
        Allowed host names, in addition to IP addresses; other names are rejected to prevent DNS rebinding.
    public : str, optional
        The public origin of a reverse proxy in front of this server.
    limits : Limits, optional
        Limits on wrong tokens.
    """

    def __init__(
        self, app: App, token: str, hosts: set[str], public: str | None = None, limits: Limits | None = None
    ) -> None:
        self._app, self._token, self._hosts = app, token.encode(), {host.lower() for host in hosts}
        self._public = None if public is None else public.lower()
        self._check = TokenCheck(self._matches, limits or Limits())
        self.is_tls = self._public is not None and self._public.startswith("https:")
        """Whether a proxy serves this server over TLS."""
        if self._public is not None:
            self._hosts.add(_without_port(self._public.partition("//")[2]))

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Reject the request or pass it on."""
        if scope["type"] != "http":
            if scope["type"] == "lifespan":
                await self._app(scope, receive, send)
            return
        headers = {name.decode("latin-1"): value.decode("latin-1") for name, value in reversed(scope["headers"])}
        try:
            refusal = self._check_request(scope, headers)
        except TooManyGuesses as error:
            await _refuse(send, 429, str(error), error.seconds)
            return
        if refusal is not None:
            await _refuse(send, *refusal)
            return
        await self._forward(scope, receive, send)

    async def _forward(self, scope: Scope, receive: Receive, send: Send) -> None:
        limit = max_body_bytes(scope["path"])
        n_read, is_too_large = 0, False

        async def receive_bounded() -> Message:
            nonlocal n_read, is_too_large
            message = await receive()
            n_read += len(message.get("body", b""))
            is_too_large = n_read > limit
            if is_too_large:
                raise TooLarge
            return message

        async def send_with_headers(message: Message) -> None:
            if is_too_large:
                return  # Drop the application's response to a partial body.
            if message["type"] == "http.response.start":
                message["headers"] = [*message.get("headers", []), *_missing_headers(message.get("headers", []))]
            await send(message)

        with suppress(TooLarge):
            await self._app(scope, receive_bounded, send_with_headers)
        if is_too_large:
            await _refuse(send, 413, f"The request exceeds {limit:,} bytes; send less.")

    def is_authorized(self, scope: Scope, tokens: Iterable[str]) -> bool:
        """Whether one of the tokens is right; raises `TooManyGuesses` for a client that guesses."""
        host, port = scope.get("client") or ("", 0)
        return self._check(host, tokens, port)

    def _matches(self, token: str) -> bool:
        """Compare in constant time."""
        return hmac.compare_digest(token.encode("utf-8", "surrogateescape"), self._token)

    def _check_request(self, scope: Scope, headers: dict[str, str]) -> tuple[int, str] | None:
        """The status and the message with which to reject the request, or None; may raise `TooManyGuesses`."""
        if not self._is_allowed_host(headers.get("host", "")):
            return 421, "This server has another host name; open the address that it printed."
        scope["state"] = {**scope.get("state", {}), "is_signed_in": self.is_authorized(scope, _tokens(headers))}
        route = (scope["method"], scope["path"])
        if not scope["state"]["is_signed_in"] and route not in PUBLIC_ROUTES:
            return 401, "Sign in first: open the address that dubito label printed, or send a Bearer token."
        if scope["method"] not in SAFE_METHODS:
            return self._check_write(scope, headers)
        return None

    def _check_write(self, scope: Scope, headers: dict[str, str]) -> tuple[int, str] | None:
        """Check that a write comes from the server's own page (same origin), or from a program that sends the token."""
        origin = headers.get("origin")
        own_origin = f"{scope.get('scheme', 'http')}://{headers.get('host', '')}"
        if origin is not None and origin not in (own_origin, self._public):
            return 403, "Changes are accepted only from this server's own page."
        if origin is None and _bearer(headers) is None:
            return 403, "A change without an Origin header needs a Bearer token."
        kind = headers.get("content-type", "").partition(";")[0].strip().lower()
        allowed = _content_types(scope["path"])
        is_bodyless = scope["method"] == "DELETE" and not kind
        if kind not in allowed and not is_bodyless and not _is_empty_round_request(scope, headers):
            return 415, f"Send it as {allowed[0]}."
        length = headers.get("content-length", "0")
        if not (length.isascii() and length.isdigit() and len(length) < 19):
            return 400, "Content-Length is not a number."
        limit = max_body_bytes(scope["path"])
        if int(length) > limit:
            return 413, f"The request exceeds {limit:,} bytes; send less."
        return None

    def _is_allowed_host(self, host: str) -> bool:
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


def _content_types(path: str) -> tuple[str, ...]:
    if path == "/sign-in":
        return ("application/x-www-form-urlencoded",)
    if path == "/api/probabilities":
        return ("application/octet-stream",)
    if path == "/api/release":
        return ("application/json", "text/plain")
    return ("application/json",)


def _is_empty_round_request(scope: Scope, headers: dict[str, str]) -> bool:
    """Whether it requests a round, which needs no body."""
    return scope["path"] == "/api/round" and headers.get("content-length", "0") == "0"


def _bearer(headers: dict[str, str]) -> str | None:
    kind, _, token = headers.get("authorization", "").partition(" ")
    return token.strip() if kind.lower() == "bearer" and token.strip() else None


def cookie_name(port: int | str | None) -> str:
    """The name of the cookie; includes the port, since browsers share cookies between the ports of a host."""
    return f"{COOKIE}-{port or 80}"


def _tokens(headers: dict[str, str]) -> list[str]:
    """The tokens of a request: the bearer token, then our cookies, starting with the one of this port.

    Cookies of other programs on the same host are ignored.
    """
    parts = (part.strip().partition("=") for part in headers.get("cookie", "").split(";"))
    ours = [(name, value) for name, _, value in parts if name == COOKIE or name.startswith(f"{COOKIE}-")]
    port = headers.get("host", "").rpartition(":")[2]
    ours.sort(key=lambda each: each[0] != cookie_name(port if port.isdigit() else None))
    bearer = _bearer(headers)
    found = [unquote(value.strip('"')) for _, value in ours[:MAX_COOKIES]]
    return found if bearer is None else [bearer, *found]


def _missing_headers(headers: list[tuple[bytes, bytes]]) -> list[tuple[bytes, bytes]]:
    known = {name.lower() for name, _ in headers}
    extra = [(name, value) for name, value in HEADERS if name not in known]
    return extra if b"cache-control" in known else [*extra, (b"cache-control", b"no-store")]


async def _refuse(send: Send, status: int, sentence: str, retry_after: int | None = None) -> None:
    body = json.dumps({"error": sentence}).encode()
    headers = [(b"content-type", b"application/json"), (b"content-length", str(len(body)).encode())]
    extra = [(b"www-authenticate", b"Bearer")] if status == 401 else []
    extra += [] if retry_after is None else [(b"retry-after", str(retry_after).encode())]
    headers = [*headers, *extra, *_missing_headers(headers)]
    await send({"type": "http.response.start", "status": status, "headers": headers})
    await send({"type": "http.response.body", "body": body})
