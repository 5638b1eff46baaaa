"""The coverage strategies: weights, reach, and what a Selection reports."""

from dataclasses import replace
from importlib import import_module
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra import numpy as hnp

import dubito
from dubito.core import coverage_reference as coverage
from dubito.core.coverage_reference import CoverageProblem, systematic_sample
from dubito.core.problem import Problem
from dubito.doubt import margin_doubt, softmax
from dubito.errors import InvalidArgument
from dubito.matrix import FloatArray
from dubito.strategies import Coverage, DoubtCoverage, build_strategy
from levels import examples

LINE = np.array([[0.0], [1.0], [2.0], [3.0], [20.0]])


def pool_of(n: int, seed: int = 0) -> tuple[FloatArray, FloatArray]:
    rng = np.random.default_rng(seed)
    return rng.standard_normal((n, 4)), rng.dirichlet(np.full(3, 0.4), n)


def test_the_center_of_a_cluster_is_picked_before_an_outlier() -> None:
    picked = dubito.select(LINE, 2, labeled=[[10.0]], strategy="coverage")
    assert picked.indices[0] in (1, 2)
    core = dubito.select(LINE, 1, labeled=[[10.0]], strategy="coreset")
    assert core.indices.tolist() == [0]


def test_picks_concentrate_where_doubt_is_high() -> None:
    probabilities = np.array([[1.0, 0.0], [1.0, 0.0], [1.0, 0.0], [1.0, 0.0], [0.5, 0.5]])
    picked = dubito.select(LINE, 1, labeled=[[10.0]], probabilities=probabilities, strategy="doubt-coverage")
    assert picked.indices.tolist() == [4]
    assert picked.covered is not None
    assert picked.covered.tolist() == [1.0]


def test_strength_zero_is_plain_coverage() -> None:
    pool, probabilities = pool_of(40)
    plain = dubito.select(pool, 10, labeled=pool[:3] + 0.1, strategy="coverage")
    scaled = dubito.select(
        pool, 10, labeled=pool[:3] + 0.1, probabilities=probabilities, strategy="doubt-coverage", strength=0.0
    )
    assert scaled.indices.tolist() == plain.indices.tolist()
    assert scaled.priorities.tolist() == plain.priorities.tolist()


def test_without_doubt_all_rows_have_the_same_weight() -> None:
    pool, _ = pool_of(40)
    found = dubito.select(pool, 10, strategy="doubt-coverage")
    assert found.indices.tolist() == dubito.select(pool, 10, strategy="coverage").indices.tolist()


def test_labeled_rows_are_covered_and_have_no_weight() -> None:
    pool, probabilities = pool_of(60)
    labeled = np.array([3, 7, 50])
    rest = np.setdiff1d(np.arange(60), labeled)
    as_rows = dubito.select(pool, 12, labeled=labeled, probabilities=probabilities, strategy="doubt-coverage")
    as_features = dubito.select(
        pool[rest], 12, labeled=pool[labeled], probabilities=probabilities[rest], strategy="doubt-coverage"
    )
    assert as_rows.indices.tolist() == rest[as_features.indices].tolist()
    assert as_rows.priorities.tolist() == as_features.priorities.tolist()
    assert as_rows.covered is not None
    assert as_features.covered is not None
    assert as_rows.covered.tolist() == as_features.covered.tolist()
    assert as_rows.reach == as_features.reach


def test_rows_that_are_not_candidates_are_covered_too() -> None:
    picked = dubito.select(LINE, 1, labeled=[[10.0]], candidates=[0, 2, 4], strategy="coverage")
    assert picked.indices.tolist() == [2]


def test_a_radius_that_is_given_is_the_reach() -> None:
    pool, _ = pool_of(30)
    picked = dubito.select(pool, 3, strategy=Coverage(radius=2.5))
    assert picked.reach == 2.5
    none = dubito.select(pool, 3, doubt=np.linspace(0.0, 1.0, 30), strategy=DoubtCoverage(radius=0.0))
    assert none.indices.tolist() == [29, 28, 27]


def test_a_wider_factor_reaches_farther() -> None:
    pool, _ = pool_of(30)
    narrow, wide = (dubito.select(pool, 1, labeled=[0], strategy=Coverage(factor=f)).reach for f in (1.0, 2.0))
    assert narrow is not None
    assert wide is not None
    assert wide == pytest.approx(2.0 * narrow, rel=1e-15)


