"""Which problems the cuda engine refuses, when it pays, and what happens if memory runs out."""

import subprocess
import sys
from dataclasses import replace
from importlib import import_module
from typing import Any

import numpy as np
import pytest

import dubito
from dubito.cli.commands.doctor import engines
from dubito.core import reference
from dubito.core.problem import Problem, Solution
from dubito.engines.cuda.engine import WORTHWHILE, CudaEngine, is_on_device
from dubito.engines.cuda.memory import SMALLEST_FRONT, STATE_BYTES, DevicePlan, DeviceSizes, plan_memory
from dubito.errors import InvalidArgument, MemoryLimit
from dubito.matrix import OnDevice, Rows

torch = pytest.importorskip("torch")

PROBLEM = Problem(np.eye(4, dtype=np.float32), np.zeros((1, 4), dtype=np.float32), np.arange(4), 2)
ROOMY = 1 << 40


# A plan


def test_a_pool_that_fits_is_copied_to_the_device() -> None:
    assert plan_memory((1000, 512), 4, 100, ROOMY, on_device=False) == DevicePlan(DeviceSizes(), is_resident=True)


def test_a_pool_that_does_not_fit_is_streamed() -> None:
    shape = 10_000_000, 512
    kept = STATE_BYTES * shape[0] + 100 * 512 * 8
    free = kept + DeviceSizes().working_bytes(512)
    assert plan_memory(shape, 4, 100, free, on_device=False) == DevicePlan(DeviceSizes(), is_resident=False)
    assert plan_memory(shape, 4, 100, free, on_device=True).is_resident
    whole = free + shape[0] * 512 * 4
    assert plan_memory(shape, 4, 100, whole, on_device=False).is_resident
    assert not plan_memory(shape, 4, 100, whole - 1, on_device=False).is_resident


def test_blocks_become_smaller_until_they_fit() -> None:
    fronts = set[int]()
    for free in np.geomspace(56e6, 2e9, 40):
        plan = plan_memory((100_000, 512), 4, 5000, int(free), on_device=False)
        assert STATE_BYTES * 100_000 + 5000 * 512 * 8 + plan.sizes.working_bytes(512) <= free
        fronts.add(plan.sizes.front)
    assert fronts == {4096, 1024, 256, SMALLEST_FRONT}


def test_the_error_for_a_pool_that_cannot_fit_has_an_estimate_and_a_hint() -> None:
    with pytest.raises(
        MemoryLimit,
        match=r"1000000 rows of 512 features with 7 references and picks need \d+ MB of GPU memory in addition "
        r"to the pool, and 50 MB may be used; free some, raise memory_limit, pass float16 features, or pass "
        r"engine='cpu'\.",
    ):
        plan_memory((1_000_000, 512), 4, 7, 50_000_000, on_device=True)


# Estimated cost


