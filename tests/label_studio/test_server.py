"""HTTP as the bridge speaks it: bounds, tries, redirects, certificates, and tokens that show themselves nowhere."""

import socket
import ssl
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import HTTPServer
from pathlib import Path
from typing import Any

import pytest

from dubito.cli import main
from dubito.cli.commands.label_studio import connect
from dubito.errors import DubitoError, InvalidArgument, MissingFile
from dubito.integrations.label_studio import AccessToken, RetryPolicy, Server
from dubito.integrations.label_studio import client as server_module
from dubito.integrations.label_studio.client import TOKEN_VARIABLE, ResponseLost, ServerRefused, Unreachable, read_token
from label_studio.exchanges import OWNER, PERSONAL, _Handler, serving
from label_studio.scenarios import token

QUICK = RetryPolicy(timeout=5.0, tries=3, first_pause=0.001, longest_pause=0.002)


class Answers:
    """Statuses and answers to give, one after another, and what was asked."""

    def __init__(self, *given: tuple[int, Any]) -> None:
        self.given, self.asked = list(given), list[tuple[str, str, str | None]]()

    def handler(self) -> type[_Handler]:
        answers = self

        class Given(_Handler):
            def answer(self) -> None:
                authorization, _ = self._take()
                answers.asked.append((self.command, self.path, authorization))
                self._give(*answers.given.pop(0))

        return Given


@contextmanager
def answering(*given: tuple[int, Any], token: str = OWNER) -> Iterator[tuple[Server, Answers]]:
    answers = Answers(*given)
    with serving(answers.handler()) as url:
        yield Server(url, AccessToken(token), QUICK), answers


def test_a_read_is_asked_again_until_an_answer_comes() -> None:
    with answering((0, None), (503, {"detail": "busy"}), (200, {"ok": 1})) as (server, answers):
        assert server.read("/api/x", {"a": [1, 2]}) == {"ok": 1}
    assert answers.asked == [("GET", "/api/x?a=1&a=2", f"Token {OWNER}")] * 3


def test_a_read_gives_up_in_the_end_and_says_what_to_do() -> None:
    with answering(*[(502, {"detail": "bad gateway."})] * 3) as (server, answers), pytest.raises(Unreachable) as error:
        server.read("/api/x")
    assert len(answers.asked) == 3
    assert "failed (502: bad gateway); check its log, then run the same command again; nothing is added twice." in str(
        error.value
    )


@pytest.mark.parametrize("status", [0, 500])
def test_something_new_is_sent_once_and_its_answer_may_be_lost(status: int) -> None:
    with answering((status, None)) as (server, answers), pytest.raises(ResponseLost):
        server.add("/api/x", {})
    assert len(answers.asked) == 1


def test_access_that_has_run_out_is_had_again_before_a_change_is_made() -> None:
    given = [(200, {"access": "one"}), (401, {"detail": "expired"}), (200, {"access": "two"}), (201, {"id": 7})]
    with answering(*given, token=PERSONAL) as (server, answers):
        assert server.add("/api/x", {}) == {"id": 7}
    assert [each[2] for each in answers.asked] == [None, "Bearer one", None, "Bearer two"]


def test_a_token_that_is_refused_twice_is_an_error() -> None:
    given = [(200, {"access": "one"}), (401, {"detail": "no"})] * 2
    with answering(*given, token=PERSONAL) as (server, _), pytest.raises(ServerRefused, match="401: no") as error:
        server.read("/api/x")
    assert error.value.status == 401


@pytest.mark.parametrize(
    ("location", "words"),
    [
        ("https://elsewhere.example/api?t=secret", r"redirects to https://elsewhere\.example/api; a token is not"),
        ("/user/login/?next=/api/x", r"redirects to /user/login/; pass the address that it ends at"),
    ],
)
def test_no_redirect_is_followed(location: str, words: str) -> None:
    with answering((302, {"location": location})) as (server, answers), pytest.raises(InvalidArgument, match=words):
        server.read("/api/x")
    assert len(answers.asked) == 1


