"""Steps on rows in C: exact priorities and valid bounds for all threads, pieces, and kinds of arrays."""

import subprocess
import sys
import tracemalloc
from collections.abc import Iterable, Sequence
from dataclasses import replace
from importlib import import_module
from itertools import product
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from dubito import native as compiled
from dubito.core.distances import exact_sq_distances, read_rows, squared_radii
from dubito.core.problem import Metric, Problem
from dubito.engines.cpu import products
from dubito.engines.cpu.anchors import FirstBounds
from dubito.engines.cpu.engine import CpuEngine
from dubito.engines.cpu.kernels import CpuKernels
from dubito.engines.cpu.products import closest, pack
from dubito.engines.cpu.references import References
from dubito.engines.cpu.rowsteps import RowSteps, row_steps
from dubito.engines.cpu.sketch import SKETCH_WIDTH, fit_sketch, plain_sketch
from dubito.engines.lazy.bounds import front_slack
from dubito.matrix import AnyArray, FloatArray, Rows, Stack, len_of

pytestmark = pytest.mark.skipif(compiled.steps is None, reason="there was no C compiler to build the steps with")

KINDS = ["float16", "float32", "float64"]
METRICS: list[Metric] = ["euclidean", "cosine"]


def in_turn(cases: Iterable[tuple[Any, ...]], *others: Sequence[Any]) -> list[tuple[Any, ...]]:
    """Cases that use each value several times, but not all combinations."""
    return [
        (*case, *(other[(place + place // len(other)) % len(other)] for other in others))
        for place, case in enumerate(cases)
    ]


def points_of(n: int, d: int, seed: int, kind: str = "float32") -> AnyArray:
    """Points around a few centers, with copies and near copies."""
    rng = np.random.default_rng(seed)
    points = 4.0 * np.random.default_rng(9).standard_normal((7, d))[rng.integers(0, 7, n)]
    points += rng.standard_normal((n, 3)) @ np.random.default_rng(8).standard_normal((3, d))
    points += 0.05 * rng.standard_normal((n, d))
    points[n // 2 :: 5] = points[: len(points[n // 2 :: 5])]
    points[n // 3 :: 7] = points[: len(points[n // 3 :: 7])] * (1.0 + 2.0**-20)
    return np.asarray(points, dtype=kind)


def problem_of(pool: AnyArray, n_labeled: int, *, metric: Metric = "euclidean", weights: bool = True) -> Problem:
    n = len(pool)
    doubt = np.random.default_rng(2).choice([0.0, 1e-9, 0.25, 1.0], n) if weights else None
    largest = float(np.abs(pool.astype(np.float64)).max())
    rest = np.arange(n_labeled, n)
    return Problem(pool, pool[:n_labeled], rest, n - n_labeled, weights=doubt, metric=metric, largest=largest)


def exactly(problem: Problem, picks: AnyArray) -> FloatArray:
    """(n,) squared priorities given the labeled points and these picks."""
    points = read_rows(problem.pool, problem.candidates, problem.metric)
    others = np.concatenate(
        [read_rows(each, slice(0, len_of(each)), problem.metric) for each in (problem.references, problem.pool[picks])]
    )
    squared = np.min([exact_sq_distances(points, other) for other in others], axis=0)
    return np.asarray(squared if problem.weights is None else squared * problem.weights[problem.candidates])


def check_refresh(problem: Problem, threads: int, monkeypatch: pytest.MonkeyPatch, needed: float = 0.0) -> CpuKernels:
    monkeypatch.setattr(import_module("dubito.engines.cpu.rowsteps"), "n_threads", lambda: threads)
    kernels, n = CpuKernels(problem), len(problem.candidates)
    assert kernels.in_c is not None
    picks = np.arange(0, n, 9)
    kernels.add_references(picks)
    seen = np.zeros(n, dtype=np.int32)
    bounds = np.full(n, np.inf)
    got, is_fresh = kernels.refresh(np.arange(n), bounds, seen, needed)
    exact = exactly(problem, problem.candidates[picks])
    assert got[is_fresh].tolist() == exact[is_fresh].tolist()
    assert (got >= exact).all()
    assert (got[~is_fresh] < needed).all()
    return kernels


@pytest.mark.parametrize(("d", "kind", "metric"), in_turn(product([1, 5, 64, 200, 513], KINDS), METRICS))
def test_priorities_are_exact(kind: str, metric: Metric, d: int, monkeypatch: pytest.MonkeyPatch) -> None:
    problem = problem_of(points_of(400, d, d, kind), 90, metric=metric)
    check_refresh(problem, 2, monkeypatch)
    check_refresh(problem, 2, monkeypatch, needed=0.5)


@pytest.mark.parametrize("threads", [1, 3, 40])
@pytest.mark.parametrize("n", [1, 6, 7, 49, 700])
def test_priorities_do_not_depend_on_threads_and_pieces(threads: int, n: int, monkeypatch: pytest.MonkeyPatch) -> None:
    check_refresh(problem_of(points_of(n + 70, 180, 1), 70, weights=False), threads, monkeypatch)


@pytest.mark.parametrize("offset", [0.0, 1000.0])
@pytest.mark.parametrize("factor", [1e-30, 1.0, 1e20])
def test_features_far_from_one_are_shifted(offset: float, factor: float, monkeypatch: pytest.MonkeyPatch) -> None:
    pool = np.asarray((points_of(300, 170, 3, "float64") + offset) * factor, dtype=np.float32)
    check_refresh(problem_of(pool, 60), 2, monkeypatch)
    check_refresh(problem_of((points_of(300, 170, 3, "float64") + offset) * factor**5, 60), 2, monkeypatch)


@pytest.mark.slow
@pytest.mark.parametrize("is_sketched", [True, False])
def test_useless_sketches_are_dropped(is_sketched: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    """Noise in all directions, of which a sketch preserves almost nothing."""
    pool = np.random.default_rng(5).standard_normal((2100, 256)).astype(np.float32)
    if is_sketched:
        pool[:, 8:] *= 0.01
    kernels = check_refresh(problem_of(pool, 200, weights=False), 2, monkeypatch)
    assert (kernels.references.sketch.directions is not None) == is_sketched


def test_references_seen_are_not_compared_again(monkeypatch: pytest.MonkeyPatch) -> None:
    """References seen are assumed to be accounted for in the bound."""
    problem = problem_of(points_of(900, 170, 4), 500, weights=False)
    kernels, n = CpuKernels(problem), len(problem.candidates)
    seen = np.where(np.arange(n) % 2 == 0, 500, 128).astype(np.int32)
    known = squared_radii(problem.pool[problem.candidates], problem.references[:128])
    bounds = np.where(seen == 500, 1e-6, known)
    got, is_fresh = kernels.refresh(np.arange(n), bounds.copy(), seen, 0.0)
    assert is_fresh.all()
    assert got[1::2].tolist() == exactly(problem, np.empty(0, dtype=np.int64))[1::2].tolist()
    assert (got[::2] <= 1e-6).all()


def test_features_are_read_in_place(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    pool = points_of(300, 64, 6, "float16")
    np.save(tmp_path / "pool.npy", pool)
    mapped = problem_of(np.load(tmp_path / "pool.npy", mmap_mode="r"), 40)
    check_refresh(mapped, 2, monkeypatch)
    within = Problem(pool, Rows(pool, np.arange(40)[::-1]), np.arange(40, 300), 260, largest=8.0 * 4)
    check_refresh(within, 2, monkeypatch)


@pytest.mark.parametrize(
    "pool",
    [np.zeros((9, 4), dtype=np.int8), np.zeros((4, 9)).T, np.zeros((9, 4), dtype=">f4"), Stack([np.zeros((9, 4))])],
    ids=["integers", "columns", "other bytes", "stack"],
)
def test_arrays_that_c_cannot_read_are_processed_by_numpy(pool: Any) -> None:
    assert row_steps(Problem(pool, pool[:2], np.arange(2, 9), 3)) is None
    assert row_steps(Problem(np.zeros((9, 4)), np.zeros((2, 4)), np.arange(9), 3)) is not None


@pytest.mark.parametrize(("n_labeled", "kind", "metric"), in_turn(product([1, 40, 64, 300], KINDS), METRICS))
def test_first_bounds_are_valid(kind: str, metric: Metric, n_labeled: int) -> None:
    problem = problem_of(points_of(900, 70, 7, kind), n_labeled, metric=metric, weights=False)
    bounds, _ = CpuKernels(problem).first_bounds()
    exact = exactly(problem, np.empty(0, dtype=np.int64))
    assert (bounds >= exact).all()
    if n_labeled <= 64:
        np.testing.assert_allclose(bounds, exact, atol=1e-3 * exact.max())


def test_cells_give_valid_and_lower_bounds(monkeypatch: pytest.MonkeyPatch) -> None:
    problem = problem_of(points_of(3000, 70, 7, "float16"), 900)
    close, _ = CpuKernels(problem).first_bounds()
    monkeypatch.setattr(RowSteps, "can_tighten_by_cells", False)
    plain, _ = CpuKernels(problem).first_bounds()
    monkeypatch.setattr(FirstBounds, "_tighten_by_cells", lambda *_: None)
    far, _ = CpuKernels(problem).first_bounds()
    exact = exactly(problem, np.empty(0, dtype=np.int64))
    assert (close >= exact).all()
    assert (close < far).sum() > 100
    np.testing.assert_allclose(close, plain, rtol=0.0, atol=1e-5 * far.max())


@pytest.mark.parametrize(
    ("metric", "factor", "kind", "n_labeled"), in_turn(product(METRICS, [1.0, 1e-3, 3e4], KINDS), [65, 700])
)
def test_bounds_by_cells_are_valid_for_all_features(kind: str, metric: Metric, n_labeled: int, factor: float) -> None:
    pool = points_of(1200, 37, 7, "float64") * (factor if kind != "float16" else min(factor, 100.0))
    problem = problem_of(np.asarray(pool, dtype=kind), n_labeled, metric=metric, weights=False)
    bounds, _ = CpuKernels(problem).first_bounds()
    assert (bounds >= exactly(problem, np.empty(0, dtype=np.int64))).all()


@pytest.mark.parametrize(
    ("n", "d", "kind", "metric"),
    in_turn(product([0, 1, 5, 6, 31, 32, 33, 100, 384], [1, 64, 301]), KINDS, METRICS),
)
def test_pairwise_distances_are_within_their_bounds(n: int, d: int, kind: str, metric: Metric) -> None:
    problem = problem_of(points_of(max(n, 10) + 9, d, 5, kind), 2, metric=metric)
    kernels, rows = CpuKernels(problem), np.arange(n)[::-1] + 3
    assert kernels.in_c is not None
    middle, scale = np.linspace(-1.0, 1.0, d), 0.5
    squared, sizes = kernels.in_c.pairwise(rows, middle, scale)
    points = (read_rows(problem.pool, rows, metric) - middle) * scale
    exact = np.array([exact_sq_distances(points, each) for each in points]).reshape(n, n)
    np.testing.assert_allclose(sizes, (points**2).sum(axis=1), rtol=1e-12)
    assert (np.abs(squared - exact) <= front_slack(d) * (sizes + sizes[:, None])).all()
    assert (squared == squared.T).all()


@pytest.mark.parametrize(("n", "m", "k"), [(0, 3, 5), (1, 1, 1), (7, 64, 96), (50, 65, 97), (100, 200, 300), (6, 0, 4)])
def test_products_are_those_of_numpy(n: int, m: int, k: int) -> None:
    left, right = points_of(max(n, 10), k, 1)[:n], points_of(max(m, 10), k, 2)[:m]
    got = products.product(left, right)
    assert got.shape == (n, m)
    np.testing.assert_allclose(got, left @ right.T, rtol=1e-4, atol=1e-3 * k)


def test_a_forked_process_has_its_own_threads() -> None:
    """Also, several callers at the same time do not wait for each other."""
    code = """
import os, threading
import numpy as np
from dubito import native as compiled

def run(n_threads):
    return compiled.steps.magnitude((numbers,), numbers.size, 8, n_threads)

numbers = np.arange(3_000_000.0)
assert run(4) == numbers[-1]
child = os.fork()
if child == 0:
    os._exit(0 if run(4) == numbers[-1] and run(7) == numbers[-1] else 1)
assert os.waitpid(child, 0)[1] == 0
found = []
callers = [threading.Thread(target=lambda: found.extend(run(3) for _ in range(20))) for _ in range(5)]
for each in callers:
    each.start()
for each in callers:
    each.join()
assert found == [numbers[-1]] * 100
"""
    subprocess.run([sys.executable, "-W", "ignore", "-c", code], check=True, timeout=100)


@pytest.mark.parametrize("n", [0, 1, 23, 24, 25, 1000])
def test_sketches_are_products(n: int, monkeypatch: pytest.MonkeyPatch) -> None:
    sample = points_of(1024, 200, 5)
    sketch = fit_sketch(plain_sketch(sample[:64].astype(np.float64), 50.0), sample)
    points = points_of(max(n, 10), 200, 6)[:n]
    ours, _ = sketch.apply(points, np.zeros(n))
    monkeypatch.setattr(compiled, "steps", None)
    theirs, _ = sketch.apply(points, np.zeros(n))
    assert ours.shape == (n, SKETCH_WIDTH)
    np.testing.assert_allclose(ours, theirs, rtol=0.0, atol=1e-4)


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("is_sketched", [False, True])
@pytest.mark.parametrize("threads", [1, 3])
def test_packed_references_are_those_of_numpy(
    kind: str, is_sketched: bool, threads: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(import_module("dubito.engines.cpu.rowsteps"), "n_threads", lambda: threads)
    problem = problem_of(points_of(400, 200, 5, kind), 70)
    sketch = plain_sketch(np.asarray(problem.pool[:64], dtype=np.float64) + 300.0, 400.0)
    sketch = fit_sketch(sketch, points_of(1024, 200, 5)) if is_sketched else sketch
    ours, theirs = (References(problem, sketch, 1 << 24, in_c) for in_c in (row_steps(problem), None))
    for added in range(0, 200, 13):
        ours.add(problem.candidates[added : added + 13])
        theirs.add(problem.candidates[added : added + 13])
        assert ours.panels is not None
        unpacked, n = ours.panels.transpose(0, 2, 1).reshape(-1, sketch.width(200) + 1), len(ours)
        assert unpacked[:n].tolist() == ours.targets(slice(0, n)).tolist()
        assert (unpacked[n:, -1] == -np.inf).all()
        assert (unpacked[n:, :-1] == 0.0).all()
        np.testing.assert_allclose(unpacked[:n], theirs.targets(slice(0, n)), rtol=1e-4, atol=1e-2)
        np.testing.assert_allclose(ours.sizes[:n], theirs.sizes[:n], rtol=1e-5)


def test_numpy_continues_if_a_sketch_is_useless_and_points_do_not_fit(monkeypatch: pytest.MonkeyPatch) -> None:
    rng = np.random.default_rng(1)
    pool = rng.standard_normal((700, 300)).astype(np.float32)
    problem = Problem(pool, pool[:300], np.arange(300, 700), 400, largest=float(np.abs(pool).max()))
    monkeypatch.setattr("dubito.engines.cpu.kernels.SMALL_PROBLEM", 0.0)
    kernels = CpuKernels(problem)
    kernels.references = References(problem, kernels.references.sketch, 4 * 700 * 66, kernels.in_c)
    got, is_fresh = kernels.refresh(np.arange(400), np.full(400, np.inf), np.zeros(400, dtype=np.int32), 0.0)
    assert kernels.references.panels is None
    assert is_fresh.all()
    assert got.tolist() == exactly(problem, np.empty(0, dtype=np.int64)).tolist()


@pytest.mark.parametrize(("n", "m", "stride"), [(1, 1, 1), (5, 3, 2), (50, 64, 1), (100, 200, 7), (7, 1000, 10)])
def test_the_closest_columns_are_those_of_numpy(n: int, m: int, stride: int) -> None:
    assert compiled.steps is not None
    rng = np.random.default_rng(n)
    # Integers: products are exact in any order, and many are equal.
    rows, columns = (rng.integers(-3, 4, (size, 20)).astype(np.float32) for size in (n, m))
    offsets = rng.integers(0, 9, m).astype(np.float32)
    near, n_best = rows @ columns.T - offsets, min(2, -(-m // stride))
    places, largest = closest(compiled.steps, rows, pack(columns), offsets, stride=stride, n_best=n_best)
    assert largest.tolist() == near.max(axis=1).tolist()
    assert places.tolist() == (np.argsort(-near[:, ::stride], axis=1, kind="stable")[:, :n_best] * stride).tolist()


def test_row_numbers_out_of_range_are_refused() -> None:
    assert compiled.steps is not None
    one, rows = np.zeros((1, 4), dtype=np.float32), np.array([1])
    panel, sizes = np.zeros((4, 64), dtype=np.float32), np.zeros(64, dtype=np.float32)
    found = (np.empty(1), np.empty(1, dtype=np.uint16), np.empty(1, dtype=np.bool_))
    arrays = (one, np.empty(0), panel, sizes, np.empty(0), rows, *found)
    with pytest.raises(IndexError, match="row number out of range"):
        compiled.steps.anchor_bounds(arrays, 1, 4, 1, 6, 4, False, True, False, False, 1.0, 1.0, 0.0, 1.0, 0.0, 1)


def test_a_wrong_largest_number_does_not_crash() -> None:
    """Points are scaled by far too much and become NaN. The result is undefined, but the process goes on."""
    pool = points_of(200, 65, 3)
    broken = Problem(pool, pool[:70], np.arange(70, 200), 20, metric="cosine", largest=1e-300)
    with np.errstate(all="ignore"):
        kernels = CpuKernels(broken)
        got, _ = kernels.refresh(np.arange(130), np.full(130, np.inf), np.zeros(130, dtype=np.int32), 0.0)
        small = CpuEngine("small").solve(broken)
    assert len(got) == 130
    assert len(small.configurations[0].indices) == 20


def test_ctrl_c_before_the_first_pick_gives_a_result_without_picks(monkeypatch: pytest.MonkeyPatch) -> None:
    def interrupt(*_: object) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr(CpuKernels, "first_bounds", interrupt)
    solution = CpuEngine("lazy").solve(problem_of(points_of(300, 20, 3), 10))
    assert not solution.complete
    assert [len(each.indices) for each in solution.configurations] == [0]


def test_ctrl_c_in_a_small_problem_loses_no_pick(monkeypatch: pytest.MonkeyPatch) -> None:
    """Ctrl-C is handled when C returns, before the picks are counted."""

    real: Any = compiled.steps

    class Interrupted:
        is_heard = False

        def __getattr__(self, name: str) -> object:
            return getattr(real, name)

        def pick_small(self, *arguments: Any) -> None:
            real.pick_small(*arguments)
            if not self.is_heard:
                self.is_heard = True
                raise KeyboardInterrupt

    problem = problem_of(points_of(400, 20, 3), 10, weights=False)
    whole = CpuEngine("small").solve(problem).configurations[0]
    monkeypatch.setattr(compiled, "steps", Interrupted())
    solution = CpuEngine("small").solve(problem)
    part = solution.configurations[0]
    assert not solution.complete
    assert 0 < len(part.indices) < len(whole.indices)
    assert part.indices.tolist() == whole.indices[: len(part.indices)].tolist()
    assert part.radius == whole.priorities[len(part.indices)]


def test_only_candidates_of_a_pool_that_c_cannot_read_are_copied() -> None:
    pool = np.asfortranarray(points_of(50_000, 32, 3))
    few = np.arange(100, 50_000, 200)
    problem = Problem(pool, pool[:100], few, 10, largest=float(np.abs(pool).max()))
    tracemalloc.start()
    try:
        found = CpuEngine("small").solve(problem)
        _, peak = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    whole = CpuEngine("small").solve(replace(problem, pool=np.ascontiguousarray(pool)))
    assert found.configurations[0].indices.tolist() == whole.configurations[0].indices.tolist()
    assert peak < pool.nbytes / 4
