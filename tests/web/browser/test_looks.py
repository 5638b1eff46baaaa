"""Every view in light and dark, wide and on a phone: axe finds nothing, and nothing sticks out or is cut off."""

from collections.abc import Callable
from typing import Any

import pytest

from web.browser.person import Person
from web.browser.server import Server

SIZES = ((1440, 900), (1280, 720), (390, 844))
VIEWS = ("label", "grid", "items", "map", "curve", "review")
STICKS_OUT = "() => document.documentElement.scrollWidth > document.documentElement.clientWidth"
CUT_OFF = """() => [...document.querySelectorAll("#project-status, .caption .quiet, .tag > *")]
  .filter(node => node.scrollWidth > node.clientWidth && node.clientWidth > 0).map(node => node.textContent)"""


def violations(axe: Any, page: Any) -> list[str]:
    # A notice that is just fading in has no contrast yet, and rounds come when they like.
    page.emulate_media(reduced_motion="reduce")
    page.wait_for_timeout(300)
    found = axe.run(page).response["violations"]
    return [
        f"{each['id']}: {node['html'][:200]} {node.get('failureSummary', '')}"
        for each in found
        for node in each["nodes"]
    ]


@pytest.fixture(scope="module")
def axe(chromium: Any) -> Any:
    return pytest.importorskip("axe_playwright_python.sync_playwright", reason="make page installs axe").Axe()


@pytest.fixture
def experienced(demo: Server, come: Callable[..., Person]) -> Server:
    """With a model, so that every view has something to show."""
    person = come(demo, "experienced")
    if person.labeled() < 40:
        person.label(44)
    person.wait_for_model(40)
    return demo


@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_no_view_has_a_violation_sticks_out_or_is_cut_off(
    experienced: Server, come: Callable[..., Person], axe: Any, scheme: str
) -> None:
    person = come(experienced, f"axe-{scheme}", color_scheme=scheme)
    for width, height in SIZES:
        person.page.set_viewport_size({"width": width, "height": height})
        for view in VIEWS:
            person.go_to(view)
            assert violations(axe, person.page) == [], f"{view}, {scheme}, {width} pixels"
            assert not person.page.evaluate(STICKS_OUT), f"{view} sticks out at {width} pixels"
            assert person.page.evaluate(CUT_OFF) == [], f"{view} at {width} pixels"
    assert person.complaints == []


@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_no_dialog_and_no_guess_has_a_violation(
    experienced: Server, come: Callable[..., Person], axe: Any, scheme: str
) -> None:
    person = come(experienced, f"dialogs-{scheme}", color_scheme=scheme)
    person.shown()
    person.page.keyboard.press("h")
    person.page.wait_for_selector(".guesses li")
    assert violations(axe, person.page) == []
    for name in ("Export", "You are", "Edit classes", "Keys"):
        person.page.get_by_role("button", name=name).first.click()
        person.page.wait_for_selector("dialog[open]")
        assert violations(axe, person.page) == [], name
        person.page.keyboard.press("Escape")


def test_the_sign_in_page_has_no_violation_and_tells_a_wrong_token(demo: Server, chromium: Any, axe: Any) -> None:
    page = chromium.new_context().new_page()
    page.goto(demo.address)
    assert violations(axe, page) == []
    page.get_by_label("Token").fill("not the token")
    page.get_by_role("button", name="Sign in").click()
    page.wait_for_selector("#error:visible")
    page.context.close()


def test_nothing_moves_for_those_who_asked_for_no_motion(demo: Server, come: Callable[..., Person]) -> None:
    person = come(demo, "still", reduced_motion="reduce")
    person.shown()
    moving = person.page.evaluate(
        "() => [...document.querySelectorAll('*')]"
        ".filter(each => getComputedStyle(each).animationName !== 'none').length"
    )
    assert moving == 0


def test_every_view_and_act_can_be_reached_without_a_pointer(demo: Server, come: Callable[..., Person]) -> None:
    person = come(demo, "tabber")
    person.shown()
    reached = set()
    for _ in range(40):
        person.page.keyboard.press("Tab")
        reached.add(person.page.evaluate("() => document.activeElement.textContent.trim().split(/\\s+/)[0]"))
    assert {"Label", "Grid", "Items", "Map", "Curve", "Review", "Export", "Undo", "Skip", "3", "Add", "Edit"} <= reached


def test_the_keys_dialog_fits_and_adding_a_long_class_moves_no_other(demo: Server, come: Callable[..., Person]) -> None:
    person = come(demo, "fitting")
    person.shown()
    for width, height in ((1440, 900), (1280, 720)):
        person.page.set_viewport_size({"width": width, "height": height})
        person.page.keyboard.press("?")
        dialog = person.page.wait_for_selector("dialog[open]")
        assert dialog.evaluate("node => node.scrollHeight <= node.clientHeight"), f"{width} x {height}"
        person.page.keyboard.press("Escape")
    places = (
        "() => [...document.querySelectorAll('.classes .class')].slice(0, 10)"
        ".map(node => node.getBoundingClientRect().x)"
    )
    before = person.page.evaluate(places)
    person.page.get_by_label("Name of a new class").fill("a very long name of a class that nobody expected here")
    person.page.keyboard.press("Enter")
    person.page.wait_for_selector(".classes li:nth-child(11)")
    assert person.page.evaluate(places) == before
