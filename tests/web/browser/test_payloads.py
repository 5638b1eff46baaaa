"""Names, texts, classes and guidelines are text, never markup; and long or odd ones keep to their place."""

import csv
import json
import urllib.request
from collections.abc import Callable
from pathlib import Path

import pytest

from web.browser.payloads import PAYLOADS
from web.browser.person import Person
from web.browser.server import TOKEN, Server

Come = Callable[..., Person]
TRACES = (
    "() => [window.pwned ?? null, document.querySelectorAll('body script, iframe, object, base, a[href^=javascript],"
    " [onerror], [onload], [onfocus], [onmouseover], [ontoggle]').length]"
)
STICKS_OUT = "() => document.documentElement.scrollWidth > document.documentElement.clientWidth"
ODD = (
    "مرحبا بالعالم " * 40,
    "👩‍👩‍👧‍👦🏳️‍🌈" * 200,
    "x" * 100_000,
    "many words " * 10_000,
    "one\n\n\ttwo\r\nthree",
    "Z̷̢̛͙a̵l̴g̶o̸" * 50,
)


def post(server: Server, path: str, body: object, method: str = "POST") -> None:
    headers = {"Authorization": f"Bearer {TOKEN}", "Content-Type": "application/json"}
    asked = urllib.request.Request(server.address.rstrip("/") + path, json.dumps(body).encode(), headers, method=method)
    with urllib.request.urlopen(asked) as answer:
        assert answer.status < 300


@pytest.fixture(scope="module")
def hostile(serve: Callable[..., Server], tmp_path_factory: pytest.TempPathFactory) -> Server:
    """A table of malicious texts."""
    source: Path = tmp_path_factory.mktemp("hostile") / "texts.csv"
    with source.open("w", newline="", encoding="utf-8") as file:
        writer = csv.writer(file)
        writer.writerow(["id", "text"])
        writer.writerows(
            [f"{number} {text}".replace("\x00", ""), text.replace("\x00", "")] for number, text in enumerate(PAYLOADS)
        )
        writer.writerows([f"odd {number}", text] for number, text in enumerate(ODD))
    server = serve(str(source))
    for payload in PAYLOADS:
        post(server, "/api/classes", {"name": payload.replace("\x00", "")[:200]})
    post(server, "/api/project", {"guidelines": "\n".join(PAYLOADS).replace("\x00", "")}, method="PATCH")
    return server


def test_no_payload_of_a_hundred_runs_in_any_view(chromium: object, hostile: Server, come: Come) -> None:
    person = come(hostile, "<img src=x onerror=window.pwned=1>")
    seen: set[str] = set()
    while len(seen) < len(PAYLOADS) + len(ODD):
        before = person.shown()
        seen.add(before)
        assert not person.page.evaluate(STICKS_OUT), before
        person.page.set_viewport_size({"width": 390 if len(seen) % 2 else 1280, "height": 800})
        person.answer_by(person.page.locator(".class").nth(len(seen) % 5).click)
        if person.page.locator(".stage .empty").count():
            break
    assert len(seen) == len(PAYLOADS) + len(ODD)
    for view in ("grid", "map", "curve", "review", "label"):
        person.go_to(view)
        person.page.wait_for_timeout(500)
        assert person.page.evaluate(TRACES) == [None, 0], view
        assert not person.page.evaluate(STICKS_OUT), view
    for name in ("Export", "You are", "Keys"):
        person.page.get_by_role("button", name=name).first.click()
        person.page.wait_for_timeout(200)
        person.page.keyboard.press("Escape")
    assert person.page.evaluate(TRACES) == [None, 0]
    assert person.complaints == []
