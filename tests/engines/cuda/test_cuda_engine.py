"""The cuda engine returns the reference's picks; without a GPU, Triton's interpreter runs the kernels."""

from collections.abc import Callable, Iterable
from dataclasses import dataclass, replace
from itertools import pairwise
from typing import Any

import numpy as np
import pytest

from dubito.core import reference
from dubito.core.problem import Metric, Problem, Scaling, Solution
from dubito.doubt import beam_scores, scaling_weights
from dubito.engines.cuda.engine import CudaEngine
from dubito.matrix import AnyArray, FloatArray, Matrix, OnDevice, Rows, Stack

torch = pytest.importorskip("torch")
pytest.importorskip("triton")
cudamemory = pytest.importorskip("dubito.engines.cuda.memory")
places = pytest.importorskip("dubito.engines.cuda.points")

DEVICE = "cuda" if torch.cuda.is_available() else "cpu"
ENGINE = CudaEngine(device=DEVICE)

SetConstant = Callable[[str, float], None]
Cut = Callable[..., None]


@pytest.fixture
def cut(set_constant: SetConstant, monkeypatch: pytest.MonkeyPatch) -> Cut:
    """Sets block sizes; the interpreter needs about the same time for each program, whatever its size."""
    if DEVICE == "cpu":
        for name, value in {"ROWS": 64, "REFERENCES": 64, "PAIRS": 1024, "EXACT_VALUES": 1 << 14}.items():
            set_constant(name, value)
        set_constant("FULL_GRID", 1)

    def change(front: int = 4096, rows: int = 1 << 16, pairs: int = 1 << 28, resident: bool = True) -> None:
        plan = cudamemory.DevicePlan(cudamemory.DeviceSizes(front, rows, pairs), resident)
        monkeypatch.setattr("dubito.engines.cuda.solver.plan_memory", lambda *_, **__: plan)

    return change


PIECES = {"TOP_FRONTS": 1, "FULL_PAIRS": 0, "ANCHORS": 2, "SOME": 3, "RADIUS_FRONT": 4, "WIDE": 1}


@pytest.fixture
def pieces(cut: Cut, set_constant: SetConstant) -> None:
    """Small blocks and loose first bounds, so that all code paths run."""
    cut(front=10, rows=13, pairs=60, resident=False)
    for name, value in PIECES.items():
        set_constant(name, value)
    if DEVICE == "cpu":
        set_constant("ROWS", 16)
        set_constant("REFERENCES", 16)


def assert_same(problem: Problem, engine: CudaEngine = ENGINE) -> Solution:
    """The picks equal the reference bit for bit, and the inputs are unchanged."""
    expected, before = reference.solve(problem), contents(problem)
    found = engine.solve(problem)
    assert contents(problem) == before
    assert found.complete
    assert len(found.configurations) == len(expected)
    for ours, oracle in zip(found.configurations, expected, strict=True):
        assert ours.indices.tolist() == oracle.indices.tolist()
        assert ours.indices.dtype == np.int64
        assert ours.priorities.tobytes() == oracle.priorities.tobytes()
        assert ours.radius == oracle.radius
    return found


def contents(problem: Problem) -> list[bytes]:
    return [np.asarray(matrix[:]).tobytes() for matrix in (problem.pool, problem.references)]


def largest_of(*matrices: Matrix) -> float:
    return max(float(np.abs(np.asarray(matrix[:], dtype=np.float64)).max(initial=0.0)) for matrix in matrices)


@dataclass(frozen=True, slots=True)
class Case:
    """The description of a small problem."""

    n: int = 18
    m: int = 4
    d: int = 3
    budget: int = 7
    points: str = "normal"
    scaling: Scaling | None = "respective"
    metric: Metric = "euclidean"
    width: int = 1
    dtype: str = "float64"
    scale: float = 1.0
    offset: float = 0.0
    share: float = 1.0
    """Of the pool that may be picked."""

    def make(self, seed: int) -> Problem:
        rng = np.random.default_rng(seed)
        pool, references = self.draw(rng, self.n), self.draw(rng, self.m)
        doubt = rng.choice([0.0, 0.25, 0.5, 0.75, 1.0], self.n) if self.points == "grid" else rng.beta(0.5, 2.0, self.n)
        candidates = np.flatnonzero(rng.random(self.n) < self.share)
        return Problem(
            pool,
            references,
            candidates,
            min(self.budget, len(candidates)),
            None if self.scaling is None and self.width == 1 else doubt,
            None if self.scaling is None else scaling_weights(doubt, 1.0),
            beam_scores(doubt) if self.width > 1 else None,
            scaling=self.scaling or "respective",
            beam_width=self.width,
            metric=self.metric,
            largest=1.0 if self.metric == "cosine" else largest_of(pool, references),
        )

    def draw(self, rng: np.random.Generator, n: int) -> AnyArray:
        if self.points == "grid":
            points: FloatArray = rng.integers(-2, 3, (n, self.d)).astype(np.float64)
        elif self.points == "twins":
            points = rng.standard_normal((4, self.d))[rng.integers(0, 4, n)]
        else:
            points = rng.standard_normal((n, self.d))
        return np.asarray(points * self.scale + self.offset).astype(self.dtype)


