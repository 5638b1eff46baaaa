"""The number of workers, their resources and their hardware."""

from importlib.util import find_spec
from types import SimpleNamespace
from typing import Any

import pytest

from dubito.engines.cluster.messages import HOST, Hardware, Kind
from dubito.engines.cluster.workers import REPLACEMENT_GPU, RayWorkers, WorkerPlan, connect, plan_workers
from dubito.errors import InvalidArgument


def cluster(**resources: float) -> Any:
    return SimpleNamespace(cluster_resources=lambda: resources)


@pytest.mark.parametrize("kind", ["auto", "cpu"])
def test_without_gpus_every_processor_has_a_worker(kind: Kind) -> None:
    assert plan_workers(cluster(CPU=6.0), kind) == WorkerPlan(6)


def test_with_gpus_every_gpu_has_a_worker_unless_cpu_is_requested() -> None:
    plan = plan_workers(cluster(CPU=16.0, GPU=2.0))
    assert (plan.size, plan.n_processors, plan.hardware) == (2, 1.0, Hardware("cuda"))
    assert plan_workers(cluster(CPU=16.0, GPU=2.0), "cpu") == WorkerPlan(16)


def test_workers_that_share_a_gpu_share_its_memory_and_the_processors() -> None:
    plan = plan_workers(cluster(CPU=4.0, GPU=1.0), "cuda", 8)
    assert (plan.size, plan.n_processors) == (8, 0.5)
    assert plan.hardware == Hardware("cuda", 0.125, is_required=True)
    assert plan.size * plan.n_gpus + REPLACEMENT_GPU <= 1.0


def test_requesting_gpus_without_any_is_an_error() -> None:
    with pytest.raises(InvalidArgument, match=r"workers='cuda' finds no GPU in the cluster"):
        plan_workers(cluster(CPU=4.0), "cuda")


@pytest.mark.slow
@pytest.mark.parametrize("address", ["nonsense", "ray://127.0.0.1:1"])
def test_an_unreachable_address_is_an_error(address: str) -> None:
    ray = pytest.importorskip("ray")
    if address.startswith("ray://") and find_spec("grpc") is not None:
        pytest.skip("Ray's client would try for a long time")
    assert not ray.is_initialized()
    with pytest.raises(InvalidArgument, match=r"address='.*' cannot be reached \("):
        connect(address)


def test_a_replacement_shares_a_gpu_or_uses_the_cpu() -> None:
    plan = plan_workers(cluster(CPU=4.0, GPU=1.0))
    left = RayWorkers([], cluster(CPU=2.0, GPU=1.0), plan)
    assert left._replacement_plan() == WorkerPlan(1, 0.0, REPLACEMENT_GPU, plan.hardware)
    assert RayWorkers([], cluster(CPU=2.0), plan)._replacement_plan() == WorkerPlan(1, 0.0, 0.0, HOST)
