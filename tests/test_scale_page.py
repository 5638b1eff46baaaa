"""The numbers in docs/explanation/scale.md are those of the records."""

import importlib
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]


def test_the_page_of_scale_is_made_from_its_records(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys, "path", [str(ROOT / "benchmarks"), *sys.path])
    page = importlib.import_module("scale_page")
    text = page.PAGE.read_text(encoding="utf-8")
    assert page.filled(text) == text
    record = page.read("scale.json")
    assert len({run["digest"] for run in record["ray"]}) == 1
    one, two = (run["seconds"] for run in record["coverage"])
    assert f"{one / two:.1f} times as fast as one" in text
    one, two = (run["seconds"] for run in record["ray"])
    assert f"one worker {one:.1f} s and two {two:.1f} s, which is {one / two:.1f} times as fast" in text
    wide = record["wide"]
    moved, spent = wide["received"] / 1e6, wide["driver"]
    described = f"took {wide['rounds']} rounds, {moved:.1f} MB from all shards together and {spent:.1f} s"
    assert described in " ".join(text.split())
    picks = record["ray"][0]
    assert f"{(picks['sent'] + picks['received']) / picks['budget'] / 1e3:.1f} KB per pick" in text
