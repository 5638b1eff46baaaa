"""Clients without the token, over real sockets: they cannot keep others out, fill the log or guess for long."""

import json
import logging
import resource
import socket
import subprocess
import sys
from collections.abc import Iterator
from contextlib import ExitStack
from http.client import HTTPConnection
from pathlib import Path

import pytest
from starlette.testclient import TestClient

from dubito.labeling.web.app import make_app
from dubito.labeling.web.connections import LINES_PER_MINUTE, RateLimitFilter, allowed_connections
from dubito.labeling.web.limits import Limits, TokenCheck, TooManyGuesses
from labeling.projects import make_project
from web.clients import HERE, TOKEN, rows_service

FILES = 512
HANG = 60.0
"""Seconds after which a test gives up; nothing takes nearly as long."""
SERVE = """
import json, sys
from dubito.labeling.service import LabelingService
from dubito.labeling.creation import open_project
from dubito.labeling.web.limits import Limits
from dubito.labeling.web.serving import open_socket, serve

opened = open_socket("127.0.0.1", 0)
limits = Limits(**json.loads(sys.argv[3]))
ready = lambda: print(opened.getsockname()[1], flush=True)
serve(LabelingService(*open_project(sys.argv[1])), sys.argv[2], opened, "127.0.0.1", ready, limits=limits)
"""


class Running:
    """A server with low limits and few files, whose stderr goes to a file."""

    def __init__(self, folder: Path, **limits: float) -> None:
        self.log = folder / "stderr"
        with open(self.log, "wb") as log:
            self.process = subprocess.Popen(
                [sys.executable, "-c", SERVE, make_project(folder)[0].folder, TOKEN, json.dumps(limits)],
                stdout=subprocess.PIPE,
                stderr=log,
                preexec_fn=lambda: resource.setrlimit(resource.RLIMIT_NOFILE, (FILES, FILES)),
            )
        assert self.process.stdout is not None
        self.port = int(self.process.stdout.readline())

    def stop(self) -> None:
        self.process.terminate()
        self.process.wait(HANG)
        assert self.process.stdout is not None
        self.process.stdout.close()

    def connect(self, sent: bytes = b"") -> socket.socket:
        opened = socket.create_connection(("127.0.0.1", self.port), timeout=HANG)
        opened.sendall(sent)
        return opened

    def ask(self, token: str = TOKEN, source: str = "127.0.0.1") -> tuple[int, str | None]:
        """The status of an answer, and when to try again."""
        connection = HTTPConnection("127.0.0.1", self.port, timeout=HANG, source_address=(source, 0))
        try:
            connection.request("GET", "/api/project", headers={"authorization": f"Bearer {token}"})
            answer = connection.getresponse()
            return answer.status, answer.getheader("retry-after")
        finally:
            connection.close()


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Running]:
    short = dict.fromkeys(["head_seconds", "stall_seconds", "send_seconds"], 1.0)
    running = Running(tmp_path_factory.mktemp("load"), connections_per_address=40, guesses_per_address=5, **short)
    yield running
    running.stop()


def until_closed(opened: socket.socket, drip: bytes = b"") -> bytes:
    """What the server says until it closes the connection; meanwhile a byte is sent again and again."""
    opened.settimeout(0.2 if drip else HANG)
    found = b""
    with opened:
        for _ in range(int(HANG / 0.2)):
            try:
                if drip:
                    opened.sendall(drip)
                data = opened.recv(65536)
            except TimeoutError:
                assert drip, "the server holds a connection that keeps it waiting"
                continue
            except ConnectionError:
                return found
            if not data:
                return found
            found += data
    raise AssertionError("the server holds a connection that keeps it waiting")


KNOWN = f"Authorization: Bearer {TOKEN}\r\n"
HEAD = b"GET / HTTP/1.1\r\nHost: 127.0.0.1\r\n"


