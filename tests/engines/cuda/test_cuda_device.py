"""The cuda engine on a real GPU: tensors on the GPU, the caller's stream, running out of memory."""

import numpy as np
import pytest

import dubito
from dubito.core.problem import Scaling
from dubito.engines.cuda.engine import CudaEngine
from dubito.matrix import FloatArray, OnDevice
from dubito.testing import check_engine
from levels import examples

torch = pytest.importorskip("torch")
pytestmark = pytest.mark.skipif(not torch.cuda.is_available(), reason="there is no NVIDIA GPU")


def real_pool(n: int = 3000, d: int = 40) -> tuple[FloatArray, FloatArray]:
    rng = np.random.default_rng(0)
    return rng.standard_normal((n, d)), rng.beta(0.3, 2.0, n)


def test_the_engine_meets_the_contract() -> None:
    check_engine(CudaEngine(), examples=examples(200))


@pytest.mark.parametrize("dtype", ["float16", "bfloat16", "float32"])
@pytest.mark.parametrize("labeled", ["rows", "mask", "features", "nothing"])
def test_tensors_on_the_gpu_stay_there(dtype: str, labeled: str, monkeypatch: pytest.MonkeyPatch) -> None:
    points, doubt = real_pool()
    pool = torch.tensor(points).to(getattr(torch, dtype)).cuda()
    given = {
        "rows": torch.arange(0, 3000, 50),
        "mask": torch.arange(3000, device="cuda") % 50 == 0,
        "features": pool[::50].clone() + 1.0,
        "nothing": None,
    }[labeled]
    there = None if given is None else given.cpu()
    expected = dubito.select(pool.cpu(), 300, labeled=there, doubt=doubt, engine="cpu", strategy="doubt-coreset")
    monkeypatch.setattr(OnDevice, "__getitem__", None)
    found = dubito.select(pool, 300, labeled=given, doubt=torch.tensor(doubt).cuda(), strategy="doubt-coreset")
    assert (found.engine, expected.engine) == ("cuda", "cpu")
    assert found.indices.tolist() == expected.indices.tolist()
    assert found.priorities.tobytes() == expected.priorities.tobytes()


@pytest.mark.parametrize("strategy", ["doubt-coreset", "doubt-coverage"])
def test_arrays_of_cupy_are_not_copied(strategy: str) -> None:
    cupy, rng = pytest.importorskip("cupy"), np.random.default_rng(0)
    points, probabilities = rng.random((500, 16), dtype=np.float32), rng.dirichlet(np.ones(4), 500)
    given = points, points[:5] + 1.0, probabilities
    found, expected = (
        dubito.select(pool, 20, labeled=labeled, probabilities=shares, strategy=strategy)
        for pool, labeled, shares in (tuple(map(cupy.asarray, given)), given)
    )
    assert (found.engine, expected.engine) == ("cuda", "cpu")
    assert found.indices.tolist() == expected.indices.tolist()
    assert found.priorities.tobytes() == expected.priorities.tobytes()


@pytest.mark.parametrize("width", [2, 20, 64, 65])
@pytest.mark.parametrize("scaling", ["respective", "acquired"])
def test_wide_beams_are_those_of_the_cpu(width: int, scaling: Scaling) -> None:
    points, doubt = real_pool()
    found, expected = (
        dubito.select(
            points,
            200,
            labeled=range(50),
            doubt=doubt,
            beam_width=width,
            scaling=scaling,
            engine=engine,
            strategy="doubt-coreset",
        )
        for engine in ("cuda", "cpu")
    )
    for ours, theirs in zip(found.configurations, expected.configurations, strict=True):
        assert ours.indices.tolist() == theirs.indices.tolist()
        assert ours.priorities.tobytes() == theirs.priorities.tobytes()
        assert ours.radius == theirs.radius


def test_host_arrays_are_copied_to_the_gpu_if_requested() -> None:
    points, doubt = real_pool()
    found = dubito.select(points, 300, labeled=[0], doubt=doubt, engine="cuda", strategy="doubt-coreset")
    assert found.engine == "cuda"
    assert (
        found.indices.tolist()
        == dubito.select(points, 300, labeled=[0], doubt=doubt, engine="cpu", strategy="doubt-coreset").indices.tolist()
    )


def test_selection_waits_for_pending_work_of_the_current_stream() -> None:
    points, doubt = real_pool()
    expected = dubito.select(points.astype(np.float32), 100, doubt=doubt, engine="cpu", strategy="doubt-coreset")
    source, pool = torch.tensor(points).float().cuda(), torch.zeros(points.shape, device="cuda")
    torch.cuda.synchronize()
    with torch.cuda.stream(torch.cuda.Stream()):
        torch.cuda._sleep(200_000_000)
        pool.copy_(source)
        found = dubito.select(pool, 100, doubt=doubt, strategy="doubt-coreset")
    assert found.indices.tolist() == expected.indices.tolist()


def test_deterministic_algorithms_can_be_requested(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("CUBLAS_WORKSPACE_CONFIG", ":4096:8")
    points, doubt = real_pool(600)
    torch.use_deterministic_algorithms(True)
    try:
        for width in (1, 3):
            found = dubito.select(points, 30, doubt=doubt, beam_width=width, engine="cuda", strategy="doubt-coreset")
            expected = dubito.select(points, 30, doubt=doubt, beam_width=width, engine="cpu", strategy="doubt-coreset")
            assert found.indices.tolist() == expected.indices.tolist()
    finally:
        torch.use_deterministic_algorithms(False)


def test_a_bad_number_in_a_tensor_is_named_with_its_row() -> None:
    pool = torch.zeros((5, 2), device="cuda")
    pool[3, 1] = float("nan")
    with pytest.raises(dubito.errors.InvalidData, match="pool holds nan at row 3, column 1"):
        dubito.select(pool, 1, strategy="coreset")


def test_memory_that_really_runs_out_means_smaller_blocks() -> None:
    points = np.random.default_rng(0).standard_normal((300_000, 256)).astype(np.float32)
    expected = dubito.select(points, 50, labeled=np.arange(20), strategy="coreset", engine="cpu")
    torch.cuda.empty_cache()
    total = torch.cuda.get_device_properties(0).total_memory
    torch.cuda.set_per_process_memory_fraction((torch.cuda.memory_reserved() + 200e6) / total)
    try:
        found = dubito.select(points, 50, labeled=np.arange(20), strategy="coreset", engine="cuda")
        assert found.indices.tolist() == expected.indices.tolist()
    finally:
        torch.cuda.set_per_process_memory_fraction(1.0)
