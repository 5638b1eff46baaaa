"""A network in two parts: the body in the training's precision, the head in float32."""

import torch

from dubito.experiments.models.networks.learner import Split, state_of
from dubito.experiments.models.networks.training import Training

ADAM = Training(epochs=3, later_epochs=2, learning_rate=1e-3, decay=False, batch=8, device="cpu")


def test_a_network_in_bfloat16_has_its_last_layer_in_float32() -> None:
    torch.manual_seed(0)
    network = torch.nn.Sequential(
        torch.nn.Flatten(), torch.nn.Linear(48, 8), torch.nn.ReLU(), torch.nn.Linear(8, 2)
    ).eval()
    narrow = Training(1, 1, 1e-3, False, 8, "cpu", precision="bfloat16")
    rows = torch.randint(0, 255, (90, 4, 4, 3), dtype=torch.uint8)
    weights = state_of(network)
    seen, described = Split(network, "3", narrow, is_training=False)(weights, rows)
    exact, _ = Split(network, "3", ADAM, is_training=False)(weights, rows)
    assert seen.dtype == described.dtype == torch.float32
    assert torch.equal(described, network[3](seen))
    assert 0 < (seen - exact).abs().max() < 0.05