def test_doubt_may_be_confidence_and_doubt_that_is_passed_is_used_unchanged() -> None:
    pool, probabilities = pool_of(50)
    confidence = DoubtCoverage(doubt="confidence")
    by_rows = dubito.select(pool, 9, probabilities=probabilities, strategy=confidence)
    by_doubt = dubito.select(pool, 9, doubt=1.0 - probabilities.max(axis=1), strategy="doubt-coverage")
    assert by_rows.indices.tolist() == by_doubt.indices.tolist()
    by_margin = dubito.select(pool, 9, probabilities=probabilities, strategy="doubt-coverage")
    assert by_margin.indices.tolist() != by_rows.indices.tolist()


def test_logits_and_probabilities_say_the_same() -> None:
    pool, _ = pool_of(50)
    logits = np.random.default_rng(3).standard_normal((50, 4))
    by_logits = dubito.select(pool, 9, logits=logits, strategy="doubt-coverage")
    by_rows = dubito.select(pool, 9, probabilities=softmax(logits), strategy="doubt-coverage")
    assert by_logits.indices.tolist() == by_rows.indices.tolist()


def test_posterior_samples_count_by_their_mean() -> None:
    pool, probabilities = pool_of(50)
    samples = np.stack([probabilities, probabilities], axis=1)
    one = dubito.select(pool, 9, probabilities=samples, strategy="doubt-coverage")
    assert (
        one.indices.tolist()
        == dubito.select(pool, 9, probabilities=probabilities, strategy="doubt-coverage").indices.tolist()
    )


@given(hnp.arrays(np.float64, (6, 4), elements=st.floats(0.0, 30.0)))
@settings(max_examples=examples(60), deadline=None)
def test_margin_doubt_is_one_less_the_gap_with_all_its_digits(logits: FloatArray) -> None:
    probabilities = softmax(logits)
    ascending = np.sort(probabilities, axis=1)
    found = margin_doubt(probabilities)
    np.testing.assert_allclose(found, 1.0 - (ascending[:, -1] - ascending[:, -2]), atol=1e-15)
    assert ((found >= 0.0) & (found <= 1.0 + 1e-15)).all()
    assert margin_doubt(np.array([[1.0, 1e-30]])).tolist() == [2e-30]


def test_a_sample_represents_the_pool_and_is_reported() -> None:
    pool, _ = pool_of(200)
    whole = dubito.select(pool, 5, labeled=[0], strategy="coverage")
    few = dubito.select(pool, 5, labeled=[0], strategy=Coverage(sample=50))
    assert whole.sampled is None
    assert few.sampled == 50
    assert "by a sample of 50 rows" in repr(few)
    assert dubito.select(pool, 5, labeled=[0], strategy=Coverage(sample=500)).sampled is None


@given(st.lists(st.floats(0.0, 1.0), min_size=1, max_size=40), st.integers(1, 20))
@settings(max_examples=examples(100), deadline=None)
def test_a_thinned_pool_weighs_as_much_on_fewer_rows(values: list[float], n_rows: int) -> None:
    weights = np.array(values)
    found = systematic_sample(weights, n_rows)
    assert np.count_nonzero(found) <= n_rows
    assert found.sum() == pytest.approx(weights.sum())
    assert not found[weights == 0.0].any() or not weights.any()


def test_a_selection_says_how_much_is_covered() -> None:
    pool, probabilities = pool_of(50)
    picked = dubito.select(pool, 50, probabilities=probabilities, strategy="doubt-coverage")
    assert picked.covered is not None
    assert picked.covered.shape == (50,)
    assert (np.diff(picked.covered) >= 0.0).all()
    assert picked.covered[-1] == pytest.approx(1.0)
    assert "covered=100.0%" in repr(picked)
    assert dubito.select(pool, 5, strategy="coreset").covered is None


def test_a_cosine_is_the_chord_between_unit_vectors() -> None:
    pool, _ = pool_of(40)
    unit = pool / np.linalg.norm(pool, axis=1, keepdims=True)
    by_metric = dubito.select(pool * 3.0, 8, labeled=[0, 1], metric="cosine", strategy="coverage")
    assert by_metric.indices.tolist() == dubito.select(unit, 8, labeled=[0, 1], strategy="coverage").indices.tolist()


