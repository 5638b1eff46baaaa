"""A run of networks goes on only where training means what it meant when the run was begun."""

from pathlib import Path
from typing import Any

import numpy as np
import pytest

from dubito.errors import InvalidData
from dubito.experiments.data import Dataset, make_dataset
from dubito.experiments.journal import PACKAGES, Journal, encode_line, version_of
from dubito.experiments.models.base import Model
from dubito.experiments.models.linear import Linear
from dubito.experiments.models.networks.network import Mlp, Torch
from dubito.experiments.models.probe import Probe
from dubito.experiments.plan import Arm, Experiment, Schedule
from dubito.experiments.runner import read_headers, run_experiment
from dubito.paper.vgg16 import Vgg16

OWN = Torch(factory="torch.nn.Sequential", head="head", device="cpu", batch=4)
LABELS = np.array([8, 12, 16])
HERE = {"device": "cpu", "precision": "float32", "minibatches": "gapless"}
ON_GPU = {"device": "cuda", "gpu": "some GPU", "precision": "bfloat16", "minibatches": "gapless"}


def refusal(model: Model, begun: dict[str, Any], now: dict[str, Any], labels: Any = LABELS) -> str:
    return model.refusal(begun, now, labels) or ""


def test_the_same_device_and_precision_go_on() -> None:
    assert refusal(OWN, HERE, HERE) == ""
    assert refusal(OWN, ON_GPU, {**ON_GPU, "device": "cuda:1", "gpu": "another"}) == ""


def test_another_device_is_refused_with_the_hint() -> None:
    assert "started on a GPU and torch finds none here" in refusal(OWN, ON_GPU, HERE)
    assert "on a machine with a GPU" in refusal(OWN, ON_GPU, HERE)
    assert 'hide the GPU with CUDA_VISIBLE_DEVICES=""' in refusal(OWN, HERE, ON_GPU)


def test_another_precision_is_refused() -> None:
    narrow = {**HERE, "precision": "bfloat16"}
    assert "trained in float32 and would continue in bfloat16; run the experiment in another" in refusal(
        OWN, HERE, narrow
    )


@pytest.mark.parametrize("model", [OWN, Mlp(batch=4)], ids=["torch", "mlp"])
def test_a_journal_that_says_nothing_goes_on_where_both_ways_make_the_same_steps(model: Model) -> None:
    early = {"device": "cpu"}
    assert refusal(model, early, HERE) == ""
    assert "an earlier version of dubito began it" in refusal(model, early, HERE, np.array([8, 13]))


@pytest.mark.parametrize("model", [Torch(factory=OWN.factory, head="head", device="cpu", decay=True, batch=4)])
def test_a_journal_that_says_nothing_is_refused_where_the_rate_falls(model: Model) -> None:
    assert "other minibatches (a short one at the end of every epoch)" in refusal(model, {"device": "cpu"}, HERE)


def test_an_early_journal_of_a_gpu_goes_on_there_since_lanes_train_as_they_did() -> None:
    uneven = np.array([9, 13])
    assert refusal(OWN, {"device": "cuda"}, ON_GPU, uneven) == ""
    assert "an earlier version" in refusal(Mlp(batch=4), {"device": "cuda"}, {**ON_GPU, "precision": "float32"}, uneven)
    assert "trained in float32" in refusal(OWN, {"device": "cpu"}, {**HERE, "precision": "bfloat16"})


@pytest.mark.parametrize("model", [Linear(), Probe()], ids=lambda model: model.kind)
def test_models_without_minibatches_go_on_from_any_journal(model: Model) -> None:
    assert refusal(model, {"device": "cpu"}, model.facts()) == ""
    assert model.facts() == {"device": "cpu"}


def test_other_weights_than_a_run_began_with_are_refused() -> None:
    model = Vgg16(weights="none", device="cpu")
    begun = {**HERE, "weights": "old.safetensors, sha256 01234567"}
    assert refusal(model, begun, {**HERE, "weights": "none"}).startswith(
        "the weights have changed since: old.safetensors, sha256 01234567 then, none now. Restore the old file"
    )
    assert refusal(model, {**HERE, "weights": "none"}, model.facts()) == ""


def clouds() -> Dataset:
    labels = np.arange(60) % 2
    return make_dataset("clouds", np.random.default_rng(0).normal(size=(60, 3)) + labels[:, None], labels)


def plan(model: Model) -> Experiment:
    return Experiment("clouds", (Arm("random"),), model=model, schedule=Schedule(9, 4, 2), seeds=(0,))


def cut(folder: Path, **changed: object) -> None:
    """The journal of a stopped run whose header says something else; None takes it out."""
    path = folder / "journal.jsonl"
    header, first = list(Journal(path).read())[:2]
    kept = {key: value for key, value in {**header, **changed}.items() if value is not None}
    path.write_bytes(encode_line(kept) + encode_line(first))


def test_what_a_resume_checks_is_in_the_journal(tmp_path: Path) -> None:
    experiment = plan(Mlp(hidden=(4,), epochs=2, later_epochs=1, batch=8))
    run_experiment(experiment, tmp_path, dataset=clouds())
    (header,) = read_headers(tmp_path)
    assert {key: header[key] for key in HERE} == HERE
    assert header["versions"] == {name: version_of(name) for name in (*PACKAGES, "torch")}


@pytest.mark.parametrize(
    ("changed", "words"),
    [
        ({"device": "cuda"}, "started on a GPU and torch finds none here"),
        ({"precision": "bfloat16"}, "trained in bfloat16 and would continue in float32"),
        ({"precision": None, "minibatches": None}, "an earlier version of dubito began it"),
    ],
)
def test_a_run_that_would_mix_two_trainings_is_refused_and_stays_as_it_is(
    tmp_path: Path, changed: dict[str, object], words: str
) -> None:
    experiment = plan(Mlp(hidden=(4,), epochs=2, later_epochs=1, batch=8))
    run_experiment(experiment, tmp_path, dataset=clouds())
    cut(tmp_path, **changed)
    before = (tmp_path / "journal.jsonl").read_bytes()
    with pytest.raises(InvalidData, match=f"journal.jsonl cannot be continued here: .*{words}"):
        run_experiment(experiment, tmp_path, dataset=clouds())
    assert (tmp_path / "journal.jsonl").read_bytes() == before


def test_a_resumed_network_ends_where_one_that_was_never_stopped_ends(tmp_path: Path) -> None:
    experiment = plan(Mlp(hidden=(4,), epochs=2, later_epochs=1, batch=8, decay=True))
    whole = run_experiment(experiment, tmp_path, dataset=clouds())
    cut(tmp_path)
    resumed = run_experiment(experiment, tmp_path, dataset=clouds())
    assert [(each.picked, each.core_set_loss) for each in resumed] == [
        (each.picked, each.core_set_loss) for each in whole
    ]
