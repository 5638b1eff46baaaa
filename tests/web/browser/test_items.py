"""The list of all items in a real browser: filter, correct, undo, open, zoom, similar items."""

from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
from PIL import Image

from web.browser.person import Person
from web.browser.server import Server

Come = Callable[..., Person]
expect = pytest.importorskip("playwright.sync_api", reason="tests of the page need playwright: make page").expect


@pytest.fixture
def digits(serve: Callable[..., Server], tmp_path: Path) -> Server:
    return serve("--demo", str(tmp_path))


def test_items_are_filtered_labeled_undone_opened_and_compared_by_keys(digits: Server, come: Come) -> None:
    person = come(digits, "ada")
    skipped = person.press("Space")
    person.press("1")
    page = person.page
    page.keyboard.press("i")
    expect(page.locator(".listing .found")).to_have_text("1 to 60 of 1,797 items")
    page.get_by_label("Show").select_option("skipped")
    expect(page.locator(".listing .found")).to_have_text("1 item")
    tile = page.locator(".tile")
    expect(tile).to_have_attribute("title", skipped)
    page.keyboard.press("Escape")
    page.get_by_label("Show").select_option("all")
    expect(page.locator(".listing .found")).to_have_text("1 to 60 of 1,797 items")
    page.locator(".found").click()
    page.evaluate("document.activeElement.blur()")
    for key in ("ArrowRight", "Space", "ArrowRight", "Space", "7"):
        page.keyboard.press(key)
    expect(page.locator(".tag .said")).to_have_text(["7", "7"])
    assert person.labeled() == 3
    page.keyboard.press("Backspace")
    page.wait_for_selector(".notice:has-text('Undone: 2 labels')")
    assert person.labeled() == 1
    page.keyboard.press("ArrowRight")
    page.keyboard.press("Enter")
    page.wait_for_selector("dialog.is-large img")
    page.keyboard.press("ArrowUp")
    page.wait_for_selector("dialog .picture.is-zoomed")
    page.keyboard.press("ArrowRight")
    expect(page.locator("dialog .is-zoomed")).to_have_count(0)
    page.keyboard.press("8")
    page.wait_for_selector("dialog .facts:has-text('Labeled 8')")
    page.get_by_role("button", name="More like this").click()
    expect(page.locator(".like .said")).to_have_text("digit-0001.png")
    expect(tile.first).to_have_attribute("title", "digit-0001.png")
    rows = [each["row"] for each in person.ask("/api/items?like=1&count=5")["items"]]
    assert rows[0] == 1
    assert [page.locator(".tile").nth(place).get_attribute("title") for place in range(5)] == [
        f"digit-{row:04d}.png" for row in rows
    ]
    assert person.complaints == []


def test_a_search_and_a_page_further_show_what_the_server_finds(digits: Server, come: Come) -> None:
    person = come(digits, "bea", view="items")
    page = person.page
    page.get_by_label("Search names and texts").fill("digit-17")
    expect(page.locator(".found")).to_have_text("1 to 60 of 97 items")
    page.get_by_role("button", name="Next").click()
    expect(page.locator(".found")).to_have_text("61 to 97 of 97 items")
    expect(page.locator(".tile").first).to_have_attribute("title", "digit-1760.png")
    page.reload()
    expect(page.locator(".found")).to_have_text("1 to 60 of 97 items")


def test_a_grid_without_a_model_labels_the_marked_items_by_a_class_key(digits: Server, come: Come) -> None:
    person = come(digits, "cid", view="grid")
    page = person.page
    page.wait_for_selector(".tile")
    assert "Mark items of one class" in page.locator(".question").text_content()
    page.keyboard.press("5")
    page.wait_for_selector(".notice:has-text('Mark items first')")
    names = [page.locator(".tile").nth(place).get_attribute("title") for place in range(2)]
    for key in ("ArrowRight", "Space", "ArrowRight", "Space", "5"):
        page.keyboard.press(key)
    page.wait_for_selector(".notice:has-text('Saved 2 labels')")
    labeled = person.ask("/api/items?show=labeled")["items"]
    assert {each["id"] for each in labeled} == set(names)
    assert {each["label"] for each in labeled} == {"5"}
    assert person.complaints == []