def test_a_pool_picks_what_select_picks_round_after_round() -> None:
    features, probabilities = pool_of(80)
    pool, labeled = dubito.Pool(features), np.array([5, 6])
    pool.label(rows=labeled)
    for _ in range(4):
        picked = pool.select(6, probabilities=probabilities, strategy="doubt-coverage")
        again = dubito.select(features, 6, labeled=labeled, probabilities=probabilities, strategy="doubt-coverage")
        assert picked.indices.tolist() == again.indices.tolist()
        assert picked.priorities.tolist() == again.priorities.tolist()
        pool.label(picked)
        labeled = np.concatenate([labeled, picked.indices])


def test_an_engine_that_knows_core_sets_alone_is_not_asked_to_cover() -> None:
    dispatch = import_module("dubito.engines.dispatch")
    problem = CoverageProblem(LINE, LINE[:1], np.arange(5), 1, np.ones(5), np.arange(5))
    assert all(isinstance(problem, engine.solves) for engine in dispatch.engines_for(problem).values())
    assert dispatch.engines_for(problem)["reference"].solve(problem).configurations[0].covered is not None
    assert Problem not in dispatch.engines_for(problem)["reference"].solves


@pytest.mark.parametrize(
    ("options", "match"),
    [
        ({"strength": -1.0}, "strength=-1.0 is not allowed"),
        ({"doubt": "entropy"}, "doubt='entropy' is not known"),
        ({"radius": -1.0}, "radius=-1.0 is not allowed"),
        ({"radius": float("nan")}, "radius=nan is not allowed"),
        ({"factor": "wide"}, "factor='wide' is not allowed"),
        ({"sample": 0}, "sample=0 is too small"),
    ],
)
def test_options_that_cannot_be_meant_are_refused(options: dict[str, object], match: str) -> None:
    with pytest.raises(InvalidArgument, match=match):
        build_strategy("doubt-coverage", options)


def test_a_beam_means_nothing_to_coverage() -> None:
    with pytest.raises(InvalidArgument, match="beam_width=3 is not supported by strategy='coverage'"):
        dubito.select(LINE, 1, strategy="coverage", beam_width=3)


def test_a_cost_can_be_reported_before_a_run() -> None:
    small = dubito.estimate(1_000, 16, 10, 10, strategy="coverage", engine="reference")
    large = dubito.estimate(50_000, 16, 10, 10, strategy="doubt-coverage", engine="reference")
    assert small.engine == large.engine == "reference"
    assert small.seconds < large.seconds
    assert small.bytes < large.bytes
    with pytest.raises(InvalidArgument, match="strategy='optimal-coreset' has no estimate of its cost"):
        dubito.estimate(10, 2, 0, 1, strategy="optimal-coreset")


def test_only_the_values_of_weights_matter() -> None:
    pool, _ = pool_of(30)
    problem = CoverageProblem(pool, pool[:2], np.arange(2, 30), 8, np.linspace(0.0, 1.0, 30), np.arange(2, 30))
    assert coverage.greedy(problem).indices.tolist() == coverage.greedy(replace(problem, doubt=None)).indices.tolist()


def shares(points: FloatArray, labeled: list[int], doubt: FloatArray) -> FloatArray:
    """What `variance` multiplies a weight with, with explicit matrices."""
    spread = points - points.mean(axis=0)
    spread = np.column_stack([spread / np.sqrt((spread**2).sum(axis=1).mean()), np.ones(len(points))])
    information = np.eye(points.shape[1] + 1)
    for row in labeled:
        information += doubt[row] * (1.0 - doubt[row]) * np.outer(spread[row], spread[row])
    variances = np.array([row @ np.linalg.solve(information, row) for row in spread])
    return np.asarray(variances / (1.0 + variances))


def test_variance_multiplies_doubt_by_what_labels_can_reduce() -> None:
    pool, probabilities = pool_of(80)
    labeled, strategy = [3, 1, 40], DoubtCoverage(strength=2.0, variance=0.5)
    picked = dubito.select(pool, 6, labeled=labeled, probabilities=probabilities, strategy=strategy)
    weights = margin_doubt(probabilities) ** 2 * np.sqrt(shares(pool, labeled, 1.0 - probabilities.max(axis=1)))
    by_hand = dubito.select(pool, 6, labeled=labeled, doubt=weights, strategy="doubt-coverage")
    assert picked.indices.tolist() == by_hand.indices.tolist()
    assert picked.priorities == pytest.approx(by_hand.priorities, rel=1e-5)
    plain = dubito.select(pool, 6, labeled=labeled, probabilities=probabilities, strategy=replace(strategy, variance=0))
    assert picked.indices.tolist() != plain.indices.tolist()


