"""Coverage of the cuda engine equals the reference, on a GPU or interpreted."""

from collections.abc import Callable
from dataclasses import replace
from itertools import pairwise

import numpy as np
import pytest

from dubito.core import coverage_reference as coverage
from dubito.core.coverage_reference import CoverageProblem, sample_rows
from dubito.engines.cpu.coverage.engine import CpuCoverage
from dubito.engines.cuda.engine import CudaCoverage
from dubito.matrix import AnyArray, FloatArray, Matrix, OnDevice
from dubito.testing import check_coverage_engine, make_coverage_problem

torch = pytest.importorskip("torch")
pytest.importorskip("triton")
planning = pytest.importorskip("dubito.engines.cuda.coverage.planning")
covergreedy = pytest.importorskip("dubito.engines.cuda.coverage.solver")
pairs = pytest.importorskip("dubito.engines.cuda.programs.pairs")
rounds = pytest.importorskip("dubito.engines.cuda.programs.rounds")
shapes = pytest.importorskip("dubito.engines.cuda.points")
sketch = pytest.importorskip("dubito.engines.cuda.sketch")

DEVICE = "cuda" if torch.cuda.is_available() else "cpu"
ENGINE = CudaCoverage(device=DEVICE)
EXAMPLES = 300 if DEVICE == "cuda" else 6

SetConstant = Callable[[str, float], None]


@pytest.fixture(autouse=True)
def few_programs(set_constant: SetConstant) -> None:
    """Large blocks for the interpreter, whose time per program does not depend on the size."""
    if DEVICE == "cpu":
        sizes = {"ROWS": 64, "REFERENCES": 64, "EXACT_VALUES": 1 << 14, "FULL_GRID": 1, "WITHIN_ROWS": 64}
        for name, value in (sizes | {"WITHIN_COLUMNS": 64}).items():
            set_constant(name, value)


def assert_same(problem: CoverageProblem) -> None:
    (found,), oracle = ENGINE.solve(problem).configurations, coverage.greedy(problem)
    assert found.indices.tolist() == oracle.indices.tolist()
    assert found.indices.dtype == np.int64
    assert found.priorities.tobytes() == oracle.priorities.tobytes()
    assert found.covered is not None
    assert oracle.covered is not None
    assert found.covered.tobytes() == oracle.covered.tobytes()
    assert found.reach == oracle.reach


def made_of(pool: Matrix, references: Matrix, weights: FloatArray, budget: int) -> CoverageProblem:
    rows = np.arange(len(weights))
    largest = float(np.abs(np.asarray(pool[:], dtype=np.float64)).max()) + 1.0
    return CoverageProblem(pool, references, rows, budget, weights, sample_rows(rows), largest=largest)


