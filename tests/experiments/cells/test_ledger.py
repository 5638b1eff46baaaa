"""A journal whose lines are JSON, but not what they should be."""

import json
from pathlib import Path

import numpy as np
import pytest

from dubito.errors import InvalidArgument, InvalidData
from dubito.experiments.cells.journal import NAME
from dubito.experiments.cells.ledger import Ledger, header_of
from dubito.experiments.datasets.dataset import Dataset, make_dataset
from dubito.experiments.plans.arms import Arm
from dubito.experiments.plans.experiment import Experiment, Schedule
from dubito.experiments.records import Round
from dubito.experiments.runs.run import read_headers, read_rounds, resume_experiment, run_experiment

PLAN = Experiment("small", (Arm("random"),), schedule=Schedule(initial=6, budget=3, rounds=2), seeds=(0,))


@pytest.fixture
def data() -> Dataset:
    labels = np.arange(60) % 2
    return make_dataset("two", np.random.default_rng(0).normal(size=(60, 2)) + 3 * labels[:, None], labels)


@pytest.fixture
def played(data: Dataset, tmp_path: Path) -> list[Round]:
    return run_experiment(PLAN, tmp_path, dataset=data)


def change_round(folder: Path, **changes: object) -> None:
    """Change the first round of a journal, and forget the last one."""
    header, first, *others = [json.loads(line) for line in (folder / NAME).read_text().splitlines()]
    changed = {name: value for name, value in {**first, **changes}.items() if value is not None}
    lines = [json.dumps(record) + "\n" for record in (header, changed, *others[:-1])]
    (folder / NAME).write_text("".join(lines))


@pytest.mark.parametrize("changes", [{"recall": None}, {"picked": "x"}, {"picked": 5}, {"strategy": None}])
def test_a_round_that_is_not_whole_is_named_by_its_line(
    changes: dict[str, object], played: list[Round], tmp_path: Path
) -> None:
    change_round(tmp_path, **changes)
    for read in (read_rounds, resume_experiment):
        with pytest.raises(InvalidData, match=r"line 2 of .*journal\.jsonl is no whole round.* Delete that line"):
            read(tmp_path)


def test_rows_that_the_data_does_not_have_are_refused(played: list[Round], tmp_path: Path) -> None:
    change_round(tmp_path, picked=[99_999_999])
    with pytest.raises(InvalidData, match="rows of 'random' that the data does not have"):
        resume_experiment(tmp_path)


def test_a_strategy_that_the_experiment_does_not_have_is_passed_over(played: list[Round], tmp_path: Path) -> None:
    change_round(tmp_path, strategy="foreign")
    told: list[int] = []
    again = resume_experiment(tmp_path, progress=lambda standing: told.append(standing.done))
    assert [each.picked for each in again] == [each.picked for each in played]
    assert told[-1] == len(played)


def test_an_imbalanced_pool_is_measured_under_every_seed_before_the_first_training(
    data: Dataset, tmp_path: Path
) -> None:
    schedule = Schedule(initial=6, budget=3, rounds=8)
    plan = Experiment("uneven", (Arm("random"),), schedule=schedule, pool="imbalanced:10", seeds=(0, 1))
    with pytest.raises(InvalidArgument, match="want 30 labels and the training part has"):
        run_experiment(plan, tmp_path / "run", dataset=data)
    assert not (tmp_path / "run").exists()


def test_a_header_holds_the_names_of_the_classes_where_they_are_known(tmp_path: Path) -> None:
    assert "classes" not in header_of(PLAN, "0123")
    Ledger(tmp_path, PLAN).write_header(PLAN, "0123", ("plane", "car"))
    (header,) = read_headers(tmp_path)
    assert header["classes"] == ["plane", "car"]