@pytest.mark.slow
@pytest.mark.skipif(sys.platform != "linux", reason="only Linux has a second address of its own")
def test_half_sent_requests_lock_nobody_else_out_and_are_closed(server: Running) -> None:
    with ExitStack() as stack:
        half = [stack.enter_context(server.connect()) for _ in range(300)]
        for each in half:
            try:
                each.sendall(HEAD)
            except ConnectionError:
                continue  # Refused.
        assert server.ask(source="127.0.0.2")[0] == 200
        answers = [until_closed(each) for each in half]
    assert sum(answer.startswith(b"HTTP/1.1 503 ") for answer in answers) > 100
    assert server.ask()[0] == 200
    assert server.log.stat().st_size < 20_000
    assert "open files" not in server.log.read_text()


@pytest.mark.parametrize(
    ("method", "path", "body", "status"),
    [
        ("POST", "/api/labels", b'{"key": "half", "annotator": "ann", "row": 0, "class": "left"}', b"201"),
        ("GET", "/api/next?annotator=ann", b"", b"200"),
        ("POST", "/sign-in", b"token=wrong", b"403"),
    ],
)
def test_a_client_that_closes_its_sending_side_gets_its_answer(
    server: Running, method: str, path: str, body: bytes, status: bytes
) -> None:
    kind = "application/x-www-form-urlencoded" if path == "/sign-in" else "application/json"
    head = f"{method} {path} HTTP/1.1\r\nHost: 127.0.0.1\r\n{KNOWN}Content-Type: {kind}\r\n"
    opened = server.connect(f"{head}Content-Length: {len(body)}\r\n\r\n".encode() + body)
    opened.shutdown(socket.SHUT_WR)
    assert until_closed(opened).startswith(b"HTTP/1.1 " + status)


def test_an_event_stream_whose_client_closes_its_sending_side_is_closed(server: Running) -> None:
    opened = server.connect(f"GET /api/events HTTP/1.1\r\nHost: 127.0.0.1\r\n{KNOWN}\r\n".encode())
    assert b"event: ping" in opened.recv(65536) + opened.recv(65536)
    opened.shutdown(socket.SHUT_WR)
    until_closed(opened)


CHUNKED = "HTTP/1.1\r\nHost: 127.0.0.1\r\nTransfer-Encoding: chunked\r\n"


@pytest.mark.parametrize(
    "parts",
    [
        [f"POST /api/labels {CHUNKED}\r\nzz\r\n"],
        [f"POST /api/labels {CHUNKED}\r\n", "zz\r\n"],
        [f"GET /api/events {CHUNKED}{KNOWN}\r\n", "zz\r\n"],
        [f"GET /api/events HTTP/1.1\r\nHost: 127.0.0.1\r\nConnection: close\r\n{KNOWN}\r\n", "zz\r\n"],
    ],
    ids=["before the refusal", "after the refusal", "in a stream", "after the last request"],
)
def test_bytes_that_are_no_http_close_the_connection_without_a_traceback(server: Running, parts: list[str]) -> None:
    with server.connect(parts[0].encode()) as opened:
        for part in parts[1:]:
            assert opened.recv(65536).startswith(b"HTTP/1.1 ")
            opened.sendall(part.encode())
        opened.shutdown(socket.SHUT_WR)
        until_closed(opened)
    assert server.ask()[0] == 200
    assert "Traceback" not in server.log.read_text()


@pytest.mark.slow
def test_where_there_are_too_many_connections_the_oldest_without_a_request_makes_room(tmp_path: Path) -> None:
    server = Running(tmp_path, connections=20, head_seconds=HANG)
    try:
        with ExitStack() as stack:
            half = [stack.enter_context(server.connect(HEAD)) for _ in range(60)]
            for _ in range(5):
                assert server.ask()[0] == 200
            assert until_closed(half[0]) == b""
            half[-1].sendall(b"\r\n")
            assert half[-1].recv(65536).startswith(b"HTTP/1.1 200 ")
    finally:
        server.stop()


def test_a_connection_that_sends_nothing_is_closed(server: Running) -> None:
    assert until_closed(server.connect()) == b""


