"""Probes never say that points are farther apart than they are."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from dubito.core.coverage_reference import CoverageProblem, sample_rows
from dubito.core.distances import settle, squared_radii
from dubito.core.problem import Known
from dubito.engines.cpu.coverage.pairs import upper_kernels
from dubito.engines.cpu.coverage.solver import choose_probes
from dubito.engines.cpu.coverage.space import WIDTHS, Nearest, Probes, Space, evenly, fit_probes, right
from dubito.engines.cpu.products import Packed
from dubito.engines.lazy.bounds import Float32Array, squared_lengths
from dubito.matrix import FloatArray


def problem_of(pool: FloatArray, references: FloatArray) -> CoverageProblem:
    rows = np.arange(len(pool))
    largest = float(max(np.abs(pool).max(), np.abs(references).max(initial=0.0)))
    return CoverageProblem(pool, references, rows, 1, np.ones(len(pool)), sample_rows(rows), largest=largest)


def nearness(probes: Probes, left: Float32Array, other: Float32Array) -> FloatArray:
    products = probes.left(left, squared_lengths(left)) @ right(probes.left(other, squared_lengths(other))).T
    return products.astype(np.float64)


@given(st.integers(0, 10_000), st.sampled_from([1e-3, 1.0, 1e4]), st.sampled_from([0.0, 1.0, 100.0]))
def test_probes_bound_distances_from_below(seed: int, scale: float, offset: float) -> None:
    rng = np.random.default_rng(seed)
    rank, d = int(rng.integers(1, 40)), int(rng.choice([8, 60, 200]))
    pool = rng.standard_normal((120, rank)) @ rng.standard_normal((rank, d)) * scale + offset * scale
    pool[:10] = pool[10:20] * (1.0 + 1e-7)
    space = Space(problem_of(pool, pool[:1]))
    shifted, exact = space.shifted(slice(0, 120)), settle(np.repeat(pool, 120, axis=0), np.tile(pool, (120, 1)))
    widest = fit_probes(shifted)
    for probes in {width: widest.narrow(width) for width in (16, 48, d)}.values():
        bound = -2.0 * nearness(probes, shifted, shifted).ravel() / space.unit
        assert (bound <= exact * (1.0 + 1e-12)).all()


def test_wider_probes_bound_more_tightly() -> None:
    rng = np.random.default_rng(0)
    pool = rng.standard_normal((600, 200)) * np.geomspace(3.0, 0.05, 200)
    shifted = Space(problem_of(pool, pool[:1])).shifted(slice(0, 600))
    widest = fit_probes(shifted)
    bounds = [-2.0 * nearness(widest.narrow(width), shifted, shifted).mean() for width in (16, 32, 64, 96, 200)]
    assert bounds == sorted(bounds)


@pytest.mark.parametrize("rank", [0, 1, 20, 200])
def test_directions_are_orthonormal_or_nothing(rank: int) -> None:
    rng = np.random.default_rng(rank)
    sample = rng.standard_normal((600, rank)) @ rng.standard_normal((rank, 200))
    directions = fit_probes(sample.astype(np.float32)).directions
    assert directions is not None
    lengths = np.linalg.norm(directions.astype(np.float64), axis=0)
    np.testing.assert_allclose(directions.T.astype(np.float64) @ directions, np.diag(lengths > 0.5), atol=1e-6)
    assert np.count_nonzero(lengths) >= min(rank, directions.shape[1])


@pytest.mark.parametrize("size", [1e-6, 1.0, 1e6])
def test_the_longest_directions_come_first_whatever_the_unit(size: float) -> None:
    rng = np.random.default_rng(0)
    sample = (rng.standard_normal((600, 200)) * np.geomspace(0.01, 1.0, 200) * size).astype(np.float32)
    directions = fit_probes(sample).directions
    assert directions is not None
    along = squared_lengths((sample @ directions / size).T)
    longest = np.linalg.svd(sample / size, compute_uv=False) ** 2
    for width in (16, 32, 64):
        assert along[:width].sum() > 0.98 * longest[:width].sum()


@pytest.mark.parametrize("threads", [None, 1])
@pytest.mark.parametrize("m", [1, 64, 100])
def test_rows_that_are_packed_give_products_with_any_others(m: int, threads: int | None) -> None:
    rng = np.random.default_rng(m)
    packed_rows = rng.integers(-9, 9, (m, 35)).astype(np.float32)
    packed = Packed(packed_rows)
    for n in (1, 50):
        left = rng.integers(-9, 9, (n, 35)).astype(np.float32)
        assert packed.product(left, threads).tolist() == (left @ packed_rows.T).tolist()


def test_few_features_are_their_own_probe() -> None:
    assert fit_probes(np.ones((5000, 20), dtype=np.float32)).directions is None
    assert fit_probes(np.ones((20, 400), dtype=np.float32)).directions is None
    wide = fit_probes(np.random.default_rng(0).standard_normal((600, 600)).astype(np.float32))
    assert wide.width == max(WIDTHS)
    assert wide.narrow(600).directions is None


def test_kernels_are_bounded_from_above() -> None:
    squared = np.linspace(-0.1, 1.5, 1000)
    exact = np.maximum(1.0 - np.maximum(squared, 0.0), 0.0) ** 2
    assert (upper_kernels(squared, 1.0) >= exact).all()
    assert upper_kernels(squared, 1.0).max() == 1.0


@given(st.integers(0, 10_000))
def test_distances_to_what_is_labeled_are_exact(seed: int) -> None:
    rng = np.random.default_rng(seed)
    d = int(rng.choice([1, 3, 60]))
    pool = np.asarray(rng.integers(-4, 5, (40, d)) * 1.1, dtype=np.float64)
    references = np.asarray(rng.integers(-4, 5, (int(rng.integers(1, 30)), d)) * 1.1, dtype=np.float64)
    space = Space(problem_of(pool, references))
    found = Nearest(space, None).of(np.arange(40), fit_probes(space.sample()))
    assert found.tobytes() == squared_radii(pool, references).tobytes()


def test_what_is_known_is_not_looked_at_again_and_new_labels_are() -> None:
    rng = np.random.default_rng(0)
    pool, references = rng.standard_normal((50, 4)), rng.standard_normal((20, 4))
    known = Known(np.full(50, np.inf), np.zeros(50, dtype=np.int32), np.empty(0, dtype=np.int64))
    space = Space(problem_of(pool, references[:12]))
    Nearest(space, known).of(np.arange(0, 50, 2), Probes(None, 4))
    assert known.seen.tolist() == [12, 0] * 25
    later = Space(problem_of(pool, references))
    found = Nearest(later, known).of(np.arange(50), Probes(None, 4))
    assert found.tobytes() == squared_radii(pool, references).tobytes()
    assert set(known.seen.tolist()) == {20}


def test_the_width_that_costs_least_is_taken() -> None:
    rng = np.random.default_rng(0)
    flat = rng.standard_normal((700, 16)) @ rng.standard_normal((16, 400))
    round_ = rng.standard_normal((700, 400))
    for pool, near, expected in ((flat, 0.1, 16), (round_, 0.9, 400)):
        space = Space(problem_of(pool, pool[:1]))
        typical = float(np.median(settle(pool[1:], pool[:-1])))
        probes, share = choose_probes(space, fit_probes(space.sample()), np.arange(700), np.full(700, near * typical))
        assert probes.width == expected
        assert 0.0 <= share <= 1.0


@pytest.mark.parametrize(("n_rows", "n_chosen", "expected"), [(5, 2, [0, 2]), (2, 5, [0, 1]), (0, 3, [])])
def test_rows_are_chosen_evenly(n_rows: int, n_chosen: int, expected: list[int]) -> None:
    assert evenly(n_rows, n_chosen).tolist() == expected
