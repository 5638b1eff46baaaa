"""Statistics fixed in advance, held against SciPy, brute force and cases whose answer is known."""

from itertools import permutations, product
from math import inf, isnan, nan

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy import integrate, stats

from dubito.errors import InvalidArgument
from dubito.experiments.records import Curve
from dubito.experiments.statistics import (
    area,
    compare,
    format_p,
    holm,
    labels_to_reach,
    non_decreasing,
    paired_test,
    penalties,
    savings,
    seeds_note,
    smallest_detectable,
    variance_ratio,
    wilcoxon,
    wilcoxon_floor,
)
from dubito.matrix import FloatArray

LABELS = np.array([10, 20, 40, 80])
shares = st.floats(0, 1, width=32)
pairs = st.lists(st.floats(-1, 1, width=16), min_size=2, max_size=12)


def noisy(name: str, *mean: float, seeds: int = 10, spread: float = 0.01) -> Curve:
    rng = np.random.default_rng(sum(map(ord, name)))
    return Curve(name, LABELS, np.array(mean) + spread * rng.normal(size=(seeds, len(LABELS))))


@given(shares)
def test_the_area_under_a_constant_is_that_constant(level: float) -> None:
    assert area(Curve("flat", LABELS, np.full((3, 4), level))) == pytest.approx(level)


@given(st.lists(shares, min_size=4, max_size=4))
def test_the_area_is_the_trapezoidal_rule_and_lies_within_the_accuracies(accuracy: list[float]) -> None:
    (described,) = area(Curve("any", LABELS, np.array([accuracy])))
    assert described == pytest.approx(integrate.trapezoid(accuracy, LABELS) / 70)
    assert min(accuracy) - 1e-9 <= described <= max(accuracy) + 1e-9


def test_the_area_of_a_single_training_is_its_accuracy() -> None:
    assert area(Curve("one", np.array([10]), np.array([[0.3], [0.5]]))).tolist() == [0.3, 0.5]


@given(pairs.filter(lambda values: np.std(values) > 1e-3))
def test_the_paired_test_is_scipy_s(differences: list[float]) -> None:
    described, p = paired_test(differences)
    theirs = stats.ttest_1samp(differences, 0.0)
    assert p == pytest.approx(theirs.pvalue)
    assert (described.low, described.high) == pytest.approx(tuple(theirs.confidence_interval(0.95)))


def test_pairs_without_spread_or_without_number_have_no_test() -> None:
    same, unknown = paired_test([0.1, 0.1, 0.1])
    assert same.estimate == pytest.approx(0.1)
    assert all(isnan(value) for value in (same.low, same.high, unknown))
    assert paired_test([0.0, 0.0])[1] == 1.0
    described, p = paired_test([0.25])
    assert (described.estimate, isnan(described.low), isnan(described.high), isnan(p)) == (0.25, True, True, True)
    assert described.as_dict() == {"estimate": 0.25, "low": None, "high": None}


def brute_holm(p_values: list[float]) -> list[float]:
    """By closed testing: a p is the largest Bonferroni p of any subset that holds it."""
    k = len(p_values)
    subsets = [[i for i in range(k) if bits >> i & 1] for bits in range(1, 2**k)]
    bonferroni = [(subset, min(1.0, len(subset) * min(p_values[i] for i in subset))) for subset in subsets]
    return [max(p for subset, p in bonferroni if i in subset) for i in range(k)]


@given(st.lists(shares, min_size=1, max_size=6))
def test_holm_s_correction_is_the_closed_test_of_bonferroni_s(p_values: list[float]) -> None:
    assert holm(p_values) == pytest.approx(brute_holm(p_values))


def test_holm_s_correction_does_not_depend_on_the_order_and_passes_over_nan() -> None:
    for order in permutations(range(3)):
        p_values = np.array([0.01, 0.04, 0.03])[list(order)]
        assert holm(p_values.tolist()) == pytest.approx(np.array([0.03, 0.06, 0.06])[list(order)])
    described = holm([0.02, nan, 0.5])
    assert described[[0, 2]] == pytest.approx([0.04, 0.5])
    assert isnan(described[1])


@given(st.lists(st.integers(-4, 4), min_size=1, max_size=9))
def test_wilcoxon_s_p_is_that_of_all_signs_tried(differences: list[int]) -> None:
    kept = np.array([each for each in differences if each])
    if not len(kept):
        assert wilcoxon(differences) == 1.0
        return
    ranks = stats.rankdata(np.abs(kept))
    sums = np.array([ranks[np.array(signs)].sum() for signs in product([False, True], repeat=len(kept))])
    seen = ranks[kept > 0].sum()
    assert wilcoxon(differences) == pytest.approx(min(1, 2 * min((sums <= seen).mean(), (sums >= seen).mean())))


