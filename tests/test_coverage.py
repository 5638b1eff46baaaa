"""The oracle of coverage against a second one: the formula word for word, over exact fractions."""

from dataclasses import dataclass
from fractions import Fraction

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from dubito.core import coverage_reference as coverage
from dubito.core.coverage_reference import CoverageProblem, kernel, sample_rows, spread_pairs, squared_reach
from dubito.matrix import FloatArray
from levels import examples

Row = tuple[int, ...]


@dataclass(frozen=True)
class Small:
    """A small problem of which float64 computes every number without rounding."""

    pool: list[Row]
    labeled: list[Row]
    weights: list[Fraction]
    candidates: list[int]
    budget: int
    reach: int

    def to_problem(self) -> CoverageProblem:
        rows = np.arange(len(self.pool))
        return CoverageProblem(
            pool=np.array(self.pool, dtype=np.float64),
            references=np.array(self.labeled, dtype=np.float64).reshape(-1, len(self.pool[0])),
            candidates=np.array(self.candidates),
            budget=self.budget,
            weights=np.array([float(weight) for weight in self.weights]),
            sample=rows,
            radius=float(self.reach),
        )

    def near(self, left: Row, right: Row) -> Fraction:
        squared = sum((a - b) ** 2 for a, b in zip(left, right, strict=True))
        return max(1 - Fraction(squared, self.reach**2), Fraction(0)) ** 2

    def covered(self, picks: list[int]) -> Fraction:
        known = [*self.labeled, *(self.pool[pick] for pick in picks)]
        best = [max((self.near(row, other) for other in known), default=Fraction(0)) for row in self.pool]
        return sum((w * k for w, k in zip(self.weights, best, strict=True)), Fraction(0))

    def solve(self) -> tuple[list[int], list[Fraction]]:
        picks, added = list[int](), list[Fraction]()
        for _ in range(self.budget):
            left = [row for row in self.candidates if row not in picks]
            gains = [self.covered([*picks, row]) - self.covered(picks) for row in left]
            picks.append(left[gains.index(max(gains))])
            added.append(max(gains))
        return picks, added


@st.composite
def smalls(draw: st.DrawFn) -> Small:
    d, n = draw(st.integers(1, 3)), draw(st.integers(1, 7))
    row = st.tuples(*[st.integers(-4, 4)] * d)
    candidates = sorted(draw(st.sets(st.integers(0, n - 1), min_size=1)))
    return Small(
        pool=draw(st.lists(row, min_size=n, max_size=n)),
        labeled=draw(st.lists(row, max_size=3)),
        weights=draw(st.lists(st.sampled_from([Fraction(k, 4) for k in range(5)]), min_size=n, max_size=n)),
        candidates=candidates,
        budget=draw(st.integers(1, len(candidates))),
        reach=draw(st.sampled_from([1, 2, 4, 8, 16])),
    )


@given(smalls())
@settings(max_examples=examples(200), deadline=None)
def test_picks_and_priorities_are_those_of_the_formula(small: Small) -> None:
    picks, added = small.solve()
    found = coverage.greedy(small.to_problem())
    assert found.indices.tolist() == picks
    assert found.priorities.tolist() == [float(each) for each in added]


@given(smalls())
@settings(max_examples=examples(50), deadline=None)
def test_covered_is_the_share_of_all_weight_after_each_pick(small: Small) -> None:
    found, total = coverage.greedy(small.to_problem()), sum(small.weights)
    expected = [
        float(small.covered(found.indices[: rank + 1].tolist()) / total) if total else 1.0
        for rank in range(small.budget)
    ]
    assert found.covered is not None
    np.testing.assert_allclose(found.covered, expected, rtol=1e-15)


def test_the_kernel_is_one_at_a_point_and_nothing_at_the_reach() -> None:
    assert kernel(np.array([0.0, 1.0, 4.0, 5.0]), 4.0).tolist() == [1.0, 0.5625, 0.0, 0.0]


def made_of(
    pool: FloatArray, labeled: FloatArray, weights: FloatArray | None = None, budget: int = 1
) -> CoverageProblem:
    rows = np.arange(len(pool))
    return CoverageProblem(pool, labeled, rows, budget, np.ones(len(pool)) if weights is None else weights, rows)


