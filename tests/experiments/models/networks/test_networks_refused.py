"""Networks of one's own that cannot be trained, or keep what cannot be saved: each refused by what is wrong with it."""

from collections.abc import Iterator
from importlib import import_module
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

from dubito.errors import InvalidArgument, InvalidData
from dubito.experiments.data import Dataset
from dubito.experiments.journal import ExperimentJournal
from dubito.experiments.models.networks.checks import check_converged, check_learning, full_state
from dubito.experiments.models.networks.learner import Learner, Split, state_of
from dubito.experiments.models.networks.network import Torch
from dubito.experiments.models.networks.training import Steps, Training
from dubito.experiments.plan import Arm, Experiment, Schedule
from dubito.experiments.records import Round
from dubito.experiments.runner import run_experiment
from dubito.paper.side_by_side import DeviceData, StreamLearner, train_in_lockstep

ADAM = Training(epochs=3, later_epochs=2, learning_rate=1e-3, decay=False, batch=8, device="cpu")


NETWORKS = Path(__file__).parent / "own_networks.txt"
"""As a person would write them, in a file beside the experiment."""


@pytest.fixture(autouse=True, scope="module")
def own_networks(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Any]:
    folder = tmp_path_factory.mktemp("networks")
    (folder / "own_networks.py").write_text(NETWORKS.read_text())
    with pytest.MonkeyPatch.context() as patched:
        patched.syspath_prepend(folder)
        yield import_module("own_networks")


def two_clouds() -> Dataset:
    rng = np.random.default_rng(0)
    labels = np.arange(80) % 2
    points = (rng.normal(size=(80, 4)) + labels[:, None]).astype(np.float32)
    return Dataset("clouds", points[:60], labels[:60], ("low", "high"), points[60:], labels[60:])


def played(factory: str, folder: Path, *, batch: int = 8, initial: int = 9, rounds: int = 2) -> list[Round]:
    model = Torch(factory=f"own_networks.{factory}", head="head", epochs=2, later_epochs=2, batch=batch, device="cpu")
    schedule = Schedule(initial=initial, budget=4, rounds=rounds)
    plan = Experiment("clouds", (Arm("random"), Arm("coreset")), model=model, schedule=schedule, seeds=(0,))
    return run_experiment(plan, folder, dataset=two_clouds())


