"""All rounding bounds, compared with exact fractions at the limits of float32 and float64."""

from collections.abc import Iterator
from contextlib import contextmanager
from fractions import Fraction
from typing import Any

import numpy as np
import numpy.typing as npt
import pytest
from hypothesis import given
from hypothesis import strategies as st

from dubito import native as compiled
from dubito.core import distances
from dubito.core.distances import QUANTUM, UNIT64, exact_sq_distances, squared_radii
from dubito.core.problem import Problem, Scaling
from dubito.engines.cpu.anchors import DistanceBounds
from dubito.engines.cpu.engine import CpuEngine
from dubito.engines.cpu.kernels import CandidateGroup, CpuKernels, Pairs
from dubito.engines.cpu.sketch import Sketch, fit_sketch, plain_sketch
from dubito.engines.cuda.engine import CudaEngine
from dubito.engines.lazy.bounds import (
    FLOOR,
    FLOOR_LENGTH,
    SMALLEST,
    UNIT,
    WIDEST_ROW,
    Float32Array,
    gamma,
    product_slack,
    scale_for,
    squared_lengths,
)
from dubito.matrix import FloatArray
from dubito.testing.problems import EDGES

SEEDS = st.integers(0, 2**31)
WIDTHS = st.sampled_from([1, 2, 3, 8, 17, 40])
Edge = st.sampled_from(EDGES)


def exact_squared(x: FloatArray, y: FloatArray) -> Fraction:
    """Δ² without rounding."""
    return sum(((Fraction(a) - Fraction(b)) ** 2 for a, b in zip(x.tolist(), y.tolist(), strict=True)), Fraction(0))


def add(terms: Float32Array, order: str) -> np.float32:
    """A sum in float32, one after another from the front or the back, or by halves."""
    if order == "halves":
        while len(terms) > 1:
            half = (len(terms) + 1) // 2
            upper = np.zeros(half, dtype=np.float32)
            upper[: len(terms) - half] = terms[half:]
            terms = terms[:half] + upper
        return np.float32(terms[0])
    total = np.float32(0.0)
    for term in terms if order == "front" else terms[::-1]:
        total = np.float32(total + term)
    return total


def sketch_for(points: FloatArray) -> Sketch:
    return plain_sketch(points, float(np.abs(points).max()))


@given(SEEDS, Edge, WIDTHS, st.sampled_from(["front", "back", "halves"]))
def test_products_in_any_order_stay_within_their_slack(seed: int, edge: Any, d: int, order: str) -> None:
    points = edge(np.random.default_rng(seed), (3, d))
    plain = sketch_for(points)
    shifted = plain.shift(points)
    for left, right in ((0, 1), (0, 2), (1, 2)):
        x, y = shifted[left], shifted[right]
        with np.errstate(under="ignore"):
            sizes = [add(each * each, order) for each in (x, y)]
            product = add(x * y, order)
            # The sums of a front, and those of a probe and its target, which contains the target's squared length.
            front = np.float32(np.float32(np.float32(-2.0) * product + sizes[1]) + sizes[0])
            target = add(np.append(np.float32(2.0) * x * y, -sizes[1]), order)
        truth = exact_squared(points[left], points[right]) * Fraction(plain.scale) ** 2
        allowed = Fraction(plain.slack) * (Fraction(float(sizes[0])) + Fraction(float(sizes[1]))) + Fraction(FLOOR)
        assert abs(Fraction(float(front)) - truth) <= allowed
        assert abs(Fraction(float(sizes[0])) - Fraction(float(target)) - truth) <= allowed


def test_a_tenth_of_the_slack_is_not_enough() -> None:
    # Every term after the first is half a unit in the last place: if terms are added in order, all of them are lost.
    d = 4096
    x = np.full(d, 2.0**-12.5, dtype=np.float32)
    x[0] = 1.0
    truth = sum((Fraction(float(each)) ** 2 for each in x), Fraction(0))
    lost = abs(Fraction(float(add(x * x, "front"))) - truth)
    assert lost > Fraction(product_slack(d)) * truth / 10
    assert lost <= Fraction(gamma(d)) * truth


@given(SEEDS, Edge)
def test_a_sketched_distance_is_never_larger_than_the_distance(seed: int, edge: Any) -> None:
    points = edge(np.random.default_rng(seed), (140, 160))
    plain = sketch_for(points)
    fitted = fit_sketch(plain, plain.shift(points))
    assert fitted.directions is not None
    shifted = fitted.shift(points[:6])
    sketches, margins = fitted.apply(shifted, squared_lengths(shifted))
    for left in range(6):
        for right in range(left):
            product = float(np.float32(sketches[left] @ sketches[right]))
            lowest = Fraction(margins[left]) + Fraction(margins[right]) - 2 * Fraction(product) - Fraction(FLOOR)
            truth = exact_squared(points[left], points[right]) * Fraction(fitted.scale) ** 2
            assert lowest <= truth


