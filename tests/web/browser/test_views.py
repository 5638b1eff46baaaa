"""Grid, map, curve and review, in a real browser with `dubito label --demo`."""

from collections.abc import Callable
from typing import Any

import pytest

from web.browser.person import Person
from web.browser.server import TOKEN, Server

Come = Callable[..., Person]
CUT_ENDINGS = """() => { const edge = document.querySelector("svg.curve").getBoundingClientRect().right;
  return [...document.querySelectorAll("svg.curve .ending")]
    .filter(each => each.getBoundingClientRect().right > edge).map(each => each.textContent) }"""


@pytest.fixture(scope="module")
def taught(demo: Server, chromium: Any) -> Server:
    """A model has learned from fifty labels, four of which are wrong."""
    context = chromium.new_context()
    context.set_default_timeout(240_000)
    context.add_init_script("localStorage.setItem('dubito.annotator', 'teacher')")
    teacher = Person(context.new_page(), demo.address, "teacher")
    teacher.page.goto(f"{demo.address}?token={TOKEN}")
    teacher.label(20)
    for _ in range(4):
        teacher.press(str((int(teacher.answer()) + 5) % 10))
    teacher.label(36)
    teacher.wait_for_model(60)
    context.close()
    return demo


def test_a_grid_labels_all_but_the_marked_ones(taught: Server, come: Come) -> None:
    person = come(taught, "grid")
    person.page.keyboard.press("g")
    person.page.wait_for_selector(".tile")
    tiles, before = person.page.locator(".tile").count(), person.labeled()
    odd = person.page.locator(".tile").nth(1).get_attribute("title")
    person.page.keyboard.press("ArrowRight")
    person.page.keyboard.press("ArrowRight")
    person.page.keyboard.press("Space")
    assert person.page.locator(".tile[aria-pressed=true]").count() == 1
    person.page.keyboard.press("Enter")
    person.page.wait_for_selector(".notice:has-text('odd one comes first')")
    assert person.labeled() == before + tiles - 1
    person.go_to("label")
    assert person.shown() == odd
    assert person.complaints == []


def test_a_grid_shows_the_class_whose_key_is_pressed(taught: Server, come: Come) -> None:
    person = come(taught, "grid-two", view="grid")
    person.page.wait_for_selector(".tile")
    for key in "07":
        person.page.keyboard.press(key)
        person.page.wait_for_selector(f".groups .class[aria-pressed=true] bdi:text-is('{key}')")
        assert person.page.locator(".groups .class[aria-pressed=true]").count() == 1
    assert person.complaints == []


def draw_around(person: Person, share: float = 0.5) -> None:
    """A lasso around the middle of the map."""
    box = person.page.locator("canvas").bounding_box()
    x, y = box["x"] + box["width"] / 2, box["y"] + box["height"] / 2
    reach = min(box["width"], box["height"]) * share / 2
    mouse = person.page.mouse
    mouse.move(x - reach, y - reach)
    mouse.down()
    for across, down in ((1, -1), (1, 1), (-1, 1), (-1, -0.8)):
        mouse.move(x + across * reach, y + down * reach, steps=4)
    mouse.up()


def test_a_lasso_restricts_what_is_asked_about_and_gives_it_back(taught: Server, come: Come) -> None:
    person = come(taught, "lasso", view="map")
    person.page.wait_for_selector(".surface[data-drawn=webgl2]")
    person.page.get_by_role("button", name="Lasso", exact=True).click()
    draw_around(person)
    person.page.get_by_role("button", name="Ask only about these").click()
    person.page.get_by_role("button", name="Ask about all again").wait_for()
    restricted = person.standing()["restricted"]
    assert 0 < restricted < person.standing()["items"]
    person.page.get_by_role("button", name="Ask about all again").click()
    person.wait_until(lambda: person.standing()["restricted"] is None)
    assert person.complaints == []