def test_a_head_that_comes_byte_by_byte_is_not_waited_for(server: Running) -> None:
    assert until_closed(server.connect(HEAD + b"x: "), drip=b"x") == b""


def test_a_second_request_on_a_connection_must_be_sent_as_well(server: Running) -> None:
    opened = server.connect(HEAD + b"\r\n")
    assert opened.recv(65536).startswith(b"HTTP/1.1 200 ")
    opened.sendall(HEAD)
    assert b"HTTP/1.1" not in until_closed(opened)


@pytest.mark.parametrize("drip", [b"", b"x"])
def test_a_body_that_does_not_come_is_not_waited_for(server: Running, drip: bytes) -> None:
    form = "content-type: application/x-www-form-urlencoded"
    head = f"POST /sign-in HTTP/1.1\r\nhost: 127.0.0.1\r\norigin: http://127.0.0.1\r\n{form}\r\ncontent-length: 4000"
    assert until_closed(server.connect(head.encode() + b"\r\n\r\ntoken="), drip) == b""
    assert "Traceback" not in server.log.read_text()


def test_the_body_of_a_refused_request_is_not_waited_for(server: Running) -> None:
    head = b"POST /api/labels HTTP/1.1\r\nhost: 127.0.0.1\r\ncontent-length: 1000000\r\n\r\n"
    assert until_closed(server.connect(head), drip=b"x").startswith(b"HTTP/1.1 401 ")


def test_answers_that_nobody_reads_are_given_up(server: Running) -> None:
    asked = f"GET /openapi.json HTTP/1.1\r\nhost: 127.0.0.1\r\nauthorization: Bearer {TOKEN}\r\n\r\n".encode()
    with server.connect() as opened:
        opened.settimeout(HANG)
        with pytest.raises(ConnectionError):
            opened.sendall(200_000 * asked)


def test_nonsense_fills_no_log(server: Running) -> None:
    before = server.log.stat().st_size
    for _ in range(50):
        assert until_closed(server.connect(b"nonsense\r\n\r\n")).startswith(b"HTTP/1.1 400 ")
    said = server.log.read_text()[before:]
    assert said.count("Invalid HTTP request") <= 2 * LINES_PER_MINUTE  # The fifty may take parts of two minutes.
    assert len(said) < 3000


@pytest.mark.skipif(sys.platform != "linux", reason="only Linux has a second address of its own")
def test_guesses_are_counted_reported_and_then_not_checked(server: Running) -> None:
    answers = [server.ask(f"guess-{number}", "127.0.0.3") for number in range(8)]
    assert [status for status, _ in answers[:5]] == [401] * 5
    assert answers[-1][0] == 429
    assert 1 <= int(answers[-1][1] or 0) <= 60
    assert server.ask(TOKEN, "127.0.0.3")[0] == 429, "a right guess must not tell itself from a wrong one"
    assert server.ask()[0] == 200
    said = server.log.read_text()
    assert "wrong token from 127.0.0.3" in said
    assert "too many wrong tokens from 127.0.0.3" in said
    assert "guess-" not in said


class Clock:
    now = 0.0

    def __call__(self) -> float:
        return self.now


def test_guesses_are_allowed_again_in_time() -> None:
    clock = Clock()
    check = TokenCheck(lambda token: token == "right", Limits(guesses_per_address=6), clock)
    for number in range(6):
        assert not check("192.0.2.1", [f"wrong-{number}"])
    with pytest.raises(TooManyGuesses) as found:
        check("192.0.2.1", ["right"])
    assert found.value.seconds == 10
    clock.now = 10.0
    assert check("192.0.2.1", ["right"])


def test_a_page_left_open_with_an_old_token_locks_nobody_out() -> None:
    check = TokenCheck(lambda token: token == "right", Limits(guesses_per_address=2), Clock())
    assert not any(check("127.0.0.1", ["old", "of another port"]) for _ in range(50))
    assert check("127.0.0.1", ["right", "of another port"])


