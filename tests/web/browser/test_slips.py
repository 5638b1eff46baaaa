"""Mistakes are undone, reported or without effect, in every view and with similar classes."""

import csv
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from web.browser.person import Person
from web.browser.server import Server
from web.browser.test_payloads import post

Come = Callable[..., Person]
Serve = Callable[..., Server]


def write_texts(source: Path, rows: int) -> str:
    with source.open("w", newline="", encoding="utf-8") as file:
        writer = csv.writer(file)
        writer.writerow(["id", "text"])
        writer.writerows([f"t{each}", f"text number {each}"] for each in range(rows))
    return str(source)


@pytest.fixture(scope="module")
def table(chromium: Any, serve: Serve, tmp_path_factory: pytest.TempPathFactory) -> Server:
    """Texts, and classes of which two differ by their case alone."""
    return serve(write_texts(tmp_path_factory.mktemp("slips") / "texts.csv", 120), "--classes", "cat,dog,a,A")


@pytest.fixture(scope="module")
def bare(chromium: Any, serve: Serve, tmp_path_factory: pytest.TempPathFactory) -> Server:
    """Texts without a class."""
    return serve(write_texts(tmp_path_factory.mktemp("bare") / "texts.csv", 20))


def described(person: Person, words: str) -> None:
    person.page.wait_for_selector(f".notice:has-text('{words}')")


def label_all_tiles(person: Person) -> None:
    """Mark every item of the grid, and press the key of the first class."""
    for tile in person.page.locator(".tile").all():
        tile.click()
    person.page.keyboard.press("1")


def row_of(person: Person) -> int:
    return int(person.shown().removeprefix("t"))


def label_of(person: Person, row: int) -> object:
    return person.ask(f"/api/items/{row}")["label"]


def test_shift_and_a_letter_is_the_class_of_that_capital(table: Server, come: Come) -> None:
    ann = come(table, "ann")
    rows = [row_of(ann)]
    ann.press("a")
    rows.append(row_of(ann))
    ann.press("Shift+A")
    assert [label_of(ann, row) for row in rows] == ["a", "A"]
    ann.page.keyboard.press("?")
    keys = ann.page.locator("dialog .may-break dt").all_text_contents()
    assert keys == ["1", "2", "a", "3"]


def change_in_review(server: Server, person: Person) -> int:
    """A label `cat`, which the person's review makes a `dog`; returns its row."""
    row = row_of(person)
    person.press("1")
    body = {"annotator": person.name, "row": row, "class": "dog", "key": f"{person.name}-{row}", "review": True}
    post(server, "/api/labels", body)
    assert label_of(person, row) == "dog"
    return row


def test_backspace_in_review_brings_the_label_before_it_back(table: Server, come: Come) -> None:
    bea = come(table, "bea")
    row = change_in_review(table, bea)
    bea.go_to("review").page.keyboard.press("Backspace")
    described(bea, "cat\u2069 again")
    assert label_of(bea, row) == "cat"
    bea.page.keyboard.press("Backspace")
    described(bea, "comes first under Label")
    assert label_of(bea, row) is None
    bea.go_to("label")
    assert row_of(bea) == row
    assert bea.complaints == []


def test_space_leaves_a_label_that_stands_again(table: Server, come: Come) -> None:
    cem = come(table, "cem")
    row = change_in_review(table, cem)
    cem.page.keyboard.press("Backspace")
    cem.wait("id => document.querySelector('.caption .id')?.textContent === id", f"t{row}")
    assert "its label is \u2068cat\u2069 again" in cem.page.locator(".caption").text_content()
    cem.press(" ")
    assert label_of(cem, row) == "cat"
    assert cem.mine() == 1


@pytest.mark.parametrize("view", ["map", "curve"])
def test_backspace_where_nothing_is_undone_says_where_it_is(table: Server, come: Come, view: str) -> None:
    dan = come(table, f"dan-{view}")
    dan.press("1")
    dan.go_to(view).page.keyboard.press("Backspace")
    described(dan, "undo works in Label, Grid, Items and Review")
    assert dan.mine() == 1


