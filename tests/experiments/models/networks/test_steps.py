"""The steps of a turn: which rows, in which order, at which learning rate."""

import math

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from dubito.experiments.models.networks.training import Steps, Training

ADAM = Training(epochs=3, later_epochs=2, learning_rate=1e-3, decay=False, batch=8, device="cpu")


@given(st.integers(1, 60), st.integers(1, 5), st.integers(0, 2**31))
def test_every_epoch_shows_every_row_and_only_the_last_minibatch_is_cut(n: int, epochs: int, seed: int) -> None:
    training = Training(epochs, 1, 1e-3, False, 8, "cpu")
    made = Steps(np.arange(100, 100 + n), training, is_first=True, seed=seed)
    counts = np.bincount(made.order.flatten().numpy() - 100, minlength=n)
    assert made.order.shape == (max(epochs, epochs * n // 8), 8)
    if n >= 8:
        assert counts.max() <= epochs
        assert epochs * n - counts.sum() < 8
    assert torch.equal(made.order, Steps(np.arange(100, 100 + n), training, is_first=True, seed=seed).order)


def test_the_learning_rate_stays_or_falls_along_a_cosine() -> None:
    rows = np.arange(80)
    falling = Steps(rows, Training(2, 1, 0.5, True, 8, "cpu"), is_first=True, seed=0).rates
    assert torch.all(Steps(rows, ADAM, is_first=True, seed=0).rates == ADAM.learning_rate)
    assert falling[0] == 0.5
    assert torch.all(falling.diff() < 0)
    assert 0 < falling[-1] < 0.02


@given(st.integers(1, 60), st.integers(1, 4), st.integers(1, 12), st.integers(0, 2**31))
def test_epochs_follow_one_another_without_a_gap(n: int, epochs: int, batch: int, seed: int) -> None:
    rows = np.arange(n) * 3
    found = Steps(rows, Training(1, epochs, 1e-3, False, batch, "cpu"), is_first=False, seed=seed).order
    generator = torch.Generator().manual_seed(seed)
    stream = list[int]()
    while len(stream) < found.numel():
        stream += rows[torch.randperm(n, generator=generator).numpy()].tolist()
    assert found.flatten().tolist() == stream[: found.numel()]


@pytest.mark.parametrize("device", ["cpu", "cuda"])
@pytest.mark.parametrize("decay", [False, True])
def test_a_step_has_the_same_rows_and_rate_on_every_device(device: str, decay: bool) -> None:
    made = Steps(np.arange(10), Training(3, 1, 0.1, decay, 4, device), is_first=True, seed=5)
    expected = [0.1 * 0.5 * (1 + math.cos(math.pi * place / 7)) if decay else 0.1 for place in range(7)]
    assert made.rates.tolist() == pytest.approx(expected)
    assert made.order[2].tolist() == Steps(np.arange(10), ADAM_OF_FOUR, is_first=True, seed=5).order[2].tolist()


ADAM_OF_FOUR = Training(epochs=3, later_epochs=2, learning_rate=1e-3, decay=False, batch=4, device="cpu")
