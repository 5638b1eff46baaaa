"""Training side by side on a GPU, with CUDA graphs; needs one."""

from pathlib import Path

import numpy as np
import pytest
import torch

from dubito.errors import InvalidData
from dubito.experiments.data import Dataset
from dubito.experiments.models.base import TrainingSet
from dubito.experiments.models.networks.learner import Learner, Split, state_of
from dubito.experiments.models.networks.network import Torch
from dubito.experiments.models.networks.training import Steps, Training
from dubito.experiments.plan import Arm, Experiment, Schedule
from dubito.experiments.runner import read_headers, run_experiment
from dubito.matrix import AnyArray
from dubito.paper.side_by_side import DeviceData, StreamLearner, train_in_lockstep

pytestmark = [
    pytest.mark.skipif(not torch.cuda.is_available(), reason="torch finds no GPU"),
    # What torch's compiler warns of depends on the version of torch.
    pytest.mark.filterwarnings("default"),
]


def small(n_classes: int) -> torch.nn.Module:
    return torch.nn.Sequential(
        torch.nn.Conv2d(3, 8, 3, padding=1),
        torch.nn.ReLU(),
        torch.nn.AdaptiveAvgPool2d(2),
        torch.nn.Flatten(),
        torch.nn.Linear(32, n_classes),
    )


def lamps(n: int = 400) -> Dataset:
    rng = np.random.default_rng(0)
    labels = np.arange(n) % 2
    pixels = (rng.integers(0, 160, (n, 8, 8, 3)) + 80 * labels[:, None, None, None]).astype(np.uint8)
    return Dataset("lamps", pixels[:300], labels[:300], ("dark", "bright"), pixels[300:], labels[300:])


def trained(device: str, data: Dataset) -> dict[str, torch.Tensor]:
    """Weights after a turn in float32."""
    torch.manual_seed(0)
    training = Training(3, 2, 1e-3, False, 16, device, precision="float32")
    network, bank = small(2), DeviceData({0: data}, device)
    steps = Steps(np.arange(100), training, is_first=True, seed=1)
    split = Split(network, "4", training, is_training=True)
    lane = StreamLearner(Learner(network, split, bank.rows, bank.labels, training, steps.count))
    lane.begin({name: each.to(device) for name, each in state_of(network).items()}, steps)
    train_in_lockstep([lane], steps.count)
    return {name: each.cpu() for name, each in lane.finish().items()}


def test_a_graph_makes_the_steps_that_the_cpu_makes(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(torch.backends.cudnn, "allow_tf32", False)
    there, here = trained("cuda", lamps()), trained("cpu", lamps())
    assert all(torch.allclose(there[name], here[name], atol=2e-3) for name in here)


@pytest.mark.parametrize("is_compiled", [False, True])
def test_an_experiment_on_a_gpu_learns_and_goes_on_where_it_stopped(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, is_compiled: bool
) -> None:
    monkeypatch.setattr("dubito.paper.side_by_side.COMPILE_THRESHOLD", 1 if is_compiled else 10**12)
    model = Torch(factory=f"{__name__}.small", head="4", epochs=20, later_epochs=5, learning_rate=5e-3, batch=16)
    arms = Arm("random"), Arm("coreset"), Arm("doubt-coreset", {"beam_width": 2}), Arm("badge")
    plan = Experiment("lamps", arms, model=model, schedule=Schedule(initial=40, budget=20, rounds=2), seeds=(0, 1))
    seen = 0

    def interrupt(standing: object) -> None:
        nonlocal seen
        seen += 1
        if seen == 11:
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        run_experiment(plan, tmp_path, dataset=lamps(), progress=interrupt)
    before = (tmp_path / "journal.jsonl").read_text()
    rounds = run_experiment(plan, tmp_path, dataset=lamps())
    assert (tmp_path / "journal.jsonl").read_text().startswith(before)
    assert len(rounds) == 24
    assert np.mean([each.test_accuracy for each in rounds if each.turn == 2]) > 0.9


def by_the_model(device: str) -> dict[str, AnyArray]:
    """Weights after a turn by which `fit` trains a network alone."""
    model = Torch(
        factory=f"{__name__}.small",
        head="4",
        epochs=3,
        learning_rate=1e-3,
        batch=16,
        device=device,
        precision="float32",
    )
    data = lamps()
    return dict(model.fit(TrainingSet(data.features[:100], data.labels[:100], 2, seed=0, turn=0, state={})).state)


def test_a_network_trained_alone_on_a_gpu_makes_the_steps_that_the_cpu_makes(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(torch.backends.cudnn, "allow_tf32", False)
    there, here = by_the_model("cuda"), by_the_model("cpu")
    assert all(np.allclose(there[name], here[name], atol=2e-3) for name in here)


def test_a_run_begun_on_a_gpu_is_refused_on_a_cpu(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    model = Torch(factory=f"{__name__}.small", head="4", epochs=2, later_epochs=2, batch=16)
    plan = Experiment("lamps", (Arm("random"),), model=model, schedule=Schedule(40, 20, 1), seeds=(0,))
    run_experiment(plan, tmp_path, dataset=lamps())
    (header,) = read_headers(tmp_path)
    assert (header["device"], header["precision"], header["minibatches"]) == ("cuda", "bfloat16", "gapless")
    lines = (tmp_path / "journal.jsonl").read_text().splitlines(keepends=True)
    (tmp_path / "journal.jsonl").write_text("".join(lines[:2]))
    with monkeypatch.context() as hidden:
        hidden.setattr(torch.cuda, "is_available", lambda: False)
        with pytest.raises(InvalidData, match="started on a GPU and torch finds none here"):
            run_experiment(plan, tmp_path, dataset=lamps())
    assert len(run_experiment(plan, tmp_path, dataset=lamps())) == 2
