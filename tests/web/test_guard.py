"""Who may do what: nobody anything without the token, and a page of somebody else's nothing with it."""

import json
import os
import stat
from collections.abc import Iterator
from itertools import product
from pathlib import Path

import pytest
from starlette.testclient import TestClient

from dubito.labeling.project import read_token
from dubito.labeling.web.app import make_app
from web.clients import HERE, TOKEN, client_of, rows_service, say

PATHS = ["project", "next", "grid", "items/1", "items/1/picture", "items/1/guess", "map", "curve", "review"]
PATHS += ["annotators", "export", "events", "labels", "labels/many", "undo", "classes", "restrict", "round"]
PATHS += ["release", "probabilities"]


@pytest.fixture(scope="module")
def client(tmp_path_factory: pytest.TempPathFactory) -> Iterator[TestClient]:
    with client_of(rows_service(tmp_path_factory.mktemp("guard")), token=None) as opened:
        yield opened


BEARER = {"authorization": f"Bearer {TOKEN}"}


@pytest.mark.parametrize("wrong", [{}, {"authorization": "Bearer no"}, {"cookie": "dubito-token=no"}])
def test_without_the_token_everything_but_the_sign_in_page_is_401(client: TestClient, wrong: dict[str, str]) -> None:
    routes = [f"/api/{path}" for path in PATHS] + ["/openapi.json", "/page/main.js", "/page/index.html", "/nothing"]
    for path, method in product(routes, ("GET", "POST", "PUT", "PATCH", "DELETE", "HEAD", "OPTIONS")):
        assert client.request(method, path, headers=wrong).status_code == 401, (method, path)
    page = client.get("/", headers=wrong)
    assert page.status_code == 200
    assert "token" in page.text
    assert "rows" not in page.text


def test_the_token_in_the_address_becomes_a_cookie_and_leaves_the_address(client: TestClient) -> None:
    answer = client.get("/", params={"token": TOKEN}, follow_redirects=False)
    assert answer.status_code == 303
    assert answer.headers["location"] == "/"
    cookie = answer.headers["set-cookie"]
    assert cookie.startswith(f"dubito-token-8901={TOKEN}")
    assert {"HttpOnly", "Path=/", "SameSite=strict"} <= {part.strip() for part in cookie.split(";")}
    client.cookies.clear()
    assert client.get("/", params={"token": "no"}).status_code == 403


def test_the_form_signs_in_and_a_wrong_token_says_so(client: TestClient) -> None:
    own = {"origin": HERE}
    assert client.post("/sign-in", data={"token": "no"}, headers=own).status_code == 403
    answer = client.post("/sign-in", data={"token": TOKEN}, headers=own, follow_redirects=False)
    assert answer.status_code == 303
    signed = {"cookie": answer.headers["set-cookie"].partition(";")[0]}
    client.cookies.clear()
    assert client.get("/api/project", headers=signed).status_code == 200


@pytest.mark.parametrize(
    "origin", [None, "https://evil.example", "null", "http://127.0.0.1:9999", "http://localhost:8901"]
)
def test_a_change_with_a_cookie_must_come_from_the_servers_own_page(client: TestClient, origin: str | None) -> None:
    headers = {"cookie": f"dubito-token-8901={TOKEN}", **({} if origin is None else {"origin": origin})}
    body = {"key": "k", "annotator": "ann", "row": 1, "class": "left"}
    assert client.post("/api/labels", json=body, headers=headers).status_code == 403
    assert client.post("/api/labels", json=body, headers={**BEARER, **headers}).status_code == (
        201 if not origin else 403
    )


def test_a_change_must_say_that_it_is_json(client: TestClient) -> None:
    headers = {"cookie": f"dubito-token-8901={TOKEN}", "origin": HERE, "content-type": "text/plain"}
    body = json.dumps({"key": "k2", "annotator": "ann", "row": 1, "class": "left"})
    assert client.post("/api/labels", content=body, headers=headers).status_code == 415
    assert client.post("/api/release", content='{"annotator": "ann"}', headers=headers).status_code == 200


@pytest.mark.parametrize("host", ["evil.example", "127.0.0.1.evil.example", "localhost.evil.example:8901", "", "[::"])
def test_a_name_that_leads_here_by_somebody_elses_dns_is_refused(client: TestClient, host: str) -> None:
    assert client.get("/api/project", headers={**BEARER, "host": host}).status_code == 421
    assert client.get("/", headers={"host": host}).status_code == 421


def test_numbers_and_localhost_are_names_of_the_server(client: TestClient) -> None:
    for host in ("127.0.0.1:8901", "localhost:8901", "[::1]:8901", "192.168.0.7:8901"):
        assert client.get("/api/project", headers={**BEARER, "host": host}).status_code == 200