def test_a_page_is_no_answer() -> None:
    with answering((200, {"html": "<html>"})) as (server, _), pytest.raises(DubitoError, match="as Label Studio does"):
        server.read("/api/x")


def test_an_answer_has_a_largest_size(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(server_module, "MAX_RESPONSE_BYTES", 100)
    with answering((200, ["x" * 200])) as (server, _), pytest.raises(DubitoError, match="answered with more than"):
        server.read("/api/x")


def test_a_server_that_is_silent_is_not_waited_for_for_ever() -> None:
    with socket.create_server(("127.0.0.1", 0)) as listening:
        url = f"http://127.0.0.1:{listening.getsockname()[1]}"
        server = Server(url, AccessToken(OWNER), RetryPolicy(0.05, 2, 0.001, 0.001))
        with pytest.raises(Unreachable, match="does not answer \\(timed out\\)"):
            server.read("/api/x")


def test_a_certificate_that_nobody_vouches_for_is_refused() -> None:
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(Path(__file__).parent / "self_signed.pem")
    answers = Answers()
    https = HTTPServer(("127.0.0.1", 0), answers.handler())
    https.socket = context.wrap_socket(https.socket, server_side=True)
    thread = threading.Thread(target=https.serve_forever, kwargs={"poll_interval": 0.02}, daemon=True)
    thread.start()
    try:
        server = Server(f"https://localhost:{https.server_address[1]}", AccessToken(OWNER), QUICK)
        with pytest.raises(DubitoError, match="has no valid certificate"):
            server.read("/api/x")
    finally:
        https.shutdown()
        https.server_close()
    assert answers.asked == []


@pytest.mark.parametrize("url", ["localhost:8080", "ftp://a", "http://", "http://u:p@a", "http://a/?x=1", "http://a:b"])
def test_an_address_is_one_of_a_server(url: str) -> None:
    with pytest.raises(InvalidArgument, match="is not the address of a server") as error:
        Server(url, AccessToken(OWNER))
    assert "u:p" not in str(error.value)


def test_a_token_shows_itself_nowhere(capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> None:
    assert repr(AccessToken(OWNER)) == "AccessToken(legacy)"
    assert repr(AccessToken(PERSONAL)) == "AccessToken(personal)"
    monkeypatch.setenv(TOKEN_VARIABLE, "a b")
    monkeypatch.setenv("LABEL_STUDIO_URL", "http://127.0.0.1:9")
    assert main(["label-studio", "pull", "--project", "x", "-o", "labels.csv"]) == 2
    assert "a b" not in (said := capsys.readouterr().err)
    assert "is empty or invalid" in said


def test_a_token_is_read_from_a_file_or_the_environment(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv(TOKEN_VARIABLE, raising=False)
    (tmp_path / "token").write_text(f"{PERSONAL}\n")
    assert read_token(str(tmp_path / "token")).can_renew
    with pytest.raises(InvalidArgument, match="there is no token for Label Studio; set LABEL_STUDIO_API_KEY"):
        read_token()
    with pytest.raises(MissingFile, match="cannot be read"):
        read_token(str(tmp_path / "nothing"))
    monkeypatch.setenv(TOKEN_VARIABLE, OWNER)
    assert read_token().kind == "legacy"


def test_a_token_that_leaves_the_machine_in_the_clear_is_noted(capsys: pytest.CaptureFixture[str]) -> None:
    assert not Server("https://labels.example.org", AccessToken(OWNER)).is_unencrypted
    assert not Server("http://localhost:8080", AccessToken(OWNER)).is_unencrypted
    with token(OWNER):
        connect("http://labels.example.org/", None, "5")
    assert "the token is sent to http://labels.example.org without encryption" in capsys.readouterr().err


def test_pauses_grow_up_to_the_longest() -> None:
    retry_policy = RetryPolicy(first_pause=0.5, longest_pause=3.0)
    assert [retry_policy.pause(tried) for tried in range(5)] == [0.5, 1.0, 2.0, 3.0, 3.0]
