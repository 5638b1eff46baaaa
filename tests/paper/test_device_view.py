"""What a network makes of the whole data: rows in blocks of one size, and how far points lie."""

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from dubito.core.distances import squared_radii
from dubito.experiments.models.networks.learner import Split, state_of
from dubito.experiments.models.networks.training import Training
from dubito.paper.side_by_side import largest_distance, nearest_squared, read_rows

ADAM = Training(epochs=3, later_epochs=2, learning_rate=1e-3, decay=False, batch=8, device="cpu")


def test_rows_are_read_in_blocks_of_one_size(monkeypatch: pytest.MonkeyPatch) -> None:
    torch.manual_seed(0)
    network = torch.nn.Sequential(torch.nn.Flatten(), torch.nn.Linear(48, 4), torch.nn.Linear(4, 2)).eval()
    split, sizes = Split(network, "2", ADAM, is_training=False), []

    def answer(weights: dict[str, torch.Tensor], rows: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
        sizes.append(len(rows))
        return split(weights, rows)

    rows, weights = torch.rand(90, 3, 4, 4), state_of(network)
    monkeypatch.setattr("dubito.paper.side_by_side.READ_ROWS", 40)
    seen, described = read_rows(answer, weights, rows)
    whole = split(weights, rows)
    assert sizes == [40, 40, 40]
    assert torch.allclose(seen, whole[0], atol=1e-6)
    assert torch.allclose(described, whole[1], atol=1e-6)


@given(st.integers(0, 2**31))
def test_the_largest_distances_are_those_of_every_pair(seed: int) -> None:
    rng = np.random.default_rng(seed)
    features = (rng.normal(size=(40, 3)) + 50.0).astype(np.float32)
    rows, doubt = rng.permutation(40)[:5], rng.random(40)
    nearest = np.sqrt(squared_radii(features, features[rows]))
    tensor = torch.from_numpy(features)
    squared = nearest_squared(tensor, rows)
    assert largest_distance(tensor, rows, squared) == pytest.approx(nearest.max(), rel=1e-12)
    assert largest_distance(tensor, rows, squared, doubt) == pytest.approx((nearest * doubt).max(), rel=1e-12)