CASES = {
    "scaled by the point's own doubt": Case(),
    "scaled by the pick's doubt": Case(scaling="acquired"),
    "unscaled": Case(scaling=None),
    "the whole pool": Case(budget=18, points="grid"),
    "cold, by doubt": Case(m=0),
    "cold, by the pick's doubt": Case(m=0, scaling="acquired", points="grid"),
    "cold, from the mean": Case(m=0, scaling=None, d=1),
    "cold, from the mean of directions": Case(m=0, scaling=None, metric="cosine"),
    "directions": Case(metric="cosine", scale=1e-150),
    "some candidates": Case(share=0.6),
    "some candidates, cold, from the mean": Case(share=0.6, scaling=None, m=0),
    "ties": Case(points="grid", scaling=None, d=2),
    "ties, by the pick's doubt": Case(points="grid", scaling="acquired", d=2),
    "twins": Case(points="twins", budget=15),
    "float16": Case(dtype="float16"),
    "float16, by the pick's doubt": Case(dtype="float16", scaling="acquired"),
    "float32": Case(dtype="float32"),
    "float32, more of everything": Case(dtype="float32", n=30, m=20, d=8, budget=20),
    "whole numbers": Case(dtype="int8", scale=30.0),
    "big-endian": Case(dtype=">f4"),
    "far from the origin": Case(dtype="float32", offset=1000.0),
    "far from the origin, by the pick's doubt": Case(offset=1e9, scaling="acquired"),
    "tiny": Case(scale=1e-20),
    "below the square root of the smallest float": Case(scale=1e-160, scaling=None),
    "large": Case(scale=1e20, scaling="acquired"),
    "huge": Case(scale=1e60, scaling=None),
}

BEAMS = {
    "two": Case(width=2, budget=5),
    "three, by the pick's doubt": Case(width=3, budget=5, scaling="acquired"),
    "four, unscaled, with ties": Case(width=4, budget=4, scaling=None, points="grid"),
    "five, some candidates, float16": Case(width=5, budget=4, share=0.6, dtype="float16"),
    "two, cold": Case(width=2, budget=5, m=0, dtype="float32", offset=100.0),
    "three, cold, by the pick's doubt, with ties": Case(width=3, budget=5, m=0, scaling="acquired", points="grid"),
}


def in_turn(names: Iterable[str], first: int) -> list[Any]:
    """Every other case; the others only in the full level, since the interpreter is slow."""
    is_slow = [DEVICE == "cpu" and place % 2 != first for place, _ in enumerate(names)]
    return [pytest.param(name, marks=[pytest.mark.slow] * slow) for name, slow in zip(names, is_slow, strict=True)]


@pytest.mark.parametrize("name", in_turn(CASES, 0))
def test_greedy_picks_are_the_references(name: str, cut: Cut) -> None:
    cut()
    assert_same(CASES[name].make(1))


@pytest.mark.usefixtures("pieces")
@pytest.mark.parametrize("name", in_turn(CASES, 1))
def test_greedy_picks_do_not_depend_on_block_sizes(name: str) -> None:
    assert_same(CASES[name].make(2))


@pytest.mark.parametrize("name", in_turn(BEAMS, 0))
def test_beams_are_the_references(name: str, cut: Cut) -> None:
    cut()
    assert_same(BEAMS[name].make(3))


@pytest.mark.usefixtures("pieces")
@pytest.mark.parametrize("name", in_turn(BEAMS, 1))
def test_beams_do_not_depend_on_block_sizes(name: str) -> None:
    assert_same(BEAMS[name].make(4))


