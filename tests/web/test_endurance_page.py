"""The page on the durability of labels makes only claims that its record supports."""

import copy
import json
from pathlib import Path
from typing import Any

import pytest

from endurance.page import page
from endurance.records import RECORD

RESULTS = Path(__file__).parents[2] / "docs" / "results"


@pytest.mark.parametrize(
    ("part", "name", "value"),
    [
        ("kills", "lost", 1),
        ("kills", "integrity", "malformed"),
        ("restarts_postgres", "rounds", 0),
        ("power_cuts", "wrong", 1),
        ("requests", "malformed", {"broken": ["500"]}),
        ("requests_postgres", "malformed", {"changed_unasked": [3]}),
        ("crowd", "beyond_overlap", 1),
        ("hour", "accuracy", 0.5),
    ],
)
def test_a_claim_that_the_numbers_do_not_support_is_not_written(part: str, name: str, value: Any) -> None:
    assert "| `kill -9` of the server, SQLite | 100 | 9 | 0, 0, 0 |" in page(RECORD)
    record = copy.deepcopy(RECORD)
    record[part][name] = value
    with pytest.raises(SystemExit, match="does not support this claim"):
        page(record)


def test_the_page_is_what_its_record_makes() -> None:
    for path in RESULTS.glob("labeling.json"):
        record = json.loads(path.read_text(encoding="utf-8"))
        assert page(record) == path.with_suffix(".md").read_text(encoding="utf-8")
