"""The cpu engine gives the picks of the reference, whatever the block sizes."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np
import pytest
from sklearn.datasets import load_digits

import dubito
from dubito import native as compiled
from dubito.core import reference
from dubito.core.distances import exact_sq_distances
from dubito.core.problem import Configuration, Problem, Scaling, Solution
from dubito.doubt import beam_scores, scaling_weights
from dubito.engines.cpu.engine import CpuEngine, choose_method, small_can_solve, small_is_faster
from dubito.matrix import AnyArray, FloatArray, Matrix, Stack
from dubito.testing import check_engine
from levels import examples

SMALL, LAZY = CpuEngine("small"), CpuEngine("lazy")
BOTH = pytest.mark.parametrize("engine", [LAZY, SMALL], ids=["lazy", "small"])

SetConstant = Callable[[str, float], None]


def assert_same(found: Solution, problem: Problem) -> None:
    assert_as(found, reference.solve(problem))


def assert_as(found: Solution, expected: Sequence[Configuration]) -> None:
    assert len(found.configurations) == len(expected)
    for ours, oracle in zip(found.configurations, expected, strict=True):
        assert ours.indices.tolist() == oracle.indices.tolist()
        assert ours.priorities.tobytes() == oracle.priorities.tobytes()
        assert ours.radius == oracle.radius


@BOTH
def test_the_engine_meets_the_contract(engine: CpuEngine) -> None:
    check_engine(engine, examples=max(25, examples(150)))


def test_the_engine_meets_the_contract_without_compiled_steps(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(compiled, "steps", None)
    check_engine(LAZY, examples=max(12, examples(80)))


def test_the_small_method_is_faster_for_small_problems_only() -> None:
    pool = np.zeros((100_000, 64), dtype=np.float32)
    small = Problem(pool, pool[:100], np.arange(2000), 20)
    assert small_is_faster(small)
    assert not small_is_faster(replace(small, candidates=np.arange(100_000), references=pool[:5000], budget=1000))
    assert small_can_solve(small) == (compiled.steps is not None)
    assert not small_can_solve(replace(small, memory_limit=1 << 30))
    assert not small_can_solve(replace(small, beam_width=2))


@BOTH
def test_ctrl_c_is_never_ignored(engine: CpuEngine) -> None:
    """All points have the same distance, so every pair has to be computed exactly."""
    described = list[int]()

    def interrupt(done: int, total: int, radius: float | None, seconds: float, /) -> None:
        described.append(done)
        raise KeyboardInterrupt

    problem = Problem(np.eye(450), np.zeros((0, 450)), np.arange(450), 50, progress=interrupt)
    solution = engine.solve(problem)
    assert len(described) == 1
    assert not solution.complete


def test_small_problems_are_solved_in_c_if_it_is_available(monkeypatch: pytest.MonkeyPatch) -> None:
    pool = np.zeros((1000, 8))
    small = Problem(pool, pool[:5], np.arange(100), 5)
    assert choose_method(small) == ("lazy" if compiled.steps is None else "small")
    assert choose_method(replace(small, beam_width=2)) == "lazy"
    monkeypatch.setattr(compiled, "steps", None)
    assert choose_method(small) == "lazy"


@pytest.mark.parametrize("features", [np.int16, np.uint8, ">f8", bool], ids=str)
def test_small_problems_of_other_number_types(features: object) -> None:
    pool = np.random.default_rng(3).integers(0, 2, (80, 5)).astype(features)  # type: ignore[call-overload]
    for metric in ("euclidean", "cosine"):
        rows = pool[pool.any(axis=1)]
        problem = Problem(
            rows, rows[:4], np.arange(4, len(rows)), 20, metric=metric, weights=np.linspace(0, 1, len(rows))
        )
        assert_same(SMALL.solve(problem), problem)


@BOTH
def test_equal_priorities_and_tiny_weights(engine: CpuEngine) -> None:
    rng = np.random.default_rng(0)
    pool = rng.standard_normal((200, 3))
    level = Problem(np.tile(np.eye(3), (1500, 1)), np.zeros((1, 3)), np.arange(4500), 30)
    assert_same(engine.solve(level), level)
    light = Problem(pool, pool[:1], np.arange(200), 30, weights=rng.uniform(1.0, 2.0, 200) * 1e-300)
    assert_same(engine.solve(light), light)


@dataclass(frozen=True)
class ForSmall(CpuEngine):
    """Solves small problems only: large ones would take long in the smallest blocks."""

    most_rows: int = 200

    def refusals(self, problem: Problem) -> list[str]:
        return ["it is too large"] if problem.pool.shape[0] > self.most_rows else super().refusals(problem)


CUTS: dict[str, tuple[dict[str, float], dict[str, float]]] = {
    "one at a time": (
        {"FIRST_FRONT": 1, "REFRESH_ROWS": 1, "REFERENCE_ROWS": 1},
        {"ANCHORS": 1, "CHOICE": 2, "CELLS": 2, "CELL_ROWS": 1, "CLOSER": 100},
    ),
    "a few at a time": (
        {"FIRST_FRONT": 7, "REFRESH_ROWS": 5, "REFERENCE_ROWS": 3, "LEAST_LOOK": 0, "WASTED_PAIRS": 0},
        {"ANCHORS": 3, "CHOICE": 6, "CELLS": 3, "CELL_ROWS": 2, "CLOSER": 0},
    ),
    "many in front of few": (
        {"FIRST_FRONT": 512, "REFRESH_ROWS": 3, "REFERENCE_ROWS": 3},
        {"ANCHORS": 3, "CHOICE": 6, "CELLS": 1, "CELL_ROWS": 512},
    ),
    "everything looked at, nothing ahead": (
        {"FIRST_FRONT": 8},
        {"LEAST_LOOK": 9999, "AHEAD": 0.0, "LEAST_AHEAD": 0},
    ),
    "nothing to spare": ({"FIRST_FRONT": 8}, {"SPARE": 0.0, "LEAST_AHEAD": 0, "WASTED_PAIRS": 0}),
    "no memory": ({}, {"WORKING_BYTES": 0}),
    "little memory": ({"FIRST_FRONT": 2}, {"WORKING_BYTES": 20_000}),
}
"""Block sizes, and constants that control how much is refreshed."""


@pytest.mark.parametrize("cut", CUTS)
def test_the_picks_do_not_depend_on_block_sizes(cut: str, set_constant: SetConstant) -> None:
    sizes, looks = CUTS[cut]
    for name, value in (sizes | looks).items():
        set_constant(name, value)
    check_engine(ForSmall("lazy", 100 if cut == "one at a time" else 200), examples=examples(80))


@pytest.mark.parametrize("threads", [1, 2])
def test_the_picks_do_not_depend_on_the_number_of_threads(threads: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("DUBITO_THREADS", str(threads))
    check_engine(LAZY, examples=examples(40))


# Near-ties, built on purpose


def ring(n: int, ulps: FloatArray) -> FloatArray:
    """Points at distance 5 from the origin, up to some last digits."""
    corners = np.array([[3.0, 4.0], [4.0, 3.0], [-3.0, 4.0], [4.0, -3.0], [0.0, 5.0], [-5.0, 0.0]])
    points: FloatArray = corners[np.arange(n) % len(corners)]
    points += np.spacing(points) * ulps[:, None]
    return points


@BOTH
@pytest.mark.parametrize("seed", range(10))
@pytest.mark.parametrize("scaling", ["respective", "acquired"])
def test_distances_that_differ_by_an_ulp_are_distinguished(seed: int, scaling: Scaling, engine: CpuEngine) -> None:
    rng = np.random.default_rng(seed)
    pool = ring(60, rng.integers(-3, 4, 60).astype(np.float64))
    assert len(np.unique(pool.astype(np.float32), axis=0)) <= 6
    doubt = np.full(60, 0.5)
    for weights in (None, scaling_weights(doubt, 1.0)):
        problem = Problem(pool, np.zeros((1, 2)), np.arange(60), 40, doubt, weights, scaling=scaling, largest=5.1)
        assert_same(engine.solve(problem), problem)


@BOTH
@pytest.mark.parametrize("seed", range(5))
def test_the_nearest_of_references_that_differ_by_an_ulp_is_found(seed: int, engine: CpuEngine) -> None:
    rng = np.random.default_rng(seed)
    references = ring(40, rng.integers(-3, 4, 40).astype(np.float64)) + 1000.0
    pool = np.full((30, 2), 1000.0) + rng.integers(-2, 3, (30, 2)) * 1e-12
    problem = Problem(pool, references, np.arange(30), 20, largest=1006.0)
    assert_same(engine.solve(problem), problem)


def test_an_exact_tie_goes_to_the_lowest_index_across_fronts(set_constant: SetConstant) -> None:
    set_constant("FIRST_FRONT", 3)
    corners = np.tile([[1.0, 0.0], [0.0, 1.0], [-1.0, 0.0], [0.0, -1.0]], (4, 1))
    pool = np.concatenate([np.zeros((4, 2)), corners])
    problem = Problem(pool, np.zeros((1, 2)), np.arange(20), 20)
    found = LAZY.solve(problem)
    assert found.configurations[0].indices.tolist() == [4, 5, 6, 7, *range(4), *range(8, 20)]
    assert_same(found, problem)


# The same numbers, stored in other ways


@BOTH
@pytest.mark.parametrize("width", [1, 3])
def test_storage_does_not_matter(width: int, tmp_path: Path, engine: CpuEngine) -> None:
    rng = np.random.default_rng(8)
    pool, references = rng.integers(-50, 50, (200, 6)), rng.integers(-50, 50, (9, 6)).astype(np.float64)
    doubt = rng.choice([0.0, 0.25, 0.5, 1.0], 200)
    np.save(tmp_path / "pool.npy", pool.astype(np.float16))
    kept: list[Matrix] = [
        pool.astype(np.float64),
        pool.astype(np.float32),
        np.asfortranarray(pool.astype(np.float16)),
        np.load(tmp_path / "pool.npy", mmap_mode="r"),
        Stack([pool[:77].astype(np.float16), pool[77:].astype(np.float64)]),
        pool.astype(np.int8),
    ]
    scores = beam_scores(doubt) if width > 1 else None
    weights = scaling_weights(doubt, 1.0)
    first = Problem(kept[0], references, np.arange(200), 60, doubt, weights, scores, beam_width=width, largest=50.0)
    expected = reference.solve(first)
    for matrix in kept:
        assert_as(engine.solve(replace(first, pool=matrix)), expected)


@pytest.mark.parametrize("scaling", ["respective", "acquired"])
@pytest.mark.parametrize(("strength", "budget"), [(0.0, 450), (0.5, 50), (1.0, 450)])
def test_real_digits_are_picked_as_the_reference_picks_them(scaling: Scaling, strength: float, budget: int) -> None:
    digits: AnyArray = load_digits().data
    pool, references = digits[300:800].astype(np.float32), digits[:300]
    doubt = np.random.default_rng(0).beta(0.3, 2.0, len(pool))
    weights = None if strength == 0 else scaling_weights(doubt, strength)
    problem = Problem(pool, references, np.arange(500), budget, doubt, weights, scaling=scaling, largest=16.0)
    expected = reference.solve(problem)
    for engine in (LAZY, SMALL):
        assert_as(engine.solve(problem), expected)


@BOTH
def test_a_pool_of_zeros_is_solved(engine: CpuEngine) -> None:
    problem = Problem(np.zeros((5, 2)), np.zeros((1, 2)), np.arange(5), 3, largest=0.0)
    found = engine.solve(problem)
    assert found.configurations[0].indices.tolist() == [0, 1, 2]
    assert found.configurations[0].priorities.tolist() == [0.0, 0.0, 0.0]


@pytest.mark.parametrize("width", [1, 2, 5, 10**12])
def test_a_beam_may_be_wider_than_the_pool(width: int) -> None:
    doubt = np.array([0.5, 0.25])
    scores = beam_scores(doubt) if width > 1 else None
    for budget in (1, 2):
        problem = Problem(
            np.array([[0.0], [1.0]]), np.array([[5.0]]), np.arange(2), budget, doubt, doubt, scores, beam_width=width
        )
        assert_same(LAZY.solve(problem), problem)


# Numbers of very different sizes


@pytest.mark.parametrize("factor", [1e6, 1e30])
@pytest.mark.parametrize("width", [1, 4])
def test_an_outlier_changes_neither_the_picks_nor_their_cost_much(
    factor: float, width: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    counts: list[int] = []

    def counting(points: FloatArray, others: FloatArray) -> FloatArray:
        counts[-1] += len(points)
        return exact_sq_distances(points, others)

    for module in ("cpu.kernels", "lazy.front"):
        monkeypatch.setattr(f"dubito.engines.{module}.exact_sq_distances", counting)
    rng = np.random.default_rng(0)
    pool, doubt = rng.standard_normal((600, 40)), rng.random(600)
    pool[3] *= factor
    budget = 300 if width == 1 else 30

    def picked_by(engine: str) -> list[int]:
        counts.append(0)
        picked = dubito.select(pool, budget, doubt=doubt, beam_width=width, engine=engine, strategy="doubt-coreset")
        return list(picked.indices)

    in_c = picked_by("cpu")
    monkeypatch.setattr(compiled, "steps", None)
    ours = picked_by("cpu")
    assert ours == in_c == picked_by("reference")
    assert counts[1] > 0, "what is picked is settled"
    assert max(counts) < 7 * len(pool) * budget * width, "the reference settles each row for each pick"


@pytest.mark.parametrize("seed", range(367, 387))
def test_doubts_whose_squares_lose_digits_give_exact_priorities(seed: int) -> None:
    rng = np.random.default_rng(seed)
    pool, doubt = rng.standard_normal((300, 2)), 10.0 ** rng.uniform(-162, -160, 300)
    ours = dubito.select(pool, 150, labeled=[0], doubt=doubt, strategy="doubt-coreset")
    oracle = dubito.select(pool, 150, labeled=[0], doubt=doubt, engine="reference", strategy="doubt-coreset")
    assert ours.indices.tolist() == oracle.indices.tolist()
    assert ours.priorities.tobytes() == oracle.priorities.tobytes()