def test_the_slider_tells_how_much_the_picks_so_far_cover(taught: Server, come: Come) -> None:
    person = come(taught, "slider", view="map")
    person.page.wait_for_selector(".surface[data-drawn=webgl2]")
    last = person.page.locator(".picks output").text_content()
    person.page.locator("#upto").focus()
    person.page.keyboard.press("Home")
    first = person.page.locator(".picks output").text_content()
    assert first.startswith("0 of ")
    assert not last.startswith("0 of ")


def test_hovering_shows_an_item_and_pressing_it_leads_to_its_label(taught: Server, come: Come) -> None:
    person = come(taught, "hover", view="map")
    person.page.wait_for_selector(".surface[data-drawn=webgl2]")
    box = person.page.locator("canvas").bounding_box()
    for step in range(40):
        x, y = box["x"] + box["width"] * (0.35 + 0.008 * step), box["y"] + box["height"] / 2
        person.page.mouse.move(x, y)
        person.page.wait_for_timeout(120)
        if person.page.locator(".card").is_visible():
            break
    name = person.page.locator(".card .id").text_content()
    person.page.mouse.click(x, y)
    person.page.get_by_role("button", name="Label this one").click()
    person.page.wait_for_selector(".labeling")
    assert person.shown() == name


def test_the_map_is_drawn_without_webgl(taught: Server, come: Come) -> None:
    person = come(taught, "flat")
    person.page.evaluate(
        "() => { const get = HTMLCanvasElement.prototype.getContext;"
        "HTMLCanvasElement.prototype.getContext = function (kind, ...rest) {"
        " return kind === 'webgl2' ? null : get.call(this, kind, ...rest) } }"
    )
    person.page.keyboard.press("m")
    person.page.wait_for_selector(".surface[data-drawn='2d']")
    inked = person.page.evaluate(
        "() => { const c = document.querySelector('canvas');"
        " const { data } = c.getContext('2d').getImageData(0, 0, c.width, c.height);"
        " return data.reduce((n, each, at) => n + (at % 4 === 3 && each > 0 ? 1 : 0), 0) }"
    )
    assert inked > 1000


def test_colors_are_by_doubt_by_label_or_by_the_order_of_picks(taught: Server, come: Come) -> None:
    person = come(taught, "colors", view="map")
    person.page.wait_for_selector(".surface[data-drawn=webgl2]")
    pictures = []
    for name in ("Doubt", "Label", "Pick order"):
        person.page.get_by_label(name, exact=True).check()
        person.page.wait_for_timeout(200)
        pictures.append(person.page.locator(".surface").screenshot())
    assert len(set(pictures)) == 3


def test_the_curve_shows_every_round_and_says_whether_to_stop(taught: Server, come: Come) -> None:
    person = come(taught, "curve", view="curve")
    person.page.wait_for_selector("svg.curve circle.dot")
    facts = person.ask("/api/curve")
    assert person.page.locator("svg.curve circle.dot").count() == len(facts["points"])
    for width in (1280, 390):
        person.page.set_viewport_size({"width": width, "height": 800})
        person.go_to("map").go_to("curve")
        person.page.wait_for_selector("svg.curve .ending")
        assert person.page.evaluate(CUT_ENDINGS) == []
    assert person.page.locator(".advice").text_content().lower() == facts["advice"]["sentence"].lower()


def test_labels_that_the_model_doubts_are_kept_or_changed_by_a_key(taught: Server, come: Come) -> None:
    person = come(taught, "reviewer", view="review")
    person.page.wait_for_selector(".reviews .entry")
    doubted = person.ask("/api/review")["items"]
    first, second = doubted[0], doubted[1]
    person.page.keyboard.press("Enter")
    person.wait("least => document.querySelectorAll('.reviews .entry').length < least", len(doubted))
    assert person.ask(f"/api/items/{first['row']}")["label"] == first["label"]
    person.page.keyboard.press(second["guess"])
    person.wait("least => document.querySelectorAll('.reviews .entry').length < least", len(doubted) - 1)
    assert person.ask(f"/api/items/{second['row']}")["label"] == second["guess"]
    assert person.complaints == []
