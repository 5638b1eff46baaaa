"""The oracle against a second one: SPEC's rules word for word, in plain loops over exact fractions."""

from collections.abc import Sequence
from dataclasses import dataclass
from decimal import Decimal
from fractions import Fraction
from itertools import combinations
from math import inf, isqrt, sqrt
from typing import get_args

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from dubito.core import reference
from dubito.core.problem import Problem, Scaling
from dubito.doubt import beam_scores, scaling_weights
from dubito.matrix import FloatArray
from levels import examples

Row = tuple[int, ...]
Priority = Fraction | float
"""A fraction, or infinity where there is no reference."""


@dataclass(frozen=True)
class Small:
    """A small problem in whole numbers and fractions."""

    pool: list[Row]
    labeled: list[Row]
    doubt: list[Fraction]
    strength: Fraction
    scaling: Scaling
    candidates: list[int]
    budget: int
    width: int = 1

    def to_problem(self) -> Problem:
        doubt = np.array([float(value) for value in self.doubt])
        width = len(self.pool[0])
        return Problem(
            pool=np.array(self.pool, dtype=np.float64),
            references=np.array(self.labeled, dtype=np.float64).reshape(-1, width),
            candidates=np.array(self.candidates),
            budget=self.budget,
            doubt=doubt,
            weights=None if self.strength == 0 else scaling_weights(doubt, float(self.strength)),
            scores=beam_scores(doubt) if self.width > 1 else None,
            scaling=self.scaling,
            beam_width=self.width,
        )


def squared_distance(one: Row, other: Row) -> int:
    total = 0
    for a, b in zip(one, other, strict=True):
        total += (a - b) ** 2
    return total


def weight(small: Small, i: int) -> Fraction:
    """I ** (2 * strength), exactly; 0 ** 0 is 1."""
    power = 2 * small.strength
    if power == Fraction(1, 2):
        value = small.doubt[i]
        root = Fraction(isqrt(value.numerator), isqrt(value.denominator))
        assert root**2 == value
        return root
    assert power.denominator == 1
    return small.doubt[i] ** power.numerator


def squared_priority(small: Small, i: int, picks: Sequence[int]) -> Priority:
    if weight(small, i) == 0:
        return Fraction(0)
    lowest: Priority = inf
    for row in small.labeled:
        lowest = min(lowest, squared_distance(small.pool[i], row) * weight(small, i))
    for pick in picks:
        whose = i if small.scaling == "respective" else pick
        lowest = min(lowest, squared_distance(small.pool[i], small.pool[pick]) * weight(small, whose))
    return lowest


def cold_rank(small: Small, i: int) -> Priority:
    """Smaller comes first in a cold start."""
    if small.strength > 0:
        return -small.doubt[i]
    n = len(small.pool)
    total = Fraction(0)
    for feature in range(len(small.pool[0])):
        total += (n * small.pool[i][feature] - sum(row[feature] for row in small.pool)) ** 2
    return total


def in_order(small: Small, picks: Sequence[int]) -> list[int]:
    """Unpicked candidates as a configuration proposes them."""
    rest = [i for i in small.candidates if i not in picks]
    if not picks and not small.labeled:
        return sorted(rest, key=lambda i: (cold_rank(small, i), i))
    return sorted(rest, key=lambda i: (-squared_priority(small, i, picks), i))


def score(small: Small, i: int) -> int:
    """-log(1 - I) in whole multiples of 2^-32."""
    confidence = max(1 - small.doubt[i], Fraction(1, 10**12))
    logarithm = (Decimal(confidence.numerator) / Decimal(confidence.denominator)).ln()
    return int((-logarithm * 2**32).to_integral_value())


def beam(small: Small) -> list[tuple[int, ...]]:
    """Rules 1 to 5; the first configuration is the answer."""
    configurations: list[tuple[int, ...]] = [()]
    for _ in range(small.budget):
        children: list[tuple[int, int, Priority, int, tuple[int, ...]]] = []
        for rank, picks in enumerate(configurations):
            for i in in_order(small, picks)[: small.width]:
                total = sum(score(small, pick) for pick in (*picks, i))
                children.append((-total, rank, -squared_priority(small, i, picks), i, (*picks, i)))
        configurations = []
        for *_, picks in sorted(children):
            if all(set(picks) != set(other) for other in configurations):
                configurations.append(picks)
        configurations = configurations[: small.width]
    return configurations


def recorded(small: Small, picks: Sequence[int]) -> list[float]:
    """The priority of each pick when it was picked."""
    cold = not small.labeled
    return [
        inf if cold and step == 0 else sqrt(squared_priority(small, pick, picks[:step]))
        for step, pick in enumerate(picks)
    ]


def radius(small: Small, picks: Sequence[int]) -> float:
    rest = [i for i in small.candidates if i not in picks]
    return sqrt(max((squared_priority(small, i, picks) for i in rest), default=0))