def test_copies_share_a_label_and_near_copies_get_one_for_all(
    serve: Callable[..., Server], come: Come, tmp_path: Path
) -> None:
    folder = tmp_path / "photos"
    folder.mkdir()
    rng = np.random.default_rng(0)
    pictures = rng.integers(0, 200, (12, 8, 8), dtype=np.uint8)
    for number, pixels in enumerate([*pictures, pictures[1], pictures[2] + 1, pictures[2] + 2]):
        Image.fromarray(pixels).save(folder / f"{number:02d}.png")
    person = come(serve(str(folder), "--classes", "cat,dog"), "ada", view="items")
    page = person.page
    page.get_by_label("Show").select_option("copies")
    expect(page.locator(".found")).to_have_text("2 items")
    page.locator(".tile").first.focus()
    page.keyboard.press("1")
    expect(page.locator(".tag .said")).to_have_text(["cat", "cat"])
    page.locator(".tile").last.focus()
    page.keyboard.press("Enter")
    page.wait_for_selector(".facts:has-text('1 exact copy, with the same label')")
    page.keyboard.press("Escape")
    page.goto(f"{person.address}#items?like=2")
    expect(page.locator(".like .said")).to_have_text("02.png")
    expect(page.locator(".found")).to_have_text("15 items")
    page.keyboard.press("ArrowRight")
    page.keyboard.press("Enter")
    page.get_by_role("button", name="Near-copies").click()
    expect(page.locator(".found")).to_have_text("3 items")
    page.keyboard.press("2")
    expect(page.locator(".tag .said")).to_have_text(["dog"] * 3)
    page.get_by_label("Distance").select_option("")
    expect(page.locator(".found")).to_have_text("15 items")
    assert {each["id"] for each in person.ask("/api/items?class=dog")["items"]} == {"02.png", "13.png", "14.png"}
    assert person.complaints == []


def test_a_long_text_is_shown_whole_where_it_is_labeled(
    serve: Callable[..., Server], come: Come, tmp_path: Path
) -> None:
    source = tmp_path / "texts.csv"
    names = ["apple", "stone"]
    rows = [f"t{row},{f'a {names[row % 2]} here, '.replace(',', '') * 60} end {row}" for row in range(40)]
    # The first 30 have labels, and that of row 3 is wrong.
    labels = [names[row % 2 != (row == 3)] if row < 30 else "" for row in range(40)]
    source.write_text("\n".join(["id,text,label", *map(",".join, zip(rows, labels, strict=True))]))
    person = come(serve(str(source)), "ada", view="items")
    page = person.page
    page.wait_for_selector(".tile:has-text('…')")
    page.locator(".tile").nth(3).focus()
    page.keyboard.press("Enter")
    page.wait_for_selector("dialog .text:has-text('end 3')")
    page.keyboard.press("ArrowRight")
    page.wait_for_selector("dialog .text:has-text('end 4')")
    page.keyboard.press("Escape")
    page.locator(".tile").nth(5).click()
    page.get_by_role("button", name="Label one by one").click()
    page.wait_for_selector(".work .text:has-text('end 5')")
    person.wait_for_model(30)
    person.go_to("review")
    expect(page.locator(".reviews .passage").first).to_contain_text("end 3")
    assert person.complaints == []


def test_what_comes_and_goes_in_the_source_is_announced_and_counted(
    serve: Callable[..., Server], come: Come, tmp_path: Path
) -> None:
    folder = tmp_path / "photos"
    folder.mkdir()
    for number in range(10):
        Image.new("L", (8, 8), 20 * number).save(folder / f"{number}.png")
    person = come(serve(str(folder), "--classes", "cat,dog", "--watch"), "ada")
    person.press("1")
    page = person.page
    for number in range(10, 14):
        Image.new("L", (8, 8), 17 * number).save(folder / f"{number}.png")
    page.wait_for_selector(".notice:has-text(' new (')")
    expect(page.locator("#project-status")).to_contain_text("1 of 14 labeled")
    (folder / "0.png").unlink()
    page.wait_for_selector(".notice:has-text('1 removed (0.png)')")
    expect(page.locator("#project-status")).to_contain_text("of 13 labeled")
    page.keyboard.press("i")
    expect(page.locator(".found")).to_have_text("13 items")
    assert person.complaints == []
