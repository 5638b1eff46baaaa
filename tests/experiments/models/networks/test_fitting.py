"""A network trained alone means what a network trained in a lane means."""

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from dubito.experiments.data import Dataset
from dubito.experiments.models.base import State, TrainingSet
from dubito.experiments.models.networks.learner import Learner, Split, as_weights, state_of, train
from dubito.experiments.models.networks.network import Mlp, perceptron
from dubito.experiments.models.networks.training import Precision, Steps, Training
from dubito.experiments.seeds import derive_seed
from dubito.paper.side_by_side import DeviceData, StreamLearner, train_in_lockstep
from levels import examples

SEEN: list[list[int]] = []
"""What a `watched` network was given, minibatch by minibatch."""


def watched() -> torch.nn.Module:
    """A perceptron that writes down the numbers of the rows it is trained on, the first of their features."""
    network = perceptron((3, 4, 2))
    network.get_submodule("flat").register_forward_pre_hook(
        lambda module, given: SEEN.append(given[0][:, 0].int().tolist()) if module.training else None
    )
    return network


def numbered(n: int) -> Dataset:
    """Rows that begin with their own number."""
    rng = np.random.default_rng(0)
    points = np.column_stack([np.arange(n), rng.normal(size=(n, 2)) + np.arange(n)[:, None] % 2]).astype(np.float32)
    return Dataset("numbered", points, np.arange(n) % 2, ("even", "odd"), points[:1], np.zeros(1, dtype=np.int64))


def by_lane(
    network: torch.nn.Module, data: Dataset, rows: list[int], training: Training, state: State, seed: int, turn: int
) -> dict[str, torch.Tensor]:
    """The weights that a lane ends a turn with."""
    bank, chance = DeviceData({seed: data}, "cpu"), derive_seed(seed, "batches", turn)
    steps = Steps(np.array(rows), training, is_first=not state, seed=chance)
    split = Split(network, "head", training, is_training=True)
    lane = StreamLearner(Learner(network, split, bank.rows, bank.labels, training, steps.count))
    lane.begin(as_weights(state, "cpu") if state else state_of(network), steps)
    train_in_lockstep([lane], steps.count)
    return lane.finish()


def by_itself(
    network: torch.nn.Module, data: Dataset, rows: list[int], training: Training, state: State, seed: int, turn: int
) -> State:
    train_set = TrainingSet(data.features[rows], data.labels[rows], 2, seed=seed, turn=turn, state=state)
    return train(network, "head", training, train_set, learns_features=True).state


@settings(max_examples=examples(25))
@given(
    st.sets(st.integers(0, 49), min_size=1, max_size=50),
    st.integers(1, 13),
    st.integers(1, 3),
    st.booleans(),
    st.booleans(),
    st.integers(0, 2**20),
)
def test_a_network_trained_alone_sees_the_minibatches_of_a_lane_and_ends_with_its_weights(
    chosen: set[int], batch: int, epochs: int, decay: bool, continues: bool, seed: int
) -> None:
    data, rows = numbered(50), sorted(chosen)
    training = Training(epochs, epochs + 1, 1e-2, decay, batch, "cpu")
    torch.manual_seed(seed)
    network = watched()
    state = {name: each.numpy() + 0.5 for name, each in state_of(network).items()} if continues else {}
    SEEN.clear()
    alone = by_itself(network, data, rows, training, state, seed, turn=3)
    seen_alone = list(SEEN)
    SEEN.clear()
    beside = by_lane(network, data, rows, training, state, seed, turn=3)
    assert seen_alone == SEEN
    assert seen_alone
    assert all(len(each) == batch for each in seen_alone)
    for name, expected in beside.items():
        assert np.allclose(alone[name], expected.numpy(), atol=1e-6), name


@pytest.mark.parametrize("precision", ["float32", "bfloat16"])
def test_precision_is_the_same_choice_alone_and_in_a_lane(precision: Precision) -> None:
    data, rows = numbered(40), list(range(40))
    training = Training(2, 1, 1e-2, True, 8, "cpu", precision=precision)
    torch.manual_seed(0)
    network = perceptron((3, 16, 2))
    alone, beside = (way(network, data, rows, training, {}, 0, turn=0) for way in (by_itself, by_lane))
    assert all(np.allclose(alone[name], np.asarray(beside[name]), atol=1e-6) for name in beside)


def test_bfloat16_on_a_cpu_is_what_it_says() -> None:
    data = numbered(40)
    train_set = TrainingSet(data.features, data.labels, 2, seed=0, turn=0, state={})
    ends = {}
    for precision in ("float32", "bfloat16", "auto"):
        torch.manual_seed(0)
        training = Training(2, 1, 1e-2, False, 8, "cpu", precision=precision)
        ends[precision] = train(perceptron((3, 16, 2)), "head", training, train_set, learns_features=True).embed(
            data.features
        )
    assert np.array_equal(ends["auto"], ends["float32"])
    assert 0 < np.abs(ends["bfloat16"] - ends["float32"]).max() < 0.1


def test_features_are_what_goes_into_the_head_or_the_inputs() -> None:
    data = numbered(20)
    train_set = TrainingSet(data.features, data.labels, 2, seed=0, turn=0, state={})
    fitted = [Mlp(hidden=(5,), epochs=1, features=seen).fit(train_set) for seen in ("hidden", "input")]
    assert [each.embed(data.features).shape for each in fitted] == [(20, 5), (20, 3)]
    assert np.array_equal(fitted[1].embed(data.features), data.features)
    assert np.array_equal(fitted[0].predict_proba(data.features), fitted[1].predict_proba(data.features))