def test_undo_removes_a_whole_screen_of_labels_and_keeps_earlier_ones(table: Server, come: Come) -> None:
    eva = come(table, "eva")
    eva.press("1")
    eva.go_to("grid").page.wait_for_selector(".tile")
    shown = eva.page.locator(".tile").count()
    assert shown > 1
    label_all_tiles(eva)
    described(eva, f"Saved {shown} labels")
    assert eva.mine() == shown + 1
    eva.page.keyboard.press("Backspace")
    described(eva, f"all {shown} of the last screen")
    assert eva.mine() == 1
    eva.page.keyboard.press("Backspace")
    described(eva, "comes first under Label")
    assert eva.mine() == 0


def test_after_another_label_undo_removes_single_labels(table: Server, come: Come) -> None:
    fay = come(table, "fay", view="grid")
    fay.page.wait_for_selector(".tile")
    label_all_tiles(fay)
    described(fay, "Saved")
    labels = fay.mine()
    fay.page.keyboard.press("l")
    fay.press("2")
    fay.page.keyboard.press("g")
    fay.page.wait_for_selector(".gridding")
    fay.page.keyboard.press("Backspace")
    described(fay, "comes first under Label")
    assert fay.mine() == labels


@pytest.mark.parametrize("width", [1280, 390])
def test_a_grid_of_texts_shows_whole_lines(table: Server, come: Come, width: int) -> None:
    person = come(table, f"reader-{width}")
    person.page.set_viewport_size({"width": width, "height": 844})
    person.go_to("grid")
    person.page.wait_for_selector(".tile .excerpt")
    person.page.locator(".excerpt").first.evaluate("node => { node.textContent = 'many words '.repeat(30) }")
    inside = person.page.locator(".tile").first.evaluate(
        "node => { const tile = node.getBoundingClientRect(), text = node.firstChild.getBoundingClientRect();"
        " return text.bottom <= tile.bottom && text.width > 180 }"
    )
    assert inside
    last = person.page.locator(".tile").last.bounding_box()
    assert last["y"] + last["height"] < 844


def test_training_without_a_label_says_that_there_is_nothing_to_learn(bare: Server, come: Come) -> None:
    person = come(bare, "kim")
    person.shown()
    person.page.keyboard.press("t")
    described(person, "Nothing is labeled yet")


def test_without_classes_the_page_says_how_to_add_one(bare: Server, come: Come) -> None:
    gil = come(bare, "gil")
    gil.shown()
    gil.page.keyboard.press("1")
    described(gil, "press + in the Label view")
    gil.page.keyboard.press("?")
    assert "There is no class yet" in gil.page.locator("dialog").text_content()
    assert "/" not in gil.page.locator("dialog dt").all_text_contents()
    gil.page.keyboard.press("Escape")
    for number in range(13):
        post(bare, "/api/classes", {"name": f"class {number}"})
    gil.page.wait_for_selector(".class:has-text('class 12')")
    gil.page.keyboard.press("?")
    assert "/" in gil.page.locator("dialog dt").all_text_contents()


def say(server: Server, annotator: str, row: int, name: str) -> None:
    body = {"annotator": annotator, "row": row, "class": name, "key": f"{annotator}-{row}"}
    post(server, "/api/labels", body)


def test_before_the_first_model_the_curve_knows_of_the_labels(bare: Server, come: Come) -> None:
    post(bare, "/api/classes", {"name": "seen"})
    say(bare, "hal", 0, "seen")
    hal = come(bare, "hal", view="curve")
    hal.page.wait_for_selector(".curving .advice:has-text('the model has not learned yet')")
    assert "1 label so far" in hal.page.locator(".curving .chart").text_content()


def test_agreement_is_called_by_the_name_that_it_has_for_so_many_people(bare: Server, come: Come) -> None:
    ida = come(bare, "ida")
    for name in ("yes", "no"):
        post(bare, "/api/classes", {"name": name})
    for people, named in ((("hal", "ida"), "Cohen's kappa"), (("jo",), "Fleiss' kappa")):
        for row, name in ((1, "yes"), (2, "no")):
            for who in people:
                say(bare, who, row, name)
        ida.page.locator("#open-annotator").click()
        ida.page.wait_for_selector(f'.others:has-text("{named}")')
        assert [f"({named} " in said for said in ida.page.locator(".others p").all_text_contents()] == [True]
        ida.page.keyboard.press("Escape")
