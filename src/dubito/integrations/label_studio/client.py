"""HTTP client for a Label Studio server, with retries, limits on responses, and errors in one line."""

import base64
import http.client
import json
import os
import ssl
import time
import urllib.error
import urllib.request
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from typing import IO, Any
from urllib.parse import urlencode, urlsplit

from dubito.errors import DubitoError, InvalidArgument, MissingFile

# Tokens: legacy ones are used as they are, personal ones are exchanged for access tokens that last a few minutes.

TOKEN_VARIABLE = "LABEL_STUDIO_API_KEY"
"""Environment variable with the token, the same as for Label Studio's own tools."""
MAX_TOKEN_LENGTH = 4096
REFRESH_PATH = "/api/token/refresh/"

Post = Callable[[str, object], Any]
"""Sends a body to a path without a token, and returns the response."""


class AccessToken:
    """A token, and the ``Authorization`` header for it. Its text is never shown.

    Examples
    --------
    >>> token = AccessToken("0123abcd")
    >>> token
    AccessToken(legacy)
    >>> token.header(lambda path, body: {})
    'Token 0123abcd'
    """

    def __init__(self, text: str) -> None:
        text = text.strip()
        if not text or len(text) > MAX_TOKEN_LENGTH or not text.isascii() or any(letter.isspace() for letter in text):
            hint = "copy all of it, and nothing else, from Account & Settings of Label Studio."
            raise InvalidArgument("the token of Label Studio is empty or invalid", hint=hint)
        self._text = text
        self.kind = _kind_of_token(text)
        self._access: str | None = text if self.kind == "access" else None

    @property
    def can_renew(self) -> bool:
        """Whether an expired access token can be replaced."""
        return self.kind == "personal"

    def header(self, post: Post) -> str:
        """The value of ``Authorization``. A personal token is first exchanged for an access token."""
        if self.kind == "legacy":
            return f"Token {self._text}"
        if self._access is None:
            self._access = str(post(REFRESH_PATH, {"refresh": self._text})["access"])
        return f"Bearer {self._access}"

    def forget_access(self) -> None:
        """Drop an expired access token, so that the next header requests another."""
        self._access = None

    def __repr__(self) -> str:
        return f"AccessToken({self.kind})"


def read_token(path: str | None = None) -> AccessToken:
    """The token from a file or from the variable LABEL_STUDIO_API_KEY; on a command line, other users could read it."""
    if path is None:
        found = os.environ.get(TOKEN_VARIABLE, "")
        if not found.strip():
            hint = f"set {TOKEN_VARIABLE} to it, or pass --token-file FILE."
            raise InvalidArgument("there is no token for Label Studio", hint=hint)
        return AccessToken(found)
    try:
        with open(path, encoding="utf-8") as file:
            return AccessToken(file.read(MAX_TOKEN_LENGTH + 2))
    except (OSError, UnicodeDecodeError) as error:
        reason = getattr(error, "strerror", None) or "it is not text"
        problem = f"{path}, the file of the token, cannot be read ({reason})"
        raise MissingFile(problem, hint="pass --token-file FILE.") from None


def _kind_of_token(text: str) -> str:
    """``legacy``, ``personal`` (a refresh token) or ``access``, by the claims of a JSON web token."""
    parts = text.split(".")
    if len(parts) != 3:
        return "legacy"
    try:
        claims = json.loads(base64.urlsafe_b64decode(parts[1] + "=" * (-len(parts[1]) % 4)))
    except ValueError:
        return "legacy"
    return "access" if isinstance(claims, dict) and claims.get("token_type") == "access" else "personal"


MAX_RESPONSE_BYTES = 256 << 20
"""Maximum size of a response in bytes."""
CHUNK_BYTES = 1 << 16
RETRY_STATUSES = (429, 500, 502, 503, 504)
"""Status codes after which a request is repeated."""
MAX_DETAIL_LENGTH = 300
LOCAL_HOSTS = ("localhost", "127.0.0.1", "::1")
RUN_AGAIN = "run the same command again; nothing is added twice."


class Unreachable(DubitoError, ConnectionError):
    """There was no usable response to any try; the request may succeed later."""


class ResponseLost(Unreachable):
    """There was no response to a change, so it is unknown whether the server made it."""


class ServerRefused(DubitoError):
    """The server rejected the request with an HTTP status."""

    status = 0


