"""``dubito doctor``, ``--version``, ``--help`` and completion."""

import json
import os
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import ClassVar

import numpy as np
import pytest

import dubito
from dubito.cli import main
from dubito.cli.commands.doctor import blas, examine, extras, lines
from dubito.cli.options import engine_names, strategy_names
from dubito.core.problem import Problem, Solution
from dubito.engines.base import Engine
from dubito.engines.dispatch import installed_engines
from dubito.matrix import len_of

from .conftest import Program


def test_doctor_names_versions_engines_and_extras(run: Program) -> None:
    ran = run("doctor")
    assert (ran.code, ran.err) == (0, "")
    described = dict(line.split(maxsplit=1) for line in ran.out.splitlines())
    assert (described["dubito"].strip(), described["numpy"].strip()) == (dubito.__version__, np.__version__)
    assert "GiB of memory" in described["system"]
    assert "engine cpu" in ran.out
    assert "extra files" in ran.out


def test_doctor_speaks_json(run: Program) -> None:
    described = json.loads(run("doctor", "--json").out)
    assert described["schema"] == 1
    assert {engine["name"] for engine in described["engines"]} >= {"cpu", "reference"}
    assert described["memory_bytes"] > 2**20
    assert described["cpus"] >= 1
    assert described["disk_free_bytes"] > 0
    assert {extra["name"] for extra in described["extras"]} >= {"files", "frames", "torch"}


def test_an_engine_that_refuses_and_an_extra_that_is_missing_say_so() -> None:
    found = examine() | {
        "engines": [{"name": "cuda", "refusals": ["no GPU was found"]}],
        "extras": extras(["no-such-package>=1; extra == 'torch'"]),
        "versions": {"rich": None},
    }
    described = dict(lines(found))
    assert described["engine cuda"] == "refuses: no GPU was found"
    assert described["extra torch"] == "missing no-such-package: pip install 'dubito[torch]'"
    assert described["rich"] == "not installed"


class ForLarge(Engine[Problem]):
    """Refuses small pools."""

    name: ClassVar[str] = "for-large"

    def refusals(self, problem: Problem) -> list[str]:
        return ["it takes no pool of fewer than 100 rows"] if len_of(problem.pool) < 100 else []

    def solve(self, problem: Problem) -> Solution:
        raise NotImplementedError