def test_more_work_is_estimated_to_take_longer_and_more_memory(
    engine: CudaEngine, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("dubito.engines.cuda.solver.product_rate", lambda device: 1e12)
    small, large = (
        Problem(np.broadcast_to(np.float32(0.0), (n, 64)), np.zeros((10, 64)), np.arange(n), 100)
        for n in (1_000, 1_000_000)
    )
    cheap, dear = engine.estimate(small), engine.estimate(large)
    assert (cheap.engine, dear.engine) == ("cuda", "cuda")
    assert cheap.bytes < dear.bytes
    assert cheap.seconds < dear.seconds
    assert engine.estimate(replace(small, beam_width=5, scores=np.ones(1_000, dtype=np.int64))).seconds > cheap.seconds


def test_a_pool_on_the_device_needs_no_memory_and_no_transfer(engine: CudaEngine) -> None:
    features = np.zeros((200_000, 64), dtype=np.float32)
    problem = Problem(features, features[:10], np.arange(len(features)), 100)
    there = replace(problem, pool=OnDevice(torch.from_numpy(features).to(engine.device)))
    assert engine.estimate(there).bytes == engine.estimate(problem).bytes - features.nbytes


def test_a_streamed_pool_needs_less_memory(engine: CudaEngine) -> None:
    features = np.zeros((200_000, 64), dtype=np.float32)
    problem = Problem(features, features[:10], np.arange(len(features)), 100)
    whole = engine.estimate(problem).bytes
    assert engine.estimate(replace(problem, memory_limit=whole - 1)).bytes == whole - features.nbytes


# Within it


@pytest.fixture
def engine() -> CudaEngine:
    """The engine on the GPU, or interpreted if there is none."""
    pytest.importorskip("triton")
    return CudaEngine(device="cuda" if torch.cuda.is_available() else "cpu")


@pytest.fixture
def problem() -> Problem:
    rng = np.random.default_rng(0)
    return Problem(rng.standard_normal((20, 3)), rng.standard_normal((3, 3)), np.arange(20), 6, largest=6.0)


def fail_first(monkeypatch: pytest.MonkeyPatch, times: int) -> list[int]:
    """Let memory run out in the first runs; returns the sizes of fronts that were tried."""
    tried = list[int]()
    run = import_module("dubito.engines.cuda.greedy").DeviceGreedy
    whole = run.solve

    def solve(self: Any) -> Solution:
        tried.append(self.bounds.sizes.front)
        self._step()
        if len(tried) <= times:
            raise torch.OutOfMemoryError("there is no room")
        solution: Solution = whole(self)
        return solution

    monkeypatch.setattr(run, "solve", solve)
    return tried


def test_memory_stays_within_the_limit(engine: CudaEngine, problem: Problem) -> None:
    with pytest.raises(MemoryLimit, match=r"20 rows of 3 features with 9 references and picks need 18 MB .* and 1 MB"):
        engine.solve(replace(problem, memory_limit=1_000_000))
    found = engine.solve(replace(problem, memory_limit=40_000_000)).configurations[0]
    assert found.indices.tolist() == reference.solve(problem)[0].indices.tolist()


@pytest.mark.parametrize("times", [1, 3])
def test_running_out_of_memory_shrinks_blocks_and_keeps_picks(
    times: int, engine: CudaEngine, problem: Problem, monkeypatch: pytest.MonkeyPatch
) -> None:
    tried = fail_first(monkeypatch, times)
    found, expected = engine.solve(problem).configurations[0], reference.solve(problem)[0]
    assert tried == [4096, 1024, 256, 64][: times + 1]
    assert found.indices.tolist() == expected.indices.tolist()
    assert found.priorities.tobytes() == expected.priorities.tobytes()
    assert found.radius == expected.radius


def test_the_error_says_if_no_block_is_small_enough(
    engine: CudaEngine, problem: Problem, monkeypatch: pytest.MonkeyPatch
) -> None:
    tried = fail_first(monkeypatch, 99)
    with pytest.raises(MemoryLimit, match=r"20 rows of 3 features .*MB of GPU memory.* or pass engine='cpu'\.$"):
        engine.solve(problem)
    assert tried == [4096, 1024, 256, 64]


# Refusals, and whether it pays


@pytest.mark.parametrize(("missing", "device"), [("torch", "cuda"), ("triton", "cpu")])
def test_the_missing_package_is_named(missing: str, device: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delitem(sys.modules, missing, raising=False)
    monkeypatch.setattr("dubito.engines.cuda.engine.find_spec", lambda name: None if name == missing else object())
    (described,) = CudaEngine(device=device).refusals(PROBLEM)
    assert described.startswith(f"{missing} is not installed (")


def test_a_named_engine_that_is_missing_its_package_is_an_error(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delitem(sys.modules, "torch", raising=False)
    monkeypatch.setattr("dubito.engines.cuda.engine.find_spec", lambda name: None)
    with pytest.raises(InvalidArgument, match=r"engine='cuda' cannot do this: torch is not installed .*engine='auto'"):
        dubito.select(np.eye(3), 1, engine="cuda", strategy="coreset")


def test_a_missing_compiler_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("dubito.engines.cuda.engine.has_driver", lambda: True)
    monkeypatch.setattr(torch.cuda, "is_available", lambda: True)
    monkeypatch.setattr("dubito.engines.cuda.engine.shutil.which", lambda name: None)
    (described,) = CudaEngine().refusals(PROBLEM)
    assert "no C compiler" in described


def test_a_problem_that_does_not_fit_is_refused_so_that_another_engine_is_chosen() -> None:
    (described,) = CudaEngine(device="cpu").refusals(replace(PROBLEM, memory_limit=1000))
    assert "MB may be used" in described


@pytest.fixture
def no_gpu(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("dubito.engines.cuda.engine.find_spec", lambda name: object())
    monkeypatch.setattr(torch.cuda, "is_available", lambda: False)


@pytest.mark.usefixtures("no_gpu")
def test_without_a_gpu_the_engine_says_so() -> None:
    assert CudaEngine().refusals(PROBLEM) == ["torch sees no NVIDIA GPU"]
    assert CudaEngine(device="cpu").refusals(PROBLEM) == []
    with pytest.raises(
        InvalidArgument, match=r"engine='cuda' cannot do this: torch sees no NVIDIA GPU; pass engine='a"
    ):
        dubito.select(np.eye(3), 1, engine="cuda", strategy="coreset")


@pytest.mark.usefixtures("no_gpu")
def test_doctor_shows_the_reason() -> None:
    described = {engine["name"]: engine["refusals"] for engine in engines()}
    assert described["cuda"] == ["torch sees no NVIDIA GPU"]
    assert described["cpu"] == []


def test_a_gpu_pays_for_large_problems_and_for_features_on_the_device() -> None:
    engine = CudaEngine()
    assert not engine.pays(PROBLEM)
    assert engine.pays(replace(PROBLEM, pool=OnDevice(torch.eye(4))))
    width, n = 1000, 100_000
    pool, references = np.broadcast_to(np.float32(0.0), (n, width)), np.broadcast_to(np.float32(0.0), (2000, width))
    budget = int(WORTHWHILE / n / width) - 2000
    much = Problem(pool, references, np.arange(n), budget)
    assert engine.pays(much)
    assert not engine.pays(replace(much, budget=budget - 1))


def test_rows_of_a_matrix_on_a_device_are_on_the_device() -> None:
    there = OnDevice(torch.eye(4))
    assert is_on_device(there)
    assert is_on_device(Rows(there, np.array([1])))
    assert not is_on_device(np.eye(4))
    assert not is_on_device(Rows(np.eye(4), np.array([1])))


def test_small_arrays_on_the_host_do_not_import_torch() -> None:
    program = (
        "import sys, numpy as np, dubito\n"
        "picked = dubito.select(np.eye(9), 3, labeled=[0], strategy='coreset')\n"
        "print(picked.engine, 'torch' in sys.modules)"
    )
    ran = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)
    assert ran.stdout.split() == ["cpu", "False"]
