"""A server that does not respond: the label is shown as unsaved, and arrives once."""

import signal
from collections.abc import Callable
from typing import Any

from web.browser.person import Person
from web.browser.server import Server

Come = Callable[..., Person]
UNSENT = "() => Object.entries(localStorage).filter(([name]) => name.startsWith('dubito.unsent')).length"


def test_a_label_pressed_offline_waits_visibly_and_arrives_once(demo: Server, come: Come) -> None:
    person = come(demo, "offline")
    shown = person.shown()
    person.page.context.set_offline(True)
    person.page.keyboard.press(person.answer())
    person.page.wait_for_selector("#unsaved:has-text('not saved yet')")
    assert person.shown() == shown
    assert person.page.evaluate(UNSENT) == 1
    person.page.keyboard.press("5")
    person.page.wait_for_timeout(1500)
    person.page.context.set_offline(False)
    person.wait("before => document.querySelector('.caption .id')?.textContent !== before", shown)
    person.page.wait_for_selector("#unsaved", state="hidden")
    assert person.mine() == 1
    assert person.page.evaluate(UNSENT) == 0
    person.label(3)
    assert person.mine() == 4


def test_a_label_outlives_a_killed_server_and_a_closed_page(demo: Server, come: Come) -> None:
    person = come(demo, "killed")
    person.label(2)
    demo.stop(signal.SIGKILL)
    person.page.keyboard.press(person.answer())
    person.page.wait_for_selector("#unsaved:has-text('not saved yet')")
    context = person.page.context
    person.page.close()
    demo.start()
    later = Person(context.new_page(), demo.address, "killed")
    later.page.goto(demo.address)
    later.page.wait_for_selector(".notice:has-text('saved now')")
    assert later.mine() == 3
    later.label(1)
    assert later.mine() == 4


def test_a_lost_response_does_not_duplicate_a_label(demo: Server, come: Come) -> None:
    person = come(demo, "lost")
    shown = person.shown()
    tries = []

    def lose_the_first(route: Any) -> None:
        tries.append(route.request.post_data_json["key"])
        if len(tries) == 1:
            route.fetch()
            route.abort()
        else:
            route.continue_()

    person.page.route("**/api/labels", lose_the_first)
    person.page.keyboard.press(person.answer())
    person.wait("before => document.querySelector('.caption .id')?.textContent !== before", shown)
    assert len(tries) == 2
    assert len(set(tries)) == 1
    assert person.mine() == 1


def test_a_class_whose_answer_got_lost_is_sent_again_and_not_refused(demo: Server, come: Come) -> None:
    person = come(demo, "lost-class")
    tries = []

    def lose_the_first(route: Any) -> None:
        tries.append(route.request.post_data_json["key"])
        if len(tries) == 1:
            route.fetch()
            route.abort()
        else:
            route.continue_()

    person.page.route("**/api/classes", lose_the_first)
    person.page.fill("#new-class", "smudge")
    person.page.press("#new-class", "Enter")
    person.page.wait_for_selector(".notice:has-text('Added')")
    assert len(tries) == 2
    assert len(set(tries)) == 1
    assert person.page.evaluate(UNSENT) == 0


def test_a_rejected_request_is_reported_and_not_repeated(demo: Server, come: Come) -> None:
    person = come(demo, "refused")
    shown = person.shown()
    body = '{"error": "There is no class of that name; add it first."}'
    person.page.route("**/api/labels", lambda route: route.fulfill(status=422, body=body))
    person.page.keyboard.press("3")
    person.page.wait_for_selector(".notice.wrong:has-text('add it first')")
    assert person.shown() == shown
    assert person.page.evaluate(UNSENT) == 0
