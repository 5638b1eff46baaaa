"""Labeling with keys in a real browser, with `dubito label --demo`."""

import csv
import io
from collections.abc import Callable
from typing import Any

from web.browser.person import Person
from web.browser.server import Server

Come = Callable[..., Person]


def test_twenty_digits_are_labeled_by_keys_and_each_is_stored(demo: Server, come: Come) -> None:
    ada = come(demo, "ada")
    before = ada.labeled()
    seen = ada.label(20)
    assert len(set(seen)) == 20
    assert ada.labeled() == before + 20
    assert ada.mine() == 20
    assert "labeled" in ada.page.locator("#project-status").text_content()
    assert ada.complaints == []


def test_space_skips_without_a_label(demo: Server, come: Come) -> None:
    bob = come(demo, "bob")
    labeled, skipped = bob.standing()["labeled"], bob.standing()["skipped"]
    bob.press(" ")
    assert (bob.standing()["labeled"], bob.standing()["skipped"]) == (labeled, skipped + 1)


def test_backspace_undoes_without_limit_and_across_a_reload(demo: Server, come: Come) -> None:
    eve = come(demo, "eve")
    seen = eve.label(5)
    eve.page.reload()
    eve.shown()
    for wanted in reversed(seen):
        eve.page.keyboard.press("Backspace")
        eve.wait("id => document.querySelector('.caption .id')?.textContent === id", wanted)
    assert eve.mine() == 0
    eve.page.keyboard.press("Backspace")
    eve.page.wait_for_selector(".notice.wrong")
    assert eve.label(1) == [seen[0]]


def test_a_click_labels_and_leaves_the_keyboard_to_the_page(demo: Server, come: Come) -> None:
    may = come(demo, "may")
    before = may.shown()
    may.page.get_by_role("button", name=may.answer(), exact=True).click()
    may.wait("before => document.querySelector('.caption .id')?.textContent !== before", before)
    labeled = may.standing()["labeled"]
    may.press(" ")
    assert may.standing()["labeled"] == labeled


def test_a_key_that_is_held_down_labels_once(demo: Server, come: Come) -> None:
    pat = come(demo, "pat")
    before = pat.shown()
    pat.page.keyboard.down("3")
    pat.wait("before => document.querySelector('.caption .id')?.textContent !== before", before)
    for _ in range(5):
        pat.page.keyboard.down("3")
    pat.page.keyboard.up("3")
    assert pat.mine() == 1


def test_a_new_class_has_a_key_immediately(demo: Server, come: Come) -> None:
    kim = come(demo, "kim")
    kim.page.keyboard.press("+")
    kim.page.keyboard.type("smudge")
    kim.page.keyboard.press("Enter")
    kim.page.wait_for_selector(".class:has-text('smudge') kbd")
    key = kim.page.locator(".class:has-text('smudge') kbd").text_content()
    assert key not in set("LGMCRHT0123456789")
    kim.press(key.lower())
    kim.page.keyboard.press("Backspace")
    kim.wait("() => document.querySelector('.caption').textContent.includes('undone')")
    assert "smudge" in kim.standing()["classes"]


def test_the_guess_is_hidden_until_asked_for_and_that_is_kept(demo: Server, come: Come) -> None:
    guy = come(demo, "guy")
    guy.label(20)
    guy.wait_for_model(20)
    sent: list[dict[str, Any]] = []
    guy.page.on("request", lambda each: sent.append(each.post_data_json) if each.url.endswith("/api/labels") else None)
    assert guy.page.locator(".guesses").count() == 0
    guy.page.keyboard.press("h")
    guy.page.wait_for_selector(".guesses li")
    guy.press(guy.answer())
    assert guy.page.locator(".guesses").count() == 0
    guy.press(guy.answer())
    assert [each["guess_seen"] for each in sent] == [True, False]


def test_the_next_round_comes_by_itself(demo: Server, come: Come) -> None:
    sue = come(demo, "sue")
    first = sue.standing()["round"]
    sue.label(25)
    sue.wait_until(lambda: sue.standing()["round"] > first)
    sue.label(5)
    assert sue.complaints == []


def test_two_people_are_never_shown_the_same_item(demo: Server, come: Come) -> None:
    one, two = come(demo, "one"), come(demo, "two")
    seen = [(one.press(one.answer()), two.press(two.answer())) for _ in range(10)]
    assert not {mine for mine, _ in seen} & {theirs for _, theirs in seen}


def test_new_guidelines_are_shown_to_others_immediately(demo: Server, come: Come) -> None:
    ann, ben = come(demo, "ann"), come(demo, "ben")
    ann.page.get_by_role("button", name="Edit the guidelines").click()
    ann.page.get_by_label("Guidelines, plain text").fill("A 7 may have a bar.\n\nA 1 has none.")
    ann.page.get_by_role("button", name="Save").click()
    ben.wait("() => document.querySelector('.agreed').textContent.includes('A 1 has none.')")
    assert ben.page.locator(".agreed").all_text_contents() == ["A 7 may have a bar.\n\nA 1 has none."]


def test_labels_are_exported(demo: Server, come: Come) -> None:
    zoe = come(demo, "zoe")
    zoe.label(2)
    zoe.page.get_by_role("button", name="Export").click()
    with zoe.page.expect_download() as waiting:
        zoe.page.get_by_role("link", name="CSV").click()
    rows = list(csv.reader(io.StringIO(waiting.value.path().read_text(encoding="utf-8"))))
    assert len(rows) - 1 >= zoe.labeled() > 0


def rename(person: Person, name: str) -> None:
    person.page.get_by_role("button", name="You are").click()
    person.page.get_by_label("Your name").fill(name)
    person.page.get_by_role("button", name="Save").click()
    person.page.wait_for_selector(f"#annotator:text-is('{name}')")
    person.name = name


def test_a_changed_name_is_stored_with_later_labels(demo: Server, come: Come) -> None:
    new = come(demo, "first-name")
    rename(new, "second name")
    new.label(2)
    assert new.mine() == 2


def test_items_of_one_annotator_are_not_labeled_by_the_next(demo: Server, come: Come) -> None:
    eve = come(demo, "eve")
    eve.shown()
    eve.page.route("**/api/next*", lambda _: None)
    rename(eve, "adam")
    eve.page.wait_for_selector(".empty:has-text('Asking for the next items')")
    eve.page.keyboard.press("1")
    eve.page.unroute("**/api/next*")  # lets go what was held, too
    eve.label(2)
    assert eve.mine() == 2


def test_a_label_under_way_while_the_name_changes_is_not_asked_for_again(demo: Server, come: Come) -> None:
    abe = come(demo, "abe")
    held: list[Any] = []
    abe.page.route("**/api/labels", lambda route: held.append(route))

    def is_sent() -> bool:
        # A key has no effect while a new round brings another item.
        abe.page.keyboard.press(abe.answer())
        abe.page.wait_for_timeout(100)
        return bool(held)

    abe.wait_until(is_sent)
    before = abe.shown()
    rename(abe, "bea")
    abe.shown()
    abe.page.unroute("**/api/labels")
    abe.wait_until(lambda: abe.shown() != before)
    abe.label(2)
    assert abe.mine() == 2


def test_question_mark_shows_the_keys_and_they_can_be_switched_off(demo: Server, come: Come) -> None:
    ida = come(demo, "ida")
    shown = ida.shown()
    ida.page.keyboard.press("?")
    ida.page.get_by_label("Single keys act").uncheck()
    ida.page.keyboard.press("Escape")
    ida.page.keyboard.press("3")
    ida.page.keyboard.press("g")
    assert ida.shown() == shown
    assert ida.mine() == 0