def test_an_engine_that_refuses_small_pools_alone_is_ready(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(installed_engines(), "for-large", (ForLarge(),))
    assert dict(lines(examine()))["engine for-large"] == "ready"


def test_a_blas_that_cannot_be_seen_is_the_one_numpy_was_built_with() -> None:
    (library,) = blas([{"user_api": "openmp"}])
    assert library["threads"] is None
    assert library["name"]
    found = examine() | {"blas": [{"name": "accelerate", "version": "1", "threads": None}]}
    assert dict(lines(found))["BLAS"] == "accelerate 1"
    found["blas"] = [{"name": "mkl", "version": None, "threads": 2}]
    assert dict(lines(found))["BLAS"] == "mkl, 2 threads"


def test_the_extras_are_those_for_users_with_the_packages_that_every_system_needs() -> None:
    assert {extra["name"] for extra in examine()["extras"]}.isdisjoint({"bench", "integrations", "page", "test"})
    found = extras(
        [
            "numpy>=1.26; extra == 'all'",
            "dubito[files]; extra == 'all'",
            'no-such-package>=3.2; sys_platform == "plan9" and extra == "all"',
            "no-such-package; extra == 'test'",
        ]
    )
    assert [(extra["name"], list(extra["packages"])) for extra in found] == [("all", ["numpy"])]


HEAVY = ("scipy", "sklearn", "matplotlib", "pyarrow", "safetensors", "torch", "pandas", "polars", "PIL")


@pytest.mark.parametrize("option", ["--version", "--help"])
def test_version_and_help_load_little(run_process: Program, option: str) -> None:
    ran = run_process(option, PYTHONPROFILEIMPORTTIME="1")
    assert ran.code == 0
    loaded = [line.rpartition("|")[2].strip() for line in ran.err.splitlines() if line.startswith("import time:")]
    assert "typer" in loaded
    assert {name.partition(".")[0] for name in loaded} & set(HEAVY) == set()
    assert len(loaded) < 900


def test_no_command_shows_the_help(run: Program) -> None:
    ran = run()
    assert ran.code == 0
    for command in ("select", "diagnose", "demo", "doctor"):
        assert command in ran.out


@pytest.fixture
def help_on(run: Program, monkeypatch: pytest.MonkeyPatch) -> Callable[..., str]:
    """What ``--help`` shows of a command on a terminal of 100 letters."""
    monkeypatch.setenv("NO_COLOR", "1")
    monkeypatch.setenv("COLUMNS", "100")

    def shown(*command: str) -> str:
        ran = run(*command, "--help")
        assert (ran.code, ran.err) == (0, "")
        return ran.out

    return shown


@pytest.mark.parametrize("command", ["select", "diagnose", "demo", "doctor"])
def test_help_shows_an_example_first(help_on: Callable[..., str], command: str) -> None:
    text = help_on(command)
    shown = [line.strip() for line in text.splitlines() if line.strip()]
    assert shown[0].startswith(f"Usage: dubito {command}")
    assert shown[1].startswith(f"dubito {command}")
    assert "\x1b[" not in text


@pytest.mark.parametrize("command", [(), ("select",), ("diagnose",), ("demo",), ("doctor",)])
def test_help_speaks_of_files_and_names_rather_than_types(
    help_on: Callable[..., str], command: tuple[str, ...]
) -> None:
    shown = help_on(*command)
    assert not set("<>{}") & set(shown)
    assert ("[OPTIONS] POOL " in shown) == (command in [("select",), ("diagnose",)])


@pytest.mark.parametrize("command", ["select", "demo"])
def test_where_the_output_goes_is_reported_among_what_is_put_out(help_on: Callable[..., str], command: str) -> None:
    shown = help_on(command)
    assert "--output" in shown.partition("─ Output ─")[2]
    assert "--output" not in shown.partition("─ Output ─")[0]


@pytest.mark.parametrize("command", ["select", "export", "dedupe", "diagnose", "simulate"])
def test_help_names_the_memory_limit_only_where_there_is_one(help_on: Callable[..., str], command: str) -> None:
    shown = help_on(command)
    assert "--input-limit" in shown
    assert ("--memory-limit" in shown) == (command == "select")


def test_help_groups_the_commands_and_keeps_options_of_a_cluster_apart(help_on: Callable[..., str]) -> None:
    groups = help_on().split("╭─ ")[2:]
    assert [each.partition(" ─")[0] for each in groups[:3]] == ["Pick and label", "Measure and compare", "Help"]
    first = ("│ label ", "│ simulate ", "│ doctor ")
    assert [[name in each for name in first] for each in groups[:3]] == np.eye(3, dtype=bool).tolist()
    for option in ("--address", "--journal", "--workers-per-gpu"):
        assert option in help_on("select").partition("─ Cluster")[2].partition("╭─")[0]


TYPED = "dubito select pool.npz --strategy do"
COMPLETING = {
    "COMP_WORDS": TYPED,
    "COMP_CWORD": "4",
    "_TYPER_COMPLETE_ARGS": TYPED,
    "_TYPER_COMPLETE_FISH_ACTION": "get-args",
}
"""What a shell asks with."""


@pytest.mark.parametrize("shell", ["bash", "zsh", "fish"])
def test_completion_offers_strategies(
    shell: str, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    for name, value in {**COMPLETING, "_DUBITO_COMPLETE": f"complete_{shell}"}.items():
        monkeypatch.setenv(name, value)
    with pytest.raises(SystemExit) as ended:
        main(())
    assert ended.value.code == 0
    assert "doubt-coreset" in capsys.readouterr().out


def test_the_installed_program_completes_too(tmp_path: Path) -> None:
    environment = {**os.environ, **COMPLETING, "_DUBITO_COMPLETE": "complete_bash"}
    program = Path(sys.executable).with_name("dubito")
    done = subprocess.run([program], env=environment, cwd=tmp_path, capture_output=True, text=True, check=False)
    assert done.stdout.split() == ["doubt-coreset", "doubt-coverage"]


def test_names_are_completed_from_what_is_installed() -> None:
    assert strategy_names("core") == ["coreset"]
    assert engine_names("a") == ["auto"]
    assert "cpu" in engine_names("")
