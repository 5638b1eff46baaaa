"""The estimated accuracy on the unlabeled rows: what it equals, and how it behaves."""

import json
import runpy
from pathlib import Path

import numpy as np
import pytest

import dubito
from dubito.errors import InvalidArgument, InvalidData
from dubito.models.accuracy import AccuracyEstimate, estimate_accuracy
from dubito.models.held_out import Share
from levels import examples

ROOT = Path(__file__).parents[2]
LARGE = np.full(1_000_000, 0.8)


def estimate(*given: np.ndarray) -> AccuracyEstimate:
    found = estimate_accuracy(*given)
    assert found is not None
    return found


@pytest.mark.parametrize(("n_right", "n"), [(5, 5), (9, 10), (20, 40), (3, 12)])
def test_equal_confidences_and_a_large_pool_give_wilsons_interval(n_right: int, n: int) -> None:
    found = estimate(np.arange(n) < n_right, np.full(n, 0.8), np.ones(n), LARGE)
    assert found.value == pytest.approx(n_right / n, abs=0.001)
    assert (found.low, found.high) == pytest.approx(Share(n_right, n).interval, abs=0.004)
    assert (found.n_drawn, found.n_unlabeled) == (n, len(LARGE))


def test_nothing_is_estimated_from_few_random_labels_or_where_everything_is_labeled() -> None:
    right, confidence = np.ones(20, dtype=np.bool_), np.full(20, 0.9)
    few = np.arange(20) < 4
    assert estimate_accuracy(right, confidence, few.astype(np.float64), LARGE) is None
    assert estimate_accuracy(right, confidence, np.ones(20), LARGE[:0]) is None


def test_confidences_that_tell_right_from_wrong_narrow_the_interval() -> None:
    rng = np.random.default_rng(3)
    confidence = np.where(rng.random(10_000) < 0.5, 0.99, 0.6)
    is_right = rng.random(10_000) < confidence
    drawn = rng.permutation(10_000)[:200]
    given = is_right[drawn], confidence[drawn], np.ones(200), np.delete(confidence, drawn)
    found, alone = estimate(*given), Share(int(is_right[drawn].sum()), 200).interval
    assert found.high - found.low < 0.95 * (alone[1] - alone[0])
    assert found.low < np.delete(is_right, drawn).mean() < found.high


def test_overconfidence_does_not_move_the_estimate_away_from_the_random_labels() -> None:
    rng = np.random.default_rng(4)
    confidence = rng.uniform(0.85, 0.99, 5_000)
    is_right = rng.random(5_000) < 0.5
    drawn = rng.permutation(5_000)[:100]
    found = estimate(is_right[drawn], confidence[drawn], np.ones(100), np.delete(confidence, drawn))
    assert found.value == pytest.approx(is_right[drawn].mean(), abs=0.03)


def test_rows_drawn_with_known_probabilities_are_weighted_by_them() -> None:
    """Wrong rows are drawn four times as often."""
    errors = []
    for seed in range(examples(60)):
        rng = np.random.default_rng(seed)
        is_right = rng.random(4_000) < 0.8
        probability = np.where(is_right, 0.02, 0.08)
        drawn = np.flatnonzero(rng.random(4_000) < probability)
        rest = np.full(4_000 - len(drawn), 0.7)
        found = estimate(is_right[drawn], np.full(len(drawn), 0.7), 1.0 / probability[drawn], rest)
        errors.append(found.value - np.delete(is_right, drawn).mean())
        plain = estimate(is_right[drawn], np.full(len(drawn), 0.7), np.ones(len(drawn)), rest)
        assert plain.value < found.value - 0.1
    assert abs(np.mean(errors)) < 0.03


def test_rows_chosen_after_the_draws_do_not_bias_the_estimate() -> None:
    """Half of the pool is chosen because it is hard: the rest is easier than the pool that was drawn from."""
    errors, covered = [], []
    for seed in range(examples(120)):
        rng = np.random.default_rng(seed)
        is_right = rng.random(400) < np.where(np.arange(400) < 200, 0.4, 0.9)
        drawn = rng.permutation(400)[:60]
        chosen = np.setdiff1d(np.arange(200), drawn)
        rows = np.concatenate([drawn, chosen])
        weights = np.repeat([1.0, 0.0], [len(drawn), len(chosen)])
        rest = np.setdiff1d(np.arange(400), rows)
        truth = is_right[rest].mean()
        found = estimate(is_right[rows], np.full(len(rows), 0.7), weights, np.full(len(rest), 0.7))
        errors.append(found.value - truth)
        covered.append(found.low <= truth <= found.high)
    assert abs(np.mean(errors)) < 0.04
    assert np.mean(covered) > 0.8


def pool_and_labels() -> tuple[np.ndarray, dict[int, str]]:
    rng = np.random.default_rng(0)
    pool = rng.normal(size=(300, 3))
    return pool, {row: "ab"[int(pool[row, 0] + 0.5 * rng.normal() > 0.0)] for row in range(60)}


def test_fit_estimates_the_accuracy_from_drawn_rows() -> None:
    pool, labels = pool_and_labels()
    assert dubito.fit(pool, labels).estimate is None
    found = dubito.fit(pool, labels, drawn=np.arange(30, 300)).estimate
    assert found is not None
    assert (found.n_drawn, found.n_unlabeled) == (30, 240)
    assert found.low < found.value < found.high
    assert f"{found}" in repr(dubito.fit(pool, labels, drawn=np.arange(300) >= 30))
    weighted = dubito.fit(pool, labels, drawn={row: 0.1 if row % 2 else 0.3 for row in range(30, 60)}).estimate
    assert weighted is not None
    assert weighted != found
    equal = dubito.fit(pool, labels, drawn=dict.fromkeys(range(30, 60), 0.2)).estimate
    assert equal == pytest.approx(found)


def test_a_drawn_label_that_is_the_only_one_of_its_class_counts_as_wrong() -> None:
    pool, labels = pool_and_labels()
    before, after = (
        dubito.fit(pool, {**labels, 59: label}, drawn=np.arange(50, 60)).estimate for label in (labels[59], "c")
    )
    assert before is not None
    assert after is not None
    assert after.value < before.value
    assert after.n_drawn == 10


def test_wrong_draws_are_refused() -> None:
    pool, labels = pool_and_labels()
    with pytest.raises(InvalidData, match="is not a probability") as refused:
        dubito.fit(pool, labels, drawn={0: 0.0, 1: 0.5})
    assert refused.value.argument == "drawn"
    with pytest.raises(InvalidArgument, match="drawn='often' is not a probability"):
        dubito.fit(pool, labels, drawn={0: 0.5, 1: "often"})
    with pytest.raises(InvalidArgument, match="not a row of the pool"):
        dubito.fit(pool, labels, drawn=[300])
    with pytest.raises(InvalidArgument, match="points outside the pool"):
        dubito.fit(pool, ["a", "b"], labeled=np.array([[5.0, 0, 0], [6.0, 0, 0]]), drawn=[1])


def test_the_page_of_simulated_projects_is_made_from_its_record() -> None:
    results = ROOT / "docs" / "results"
    made = runpy.run_path(str(ROOT / "benchmarks" / "accuracy_interval.py"))
    projects = json.loads((results / "accuracy.json").read_text(encoding="utf-8"))
    assert made["page"](projects) == (results / "accuracy.md").read_text(encoding="utf-8")
    again = made["run_project"](1)
    assert again["kind"] == projects[1]["kind"]
    assert again["truth"] == pytest.approx(projects[1]["truth"], abs=0.05)
