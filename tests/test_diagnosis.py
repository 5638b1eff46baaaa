import json
from math import e, sqrt
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy.stats import spearmanr
from sklearn.datasets import load_digits
from sklearn.linear_model import LogisticRegression

from dubito import theory
from dubito.diagnosis import Diagnosis, diagnose, error_rate_given_doubt
from dubito.errors import DubitoError
from dubito.matrix import AnyArray, BoolArray, FloatArray

LINE = np.arange(6.0)[:, None]
LINE_DOUBT = np.array([0.0, 0.05, 0.1, 0.2, 0.2, 0.25])


def strict_json(described: Diagnosis) -> str:
    return json.dumps(described.to_dict(), allow_nan=False)


def random_case(
    seed: int, n: int = 300, d: int = 3, c: int = 4
) -> tuple[FloatArray, FloatArray, FloatArray, BoolArray]:
    """Features, a head, its logits, and whether noisy labels say that it was wrong."""
    rng = np.random.default_rng(seed)
    pool, head = rng.normal(size=(n, d)), rng.normal(size=(c, d)) * 2.0
    logits = pool @ head.T
    labels = np.argmax(logits + rng.gumbel(size=logits.shape), axis=1)
    return pool, head, logits, labels != logits.argmax(axis=1)


def test_the_radii_are_those_of_the_unlabeled_points_alone() -> None:
    described = diagnose(LINE, labeled=[0, 3], doubt=LINE_DOUBT)
    assert described.radii.tolist() == [1.0, 1.0, 1.0, 2.0]
    assert described.doubt.tolist() == [0.05, 0.1, 0.2, 0.25]
    assert (described.n, described.m, described.d) == (4, 2, 1)
    assert (described.delta, described.delta_hat, described.z) == (2.0, 0.5, 0.25)
    assert described.radius_quantiles[0] == 1.0
    assert described.radius_quantiles[-1] == 2.0
    assert described.doubt_quantiles[-1] == 0.25


def test_labeled_as_rows_mask_or_features_tells_the_same() -> None:
    mask = np.array([True, False, False, True, False, False])
    by_rows = diagnose(LINE, labeled=np.array([3, 0]), doubt=LINE_DOUBT)
    by_mask = diagnose(LINE, labeled=mask, doubt=LINE_DOUBT)
    by_features = diagnose(LINE[~mask], labeled=LINE[mask], doubt=LINE_DOUBT[~mask])
    assert strict_json(by_rows) == strict_json(by_mask)
    assert by_rows.radii.tolist() == by_features.radii.tolist()
    assert by_rows.labeled_doubt == 0.2
    assert by_features.labeled_doubt is None


def test_the_slope_from_the_data_is_the_largest_doubt_per_distance() -> None:
    described = diagnose(LINE, labeled=[0], doubt=LINE_DOUBT)
    assert described.lambda_c_data == pytest.approx(0.2 / 3.0)
    assert described.share_quadratic_data == 1.0


@given(st.integers(0, 10_000))
def test_a_trained_models_data_slope_never_passes_the_heads_where_labels_have_no_doubt(seed: int) -> None:
    pool, head, logits, _ = random_case(seed)
    pool, logits = np.vstack([np.zeros(3), pool]), np.vstack([[800.0, 0.0, 0.0, 0.0], logits])
    logits[1:] += [800.0, 0.0, 0.0, 0.0]
    described = diagnose(pool, labeled=[0], logits=logits, head=head)
    assert described.lambda_c_head is not None
    assert described.lambda_c_data <= described.lambda_c_head
    assert described.share_quadratic_head is not None
    assert described.share_quadratic_head <= described.share_quadratic_data


@pytest.mark.parametrize(
    ("doubts", "head", "regime"),
    [
        ([0.1, 0.1], 0.4, "quadratic"),
        ([0.1, 0.1], 4.0, "undecided"),
        ([0.1, 0.1], None, "undecided"),
        ([0.9, 0.1], 4.0, "linear"),
        ([0.9, 0.1], None, "linear"),
        ([0.9, 0.1], 0.4, "undecided"),
    ],
)
def test_the_quadratic_regime_is_claimed_only_where_head_and_data_agree(
    doubts: list[float], head: float | None, regime: str
) -> None:
    weights = None if head is None else [[0.0], [4.0 * head]]
    described = diagnose([[0.0], [1.0], [2.0]], labeled=[0], doubt=[0.0, *doubts], head=weights)
    assert described.lambda_c_head == pytest.approx(head)
    assert described.regime == regime
    promised = described.advice.startswith("Doubt-scaling can be expected to help")
    assert promised == (regime == "quadratic")