@given(st.lists(st.integers(1, 1000), min_size=3, max_size=12, unique=True), st.integers(0, 2**12))
def test_wilcoxon_s_p_without_ties_is_scipy_s(sizes: list[int], signs: int) -> None:
    differences = [size if signs >> place & 1 else -size for place, size in enumerate(sizes)]
    theirs = stats.wilcoxon(differences, method="exact").pvalue
    assert wilcoxon(differences) == pytest.approx(theirs)
    assert wilcoxon(differences) >= wilcoxon_floor(len(sizes)) - 1e-12


def test_five_seeds_cannot_go_below_one_in_sixteen() -> None:
    assert wilcoxon([1, 2, 3, 4, 5]) == wilcoxon_floor(5) == 0.0625
    assert "cannot go under p = 0.0625" in seeds_note(5)
    assert "below 10" in seeds_note(6)
    assert "Wilcoxon" not in seeds_note(6)
    assert seeds_note(10) == "10 seeds: enough for the Wilcoxon test, and for intervals on variance."
    assert "no spread" in seeds_note(1)


@pytest.mark.parametrize("seeds", [2, 5, 10])
def test_the_detectable_difference_is_found_with_80_percent_power(seeds: int) -> None:
    rng = np.random.default_rng(0)
    sample = rng.normal(size=seeds)
    detectable = smallest_detectable(sample)
    drawn = detectable + sample.std(ddof=1) * rng.normal(size=(20_000, seeds))
    found = stats.ttest_1samp(drawn, 0.0, axis=1)
    # Brute force: draw data with that true difference and spread, and count how often the test finds it.
    assert np.mean((found.pvalue < 0.05) & (found.statistic > 0)) == pytest.approx(0.8, abs=0.012)


def test_more_seeds_detect_less_and_one_detects_nothing() -> None:
    assert smallest_detectable([0.0, 1.0] * 10) < smallest_detectable([0.0, 1.0] * 3)
    assert isnan(smallest_detectable([0.1, 0.1]))
    assert isnan(smallest_detectable([0.1]))


def test_the_ends_of_a_variance_ratio_are_where_sums_and_differences_stop_being_uncorrelated() -> None:
    rng = np.random.default_rng(4)
    shared = rng.normal(size=12)
    ours, theirs = 2 * shared + rng.normal(size=12), shared + 0.5 * rng.normal(size=12)
    described = variance_ratio(ours, theirs)
    assert described.estimate == pytest.approx(ours.var(ddof=1) / theirs.var(ddof=1))
    for end in (described.low, described.high):
        p = stats.pearsonr(ours + np.sqrt(end) * theirs, ours - np.sqrt(end) * theirs).pvalue
        assert p == pytest.approx(0.05)
    inverse = variance_ratio(theirs, ours)
    assert (inverse.low, inverse.high) == pytest.approx((1 / described.high, 1 / described.low))


def test_a_ratio_to_no_variance_has_no_interval() -> None:
    assert variance_ratio([1.0, 2.0, 3.0], [1.0, 1.0, 1.0]).as_dict() == {"estimate": None, "low": None, "high": None}
    assert variance_ratio([1.0, 1.0, 1.0], [1.0, 2.0, 3.0]).estimate == 0.0


def test_what_is_better_and_what_is_worse_is_told_apart() -> None:
    random = noisy("random", 0.5, 0.6, 0.7, 0.8)
    better = noisy("better", 0.5, 0.7, 0.8, 0.9)
    worse = noisy("worse", 0.5, 0.5, 0.6, 0.7)
    same = noisy("the same", 0.5, 0.6, 0.7, 0.8)
    described = {each.name: each for each in compare([random, better, worse, same], "random")}
    assert [each.is_better for each in described.values()] == [True, False, False]
    assert [each.is_worse for each in described.values()] == [False, True, False]
    assert described["better"].difference.estimate == pytest.approx((area(better) - area(random)).mean())
    assert all(each.p_holm >= each.p for each in described.values())
    assert described["the same"].detectable > 0
    assert described["better"].variance_ratio is not None
    assert described["better"].as_dict()["strategy"] == "better"


def test_a_correction_over_many_strategies_can_take_a_finding_back() -> None:
    random = Curve("random", LABELS, np.zeros((5, 4)))
    close = np.array([0.010, 0.012, 0.002, 0.011, 0.001])[:, None] * np.ones(4)
    alone = compare([random, Curve("close", LABELS, close)], "random")[0]
    others = [Curve(f"idle {i}", LABELS, np.array([[1], [-1], [2], [-2], [0]]) * np.ones(4)) for i in range(9)]
    among = compare([random, Curve("close", LABELS, close), *others], "random")[0]
    assert alone.is_better
    assert not among.is_better
    assert among.p == alone.p
    assert among.variance_ratio is None
    assert among.as_dict()["variance_ratio"] is None


def test_one_seed_shows_nothing_and_a_baseline_must_have_run() -> None:
    curves = [noisy("random", 0.5, 0.6, 0.7, 0.8, seeds=1), noisy("better", 0.5, 0.7, 0.8, 0.9, seeds=1)]
    (described,) = compare(curves, "random")
    assert not described.is_better
    assert described.as_dict()["p_holm"] is None
    assert isnan(savings(curves, "random")[0].saved.low)
    with pytest.raises(InvalidArgument, match="baseline='coreset' was not run; choose from random, better"):
        compare(curves, "coreset")
    with pytest.raises(InvalidArgument, match="baseline='coreset' was not run; choose from random, better"):
        savings(curves, "coreset")


