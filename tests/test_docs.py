"""The documentation is true: its snippets run, its links lead somewhere, and it leaves out no command and no name.

``python`` blocks of a page run in order in one namespace; ``print(...)  # text`` must print that text. ``console``
blocks hold real commands; the lines below one must be its output, where there are any. ``...`` stands for anything.
``shell`` blocks hold one command per line, ready to paste.
"""

import os
import re
import runpy
import shlex
import subprocess
import sys
import tomllib
from collections.abc import Iterator
from contextlib import redirect_stderr, redirect_stdout
from importlib import import_module
from importlib.util import find_spec
from io import BytesIO, StringIO, TextIOWrapper
from pathlib import Path
from typing import Any, NamedTuple

import pytest
import typer
from typer.core import TyperGroup

import dubito
from dubito.cli import app, main
from dubito.experiments import data as builtin
from dubito.experiments.models import kinds
from dubito.strategies import BUILT_IN

ROOT = Path(__file__).parents[1]
PAGES = sorted([ROOT / "README.md", *(ROOT / "docs").rglob("*.md")])
WRITTEN = [page for page in PAGES if "reference" not in page.parts]
LONG = {"accuracy", "boxes", "embed", "engine", "experiments", "images", "labels", "simulate"}
"""Pages whose snippets take seconds; only `make test-all` runs them."""
NOT_RUN = ("pip install ", "make ", "dubito label ")
"""Commands that install something, or serve a page until they are stopped."""
RUN_ELSEWHERE = ("dubito demo --seeds 2 --rounds 3", "dubito demo --round-trip")
"""Long commands that tests/cli/test_cli_demo.py runs."""
TOOLS = {"skactiveml", "modAL", "small_text", "skorch", "datasets", "fiftyone", "cleanlab"}
"""Packages of other people's that only `make integrations` installs."""


class Block(NamedTuple):
    """A fenced block and the line it begins on."""

    language: str
    text: str
    line: int


def blocks_of(page: Path) -> Iterator[Block]:
    text = page.read_text(encoding="utf-8")
    for found in re.finditer(r"^```(\w+)\n(.*?)^```", text, flags=re.MULTILINE | re.DOTALL):
        yield Block(found[1], found[2], text.count("\n", 0, found.start()) + 2)


def name_of(page: Path) -> str:
    return page.relative_to(ROOT).as_posix()


# Snippets


