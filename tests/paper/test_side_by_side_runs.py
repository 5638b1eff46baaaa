"""Cells played side by side; here on the CPU, where the same steps are made without a CUDA graph."""

import shutil
from pathlib import Path

import numpy as np
import pytest
import torch

from dubito.errors import InvalidArgument, InvalidData
from dubito.experiments.data import Dataset
from dubito.experiments.models.networks.network import Torch
from dubito.experiments.plan import Arm, Experiment, Schedule
from dubito.experiments.records import Round
from dubito.experiments.runner import read_rounds, run_experiment
from dubito.paper.side_by_side import Assignment, BatchTrainer

SCHEDULE = Schedule(initial=12, budget=6, rounds=3)


def small(n_classes: int) -> torch.nn.Module:
    """A convolution, batch normalization and a linear layer, on images of any size."""
    return torch.nn.Sequential(
        torch.nn.Conv2d(3, 8, 3, padding=1, bias=False),
        torch.nn.BatchNorm2d(8),
        torch.nn.ReLU(),
        torch.nn.AdaptiveAvgPool2d(2),
        torch.nn.Flatten(),
        torch.nn.Linear(32, n_classes),
    )


def squashed(n_classes: int) -> torch.nn.Module:
    """Something follows the layer that one might take for the head."""
    return torch.nn.Sequential(torch.nn.Flatten(), torch.nn.Linear(48, n_classes), torch.nn.Softplus())


def lamps(n: int = 120) -> Dataset:
    """Bright and dark images, with noise: two classes that a small network can tell apart."""
    rng = np.random.default_rng(0)
    labels = np.arange(n) % 2
    pixels = (rng.integers(0, 160, (n, 4, 4, 3)) + 80 * labels[:, None, None, None]).astype(np.uint8)
    part = n - n // 4
    return Dataset("lamps", pixels[:part], labels[:part], ("dark", "bright"), pixels[part:], labels[part:])


def small_model(learning_rate: float = 5e-3, factory: str = "small", head: str = "5", samples: int = 0) -> Torch:
    return Torch(
        factory=f"{__name__}.{factory}",
        head=head,
        epochs=4,
        later_epochs=2,
        learning_rate=learning_rate,
        batch=8,
        device="cpu",
        samples=samples,
    )


def experiment(model: Torch | None = None, schedule: Schedule = SCHEDULE, extra: tuple[Arm, ...] = ()) -> Experiment:
    arms = Arm("random"), Arm("doubt-coreset"), Arm("badge"), *extra
    return Experiment("lamps", arms, model=model or small_model(), schedule=schedule, seeds=(0, 1))


def results(rounds: list[Round]) -> list[dict[str, object]]:
    """ToySettings without their times."""
    return [{key: value for key, value in each.as_dict().items() if not key.endswith("seconds")} for each in rounds]


@pytest.fixture
def together(monkeypatch: pytest.MonkeyPatch) -> None:
    """Play side by side though there is no GPU."""
    monkeypatch.setattr(Torch, "runner", "side-by-side")


