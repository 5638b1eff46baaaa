"""Lower bounds never exceed distances, and distances to labeled rows are exact."""

from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from dubito.core.coverage_reference import CoverageProblem, sample_rows
from dubito.core.distances import exact_sq_distances, squared_radii
from dubito.core.problem import Known
from dubito.engines.cpu.coverage.pairs import Nearest, PointCloud, choose_width, find_cells
from dubito.engines.cpu.coverage.space import (
    LEVELS,
    Codes,
    Directions,
    Scale,
    Space,
    best_scale,
    encode,
    evenly_spaced,
    fit_directions,
)
from dubito.engines.lazy.bounds import squared_lengths
from dubito.matrix import FloatArray
from dubito.native import steps

compiled_only = pytest.mark.skipif(steps is None, reason="codes and cells are used only by the compiled module")


def problem_of(pool: FloatArray, references: FloatArray) -> CoverageProblem:
    rows = np.arange(len(pool))
    largest = float(max(np.abs(pool).max(), np.abs(references).max(initial=0.0)))
    return CoverageProblem(pool, references, rows, 1, np.ones(len(pool)), sample_rows(rows), largest=largest)


def directions_of(space: Space, width: int) -> Directions:
    """A few directions, or all features if there are no directions."""
    found = fit_directions(space)
    found = found if found.matrix is None else replace(found, width=width)
    return found.fitted(space)


def code_distances(codes: Codes, scale: Scale) -> FloatArray:
    """(n, n) lower bounds on distances from codes: by the definition of levels, and as C computes them."""
    n, step_of = len(codes.errors), np.repeat(2.0 ** np.arange(LEVELS - 1, -1, -1), np.diff([0, *scale.ends]))
    numbers = codes.numbers[:n] * step_of
    squared = ((numbers[:, None] - numbers) ** 2).sum(axis=2)
    products = numbers @ numbers.T + 128.0 * (numbers * step_of).sum(axis=1)
    assert (codes.sizes[:, :1] + codes.sizes[:, 1] - 2.0 * products == squared).all()
    return np.asarray(np.maximum(scale.step * np.sqrt(squared) - codes.errors[:, None] - codes.errors, 0.0))


@compiled_only
@given(st.integers(0, 10_000), st.sampled_from([1e-3, 1.0, 1e4]), st.sampled_from([0.0, 1.0, 100.0]))
def test_codes_bound_distances_from_below(seed: int, size: float, offset: float) -> None:
    rng = np.random.default_rng(seed)
    rank, d = int(rng.integers(1, 40)), int(rng.choice([8, 100, 600]))
    pool = rng.standard_normal((520, rank)) @ rng.standard_normal((rank, d)) * size + offset * size
    pool *= rng.choice([1.0, 1e-3], size=d)
    pool[:10], pool[20:22] = pool[10:20] * (1.0 + 1e-7), 50.0 * pool[22:24]
    space, rows = Space(problem_of(pool, pool[:1])), np.arange(60)
    exact = exact_sq_distances(np.repeat(pool[:60], 60, axis=0), np.tile(pool[:60], (60, 1))).reshape(60, 60)
    widest = fit_directions(space)
    widths = [widest] if widest.matrix is None else [replace(widest, width=width) for width in (16, 48, widest.width)]
    for chosen in (Directions.features(space).fitted(space), *(each.fitted(space) for each in widths)):
        points = chosen.points(space, pool, rows)
        sizes = points.length[:, None].astype(np.float64) ** 2 + points.length.astype(np.float64) ** 2
        squared = code_distances(points.codes, chosen.scale) ** 2 - chosen.slack * sizes
        assert (squared / space.unit <= exact * (1.0 + 1e-6)).all()
        if points.fine.numbers.shape[1]:
            apart = code_distances(points.fine, space.scale) - 1e-5 * (points.length[:, None] + points.length)
            assert (apart <= np.sqrt(exact * space.unit) * (1.0 + 1e-5)).all()