def test_without_outcomes_there_is_no_delta_star_and_no_beta() -> None:
    described = diagnose(LINE, labeled=[0], doubt=LINE_DOUBT, head=[[0.0], [1.0]])
    assert described.outcomes is None
    assert described.lambda_epsilon is described.delta_star is described.beta is described.delta_over_delta_star is None
    assert any("No outcomes" in note for note in described.notes)


def outcome_case(spacing: float = 1.0, every: int = 10) -> Diagnosis:
    """A hundred points at distance ``spacing``, doubt 0.2, every tenth one wrong, head slope 0.25/spacing."""
    pool = np.full((101, 1), spacing)
    pool[0] = 0.0
    doubt = np.full(101, 0.2)
    doubt[0] = 0.0
    rows = np.arange(1, 101)
    head = np.array([[0.0], [1.0 / spacing]])
    return diagnose(pool, labeled=[0], doubt=doubt, head=head, checked=rows, wrong=rows % every == 0)


def test_outcomes_give_lambda_epsilon_delta_star_and_beta() -> None:
    described = outcome_case()
    assert described.outcomes is not None
    assert (described.outcomes.n, described.outcomes.error_rate) == (100, 0.1)
    assert described.outcomes.mean_doubt == pytest.approx(0.2)
    assert described.outcomes.epsilon == pytest.approx((0.5, 0.5))
    assert described.lambda_epsilon == pytest.approx(0.5)
    assert described.z == pytest.approx(0.2)
    star = float(theory.delta_star(0.2, 0.25, 0.5))
    assert described.delta_star == pytest.approx(star)
    assert described.delta_over_delta_star == pytest.approx(1.0 / star)
    assert described.beta == pytest.approx(float(theory.scaled_beta_lower_bound(1.0, 0.2, 0.25, 0.5)))
    assert described.share_below_delta_star == 1.0
    assert described.advice.startswith("Doubt-scaling can be expected to help now: δ·λ_c is 0.2 by the data and 0.25")


@pytest.mark.parametrize("spacing", [1e-3, 7.0, 1e4])
def test_delta_over_delta_star_does_not_depend_on_the_units_and_beta_does(spacing: float) -> None:
    described, other = outcome_case(), outcome_case(spacing)
    assert other.delta_over_delta_star == pytest.approx(described.delta_over_delta_star)
    assert other.regime == described.regime
    assert other.share_below_delta_star == described.share_below_delta_star
    assert other.beta != pytest.approx(described.beta)


def test_the_theory_falls_silent_where_delta_passes_delta_star() -> None:
    pool = np.concatenate([[[0.0]], np.full((60, 1), 1.0), [[50.0]]])
    doubt = np.concatenate([[0.0], np.full(60, 0.5), [0.5]])
    rows = np.arange(1, 61)
    described = diagnose(pool, labeled=[0], doubt=doubt, checked=rows, wrong=rows % 2 == 0)
    assert described.delta_over_delta_star is not None
    assert described.delta_over_delta_star > 1.0
    assert described.beta == 0.0
    assert "The theory predicts no gain here (δ/δ* = " in described.advice
    assert described.share_below_delta_star == pytest.approx(60 / 61)


def test_below_delta_star_but_outside_the_quadratic_regime_no_worse_is_promised_and_no_more() -> None:
    pool = np.concatenate([[[0.0]], np.full((60, 1), 1.0)])
    doubt = np.concatenate([[0.0], np.full(60, 0.5)])
    rows = np.arange(1, 61)
    described = diagnose(pool, labeled=[0], doubt=doubt, checked=rows, wrong=rows % 10 == 0, head=[[0.0], [4.4]])
    assert described.regime == "undecided"
    assert described.delta_over_delta_star is not None
    assert described.delta_over_delta_star < 1.0
    assert "no worse than the plain core-set" in described.advice


def test_lambda_epsilon_is_the_steepest_group_of_distances() -> None:
    radii = np.repeat([1.0, 4.0], 50)
    wrong = np.concatenate([np.arange(50) % 10 == 0, np.arange(50) % 2 == 0])
    epsilon, slope = error_rate_given_doubt(radii, np.full(100, 0.25), wrong)
    assert epsilon == pytest.approx((0.4, 2.0))
    assert slope == pytest.approx(0.5)