def test_a_connection_with_the_right_token_is_not_locked_out_by_others_of_its_address() -> None:
    check = TokenCheck(lambda token: token == "right", Limits(guesses_per_address=2), Clock())
    assert check("127.0.0.1", ["right"], 5001)
    assert not any(check("127.0.0.1", [f"wrong-{number}"], 5002) for number in range(2))
    assert check("127.0.0.1", ["right"], 5001)
    with pytest.raises(TooManyGuesses):
        check("127.0.0.1", ["right"], 5003)
    with pytest.raises(TooManyGuesses):
        check("127.0.0.1", ["wrong"], 5001)
    with pytest.raises(TooManyGuesses):
        check("127.0.0.1", ["right"], 5001)


def test_guesses_from_many_addresses_are_bounded_and_spare_who_signed_in() -> None:
    check = TokenCheck(lambda token: token == "right", Limits(guesses_per_minute=10), Clock())
    assert check("192.0.2.1", ["right"])
    for number in range(10):
        assert not check(f"2001:db8:{number}::1", [f"wrong-{number}"])
    with pytest.raises(TooManyGuesses):
        check("198.51.100.1", ["right"])
    assert check("192.0.2.1", ["right"])


def test_all_addresses_of_one_ipv6_network_count_as_one() -> None:
    check = TokenCheck(lambda token: False, Limits(guesses_per_address=3), Clock())
    assert not any(check(f"2001:db8::{number}", [f"wrong-{number}"]) for number in range(3))
    with pytest.raises(TooManyGuesses):
        check("2001:db8::3", ["wrong-3"])


def test_the_form_the_address_and_cookies_are_counted_as_well(tmp_path: Path) -> None:
    app = make_app(rows_service(tmp_path), TOKEN, limits=Limits(guesses_per_address=3))
    with TestClient(app, base_url=HERE) as client:
        assert client.get("/", params={"token": "one"}).status_code == 403
        assert client.post("/sign-in", data={"token": "two"}, headers={"origin": HERE}).status_code == 403
        assert client.get("/api/project", headers={"cookie": "dubito-token-8901=three"}).status_code == 401
        for answer in (
            client.get("/", params={"token": TOKEN}),
            client.post("/sign-in", data={"token": TOKEN}, headers={"origin": HERE}),
            client.get("/api/project", headers={"cookie": "dubito-token-8901=four"}),
        ):
            assert answer.status_code == 429
            assert int(answer.headers["retry-after"]) >= 1
        assert client.get("/").status_code == 200


def test_one_request_tries_few_tokens(tmp_path: Path) -> None:
    many = [f"dubito-token-{port}=wrong-{port}" for port in range(9000, 9050)]
    app = make_app(rows_service(tmp_path), TOKEN)
    with TestClient(app, base_url=HERE) as client:
        last = {"cookie": "; ".join([*many, f"dubito-token-9999={TOKEN}"])}
        assert client.get("/api/project", headers=last).status_code == 401
        own = {"cookie": "; ".join([*many, f"dubito-token-8901={TOKEN}"])}
        assert client.get("/api/project", headers=own).status_code == 200


def test_lines_that_are_left_out_are_counted(monkeypatch: pytest.MonkeyPatch) -> None:
    clock = Clock()
    monkeypatch.setattr("dubito.labeling.web.connections.time.monotonic", clock)
    few, record = (
        RateLimitFilter(),
        logging.LogRecord("dubito.labeling.web", logging.WARNING, "file.py", 1, "wrong %s", ("x",), None),
    )
    assert sum(few.filter(record) for _ in range(LINES_PER_MINUTE + 7)) == LINES_PER_MINUTE
    clock.now = 61.0
    assert few.filter(record)
    assert record.getMessage() == "(7 similar lines were dropped) wrong x"


def test_connections_stay_below_the_files_that_may_be_open() -> None:
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    try:
        assert allowed_connections(10) == 10
        raised = resource.getrlimit(resource.RLIMIT_NOFILE)[0]
        assert raised >= soft
        assert allowed_connections(10**9) < raised
    finally:
        resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))