def test_variance_depends_on_neither_units_nor_origin() -> None:
    pool, probabilities = pool_of(80)
    options = {"labeled": [3, 1, 40], "probabilities": probabilities, "strategy": DoubtCoverage(variance=1.0)}
    picked = dubito.select(pool, 6, **options)  # type: ignore[arg-type]
    assert dubito.select(1000.0 * pool + 70.0, 6, **options).indices.tolist() == picked.indices.tolist()  # type: ignore[arg-type]


def test_labeled_points_outside_the_pool_count_with_probability_one_half() -> None:
    pool, probabilities = pool_of(80)
    outside = pool[:5] + 0.25
    picked = dubito.select(pool, 6, labeled=outside, probabilities=probabilities, strategy=DoubtCoverage(variance=1.0))
    scale = np.sqrt(((pool - pool.mean(axis=0)) ** 2).sum(axis=1).mean())
    rows, others = ((each - pool.mean(axis=0)) / scale for each in (pool, outside))
    rows, others = (np.column_stack([each, np.ones(len(each))]) for each in (rows, others))
    variances = (rows @ np.linalg.inv(np.eye(5) + 0.25 * others.T @ others) * rows).sum(axis=1)
    weights = margin_doubt(probabilities) * variances / (1.0 + variances)
    by_hand = dubito.select(pool, 6, labeled=outside, doubt=weights, strategy="doubt-coverage")
    assert picked.indices.tolist() == by_hand.indices.tolist()


def test_variance_changes_nothing_before_the_first_label() -> None:
    pool, probabilities = pool_of(40)
    first = [
        dubito.select(pool, 4, probabilities=probabilities, strategy=DoubtCoverage(variance=each)).indices.tolist()
        for each in (0.0, 1.0)
    ]
    assert first[0] == first[1]


def test_probabilities_are_sharpened_until_the_median_doubt_is_low_enough() -> None:
    pool, _ = pool_of(80)
    logits = np.random.default_rng(4).normal(size=(80, 5))
    unsure = softmax(0.01 * logits)
    labeled, strategy = [3, 1, 40], DoubtCoverage(strength=3.0, sharpen=0.5)
    picked = dubito.select(pool, 6, labeled=labeled, probabilities=unsure, strategy=strategy)
    # The temperature is one of 2^-n/4; the same logits at another scale give the same doubt up to such a step.
    left = np.setdiff1d(np.arange(80), labeled)
    scales = [0.01 * 2.0 ** (step / 4) for step in range(49)]
    scale = next(each for each in scales if np.median(margin_doubt(softmax(each * logits))[left]) <= 0.5)
    by_hand = dubito.select(
        pool, 6, labeled=labeled, probabilities=softmax(scale * logits), strategy="doubt-coverage:strength=3"
    )
    assert picked.indices.tolist() == by_hand.indices.tolist()
    assert picked.priorities == pytest.approx(by_hand.priorities, rel=1e-5)


def test_probabilities_of_a_confident_model_are_not_sharpened() -> None:
    pool, _ = pool_of(80)
    confident = softmax(20.0 * np.random.default_rng(4).normal(size=(80, 5)))
    picked, plain = (
        dubito.select(pool, 6, probabilities=confident, strategy=DoubtCoverage(sharpen=each)) for each in (0.5, 1.0)
    )
    assert np.array_equal(picked.priorities, plain.priorities)


def test_identical_probabilities_stay_identical_when_sharpened() -> None:
    pool, _ = pool_of(40)
    picked = dubito.select(pool, 4, probabilities=np.full((40, 3), 1 / 3), strategy=DoubtCoverage(sharpen=0.5))
    assert picked.indices.tolist() == dubito.select(pool, 4, strategy="coverage").indices.tolist()


@pytest.mark.parametrize("options", [{"sharpen": 1.5}, {"sharpen": -0.1}, {"sharpen": 0.5, "doubt": "confidence"}])
def test_sharpening_out_of_range_or_of_another_doubt_is_refused(options: dict[str, Any]) -> None:
    with pytest.raises(InvalidArgument, match="sharpen"):
        DoubtCoverage(**options)