# modAL's own, with the newest scikit-learn that it works with; and small-text's own.
@pytest.mark.filterwarnings("ignore:'force_all_finite' was renamed")
@pytest.mark.filterwarnings("ignore:The function get_flattened_unique_labels")
@pytest.mark.parametrize(
    "page", [pytest.param(page, marks=[pytest.mark.slow] * (page.stem in LONG)) for page in WRITTEN], ids=name_of
)
def test_every_snippet_runs_as_it_is_printed(page: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for tool in tools_of(page):
        # A folder of that name on the path is a package, too, but none with a file.
        if getattr(find_spec(tool), "origin", None) is None:
            pytest.skip(f"{tool} is not installed: make integrations fiftyone")
    monkeypatch.chdir(tmp_path)
    names: dict[str, object] = {"__name__": "snippet"}
    for block in blocks_of(page):
        if block.language == "python":
            # On matrices this small, threads of the linear algebra library only wait for each other.
            with import_module("threadpoolctl").threadpool_limits(1):
                ran = run_python(block, page, names)
            assert ran.is_as_printed, f"{name_of(page)}:{block.line} {ran.printed}"
        elif block.language in {"shell", "console"}:
            for command, expected in commands_of(block):
                if command.startswith((*NOT_RUN, *RUN_ELSEWHERE)):
                    continue
                ran = run_command(command, expected)
                assert ran.is_as_printed, f"{name_of(page)}:{block.line} {command}\n{ran.printed}"


def tools_of(page: Path) -> set[str]:
    code = "\n".join(block.text for block in blocks_of(page) if block.language == "python")
    return TOOLS & set(re.findall(r"^(?:from|import) (\w+)", code, flags=re.MULTILINE))


class Ran(NamedTuple):
    """What running a snippet printed, and whether that is what its page says."""

    is_as_printed: bool
    printed: str


def run_python(block: Block, page: Path, names: dict[str, object]) -> Ran:
    # Blank lines ahead, so that an error names the line of the page.
    code = compile("\n" * (block.line - 1) + block.text, name_of(page), "exec")
    printed = StringIO()
    with redirect_stdout(printed):
        exec(code, names)
    expected = [said for said in map(expected_print, block.text.splitlines()) if said is not None]
    return Ran(not expected or matches("\n".join(expected), printed.getvalue()), printed.getvalue())


def expected_print(line: str) -> str | None:
    """What a line of a snippet says it prints; words in full sentences are remarks, and stand for anything."""
    found = re.match(r"print\(.*\)  # (.*)$", line)
    if found is None:
        return "..." if line.startswith("print(") else None
    return "..." if re.match(r"[a-z]+ [a-z]+ [a-z]+ ", found[1]) else found[1]


def commands_of(block: Block) -> Iterator[tuple[str, str]]:
    if block.language == "shell":
        yield from ((line, "") for line in block.text.splitlines())
        return
    for part in re.split(r"^\$ ", block.text, flags=re.MULTILINE)[1:]:
        command, _, output = part.partition("\n")
        yield command, output


def run_command(command: str, expected: str) -> Ran:
    """Run a line of a console block: dubito here, and everything else in a shell."""
    words = shlex.split(command)
    is_plain = words[0] == "dubito" and not SHELL_SYNTAX & set(command)
    code, printed = run_here(words[1:]) if is_plain else run_in_shell(command)
    return Ran(code == 0 and (not expected.strip() or matches(expected, printed)), printed)


SHELL_SYNTAX = set("|&;<>()$`*?#~")


def run_here(arguments: list[str]) -> tuple[int, str]:
    printed = TextIOWrapper(BytesIO(), encoding="utf-8", write_through=True)
    with pytest.MonkeyPatch.context() as patch, redirect_stdout(printed), redirect_stderr(printed):
        patch.setenv("COLUMNS", "200")
        code = main(arguments)
    printed.seek(0)
    return code, printed.read()


def run_in_shell(command: str) -> tuple[int, str]:
    path = f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}"
    ran = subprocess.run(
        command,
        shell=True,
        env={**os.environ, "PATH": path, "COLUMNS": "200"},
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        check=False,
    )
    return ran.returncode, ran.stdout


def matches(expected: str, found: str) -> bool:
    pattern = ".*".join(re.escape(part) for part in expected.strip().split("..."))
    return re.fullmatch(pattern, found.strip(), flags=re.DOTALL) is not None


def test_what_a_snippet_claims_to_print_is_compared() -> None:
    page, names = ROOT / "README.md", dict[str, object]()
    assert run_python(Block("python", "print(1 + 1)  # 2\nprint('a b')  # a ...\n", 1), page, names).is_as_printed
    assert run_python(Block("python", "print(1 + 1)  # 3\n", 7), page, names) == (False, "2\n")
    assert not run_command("dubito --version", "dubito 9").is_as_printed
    assert not run_command("dubito --no-such-option", "").is_as_printed
    assert list(commands_of(Block("shell", "ls\ndubito --version\n", 1))) == [("ls", ""), ("dubito --version", "")]


# Links


def targets_of(page: Path) -> Iterator[str]:
    text = re.sub(r"^```.*?^```", "", page.read_text(encoding="utf-8"), flags=re.MULTILINE | re.DOTALL)
    for found in re.finditer(r"\]\(([^)\s]+)\)", text):
        if not found[1].startswith(("http://", "https://", "mailto:")):
            yield found[1]


def anchors_of(page: Path) -> set[str]:
    titles = re.findall(r"^#+ (.+)$", page.read_text(encoding="utf-8"), flags=re.MULTILINE)
    return {re.sub(r"[^\w\- ]", "", title.lower()).replace(" ", "-") for title in titles}