@dataclass(frozen=True, slots=True)
class RetryPolicy:
    """How long to wait for a response, and how often to try."""

    timeout: float = 60.0
    tries: int = 6
    first_pause: float = 0.5
    longest_pause: float = 8.0

    def pause(self, tried: int) -> float:
        """Seconds before the next try, twice as long each time."""
        return min(self.longest_pause, self.first_pause * 2.0**tried)


class _NoRedirects(urllib.request.HTTPRedirectHandler):
    """Follow no redirects: the token is only sent to the address that the user named."""

    def redirect_request(
        self, req: urllib.request.Request, fp: IO[bytes], code: int, msg: str, headers: Any, newurl: str
    ) -> None:
        return None


class Server:
    """A Label Studio server and the token for it.

    Parameters
    ----------
    url : str
        The address, such as ``https://labels.example.org``; certificates are verified.
    token : AccessToken
        A legacy or personal token.
    retry_policy : RetryPolicy
        Timeout and number of tries.
    """

    def __init__(self, url: str, token: AccessToken, retry_policy: RetryPolicy | None = None) -> None:
        self.url = check_url(url)
        self.retry_policy = RetryPolicy() if retry_policy is None else retry_policy
        self._token = token
        handlers: list[Any] = [_NoRedirects()]
        if urlsplit(self.url).hostname in LOCAL_HOSTS:
            handlers.append(urllib.request.ProxyHandler({}))
        self._opener = urllib.request.build_opener(*handlers)

    @property
    def is_unencrypted(self) -> bool:
        """Whether the token is sent to another machine without encryption."""
        parts = urlsplit(self.url)
        return parts.scheme == "http" and parts.hostname not in LOCAL_HOSTS

    def read(self, path: str, query: Mapping[str, object] | None = None) -> Any:
        """Send a GET request, which is repeated if there is no response."""
        where = path if query is None else f"{path}?{urlencode(query, doseq=True)}"
        return self._with_retries(lambda: self._send_authorized("GET", where))

    def change(self, method: str, path: str, body: object = None) -> Any:
        """Send an idempotent change (PATCH, DELETE), which is repeated if there is no response."""
        return self._with_retries(lambda: self._send_authorized(method, path, body))

    def add(self, path: str, body: object) -> Any:
        """Send a POST request once. Raises `ResponseLost` if it is unknown whether it succeeded."""
        try:
            return self._send_authorized("POST", path, body)
        except Unreachable as error:
            raise ResponseLost(error.problem, hint=error.hint) from None

    def _with_retries(self, ask: Callable[[], Any]) -> Any:
        for tried in range(self.retry_policy.tries):
            try:
                return ask()
            except Unreachable:
                if tried + 1 == self.retry_policy.tries:
                    raise
                time.sleep(self.retry_policy.pause(tried))
        raise AssertionError("tries must be at least 1")

    def _send_authorized(self, method: str, path: str, body: object = None) -> Any:
        """Send a request with the token, and once more if the access token has expired."""
        try:
            return self._send(method, path, body, self._token.header(self._exchange_token))
        except ServerRefused as error:
            if error.status != 401 or not self._token.can_renew:
                raise
        self._token.forget_access()
        return self._send(method, path, body, self._token.header(self._exchange_token))

    def _exchange_token(self, path: str, body: object) -> Any:
        response = self._send("POST", path, body, None)
        if not isinstance(response, dict) or "access" not in response:
            raise self.unexpected_response(path)
        return response

    def _send(self, method: str, path: str, body: object, authorization: str | None) -> Any:
        headers = {"Accept": "application/json", "Content-Type": "application/json"}
        if authorization is not None:
            headers["Authorization"] = authorization
        data = None if body is None else json.dumps(body).encode()
        request = urllib.request.Request(self.url + path, data, headers, method=method)
        try:
            with self._opener.open(request, timeout=self.retry_policy.timeout) as response:
                return self._parsed(path, self._read_body(response))
        except urllib.error.HTTPError as error:
            with error:
                raise self._error_of(path, error) from None
        except (OSError, http.client.HTTPException) as error:
            raise self._no_response(error) from None

    def _read_body(self, response: IO[bytes]) -> bytes:
        """The body of a response, with limits on size and total time."""
        parts, size, deadline = [], 0, time.monotonic() + 10.0 * self.retry_policy.timeout
        while part := response.read(CHUNK_BYTES):
            parts.append(part)
            size += len(part)
            if size > MAX_RESPONSE_BYTES:
                hint = "use dubito import with a file that it exports."
                raise DubitoError(f"{self.url} answered with more than {MAX_RESPONSE_BYTES >> 20} MiB", hint=hint)
            if time.monotonic() > deadline:
                raise TimeoutError("it sends too slowly")
        return b"".join(parts)

    def _parsed(self, path: str, data: bytes) -> Any:
        if not data:
            return None
        try:
            return json.loads(data)
        except (ValueError, RecursionError):
            raise self.unexpected_response(path, "JSON") from None

    def unexpected_response(self, path: str, expected: str | None = None) -> DubitoError:
        """The error for a response that Label Studio would not send."""
        hint = "pass the address at which Label Studio's pages begin."
        wanted = "" if expected is None else f" (expected {expected})"
        problem = f"{self.url} does not answer {path.partition('?')[0]} as Label Studio does{wanted}"
        return DubitoError(problem, hint=hint)

    @contextmanager
    def parsing(self, path: str, expected: str) -> Iterator[None]:
        """Convert errors from reading a response in an unexpected form; ``expected`` describes the right form."""
        try:
            yield
        except DubitoError:
            raise
        except (TypeError, KeyError, AttributeError, ValueError, IndexError, OverflowError) as error:
            raise self.unexpected_response(path, expected) from error

    def _no_response(self, error: Exception) -> DubitoError:
        cause = error.reason if isinstance(error, urllib.error.URLError) else error
        if isinstance(cause, ssl.SSLCertVerificationError):
            hint = "fix its certificate, or set SSL_CERT_FILE to that of its authority."
            return DubitoError(f"{self.url} has no valid certificate ({cause.verify_message})", hint=hint)
        reason = " ".join(str(cause).split()) or type(cause).__name__
        return Unreachable(f"{self.url} does not answer ({reason})", hint=f"check that it is running, then {RUN_AGAIN}")

    def _error_of(self, path: str, response: urllib.error.HTTPError) -> DubitoError:
        """The error for a response with an error status."""
        status = response.code
        if 300 <= status < 400:
            return self._redirected(response.headers.get("Location") or "nowhere")
        detail = _detail(response)
        if status in RETRY_STATUSES:
            failed = f"{self.url} failed ({status}: {detail or 'no message'})"
            return Unreachable(failed, hint=f"check its log, then {RUN_AGAIN}")
        if status in (404, 405) and not detail:
            return self.unexpected_response(path)
        problem = f"{self.url} refused ({status}: {detail or 'no message'})"
        error = ServerRefused(problem, hint=_HINTS.get(status, "fix the problem that it reports."))
        error.status = status
        return error

    def _redirected(self, location: str) -> DubitoError:
        target = urlsplit(location)
        if target.hostname in (None, urlsplit(self.url).hostname):
            hint = "pass the address that it ends at, with https:// if it redirects to that."
        else:
            hint = "a token is not sent to another host; pass that address if you trust it."
        shown = f"{target.scheme}://{target.netloc}{target.path}" if target.netloc else target.path
        return InvalidArgument(f"redirects to {shown}", argument="url", value=self.url, hint=hint)


