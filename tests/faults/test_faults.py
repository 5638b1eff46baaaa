"""A little of everything that goes wrong, and no fault in it; and the page that says so."""

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

from dubito.files.opening import OPENERS

from .campaign import Scenario, play
from .command import conclude
from .forms import ALIASES
from .page import GROUPS, count, render
from .trying import Outcome

TESTS = Path(__file__).parents[1]
RECORD = TESTS.parent / "docs" / "results" / "faults.json"


def campaign(record: Path) -> tuple[int, str]:
    """Everything once, in a process of its own; its exit code and what it printed."""
    done = subprocess.run(
        [sys.executable, "-m", "faults", "--goal", "1", "--minutes", "60", "--record", str(record)],
        cwd=TESTS,
        env={**os.environ, "OPENBLAS_NUM_THREADS": "1", "OMP_NUM_THREADS": "1"},
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        check=False,
    )
    return done.returncode, done.stdout


def test_kills_full_disks_damage_crowds_and_bombs_meet_no_fault_and_the_page_says_so(tmp_path: Path) -> None:
    code, printed = campaign(tmp_path / "faults.json")
    assert code == 0, printed
    record = json.loads((tmp_path / "faults.json").read_text())
    scenarios = record["scenarios"]
    assert {each["group"] for each in scenarios} == set(GROUPS)
    # A disk of its own needs the right to mount one.
    assert {each["name"] for each in scenarios if not each["tries"]} <= {"a disk of its own"}
    assert all(each["tries"] == each["goal"] for each in scenarios)
    assert [each for each in scenarios if each["fault"]] == []
    pools = {each["name"].partition(",")[0] for each in scenarios if each["group"] == "damaged pools"}
    assert pools == set(OPENERS) - set(ALIASES)
    page = (tmp_path / "faults.md").read_text()
    assert page == render(record)
    assert f"{count(scenarios, 'tries'):,} tries in {len(scenarios)} scenarios: **no faults**" in page


def test_a_fault_is_counted_told_and_fails_the_campaign() -> None:
    outcomes = [Outcome("same"), Outcome("fault", "it hangs")]
    wrong = Scenario("bombs", "made up", 3, lambda folder, chance: iter(outcomes))
    record: Any = play([wrong], seconds=60.0, seed=0, tell=lambda played: None)
    assert record["scenarios"][0]["told"] == ["it hangs"]
    assert conclude(record) == 1
    assert "2 tries in 1 scenarios: **1 fault**" in render(record)


def test_the_page_of_results_is_written_from_its_record_and_tells_of_no_fault() -> None:
    record = json.loads(RECORD.read_text())
    assert RECORD.with_suffix(".md").read_text() == render(record)
    assert count(record["scenarios"], "fault") == 0
