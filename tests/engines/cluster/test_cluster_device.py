"""Shards on a GPU return the reference's picks; without a GPU, Triton's interpreter runs the kernels."""

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any, ClassVar

import numpy as np
import pytest

from dubito.core.coverage_reference import CoverageProblem
from dubito.core.problem import Problem, Solution
from dubito.engines.base import Engine
from dubito.engines.cluster import driver, shard
from dubito.engines.cluster.messages import HOST, Hardware
from dubito.engines.cluster.shard import usable_hardware
from dubito.engines.cluster.solving import even_edges, open_all, solve, split_problem
from dubito.engines.cluster.workers import LocalWorkers
from dubito.errors import InvalidArgument, MemoryLimit
from dubito.matrix import len_of
from dubito.testing import check_coverage_engine, check_engine

torch = pytest.importorskip("torch")
pytest.importorskip("triton")
device = pytest.importorskip("dubito.engines.cluster.device")
covering = pytest.importorskip("dubito.engines.cluster.coverage.device")

DEVICE = "cuda" if torch.cuda.is_available() else "cpu"
MACHINE = Hardware(DEVICE)
EXAMPLES = 60 if DEVICE == "cuda" else 5
MOST_ROWS = 500 if DEVICE == "cuda" else 60
"""Maximum number of rows of a problem: the interpreter is slow."""

SetConstant = Callable[[str, float], None]


@pytest.fixture(autouse=True)
def few_programs(set_constant: SetConstant) -> None:
    """Large blocks for the interpreter, whose time per program does not depend on the size."""
    if DEVICE == "cpu":
        sizes = {"ROWS": 64, "REFERENCES": 64, "PAIRS": 1024, "EXACT_VALUES": 1 << 14, "FULL_GRID": 1}
        for name, value in (sizes | {"WITHIN_ROWS": 64, "WITHIN_COLUMNS": 64}).items():
            set_constant(name, value)


class Losing(LocalWorkers):
    """Shards that are lost between calls."""

    def __init__(self, parts: Any, on: Hardware, share: float) -> None:
        super().__init__(parts, on)
        self.rng, self.share = np.random.default_rng(0), share

    def ask_one(self, shard: int, method: str, *arguments: Any) -> Any:
        if method not in ("open", "configure", "set_delegate") and self.rng.random() < self.share:
            share, self.share = self.share, 0.0
            self.lose(shard)
            self.share = share
        return super().ask_one(shard, method, *arguments)


@dataclass(frozen=True)
class OnDevices(Engine[Any]):
    """The driver and its shards in one process, the shards on a device."""

    name: ClassVar[str] = "on devices"
    solves: ClassVar[tuple[type, ...]] = (Problem, CoverageProblem)
    keeps_quotas: ClassVar[bool] = True
    n_shards: int
    lost: float = 0.0
    most_rows: int = MOST_ROWS

    def refusals(self, problem: Any) -> list[str]:
        return ["it is too large"] if len_of(problem.pool) > self.most_rows else []

    def solve(self, problem: Any) -> Solution:
        rng, n_pool = np.random.default_rng(self.n_shards), len_of(problem.pool)
        edges = sorted([0, n_pool, *rng.integers(0, n_pool + 1, self.n_shards - 1).tolist()])
        workers = Losing(split_problem(problem, edges), MACHINE, self.lost)
        return solve(problem, workers, open_all(workers))[0]


@dataclass(frozen=True)
class Covering(OnDevices):
    """The same for coverage, without quotas."""

    keeps_quotas: ClassVar[bool] = False


@pytest.mark.parametrize("n_shards", [1, 3])
def test_core_sets_are_those_of_the_reference(n_shards: int) -> None:
    check_engine(OnDevices(n_shards), examples=2 * EXAMPLES)


@pytest.mark.parametrize("n_shards", [1, 3])
def test_coverage_is_that_of_the_reference(n_shards: int) -> None:
    check_coverage_engine(Covering(n_shards), examples=EXAMPLES)


@pytest.mark.slow
def test_large_problems_are_solved_in_the_same_way() -> None:
    """Many rounds of coverage."""
    check_engine(OnDevices(2, most_rows=200), examples=EXAMPLES)
    check_coverage_engine(Covering(2, most_rows=200), examples=EXAMPLES)


