from fractions import Fraction
from itertools import pairwise

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays

from dubito.core.distances import (
    SUM_ROWS,
    core_set_radii,
    exact_sq_distances,
    feature_sums,
    read_rows,
    scaled_sq_distances_from_mean,
    squared_radii,
    sums_by_halving,
    unit_rows,
)
from dubito.matrix import AnyArray, FloatArray

NUMBERS = st.floats(-1e6, 1e6, allow_subnormal=False)


def matrices(n_rows: int, n_columns: int) -> st.SearchStrategy[FloatArray]:
    return arrays(np.float64, (n_rows, n_columns), elements=NUMBERS)


def halving(terms: list[float]) -> float:
    """The upper half onto the lower half, again and again."""
    while len(terms) > 1:
        half = (len(terms) + 1) // 2
        upper = terms[half:] + [0.0] * (2 * half - len(terms))
        terms = [low + high for low, high in zip(terms[:half], upper, strict=True)]
    return terms[0]


@given(st.integers(1, 33).flatmap(lambda d: matrices(2, d)))
def test_a_distance_is_added_in_one_fixed_order(pair: FloatArray) -> None:
    expected = halving([(a - b) * (a - b) for a, b in pair.T.tolist()])
    assert exact_sq_distances(pair[:1], pair[1]).tolist() == [expected]


@given(st.integers(1, 40), st.integers(0, 2**31))
def test_a_distance_has_the_same_bits_in_every_layout_and_block(d: int, seed: int) -> None:
    rng = np.random.default_rng(seed)
    points, other = rng.standard_normal((9, d)), rng.standard_normal(d)
    whole = exact_sq_distances(points, other)
    assert exact_sq_distances(np.asfortranarray(points), other).tobytes() == whole.tobytes()
    assert exact_sq_distances(np.repeat(points, 2, axis=0)[::2], other).tobytes() == whole.tobytes()
    assert np.concatenate([exact_sq_distances(points[i : i + 1], other) for i in range(9)]).tobytes() == whole.tobytes()
    assert exact_sq_distances(points, np.tile(other, (9, 1))).tobytes() == whole.tobytes()


@given(arrays(np.int64, (2, 7), elements=st.integers(-(10**6), 10**6)))
def test_integer_features_have_no_rounding(pair: AnyArray) -> None:
    exact = sum(Fraction(int(a) - int(b)) ** 2 for a, b in pair.T)
    assert Fraction(float(exact_sq_distances(pair[:1].astype(float), pair[1].astype(float))[0])) == exact


def test_no_features_add_up_to_nothing() -> None:
    assert sums_by_halving(np.empty((3, 0))).tolist() == [0.0, 0.0, 0.0]


def test_settling_changes_neither_side() -> None:
    points, other = np.eye(3), np.ones(3)
    exact_sq_distances(points, other)
    assert (points.tolist(), other.tolist()) == (np.eye(3).tolist(), [1.0, 1.0, 1.0])


def test_rows_are_read_into_memory_of_their_own() -> None:
    pool = np.eye(3)
    read_rows(pool, slice(None))[:] = 7.0
    assert pool.tolist() == np.eye(3).tolist()


@given(arrays(np.float64, (4, 3), elements=st.integers(1, 10**6)), st.integers(-40, 40))
def test_a_power_of_two_does_not_change_a_direction(rows: FloatArray, exponent: int) -> None:
    assert unit_rows(np.ldexp(rows, exponent)).tobytes() == unit_rows(rows).tobytes()


@pytest.mark.parametrize("scale", [1e-300, 1e-30, 1.0, 1e130])
def test_unit_rows_have_length_one_at_every_scale(scale: float) -> None:
    rows = np.random.default_rng(0).standard_normal((20, 5)) * scale
    assert np.linalg.norm(unit_rows(rows), axis=1) == pytest.approx(np.ones(20), rel=1e-15)


@given(st.integers(1, 12), st.integers(0, 9), st.integers(1, 200), st.integers(1, 5), st.integers(0, 2**31))
def test_radii_are_the_smallest_distances_whatever_the_batch(n: int, m: int, d: int, batch: int, seed: int) -> None:
    rng = np.random.default_rng(seed)
    offset = rng.choice([0.0, 1e7])
    points, references = rng.standard_normal((n, d)) + offset, rng.standard_normal((m, d)) + offset
    expected = np.array(
        [min((float(exact_sq_distances(p[None], r)[0]) for r in references), default=np.inf) for p in points]
    )
    for dtype in (np.float64, np.float32):
        if dtype is np.float32:
            points, references = points.astype(dtype), references.astype(dtype)
            wide, others = points.astype(np.float64), references.astype(np.float64)
            expected = np.array(
                [min((float(exact_sq_distances(p[None], r)[0]) for r in others), default=np.inf) for p in wide]
            )
        assert squared_radii(points, references, batch_size=batch).tobytes() == expected.tobytes()
        assert core_set_radii(points, references, batch_size=batch).tobytes() == np.sqrt(expected).tobytes()


def test_the_cosine_distance_is_the_chord() -> None:
    pool = np.array([[2.0, 0.0], [0.0, 5.0], [-1.0, 0.0]])
    assert squared_radii(pool, pool[:1], "cosine").tolist() == [0.0, 2.0, 4.0]


@given(st.lists(st.integers(-9, 9), min_size=1, max_size=30))
def test_the_point_nearest_the_mean_is_found_without_rounding(line: list[int]) -> None:
    n, total = len(line), sum(line)
    found = scaled_sq_distances_from_mean(np.array(line, dtype=np.float32)[:, None], np.arange(n))
    assert found.tolist() == [float((n * x - total) ** 2) for x in line]


def test_sums_take_every_block_and_do_not_depend_on_the_layout() -> None:
    pool = np.random.default_rng(1).standard_normal((2 * SUM_ROWS + 100, 3))
    whole = feature_sums(pool)
    assert whole == pytest.approx(pool.sum(axis=0), rel=1e-12)
    assert feature_sums(np.asfortranarray(pool)).tobytes() == whole.tobytes()
    totals = [feature_sums(pool[:stop]) for stop in (SUM_ROWS, 2 * SUM_ROWS)]
    assert all(not np.array_equal(one, other) for one, other in pairwise([*totals, whole]))