def test_every_answer_carries_the_policy(client: TestClient) -> None:
    for path, headers in (("/", {}), ("/api/project", BEARER), ("/api/project", {}), ("/api/items/99999", BEARER)):
        answer = client.get(path, headers=headers)
        policy = answer.headers["content-security-policy"]
        assert policy.startswith("default-src 'none'; script-src 'self'; style-src 'self';")
        assert "unsafe" not in policy
        assert answer.headers["x-content-type-options"] == "nosniff"
        assert answer.headers["referrer-policy"] == "same-origin"


def test_bodies_are_bounded_whether_they_tell_their_length_or_not(client: TestClient) -> None:
    large = {**BEARER, "content-type": "application/json", "content-length": "99999999999"}
    assert client.post("/api/labels", content=b"{}", headers=large).status_code == 413
    endless = (b"[" * 1_000_000 for _ in range(20))
    answer = client.post("/api/labels", content=endless, headers={**BEARER, "content-type": "application/json"})
    assert answer.status_code == 413


@pytest.mark.parametrize("body", ["[" * 100_000, '{"key": NaN}', '{"key": "\\ud800"}', "", "null", "\xff", "{}"])
def test_what_is_no_label_is_422_in_one_sentence(client: TestClient, body: str) -> None:
    headers = {**BEARER, "content-type": "application/json"}
    answer = client.post("/api/labels", content=body.encode("latin-1"), headers=headers)
    assert answer.status_code in (400, 422)
    assert "\n" not in answer.json()["error"]


@pytest.mark.parametrize("name", ["a\0b", "\ud800", "a\nb", "   ", "x" * 300, "\u2028"])
def test_names_that_no_store_could_hold_are_refused(client: TestClient, name: str) -> None:
    headers = {**BEARER, "content-type": "application/json"}
    for path, body in (
        ("classes", {"name": name}),
        ("undo", {"key": "k", "annotator": name}),
        ("labels", {"key": name, "annotator": "a", "row": 1, "class": None}),
    ):
        answer = client.post(f"/api/{path}", content=json.dumps(body), headers=headers)
        assert answer.status_code == 422, (path, answer.text)


def test_markup_is_text_and_comes_back_as_it_was(client: TestClient) -> None:
    name = "<script>alert(1)</script>"
    assert client.post("/api/classes", json={"name": name}, headers=BEARER).status_code == 201
    assert client.patch("/api/project", json={"guidelines": name}, headers=BEARER).status_code == 200
    found = client.get("/api/project", headers=BEARER)
    assert found.headers["content-type"] == "application/json"
    assert name in found.json()["classes"]
    assert found.json()["guidelines"] == name


def test_the_token_is_its_owners_alone_and_stays_the_same(tmp_path: Path) -> None:
    service = rows_service(tmp_path)
    token, is_new = read_token(service.state.project)
    assert is_new
    assert len(token) >= 40
    assert stat.S_IMODE(os.stat(service.state.project.path("token")).st_mode) == 0o600
    assert read_token(service.state.project) == (token, False)
    service.close()


def test_a_label_goes_through_with_the_token(client: TestClient) -> None:
    client.headers.update(BEARER)
    assert say(client, 5, "right").status_code == 201
    client.headers.pop("authorization")


@pytest.mark.parametrize(
    "other",
    ['{"a": 1}', "a[0]=b", "name with spaces=1", "_ga=GA1.1; theme", "x=\x01", "=", "a" * 60_000, "k=v; " * 10_000],
    ids=lambda each: str(each)[:10],
)
def test_cookies_of_other_programs_on_the_host_lock_nobody_out(client: TestClient, other: str) -> None:
    signed = f"{other}; dubito-token-8901={TOKEN}"
    assert client.get("/api/project", headers={b"cookie": signed.encode("latin-1")}).status_code == 200
    assert client.get("/api/project", headers={b"cookie": other.encode("latin-1")}).status_code == 401


def test_a_token_of_any_printable_letters_signs_in(tmp_path: Path) -> None:
    token = 'semi;comma,"quote"\\100%+/='
    app = make_app(rows_service(tmp_path), token)
    with TestClient(app, base_url=HERE) as opened:
        answer = opened.get("/", params={"token": token}, follow_redirects=False)
        signed = {"cookie": answer.headers["set-cookie"].partition(";")[0]}
        opened.cookies.clear()
        assert opened.get("/api/project", headers=signed).status_code == 200


def test_a_sign_in_larger_than_any_token_is_not_read(client: TestClient) -> None:
    answer = client.post("/sign-in", data={"token": "x" * 5000}, headers={"origin": HERE})
    assert answer.status_code == 413


def test_health_tells_what_does_not_work(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    service = rows_service(tmp_path)
    with client_of(service) as opened:
        assert opened.get("/api/health").json() == {"ok": True, "failures": {}}
        monkeypatch.setattr(service._writer, "_failure", "the database is gone")
        answer = opened.get("/api/health")
        assert answer.status_code == 503
        assert answer.json() == {"ok": False, "failures": {"store": "the database is gone"}}