@pytest.fixture(scope="module")
def undisturbed(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The folder of cells played side by side to the end."""
    folder = tmp_path_factory.mktemp("undisturbed") / "whole"
    with pytest.MonkeyPatch.context() as patched:
        patched.setattr(Torch, "runner", "side-by-side")
        run_experiment(experiment(), folder, dataset=lamps())
    return folder


def test_cells_played_side_by_side_write_what_cells_played_alone_write(undisturbed: Path) -> None:
    rounds = read_rounds(undisturbed)
    assert [each.labels for each in rounds] == [12, 18, 24, 30] * 6
    assert all(len(set(each.picked)) == (6 if each.turn < 3 else 0) for each in rounds)
    assert all(each.radius and each.scaled_radius and each.radius >= each.scaled_radius for each in rounds)
    for seed in (0, 1):
        first = [each for each in rounds if each.seed == seed and each.turn == 0]
        assert len({each.test_accuracy for each in first}) == len({each.core_set_loss for each in first}) == 1
    last = [each.test_accuracy for each in rounds if each.turn == 3]
    assert np.mean(last) > 0.8
    assert not list((undisturbed / "checkpoints").iterdir())


@pytest.mark.usefixtures("together")
@pytest.mark.parametrize("stop", [3, 8, 14])
def test_interrupted_and_resumed_it_goes_on_from_the_last_finished_turn(
    undisturbed: Path, tmp_path: Path, stop: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    seen = 0

    def interrupt(standing: object) -> None:
        nonlocal seen
        seen += 1
        if seen == stop:
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        run_experiment(experiment(), tmp_path / "cut", dataset=lamps(), progress=interrupt)
    turns = list[int]()
    train = BatchTrainer.train

    def watched(self: BatchTrainer, assignments: list[Assignment]) -> object:
        turns.extend(each.turn for each in assignments)
        return train(self, assignments)

    monkeypatch.setattr(BatchTrainer, "train", watched)
    resumed = run_experiment(experiment(), tmp_path / "cut", dataset=lamps())
    assert results(resumed) == results(read_rounds(undisturbed))
    assert min(turns, default=9) == (stop - 1) // 6 + 1  # Six cells a turn: none that was trained is trained again.


@pytest.mark.usefixtures("together")
def test_where_checkpoints_were_lost_turns_are_trained_again(undisturbed: Path, tmp_path: Path) -> None:
    shutil.copytree(undisturbed, tmp_path / "cut")
    journal = (undisturbed / "journal.jsonl").read_text().splitlines(keepends=True)
    (tmp_path / "cut" / "journal.jsonl").write_text("".join(journal[:15]))
    resumed = run_experiment(experiment(), tmp_path / "cut", dataset=lamps())
    assert results(resumed) == results(read_rounds(undisturbed))


@pytest.mark.usefixtures("together")
def test_training_from_scratch_needs_no_checkpoints(tmp_path: Path) -> None:
    anew = Schedule(initial=12, budget=6, rounds=1, from_scratch=True)
    first, again = (run_experiment(experiment(schedule=anew), tmp_path / name, dataset=lamps()) for name in "ab")
    assert results(first) == results(again)


@pytest.mark.usefixtures("together")
def test_a_committee_is_asked_where_a_strategy_wants_one(tmp_path: Path) -> None:
    one = Schedule(initial=12, budget=3, rounds=1)
    rounds = run_experiment(experiment(small_model(samples=2), one, (Arm("bald"),)), tmp_path, dataset=lamps())
    assert {each.strategy for each in rounds if each.picked} == {"random", "doubt-coreset", "badge", "bald"}


@pytest.mark.usefixtures("together")
def test_training_that_diverges_names_the_learning_rate(tmp_path: Path) -> None:
    with pytest.raises(InvalidData, match="lower learning_rate=1e\\+30"):
        run_experiment(experiment(small_model(learning_rate=1e30)), tmp_path, dataset=lamps())


@pytest.mark.parametrize("is_together", [False, True])
def test_a_head_that_something_follows_is_refused(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, is_together: bool
) -> None:
    monkeypatch.setattr(Torch, "runner", "side-by-side" if is_together else "one-by-one")
    with pytest.raises((InvalidArgument, InvalidData), match=r"head ?= ?'1' is not the last module"):
        run_experiment(experiment(small_model(factory="squashed", head="1")), tmp_path, dataset=lamps())


def test_on_a_cpu_cells_are_played_one_after_another() -> None:
    assert small_model().runner == experiment().model.runner == "one-by-one"


def seven(n_classes: int) -> torch.nn.Module:
    """Outputs for classes that are not there."""
    return torch.nn.Sequential(torch.nn.Flatten(), torch.nn.Linear(48, 7))


def two_answers(n_classes: int) -> torch.nn.Module:
    return torch.nn.Sequential(torch.nn.Flatten(), torch.nn.Unflatten(1, (1, 48)), torch.nn.LSTM(48, n_classes))


def frozen(n_classes: int) -> torch.nn.Module:
    return torch.nn.Sequential(torch.nn.Flatten(), torch.nn.Linear(48, n_classes)).requires_grad_(False)


def too_wide(n_classes: int) -> torch.nn.Module:
    return torch.nn.Sequential(torch.nn.Flatten(), torch.nn.Linear(49, n_classes))


def broken(n_classes: int) -> torch.nn.Module:
    raise ValueError("my own mistake")


def no_module(n_classes: int) -> str:
    return "network"


@pytest.mark.parametrize("is_together", [False, True])
@pytest.mark.parametrize(
    ("factory", "head", "message"),
    [
        ("seven", "1", r"returns shape \(2, 7\) for 2 items, and there are 2 classes"),
        ("two_answers", "2", "returns type tuple"),
        ("frozen", "1", "every parameter is frozen"),
        ("too_wide", "1", "cannot process items of shape 3x4x4: RuntimeError"),
        ("broken", "1", "failed when called with n_classes ?= ?2.*ValueError: my own mistake"),
        ("no_module", "1", "returned str; return a torch.nn.Module"),
    ],
)
def test_a_network_that_cannot_be_used_is_refused_by_what_is_wrong(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, is_together: bool, factory: str, head: str, message: str
) -> None:
    monkeypatch.setattr(Torch, "runner", "side-by-side" if is_together else "one-by-one")
    with pytest.raises((InvalidArgument, InvalidData), match=message):
        run_experiment(experiment(small_model(factory=factory, head=head)), tmp_path, dataset=lamps())