def test_the_matrix_counts_the_label_counts_at_which_one_beats_the_other() -> None:
    low, high = noisy("low", 0.5, 0.6, 0.6, 0.6), noisy("high", 0.5, 0.6, 0.9, 0.9)
    described = penalties([low, high])
    assert described.diagonal().tolist() == [0, 0]
    assert described[1, 0] == pytest.approx(2 / 3)
    assert described[0, 1] == 0
    assert penalties([Curve("one", np.array([5]), np.zeros((3, 1)))]).tolist() == [[0.0]]


@given(st.lists(shares, min_size=1, max_size=8))
def test_a_curve_made_non_decreasing_never_falls_and_keeps_its_mean(values: list[float]) -> None:
    described = non_decreasing(np.array(values))
    assert (np.diff(described) >= -1e-12).all()
    assert described.mean() == pytest.approx(np.mean(values))
    assert described == pytest.approx(np.array(values)) or (np.diff(values) < 0).any()


@given(st.lists(shares, min_size=2, max_size=6))
def test_a_curve_made_non_decreasing_is_the_nearest_such(values: list[float]) -> None:
    def brute(array: FloatArray) -> list[float]:
        n = len(array)
        return [max(min(array[a : b + 1].mean() for b in range(i, n)) for a in range(i + 1)) for i in range(n)]

    assert non_decreasing(np.array(values)) == pytest.approx(brute(np.array(values)), abs=1e-9)


def test_labels_to_reach_an_accuracy_lie_on_straight_lines() -> None:
    accuracy = np.array([0.5, 0.6, 0.6, 0.8])
    assert labels_to_reach(accuracy, LABELS, 0.4) == 10
    assert labels_to_reach(accuracy, LABELS, 0.6) == 20
    assert labels_to_reach(accuracy, LABELS, 0.7) == pytest.approx(60)
    assert labels_to_reach(accuracy, LABELS, 0.81) == inf


def test_labels_saved_have_an_interval_that_holds_the_truth() -> None:
    random = noisy("random", 0.5, 0.6, 0.7, 0.8, spread=0.005)
    better = noisy("better", 0.5, 0.7, 0.8, 0.9, spread=0.005)
    (described,) = savings([random, better], "random")
    assert described.accuracy == pytest.approx(0.8, abs=0.01)
    assert described.saved.estimate == pytest.approx(40, abs=4)
    assert described.saved.low < 40 < described.saved.high
    assert described.as_dict()["labels"] == described.needed
    assert savings([random, better], "random")[0] == described


@pytest.mark.parametrize(("seeds", "is_reported"), [(2, False), (4, False), (5, True)])
def test_labels_saved_have_an_interval_from_five_seeds_on(seeds: int, is_reported: bool) -> None:
    random, better = (noisy(name, 0.5, 0.6, 0.7, 0.8 + gain, seeds=seeds) for name, gain in (("random", 0), ("b", 0.1)))
    (described,) = savings([random, better], "random")
    assert np.isfinite([described.saved.estimate, described.saved.low, described.saved.high]).tolist() == [
        True,
        is_reported,
        is_reported,
    ]


def test_two_seeds_that_differ_by_the_same_are_no_finding() -> None:
    random = Curve("random", LABELS, np.array([[0.5, 0.6, 0.7, 0.8], [0.5, 0.7, 0.7, 0.8]]))
    (described,) = compare([random, Curve("below", LABELS, random.accuracy - 0.028)], "random")
    assert not described.is_worse
    assert described.as_dict()["p"] is described.as_dict()["detectable"] is None


def test_a_strategy_that_never_gets_there_saves_nothing_it_can_count() -> None:
    random, worse = noisy("random", 0.5, 0.6, 0.7, 0.8), noisy("worse", 0.5, 0.5, 0.6, 0.7)
    (described,) = savings([random, worse], "random")
    assert (described.needed, described.saved.estimate, described.saved.low, described.saved.high) == (
        inf,
        -inf,
        -inf,
        -inf,
    )
    assert described.as_dict()["saved"] == {"estimate": None, "low": None, "high": None}


def test_the_same_curve_saves_nothing() -> None:
    random = noisy("random", 0.5, 0.6, 0.7, 0.8)
    (described,) = savings([random, Curve("twin", LABELS, random.accuracy)], "random")
    assert (described.saved.estimate, described.saved.low, described.saved.high) == (0, 0, 0)


def test_a_p_is_shown_with_two_digits_that_count() -> None:
    shown = [format_p(p) for p in (1.0, 0.5, 0.05, 0.0021, 0.00001, nan)]
    assert shown == ["1.00", "0.50", "0.050", "0.0021", "< 0.0001", "unknown"]