@given(SEEDS, Edge, WIDTHS)
def test_first_bounds_are_never_below_the_distance_that_decides(seed: int, edge: Any, d: int) -> None:
    points = edge(np.random.default_rng(seed), (12, d))
    plain = sketch_for(points)
    shifted = plain.shift(points)
    for other in range(4):
        reach = DistanceBounds(plain, shifted[other : other + 1], squared_lengths(shifted[other : other + 1]))
        bounds, _ = reach.nearest(shifted)
        assert (bounds >= exact_sq_distances(points, points[other])).all()


def problem_of(points: FloatArray, weights: FloatArray | None, scaling: Scaling) -> Problem:
    n_labeled = len(points) // 3
    return Problem(
        points,
        points[:n_labeled],
        np.arange(n_labeled, len(points)),
        4,
        weights=weights,
        scaling=scaling,
        largest=float(np.abs(points).max()),
    )


def some_weights(rng: np.random.Generator, n: int) -> FloatArray:
    """From 1 down to the last numbers of float64."""
    return np.asarray(rng.random(n) * 10.0 ** rng.choice([0.0, -8.0, -40.0, -300.0, -320.0], n))


@given(SEEDS, Edge, WIDTHS)
def test_tightened_pairs_hold_the_priority_that_decides(seed: int, edge: Any, d: int) -> None:
    rng = np.random.default_rng(seed)
    points = edge(rng, (15, d))
    problem = problem_of(points, some_weights(rng, 15), "respective")
    kernels, rows = CpuKernels(problem), problem.candidates
    weights = np.asarray(problem.weights)[rows]
    for reference in range(5):
        group = CandidateGroup(kernels.references, rows, np.full(len(rows), np.inf), weights, 0.0)
        pairs = Pairs(np.arange(len(rows)), np.full(len(rows), reference), np.zeros(len(rows)))
        lowest = group._tighten(pairs).lowest
        exact = exact_sq_distances(points[rows], points[reference]) * weights
        assert (lowest <= exact + SMALLEST).all()
        assert (group.limits >= exact).all()


@contextmanager
def without_compiled_steps(is_so: bool) -> Iterator[None]:
    steps, compiled.steps = compiled.steps, None if is_so else compiled.steps
    try:
        yield
    finally:
        compiled.steps = steps


@given(SEEDS, Edge, WIDTHS, st.sampled_from(["respective", "acquired"]), st.booleans())
def test_no_reference_that_could_be_nearest_is_ruled_out(
    seed: int, edge: Any, d: int, scaling: Scaling, is_numpy: bool
) -> None:
    rng = np.random.default_rng(seed)
    points = edge(rng, (24, d))
    problem = problem_of(points, some_weights(rng, 24), scaling)
    with without_compiled_steps(is_numpy):
        kernels, n = CpuKernels(problem), len(problem.candidates)
        picks = np.arange(3)
        kernels.add_references(picks)
        start = np.full(n - 3, np.inf)
        exact, is_fresh = kernels.refresh(np.arange(3, n), start, np.zeros(n - 3, dtype=np.int32), 0.0)
    weights = np.asarray(problem.weights)[problem.candidates]
    own, others = points[problem.candidates[3:]], points[problem.candidates[picks]]
    labeled = np.min([exact_sq_distances(own, each) for each in points[:8]], axis=0) * weights[3:]
    scales = weights[picks, None] if scaling == "acquired" else weights[None, 3:]
    chosen = np.min([exact_sq_distances(own, each) for each in others] * scales, axis=0)
    assert is_fresh.all()
    assert exact.tolist() == np.minimum(labeled, chosen).tolist()


@given(SEEDS, Edge, WIDTHS, st.sampled_from(["respective", "acquired"]), st.booleans())
def test_a_front_holds_the_priority_that_decides(
    seed: int, edge: Any, d: int, scaling: Scaling, is_numpy: bool
) -> None:
    rng = np.random.default_rng(seed)
    points = edge(rng, (15, d))
    problem = problem_of(points, some_weights(rng, 15), scaling)
    with without_compiled_steps(is_numpy):
        front = CpuKernels(problem).front(np.arange(10))
    weights = np.asarray(problem.weights)[problem.candidates]
    low, high = front.bounds_between(np.arange(10), np.arange(10))
    for pick in range(10):
        squared = exact_sq_distances(points[problem.candidates], points[problem.candidates[pick]])
        exact = squared * (weights[pick] if scaling == "acquired" else weights)
        others = np.arange(10) != pick
        assert (low[pick][others] <= exact[others] + SMALLEST).all()
        assert (high[pick][others] >= exact[others]).all()


