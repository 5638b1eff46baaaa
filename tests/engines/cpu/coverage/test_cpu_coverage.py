"""Coverage on the cpu engine gives the picks of the reference, whatever the block sizes."""

from collections.abc import Callable
from dataclasses import dataclass, replace
from importlib import import_module

import numpy as np
import pytest
from sklearn.datasets import load_digits

import dubito
from dubito import native
from dubito.core import coverage_reference as coverage
from dubito.core.coverage_reference import CoverageProblem, sample_rows
from dubito.engines.cpu.coverage import solver
from dubito.engines.cpu.coverage.engine import CpuCoverage, least_bytes, most_pairs
from dubito.errors import MemoryLimit
from dubito.matrix import AnyArray, FloatArray, Matrix, Stack
from dubito.testing import check_coverage_engine
from levels import examples

SetConstant = Callable[[str, object], None]


def assert_same(problem: CoverageProblem) -> None:
    (found,), oracle = CpuCoverage().solve(problem).configurations, coverage.greedy(problem)
    assert found.indices.tolist() == oracle.indices.tolist()
    assert found.priorities.tobytes() == oracle.priorities.tobytes()
    assert found.covered is not None
    assert oracle.covered is not None
    assert found.covered.tobytes() == oracle.covered.tobytes()
    assert found.reach == oracle.reach


def made_of(
    pool: Matrix, references: Matrix, weights: FloatArray, budget: int, largest: float = 50.0
) -> CoverageProblem:
    rows = np.arange(len(weights))
    return CoverageProblem(pool, references, rows, budget, weights, sample_rows(rows), largest=largest)


def test_the_engine_meets_the_contract() -> None:
    check_coverage_engine(CpuCoverage(), examples=examples(200))


@dataclass(frozen=True)
class ForSmall(CpuCoverage):
    """Solves small problems only: large ones would take long in the smallest blocks."""

    most_rows: int = 60

    def refusals(self, problem: CoverageProblem) -> list[str]:
        return ["it is too large"] if problem.pool.shape[0] > self.most_rows else super().refusals(problem)


@pytest.mark.parametrize(("rows", "work", "threads"), [(2, 1, 1), (5, 100, 3), (9, 10_000, 2)])
def test_the_picks_do_not_depend_on_block_sizes(rows: int, work: int, threads: int, set_constant: SetConstant) -> None:
    for name in ("CALL_PRODUCTS", "CALL_WORK"):
        set_constant(name, work)
    for name, value in (("CELL_ROWS", rows), ("READ_ROWS", rows), ("FEWEST_CELLS", 1)):
        set_constant(name, value)
    set_constant("ONE_THREAD", 0)
    set_constant("n_threads", lambda: threads)
    check_coverage_engine(ForSmall(most_rows=200), examples=examples(60))