def test_groups_are_at_most_ten_and_hold_at_least_fifty_points() -> None:
    rng = np.random.default_rng(0)
    for n, groups in [(50, 1), (99, 1), (100, 2), (499, 9), (5_000, 10)]:
        epsilon, _ = error_rate_given_doubt(rng.random(n), np.full(n, 0.5), rng.random(n) < 0.5)
        assert len(epsilon) == groups


@given(st.integers(0, 10_000), st.floats(0.05, 0.5))
def test_lambda_epsilon_is_never_far_below_the_true_one(seed: int, truth: float) -> None:
    rng = np.random.default_rng(seed)
    radii, doubt = rng.uniform(1.0, 4.0, size=2_000), rng.uniform(0.2, 0.5, size=2_000)
    wrong = rng.random(2_000) < doubt * truth * radii
    _, slope = error_rate_given_doubt(radii, doubt, wrong)
    assert slope is not None
    assert slope > 0.8 * truth


def test_a_model_never_wrong_sets_no_lambda_epsilon() -> None:
    described = outcome_case(every=1_000)
    assert described.outcomes is not None
    assert described.outcomes.error_rate == 0.0
    assert described.lambda_epsilon is described.delta_star is described.beta is None
    assert any("right on all 100" in note for note in described.notes)


def test_errors_without_doubt_are_said_to_have_no_lambda_epsilon() -> None:
    pool = np.concatenate([[[0.0]], np.full((60, 1), 1.0), [[2.0]]])
    doubt = np.zeros(62)
    doubt[-1] = 0.5
    rows = np.arange(1, 61)
    described = diagnose(pool, labeled=[0], doubt=doubt, checked=rows, wrong=rows % 10 == 0)
    assert described.lambda_epsilon is None
    assert described.outcomes is not None
    assert described.outcomes.epsilon == (None,)
    assert any("no λ_ε explains" in note for note in described.notes)
    assert any("overconfident" in note for note in described.notes)
    strict_json(described)


def test_errors_that_fall_with_distance_are_reported() -> None:
    pool = np.concatenate([[[0.0]], np.full((50, 1), 1.0), np.full((50, 1), 2.0)])
    doubt = np.concatenate([[0.0], np.full(50, 0.01), np.full(50, 0.4)])
    rows = np.arange(1, 101)
    described = diagnose(pool, labeled=[0], doubt=doubt, checked=rows, wrong=rows % 10 == 0)
    assert any("fall with distance, from about 10 near the labels to 0.25" in note for note in described.notes)


def test_checked_rows_may_come_in_any_order_or_as_a_mask() -> None:
    pool, head, logits, wrong = random_case(3)
    rows = np.random.default_rng(1).permutation(np.arange(10, 200))
    mask = np.zeros(300, dtype=np.bool_)
    mask[rows] = True
    shuffled = diagnose(pool, labeled=range(10), logits=logits, head=head, checked=rows, wrong=wrong[rows])
    masked = diagnose(pool, labeled=range(10), logits=logits, head=head, checked=mask, wrong=wrong[10:200])
    assert shuffled.lambda_epsilon is not None
    assert strict_json(shuffled) == strict_json(masked)


def test_every_source_of_doubt_tells_the_same() -> None:
    pool, head, logits, _ = random_case(5)
    probabilities = np.exp(logits) / np.exp(logits).sum(axis=1, keepdims=True)
    doubt = 1.0 - probabilities.max(axis=1)
    first = diagnose(pool, labeled=[0, 1], logits=logits, head=head)
    second = diagnose(pool, labeled=[0, 1], probabilities=probabilities, head=head)
    third = diagnose(pool, labeled=[0, 1], doubt=doubt, head=head)
    assert first.delta_hat == pytest.approx(second.delta_hat)
    assert first.delta_hat == pytest.approx(third.delta_hat)


def test_cosine_distances_are_chords() -> None:
    described = diagnose([[1.0, 0.0], [0.0, 5.0], [-3.0, 0.0]], labeled=[0], doubt=[0.0, 0.5, 0.5], metric="cosine")
    assert described.radii == pytest.approx([sqrt(2.0), 2.0])


def test_a_pool_of_duplicates_and_a_pool_without_doubt_get_plain_words() -> None:
    repeated = diagnose(np.zeros((3, 2)), labeled=[0], doubt=[0.0, 0.5, 0.5])
    assert (repeated.delta, repeated.z, repeated.lambda_c_data) == (0.0, 0.0, 0.0)
    assert "nothing left to cover" in repeated.advice
    certain = diagnose(LINE, labeled=[0], doubt=np.zeros(6))
    assert "nothing to scale by" in certain.advice
    strict_json(repeated)
    strict_json(certain)


