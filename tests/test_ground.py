"""The ground the library stands on: its plan, its versions, its targets, its documentation."""

import ast
import os
import re
import shutil
import subprocess
import sys
import tomllib
from collections.abc import Iterator
from importlib.metadata import version
from itertools import chain
from pathlib import Path
from typing import Any

import pytest
import typer
from typer.core import TyperGroup

import dubito
from dubito import theory
from dubito.cli import app

ROOT = Path(__file__).parents[1]
TARGETS = (
    "help",
    "demo",
    "test",
    "without-c",
    "check",
    "cluster",
    "cores",
    "page",
    "postgres",
    "labelling",
    "docs",
    "bench",
    "ratios",
    "faults",
    "models",
    "integrations",
    "fiftyone",
    "label-studio-test",
    "clean",
)


def read_toml(name: str) -> dict[str, Any]:
    return tomllib.loads((ROOT / name).read_text(encoding="utf-8"))


def layers() -> list[list[str]]:
    contract, *_ = read_toml("pyproject.toml")["tool"]["importlinter"]["contracts"]
    assert contract["containers"] == ["dubito"]
    return [layer.split(" | ") for layer in contract["layers"]]


def run(*command: str, cwd: Path = ROOT, **environment: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        command, cwd=cwd, env={**os.environ, **environment}, capture_output=True, text=True, check=False
    )


# The plan


def test_the_layers_name_every_room_and_no_other() -> None:
    package = ROOT / "src" / "dubito"
    files = {path.stem for path in package.glob("*.py")} - {"__init__"}
    folders = {path.parent.name for path in package.glob("*/__init__.py")}
    assert sorted(room for layer in layers() for room in layer) == sorted(files | folders)


def test_a_type_has_one_home() -> None:
    homes: dict[str, list[str]] = {}
    for path in (ROOT / "src" / "dubito").rglob("*.py"):
        for node in ast.parse(path.read_text(encoding="utf-8")).body:
            if isinstance(node, ast.ClassDef):
                homes.setdefault(node.name, []).append(path.relative_to(ROOT).as_posix())
    shared = {name: places for name, places in homes.items() if len(places) > 1}
    # Two engines for coverage, each with a form of its own of what they have in common.
    assert shared.keys() <= {"Block", "Kernels", "TooManyPairs"}, shared


def test_the_layers_contract_has_no_exceptions() -> None:
    for contract in read_toml("pyproject.toml")["tool"]["importlinter"]["contracts"]:
        assert contract["exhaustive"] is True
        assert not {"ignore_imports", "exhaustive_ignores"} & contract.keys()


def test_the_architecture_page_shows_the_layers_in_their_order() -> None:
    page = (ROOT / "ARCHITECTURE.md").read_text(encoding="utf-8")
    rows = re.findall(r"^\| (\d+) \| `(\w+)` \|", page, flags=re.MULTILINE)
    shown: list[list[str]] = [[] for _ in layers()]
    for number, room in rows:
        shown[int(number) - 1].append(room)
    assert [sorted(layer) for layer in shown] == [sorted(layer) for layer in layers()]


def test_the_architecture_page_names_every_file_that_has_a_place_among_layers() -> None:
    page = (ROOT / "ARCHITECTURE.md").read_text(encoding="utf-8")
    for contract in read_toml("pyproject.toml")["tool"]["importlinter"]["contracts"]:
        names = " | ".join(contract["layers"]).split(" | ")
        missing = [name for name in names if not re.search(rf"`(?:\w+/)*{name}/?`", page)]
        assert missing == [], f"of {contract['containers']}, ARCHITECTURE.md leaves out {missing}"


def test_the_architecture_page_shows_the_layers_inside_a_room_in_their_order() -> None:
    page = (ROOT / "ARCHITECTURE.md").read_text(encoding="utf-8")
    held = {
        each["containers"][0]: each["layers"]
        for each in read_toml("pyproject.toml")["tool"]["importlinter"]["contracts"]
    }
    sections = re.findall(r"^### Inside `(\w+)`\n(.*?)(?=^##)", page, flags=re.MULTILINE | re.DOTALL)
    assert len(sections) == 6
    for room, text in sections:
        chain = re.search(r"`\w+`(?:\s[>|]\s`\w+`)+", text)
        assert chain is not None
        shown = [sorted(re.findall(r"\w+", layer)) for layer in chain[0].split(">")]
        assert shown == [sorted(layer.split(" | ")) for layer in held[f"dubito.{room}"]]


# Versions


def test_package_changelog_and_citation_tell_one_version() -> None:
    package = read_toml("pyproject.toml")["project"]["version"]
    changelog = (ROOT / "CHANGELOG.md").read_text(encoding="utf-8")
    citation = (ROOT / "CITATION.cff").read_text(encoding="utf-8")
    assert version("dubito") == dubito.__version__ == package
    assert re.findall(r"^## \[(.+?)\]", changelog, flags=re.MULTILINE)[0] == package
    assert re.findall(r"^version: (.+)$", citation, flags=re.MULTILINE) == [package]


