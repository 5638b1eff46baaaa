"""Fixtures: Chromium, `dubito label` in a process of its own, and users of the page."""

import shutil
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from web.browser.person import Person
from web.browser.server import TOKEN, Server

BROWSERS = ("chromium", "chromium-browser", "google-chrome")
PATIENCE = 240_000.0
"""Milliseconds that a page may take for anything, on a machine that may be busy with other work."""


@pytest.fixture(scope="session")
def chromium() -> Iterator[Any]:
    """The browser, or an error that says what is missing."""
    driver = pytest.importorskip("playwright.sync_api", reason="tests of the page need playwright: make page")
    found = next((path for name in BROWSERS if (path := shutil.which(name))), None)
    if found is None:
        pytest.skip("tests of the page need Chromium: make page")
    with driver.sync_playwright() as playwright:
        flags = ["--no-sandbox", "--disable-dev-shm-usage", "--enable-unsafe-swiftshader"]
        browser = playwright.chromium.launch(executable_path=found, args=flags)
        yield browser
        browser.close()


@pytest.fixture(scope="session")
def serve() -> Iterator[Callable[..., Server]]:
    """Starts `dubito label` with some arguments; all end with the tests."""
    servers: list[Server] = []

    def start(*arguments: str) -> Server:
        servers.append(Server(list(arguments)))
        servers[-1].start()
        return servers[-1]

    yield start
    for server in servers:
        server.stop()


@pytest.fixture(scope="module")
def demo(chromium: Any, serve: Callable[..., Server], tmp_path_factory: pytest.TempPathFactory) -> Server:
    """`dubito label --demo`, one for every file of tests."""
    return serve("--demo", str(tmp_path_factory.mktemp("demo")))


@pytest.fixture
def come(chromium: Any) -> Iterator[Callable[..., Person]]:
    """A user opens the page in a browser of their own: `come(server, "ada")`."""
    contexts = []

    def open_page(server: Server, name: str, *, view: str = "label", **settings: Any) -> Person:
        context = chromium.new_context(viewport={"width": 1280, "height": 800}, **settings)
        context.set_default_timeout(PATIENCE)
        contexts.append(context)
        context.add_init_script(
            f"localStorage.getItem('dubito.annotator') ?? localStorage.setItem('dubito.annotator', '{name}')"
        )
        person = Person(context.new_page(), server.address, name)
        person.page.goto(f"{server.address}?token={TOKEN}")
        return person.go_to(view)

    yield open_page
    for context in contexts:
        context.close()


@pytest.fixture
def texts(tmp_path: Path) -> Path:
    """A place for a table of texts."""
    return tmp_path / "texts.csv"