def test_notes_tell_what_contradicts_the_assumptions() -> None:
    described = diagnose(LINE, labeled=[0], doubt=[0.3, 0.9, 0.1, 0.1, 0.1, 0.1], head=[[0.0], [0.4]])
    assert any("more steeply than the head allows" in note for note in described.notes)
    assert any("doubts a labeled point by 0.3" in note for note in described.notes)
    assert described.lambda_c == described.lambda_c_data == 0.9


@given(st.integers(0, 10_000), st.booleans(), st.booleans())
def test_every_diagnosis_is_strict_json_with_shares_in_range(seed: int, with_head: bool, with_outcomes: bool) -> None:
    pool, head, logits, wrong = random_case(seed)
    rows = np.arange(20, 220)
    described = diagnose(
        pool,
        labeled=np.arange(20),
        logits=logits,
        head=head if with_head else None,
        checked=rows if with_outcomes else None,
        wrong=wrong[rows] if with_outcomes else None,
    )
    record = json.loads(strict_json(described))
    assert next(iter(record)) == "advice"
    assert record["radius_quantiles"]["1"] == described.delta
    assert record["advice"].endswith(".")
    assert "\n" not in record["advice"]
    shares = [
        described.share_quadratic_data,
        described.share_quadratic_head,
        described.share_below_delta_star,
        described.beta,
    ]
    assert all(share is None or 0.0 <= share <= 1.0 for share in shares)


def test_nothing_handed_in_is_changed() -> None:
    pool, head, logits, wrong = random_case(7)
    rows = np.arange(299, 99, -1)
    arrays: list[AnyArray] = [pool, head, logits, wrong, rows]
    before = [array.copy() for array in arrays]
    for array in arrays:
        array.setflags(write=False)
    diagnose(pool, labeled=range(50), logits=logits, head=head, checked=rows, wrong=wrong[rows])
    assert all((now == then).all() for now, then in zip(arrays, before, strict=True))


def test_real_digits_are_diagnosed_in_all_three_precisions() -> None:
    features, labels = load_digits(return_X_y=True)
    model = LogisticRegression(C=0.1, max_iter=500).fit(features[:300] / 16.0, labels[:300])
    probabilities = model.predict_proba(features / 16.0)
    rows = np.arange(300, 700)
    wrong = probabilities.argmax(axis=1)[rows] != labels[rows]
    for kind in (np.float16, np.float32, np.float64):
        described = diagnose(
            (features / 16.0).astype(kind),
            labeled=range(300),
            probabilities=probabilities,
            head=model.coef_.astype(kind),
            checked=rows,
            wrong=wrong,
        )
        assert described.n == len(features) - 300
        assert described.delta_star is not None
        assert described.delta_star <= e / sqrt(described.lambda_c * (described.lambda_epsilon or 0.0)) * (1 + 1e-9)


FIFTY = list(range(50))
bad_calls: list[tuple[str, dict[str, object]]] = [
    (r"labeled names 0 points", {"labeled": []}),
    (r"leaves 0 of the pool's 100", {"labeled": range(100)}),
    (r"no doubt was given; pass probabilities=", {"doubt": None}),
    (r"probabilities and doubt are two sources", {"probabilities": np.full((100, 2), 0.5)}),
    (r"metric='manhattan' is not known", {"metric": "manhattan"}),
    (r"head bounds the slope over Euclidean distances", {"head": np.eye(2), "metric": "cosine"}),
    (r"head has shape \(3,\); pass one row .* shape \(classes, 2\)", {"head": np.ones(3)}),
    (r"head has shape \(1, 2\).*binary model", {"head": np.ones((1, 2))}),
    (r"head has shape \(3, 5\)", {"head": np.ones((3, 5))}),
    (r"head has shape \(3, 2\).*\(4, 2\)", {"head": np.ones((3, 2)), "doubt": None, "logits": np.zeros((100, 4))}),
    (r"head holds nan at row 0, column 1", {"head": [[1.0, np.nan], [0.0, 0.0]]}),
    (r"checked was given without wrong", {"checked": FIFTY}),
    (r"wrong was given without checked", {"wrong": [True] * 50}),
    (r"checked names 2 rows, too few", {"checked": [1, 2], "wrong": [True, False]}),
    (r"checked names row 99, which is labeled", {"checked": range(50, 100), "wrong": [True] * 50}),
    (r"checked names 1 rows twice", {"checked": [*FIFTY, 0], "wrong": [True] * 51}),
    (
        "checked holds 100 at position 50, which is not a row",
        {"checked": [*FIFTY, 100], "wrong": [True] * 51},
    ),
    (r"wrong has shape \(49,\).*shape \(50,\)", {"checked": FIFTY, "wrong": [True] * 49}),
    (r"wrong holds 7; pass True", {"checked": FIFTY, "wrong": [7] * 50}),
    (r"pool is all zeros at row 3", {"metric": "cosine", "pool": np.eye(2)[[0, 1, 0]].tolist() + [[0.0, 0.0]] * 97}),
]