@given(SEEDS, Edge, WIDTHS)
def test_what_decides_is_off_by_a_few_roundings_of_float64(seed: int, edge: Any, d: int) -> None:
    points = edge(np.random.default_rng(seed), (4, d))
    found = exact_sq_distances(points, points[0])
    for row, value in zip(points, found.tolist(), strict=True):
        truth = exact_squared(row, points[0])
        allowed = (d.bit_length() + 4) * Fraction(UNIT64) * truth + d * Fraction(QUANTUM)
        assert abs(Fraction(value) - truth) <= allowed


@given(SEEDS, Edge, WIDTHS)
def test_radii_are_those_of_the_nearest_reference_to_the_last_bit(seed: int, edge: Any, d: int) -> None:
    points = edge(np.random.default_rng(seed), (20, d))
    found = squared_radii(points[:12], points[12:], batch_size=5)
    assert found.tolist() == np.min([exact_sq_distances(points[:12], each) for each in points[12:]], axis=0).tolist()


# The constants


def test_the_floor_is_more_than_all_that_products_lose_to_underflow() -> None:
    assert FLOOR >= 4 * WIDEST_ROW * 2.0**-126
    assert pytest.approx(FLOOR_LENGTH**2) == FLOOR


@pytest.mark.parametrize("largest", [5e-324, 1e-200, 1e-145, 1e-37, 1.0, 3.5, 1e37, 1e140])
def test_a_scale_is_a_power_of_two_that_keeps_the_floor_above_the_smallest(largest: float) -> None:
    scale = scale_for(largest)
    assert np.frexp(scale)[0] == 0.5
    assert 2.0 * largest * scale <= 1.0
    assert FLOOR / scale**2 >= SMALLEST
    assert SMALLEST >= WIDEST_ROW * QUANTUM
    assert np.isfinite(scale**2)
    assert scale**2 > 0.0


def test_slacks_grow_with_the_width_and_stay_below_one() -> None:
    slacks = [product_slack(width) for width in (1, 64, 512, 4096, WIDEST_ROW)]
    assert slacks == sorted(slacks)
    assert 0.0 < slacks[0] < slacks[-1] < 1.0
    assert slacks[2] < 2000 * UNIT


def test_rows_wider_than_the_bounds_hold_for_are_left_to_the_reference() -> None:
    pool = np.broadcast_to(np.float32(0.0), (2, WIDEST_ROW + 1))
    problem = Problem(pool, pool[:1], np.arange(2), 1)
    refusal = f"{WIDEST_ROW + 1} features are more than the {WIDEST_ROW} it has bounds for"
    assert CpuEngine().refusals(problem) == CudaEngine().refusals(problem) == [refusal]


# Ten bits, and three times ten bits


def cut(values: Float32Array) -> Float32Array:
    """float32 truncated to ten bits, as tensor cores read it."""
    kept: npt.NDArray[np.uint32] = values.view(np.uint32) & np.uint32(0xFFFFE000)
    return kept.view(np.float32)


@given(SEEDS, WIDTHS)
def test_products_of_ten_bits_and_of_three_parts_stay_within_their_slack(seed: int, d: int) -> None:
    torch = pytest.importorskip("torch")
    pytest.importorskip("triton")
    from dubito.engines.cuda.points import choose_transform

    rng = np.random.default_rng(seed)
    points = (rng.standard_normal((2, d)) * 10.0 ** rng.integers(-3, 3, d)).astype(np.float32)
    shape = choose_transform(torch.from_numpy(points).double(), torch.float32, float(np.abs(points).max()))
    x, y = shape.apply(torch.from_numpy(points)).numpy()
    sizes = Fraction(float(squared_lengths(x[None])[0])) + Fraction(float(squared_lengths(y[None])[0]))
    truth = exact_squared(points[0].astype(float), points[1].astype(float)) * Fraction(shape.scale) ** 2
    ten = add(cut(x) * cut(y), "front")
    rests = cut(x - cut(x)), cut(y - cut(y))
    three = add(cut(x) * rests[1] + rests[0] * cut(y), "front") + ten
    assert abs(sizes - 2 * Fraction(float(ten)) - truth) <= Fraction(shape.loose) * sizes + Fraction(FLOOR)
    assert abs(sizes - 2 * Fraction(float(three)) - truth) <= Fraction(shape.slack) * sizes + Fraction(FLOOR)


def test_distances_and_engines_agree_on_the_unit_of_float64() -> None:
    assert distances.UNIT64 == UNIT64 == np.finfo(np.float64).eps / 2
    assert np.finfo(np.float32).eps / 2 == UNIT