@pytest.mark.parametrize("n_pairs", [1, 300])
def test_the_picks_do_not_depend_on_the_memory_for_pairs(n_pairs: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(solver, "most_pairs", lambda n, d, limit: n_pairs)
    check_coverage_engine(ForSmall(), examples=examples(30) + 2)
    rng = np.random.default_rng(0)
    pool = rng.standard_normal((60, 4))
    assert_same(made_of(pool, pool[:3] + 0.5, rng.random(60), 20))


@pytest.mark.parametrize("kept", [0, 1 << 30])
def test_the_picks_do_not_depend_on_directions(kept: int, set_constant: SetConstant) -> None:
    for name, value in (
        ("SMALL_PROBLEM", 0),
        ("NARROWEST", 4),
        ("FULL_BYTES", kept),
        ("WIDEST", 24),
    ):
        set_constant(name, value)
    set_constant("WIDTHS", (2, 4, 16))
    check_coverage_engine(ForSmall(most_rows=200), examples=examples(60))
    rng = np.random.default_rng(5)
    pool = rng.standard_normal((400, 8)) @ rng.standard_normal((8, 100)) + 0.1 * rng.standard_normal((400, 100))
    assert_same(made_of(pool.astype(np.float32), pool[:40].astype(np.float32), rng.random(400), 60))


def test_a_pool_that_is_too_large_to_be_copied_is_read_a_block_at_a_time(set_constant: SetConstant) -> None:
    set_constant("COPIED_BYTES", 0)
    check_coverage_engine(ForSmall(most_rows=100), examples=examples(60))


def test_ties_go_to_the_lowest_row_if_c_cannot_read_the_pool(set_constant: SetConstant) -> None:
    set_constant("COPIED_BYTES", 0)
    rng = np.random.default_rng(2)
    grid, weights = 0.37 * rng.integers(0, 3, (300, 4)), rng.integers(1, 3, 300) / 2.0
    assert_same(made_of(Stack([grid[:150], grid[150:]]), grid[:9], weights, 30))


def test_pools_of_more_rows_than_a_heap_holds_are_covered_as_the_reference_covers_them() -> None:
    rng = np.random.default_rng(5)
    pool, weights = rng.integers(0, 60, (2_000, 2)).astype(np.float32), rng.choice([0.0, 0.5, 1.0], 2_000)
    assert_same(made_of(pool, pool[:100] + 0.5, weights, 40, largest=60.0))


def test_without_the_compiled_module_the_picks_are_the_same(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(native, "steps", None)
    check_coverage_engine(ForSmall(most_rows=100), examples=examples(60))


def test_storage_does_not_matter() -> None:
    rng = np.random.default_rng(8)
    pool, references = rng.integers(-50, 50, (200, 6)), rng.integers(-50, 50, (9, 6)).astype(np.float64)
    weights = rng.choice([0.0, 0.25, 0.5, 1.0], 200)
    kept: list[Matrix] = [
        pool.astype(np.float64),
        pool.astype(np.float32),
        np.asfortranarray(pool.astype(np.float16)),
        Stack([pool[:77].astype(np.float16), pool[77:].astype(np.float64)]),
        pool.astype(np.int8),
    ]
    first = coverage.greedy(made_of(kept[0], references, weights, 60))
    for matrix in kept:
        (found,) = CpuCoverage().solve(made_of(matrix, references, weights, 60)).configurations
        assert found.indices.tolist() == first.indices.tolist()
        assert found.priorities.tobytes() == first.priorities.tobytes()


@pytest.mark.parametrize(("strength", "n_labeled"), [(1.0, 0), (0.0, 10), (1.0, 300)])
def test_real_digits_are_covered_as_the_reference_covers_them(strength: float, n_labeled: int) -> None:
    digits: AnyArray = load_digits().data
    pool = digits[300:800].astype(np.float32)
    weights = np.random.default_rng(0).beta(0.3, 2.0, len(pool)) ** strength
    assert_same(made_of(pool, digits[:n_labeled], weights, 100, largest=16.0))


def test_exact_copies_are_distinguished_from_near_copies() -> None:
    rng = np.random.default_rng(1)
    base = rng.standard_normal((60, 70)).astype(np.float32)
    pool = np.concatenate([base, base, np.nextafter(base, np.float32(9.0))])
    assert_same(made_of(pool, base[:5] + np.float32(0.5), np.ones(180), 90))


@pytest.mark.parametrize("factor", [1e6, 1e30])
def test_an_outlier_changes_nothing_for_the_others(factor: float) -> None:
    rng = np.random.default_rng(0)
    pool, weights = rng.standard_normal((300, 60)), rng.random(300)
    pool[3] *= factor
    assert_same(made_of(pool, pool[10:20] + 0.1, weights, 100, largest=float(np.abs(pool).max())))


@pytest.mark.parametrize("seed", range(4))
def test_weights_that_lose_digits_give_exact_priorities(seed: int) -> None:
    rng = np.random.default_rng(seed)
    pool, weights = rng.standard_normal((120, 2)), 10.0 ** rng.uniform(-324, -318, 120)
    assert_same(made_of(pool, pool[:3] + 0.1, weights, 60))


def test_a_reach_whose_square_is_subnormal_covers_copies() -> None:
    rng = np.random.default_rng(0)
    pool = np.repeat(rng.standard_normal((20, 3)), 3, axis=0)
    assert_same(replace(made_of(pool, pool[:0], rng.random(60), 30), radius=4e-155))


def test_a_whole_pool_can_be_picked() -> None:
    rng = np.random.default_rng(2)
    pool = rng.integers(-3, 4, (150, 3)).astype(np.float64)
    assert_same(made_of(pool, pool[:10], rng.choice([0.0, 0.5, 1.0], 150), 150))


def test_a_second_round_of_a_pool_equals_a_first_round_of_another() -> None:
    rng = np.random.default_rng(4)
    features, labeled = rng.standard_normal((300, 5)), np.arange(20)
    pool = dubito.Pool(features)
    pool.label(rows=labeled)
    for turn in range(3):
        doubt = np.random.default_rng(turn).random(300)
        picked = pool.select(15, doubt=doubt, strategy="doubt-coverage", engine="cpu")
        oracle = dubito.select(
            features, 15, labeled=labeled, doubt=doubt, strategy="doubt-coverage", engine="reference"
        )
        assert picked.indices.tolist() == oracle.indices.tolist()
        pool.label(picked)
        labeled = np.concatenate([labeled, picked.indices])
        pool.select(5, doubt=doubt, strategy="doubt-coreset")


def test_auto_chooses_the_cpu_engine() -> None:
    rng = np.random.default_rng(0)
    assert dubito.select(rng.random((30, 2)), 3, strategy="coverage").engine == "cpu"


# Memory


def test_a_limit_that_cannot_hold_the_minimum_is_refused_with_the_minimum() -> None:
    with pytest.raises(
        MemoryLimit, match=r"memory_limit=1000 cannot hold what coverage of 500 rows .* at least \d+ bytes"
    ) as refused:
        dubito.select(np.ones((500, 4)), 2, strategy="coverage", memory_limit=1000)
    assert (refused.value.argument, refused.value.value) == ("memory_limit", 1000)
    with pytest.raises(MemoryLimit, match="memory_limit=1000"):
        dubito.estimate(500, 4, 0, 2, strategy="coverage", engine="cpu", memory_limit=1000)


def test_the_smallest_limit_works_and_gives_the_same_picks() -> None:
    rng = np.random.default_rng(0)
    pool = rng.standard_normal((400, 64)).astype(np.float32)
    problem = made_of(pool, pool[:7] + np.float32(0.2), rng.random(400), 30)
    assert_same(replace(problem, memory_limit=least_bytes(400, 64)))


@pytest.mark.parametrize("limit", [None, 500_000_000, 2_000_000_000])
def test_a_plan_stays_within_its_limit(limit: int | None) -> None:
    assert most_pairs(100_000, 512, limit) >= 400_000
    assert 20 * most_pairs(100_000, 512, limit) < (limit or 4 << 30)


def test_an_estimate_grows_with_the_work(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("dubito.engines.cpu.coverage.engine.product_rate", lambda: 1e11)
    few, many = (dubito.estimate(n, 64, 1000, 100, strategy="coverage", engine="cpu") for n in (5_000, 50_000))
    assert few.engine == "cpu"
    assert few.seconds < many.seconds
    assert few.bytes < many.bytes
    assert dubito.estimate(5_000, 64, 0, 100, strategy="coverage", memory_limit="64MB").bytes == 64_000_000


# Ctrl-C


def test_an_error_in_one_piece_of_work_is_raised() -> None:
    threads = import_module("dubito.threads")

    def fail(number: int) -> None:
        if number == 3:
            raise KeyError(number)

    with pytest.raises(KeyError):
        threads.parallel_map(fail, [(number,) for number in range(8)])


@pytest.mark.skipif(native.steps is None, reason="the phases of the compiled module")
def test_phases_are_reported_before_the_first_pick(monkeypatch: pytest.MonkeyPatch) -> None:
    seen = list[tuple[str, float]]()

    class Reports:
        def __call__(self, done: int, total: int, radius: float | None, seconds: float, /) -> None:
            seen.append(("picking", done / total))

        def phase(self, name: str, share: float, seconds: float, /) -> None:
            seen.append((name, share))

    monkeypatch.setattr("dubito.engines.lazy.interfaces.REPORT_SECONDS", 0.0)
    rows = np.random.default_rng(0).random((3000, 12))
    dubito.select(rows, 5, labeled=np.arange(300), strategy="coverage", engine="cpu", progress=Reports())
    names = list(dict.fromkeys(name for name, _ in seen))
    assert sorted(names) == ["finding near pairs", "measuring distances", "picking", "preparing"]
    assert names[0] == "preparing"
    assert seen[-1] == ("picking", 1.0)
    assert all(0.0 <= share <= 1.0 for _, share in seen)


def test_progress_is_reported_without_a_radius() -> None:
    described = list[tuple[int, float | None]]()
    rng = np.random.default_rng(0)
    dubito.select(
        rng.random((50, 2)),
        50,
        strategy="coverage",
        progress=lambda done, _, radius, __: described.append((done, radius)),
    )
    assert described[-1] == (50, None)
