"""How many workers a cluster is asked for, and what they compute on."""

from importlib.util import find_spec
from types import SimpleNamespace
from typing import Any

import pytest

from dubito.engines.cluster.hardware import HOST, Hardware, Kind
from dubito.engines.cluster.workers import LITTLE, RayWorkers, ThreadPool, connect, thread_pool_of
from dubito.errors import InvalidArgument


def cluster(**resources: float) -> Any:
    return SimpleNamespace(cluster_resources=lambda: resources)


@pytest.mark.parametrize("kind", ["auto", "cpu"])
def test_without_gpus_every_processor_has_a_worker(kind: Kind) -> None:
    assert thread_pool_of(cluster(CPU=6.0), kind) == ThreadPool(6)


def test_with_gpus_every_gpu_has_one_unless_processors_are_asked_for() -> None:
    thread_pool = thread_pool_of(cluster(CPU=16.0, GPU=2.0))
    assert (thread_pool.size, thread_pool.n_processors, thread_pool.hardware) == (2, 1.0, Hardware("cuda"))
    assert thread_pool_of(cluster(CPU=16.0, GPU=2.0), "cpu") == ThreadPool(16)


def test_workers_that_share_a_gpu_share_its_memory_and_the_processors() -> None:
    thread_pool = thread_pool_of(cluster(CPU=4.0, GPU=1.0), "cuda", 8)
    assert (thread_pool.size, thread_pool.n_processors) == (8, 0.5)
    assert thread_pool.hardware == Hardware("cuda", 0.125, is_asked=True)
    assert thread_pool.size * thread_pool.n_gpus + LITTLE <= 1.0


def test_gpus_that_are_not_there_cannot_be_asked_for() -> None:
    with pytest.raises(InvalidArgument, match=r"workers='cuda' finds no GPU in the cluster"):
        thread_pool_of(cluster(CPU=4.0), "cuda")


@pytest.mark.parametrize("address", ["nonsense", "ray://127.0.0.1:1"])
def test_an_address_that_leads_nowhere_is_reported(address: str) -> None:
    ray = pytest.importorskip("ray")
    if address.startswith("ray://") and find_spec("grpc") is not None:
        pytest.skip("Ray's client would try for a long time")
    assert not ray.is_initialized()
    with pytest.raises(InvalidArgument, match=r"address='.*' cannot be reached \("):
        connect(address)


def test_a_worker_made_anew_shares_a_gpu_or_takes_the_cpu() -> None:
    thread_pool = thread_pool_of(cluster(CPU=4.0, GPU=1.0))
    left = RayWorkers([], cluster(CPU=2.0, GPU=1.0), thread_pool)
    assert left._spare() == ThreadPool(1, 0.0, LITTLE, thread_pool.hardware)
    assert RayWorkers([], cluster(CPU=2.0), thread_pool)._spare() == ThreadPool(1, 0.0, 0.0, HOST)
