"""The page on tests with Label Studio makes only claims that its record supports."""

import copy
import json
from pathlib import Path
from typing import Any

import pytest

from label_studio_live.guide import commands
from label_studio_live.page import page

PATH = Path(__file__).parents[2] / "docs" / "results" / "label-studio.json"


def record() -> dict[str, Any]:
    found: dict[str, Any] = json.loads(PATH.read_text(encoding="utf-8"))
    return found


def test_the_page_is_what_its_record_makes() -> None:
    assert page(record()) == PATH.with_suffix(".md").read_text(encoding="utf-8")


def test_the_record_is_of_the_long_form() -> None:
    found = record()
    assert found["many"]["items"] == 5000
    assert found["many"]["labels"] == 200
    assert found["watching"]["rounds"] == 3
    assert found["faults"]["kills"] == 30
    assert found["expiry"]["waited_s"] > 300


@pytest.mark.parametrize(
    ("part", "name", "value"),
    [
        ("many", "handed_twice", 1),
        ("many", "are_the_first", False),
        ("watching", "equal_to_files", False),
        ("expiry", "on_the_server", 20),
        ("faults", "lost", 1),
        ("faults", "doubled_tasks", 1),
        ("faults", "requests", 10_000),
        ("faults", "equal_to_no_faults", False),
        ("guide", "pictures_shown", 0),
    ],
)
def test_a_claim_that_the_numbers_do_not_support_is_not_written(part: str, name: str, value: Any) -> None:
    changed = copy.deepcopy(record())
    changed[part][name] = value
    with pytest.raises(SystemExit, match="does not support this claim"):
        page(changed)


def test_the_guide_has_the_blocks_that_are_followed() -> None:
    _, rounds, steps, web, disk = commands()
    assert [len(block) for block in (rounds, steps, web, disk)] == [2, 5, 1, 1]
    assert " watch " in rounds[1]
    assert "--local-files" in disk[0]
