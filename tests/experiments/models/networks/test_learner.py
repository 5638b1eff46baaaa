"""One network in training: plain Adam on its own weights, whatever the network holds."""

import numpy as np
import pytest
import torch

from dubito.errors import InvalidData
from dubito.experiments.models.networks.learner import Learner, Split, state_of
from dubito.experiments.models.networks.training import Steps, Training, color_normalization, normalized

ADAM = Training(epochs=3, later_epochs=2, learning_rate=1e-3, decay=False, batch=8, device="cpu")


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


def odd(n_classes: int) -> torch.nn.Module:
    """Two layers that share their weights, one that is frozen, and one that nothing uses."""
    network = torch.nn.Sequential()
    network.add_module("flat", torch.nn.Flatten())
    network.add_module("narrow", torch.nn.Linear(48, 8).requires_grad_(False))
    network.add_module("one", torch.nn.Linear(8, 8))
    network.add_module("two", torch.nn.Linear(8, 8))
    network.add_module("head", torch.nn.Linear(8, n_classes))
    network.two.weight = network.one.weight
    network.register_parameter("spare", torch.nn.Parameter(torch.ones(3)))
    return network


def lamps(n: int = 90) -> tuple[torch.Tensor, torch.Tensor]:
    """Bright and dark images, and which is which."""
    labels = np.arange(n) % 2
    pixels = np.random.default_rng(0).integers(0, 160, (n, 4, 4, 3)) + 80 * labels[:, None, None, None]
    return torch.from_numpy(pixels.astype(np.uint8)), torch.from_numpy(labels)


def learner_of(network: torch.nn.Module, head: str, steps: Steps, training: Training = ADAM) -> Learner:
    return Learner(network, Split(network, head, training, is_training=True), *lamps(), training, steps.count)


def trained(learner: Learner, start: dict[str, torch.Tensor], steps: Steps) -> dict[str, torch.Tensor]:
    learner.begin(start, steps)
    for _ in range(steps.count):
        learner.step()
    return learner.finish()


@pytest.mark.parametrize("decay", [False, True])
def test_the_steps_are_those_of_plain_adam_at_the_rate_of_each(decay: bool) -> None:
    torch.manual_seed(0)
    training = Training(epochs=3, later_epochs=2, learning_rate=1e-3, decay=decay, batch=8, device="cpu")
    network, (images, labels) = small(2), lamps()
    steps = Steps(np.arange(40), training, is_first=True, seed=1)
    found = trained(learner_of(network, "5", steps, training), state_of(network), steps)
    optimizer = torch.optim.Adam(network.train().parameters())
    for rows, rate in zip(steps.order, steps.rates, strict=True):
        optimizer.param_groups[0]["lr"] = float(rate)
        optimizer.zero_grad()
        given = normalized(images[rows], *color_normalization("cpu"))
        torch.nn.functional.cross_entropy(network(given), labels[rows]).backward()
        optimizer.step()
    for name, expected in network.state_dict().items():
        assert torch.allclose(found[name].float(), expected.float(), atol=1e-6), name


def test_a_turn_begins_with_a_new_optimizer() -> None:
    torch.manual_seed(0)
    network, steps = small(2), Steps(np.arange(30), ADAM, is_first=False, seed=1)
    learner, start = learner_of(network, "5", steps), state_of(network)
    ends = [trained(learner, start, steps) for _ in range(2)]
    assert all(torch.equal(ends[0][name], ends[1][name]) for name in start)
    assert not torch.equal(ends[0]["0.weight"], start["0.weight"])


def test_ties_are_kept_what_is_frozen_is_left_and_what_is_unused_is_passed_over() -> None:
    torch.manual_seed(0)
    network, steps = odd(2), Steps(np.arange(40), ADAM, is_first=True, seed=1)
    start = state_of(network)
    found = trained(learner_of(network, "head", steps), start, steps)
    assert torch.equal(found["one.weight"], found["two.weight"])
    assert not torch.equal(found["one.weight"], start["one.weight"])
    assert torch.equal(found["narrow.weight"], start["narrow.weight"])
    assert torch.equal(found["spare"], start["spare"])


def test_weights_that_do_not_fit_the_network_are_refused() -> None:
    network, steps = small(2), Steps(np.arange(40), ADAM, is_first=True, seed=1)
    with pytest.raises(InvalidData, match=r"'5\.bias' does not fit the network"):
        learner_of(network, "5", steps).begin({**state_of(network), "5.bias": torch.zeros(1)}, steps)
