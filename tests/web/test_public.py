"""Behind a server with TLS: its name and its origin are this server's, and nobody else's are."""

from collections.abc import Iterator
from pathlib import Path

import pytest
from starlette.testclient import TestClient

from dubito.errors import InvalidArgument
from dubito.labeling.web.app import make_app
from dubito.labeling.web.serving import open_socket, read_public
from web.clients import HERE, TOKEN, rows_service

PUBLIC = "https://labels.example.org"
BODY = {"key": "k", "annotator": "ann", "row": 1, "class": "left"}


@pytest.fixture(scope="module")
def client(tmp_path_factory: pytest.TempPathFactory) -> Iterator[TestClient]:
    service = rows_service(tmp_path_factory.mktemp("public"))
    with TestClient(make_app(service, TOKEN, None, PUBLIC), base_url=HERE) as opened:
        yield opened


@pytest.mark.parametrize("host", ["labels.example.org", "Labels.example.org:443", "127.0.0.1:8901"])
def test_the_public_name_and_origin_are_taken(client: TestClient, host: str) -> None:
    headers = {"host": host, "origin": PUBLIC, "cookie": f"dubito-token-80={TOKEN}"}
    assert client.get("/api/project", headers=headers).status_code == 200
    assert client.post("/api/labels", json={**BODY, "key": host}, headers=headers).status_code == 201


@pytest.mark.parametrize(
    ("host", "origin", "status"),
    [
        ("labels.example.org.evil.example", PUBLIC, 421),
        ("labels.example.org", "https://evil.example", 403),
        ("labels.example.org", "https://labels.example.org:8443", 403),
        ("labels.example.org", "null", 403),
    ],
)
def test_other_names_and_origins_are_not(client: TestClient, host: str, origin: str, status: int) -> None:
    headers = {"host": host, "origin": origin, "cookie": f"dubito-token-80={TOKEN}"}
    assert client.post("/api/labels", json=BODY, headers=headers).status_code == status


def test_its_cookie_goes_by_tls_alone(client: TestClient) -> None:
    described = {"host": "labels.example.org"}
    answer = client.get("/", params={"token": TOKEN}, headers=described, follow_redirects=False)
    assert "Secure" in answer.headers["set-cookie"]


@pytest.mark.parametrize(
    ("url", "origin"),
    [
        ("https://Labels.Example.org/", PUBLIC),
        ("https://labels.example.org:443", PUBLIC),
        ("http://labels.example.org:8080", "http://labels.example.org:8080"),
        ("https://[::1]:8443", "https://[::1]:8443"),
    ],
)
def test_an_address_becomes_its_origin(url: str, origin: str) -> None:
    assert read_public(url) == origin


@pytest.mark.parametrize("url", ["labels.example.org", "ftp://a.b", "https://a.b/label", "https://u:p@a.b", "https://"])
def test_what_is_no_address_of_a_server_is_refused(url: str) -> None:
    with pytest.raises(InvalidArgument, match="public="):
        read_public(url)


def test_a_name_that_is_not_ours_is_the_hosts_fault_and_a_taken_port_the_ports() -> None:
    with pytest.raises(InvalidArgument, match="host='nonsense"):
        open_socket("nonsense.invalid", None)
    taken = open_socket("127.0.0.1", 0)
    with taken, pytest.raises(InvalidArgument, match="port="):
        open_socket("127.0.0.1", taken.getsockname()[1])


def test_a_public_name_with_capitals_is_the_same_name(tmp_path: Path) -> None:
    with TestClient(
        make_app(rows_service(tmp_path), TOKEN, None, "https://Labels.Example.org"), base_url=HERE
    ) as opened:
        headers = {"host": "labels.example.org", "origin": PUBLIC, "cookie": f"dubito-token-80={TOKEN}"}
        assert opened.post("/api/labels", json=BODY, headers=headers).status_code == 201
