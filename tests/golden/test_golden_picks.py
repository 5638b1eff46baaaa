"""What dubito 0.1 picked, every engine of today picks: problems, answers and a pool's file as 0.1 wrote them."""

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import pytest

import dubito
from dubito.core.problem import Problem
from dubito.engines.base import Engine
from dubito.engines.cpu.engine import CpuEngine
from dubito.engines.cuda.engine import CudaEngine
from dubito.engines.reference_engine import ReferenceEngine

FOLDER = Path(__file__).parent
N_PROBLEMS = 49
N_DIGITS = 9
Arrays = dict[str, npt.NDArray[Any]]


@pytest.fixture(scope="module")
def picks() -> Arrays:
    with np.load(FOLDER / "picks.npz", allow_pickle=False) as archive:
        return dict(archive)


def problem_of(picks: Arrays, number: int) -> Problem:
    facts: dict[str, Any] = json.loads(str(picks[f"{number}.facts"]))
    arrays: dict[str, Any] = {name: picks.get(f"{number}.{name}") for name in ("doubt", "weights", "scores")}
    pool, references, candidates = (picks[f"{number}.{name}"] for name in ("pool", "references", "candidates"))
    return Problem(pool, references, candidates, **arrays, **facts)


def assert_as_written(engine: Engine[Problem], picks: Arrays, number: int) -> None:
    found = engine.solve(problem_of(picks, number)).configurations
    assert np.stack([each.indices for each in found]).tolist() == picks[f"{number}.indices"].tolist()
    assert np.stack([each.priorities for each in found]).tobytes() == picks[f"{number}.priorities"].tobytes()
    assert [each.radius for each in found] == picks[f"{number}.radii"].tolist()


@pytest.mark.parametrize("number", range(N_PROBLEMS))
@pytest.mark.parametrize("engine", [CpuEngine(), ReferenceEngine()], ids=lambda engine: engine.name)
def test_picks_are_those_of_the_first_version(engine: Engine[Problem], number: int, picks: Arrays) -> None:
    assert_as_written(engine, picks, number)


@pytest.mark.parametrize("number", [7, 15, 21, pytest.param(9, marks=pytest.mark.slow)])
def test_picks_on_a_gpu_are_those_of_the_first_version(
    number: int, picks: Arrays, set_constant: Callable[[str, float], None]
) -> None:
    torch = pytest.importorskip("torch")
    pytest.importorskip("triton")
    if not torch.cuda.is_available():
        # The interpreter takes its time for each program, whatever its size.
        for name, value in {"ROWS": 64, "REFERENCES": 64, "EXACT_VALUES": 1 << 14, "FULL_GRID": 1}.items():
            set_constant(name, value)
    assert_as_written(CudaEngine(device="cuda" if torch.cuda.is_available() else "cpu"), picks, number)


def test_every_problem_is_looked_at(picks: Arrays) -> None:
    assert len({name.partition(".")[0] for name in picks}) == N_PROBLEMS
    facts = [json.loads(str(picks[f"{number}.facts"])) for number in range(N_PROBLEMS)]
    assert {each["metric"] for each in facts} == {"euclidean", "cosine"}
    assert {each["scaling"] for each in facts} == {"respective", "acquired"}
    assert {each["beam_width"] for each in facts} == {1, 2, 3, 4, 5}


@pytest.mark.parametrize("number", range(N_DIGITS))
def test_picks_on_digits_are_those_of_the_first_version(number: int) -> None:
    from sklearn.datasets import load_digits

    records = json.loads((FOLDER / "digits.json").read_text(encoding="utf-8"))
    assert len(records) == N_DIGITS
    features, _ = load_digits(return_X_y=True)
    doubt = (np.arange(len(features)) * 37 % 64 + 1) / 64
    usual = {"strategy": "doubt-coreset", "labeled": np.arange(0, len(features), 90)}
    picked = dubito.select(features, 60, doubt=doubt, **{**usual, **records[number]["options"]})
    assert picked.indices.tolist() == records[number]["indices"]
    assert [priority.hex() for priority in picked.priorities] == records[number]["priorities"]


def pool_features() -> npt.NDArray[np.float64]:
    rows, columns = np.arange(300)[:, None], np.arange(5)
    return np.asarray((rows * (columns + 7) * 13 + rows**2 * (columns + 1)) % 101, dtype=np.float64)


def test_a_pool_that_the_first_version_saved_goes_on_where_it_was() -> None:
    pool = dubito.Pool.load(str(FOLDER / "pool.npz"), pool_features())
    assert len(pool.labeled) == 43
    assert {3, 77, 200} < set(pool.labeled.tolist())
    assert (pool._before.seen[np.setdiff1d(np.arange(300), pool.labeled)] == 43).all()
    doubt = (np.arange(300) * 9 % 32 + 1) / 32
    afresh = dubito.select(pool_features(), 20, labeled=pool.labeled, doubt=doubt, strategy="doubt-coreset")
    picked = pool.select(20, doubt=doubt, strategy="doubt-coreset")
    assert picked.indices.tolist() == afresh.indices.tolist()
    assert picked.priorities.tobytes() == afresh.priorities.tobytes()


def test_a_pool_that_the_first_version_saved_is_refused_with_other_features() -> None:
    with pytest.raises(dubito.InvalidData, match="saved with other features"):
        dubito.Pool.load(str(FOLDER / "pool.npz"), pool_features() + 1.0)
