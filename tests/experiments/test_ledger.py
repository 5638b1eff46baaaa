"""A journal whose lines are JSON, but not what they should be."""

import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from dubito.errors import InvalidArgument, InvalidData
from dubito.experiments.data import Dataset, make_dataset
from dubito.experiments.journal import NAME, ExperimentJournal, Journal, header_of, without_times
from dubito.experiments.plan import Arm, Experiment, Schedule
from dubito.experiments.records import Round
from dubito.experiments.rounds import prepare_seed
from dubito.experiments.runner import read_headers, read_rounds, resume_experiment, run_experiment

MISSING = object()
PLAN = Experiment("small", (Arm("random"),), schedule=Schedule(initial=6, budget=3, rounds=2), seeds=(0,))


@pytest.fixture
def data() -> Dataset:
    labels = np.arange(60) % 2
    return make_dataset("two", np.random.default_rng(0).normal(size=(60, 2)) + 3 * labels[:, None], labels)


@pytest.fixture
def played(data: Dataset, tmp_path: Path) -> list[Round]:
    return run_experiment(PLAN, tmp_path, dataset=data)


def records_of(folder: Path) -> list[dict[str, Any]]:
    return [dict(record) for record in Journal(folder / NAME).read()]


def change_round(folder: Path, **changes: object) -> None:
    """Change the first round of a journal as the first versions wrote it, and forget the last one."""
    header, first, *others = records_of(folder)
    changed = {name: value for name, value in {**first, **changes}.items() if value is not MISSING}
    del header["checks"]
    lines = [json.dumps(record) + "\n" for record in (header, changed, *others[:-1])]
    (folder / NAME).write_text("".join(lines))


def test_a_journal_as_the_first_versions_wrote_it_is_resumed(played: list[Round], tmp_path: Path) -> None:
    change_round(tmp_path)
    assert [each.picked for each in resume_experiment(tmp_path)] == [each.picked for each in played]


@pytest.mark.parametrize(
    "changes",
    [
        {"recall": MISSING},
        {"recall": 0.5},
        {"recall": [0.5, "high"]},
        {"recall": [1.5, 0.5]},
        {"picked": "x"},
        {"picked": 5},
        {"picked": [1, 2]},
        {"picked": [7, 8, 8]},
        {"picked": [7, 8, -1]},
        {"picked": [7, 8, 9.0]},
        {"picked": [7, 8, True]},
        {"picked": [7, 8, 10**400]},
        {"strategy": MISSING},
        {"strategy": ["random"]},
        {"strategy": "foreign"},
        {"seed": 9},
        {"seed": "0"},
        {"turn": 5},
        {"turn": -1},
        {"turn": None},
        {"labels": 7},
        {"labels": 6.0},
        {"test_accuracy": 1.5},
        {"test_accuracy": -0.1},
        {"test_accuracy": "0.9"},
        {"test_accuracy": True},
        {"test_accuracy": None},
        {"train_accuracy": float("nan")},
        {"core_set_loss": float("inf")},
        {"core_set_loss": [1.0]},
        {"radius": -1.0},
        {"radius": MISSING},
        {"uncertainty": {}},
        {"train_seconds": "long"},
        {"kind": "raund"},
        {"kind": ["round"]},
    ],
)
def test_a_round_that_no_run_could_have_written_is_named_by_its_line(
    changes: dict[str, object], played: list[Round], tmp_path: Path
) -> None:
    change_round(tmp_path, **changes)
    for read in (read_rounds, resume_experiment):
        with pytest.raises(InvalidData, match=r"line 2 of .*journal\.jsonl is not a valid .*; delete that line"):
            read(tmp_path)


def test_a_row_that_is_asked_for_twice_is_named(played: list[Round], tmp_path: Path) -> None:
    change_round(tmp_path, picked=list(played[1].picked))
    row = min(played[1].picked)
    with pytest.raises(InvalidData, match=rf"line 3 of .* is not a valid round \(it picks row {row} again\)"):
        read_rounds(tmp_path)


@pytest.mark.parametrize("rows", ["beyond the pool", "labeled from the start"])
def test_rows_that_the_data_does_not_have_are_refused(
    rows: str, data: Dataset, played: list[Round], tmp_path: Path
) -> None:
    initial = prepare_seed(PLAN, data, 0).initial
    change_round(tmp_path, picked=[0, 1, 99_999_999] if rows == "beyond the pool" else initial[:3].tolist())
    with pytest.raises(InvalidData, match="picks of 'random' in turn 0 that are not rows of the data, or that were"):
        resume_experiment(tmp_path)


@pytest.mark.parametrize("line", [1, 2, 3, 4])
def test_a_line_deleted_as_an_error_advises_is_done_again_and_none_is_doubled(
    line: int, played: list[Round], tmp_path: Path
) -> None:
    lines = (tmp_path / NAME).read_bytes().splitlines(keepends=True)
    damaged = lines[line - 1].replace(b"0", b"1", 1)
    (tmp_path / NAME).write_bytes(b"".join([*lines[: line - 1], damaged, *lines[line:]]))
    with pytest.raises(InvalidData, match=f"line {line} of .* does not fit its checksum.* delete that line and resume"):
        resume_experiment(tmp_path)
    (tmp_path / NAME).write_bytes(b"".join(lines[: line - 1] + lines[line:]))
    resumed = resume_experiment(tmp_path)
    assert [without_times(each) for each in resumed] == [without_times(each) for each in played]
    rounds = [record for record in records_of(tmp_path) if record["kind"] == "round"]
    assert [record["turn"] for record in rounds] == [0, 1, 2]


def test_rounds_that_do_not_follow_from_one_that_came_out_otherwise_are_taken_out(
    played: list[Round], tmp_path: Path
) -> None:
    """As on a GPU, where what is done again may differ."""
    lines = (tmp_path / NAME).read_bytes().splitlines(keepends=True)
    (tmp_path / NAME).write_bytes(b"".join(lines[:1] + lines[2:]))
    journal = ExperimentJournal(tmp_path, PLAN)
    other = replace(played[0], picked=played[1].picked)
    journal.write_round(other)
    assert read_rounds(tmp_path) == [other]
    journal.write_round(replace(other, train_seconds=9.0))
    assert read_rounds(tmp_path) == [other], "the same round is there once"


def test_an_imbalanced_pool_is_measured_under_every_seed_before_the_first_training(
    data: Dataset, tmp_path: Path
) -> None:
    schedule = Schedule(initial=6, budget=3, rounds=8)
    plan = Experiment("uneven", (Arm("random"),), schedule=schedule, pool="imbalanced:10", seeds=(0, 1))
    with pytest.raises(InvalidArgument, match="need 30 labels, and the training part has"):
        run_experiment(plan, tmp_path / "run", dataset=data)
    assert not (tmp_path / "run").exists()


def test_a_header_holds_the_names_of_the_classes_where_they_are_known(tmp_path: Path) -> None:
    assert "classes" not in header_of(PLAN, "0123")
    ExperimentJournal(tmp_path, PLAN).write_header(PLAN, "0123", ("plane", "car"))
    (header,) = read_headers(tmp_path)
    assert header["classes"] == ["plane", "car"]