def test_every_constraint_is_one_exact_version_and_no_path() -> None:
    lines = (ROOT / "constraints.txt").read_text(encoding="utf-8").splitlines()
    pins = [line for line in lines if not line.startswith("#")]
    assert [pin for pin in pins if not re.fullmatch(r"[A-Za-z0-9._-]+==[A-Za-z0-9.]+", pin)] == []
    assert "torch==2.13.0" in pins


def test_every_direct_dependency_is_pinned() -> None:
    project = read_toml("pyproject.toml")["project"]
    wanted = [*project["dependencies"], *chain(*project["optional-dependencies"].values())]
    names = {re.split(r"[\[<>= ]", requirement)[0].lower() for requirement in wanted} - {"dubito"}
    pins = (ROOT / "constraints.txt").read_text(encoding="utf-8").lower()
    assert sorted(name for name in names if f"\n{name}==" not in pins) == []


def test_the_licence_is_the_whole_of_apache_2() -> None:
    text = (ROOT / "LICENSE").read_text(encoding="utf-8")
    assert text.lstrip().startswith("Apache License\n                           Version 2.0, January 2004")
    assert "END OF TERMS AND CONDITIONS" in text
    assert "9. Accepting Warranty or Additional Liability." in text


# Targets


def test_make_alone_lists_every_target_with_what_it_does() -> None:
    listed = re.findall(r"^  make ([\w-]+) +\S.*$", run("make").stdout, flags=re.MULTILINE)
    assert sorted(listed) == sorted(TARGETS)


def test_continuous_integration_runs_check_and_test() -> None:
    script = ROOT / ".ci" / "run"
    assert os.access(script, os.X_OK)
    assert script.read_text(encoding="utf-8").splitlines()[-1] == "make check test without-c cluster page"


@pytest.fixture
def bare_checkout(tmp_path: Path) -> Path:
    for name in ("Makefile", "pyproject.toml", "constraints.txt"):
        shutil.copy(ROOT / name, tmp_path)
    return tmp_path


def write_python(path: Path, script: str) -> Path:
    path.write_text(f"#!/bin/sh\n{script}\n", encoding="utf-8")
    path.chmod(0o755)
    return path


def test_make_says_how_to_get_a_new_enough_python(bare_checkout: Path) -> None:
    old = write_python(bare_checkout / "old-python", "exit 1")
    made = run("make", "demo", f"PYTHON={old}", cwd=bare_checkout)
    assert made.returncode != 0
    assert f"dubito needs Python 3.11 or newer, and none of these is: {old}." in made.stderr
    assert "make PYTHON=" in made.stderr
    assert not (bare_checkout / ".venv-demo").exists()


def test_make_says_how_to_get_venv(bare_checkout: Path) -> None:
    script = f'case "$*" in *ensurepip*) exit 1;; esac; exec {sys.executable} "$@"'
    python = write_python(bare_checkout / "python-without-venv", script)
    made = run("make", "test", f"PYTHON={python}", cwd=bare_checkout)
    assert made.returncode != 0
    assert "has no venv module" in made.stderr
    assert "apt install python3-venv" in made.stderr
    assert not (bare_checkout / ".venv").exists()


# Documentation


@pytest.fixture(scope="module")
def reference(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("reference")
    built = run(sys.executable, "docs/generate.py", str(folder))
    assert built.returncode == 0, built.stderr
    return folder


def test_the_reference_documents_every_public_name(reference: Path) -> None:
    page = (reference / "api.md").read_text(encoding="utf-8")
    names = [f"dubito.{name}" for name in dubito.__all__]
    names += [f"dubito.theory.{name}" for name in functions_of(Path(str(theory.__file__)))]
    assert [name for name in names if f"# {name} {{ #{name} }}" not in page] == []


def functions_of(path: Path) -> list[str]:
    body = ast.parse(path.read_text(encoding="utf-8")).body
    return [node.name for node in body if isinstance(node, ast.FunctionDef) and not node.name.startswith("_")]


def test_the_reference_shows_signatures_and_examples(reference: Path) -> None:
    page = (reference / "api.md").read_text(encoding="utf-8")
    assert "\nselect(\n    pool: " in page
    assert "```pycon\n>>> " in page
    assert "``" not in page.replace("```", "")


def test_the_reference_shows_the_real_help_of_every_command(reference: Path) -> None:
    page = (reference / "cli.md").read_text(encoding="utf-8")
    group = typer.main.get_command(app)
    assert isinstance(group, TyperGroup)
    commands = [name for name, command in group.commands.items() if not command.hidden]
    assert [name for name in commands if f"## dubito {name} " not in page] == []
    assert page.count("--help") >= len(commands)
    assert "\x1b" not in page


def test_the_navigation_holds_every_page_and_no_other() -> None:
    docs = ROOT / "docs"
    written = {path.relative_to(docs).as_posix() for path in docs.rglob("*.md")}
    generated = {"reference/api.md", "reference/cli.md"}
    assert set(pages_of(read_toml("zensical.toml")["project"]["nav"])) == written | generated


def pages_of(navigation: list[dict[str, Any]]) -> Iterator[str]:
    for entry in navigation:
        for target in entry.values():
            if isinstance(target, str):
                yield target
            else:
                yield from pages_of(target)
