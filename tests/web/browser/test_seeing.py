"""Items are readable, and only visible items can be labeled."""

import csv
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from PIL import Image

from web.browser.person import Person
from web.browser.server import Server
from web.browser.test_payloads import STICKS_OUT, post

Come = Callable[..., Person]
Serve = Callable[..., Server]
TURNED = "a\u202egnp.exe"
CUT_OFF = (
    "() => [...document.querySelectorAll('.class bdi')]"
    ".filter(each => each.scrollWidth > each.clientWidth || each.scrollHeight > each.clientHeight + 1"
    " || each.clientHeight > 30).map(each => each.textContent)"
)


@pytest.fixture(scope="module")
def table(chromium: Any, serve: Serve, tmp_path_factory: pytest.TempPathFactory) -> Server:
    """Texts with two more columns, one of them long."""
    source = tmp_path_factory.mktemp("table") / "texts.csv"
    with source.open("w", newline="", encoding="utf-8") as file:
        writer = csv.writer(file)
        writer.writerow(["id", "text", "source", "remark"])
        writer.writerows([f"t{each}", f"text number {each}", f"s{each % 3}", "long " * 100] for each in range(40))
    return serve(str(source), "--classes", "cat,dog")


@pytest.fixture
def photos(chromium: Any, serve: Serve, tmp_path: Path) -> Server:
    """Four pictures; two are gone once the project is made, by a name that could begin a sentence."""
    folder = tmp_path / "photos"
    folder.mkdir()
    for number in range(4):
        Image.new("L", (8, 8), 60 * number).save(folder / f"f{number}.png")
    server = serve(str(folder), "--classes", "yes,no")
    for number in range(2):
        (folder / f"f{number}.png").unlink()
    return server


@pytest.mark.parametrize("width", [1200, 1920, 390])
def test_short_names_of_classes_are_shown_whole(table: Server, come: Come, width: int) -> None:
    person = come(table, "reader")
    person.page.set_viewport_size({"width": width, "height": 900})
    person.shown()
    assert person.page.locator(".class bdi").all_text_contents()[:2] == ["cat", "dog"]
    assert person.page.evaluate(CUT_OFF) == []


@pytest.mark.parametrize("width", [1280, 390])
def test_other_columns_stand_below_the_item_and_long_ones_are_cut(table: Server, come: Come, width: int) -> None:
    person = come(table, "reader")
    person.page.set_viewport_size({"width": width, "height": 800})
    row = person.page.locator(".beside div", has_text="source")
    assert row.text_content() == f"source:s{int(person.shown()[1:]) % 3}"
    long = person.page.locator(".beside div", has_text="remark").locator("bdi").last
    assert len(long.text_content()) < 200
    person.page.get_by_role("button", name="more").click()
    assert len(long.text_content()) > 490
    assert not person.page.evaluate(STICKS_OUT)


def test_a_key_pressed_while_a_label_is_on_its_way_labels_nothing_and_says_so(table: Server, come: Come) -> None:
    person = come(table, "hasty")
    first = person.shown()
    held: list[Any] = []
    person.page.route("**/api/labels", lambda route: held.append(route))
    while not held:  # A key that comes before the item can be seen does nothing.
        person.shown()
        person.page.keyboard.press("1")
        person.page.wait_for_timeout(300)
    person.page.keyboard.press("2")
    person.page.keyboard.press("2")
    person.page.wait_for_selector(".trail.is-hint:has-text('Too fast')")
    held[0].continue_()
    person.wait("first => document.querySelector('.caption .id').textContent !== first", first)
    assert len(held) == 1
    assert person.mine() == 1


def test_bidi_characters_are_shown_without_effect(table: Server, come: Come) -> None:
    post(table, "/api/classes", {"name": TURNED})
    person = come(table, "turned")
    person.shown()
    face = person.page.locator(".class", has_text="gnp.exe")
    assert face.locator("bdi").text_content() == "a⟨U+202E⟩gnp.exe"
    assert face.get_attribute("title") == "a⟨U+202E⟩gnp.exe"
    person.press("3")
    assert "\u202e" not in person.page.locator("body").inner_text()
    assert TURNED in person.standing()["classes"]


def test_an_item_that_cannot_be_shown_is_labeled_only_after_confirmation(photos: Server, come: Come) -> None:
    person = come(photos, "ada")
    while person.shown() and person.page.locator(".stage .broken").count() == 0:
        person.press("1")
    before, name = person.mine(), person.shown()
    assert f"The picture {name} cannot be opened" in person.page.locator(".stage .broken").text_content()
    person.page.keyboard.press("1")
    person.page.wait_for_selector(".notice:has-text('Not labeled')")
    assert (person.shown(), person.mine()) == (name, before)
    person.page.get_by_role("button", name="Label it anyway").click()
    person.page.keyboard.press("1")
    person.wait_until(lambda: person.mine() == before + 1)


def test_a_picture_that_is_not_there_yet_is_not_labeled(photos: Server, come: Come) -> None:
    person = come(photos, "ada")
    person.shown()
    held: list[Any] = []
    person.page.route("**/picture?*", lambda route: held.append(route))
    person.page.reload()
    person.page.wait_for_selector(".work.is-coming .caption .id")
    person.page.keyboard.press("1")
    person.page.wait_for_selector(".trail.is-hint:has-text('not on the screen yet')")
    assert person.mine() == 0


def test_once_all_is_answered_the_page_offers_export_and_review(photos: Server, come: Come) -> None:
    person = come(photos, "ada")
    person.shown()
    post(photos, "/api/labels", {"key": "a", "annotator": "ada", "row": 0, "class": "yes", "guess_seen": False})
    post(photos, "/api/labels", {"key": "b", "annotator": "ada", "row": 1, "class": None, "guess_seen": False})
    for row in (2, 3):
        post(
            photos, "/api/labels", {"key": f"{row}", "annotator": "ada", "row": row, "class": "no", "guess_seen": False}
        )
    person.page.reload()
    person.page.wait_for_selector(".is-finished")
    assert "3 labels. 1 item was skipped" in person.page.locator(".is-finished").text_content()
    assert person.page.get_by_role("button", name="Train and pick").count() == 0
    person.page.get_by_role("button", name="Export the labels").click()
    person.page.wait_for_selector("dialog .formats")
    person.page.keyboard.press("Escape")
    person.page.get_by_role("button", name="Review doubtful labels").click()
    person.page.wait_for_selector(".reviewing")