@pytest.mark.parametrize(("message", "changes"), bad_calls, ids=[message for message, _ in bad_calls])
def test_a_bad_argument_is_named_with_its_value_and_the_hint(message: str, changes: dict[str, object]) -> None:
    rng = np.random.default_rng(0)
    call: dict[str, Any] = {"pool": rng.normal(size=(100, 2)), "labeled": [99], "doubt": np.full(100, 0.5)}
    with pytest.raises(DubitoError, match=message):
        diagnose(**(call | changes))


def test_the_advice_says_what_scaling_changes_on_this_pool() -> None:
    rng = np.random.default_rng(3)
    n, labeled = 600, np.arange(20)
    pool = np.concatenate([np.zeros((20, 2)), rng.normal(size=(n - 20, 2))])
    far = np.linalg.norm(pool, axis=1)
    rises = diagnose(pool, labeled=labeled, doubt=np.clip(far / 20, 0, 1))
    assert rises.advice.startswith(
        "Distance and doubt select the same points here, with or without scaling: of its first 58"
    )
    assert "; doubt rises with distance (rank correlation +1.00)" in rises.advice
    alike = diagnose(pool, labeled=labeled, doubt=rng.uniform(0.5, 0.52, n))
    assert alike.advice.startswith("Doubt-scaling selects nearly the same points as the plain core-set here")
    assert "doubt hardly changes with distance" in alike.advice
    near = np.where(far < 1, rng.uniform(0, 1, n), 0.01)
    falls = diagnose(pool, labeled=labeled, doubt=near)
    assert falls.advice.startswith("Doubt-scaling selects nearly the same points as least-confidence here")
    assert "doubt falls with distance" in falls.advice
    both = diagnose(pool, labeled=labeled, doubt=rng.uniform(0, 1, n))
    assert both.advice.startswith("Doubt-scaling balances distance and doubt here")
    assert len({described.advice for described in (rises, alike, falls, both)}) == 4


def test_the_relation_is_counted_on_the_points_that_scaling_puts_first() -> None:
    pool, _, logits, _ = random_case(11)
    described = diagnose(pool, labeled=np.arange(20), logits=logits)
    first = described.relation.first
    order = [
        np.argsort(-values, kind="stable")[:first]
        for values in (described.radii * described.doubt, described.radii, described.doubt)
    ]
    assert first == described.n // 10
    assert described.relation.far == len(set(order[0]) & set(order[1]))
    assert described.relation.doubted == len(set(order[0]) & set(order[2]))
    assert described.relation.correlation == pytest.approx(spearmanr(described.radii, described.doubt)[0])


def test_outliers_and_a_model_that_is_sure_of_most_are_reported() -> None:
    pool = np.concatenate([[[0.0]], np.full((50, 1), 1.0), [[40.0]]])
    described = diagnose(pool, labeled=[0], doubt=np.concatenate([np.full(51, 0.01), [0.3]]))
    assert any(note.startswith("The farthest point is 40 times as far from labeled points") for note in described.notes)
    assert any(note.startswith("The model is sure of 98% of the points") for note in described.notes)
    quiet = diagnose(LINE, labeled=[0], doubt=LINE_DOUBT)
    assert not any("farthest point" in note or "sure of" in note for note in quiet.notes)


def test_equal_distances_or_doubts_have_no_correlation() -> None:
    assert diagnose([[0.0], [1.0], [1.0]], labeled=[0], doubt=[0.0, 0.2, 0.3]).relation.correlation is None
    flat = diagnose(LINE, labeled=[0], doubt=[0.2] * len(LINE))
    assert flat.relation.correlation is None
    assert "rank correlation" not in flat.advice
    assert diagnose([[0.0], [0.0], [0.0], [1.0]], labeled=[0], doubt=[0.0, 0.2, 0.3, 0.1]).relation.tail is None
