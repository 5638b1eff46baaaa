"""The project's own files: one version, pinned dependencies, and a Makefile that says what is missing."""

import os
import re
import shutil
import subprocess
import sys
import tomllib
from importlib.metadata import version
from itertools import chain
from pathlib import Path
from typing import Any

import pytest

import dubito

ROOT = Path(__file__).parents[1]


def read_toml(name: str) -> dict[str, Any]:
    return tomllib.loads((ROOT / name).read_text(encoding="utf-8"))


def test_package_changelog_and_citation_have_the_same_version() -> None:
    package = read_toml("pyproject.toml")["project"]["version"]
    changelog = (ROOT / "CHANGELOG.md").read_text(encoding="utf-8")
    citation = (ROOT / "CITATION.cff").read_text(encoding="utf-8")
    assert version("dubito") == dubito.__version__ == package
    assert re.findall(r"^## \[(.+?)\]", changelog, flags=re.MULTILINE)[0] == package
    assert re.findall(r"^version: (.+)$", citation, flags=re.MULTILINE) == [package]


def test_every_direct_dependency_is_pinned_to_one_version() -> None:
    project = read_toml("pyproject.toml")["project"]
    wanted = [*project["dependencies"], *chain(*project["optional-dependencies"].values())]
    names = {re.split(r"[\[<>= ]", requirement)[0].lower() for requirement in wanted} - {"dubito"}
    lines = (ROOT / "constraints.txt").read_text(encoding="utf-8").lower().splitlines()
    pins = [line for line in lines if not line.startswith("#")]
    assert [pin for pin in pins if not re.fullmatch(r"[a-z0-9._-]+==[a-z0-9.]+", pin)] == []
    assert sorted(names - {pin.partition("==")[0] for pin in pins}) == []


@pytest.fixture
def bare_checkout(tmp_path: Path) -> Path:
    for name in ("Makefile", "pyproject.toml", "constraints.txt"):
        shutil.copy(ROOT / name, tmp_path)
    return tmp_path


def make(target: str, folder: Path, script: str) -> subprocess.CompletedProcess[str]:
    """Run make with a shell script as Python."""
    python = folder / "python"
    python.write_text(f"#!/bin/sh\n{script}\n", encoding="utf-8")
    python.chmod(0o755)
    return subprocess.run(
        ["make", target, f"PYTHON={python}"], cwd=folder, env=os.environ, capture_output=True, text=True, check=False
    )


def test_make_says_how_to_get_a_new_enough_python(bare_checkout: Path) -> None:
    made = make("demo", bare_checkout, "exit 1")
    assert made.returncode != 0
    assert "dubito needs Python 3.11 or newer, and none of these is" in made.stderr
    assert "make PYTHON=" in made.stderr
    assert not (bare_checkout / ".venv-demo").exists()


def test_make_says_how_to_get_venv(bare_checkout: Path) -> None:
    script = f'case "$*" in *ensurepip*) exit 1;; esac; exec {sys.executable} "$@"'
    made = make("test", bare_checkout, script)
    assert made.returncode != 0
    assert "has no venv module" in made.stderr
    assert "apt install python3-venv" in made.stderr
    assert not (bare_checkout / ".venv").exists()
