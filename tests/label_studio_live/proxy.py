"""What lies between dubito and the server: a network that loses, delays and cuts."""

import http.client
import random
import threading
import time
from collections import Counter
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

KEPT = ("Content-Type", "Location")
HAPPENINGS = {"request lost": 0.08, "answer lost": 0.1, "request late": 0.08, "answer late": 0.1}
"""What becomes of requests, and of which share of them."""


@dataclass
class Network:
    """Passes requests on, or not: each fault happens to its share of them."""

    port: int
    """Where the server listens."""
    shares: Mapping[str, float] = field(default_factory=dict)
    late: float = 6.0
    """Seconds by which what is late comes later than the client waits."""
    seed: int = 0
    happened: Counter[str] = field(default_factory=Counter)
    to_imports: Counter[str] = field(default_factory=Counter)
    """The same of requests that add tasks."""
    removed: int = 0
    """Requests that took a copy of a task away."""
    is_cut: bool = False
    noticed: Callable[[str, str, str], None] = lambda moment, method, path: None
    """Called before and after a request is passed on."""

    def __post_init__(self) -> None:
        self._rng, self._lock = random.Random(self.seed), threading.Lock()

    def fate(self, path: str) -> str:
        with self._lock:
            drawn, fate = self._rng.random(), "passed"
            for name, share in self.shares.items():
                if 0.0 <= drawn < share:
                    fate = name
                drawn -= share
            self.happened[fate] += 1
            self.to_imports[fate] += path.endswith("/import")
            return fate

    def ask(self, method: str, path: str, headers: dict[str, str], body: bytes) -> tuple[int, dict[str, str], bytes]:
        connection = http.client.HTTPConnection("127.0.0.1", self.port, timeout=120)
        try:
            connection.request(method, path, body or None, headers)
            response = connection.getresponse()
            kept = {name: value for name, value in response.getheaders() if name in KEPT}
            return response.status, kept, response.read()
        finally:
            connection.close()


def handler_of(network: Network) -> type[BaseHTTPRequestHandler]:
    class Passing(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"

        def log_message(self, format: str, *values: object) -> None:
            """In silence."""

        def do_GET(self) -> None:
            self.close_connection = True
            body = self.rfile.read(int(self.headers.get("Content-Length") or 0))
            network.noticed("before", self.command, self.path)
            if network.is_cut:
                network.happened["cut"] += 1
                return
            fate = network.fate(self.path)
            if fate == "request lost":
                return
            if fate == "request late":
                time.sleep(network.late)
            headers = {
                name: self.headers[name] for name in ("Authorization", "Accept", "Content-Type") if self.headers[name]
            }
            try:
                status, kept, data = network.ask(self.command, self.path, headers, body)
            except (OSError, http.client.HTTPException):
                network.happened["server away"] += 1
                return
            network.removed += self.command == "DELETE" and status < 300
            network.noticed("after", self.command, self.path)
            if fate == "answer lost":
                return
            if fate == "answer late":
                time.sleep(network.late)
            self._give(status, kept, data)

        do_POST = do_PATCH = do_DELETE = do_GET

        def _give(self, status: int, kept: dict[str, str], data: bytes) -> None:
            try:
                self.send_response(status)
                for name, value in kept.items():
                    self.send_header(name, value)
                self.send_header("Content-Length", str(len(data)))
                self.send_header("Connection", "close")
                self.end_headers()
                self.wfile.write(data)
            except OSError:
                network.happened["nobody waits"] += 1

    return Passing


class QuietServer(ThreadingHTTPServer):
    daemon_threads = True
    request_queue_size = 64

    def handle_error(self, request: object, client_address: object) -> None:
        """A client that is killed leaves no trace here."""


@contextmanager
def between(network: Network) -> Iterator[str]:
    """The address under which the server is found behind this network."""
    server = QuietServer(("127.0.0.1", 0), handler_of(network))
    thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.05}, daemon=True)
    thread.start()
    try:
        yield f"http://127.0.0.1:{server.server_address[1]}"
    finally:
        server.shutdown()
        server.server_close()
        thread.join()
