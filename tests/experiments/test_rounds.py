"""A round is put together in one place: the same meaning in the loop of a CPU and in the lanes of a GPU."""

import time
from collections.abc import Callable
from pathlib import Path
from typing import Any, cast

import numpy as np
import pytest
import torch

from dubito.errors import InvalidData
from dubito.experiments import rounds as loop
from dubito.experiments.data import Dataset
from dubito.experiments.journal import Journal, encode_line
from dubito.experiments.models.networks.learner import NetworkFit
from dubito.experiments.models.networks.network import Torch
from dubito.experiments.plan import Arm, Experiment, Schedule
from dubito.experiments.records import Round
from dubito.experiments.rounds import InMemory
from dubito.experiments.runner import run_experiment
from dubito.paper import side_by_side as reading
from dubito.paper.side_by_side import BatchTrainer, DeviceView


def flat_network(n_classes: int) -> torch.nn.Module:
    return torch.nn.Sequential(torch.nn.Linear(3, 4), torch.nn.ReLU(), torch.nn.Linear(4, n_classes))


MODEL = Torch(factory=f"{__name__}.flat_network", head="2", epochs=2, later_epochs=1, batch=8, device="cpu", samples=2)


def clouds() -> Dataset:
    labels = np.arange(60) % 2
    points = (np.random.default_rng(0).normal(size=(60, 3)) + labels[:, None]).astype(np.float32)
    return Dataset("clouds", points[:40], labels[:40], ("low", "high"), points[40:], labels[40:])


def played(folder: Path, *arms: Arm) -> list[Round]:
    plan = Experiment("clouds", arms, model=MODEL, schedule=Schedule(9, 4, 2), seeds=(0,))
    return run_experiment(plan, folder, dataset=clouds())


@pytest.fixture(params=[False, True], ids=["alone", "side by side"])
def either_way(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> None:
    """Cells played one after another, and side by side though there is no GPU."""
    monkeypatch.setattr(Torch, "runner", "side-by-side" if request.param else "one-by-one")


@pytest.fixture
def clock(monkeypatch: pytest.MonkeyPatch) -> None:
    """Time that passes only while something is done: 1 for choosing, 10 for training, 100 for predicting."""
    now = [0.0]

    def takes(seconds: float, owner: Any, name: str) -> None:
        done: Callable[..., Any] = getattr(owner, name)

        def slow(*given: Any, **named: Any) -> Any:
            result = done(*given, **named)
            now[0] += seconds
            return result

        monkeypatch.setattr(owner, name, slow)

    takes(1.0, InMemory, "choose")
    takes(1.0, DeviceView, "choose")
    takes(10.0, Torch, "fit")
    takes(10.0, BatchTrainer, "train")
    takes(100.0, NetworkFit, "predict_proba")
    takes(100.0, reading, "read_rows")
    monkeypatch.setattr(time, "perf_counter", lambda: now[0])
    monkeypatch.setattr(loop, "CHECKPOINT_SECONDS", 1e9)


@pytest.mark.usefixtures("either_way", "clock")
def test_the_time_of_a_selection_is_that_of_choosing_alone(tmp_path: Path) -> None:
    rounds = played(tmp_path, Arm("random"))
    assert [each.select_seconds for each in rounds] == [1.0, 1.0, 0.0]
    assert [each.train_seconds for each in rounds] == [10.0, 10.0, 10.0]


@pytest.mark.usefixtures("either_way", "clock")
def test_a_committee_that_is_asked_is_part_of_choosing(tmp_path: Path) -> None:
    rounds = played(tmp_path, Arm("bald"))
    assert [each.select_seconds for each in rounds] == [2 * (10.0 + 100.0) + 1.0, 2 * (10.0 + 100.0) + 1.0, 0.0]


@pytest.mark.usefixtures("either_way")
def test_rows_that_the_data_does_not_have_are_refused_either_way(tmp_path: Path) -> None:
    played(tmp_path, Arm("random"))
    journal = tmp_path / "journal.jsonl"
    header, first, *_ = Journal(journal).read()
    picked = cast("list[int]", first["picked"])
    journal.write_bytes(encode_line(header) + encode_line({**first, "picked": [999, *picked[1:]]}))
    with pytest.raises(InvalidData, match="has picks of 'random' in turn 0 that are not rows of the data"):
        played(tmp_path, Arm("random"))


def test_what_is_measured_is_the_same_either_way_but_for_rounding(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    alone = played(tmp_path / "alone", Arm("random"), Arm("margin"))
    monkeypatch.setattr(Torch, "runner", "side-by-side")
    beside = played(tmp_path / "beside", Arm("random"), Arm("margin"))
    for one, other in zip(alone, beside, strict=True):
        assert (one.strategy, one.turn, one.labels, one.picked) == (
            other.strategy,
            other.turn,
            other.labels,
            other.picked,
        )
        for name in ("test_accuracy", "train_accuracy", "core_set_loss", "radius", "scaled_radius"):
            assert getattr(one, name) == pytest.approx(getattr(other, name), rel=1e-4), name