@compiled_only
def test_more_coordinates_bound_more_tightly() -> None:
    rng = np.random.default_rng(0)
    pool = rng.standard_normal((600, 600)) * np.geomspace(3.0, 0.05, 600)
    space = Space(problem_of(pool, pool[:1]))
    widest = fit_directions(space)
    found = list[float]()
    for width in (16, 32, 64):
        chosen = replace(widest, width=width).fitted(space)
        points = chosen.points(space, pool, np.arange(50))
        found.append(float(code_distances(points.codes, chosen.scale).mean()))
    assert found == sorted(found)
    assert found[-1] < code_distances(points.fine, space.scale).mean()


@compiled_only
def test_large_features_get_larger_steps_and_sums_stay_in_range() -> None:
    rng = np.random.default_rng(0)
    falling = (rng.standard_normal((300, 512)) * np.geomspace(10.0, 0.1, 512)).astype(np.float32)
    scale, one = best_scale(falling), best_scale(falling, n_levels=1)
    assert 0 < scale.ends[0] < scale.ends[1] < scale.ends[2] < scale.ends[3] == 512
    assert one.ends == (0, 0, 0, 512)
    assert encode(falling, scale).errors.mean() < 0.6 * encode(falling, one).errors.mean()
    constant = np.ones((20, 512), dtype=np.float32)
    assert best_scale(constant).ends == (0, 0, 0, 512)
    for size in (0.0, 1e-30, 1e30):
        points = np.full((4, 3), size, dtype=np.float32)
        assert (encode(points, best_scale(points)).errors >= 0.99 * 3**0.5 * max(size - 1e11, 0.0)).all()


@pytest.mark.parametrize("rank", [0, 1, 20, 200])
def test_directions_are_orthonormal_or_zero(rank: int) -> None:
    rng = np.random.default_rng(rank)
    sample = rng.standard_normal((600, rank)) @ rng.standard_normal((rank, 200))
    directions = fit_directions(Space(problem_of(sample, sample[:1]))).matrix
    assert directions is not None
    lengths = np.linalg.norm(directions.astype(np.float64), axis=0)
    np.testing.assert_allclose(directions.T.astype(np.float64) @ directions, np.diag(lengths > 0.5), atol=1e-6)
    assert np.count_nonzero(lengths) >= min(rank, directions.shape[1])


@pytest.mark.parametrize("size", [1e-6, 1.0, 1e6])
def test_the_directions_of_the_most_variance_come_first_whatever_the_unit(size: float) -> None:
    rng = np.random.default_rng(0)
    sample = rng.standard_normal((600, 200)) * np.geomspace(0.01, 1.0, 200) * size
    directions = fit_directions(Space(problem_of(sample, sample[:1]))).matrix
    assert directions is not None
    along = squared_lengths((sample @ directions / size).T.astype(np.float32))
    longest = np.linalg.svd(sample / size, compute_uv=False) ** 2
    for width in (16, 32, 64):
        assert along[:width].sum() > 0.98 * longest[:width].sum()


def test_few_features_or_rows_are_compared_without_directions() -> None:
    for pool in (np.ones((5000, 20)), np.ones((20, 400))):
        assert fit_directions(Space(problem_of(pool, pool[:1]))).matrix is None


@given(st.integers(0, 10_000))
def test_distances_to_labeled_rows_are_exact(seed: int) -> None:
    rng = np.random.default_rng(seed)
    n, d = int(rng.choice([40, 300])), int(rng.choice([1, 3, 60, 130]))
    pool = np.asarray(rng.integers(-4, 5, (n, d)) * 1.1, dtype=np.float64)
    references = np.asarray(rng.integers(-4, 5, (int(rng.integers(1, 200)), d)) * 1.1, dtype=np.float64)
    space = Space(problem_of(pool, references))
    chosen = directions_of(space, 16)
    found = Nearest(space, lambda *_: None).squared_distances(np.arange(n), chosen)
    assert found.tobytes() == squared_radii(pool, references).tobytes()