_HINTS = {
    401: f"create a token under Account & Settings there, and set {TOKEN_VARIABLE} to it.",
    403: "ask its administrator to let the owner of this token change the project.",
    404: "check the address and the project.",
    413: "configure its proxy to accept larger requests.",
}


def check_url(url: str) -> str:
    """The address without a final slash; raises unless it is an HTTP address."""
    try:
        parts = urlsplit(url)
        is_good = parts.scheme in ("http", "https") and bool(parts.hostname) and parts.port != 0
    except ValueError:
        is_good, parts = False, urlsplit("")
    if not is_good or parts.username is not None or parts.query or parts.fragment or not url.isascii():
        hint = "pass an address such as https://labels.example.org or http://localhost:8080."
        shown = "(with a password)" if parts.username is not None else url
        raise InvalidArgument("is not the address of a server", argument="url", value=shown, hint=hint)
    return url.rstrip("/")


def _detail(body: IO[bytes]) -> str:
    """The server's error message on one line, shortened; empty for an HTML page."""
    try:
        text = body.read(CHUNK_BYTES).decode("utf-8", errors="replace")
    except (OSError, http.client.HTTPException):
        return ""
    try:
        found = json.loads(text)
    except (ValueError, RecursionError):
        return "" if "<" in text else " ".join(text.split())[:MAX_DETAIL_LENGTH]
    if isinstance(found, dict):
        found = found.get("validation_errors") or found.get("detail") or found
    message = found if isinstance(found, str) else json.dumps(found, ensure_ascii=False)
    return " ".join(message.split()).rstrip(".")[:MAX_DETAIL_LENGTH]