DOUBTS = st.sampled_from([Fraction(0), Fraction(1, 16), Fraction(1, 4), Fraction(9, 16), Fraction(1)])
STRENGTHS = st.sampled_from([Fraction(0), Fraction(1, 4), Fraction(1, 2), Fraction(1), Fraction(2)])
SCALINGS: st.SearchStrategy[Scaling] = st.sampled_from(get_args(Scaling))


@st.composite
def small_problems(draw: st.DrawFn, widest: int = 1) -> Small:
    d, span = draw(st.integers(1, 3)), draw(st.sampled_from([1, 3, 9]))
    rows = st.tuples(*[st.integers(-span, span)] * d)
    pool = draw(st.lists(rows, min_size=1, max_size=9))
    candidates = sorted(draw(st.sets(st.sampled_from(range(len(pool))), min_size=1)))
    return Small(
        pool=pool,
        labeled=draw(st.lists(rows, max_size=3)),
        doubt=draw(st.lists(DOUBTS, min_size=len(pool), max_size=len(pool))),
        strength=draw(STRENGTHS),
        scaling=draw(SCALINGS),
        candidates=candidates if draw(st.booleans()) else list(range(len(pool))),
        budget=draw(st.integers(1, len(candidates))),
        width=draw(st.integers(1, widest)),
    )


def assert_agrees(small: Small, expected: Sequence[Sequence[int]]) -> None:
    found = reference.solve(small.to_problem())
    assert [tuple(one.indices.tolist()) for one in found] == list(expected)
    for one, picks in zip(found, expected, strict=True):
        assert one.priorities.tolist() == recorded(small, picks)
        assert one.radius == radius(small, picks)


@settings(max_examples=examples(200))
@given(small_problems())
def test_the_reference_is_the_greedy_rule_word_for_word(small: Small) -> None:
    picks: list[int] = []
    for _ in range(small.budget):
        picks.append(in_order(small, picks)[0])
    assert_agrees(small, [tuple(picks)])


@settings(max_examples=examples(300))
@given(small_problems(widest=5))
def test_the_reference_is_the_beam_rules_word_for_word(small: Small) -> None:
    assert_agrees(small, beam(small))


@given(small_problems())
def test_a_beam_of_one_is_the_greedy_run(small: Small) -> None:
    problem = small.to_problem()
    (beamed,), greedy = reference.beam(problem), reference.greedy(problem)
    assert beamed.indices.tolist() == greedy.indices.tolist()
    assert beamed.priorities.tolist() == greedy.priorities.tolist()
    assert beamed.radius == greedy.radius


def test_uncertainty_of_a_configuration_is_the_mean_of_its_points() -> None:
    doubt = np.array([0.5, 0.75, 0.0])
    problem = Problem(np.eye(3), np.zeros((1, 3)), np.arange(3), 2, doubt=doubt, weights=doubt)
    (found,) = reference.solve(problem)
    assert found.indices.tolist() == [1, 0]
    assert found.uncertainty == pytest.approx((np.log(2) + np.log(4)) / 2)


def test_the_radius_is_nothing_when_nothing_is_left() -> None:
    (found,) = reference.solve(Problem(np.eye(3), np.zeros((1, 3)), np.arange(3), 3))
    assert found.radius == 0.0
    assert found.uncertainty is None


def covering(pool: FloatArray, scale: FloatArray, centers: Sequence[int], labeled: int) -> float:
    chosen = pool[[*range(labeled), *centers]]
    distances = np.sqrt(((pool[:, None] - chosen[None]) ** 2).sum(axis=2)).min(axis=1)
    return float((distances * scale).max())


@pytest.mark.parametrize(("weighted", "factor"), [(False, 2.0), (True, 3.0)])
def test_the_greedy_radius_is_within_its_factor_of_the_optimal_one(weighted: bool, factor: float) -> None:
    worst = 0.0
    for seed in range(200):
        rng = np.random.default_rng(seed)
        n, budget, n_labeled = int(rng.integers(4, 10)), int(rng.integers(1, 4)), int(rng.integers(0, 2))
        pool = rng.integers(-5, 6, (n, 2)).astype(np.float64) if seed % 2 else rng.standard_normal((n, 2))
        doubt = rng.random(n) if weighted else np.ones(n)
        rest = np.arange(n_labeled, n)
        weights = scaling_weights(doubt, 1.0) if weighted else None
        problem = Problem(pool, pool[:n_labeled], rest, budget, doubt=doubt, weights=weights)
        (found,) = reference.solve(problem)
        ours = covering(pool, doubt, found.indices.tolist(), n_labeled)
        best = min(covering(pool, doubt, centers, n_labeled) for centers in combinations(rest.tolist(), budget))
        assert found.radius == pytest.approx(ours, abs=1e-12)
        assert ours <= factor * best * (1 + 1e-12), f"seed {seed}: {ours} against {best}"
        worst = max(worst, ours / best if best else 1.0)
    # The problems are hard enough for greed to lose something.
    assert worst > 1.2