@pytest.fixture(scope="module")
def reference(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The pages that are generated from docstrings and from the help of commands."""
    folder = tmp_path_factory.mktemp("reference")
    subprocess.run([sys.executable, str(ROOT / "tools" / "docs" / "generate.py"), str(folder)], check=True)
    return folder


@pytest.mark.parametrize("page", [*WRITTEN, ROOT / "ARCHITECTURE.md", ROOT / "CONTRIBUTING.md"], ids=name_of)
def test_every_link_leads_somewhere(page: Path, reference: Path) -> None:
    for target in targets_of(page):
        path, _, anchor = target.partition("#")
        aim = (page.parent / path).resolve() if path else page
        if aim.parent == ROOT / "docs" / "reference":
            aim = reference / aim.name
            if anchor:
                assert f"{{ #{anchor} }}" in aim.read_text(encoding="utf-8"), f"{name_of(page)}: {target}"
                continue
        assert aim.exists(), f"{name_of(page)}: {target}"
        if anchor:
            assert anchor in anchors_of(aim), f"{name_of(page)}: {target}"


def test_every_picture_is_shown_and_described() -> None:
    text = "\n".join(page.read_text(encoding="utf-8") for page in WRITTEN)
    shown = re.findall(r"!\[([^\]]*)\]\([^)]*?([\w-]+\.png)\)", text)
    folders = (ROOT / "docs" / "images", ROOT / "docs" / "results" / "images")
    assert {name for _, name in shown} == {path.name for folder in folders for path in folder.iterdir()}
    assert all(len(description) > 20 for description, _ in shown)


def test_the_script_that_draws_the_pictures_still_does(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.syspath_prepend(str(ROOT / "tools" / "docs"))
    script = runpy.run_path(str(ROOT / "tools" / "docs" / "figures.py"))
    drawn = {name: draw() for name, draw in script["FIGURES"].items()}
    assert all(figure.axes for figure in drawn.values())
    demo = {"demo-curves", "demo-picked", "diagnosis"}
    screenshots = (ROOT / "tools" / "docs" / "screenshots.py").read_text(encoding="utf-8")
    taken = set(re.findall(r'^    \("([\w-]+)", "\w+", "(?:light|dark)"', screenshots, flags=re.MULTILINE))
    assert {path.stem for path in (ROOT / "docs" / "images").iterdir()} == drawn.keys() | demo | taken | {"regret"}


# Nothing is left out


@pytest.fixture(scope="module")
def everything(reference: Path) -> str:
    return "\n".join(page.read_text(encoding="utf-8") for page in [*WRITTEN, *sorted(reference.glob("*.md"))])


def test_every_public_name_is_documented(everything: str, reference: Path) -> None:
    assert [name for name in dubito.__all__ if f"dubito.{name}" not in everything] == []
    page = (reference / "api.md").read_text(encoding="utf-8")
    assert [name for name in dubito.__all__ if f"# dubito.{name} {{ #dubito.{name} }}" not in page] == []
    assert "\nselect(\n    pool: " in page
    assert "```pycon\n>>> " in page


def test_the_navigation_holds_every_page_and_no_other() -> None:
    navigation = tomllib.loads((ROOT / "zensical.toml").read_text(encoding="utf-8"))["project"]["nav"]
    written = {page.relative_to(ROOT / "docs").as_posix() for page in (ROOT / "docs").rglob("*.md")}
    assert set(pages_of(navigation)) == written | {"reference/api.md", "reference/cli.md"}


def pages_of(navigation: list[dict[str, Any]]) -> Iterator[str]:
    for entry in navigation:
        for target in entry.values():
            if isinstance(target, str):
                yield target
            else:
                yield from pages_of(target)


def test_every_command_and_option_is_documented(everything: str) -> None:
    group = typer.main.get_command(app)
    assert isinstance(group, TyperGroup)
    for name, command in group.commands.items():
        assert f"dubito {name}" in everything
        options = [option for parameter in command.params for option in parameter.opts if option.startswith("--")]
        assert [option for option in options if option not in everything] == []


def test_every_strategy_is_among_the_choices() -> None:
    text = (ROOT / "docs" / "how-to" / "choosing.md").read_text(encoding="utf-8")
    assert [name for name in BUILT_IN if f"`{name}`" not in text] == []


def test_every_kind_of_model_and_data_set_is_among_the_keys_of_experiments() -> None:
    text = (ROOT / "docs" / "how-to" / "experiments.md").read_text(encoding="utf-8")
    assert [name for name in (*kinds.MODELS.names(), *builtin.DATASETS.names()) if f"`{name}`" not in text] == []
