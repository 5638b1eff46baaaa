"""BADGE over features that stay on a device: the same picks as on the host. Here the device is torch's CPU."""

from itertools import islice

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import dubito
from dubito.core.problem import Metric
from dubito.matrix import FloatArray, IntArray, OnDevice
from dubito.strategies.badge import DeviceGradients, HostGradients, errors_of, sample

torch = pytest.importorskip("torch")


def is_same_on_both(features: FloatArray, rows: IntArray, errors: FloatArray, metric: Metric, count: int) -> bool:
    """The picks are equal, and their priorities up to rounding."""
    on_host = HostGradients(features, rows, errors, metric)
    on_device = DeviceGradients(OnDevice(torch.from_numpy(features)), rows, errors, metric)
    host, device = (islice(sample(each, np.random.default_rng(0)), count) for each in (on_host, on_device))
    picks, priorities = zip(*host, strict=True)
    found, distances = zip(*device, strict=True)
    return bool(found == picks and np.allclose(distances, priorities, rtol=1e-9, atol=0.0))


@given(st.integers(0, 2**31), st.sampled_from(("euclidean", "cosine")))
def test_a_device_samples_what_the_host_samples(seed: int, metric: Metric) -> None:
    rng = np.random.default_rng(seed)
    features, probabilities = rng.normal(size=(30, 4)), rng.dirichlet(np.ones(3), 30)
    rows = np.sort(rng.permutation(30)[:20])
    assert is_same_on_both(features, rows, errors_of(probabilities, rows), metric, 12)


@pytest.mark.parametrize("metric", ["euclidean", "cosine"])
@pytest.mark.parametrize("offset", [0.0, 1e3])
@pytest.mark.parametrize("block_bytes", [1 << 12, 1 << 16])
def test_many_blocks_of_picks_and_of_rows_are_those_of_the_host(
    metric: Metric, offset: float, block_bytes: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("dubito.strategies.badge.DEVICE_BLOCK_BYTES", block_bytes)
    rng = np.random.default_rng(1)
    features, probabilities = rng.normal(size=(900, 12)) + offset, rng.dirichlet(np.ones(4), 900)
    rows = np.flatnonzero(rng.random(900) < 0.9)
    assert is_same_on_both(features, rows, errors_of(probabilities, rows), metric, 500)


@pytest.mark.parametrize("dtype", ["float16", "bfloat16", "float32"])
def test_narrow_features_are_widened_before_they_are_multiplied(dtype: str) -> None:
    rng = np.random.default_rng(2)
    tensor = torch.from_numpy(rng.normal(size=(80, 6)) * 50.0).to(getattr(torch, dtype))
    rows, errors = np.arange(80), errors_of(rng.dirichlet(np.ones(3), 80), np.arange(80))
    device = DeviceGradients(OnDevice(tensor), rows, errors, "euclidean")
    host = HostGradients(tensor.double().numpy(), rows, errors)
    some = np.array([3, 70, 9])
    assert device.squared_lengths == pytest.approx(host.squared_lengths, rel=1e-12)
    assert device.to_nearest(some) == pytest.approx(host.to_nearest(some), rel=1e-11)
    assert device.pairwise(some) == pytest.approx(host.pairwise(some), rel=1e-11)


def test_directions_are_compared_whatever_the_size_of_the_features() -> None:
    rng = np.random.default_rng(4)
    features = rng.normal(size=(50, 3)) * np.resize([1e-200, 1.0, 1e139], 50)[:, None]
    assert is_same_on_both(
        features, np.arange(50), errors_of(rng.dirichlet(np.ones(3), 50), np.arange(50)), "cosine", 40
    )


def test_where_all_gradients_are_alike_the_rest_is_drawn_and_nothing_twice() -> None:
    errors = errors_of(np.full((6, 2), 0.5), np.arange(6))
    gradients = DeviceGradients(OnDevice(torch.ones(6, 2)), np.arange(6), errors, "euclidean")
    picks = list(sample(gradients, np.random.default_rng(0)))
    assert sorted(position for position, _ in picks) == list(range(6))
    assert [priority for _, priority in picks[1:]] == [0.0] * 5


def test_copies_wait_although_rounding_tells_them_apart() -> None:
    rng = np.random.default_rng(5)
    features, probabilities = rng.normal(size=(120, 4)) + 1e6, rng.dirichlet(np.ones(3), 120)
    tensor, errors = (
        torch.from_numpy(np.tile(features, (3, 1))),
        np.tile(errors_of(probabilities, np.arange(120)), (3, 1)),
    )
    gradients = DeviceGradients(OnDevice(tensor), np.arange(360), errors, "euclidean")
    picks, priorities = zip(*sample(gradients, rng), strict=True)
    assert sorted(position % 120 for position in picks[:120]) == list(range(120))
    assert not any(priorities[120:])


def test_the_strategy_takes_features_where_they_are() -> None:
    rng = np.random.default_rng(3)
    features, probabilities = rng.normal(size=(70, 5)), rng.dirichlet(np.ones(3), 70)
    expected = dubito.select(features, 40, probabilities=probabilities, strategy="badge", seed=5)
    found = dubito.select(
        OnDevice(torch.from_numpy(features)), 40, probabilities=probabilities, strategy="badge", seed=5
    )
    assert found.indices.tolist() == expected.indices.tolist()
    assert found.priorities == pytest.approx(expected.priorities, rel=1e-9)