def test_the_reach_is_the_median_distance_to_what_is_labeled_times_the_factor() -> None:
    pool = np.array([[1.0], [2.0], [3.0], [10.0], [40.0]])
    assert squared_reach(made_of(pool, np.zeros((1, 1)))) == pytest.approx(1.4 * 1.4 * 9.0, rel=1e-15)


def test_copies_of_what_is_labeled_do_not_shrink_the_reach() -> None:
    pool = np.array([[0.0]] * 7 + [[1.0], [2.0], [3.0]])
    assert squared_reach(made_of(pool, np.zeros((1, 1)))) == pytest.approx(1.4 * 1.4 * 4.0, rel=1e-15)


def test_a_cold_start_reaches_half_the_median_distance_of_pairs() -> None:
    pool = np.arange(4.0)[:, None] * 2.0
    left, right = spread_pairs(4)
    distances = sorted(abs(pool[left, 0] - pool[right, 0]).tolist())
    positive = [each for each in distances if each > 0]
    reach = squared_reach(made_of(pool, np.empty((0, 1))))
    assert reach == (positive[(len(positive) - 1) // 2] / 2) ** 2


@pytest.mark.parametrize("n_rows", [1, 2, 3, 10, 4096])
def test_pairs_are_spread_over_all_rows(n_rows: int) -> None:
    left, right = spread_pairs(n_rows)
    assert left.tolist() == list(range(n_rows))
    assert ((right >= 0) & (right < n_rows)).all()
    assert len(np.unique(right)) >= n_rows / 2


def test_the_sample_is_even_and_no_larger_than_its_limit() -> None:
    assert sample_rows(np.arange(5)).tolist() == [0, 1, 2, 3, 4]
    large = sample_rows(np.arange(1_000_000))
    assert len(large) == coverage.SAMPLE_ROWS
    assert set(np.diff(large)) == {244, 245}
    assert sample_rows(np.empty(0, dtype=np.int64)).tolist() == []


def test_where_everything_is_a_copy_the_largest_weights_are_picked_ties_to_the_lowest_index() -> None:
    weights = np.array([0.5, 1.0, 0.25, 1.0, 0.0])
    found = coverage.greedy(made_of(np.zeros((5, 2)), np.zeros((1, 2)), weights, budget=5))
    assert found.reach == 0.0
    assert found.indices.tolist() == [1, 3, 0, 2, 4]
    assert found.priorities.tolist() == [1.0, 1.0, 0.5, 0.25, 0.0]


def test_an_outlier_is_picked_last_where_a_core_set_would_pick_it_first() -> None:
    pool = np.array([[0.0], [0.1], [0.2], [0.3], [1000.0]])
    found = coverage.greedy(made_of(pool, np.array([[3.0]]), budget=2))
    assert found.indices[0] in (1, 2)


def test_kernels_that_are_not_kept_give_the_same_picks(monkeypatch: pytest.MonkeyPatch) -> None:
    pool = np.random.default_rng(0).standard_normal((30, 3))
    problem = made_of(pool, pool[:2] + 0.1, budget=10)
    kept = coverage.greedy(problem)
    monkeypatch.setattr(coverage, "KEPT_BYTES", 0)
    again = coverage.greedy(problem)
    assert again.indices.tolist() == kept.indices.tolist()
    assert again.priorities.tobytes() == kept.priorities.tobytes()


def test_rows_that_add_nothing_change_no_bit_of_a_sum() -> None:
    terms = np.random.default_rng(0).random(1000)
    spread = np.zeros(3000)
    spread[np.sort(np.random.default_rng(1).permutation(3000)[:1000])] = terms
    assert coverage.sums_in_order(spread) == coverage.sums_in_order(terms)


def test_a_gain_never_grows_however_it_is_rounded() -> None:
    rng = np.random.default_rng(0)
    pool = rng.standard_normal((60, 3))
    found = coverage.greedy(made_of(pool, pool[:4] + 0.01, rng.random(60), budget=60))
    assert (np.diff(found.priorities) <= 0.0).all()


def test_nothing_to_cover_is_covered() -> None:
    found = coverage.greedy(made_of(np.eye(3), np.zeros((1, 3)), np.zeros(3), budget=2))
    assert found.indices.tolist() == [0, 1]
    assert found.covered is not None
    assert found.covered.tolist() == [1.0, 1.0]
