from typing import Any

import numpy as np
import pytest

import dubito
from dubito.errors import InvalidArgument, MemoryLimit


@pytest.fixture(autouse=True)
def steady_machine(monkeypatch: pytest.MonkeyPatch) -> None:
    """The rate of products is measured anew for every estimate, and a busy machine is now quick, now slow."""
    monkeypatch.setattr("dubito.engines.cpu.cost.product_rate", lambda: 1e11)


def test_more_work_is_estimated_to_take_longer() -> None:
    small, large = (
        dubito.estimate(10_000, 64, 100, 100, strategy="doubt-coreset"),
        dubito.estimate(1_000_000, 64, 100, 10_000, strategy="doubt-coreset"),
    )
    assert small.bytes < large.bytes
    assert small.seconds < large.seconds


def test_a_beam_and_a_plain_core_set_cost_more() -> None:
    base = dubito.estimate(100_000, 512, 5_000, 5_000, strategy="doubt-coreset").seconds
    assert dubito.estimate(100_000, 512, 5_000, 5_000, beam_width=20, strategy="doubt-coreset").seconds > base / 2
    assert dubito.estimate(100_000, 512, 5_000, 5_000, scaled=False, strategy="doubt-coreset").seconds > base / 2


def test_the_memory_limit_is_what_is_used() -> None:
    assert dubito.estimate(10_000, 64, 0, 10, memory_limit="64MB", strategy="doubt-coreset").bytes == 64_000_000


def test_a_limit_that_cannot_hold_the_minimum_is_refused_with_the_minimum() -> None:
    with pytest.raises(MemoryLimit, match=r"memory_limit=1000 cannot hold .* pass at least \d+ bytes"):
        dubito.estimate(10_000, 64, 0, 10, memory_limit=1000, strategy="doubt-coreset")
    with pytest.raises(MemoryLimit, match=r"pass at least \d+ bytes"):
        dubito.select(np.ones((1000, 4)), 2, doubt=np.ones(1000), memory_limit="10kB", strategy="doubt-coreset")


@pytest.mark.parametrize("wrong", [{"n": 0}, {"d": 1.5}, {"m": -1}, {"budget": "many"}, {"beam_width": 0}])
def test_sizes_must_be_whole_numbers(wrong: dict[str, Any]) -> None:
    sizes: dict[str, Any] = {"n": 10, "d": 2, "m": 0, "budget": 1, **wrong}
    with pytest.raises(InvalidArgument, match=next(iter(wrong))):
        dubito.estimate(**sizes, strategy="doubt-coreset")
