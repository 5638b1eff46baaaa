"""What came from a file reaches the terminal as text: it neither steers it nor passes for markup."""

import ast
import csv
import json
import os
import pty
import sys
from io import StringIO
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from dubito.cli.output import CONTROL_CHARACTERS, escape, escape_data

from .conftest import Program, Ran, read_terminal

RED = "\x1b[31m[bold]\u202e\x9b2J"
"""Color, markup, text turned round, and a screen wiped clean."""
CLI = Path(__file__).parents[2] / "src" / "dubito" / "cli"


def check_plain(ran: Ran, *shown: str) -> None:
    for text in (ran.out, ran.err):
        assert CONTROL_CHARACTERS.search(text.replace("\n", "")) is None, text
    for part in shown:
        assert part in ran.out + ran.err


@given(st.text())
def test_nothing_that_steers_is_left(text: str) -> None:
    assert CONTROL_CHARACTERS.search(escape(text)) is None
    kept = escape_data(text)
    assert CONTROL_CHARACTERS.search(kept.replace("\n", "").replace("\t", "")) is None
    assert (kept.count("\n"), kept.count("\t")) == (text.count("\n"), text.count("\t"))


@given(st.text(st.characters(categories=["L", "N", "P", "S", "Zs"])))
def test_text_that_steers_nothing_stays_as_it_is(text: str) -> None:
    assert escape(text) == text


def test_notes_and_errors_about_columns_are_plain(run: Program) -> None:
    Path("pool.csv").write_text(f"id,{RED},z\n" + "".join(f"r{row},{row},2\n" for row in range(30)))
    ran = run("select", "pool.csv", "--budget", "2", "--strategy", "coreset")
    check_plain(ran, r"2 features: \x1b[31m[bold]\u202e\x9b2J, z")
    check_plain(run("select", "pool.csv", "--budget", "2", "--feature-columns", "zzz"), r"\x1b[31m[bold]")


def test_paths_and_messages_of_libraries_are_plain(run: Program) -> None:
    name = f"{RED}\n.csv"
    check_plain(run("select", name, "--budget", "2"), "does not exist")
    Path(name).write_bytes(b"\x1b]0;owned\x07,x\n\x00")
    check_plain(run("select", name, "--budget", "2"), "has a NUL character")
    Path("plan.toml").write_text(f'schema = 1\n"{RED}" = 1\n'.replace("\x1b", "\\u001b").replace("\x9b", "\\u009b"))
    check_plain(run("run", "plan.toml"), r"\x1b[31m[bold]")


@pytest.mark.usefixtures("blank_figures")
def test_labels_and_strategies_in_reports_are_plain(run: Program) -> None:
    rng = np.random.default_rng(0)
    labels = np.array([f"{RED}{row % 2}" for row in range(60)])
    np.savez("data.npz", features=rng.normal(size=(60, 2)), labels=labels)
    ran = run("simulate", "data.npz", "--seeds", "2", "--rounds", "1", "--budget", "5", "-s", "coreset")
    assert ran.code == 0
    check_plain(ran)
    label = RED.replace("\x1b", "\\u001b").replace("\x9b", "\\u009b")
    Path("plan.toml").write_text(
        'schema = 1\nname = "plan"\nseeds = 1\n[data]\npath = "data.npz"\n[schedule]\nrounds = 1\n'
        f'[[strategies]]\nstrategy = "random"\nlabel = "{label}"\n'
    )
    check_plain(run("run", "plan.toml"), r"\x1b[31m[bold]")


@pytest.mark.parametrize("form", ["csv", "jsonl"])
def test_ids_steer_no_terminal_and_reach_a_pipe_as_they_are(
    run: Program, form: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    Path("pool.csv").write_text(f"id,x\n{RED},1\nb,2\n")
    command = ("select", "pool.csv", "-b", "2", "-s", "coreset", "--format", form, "-q")
    piped = run(*command).out
    rows = list(csv.DictReader(StringIO(piped))) if form == "csv" else list(map(json.loads, piped.splitlines()))
    assert {row["id"] for row in rows} == {RED, "b"}
    ours, theirs = pty.openpty()
    with os.fdopen(theirs, "w", encoding="utf-8") as terminal:
        monkeypatch.setattr(sys, "stdout", terminal)
        assert run(*command).code == 0
    shown = read_terminal(ours).replace("\r\n", "\n")
    os.close(ours)
    assert CONTROL_CHARACTERS.search(shown.replace("\n", "")) is None
    assert "[31m[bold]" in shown


def test_nothing_is_printed_but_by_way_of_one_place_or_as_json() -> None:
    allowed = ("json.dumps(", "context.get_help()", "f'dubito {__version__}'")
    for path in CLI.rglob("*.py"):
        calls = [node for node in ast.walk(ast.parse(path.read_text())) if isinstance(node, ast.Call)]
        for call in calls if path.name != "output.py" else ():
            name = ast.unparse(call.func)
            assert name != "print" or ast.unparse(call.args[0]).startswith(allowed), f"{path}: {ast.unparse(call)}"
            assert not name.endswith(("stdout.write", "stderr.write", "buffer.write", "typer.echo")), path
