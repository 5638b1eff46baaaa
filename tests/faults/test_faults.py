"""The campaign of faults finds none, and its page says so."""

import json
import os
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest

from dubito.io.opening import OPENERS

from .campaign import Scenario, play
from .command import conclude, is_wanted, scenarios
from .forms import ALIASES
from .page import GROUPS, count, render
from .trying import Outcome

TESTS = Path(__file__).parents[1]
RECORD = TESTS.parent / "docs" / "results" / "faults.json"


EVERYTHING = (("kills,", "crowds,"), ("full disks,", "bombs,"), ("damaged",))


def campaign(record: Path, only: Sequence[str]) -> tuple[int, str]:
    """Some scenarios once, in a process of its own; its exit code and what it printed."""
    chosen = [word for each in only for word in ("--only", each)]
    done = subprocess.run(
        [sys.executable, "-m", "faults", "--goal", "1", "--minutes", "60", "--record", str(record), *chosen],
        cwd=TESTS,
        env={**os.environ, "OPENBLAS_NUM_THREADS": "1", "OMP_NUM_THREADS": "1"},
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        check=False,
    )
    return done.returncode, done.stdout


@pytest.mark.slow
@pytest.mark.parametrize("only", EVERYTHING, ids=["kills and crowds", "full disks and bombs", "damage"])
def test_kills_full_disks_damage_crowds_and_bombs_meet_no_fault_and_the_page_says_so(
    tmp_path: Path, only: Sequence[str]
) -> None:
    code, printed = campaign(tmp_path / "faults.json", only)
    assert code == 0, printed
    record = json.loads((tmp_path / "faults.json").read_text())
    played = record["scenarios"]
    wanted = [each for each in scenarios(1) if is_wanted(each, only)]
    assert [(each["group"], each["name"]) for each in played] == [(each.group, each.name) for each in wanted]
    # A disk of its own needs the right to mount one.
    assert {each["name"] for each in played if not each["tries"]} <= {"a disk of its own"}
    assert all(each["tries"] == each["goal"] for each in played)
    assert [each for each in played if each["fault"]] == []
    page = (tmp_path / "faults.md").read_text()
    assert page == render(record)
    assert f"{count(played, 'tries'):,} tries in {len(played)} scenarios: **no faults**" in page


def test_the_parts_of_a_campaign_have_every_scenario_once() -> None:
    every = list(scenarios(1))
    assert {each.group for each in every} == set(GROUPS)
    assert [sum(is_wanted(each, part) for part in EVERYTHING) for each in every] == [1] * len(every)
    pools = {each.name.partition(",")[0] for each in every if each.group == "damaged pools"}
    assert pools == set(OPENERS) - set(ALIASES)


def test_a_fault_is_counted_reported_and_fails_the_campaign() -> None:
    outcomes = [Outcome("same"), Outcome("fault", "it hangs")]
    wrong = Scenario("bombs", "made up", 3, lambda folder, chance: iter(outcomes))
    record: Any = play([wrong], seconds=60.0, seed=0, tell=lambda played: None)
    assert record["scenarios"][0]["examples"] == ["it hangs"]
    assert conclude(record) == 1
    assert "2 tries in 1 scenarios: **1 fault**" in render(record)


def test_the_page_of_results_is_written_from_its_record_and_tells_of_no_fault() -> None:
    record = json.loads(RECORD.read_text())
    assert RECORD.with_suffix(".md").read_text() == render(record)
    assert count(record["scenarios"], "fault") == 0