@pytest.fixture(params=[False, True], ids=["alone", "side by side"])
def either_way(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> None:
    """Cells played one after another, and side by side though there is no GPU."""
    monkeypatch.setattr(Torch, "runner", "side-by-side" if request.param else "one-by-one")


@pytest.mark.usefixtures("either_way")
@pytest.mark.parametrize(
    ("factory", "words"),
    [
        ("Uncalled", "head ?= ?'head' is never called with an input.*call the head itself in forward"),
        ("Twice", "head ?= ?'head' is called 2 times per forward pass"),
        ("short", "the network's 'hidden.weight' is bfloat16; return it in float32"),
        ("Asking", "head ?= ?'head' cannot be separated from the network: AttributeError.*no attribute 'weight'"),
        ("Counting", "changes 'steps' in training, which is neither a parameter nor a buffer"),
        ("Drifting", "changes 'drift' in training, which is neither"),
        ("Averaging", "changes 'mean' in training.*register_buffer"),
        ("Listing", "two identical training steps of the network differ: it has state that is not in a buffer"),
        ("Throwing", "or uses random numbers that are not torch's"),
        ("Replacing", "replaces its buffer 'mean' by another tensor.*with copy_"),
        ("TwoFaced", "returns type list for .* items in training, and there are 2 classes"),
        ("Uncopied", "the network cannot be copied, and every training needs a copy: RuntimeError"),
        ("Detached", "the network cannot be trained: RuntimeError.*does not require grad"),
    ],
)
def test_a_network_that_cannot_be_trained_like_others_is_refused_and_leaves_nothing(
    tmp_path: Path, factory: str, words: str
) -> None:
    with pytest.raises((InvalidArgument, InvalidData), match=words):
        played(factory, tmp_path / "run")
    assert not (tmp_path / "run").exists()


@pytest.mark.usefixtures("either_way")
def test_minibatches_of_one_are_refused_for_batch_normalization_and_for_no_other_network(tmp_path: Path) -> None:
    with pytest.raises(
        (InvalidArgument, InvalidData), match=r"batch ?= ?1 is too small for this .* (pass|set) batch >= 2"
    ):
        played("Normed", tmp_path / "normed", batch=1)
    assert len(played("Plain", tmp_path / "plain", batch=1)) == 6


@pytest.mark.usefixtures("either_way")
def test_a_last_minibatch_of_one_is_no_trouble(tmp_path: Path) -> None:
    assert len(played("Normed", tmp_path, batch=8, initial=9)) == 6


def test_a_single_first_label_is_refused_for_batch_normalization(tmp_path: Path) -> None:
    with pytest.raises((InvalidArgument, InvalidData), match=r"initial ?= ?1 is too small for .* set initial >= 2"):
        played("Normed", tmp_path, initial=1)


@pytest.mark.usefixtures("either_way")
@pytest.mark.parametrize("factory", ["Buffered", "ByName", "Remembering", "Tied"])
def test_what_can_be_kept_and_what_need_not_be_is_no_trouble(tmp_path: Path, factory: str) -> None:
    assert len(played(factory, tmp_path)) == 6


@pytest.mark.filterwarnings("ignore::DeprecationWarning", "ignore::UserWarning")
@pytest.mark.parametrize(
    ("factory", "words"),
    [
        ("lazy", "'0.weight' belongs to a lazy layer and has no size yet"),
        ("scripted", "scripted or traced"),
        # Torch takes seconds to load its compiler.
        pytest.param("compiled", "the network is compiled; return it without torch.compile", marks=pytest.mark.slow),
    ],
)
def test_what_cannot_be_taken_apart_is_refused(own_networks: Any, factory: str, words: str) -> None:
    with pytest.raises(InvalidArgument, match=words):
        Split(getattr(own_networks, factory)(2), "head", ADAM, is_training=False)


def test_an_empty_folder_is_empty_again_after_a_refused_run(tmp_path: Path) -> None:
    with pytest.raises(InvalidData):
        played("Twice", tmp_path)
    assert list(tmp_path.iterdir()) == []


@pytest.mark.usefixtures("either_way")
def test_what_others_put_into_the_folder_of_a_refused_run_stays(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    notes = tmp_path / "run" / "notes.md"
    monkeypatch.setattr(ExperimentJournal, "write_header", lambda *given: notes.write_text("mine"))
    with pytest.raises((InvalidArgument, InvalidData)):
        played("Twice", tmp_path / "run")
    assert [path.name for path in notes.parent.iterdir()] == ["notes.md"]


def test_trying_a_network_out_leaves_chance_as_it_was(own_networks: Any) -> None:
    network = own_networks.Remembering(2)
    before = torch.get_rng_state()
    check_learning(network, torch.ones(2, 4), 2, 8)
    assert torch.equal(torch.get_rng_state(), before)


def test_lanes_have_buffers_of_their_own_also_those_that_are_not_saved_by_torch(own_networks: Any) -> None:
    network, bank = own_networks.Buffered(2), DeviceData({0: two_clouds()}, "cpu")
    split = Split(network, "head", ADAM, is_training=True)
    turns = [Steps(rows, ADAM, is_first=True, seed=1) for rows in (np.arange(0, 16, 2), np.arange(1, 17, 2))]
    lanes = [StreamLearner(Learner(network, split, bank.rows, bank.labels, ADAM, steps.count)) for steps in turns]
    for lane, steps in zip(lanes, turns, strict=True):
        lane.begin(state_of(network), steps)
    train_in_lockstep(lanes, turns[0].count)
    for lane, steps in zip(lanes, turns, strict=True):
        alone = Learner(network, split, bank.rows, bank.labels, ADAM, steps.count)
        alone.begin(state_of(network), steps)
        for _ in range(steps.count):
            alone.step()
        assert torch.equal(lane.finish()["mean"], alone.finish()["mean"])
    assert not torch.equal(lanes[0].finish()["mean"], lanes[1].finish()["mean"])


def test_what_is_kept_of_another_network_is_refused(own_networks: Any) -> None:
    network, bank = own_networks.Buffered(2), DeviceData({0: two_clouds()}, "cpu")
    split, steps = Split(network, "head", ADAM, is_training=True), Steps(np.arange(16), ADAM, is_first=True, seed=1)
    learner = Learner(network, split, bank.rows, bank.labels, ADAM, steps.count)
    kept = {name: each.detach() + 1 for name, each in full_state(network).items()}
    learner.begin(kept, steps)
    assert torch.equal(learner.finish()["mean"], torch.ones(4))
    with pytest.raises(InvalidData, match="the saved 'mean' does not fit the network"):
        learner.begin({name: each for name, each in kept.items() if name != "mean"}, steps)
    with pytest.raises(InvalidData, match="the saved 'spare' does not fit the network"):
        learner.begin({**kept, "spare": torch.zeros(1)}, steps)
    with pytest.raises(InvalidData, match=r"the saved 'head\.bias' does not fit the network"):
        learner.begin({**kept, "head.bias": torch.zeros(9)}, steps)


def test_a_mask_of_attention_is_no_sign_of_divergence() -> None:
    check_converged([torch.tensor([0.0, -torch.inf]), torch.ones(2, dtype=torch.complex64)], 0, 0.1)
    for bad in (torch.nan, torch.inf):
        with pytest.raises(InvalidData, match=r"diverged in turn 3; lower learning_rate=0\.1"):
            check_converged([torch.tensor([0.0, bad])], 3, 0.1)


def test_the_whole_network_is_no_head() -> None:
    model = Torch(factory="own_networks.Plain", head="", device="cpu")
    with pytest.raises(InvalidArgument, match=r"head='' is not a module of .*Plain; it has hidden, head"):
        model.network(2, 0)
