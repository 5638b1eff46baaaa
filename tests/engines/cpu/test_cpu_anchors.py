"""First bounds are valid for every candidate and tight for those that may be picked; sketches bound distances."""

from typing import Any

import numpy as np
import pytest

import dubito
from dubito.core.distances import squared_radii
from dubito.core.problem import Problem
from dubito.engines.cpu.anchors import FirstBounds
from dubito.engines.cpu.kernels import CpuKernels
from dubito.engines.cpu.memory import plan_memory
from dubito.engines.cpu.references import References
from dubito.engines.cpu.sketch import SKETCH_WIDTH, fit_sketch, plain_sketch, without_directions
from dubito.engines.lazy.bounds import squared_lengths
from dubito.matrix import AnyArray, FloatArray, IntArray, len_of


def clustered(n: int, d: int, seed: int) -> AnyArray:
    """Points around a few centers, spread along a few directions."""
    shape, rng = np.random.default_rng(0), np.random.default_rng(seed)
    centers, directions = 10.0 * shape.standard_normal((12, d)), shape.standard_normal((3, d))
    points = centers[rng.integers(0, 12, n)] + rng.standard_normal((n, 3)) @ directions
    return np.asarray(points + 0.1 * rng.standard_normal((n, d)), dtype=np.float32)


def bounds_of(problem: Problem, n_anchors: int) -> FloatArray:
    plain = plain_sketch(np.asarray(problem.pool[:64], dtype=np.float64), problem.largest)
    sketch = fit_sketch(plain, plain.read(problem.pool, slice(0, 1024), problem.metric))
    references = References(problem, sketch, 1 << 24)
    plan = plan_memory(len_of(problem.pool), problem.pool.shape[1], None)
    return FirstBounds(
        problem, references, without_directions(sketch, problem.pool.shape[1]), plan, n_anchors
    ).compute()


@pytest.mark.parametrize("offset", [0.0, 1000.0])
@pytest.mark.parametrize("is_scaled", [False, True])
def test_bounds_are_valid_and_tight_for_candidates_that_may_come_first(offset: float, is_scaled: bool) -> None:
    pool, labeled = clustered(3000, 200, 1) + np.float32(offset), clustered(500, 200, 2) + np.float32(offset)
    weights = np.random.default_rng(3).random(3000) ** 4 if is_scaled else None
    candidates = np.flatnonzero(np.arange(3000) % 7 != 3)
    problem = Problem(pool, labeled, candidates, 50, weights=weights, largest=float(np.abs(pool).max()))
    exact = squared_radii(pool[candidates], labeled)
    bounds = bounds_of(problem, 24)
    assert (bounds >= exact).all()
    first = np.argsort(-exact * (1.0 if weights is None else weights[candidates]))[:50]
    assert np.median(bounds[first] / exact[first]) < 1.1
    assert np.median(bounds / exact) > np.median(bounds[first] / exact[first])


def test_no_cells_are_compared_if_every_reference_is_an_anchor() -> None:
    pool, labeled = clustered(300, 200, 1), clustered(20, 200, 2)
    problem = Problem(pool, labeled, np.arange(300), 50, largest=float(np.abs(pool).max()))
    exact = squared_radii(pool, labeled)
    bounds = bounds_of(problem, 64)
    assert (bounds >= exact).all()
    np.testing.assert_allclose(bounds, exact, atol=2.0)


def test_anchors_with_equal_sketches_may_have_empty_cells() -> None:
    pool, labeled = clustered(600, 200, 1), np.tile(clustered(3, 200, 2), (100, 1))
    labeled += 3e-6 * np.random.default_rng(3).standard_normal(labeled.shape, dtype=np.float32)
    problem = Problem(pool, labeled, np.arange(600), 50, largest=float(np.abs(pool).max()))
    exact = squared_radii(pool, labeled)
    bounds = bounds_of(problem, 24)
    assert (bounds >= exact).all()
    np.testing.assert_allclose(bounds, exact, rtol=0.01, atol=2.0)


@pytest.mark.parametrize("kind", ["spread", "equal", "few"])
def test_a_sketch_never_exceeds_the_distance(kind: str) -> None:
    sample = clustered(512, 200, 4)
    if kind == "equal":
        sample = np.tile(sample[:1], (512, 1))
    elif kind == "few":
        sample = np.tile(sample[:3], (200, 1))
    sketch = fit_sketch(plain_sketch(sample.astype(np.float64), float(np.abs(sample).max())), sample)
    assert sketch.directions is not None
    assert sketch.directions.shape == (200, SKETCH_WIDTH)
    # Few points span few directions; the others are 0.
    products = sketch.directions.T @ sketch.directions
    np.testing.assert_allclose(products, np.diag(np.diag(products).round()), atol=1e-5)
    assert (np.diag(products).sum() > SKETCH_WIDTH - 1) if kind == "spread" else (0.9 < np.diag(products).sum() < 3.1)
    points = sketch.read(clustered(400, 200, 5), slice(0, 400), "euclidean")
    sketches, margins = sketch.apply(points, squared_lengths(points))
    lower = margins[:, None] + margins - 2.0 * (sketches @ sketches.T)
    wide = points.astype(np.float64)
    exact = ((wide[:, None] - wide) ** 2).sum(axis=2)
    assert (lower <= exact).all()


def test_few_features_or_points_are_their_own_sketch() -> None:
    narrow, short = clustered(512, 40, 1), clustered(50, 200, 1)
    for sample in (narrow, short):
        assert fit_sketch(plain_sketch(sample.astype(np.float64), 100.0), sample).directions is None


def test_first_bounds_are_tight_for_later_picks(monkeypatch: pytest.MonkeyPatch) -> None:
    refresh, asked = CpuKernels.refresh, []

    def counted(self: CpuKernels, rows: IntArray, *more: Any) -> Any:
        asked.append(len(rows))
        return refresh(self, rows, *more)

    monkeypatch.setattr(CpuKernels, "refresh", counted)
    rng = np.random.default_rng(0)
    pool, labeled = (rng.normal(size=(n, 8)).astype(np.float32) for n in (60_000, 8000))
    dubito.select(pool, 300, labeled=labeled, strategy="coreset", engine="cpu")
    # A level by a thousand of the labeled points alone was above most picks, and ten times as many were looked at.
    assert sum(asked) < 2000
