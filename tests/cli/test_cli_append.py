"""Several who write one file of picks at the same time."""

import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from dubito.api import answer
from dubito.core.problem import Selection
from dubito.io import read_picks
from dubito.io.durable import file_lock

from .conftest import PATIENCE, Pool, Program

APPEND = ("select", "pool.npz", "--budget", "3", "-o", "picks.csv", "--append")


def start(folder: Path, *arguments: str) -> subprocess.Popen[str]:
    return subprocess.Popen(
        [sys.executable, "-m", "dubito", *arguments],
        cwd=folder,
        stderr=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
    )


@pytest.mark.slow
def test_rounds_added_at_once_are_those_added_one_after_another(pool: Pool, run: Program, tmp_path: Path) -> None:
    with file_lock("picks.csv"):
        processes = [start(tmp_path, *APPEND) for _ in range(3)]
        for process in processes:
            assert process.stderr is not None
            assert "waiting for another" in process.stderr.readline()
    errors = [process.communicate(timeout=PATIENCE)[1] for process in processes]
    assert [process.returncode for process in processes] == [0, 0, 0], errors
    at_once = Path("picks.csv").read_text()
    os.unlink("picks.csv")
    for _ in range(3):
        assert run(*APPEND).code == 0
    assert Path("picks.csv").read_text() == at_once
    assert len(read_picks("picks.csv")) == 9
    assert not [name for name in os.listdir() if name.startswith(".")]


def test_one_who_waits_says_so_and_picks_what_the_other_did_not(pool: Pool, run: Program, tmp_path: Path) -> None:
    with file_lock(str(tmp_path / "picks.csv")):
        process = start(tmp_path, *APPEND)
        assert process.stderr is not None
        assert "waiting for another process that adds to picks.csv" in process.stderr.readline()
        (tmp_path / "picks.csv").write_text("rank,index,id,priority\n1,0,img000,1.0\n2,29,img029,0.5\n")
    assert process.wait(PATIENCE) == 0
    process.communicate(timeout=PATIENCE)
    picks = read_picks("picks.csv").tolist()
    assert picks[:2] == [0, 29]
    assert len(set(picks)) == 5


def test_a_file_that_appears_while_picking_is_not_replaced(
    pool: Pool, run: Program, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Two at once see no file; the one who writes last is refused."""

    def slow_answer(*arguments: Any) -> Selection:
        Path("picks.csv").write_text("precious")
        return answer(*arguments)

    monkeypatch.setattr("dubito.cli.commands.select.answer", slow_answer)
    ran = run("select", "pool.npz", "--budget", "3", "-o", "picks.csv", "-q")
    assert (ran.code, ran.complaint) == (2, "picks.csv exists; pass --force to replace it, or another path.")
    assert Path("picks.csv").read_text() == "precious"


def test_a_dry_run_waits_for_nobody(pool: Pool, run: Program, tmp_path: Path) -> None:
    with file_lock(str(tmp_path / "picks.csv")):
        assert run(*APPEND, "--dry-run").code == 0