LARGE = {
    "copied": Case(n=70, m=40, budget=9, dtype="float16"),
    "in clusters": Case(n=70, m=40, budget=12, dtype="float32", points="twins"),
    "some candidates": Case(n=90, m=30, budget=9, dtype="float32", share=0.7),
    "by the pick's doubt": Case(n=70, m=40, budget=9, dtype="float32", scaling="acquired"),
    "with ties": Case(n=70, m=9, budget=20, dtype="float16", points="grid"),
    "a beam": Case(n=70, m=20, budget=3, dtype="float16", width=2),
}


@pytest.mark.slow
@pytest.mark.usefixtures("pieces")
@pytest.mark.parametrize("is_resident", [False, True])
@pytest.mark.parametrize(
    "name", [pytest.param(name, marks=[] if name == "some candidates" else pytest.mark.slow) for name in LARGE]
)
def test_pools_much_larger_than_a_front_give_the_same_picks(
    name: str, is_resident: bool, cut: Cut, set_constant: SetConstant
) -> None:
    cut(front=3, rows=13, pairs=60, resident=is_resident)
    for constant, value in {"SOME": 10, "STAGED_PAIRS": 100, "LEVEL_ROWS": 30, "LENGTH_ROWS": 50}.items():
        set_constant(constant, value)
    assert_same(LARGE[name].make(6))


@pytest.mark.parametrize(("front", "top"), [(4, 2), (20, 1)])
def test_the_picks_do_not_depend_on_the_size_of_fronts(
    front: int, top: int, cut: Cut, set_constant: SetConstant
) -> None:
    cut(front=front)
    set_constant("TOP_FRONTS", top)
    assert_same(Case(n=30, budget=6, d=2, points="grid").make(5))


def test_distances_that_differ_by_an_ulp_are_distinguished(cut: Cut) -> None:
    cut()
    rng = np.random.default_rng(0)
    corners = np.array([[3.0, 4.0], [4.0, 3.0], [-3.0, 4.0], [4.0, -3.0], [0.0, 5.0], [-5.0, 0.0]])
    pool = corners[np.arange(36) % 6]
    pool += np.spacing(pool) * rng.integers(-3, 4, (36, 1))
    assert_same(Problem(pool, np.zeros((1, 2)), np.arange(36), 20, largest=5.1))


def test_an_outlier_does_not_hide_other_distances(cut: Cut) -> None:
    cut()
    pool = np.random.default_rng(0).standard_normal((24, 4))
    pool[3] *= 1e30
    assert_same(Problem(pool, pool[:2] + 0.5, np.arange(24), 12, largest=largest_of(pool)))


def test_doubts_whose_squares_lose_digits_give_exact_priorities(cut: Cut) -> None:
    cut()
    rng = np.random.default_rng(367)
    pool, doubt = rng.standard_normal((30, 2)), 10.0 ** rng.uniform(-162, -160, 30)
    for scaling in ("respective", "acquired"):
        problem = Problem(pool, pool[:1] + 1.0, np.arange(30), 15, doubt, doubt**2, largest=4.0)
        assert_same(replace(problem, scaling="acquired" if scaling == "acquired" else "respective"))


def test_a_pool_of_zeros_is_solved(cut: Cut) -> None:
    cut()
    problem = Problem(np.zeros((5, 2)), np.zeros((1, 2)), np.arange(5), 3, largest=0.0)
    assert assert_same(problem).configurations[0].indices.tolist() == [0, 1, 2]


def test_the_radius_is_zero_after_the_last_candidate(cut: Cut) -> None:
    cut()
    problem = Problem(np.array([[2.0], [1.0]]), np.array([[0.0]]), np.arange(2), 2, largest=2.0)
    assert assert_same(problem).configurations[0].radius == 0.0


# The same numbers, stored in other ways


def test_storage_does_not_matter(cut: Cut) -> None:
    pool = np.random.default_rng(8).integers(-9, 10, (16, 3)).astype(np.float32)
    fixed = pool.copy()
    fixed.flags.writeable = False
    kept: list[Matrix] = [
        fixed,
        np.asfortranarray(pool),
        Stack([pool[:7].astype(np.float16), pool[7:].astype(np.float64)]),
        Rows(pool[::-1], np.arange(16)[::-1]),
    ]
    references = Rows(pool, np.array([3, 4]))
    for number, matrix in enumerate(kept):
        cut(rows=11, resident=number % 2 == 1)
        assert_same(Problem(matrix, references, np.arange(16), 4, largest=9.0))


