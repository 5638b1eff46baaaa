"""The keys of classes, computed by the page's module."""

from collections.abc import Callable

from web.browser.person import Person
from web.browser.server import Server

COMMANDS = set("lgmcrht")


def keys_of(person: Person, classes: list[str]) -> list[str]:
    found = person.page.evaluate("async classes => (await import('/page/keys.js')).keysOf(classes)", classes)
    return [str(each) for each in found]


def test_no_class_has_the_key_of_a_command_or_of_another_class(demo: Server, come: Callable[..., Person]) -> None:
    person = come(demo, "keys")
    names = [f"class {number}" for number in range(40)]
    keys = keys_of(person, names)
    given = [key for key in keys if key]
    assert keys[:9] == list("123456789")
    assert len(given) == len(set(given)) == 28
    assert not COMMANDS & set(given)
    assert keys[28:] == [""] * 12


def test_a_class_called_by_one_character_has_it_as_its_key(demo: Server, come: Callable[..., Person]) -> None:
    person = come(demo, "keys")
    assert keys_of(person, list("0123456789")) == list("0123456789")
    assert keys_of(person, ["cat", "2", "dog"]) == ["1", "2", "3"]
    assert keys_of(person, ["A", "a", "g"]) == ["a", "1", "2"]


def test_a_new_class_changes_no_key(demo: Server, come: Callable[..., Person]) -> None:
    person = come(demo, "keys")
    classes = ["cat", "dog", "bird"]
    for name in ("2", "d", "D", "10", "x", "9", "0", "A", "a"):
        before = keys_of(person, classes)
        classes.append(name)
        assert keys_of(person, classes)[: len(before)] == before
    assert keys_of(person, ["cat", "dog", "bird", "2"]) == ["1", "2", "3", "a"]


def test_a_number_has_its_own_key_or_a_letter(demo: Server, come: Callable[..., Person]) -> None:
    person = come(demo, "keys")
    assert keys_of(person, ["0", "1", "10", "11", "2", "3"]) == ["0", "1", "a", "b", "2", "3"]
    assert keys_of(person, ["cat", "1", "2"]) == ["1", "a", "2"]
