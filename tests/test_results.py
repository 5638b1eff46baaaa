"""Pages of results say what the records beside them hold."""

import json
import re
import runpy
import shlex
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from dubito.experiments.plan import parse_experiment, shipped_text

ROOT = Path(__file__).parents[1]
FEATURES = ROOT / "docs" / "results" / "features"
BENCHMARKS = ROOT / "benchmarks"
PARTS = sorted(folder.name for folder in FEATURES.iterdir())


@pytest.fixture
def script(monkeypatch: pytest.MonkeyPatch) -> dict[str, Any]:
    monkeypatch.syspath_prepend(str(ROOT / "tools" / "docs"))
    return runpy.run_path(str(ROOT / "tools" / "docs" / "features.py"))


def test_the_page_on_frozen_features_is_what_its_records_make(script: dict[str, Any]) -> None:
    records: Callable[[], Iterator[Any]] = script["records"]
    kept = {each.part: each for each in records()}
    assert sorted(kept) == PARTS
    assert script["page"](kept) == (FEATURES.parent / "features.md").read_text(encoding="utf-8")


def test_a_claim_that_the_numbers_do_not_bear_out_is_not_written(script: dict[str, Any]) -> None:
    kept = {each.part: each for each in script["records"]()}
    strategies = kept["clean"].results["strategies"]
    next(each for each in strategies if each["strategy"] == "coreset")["area"] = [1.0] * 10
    with pytest.raises(SystemExit, match="first on every pool"):
        script["page"](kept)


@pytest.mark.parametrize("part", PARTS)
def test_the_study_that_ships_is_the_one_that_was_run(part: str) -> None:
    results = json.loads((FEATURES / part / "results.json").read_text(encoding="utf-8"))
    assert parse_experiment(results["about"]["settings"]) == parse_experiment(shipped_text(f"features-{part}"))
    assert results["records_left_out"] == 0


@pytest.mark.parametrize("part", PARTS)
def test_no_record_names_the_machine_it_was_made_on(part: str) -> None:
    for path in (FEATURES / part).iterdir():
        text = path.read_text(encoding="utf-8")
        assert re.findall(r'(?<![\w.:])/(?:home|root|tmp|mnt|Users)/|"host"', text) == []


def test_the_page_on_training_side_by_side_is_what_its_record_makes(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.syspath_prepend(str(BENCHMARKS))
    results = BENCHMARKS / "results"
    make = runpy.run_path(str(BENCHMARKS / "bench_training.py"))["page"]
    record = json.loads((results / "training.json").read_text(encoding="utf-8"))
    assert make(record) == (results / "training.md").read_text(encoding="utf-8")
    record["machine"] = {"command": "python benchmarks/bench_training.py --pool a.npz"}
    assert "Measured by `python benchmarks/bench_training.py --pool a.npz`.\n" in make(record)


def test_the_page_on_other_libraries_is_what_its_record_makes(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.syspath_prepend(str(BENCHMARKS))
    results = BENCHMARKS / "results"
    make = runpy.run_path(str(BENCHMARKS / "integrations.py"))["page"]
    record = json.loads((results / "integrations.json").read_text(encoding="utf-8"))
    assert make(record) == (results / "integrations.md").read_text(encoding="utf-8")
    for run in record.values():
        for row in run["rows"]:
            for each in row["contestants"].values():
                assert each.get("same_picks", row["budget"]) == row["budget"]


def test_a_benchmark_s_record_names_the_script_that_ran(monkeypatch: pytest.MonkeyPatch) -> None:
    command = runpy.run_path(str(BENCHMARKS / "machine.py"))["command"]
    monkeypatch.setattr("sys.argv", ["/some/where/bench_cuda.py", "--pool", "/some/pool.npz"])
    assert command() == "python benchmarks/bench_cuda.py --pool pool.npz"


def commands_in(record: Any) -> Iterator[str]:
    """Every command that a record says it was written by."""
    parts = record.values() if isinstance(record, dict) else record if isinstance(record, list) else ()
    if isinstance(record, dict) and isinstance(record.get("command"), str):
        yield record["command"]
    for part in parts:
        yield from commands_in(part)


@pytest.mark.parametrize("path", sorted((BENCHMARKS / "results").glob("*.json")), ids=lambda path: path.stem)
def test_a_record_was_written_by_a_command_that_exists(path: Path) -> None:
    scripts = "\n".join(script.read_text(encoding="utf-8") for script in BENCHMARKS.glob("*.py"))
    for command in commands_in(json.loads(path.read_text(encoding="utf-8"))):
        python, script, *words = shlex.split(command)
        assert (python, (ROOT / script).is_file()) == ("python", True), command
        options = {word.partition("=")[0] for word in words if word.startswith("--")}
        assert {option for option in options if f'"{option}"' not in scripts} == set(), command
