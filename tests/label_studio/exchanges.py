"""What went between dubito and a real Label Studio, recorded and played again: real HTTP, real answers.

A recorder stands between the two and writes down each request with its answer; tokens and addresses are replaced by
those of the tests. A replayer answers with what was written down, as long as the same requests come in the same order.
Either may lose an answer, double a request or spoil a token on the way, as a script of faults says.
"""

import json
import threading
import urllib.error
import urllib.request
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any, NamedTuple

ANSWERS = Path(__file__).parent / "answers"
OWNER, SECOND = "token-of-the-owner", "token-of-a-second-person"
PERSONAL = "e30.eyJ0b2tlbl90eXBlIjoicmVmcmVzaCJ9.c2lnbmVk"
"""Says of itself that it is a refresh token."""
HOST = "http://studio.example"
NO_ANSWER = 0


class Fault(NamedTuple):
    """What happens to the nth request of a kind."""

    method: str
    ends_with: str
    nth: int
    what: str
    """``lose`` the answer, ``cut`` the request, ``double`` it and lose both answers, or ``spoil`` the token."""


class Exchange(NamedTuple):
    """A request, and what came back."""

    method: str
    path: str
    scheme: str | None
    body: Any
    status: int
    answer: Any


def coarse(value: Any) -> Any:
    """A body whose numbers are rounded: a model's last digits are its machine's."""
    if isinstance(value, float):
        return round(value, 6)
    if isinstance(value, Mapping):
        return {key: coarse(each) for key, each in value.items()}
    return [coarse(each) for each in value] if isinstance(value, list) else value


@dataclass
class Tape:
    """Exchanges in their order; a recorder adds to them, a replayer takes from them."""

    exchanges: list[Exchange] = field(default_factory=list)
    strays: list[str] = field(default_factory=list)
    place: int = 0
    lock: threading.Lock = field(default_factory=threading.Lock)

    def next(self, method: str, path: str, scheme: str | None, body: Any) -> Exchange | None:
        """The exchange that is due, where the request is that one."""
        with self.lock:
            due = self.exchanges[self.place] if self.place < len(self.exchanges) else None
            if due is None or due[:3] != (method, path, scheme) or coarse(due.body) != coarse(body):
                self.strays.append(f"{method} {path} ({scheme}) {json.dumps(body)[:200]}, but due was {str(due)[:300]}")
                return None
            self.place += 1
            return due

    @property
    def is_over(self) -> bool:
        return not self.strays and self.place == len(self.exchanges)


class _Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"

    def log_message(self, format: str, *values: object) -> None:
        """In silence."""

    def _take(self) -> tuple[str | None, Any]:
        data = self.rfile.read(int(self.headers.get("Content-Length") or 0))
        return self.headers.get("Authorization"), json.loads(data) if data else None

    def _give(self, status: int, answer: Any) -> None:
        if status == NO_ANSWER:
            self.close_connection = True
            return
        html = answer["html"] if isinstance(answer, dict) and answer.keys() == {"html"} else None
        data = b"" if answer is None else (html if html is not None else json.dumps(answer)).encode()
        self.send_response(status)
        if isinstance(answer, dict) and "location" in answer and 300 <= status < 400:
            self.send_header("Location", answer["location"])
        self.send_header("Content-Type", "text/html" if html is not None else "application/json")
        self.send_header("Content-Length", str(len(data)))
        self.end_headers()
        self.wfile.write(data)

    def do_GET(self) -> None:
        self.answer()

    do_POST = do_PATCH = do_DELETE = do_GET

    def answer(self) -> None:
        raise NotImplementedError


@contextmanager
def serving(handler: type[_Handler]) -> Iterator[str]:
    """The address of a server with this handler, while the block runs."""
    server = ThreadingHTTPServer(("127.0.0.1", 0), handler)
    server.daemon_threads = True
    thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.02}, daemon=True)
    thread.start()
    try:
        yield f"http://127.0.0.1:{server.server_address[1]}"
    finally:
        server.shutdown()
        server.server_close()
        thread.join()