def some(n: int, d: int = 3, seed: int = 0, dtype: str = "float32") -> tuple[AnyArray, AnyArray, FloatArray]:
    rng = np.random.default_rng(seed)
    pool: AnyArray = rng.standard_normal((n, d)).astype(dtype)
    return pool, (pool[: max(1, n // 10)] + 0.1).astype(dtype), rng.choice([0.0, 0.25, 0.5, 1.0], n)


def test_the_engine_meets_the_contract() -> None:
    if DEVICE == "cuda":
        check_coverage_engine(ENGINE, examples=EXAMPLES)
        return
    made = (replace(make_coverage_problem(seed), costs=None, quotas=None) for seed in range(60))
    small = [problem for problem in made if problem.pool.shape[0] <= 40]
    for problem in small[:EXAMPLES]:
        assert_same(problem)


@pytest.mark.parametrize("dtype", ["float16", "float32", "float64"])
def test_storage_does_not_matter(dtype: str) -> None:
    pool, references, weights = some(24, dtype=dtype)
    assert_same(made_of(pool, references, weights, 10))


def test_features_on_the_device_stay_there() -> None:
    pool, references, weights = some(24)
    problem = made_of(pool, references, weights, 8)
    (on_host,) = ENGINE.solve(problem).configurations
    (there,) = ENGINE.solve(replace(problem, pool=OnDevice(torch.tensor(pool, device=DEVICE)))).configurations
    assert there.indices.tolist() == on_host.indices.tolist()
    assert there.priorities.tobytes() == on_host.priorities.tobytes()


def test_copies_and_ties_go_to_the_lowest_index() -> None:
    pool = np.repeat(np.arange(8.0)[:, None], 4, axis=0)
    assert_same(made_of(pool, np.array([[-3.0]]), np.ones(32), 32))


@pytest.mark.slow
@pytest.mark.parametrize(
    ("dtype", "scale"),
    [
        ("float16", 1.0),
        pytest.param("float32", 1e-4, marks=pytest.mark.slow),
        pytest.param("float64", 1e9, marks=pytest.mark.slow),
    ],
)
def test_sketches_do_not_change_the_picks(dtype: str, scale: float, set_constant: SetConstant) -> None:
    for name, value in {"SKETCHED_PAIRS": 0, "WITHIN_ROWS": 16, "WITHIN_COLUMNS": 16, "CELL_ROWS": 8}.items():
        set_constant(name, value)
    set_constant("MOST_TILES", 8)
    pool, references, weights = some(70, d=20, seed=4, dtype="float64")
    centers = 5.0 * np.arange(70)[:, None] // 100
    made = [(scale * (points + centers[: len(points)])).astype(dtype) for points in (pool, references)]
    assert_same(made_of(made[0], made[1], weights, 12))
    weights[10:] = 0.0
    assert_same(made_of(made[0], made[1], weights, 12))


def test_sketches_are_never_farther_apart_than_their_points() -> None:
    rng = np.random.default_rng(5)
    for points in (rng.standard_normal((60, 90)) + 40.0, rng.standard_normal((60, 3)), np.zeros((60, 5))):
        rows = torch.tensor(points.astype(np.float32), device=DEVICE)
        shaped = shapes.PreparedPoints(rows, torch.linalg.vector_norm(rows, dim=1))
        found = sketch.Sketches(shaped, torch.ones(60, device=DEVICE))
        halves, sizes = (each.double().cpu().numpy() for each in (found.points, found.sizes))
        apart = sizes[:, None] + sizes - 2.0 * halves @ halves.T
        wide = rows.double().cpu().numpy()
        squared = ((wide[:, None] - wide) ** 2).sum(axis=2) * found.unit
        assert (apart <= squared).all()
        assert sorted(found.order.tolist()) == list(range(60))


def test_blocks_that_sketches_rule_out_have_no_near_pairs(set_constant: SetConstant) -> None:
    for name, value in {"WITHIN_ROWS": 16, "WITHIN_COLUMNS": 16, "CELL_ROWS": 16}.items():
        set_constant(name, value)
    centers = np.repeat(20.0 * np.eye(6, 30), 16, axis=0)
    points = centers + np.random.default_rng(6).standard_normal((96, 30))
    rows = torch.tensor(points.astype(np.float32), device=DEVICE)
    limits = torch.full((96,), 80.0, device=DEVICE)
    found = sketch.Sketches(shapes.PreparedPoints(rows, torch.linalg.vector_norm(rows, dim=1)), limits)
    tiles = pairs.near_tiles(found, found.order, found.order, limits, slice(0, 6)).tolist()
    near = ((points[:, None] - points) ** 2).sum(axis=2)[np.ix_(found.order.cpu(), found.order.cpu())] <= 80.0
    down, across = np.nonzero(np.triu(near))
    needed = set((down // 16 * 6 + across // 16).tolist())
    assert needed <= set(tiles)
    assert len(tiles) < 21


def test_a_cold_start_is_solved() -> None:
    pool, _, weights = some(30)
    assert_same(made_of(pool, pool[:0], weights, 10))


def test_a_few_rows_to_cover_and_many_to_pick_from() -> None:
    pool, references, weights = some(60)
    weights[10:] = 0.0
    assert_same(made_of(pool, references, weights, 30))


def test_few_candidates_are_enough() -> None:
    pool, references, weights = some(60)
    problem = made_of(pool, references, weights, 3)
    assert_same(replace(problem, candidates=np.array([4, 17, 33, 59])))


@pytest.mark.slow
@pytest.mark.parametrize(("room", "scale"), [(90, 1.0), (130, 1e-310)])
def test_the_picks_do_not_depend_on_the_memory_for_pairs(
    room: int, scale: float, monkeypatch: pytest.MonkeyPatch
) -> None:
    pool, _, weights = some(24, seed=3)
    problem = made_of(pool, pool[:2] + np.float32(2.0), scale * (weights + 0.01), 6)
    plan = planning.plan_for(problem, DEVICE)
    monkeypatch.setattr("dubito.engines.cuda.coverage.solver.plan_for", lambda *_: replace(plan, n_pairs=room))
    assert_same(problem)


@pytest.mark.parametrize("ahead", [1, 1000])
def test_the_picks_do_not_depend_on_how_far_ahead_a_stage_looks(ahead: int, set_constant: SetConstant) -> None:
    set_constant("AHEAD", ahead)
    pool, references, weights = some(30, seed=1)
    assert_same(made_of(pool, references, weights, 12))


@pytest.mark.parametrize(("pairs", "sums"), [(64, 16), (256, 32)])
def test_the_picks_do_not_depend_on_block_sizes(pairs: int, sums: int, set_constant: SetConstant) -> None:
    set_constant("COVER_PAIRS", pairs)
    set_constant("COVER_SUMS", sums)
    set_constant("FIRST_PAIRS", 5)
    set_constant("EXACT_PAIRS", 37)
    set_constant("WITHIN_ROWS", 16)
    set_constant("WITHIN_COLUMNS", 16)
    pool, references, weights = some(30, seed=2)
    assert_same(made_of(pool, references, weights, 12))


def test_sums_add_one_term_after_another() -> None:
    rng = np.random.default_rng(0)
    counts = np.array([0, 1, 7, 8, 9, 30, 0, 64])
    terms = rng.random(counts.sum()) * 10.0 ** rng.integers(-8, 8, counts.sum())
    starts = np.concatenate([[0], np.cumsum(counts)])
    found = rounds.add_terms(torch.tensor(starts, device=DEVICE), torch.tensor(terms, device=DEVICE)).cpu().numpy()
    parts = [terms[first:last] for first, last in pairwise(starts.tolist())]
    assert found.tolist() == [float(np.add.accumulate(part)[-1]) if len(part) else 0.0 for part in parts]


@pytest.mark.parametrize("radius", [None, 1e-25])
def test_bounds_from_products_are_upper_bounds(radius: float | None) -> None:
    pool, references, weights = some(70, d=20)
    problem = replace(made_of(pool, references, weights, 5), radius=radius)
    ground = pytest.importorskip("dubito.engines.cuda.coverage.solver").CoverState(
        problem, DEVICE, planning.plan_for(problem, DEVICE)
    )
    run = covergreedy.DeviceCover(ground)
    reach = coverage.squared_reach(problem)
    kernels = coverage.Kernels(problem, reach)
    exact = coverage.gains(next(kernels.blocks()), coverage.initial_cover(problem, reach), weights)
    bounds = covergreedy.upper_bounds(ground, run.numbers).cpu().numpy()
    assert (bounds >= exact).all()
    if radius is None:
        assert (bounds[exact > 0.1] < 1.2 * exact[exact > 0.1]).all()


def test_ctrl_c_leaves_a_prefix() -> None:
    pool, references, weights = some(50)
    problem = made_of(pool, references, weights + 0.5, 40)

    def interrupt(done: int, total: int, radius: float | None, seconds: float, /) -> None:
        raise KeyboardInterrupt

    found = ENGINE.solve(replace(problem, progress=interrupt))
    assert not found.complete
    n_found = len(found.configurations[0].indices)
    assert found.configurations[0].indices.tolist() == coverage.greedy(problem).indices[:n_found].tolist()


def test_without_reach_the_largest_weights_are_picked() -> None:
    assert_same(made_of(np.zeros((6, 2)), np.zeros((1, 2)), np.array([0.1, 0.5, 0.5, 0.0, 1.0, 0.2]), 6))


def test_too_little_memory_is_refused_with_what_is_needed() -> None:
    pool, references, weights = some(50)
    problem = replace(made_of(pool, references, weights, 5), memory_limit=1000)
    (reason,) = ENGINE.refusals(problem)
    assert "coverage of 50 rows of 3 features needs" in reason


def test_the_engine_pays_for_many_pairs_and_estimates_its_cost() -> None:
    pool, references, weights = some(50)
    problem = made_of(pool, references, weights, 5)
    assert not ENGINE.pays(problem)
    large = np.broadcast_to(np.float32(0.0), (40_000, 512))
    assert ENGINE.pays(replace(problem, pool=large, candidates=np.arange(40_000)))
    cost = ENGINE.estimate(problem)
    assert cost.engine == "cuda"
    assert cost.bytes > 0
    assert cost.seconds > 0.0
    ENGINE.catch_up(problem)


def test_the_cpu_engine_picks_the_same_bit_for_bit() -> None:
    pool, references, weights = some(5000, d=64) if DEVICE == "cuda" else some(40, d=64)
    problem = made_of(pool, references, weights, 50 if DEVICE == "cuda" else 15)
    (there,), (host,) = (engine.solve(problem).configurations for engine in (ENGINE, CpuCoverage()))
    assert there.indices.tolist() == host.indices.tolist()
    assert there.priorities.tobytes() == host.priorities.tobytes()
