"""Training side by side on a GPU, with CUDA graphs; needs one."""

from pathlib import Path

import numpy as np
import pytest
import torch

from dubito.experiments.datasets.dataset import Dataset
from dubito.experiments.lanes.lane import Bank, Lane, Plan, train_side_by_side
from dubito.experiments.models.networks.network import Torch
from dubito.experiments.models.networks.split import Split, state_of
from dubito.experiments.models.networks.training import Training
from dubito.experiments.plans.arms import Arm
from dubito.experiments.plans.experiment import Experiment, Schedule
from dubito.experiments.runs.run import run_experiment

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
    network, bank = small(2), Bank({0: data}, device)
    plan = Plan(np.arange(100), training, is_first=True, seed=1)
    lanes = [Lane(network, Split(network, "4", training, is_training=True), bank, training, plan.steps)]
    lanes[0].begin({name: each.to(device) for name, each in state_of(network).items()}, plan)
    train_side_by_side(lanes, plan.steps)
    return {name: each.cpu() for name, each in lanes[0].finish().items()}


def test_a_graph_makes_the_steps_that_the_cpu_makes(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(torch.backends.cudnn, "allow_tf32", False)
    there, here = trained("cuda", lamps()), trained("cpu", lamps())
    assert all(torch.allclose(there[name], here[name], atol=2e-3) for name in here)


@pytest.mark.parametrize("is_compiled", [False, True])
def test_an_experiment_on_a_gpu_learns_and_goes_on_where_it_stopped(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, is_compiled: bool
) -> None:
    monkeypatch.setattr("dubito.experiments.lanes.studio.WORTH_COMPILING", 1 if is_compiled else 10**12)
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