def test_losing_a_shard_changes_no_pick(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(driver, "FRONT_ROWS", 8)
    check_engine(OnDevices(2, lost=0.3), examples=EXAMPLES)
    check_coverage_engine(Covering(2, lost=0.3), examples=EXAMPLES)


def some(n: int = 300, d: int = 5, budget: int = 30) -> Problem:
    rng = np.random.default_rng(0)
    pool, weights = rng.normal(size=(n, d)).astype(np.float32), rng.random(n)
    largest = float(np.abs(pool).max())
    return Problem(pool, pool[:10], np.arange(10, n), budget, weights=weights, largest=largest)


def picks_of(problem: Any, on: Hardware, n_shards: int = 2) -> list[int]:
    workers = LocalWorkers(split_problem(problem, even_edges(problem, n_shards)), on)
    solution, _ = solve(problem, workers, open_all(workers))
    return [int(row) for row in solution.configurations[0].indices]


@pytest.mark.slow
def test_work_that_runs_out_of_memory_is_done_in_smaller_blocks(monkeypatch: pytest.MonkeyPatch) -> None:
    refresh, sizes, streamed = device.DeviceBounds.refresh, set(), []

    def greedy(self: Any, rows: Any) -> bool:
        sizes.add(self.sizes.front)
        streamed.append(self.points.pool.tensor is None)
        if not streamed[-1]:
            raise torch.OutOfMemoryError("no")
        return bool(refresh(self, rows))

    monkeypatch.setattr(device.DeviceBounds, "refresh", greedy)
    assert picks_of(some(), MACHINE) == picks_of(some(), HOST)
    assert sizes == {4096, 1024, 256, 64}
    assert any(streamed)


def test_a_shard_that_does_not_fit_is_streamed(monkeypatch: pytest.MonkeyPatch) -> None:
    opened, uploads = device.DeviceCandidates._open, []

    def narrow(self: Any, plan: Any) -> None:
        uploads.append(plan.is_resident)
        if plan.is_resident:
            raise torch.OutOfMemoryError("no")
        opened(self, plan)

    monkeypatch.setattr(device.DeviceCandidates, "_open", narrow)
    assert picks_of(some(), MACHINE, 1) == picks_of(some(), HOST)
    assert uploads == [True, False]


def test_a_shard_that_never_fits_in_memory_is_an_error(monkeypatch: pytest.MonkeyPatch) -> None:
    def never(*_: Any) -> None:
        raise torch.OutOfMemoryError("no")

    monkeypatch.setattr(device.DeviceBounds, "refresh", never)
    with pytest.raises(MemoryLimit, match="memory"):
        picks_of(some(), MACHINE)


def covered(n: int = 50, budget: int = 10) -> CoverageProblem:
    rng = np.random.default_rng(3)
    pool, rows = rng.normal(size=(n, 4)).astype(np.float32), np.arange(10, n)
    weights = np.where(np.arange(n) < 10, 0.0, rng.random(n))
    return CoverageProblem(pool, pool[:10], rows, budget, weights, rows, largest=float(np.abs(pool).max()))


@pytest.mark.slow
def test_pairs_that_do_not_fit_are_found_for_fewer_candidates_at_a_time(monkeypatch: pytest.MonkeyPatch) -> None:
    opened, asked = covering.open_lists, []

    def narrow(ground: Any, numbers: Any, guess: int) -> Any:
        asked.append(len(numbers))
        if len(numbers) > 7:
            raise torch.OutOfMemoryError("no") if len(asked) % 2 else covering.TooManyPairs(1 << 40)
        return opened(ground, numbers, guess)

    monkeypatch.setattr(covering, "open_lists", narrow)
    assert picks_of(covered(), MACHINE) == picks_of(covered(), HOST)
    assert max(asked) > 7


def test_coverage_of_a_shard_too_large_for_the_gpu_runs_on_the_cpu(monkeypatch: pytest.MonkeyPatch) -> None:
    def never(*_: Any) -> None:
        raise torch.OutOfMemoryError("CUDA out of memory. Tried.")

    monkeypatch.setattr(covering, "DeviceCoverBounds", never)
    with pytest.raises(MemoryLimit, match=r"coverage of a shard does not fit on a GPU \(CUDA out of memory\)"):
        covering.device_bounds(covered(), np.zeros(1), MACHINE)
    assert picks_of(covered(), MACHINE) == picks_of(covered(), HOST)


def test_problems_with_costs_run_on_the_cpu(monkeypatch: pytest.MonkeyPatch) -> None:
    problem = replace(some(), costs=np.linspace(1.0, 2.0, 300))
    monkeypatch.setattr(device, "DeviceCandidates", None)
    assert picks_of(problem, MACHINE) == picks_of(problem, HOST)
    monkeypatch.setattr(covering, "device_bounds", None)
    monkeypatch.setattr(covering, "nearest", None)
    priced = replace(covered(), costs=np.linspace(1.0, 2.0, 50))
    assert picks_of(priced, MACHINE) == picks_of(priced, HOST)


def test_a_worker_without_a_gpu_uses_the_cpu_unless_a_gpu_is_required(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(shard, "missing", lambda device, d: ["torch sees no NVIDIA GPU"])
    assert usable_hardware(Hardware("cuda"), 4) == HOST
    assert usable_hardware(HOST, 4) == HOST
    with pytest.raises(InvalidArgument, match=r"workers='cuda' cannot be used by a worker: torch sees no NVIDIA GPU"):
        usable_hardware(Hardware("cuda", is_required=True), 4)


@pytest.mark.skipif(DEVICE == "cpu", reason="there is no NVIDIA GPU")
def test_a_worker_stays_within_its_part_of_gpu_memory() -> None:
    _, total = torch.cuda.mem_get_info()
    try:
        assert device.worker_memory(Hardware("cuda", memory_fraction=0.01), None) <= 0.01 * total
        with pytest.raises(torch.OutOfMemoryError):
            torch.empty(int(0.02 * total), dtype=torch.uint8, device="cuda")
        problem = some(40_000, 64, 200)
        assert picks_of(problem, Hardware("cuda", memory_fraction=0.01)) == picks_of(problem, HOST)
    finally:
        torch.cuda.set_per_process_memory_fraction(1.0)
