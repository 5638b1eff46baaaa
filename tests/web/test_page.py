"""The page's files, without a browser: what a strict policy and a person without a network need of them."""

import re
from pathlib import Path

import pytest

import dubito.labeling.web

PAGE = Path(dubito.labeling.web.__file__).parent / "page"
MODULES = sorted(PAGE.glob("*.js"))
MARKUP_OUT_OF_TEXT = (
    "innerHTML",
    "outerHTML",
    "insertAdjacentHTML",
    "document.write",
    "eval(",
    "new Function",
    "srcdoc",
)


def name_of(path: Path) -> str:
    return path.name


def test_every_file_that_the_page_asks_for_is_there() -> None:
    asked = set(re.findall(r'(?:href|src)="/page/([^"]+)"', (PAGE / "index.html").read_text(encoding="utf-8")))
    for module in MODULES:
        asked |= set(re.findall(r'(?:from|import\()\s*"\./([^"]+)"', module.read_text(encoding="utf-8")))
    assert "main.js" in asked
    assert sorted(asked - {path.name for path in PAGE.iterdir()}) == []
    assert sorted({module.name for module in MODULES} - asked) == []


@pytest.mark.parametrize("path", sorted(PAGE.glob("*.html")), ids=name_of)
def test_markup_has_no_script_and_no_style_of_its_own(path: Path) -> None:
    text = path.read_text(encoding="utf-8")
    assert re.findall(r"<script(?![^>]*\ssrc=)|<style|\sstyle=|\son\w+=|javascript:", text) == []


@pytest.mark.parametrize("path", sorted(each for each in PAGE.iterdir() if each.is_file()), ids=name_of)
def test_nothing_is_loaded_from_elsewhere(path: Path) -> None:
    text = path.read_text(encoding="utf-8").replace("http://www.w3.org/2000/svg", "")
    assert re.findall(r"https?:|\burl\((?!#)|@import|//cdn", text) == []


@pytest.mark.parametrize("path", MODULES, ids=name_of)
def test_no_module_makes_markup_out_of_text(path: Path) -> None:
    text = path.read_text(encoding="utf-8")
    assert [way for way in MARKUP_OUT_OF_TEXT if way in text] == []
    assert text.startswith("//"), "a module begins with what it is"