@contextmanager
def replaying(name: str) -> Iterator[str]:
    """A server that answers as the real one did; fails where other requests came, or too few."""
    recorded = json.loads((ANSWERS / f"{name}.json").read_text(encoding="utf-8"))
    tape = Tape([Exchange(**each) for each in recorded["exchanges"]])

    class Replayer(_Handler):
        def answer(self) -> None:
            authorization, body = self._take()
            scheme = None if authorization is None else authorization.split()[0]
            due = tape.next(self.command, self.path, scheme, body)
            if due is None:
                self._give(418, {"detail": tape.strays[-1]})
            else:
                self._give(due.status, due.answer)

    with serving(Replayer) as url:
        yield url
    assert not tape.strays, tape.strays[0]
    assert tape.is_over, f"not asked for: {tape.exchanges[tape.place][:2]}"


@dataclass
class Recorder:
    """Between dubito and the real server."""

    upstream: str
    tokens: Mapping[str, str]
    """The real token for each of the tests'."""
    faults: Sequence[Fault] = ()
    tape: Tape = field(default_factory=Tape)
    seen: dict[tuple[str, str], int] = field(default_factory=dict)
    access: dict[str, str] = field(default_factory=dict)

    def fault(self, method: str, path: str) -> str | None:
        for each in self.faults:
            if each.method == method and path.partition("?")[0].endswith(each.ends_with):
                key = each.method, each.ends_with
                if each.nth == self.seen.get(key, 0) + 1:
                    self.seen[key] = each.nth
                    return each.what
        for key in {(each.method, each.ends_with) for each in self.faults}:
            if key[0] == method and path.partition("?")[0].endswith(key[1]):
                self.seen[key] = self.seen.get(key, 0) + 1
        return None

    def forward(self, method: str, path: str, authorization: str | None, body: Any, *, spoil: bool) -> tuple[int, Any]:
        headers = {"Content-Type": "application/json", "Accept": "application/json"}
        if authorization is not None:
            scheme, token = authorization.split()
            real = self.access.get(token) or self.tokens.get(token, token)
            headers["Authorization"] = f"{scheme} {real[:-4] + 'xxxx' if spoil else real}"
        sent = {"refresh": self.tokens[PERSONAL]} if isinstance(body, dict) and "refresh" in body else body
        data = None if sent is None else json.dumps(sent).encode()
        request = urllib.request.Request(self.upstream + path, data, headers, method=method)
        opener = urllib.request.build_opener(urllib.request.ProxyHandler({}), _StaysHere())
        try:
            with opener.open(request, timeout=120) as response:
                return response.status, self.cleaned(response.read())
        except urllib.error.HTTPError as error:
            with error:
                if 300 <= error.code < 400:
                    return error.code, {"location": str(error.headers["Location"]).replace(self.upstream, HOST)}
                return error.code, self.cleaned(error.read())

    def cleaned(self, data: bytes) -> Any:
        """An answer with nothing in it of the machine that gave it."""
        text = data.decode().replace(self.upstream, HOST)
        try:
            found = json.loads(text) if text else None
        except ValueError:
            return {"html": text[:400]}
        if isinstance(found, dict) and "access" in found:
            name = f"access-{len(self.access) + 1}"
            self.access[name] = found["access"]
            found = {"access": name}
        return found


class _StaysHere(urllib.request.HTTPRedirectHandler):
    def redirect_request(self, *given: Any) -> None:
        return None


@contextmanager
def recording(recorder: Recorder) -> Iterator[str]:
    """A server that forwards, and writes everything down."""

    class Forwarder(_Handler):
        def answer(self) -> None:
            authorization, body = self._take()
            fault = recorder.fault(self.command, self.path)
            status, answer = NO_ANSWER, None
            if fault != "cut":
                for _ in range(2 if fault == "double" else 1):
                    status, answer = recorder.forward(
                        self.command, self.path, authorization, body, spoil=fault == "spoil"
                    )
            if fault in ("lose", "double"):
                status, answer = NO_ANSWER, None
            scheme = None if authorization is None else authorization.split()[0]
            recorder.tape.exchanges.append(Exchange(self.command, self.path, scheme, body, status, answer))
            self._give(status, answer)

    with serving(Forwarder) as url:
        yield url
