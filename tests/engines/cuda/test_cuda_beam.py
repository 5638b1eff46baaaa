"""The beam of the cuda engine compared with the reference, on a GPU or interpreted."""

from collections.abc import Callable
from dataclasses import replace
from importlib import import_module
from typing import Any

import numpy as np
import pytest

from dubito.core import reference
from dubito.core.problem import Problem, Solution
from dubito.doubt import beam_scores, scaling_weights
from dubito.engines.cuda.engine import CudaEngine
from dubito.matrix import FloatArray

torch = pytest.importorskip("torch")
pytest.importorskip("triton")
fronts = import_module("dubito.engines.cuda.bounds")
memory = import_module("dubito.engines.cuda.memory")

DEVICE = "cuda" if torch.cuda.is_available() else "cpu"
ENGINE = CudaEngine(device=DEVICE)
SetConstant = Callable[[str, float], None]


@pytest.fixture(autouse=True)
def large_tiles(set_constant: SetConstant) -> None:
    """Large blocks for the interpreter, whose time per program does not depend on the size."""
    if DEVICE == "cpu":
        for name, value in {"ROWS": 64, "REFERENCES": 64, "EXACT_VALUES": 1 << 14, "FULL_GRID": 1}.items():
            set_constant(name, value)


@pytest.fixture(autouse=True)
def use_program(block_program: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    """The program that steps a beam, on the CPU if there is no GPU."""
    monkeypatch.setattr("dubito.engines.cuda.beam.block_program", lambda _: block_program)


@pytest.fixture
def narrow(set_constant: SetConstant, monkeypatch: pytest.MonkeyPatch) -> None:
    """Fronts so small that there are several and that they are enlarged, with loose first bounds."""
    for name, value in {"ROWS_PER_CONFIGURATION": 1, "TOP_FRONTS": 1, "FULL_PAIRS": 0, "ANCHORS": 2}.items():
        set_constant(name, value)
    plan = memory.DevicePlan(memory.DeviceSizes(4, 13, 1 << 20), is_resident=True)
    monkeypatch.setattr("dubito.engines.cuda.solver.plan_memory", lambda *_, **__: plan)


@pytest.fixture
def on_host(monkeypatch: pytest.MonkeyPatch) -> list[Problem]:
    """Problems whose beam was stepped on the host."""
    lazy, described = import_module("dubito.engines.lazy.algorithm"), list[Problem]()
    solve = lazy.solve

    def tell(problem: Problem, kernels: Any) -> Any:
        described.append(problem)
        return solve(problem, kernels)

    monkeypatch.setattr(lazy, "solve", tell)
    return described


# Whole runs


def make(seed: int, n: int = 16, m: int = 3, width: int = 3, budget: int = 6, points: str = "normal") -> Problem:
    rng = np.random.default_rng(seed)
    drawn: dict[str, Callable[[int], FloatArray]] = {
        "normal": lambda k: rng.standard_normal((k, 2)),
        "grid": lambda k: rng.integers(-2, 3, (k, 2)).astype(np.float64),
        "twins": lambda k: np.random.default_rng(seed).standard_normal((3, 2))[rng.integers(0, 3, k)],
    }
    pool, references = drawn[points](n), drawn[points](m)
    doubt = rng.choice([0.0, 0.25, 0.5, 1.0], n) if points == "grid" else rng.beta(0.5, 2.0, n)
    return Problem(
        pool, references, np.arange(n), budget, doubt, scaling_weights(doubt, 1.0), beam_scores(doubt),
        beam_width=width, largest=float(max(np.abs(pool).max(), np.abs(references).max(initial=0.0))),
    )  # fmt: skip


def assert_same(problem: Problem) -> Solution:
    found, expected = ENGINE.solve(problem), reference.solve(problem)
    assert len(found.configurations) == len(expected)
    for ours, oracle in zip(found.configurations, expected, strict=True):
        assert ours.indices.tolist() == oracle.indices.tolist()
        assert ours.priorities.tobytes() == oracle.priorities.tobytes()
        assert ours.radius == oracle.radius
        assert ours.uncertainty == oracle.uncertainty
    return found


@pytest.mark.slow
@pytest.mark.usefixtures("narrow")
@pytest.mark.parametrize("points", ["normal", "grid", "twins"])
@pytest.mark.parametrize("scaling", ["respective", "acquired"])
def test_beams_in_small_fronts_are_the_references(points: str, scaling: Any, on_host: list[Problem]) -> None:
    assert_same(replace(make(1, points=points), scaling=scaling))
    assert not on_host


@pytest.mark.usefixtures("narrow")
def test_the_whole_pool_is_picked_zeros_last() -> None:
    assert_same(make(2, n=7, width=2, budget=7, points="grid"))


def test_equal_doubts_give_ties_of_every_kind() -> None:
    problem = make(3, n=10, points="grid")
    doubt = np.full(10, 0.5)
    assert_same(replace(problem, doubt=doubt, weights=doubt**2, scores=beam_scores(doubt), budget=4))


@pytest.mark.parametrize("scaling", ["respective", "acquired"])
def test_tiny_features_and_zero_doubt_are_solved(scaling: Any) -> None:
    problem = make(2, n=7, width=2, budget=7, points="grid")
    pool, references = (1e-100 * np.asarray(matrix[:]) for matrix in (problem.pool, problem.references))
    assert_same(replace(problem, pool=pool, references=references, largest=2e-100, scaling=scaling))


def test_a_beam_may_be_wider_than_the_pool() -> None:
    assert_same(make(4, n=3, width=5, budget=2))
    assert_same(make(4, n=1, width=2, budget=1))


@pytest.mark.usefixtures("narrow")
def test_a_cold_start_near_the_mean_is_the_references() -> None:
    assert_same(replace(make(5, m=0, budget=4), weights=None))


def test_candidates_that_differ_by_an_ulp_are_distinguished() -> None:
    rng = np.random.default_rng(0)
    pool = np.array([[3.0, 4.0], [4.0, 3.0], [-3.0, 4.0], [0.0, 5.0]])[np.arange(16) % 4]
    pool += np.spacing(pool) * rng.integers(-3, 4, (16, 1))
    problem = make(6, width=2)
    assert_same(replace(problem, pool=pool, references=np.zeros((1, 2)), weights=None, largest=5.1))


@pytest.mark.parametrize("few", [0, 1000])
def test_a_front_of_many_near_pairs_is_made_smaller_and_larger_again(few: int, set_constant: SetConstant) -> None:
    for name, value in {"MOST_PAIRS": 1, "FEW_PAIRS": few, "BEAM_FRONT": 3, "ROWS_PER_CONFIGURATION": 2}.items():
        set_constant(name, value)
    assert_same(make(13, n=30, width=2, budget=8))


# Beams that are stepped on the host


@pytest.mark.parametrize(("name", "value"), [("WIDEST_BLOCK", 2), ("MOST_OWN", 0)])
def test_a_beam_that_the_block_cannot_step_is_stepped_on_the_host(
    name: str, value: int, set_constant: SetConstant, on_host: list[Problem], narrow: None
) -> None:
    set_constant(name, value)
    problem = make(7)
    assert_same(problem)
    assert on_host == [problem]


def test_a_beam_is_stepped_on_the_host_without_a_compiler_for_the_device(
    monkeypatch: pytest.MonkeyPatch, on_host: list[Problem]
) -> None:
    monkeypatch.setattr("dubito.engines.cuda.beam.block_program", lambda _: None)
    problem = make(7)
    assert_same(problem)
    assert on_host == [problem]


def test_a_front_that_would_become_too_large_is_solved_on_the_host(
    set_constant: SetConstant, on_host: list[Problem], narrow: None
) -> None:
    set_constant("LARGEST_BLOCK_FRONT", 4)
    problem = make(8, n=12, width=2, points="twins", budget=6)
    assert_same(problem)
    assert on_host == [problem]


# Interruption


@pytest.mark.usefixtures("narrow")
def test_ctrl_c_leaves_the_leading_configurations_so_far(set_constant: SetConstant) -> None:
    set_constant("REPORT_SECONDS", -1.0)
    problem = make(9, n=20, width=2, budget=14)

    def interrupt(done: int, total: int, radius: float | None, seconds: float, /) -> None:
        if done:
            raise KeyboardInterrupt

    found = ENGINE.solve(replace(problem, progress=interrupt))
    assert not found.complete
    n_found = len(found.configurations[0].indices)
    assert 0 < n_found < 14
    for ours, oracle in zip(found.configurations, reference.solve(replace(problem, budget=n_found)), strict=True):
        assert ours.indices.tolist() == oracle.indices.tolist()
        assert ours.radius == oracle.radius


def test_ctrl_c_before_the_first_step_gives_no_picks(monkeypatch: pytest.MonkeyPatch) -> None:
    find, sizes = fronts.Fronts.find, list[int]()

    def find_or_stop(self: Any, size: int) -> Any:
        sizes.append(size)
        if len(sizes) == 1:
            raise KeyboardInterrupt
        return find(self, size)

    monkeypatch.setattr(fronts.Fronts, "find", find_or_stop)
    problem = make(10)
    found = ENGINE.solve(problem)
    assert not found.complete
    assert [len(each.indices) for each in found.configurations] == [0]
    assert found.configurations[0].radius == reference.solve(replace(problem, beam_width=1))[0].priorities[0]