# The interpreter reads the bits of a bfloat16 as an integer.
@pytest.mark.parametrize("dtype", ["float16", "float32", "float64", *(["bfloat16"] if DEVICE == "cuda" else [])])
def test_tensors_are_not_copied(dtype: str, cut: Cut, monkeypatch: pytest.MonkeyPatch) -> None:
    cut()
    pool = OnDevice(torch.randn(24, 3, generator=torch.manual_seed(0)).to(getattr(torch, dtype)).to(DEVICE))
    rows = np.array([2, 9])
    candidates = np.setdiff1d(np.arange(24), rows)
    problem = Problem(pool, Rows(pool, rows), candidates, 10, largest=largest_of(pool))
    expected = reference.solve(problem)[0]
    monkeypatch.setattr(OnDevice, "__getitem__", None)
    assert ENGINE.solve(problem).configurations[0].indices.tolist() == expected.indices.tolist()


# Interruption and progress


@pytest.mark.usefixtures("pieces")
@pytest.mark.parametrize("case", [Case(scaling=None, budget=16), Case(m=0, budget=16)])
def test_ctrl_c_leaves_a_prefix(case: Case, set_constant: SetConstant) -> None:
    set_constant("REPORT_SECONDS", -1.0)
    problem, described = case.make(6), list[int]()

    def interrupt(done: int, total: int, radius: float | None, seconds: float, /) -> None:
        assert total == problem.budget
        described.append(done)
        raise KeyboardInterrupt

    found = ENGINE.solve(replace(problem, progress=interrupt))
    assert not found.complete
    n_found = len(found.configurations[0].indices)
    assert [n_found] == described
    assert 0 < n_found < problem.budget
    shorter = reference.solve(replace(problem, budget=n_found))[0]
    assert found.configurations[0].indices.tolist() == shorter.indices.tolist()
    assert found.configurations[0].priorities.tobytes() == shorter.priorities.tobytes()
    assert found.configurations[0].radius == shorter.radius


@pytest.mark.slow
def test_a_wide_front_with_many_near_pairs_is_made_smaller(cut: Cut, set_constant: SetConstant) -> None:
    cut(front=4)
    set_constant("MOST_PAIRS", 3)
    set_constant("RADIUS_FRONT", 4)
    set_constant("FIRST_CAPACITY", 2)
    for seed in range(3):
        assert_same(Case(n=30, budget=12).make(seed))


@pytest.mark.parametrize("n", [0, 1, 2, 3, 4, 10, 97, 256, 1000])
def test_spread_order_is_a_permutation_whose_first_numbers_are_evenly_spaced(n: int) -> None:
    order = places.spread_order(n, "cpu").tolist()
    assert sorted(order) == list(range(n))
    first = sorted(order[: n // 8])
    assert all(later - earlier <= 24 for earlier, later in pairwise([0, *first, n])) or len(first) < 8


def test_progress_ends_with_every_pick_made(cut: Cut) -> None:
    cut()
    described = list[tuple[int, int]]()
    assert_same(replace(CASES["unscaled"].make(7), progress=lambda done, total, *_: described.append((done, total))))
    assert described[-1] == (7, 7)


# Settings of torch that a caller may have changed


@pytest.mark.parametrize("dtype", ["float16", "bfloat16"])
def test_autocast_does_not_change_the_bounds(dtype: str, cut: Cut) -> None:
    cut(front=16, rows=16)
    with torch.autocast(DEVICE, getattr(torch, dtype)):
        assert_same(Case(n=40, m=0, width=2, budget=5, dtype="float32", scale=300.0).make(8))
        assert_same(CASES["float32"].make(8))


def test_gradients_and_default_types_do_not_matter(cut: Cut) -> None:
    cut()
    torch.set_default_dtype(torch.float64)
    try:
        with torch.inference_mode():
            assert_same(CASES["float32"].make(9))
    finally:
        torch.set_default_dtype(torch.float32)
    problem = CASES["float32"].make(9)
    wanted = torch.tensor(np.asarray(problem.pool[:]), requires_grad=True)
    assert_same(replace(problem, pool=OnDevice(wanted.to(DEVICE))))
