"""The memory of the cpu engine, measured: NumPy reports every array to tracemalloc."""

import tracemalloc
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import dubito
from dubito.engines.cpu.memory import least_bytes, plan_memory
from dubito.matrix import AnyArray, FloatArray


def peak_of(pool: object, budget: int, **options: Any) -> tuple[dubito.Selection, int]:
    tracemalloc.start()
    try:
        picked = dubito.select(pool, budget, **{"strategy": "doubt-coreset", **options})
        return picked, tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()


def clustered(n: int, d: int) -> FloatArray:
    rng = np.random.default_rng(0)
    points: FloatArray = rng.standard_normal((n, 8)) @ rng.standard_normal((8, d)) + 0.1 * rng.standard_normal((n, d))
    return points


@pytest.fixture(scope="module")
def large() -> AnyArray:
    return clustered(50_000, 512).astype(np.float32)


def test_a_mapped_pool_several_times_larger_than_the_limit_is_selected_from(large: AnyArray, tmp_path: Path) -> None:
    np.save(tmp_path / "pool.npy", large[:, :256].astype(np.float16))
    pool = np.load(tmp_path / "pool.npy", mmap_mode="r")
    limit = 12_000_000
    assert pool.nbytes > 2 * limit
    doubt = np.random.default_rng(1).random(len(pool)) ** 8
    picked, peak = peak_of(pool, 120, labeled=np.arange(300), doubt=doubt, memory_limit=limit)
    assert peak < limit
    roomy = dubito.select(pool, 120, labeled=np.arange(300), doubt=doubt, strategy="doubt-coreset")
    assert picked.indices.tolist() == roomy.indices.tolist()


@pytest.mark.parametrize("scaling", ["respective", "acquired"])
def test_the_default_memory_stays_within_its_estimate(scaling: str, large: AnyArray) -> None:
    n = len(large)
    logits = np.random.default_rng(1).standard_normal((n, 10)).astype(np.float32) * 8
    _, peak = peak_of(large, 600, labeled=np.arange(1000), logits=logits, scaling=scaling)
    assert peak < 32 * n + 128e6


def test_the_smallest_limit_is_enough() -> None:
    pool = clustered(2000, 300)
    limit = least_bytes(*pool.shape)
    picked, peak = peak_of(pool, 40, labeled=np.arange(10), strategy="coreset", memory_limit=limit)
    assert peak < limit
    assert (
        picked.indices.tolist() == dubito.select(pool, 40, labeled=np.arange(10), strategy="coreset").indices.tolist()
    )


def test_less_memory_means_smaller_blocks() -> None:
    tight, roomy = plan_memory(1000, 512, 30_000_000), plan_memory(1000, 512, 2_000_000_000)
    assert tight.refresh_rows < roomy.refresh_rows
    assert tight.cache_bytes < roomy.cache_bytes
