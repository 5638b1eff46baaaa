"""Groups of rows on the cuda engine equal the reference, on a GPU or interpreted."""

from collections.abc import Callable
from dataclasses import replace
from typing import Any

import numpy as np
import pytest

import dubito
from dubito.core.coverage_reference import CoverageProblem, sample_rows
from dubito.core.problem import Problem
from dubito.engines.base import Engine
from dubito.engines.cuda.engine import CudaCoverage, CudaEngine
from dubito.errors import InvalidArgument
from dubito.matrix import IntArray, OnDevice
from dubito.testing import check_groups, make_group_problem
from dubito.testing.contract import difference_between
from dubito.testing.groups import solve_reference

torch = pytest.importorskip("torch")
pytest.importorskip("triton")
planning = pytest.importorskip("dubito.engines.cuda.coverage.planning")

DEVICE = "cuda" if torch.cuda.is_available() else "cpu"
ENGINES: dict[str, Engine[Any]] = {"core-set": CudaEngine(device=DEVICE), "coverage": CudaCoverage(device=DEVICE)}


@pytest.fixture(autouse=True)
def few_programs(set_constant: Callable[[str, float], None]) -> None:
    """Large blocks for the interpreter, whose time per program does not depend on the size."""
    if DEVICE == "cpu":
        sizes = {"ROWS": 64, "REFERENCES": 64, "EXACT_VALUES": 1 << 14, "FULL_GRID": 1, "WITHIN_ROWS": 64}
        for name, value in (sizes | {"WITHIN_COLUMNS": 64}).items():
            set_constant(name, value)


def assert_same(problem: Problem | CoverageProblem) -> None:
    (found,) = ENGINES[problem.kind].solve(problem).configurations
    assert not difference_between([solve_reference(problem)], [found])


@pytest.mark.parametrize("kind", ENGINES)
def test_engines_pick_the_groups_of_the_reference(kind: str) -> None:
    if DEVICE == "cuda":
        check_groups(ENGINES[kind], examples=500)
        return
    made = (make_group_problem(seed, covers=kind == "coverage") for seed in range(60))
    small = [each for each in made if each.pool.shape[0] <= 30 and not ENGINES[kind].refusals(each)]
    for problem in small[:6]:
        assert_same(problem)


def made_of(numbers: IntArray, kind: str) -> Problem | CoverageProblem:
    rng, rows, n_groups = np.random.default_rng(3), np.arange(len(numbers)), int(numbers.max()) + 1
    pool = rng.standard_normal((len(numbers), 3))
    references, weights = pool[:2] + 2.0, rng.choice([0.25, 0.5, 1.0], len(numbers))
    if kind == "coverage":
        sample = sample_rows(rows)
        return CoverageProblem(pool, references, rows, n_groups, weights, sample, largest=9.0, groups=numbers)
    return Problem(pool, references, rows, n_groups, weights=weights, largest=9.0, groups=numbers)


@pytest.mark.slow
@pytest.mark.parametrize(
    "numbers",
    [np.zeros(24, np.int64), np.arange(24) // 7, pytest.param(np.arange(24), marks=pytest.mark.slow)],
    ids=["one", "few", "all"],
)
def test_groups_do_not_depend_on_the_memory_for_pairs(numbers: IntArray, monkeypatch: pytest.MonkeyPatch) -> None:
    problem = made_of(numbers, "coverage")
    plan = planning.plan_for(problem, DEVICE)
    monkeypatch.setattr("dubito.engines.cuda.coverage.solver.plan_for", lambda *_: replace(plan, n_pairs=90))
    assert_same(problem)


@pytest.mark.parametrize("kind", ENGINES)
def test_features_on_the_device_stay_there(kind: str, monkeypatch: pytest.MonkeyPatch) -> None:
    problem = made_of(np.arange(24) // 5, kind)
    expected, pool = solve_reference(problem), OnDevice(torch.tensor(problem.pool[:], device=DEVICE))
    monkeypatch.setattr(OnDevice, "__getitem__", None)
    (found,) = ENGINES[kind].solve(replace(problem, pool=pool)).configurations
    assert not difference_between([expected], [found])


@pytest.mark.parametrize("kind", ENGINES)
def test_ctrl_c_leaves_the_first_groups(kind: str) -> None:
    def interrupt(done: int, total: int, radius: float | None, seconds: float, /) -> None:
        raise KeyboardInterrupt

    problem = made_of(np.arange(24) // 2, kind)
    found = ENGINES[kind].solve(replace(problem, progress=interrupt))
    (ours,), oracle = found.configurations, solve_reference(problem)
    assert not found.complete
    assert ours.groups is not None
    assert oracle.groups is not None
    assert ours.groups.tolist() == oracle.groups[: len(ours.groups)].tolist()
    assert ours.indices.tolist() == oracle.indices[: len(ours.indices)].tolist()


def test_costs_and_quotas_of_groups_are_refused() -> None:
    problem = made_of(np.arange(24) // 5, "coverage")
    (reason,) = ENGINES["coverage"].refusals(replace(problem, costs=np.ones(24)))
    assert "does not support costs" in reason
    with pytest.raises(InvalidArgument, match="does not support quotas of groups"):
        dubito.select(problem.pool[:], 1, groups=[0, 1] * 12, classes=[0, 1] * 12, quotas=1, engine="cuda")
