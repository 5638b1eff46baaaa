"""BADGE over features that stay on a device: the same picks as on the host. Here the device is torch's CPU."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from dubito.engines.cudagradients import DeviceSampling
from dubito.matrix import OnDevice
from dubito.problem import Metric
from dubito.strategies.badge import Gradients, _Sampling, label_errors

torch = pytest.importorskip("torch")


@given(st.integers(0, 2**31), st.sampled_from(("euclidean", "cosine")))
def test_a_device_samples_what_the_host_samples(seed: int, metric: Metric) -> None:
    rng = np.random.default_rng(seed)
    features, probabilities = rng.normal(size=(30, 4)), rng.dirichlet(np.ones(3), 30)
    rows = np.sort(rng.permutation(30)[:20])
    host = _Sampling(Gradients(features, rows, probabilities, metric), np.random.default_rng(seed))
    pool = OnDevice(torch.from_numpy(features))
    device = DeviceSampling(pool, rows, label_errors(probabilities[rows]), metric, np.random.default_rng(seed))
    for _ in range(12):
        expected, found = host.pick(), device.pick()
        assert found[0] == expected[0]
        assert found[1] == pytest.approx(expected[1], rel=1e-9)


def test_where_all_gradients_are_alike_the_rest_is_drawn_and_nothing_twice() -> None:
    pool = OnDevice(torch.ones(6, 2))
    errors = label_errors(np.full((6, 2), 0.5))
    sampling = DeviceSampling(pool, np.arange(6), errors, "euclidean", np.random.default_rng(0))
    picks = [sampling.pick() for _ in range(6)]
    assert sorted(position for position, _ in picks) == list(range(6))
    assert [priority for _, priority in picks[1:]] == [0.0] * 5
