from typing import Any

import numpy as np
import pytest

import dubito
from dubito.api import forecast
from dubito.arguments import build_request, check_points
from dubito.errors import InvalidArgument, MemoryLimit
from dubito.strategies import STRATEGIES, configure_strategy


@pytest.fixture(autouse=True)
def steady_machine(monkeypatch: pytest.MonkeyPatch) -> None:
    """The speed of the machine is measured, and differs a little from time to time."""
    for module in ("engines.cpu.cost", "engines.cpu.coverage.engine", "strategies.costs"):
        monkeypatch.setattr(f"dubito.{module}.product_rate", lambda: 1e11)
        monkeypatch.setattr(f"dubito.{module}.slowness", lambda: 1.0)


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


KNOWN = sorted(set(STRATEGIES.built_in) - {"optimal-coreset"})


@pytest.mark.parametrize("strategy", KNOWN)
def test_every_strategy_costs_more_with_more_rows(strategy: str) -> None:
    small, large = (dubito.estimate(n, 32, 100, 50, strategy=strategy, engine="auto") for n in (2_000, 100_000))
    assert 0.0 < small.seconds < large.seconds
    assert 0 < small.bytes <= large.bytes


@pytest.mark.parametrize("strategy", KNOWN)
def test_a_request_is_forecast_as_its_sizes_are_estimated(strategy: str) -> None:
    rng = np.random.default_rng(0)
    pool, shape = rng.standard_normal((800, 8)).astype(np.float32), (800, 5) if "bald" in strategy else (800,)
    chosen = configure_strategy(strategy, "auto")
    request = build_request(
        check_points(pool, range(60), "euclidean", None, None),
        chosen,
        10,
        labeled=range(60),
        probabilities=rng.dirichlet(np.ones(4), shape),
    )
    cost = forecast(chosen, request).cost
    expected = dubito.estimate(800, 8, 60, 10, strategy=strategy, classes=4, samples=5)
    assert cost is not None
    # Labeled rows are no candidates, and have no weight.
    assert cost.seconds == pytest.approx(expected.seconds, rel=0.25)


@pytest.mark.parametrize(
    ("strategy", "more"),
    [("margin", {"classes": 1000}), ("batchbald", {"samples": 50}), ("batchbald:samples=8000", {})],
)
def test_classes_samples_and_options_count(strategy: str, more: dict[str, Any]) -> None:
    plain = dubito.estimate(10_000, 32, 100, 50, strategy=strategy.partition(":")[0])
    assert dubito.estimate(10_000, 32, 100, 50, strategy=strategy, **more).seconds > 2.0 * plain.seconds