def test_known_distances_are_not_computed_again_and_new_labels_are_compared() -> None:
    rng = np.random.default_rng(0)
    pool, references = rng.standard_normal((50, 4)), rng.standard_normal((20, 4))
    known = Known(np.full(50, np.inf), np.zeros(50, dtype=np.int32), np.empty(0, dtype=np.int64))
    for n_labeled, rows in ((12, np.arange(0, 50, 2)), (20, np.arange(50))):
        problem = problem_of(pool, references[:n_labeled])
        object.__setattr__(problem, "known", known)
        space = Space(problem)
        found = Nearest(space, lambda *_: None).squared_distances(rows, directions_of(space, 16))
        assert found.tobytes() == squared_radii(pool[rows], references[:n_labeled]).tobytes()
        assert set(known.seen[rows].tolist()) == {n_labeled}
    assert known.seen.tolist() == [20] * 50


@compiled_only
def test_the_width_of_lowest_cost_is_chosen() -> None:
    rng = np.random.default_rng(0)
    flat = rng.standard_normal((700, 16)) @ rng.standard_normal((16, 400))
    round_ = rng.standard_normal((700, 400))
    for pool, near, expected in ((flat, 0.02, 32), (round_, 0.7, 400)):
        space = Space(problem_of(pool, pool[:1]))
        typical = float(np.median(exact_sq_distances(pool[1:], pool[:-1])))
        chosen = choose_width(space, fit_directions(space), np.arange(700), np.full(700, near * typical))
        assert chosen.width == expected


@compiled_only
@given(st.integers(0, 10_000))
def test_cells_do_not_change_distances_to_labeled_rows(seed: int) -> None:
    assert steps is not None
    rng = np.random.default_rng(seed)
    d, centers = int(rng.choice([2, 20, 130])), 5.0 * rng.standard_normal((10, 130))
    pool = rng.standard_normal((3300, d)) + centers[rng.integers(10, size=3300), :d]
    references = np.concatenate([pool[:200], 2.0 * pool[:100], 40.0 + pool[:3]])
    space, used = Space(problem_of(pool, references)), np.arange(0, 3300, int(rng.integers(1, 3)))
    chosen = directions_of(space, 16)
    cloud = PointCloud(steps, space, chosen, np.arange(3300))
    found = Nearest(space, lambda *_: None).squared_distances(used, chosen, cloud)
    assert len(cloud.cells.centers) >= 5
    assert found.tobytes() == squared_radii(pool[used], references).tobytes()


@compiled_only
def test_projections_between_centers_bound_distances() -> None:
    assert steps is not None
    rng = np.random.default_rng(0)
    pool = rng.standard_normal((4000, 20)) + 4.0 * rng.standard_normal((5, 20))[rng.integers(5, size=4000)]
    space = Space(problem_of(pool, pool[:1]))
    whole = directions_of(space, 20)
    points = whole.points(space, pool, np.arange(4000))
    cells = find_cells(steps, points)
    cell_of_point = cells.nearest(steps, points)
    gaps, slack = cells.gaps(whole)
    assert 5 <= len(cells.centers) <= 10
    products = points.head[:4000] @ cells.centers.T
    for x, y in rng.integers(4000, size=(500, 2)).tolist():
        a, c = cell_of_point[[x, y]].tolist()
        if a != c:
            between = (products[y, c] - products[y, a]) - (products[x, c] - products[x, a])
            low = (between - slack[c, a] * (points.length[x] + points.length[y])) * gaps[c, a]
            assert low <= np.linalg.norm(pool[x] - pool[y])


@pytest.mark.parametrize(("n_rows", "n_chosen", "expected"), [(5, 2, [0, 2]), (2, 5, [0, 1]), (0, 3, [])])
def test_chosen_rows_are_evenly_spaced(n_rows: int, n_chosen: int, expected: list[int]) -> None:
    assert evenly_spaced(n_rows, n_chosen).tolist() == expected
