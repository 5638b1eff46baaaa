"""Lanes: the data of every seed on the device, and networks in lock-step; here on the CPU, without a CUDA graph."""

import numpy as np
import torch

from dubito.experiments.data import Dataset
from dubito.experiments.models.networks.learner import Learner, Split, state_of
from dubito.experiments.models.networks.training import Steps, Training
from dubito.paper.side_by_side import DeviceData, StreamLearner, train_in_lockstep

ADAM = Training(epochs=3, later_epochs=2, learning_rate=1e-3, decay=False, batch=8, device="cpu")


def lamps(n: int = 120) -> Dataset:
    """Bright and dark images, with noise: two classes that a small network can tell apart."""
    rng = np.random.default_rng(0)
    labels = np.arange(n) % 2
    pixels = (rng.integers(0, 160, (n, 4, 4, 3)) + 80 * labels[:, None, None, None]).astype(np.uint8)
    part = n - n // 4
    return Dataset("lamps", pixels[:part], labels[:part], ("dark", "bright"), pixels[part:], labels[part:])


def test_data_that_seeds_share_is_on_the_device_once() -> None:
    data, other = lamps(), lamps(60)
    bank = DeviceData({0: data, 1: data, 2: other}, "cpu")
    assert bank.start == {0: 0, 1: 0, 2: 90}
    assert len(bank.rows) == len(bank.labels) == 135
    assert torch.equal(bank.of(2, 45), torch.from_numpy(other.features))


def test_lanes_in_lock_step_end_where_each_would_end_alone() -> None:
    torch.manual_seed(0)
    network, bank = torch.nn.Sequential(torch.nn.Flatten(), torch.nn.Linear(48, 2)), DeviceData({0: lamps()}, "cpu")
    split, turns = Split(network, "1", ADAM, is_training=True), [np.arange(20), np.arange(30, 50)]
    both = [Steps(rows, ADAM, is_first=True, seed=1) for rows in turns]

    def ends(*chosen: Steps) -> list[dict[str, torch.Tensor]]:
        lanes = [StreamLearner(Learner(network, split, bank.rows, bank.labels, ADAM, each.count)) for each in chosen]
        for lane, each in zip(lanes, chosen, strict=True):
            lane.begin(state_of(network), each)
        train_in_lockstep(lanes, chosen[0].count)
        return [lane.finish() for lane in lanes]

    together, alone = ends(*both), [ends(each)[0] for each in both]
    assert all(torch.equal(one["1.weight"], other["1.weight"]) for one, other in zip(together, alone, strict=True))
    assert not torch.equal(together[0]["1.weight"], together[1]["1.weight"])
