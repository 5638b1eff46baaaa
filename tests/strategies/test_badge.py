from collections import Counter
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import dubito
from dubito.doubt import Softmax
from dubito.errors import InvalidArgument
from dubito.matrix import FloatArray, IntArray
from dubito.strategies.badge import Gradients, label_errors


def gradients_by_hand(features: FloatArray, probabilities: FloatArray) -> FloatArray:
    errors = probabilities - np.eye(probabilities.shape[1])[probabilities.argmax(axis=1)]
    return np.asarray((errors[:, :, None] * features[:, None, :]).reshape(len(features), -1))


def sample_by_hand(gradients: FloatArray, budget: int, rng: np.random.Generator) -> tuple[list[int], list[float]]:
    """K-means++ on gradients written out, by the same draws."""
    lengths = np.sqrt((gradients**2).sum(axis=1))
    picks, priorities = [int(lengths.argmax())], [float(lengths.max())]
    while len(picks) < budget:
        squared = ((gradients[:, None] - gradients[picks]) ** 2).sum(axis=2).min(axis=1)
        squared[squared < 1e-12] = 0.0
        if squared.any():
            steps = np.cumsum(squared)
            picks.append(int(np.searchsorted(steps, rng.random() * steps[-1], side="right")))
        else:
            picks.append(int(rng.choice(np.setdiff1d(np.arange(len(gradients)), picks))))
        priorities.append(float(np.sqrt(squared[picks[-1]])))
    return picks, priorities


@given(st.integers(0, 2**31))
def test_badge_samples_as_k_means_plus_plus_on_gradients_written_out(seed: int) -> None:
    rng = np.random.default_rng(seed)
    n, d, c = int(rng.integers(1, 25)), int(rng.integers(1, 5)), int(rng.integers(2, 5))
    # Quarters and small integers: duplicates, certain rows, whose gradient is zero, and no rounding.
    features = rng.integers(-2, 3, (n, d)).astype(np.float64)
    probabilities = rng.multinomial(4, np.full(c, 1 / c), n).astype(np.float64) / 4
    candidates = np.sort(rng.permutation(n)[: rng.integers(1, n + 1)])
    budget = int(rng.integers(1, len(candidates) + 1))
    picked = dubito.select(
        features, budget, probabilities=probabilities, candidates=candidates, strategy="badge", seed=seed
    )
    gradients = gradients_by_hand(features, probabilities)[candidates]
    picks, priorities = sample_by_hand(gradients, budget, np.random.default_rng(seed))
    assert picked.indices.tolist() == candidates[picks].tolist()
    assert picked.priorities == pytest.approx(priorities, abs=1e-9)


def test_factored_distances_are_those_of_the_outer_products() -> None:
    rng = np.random.default_rng(0)
    features, probabilities = rng.standard_normal((40, 7)), rng.dirichlet(np.ones(5), 40)
    rows = np.array([3, 4, 8, 30, 39])
    written = gradients_by_hand(features, probabilities)[rows]
    gradients = Gradients(features, rows, probabilities)
    for position in range(5):
        expected = ((written - written[position]) ** 2).sum(axis=1)
        assert gradients.squared_distances(position) == pytest.approx(expected, abs=1e-12)


def test_later_picks_are_drawn_in_proportion_to_the_squared_distance() -> None:
    # Gradients of length 3, 1, 2 and 0 along one line: from the first, squared distances 0, 4, 1 and 9.
    pool, probabilities = np.array([[6.0], [2.0], [4.0], [0.0]]), np.full((4, 2), 0.5)
    draws: Counter[int] = Counter()
    for seed in range(700):
        picks = dubito.select(pool, 2, probabilities=probabilities, strategy="badge", seed=seed).indices
        assert picks[0] == 0
        draws[int(picks[1])] += 1
    assert draws[0] == 0
    assert [draws[i] / 700 for i in (1, 2, 3)] == pytest.approx([4 / 14, 1 / 14, 9 / 14], abs=0.05)


@pytest.mark.parametrize("probability", [0.5, 1.0])
def test_badge_meets_the_budget_among_duplicates_and_where_the_model_is_certain(probability: float) -> None:
    pool, probabilities = np.full((9, 3), 1 / 3), np.tile([probability, 1 - probability], (9, 1))
    batches: list[IntArray] = [
        dubito.select(pool, 6, probabilities=probabilities, strategy="badge", seed=seed).indices for seed in range(5)
    ]
    assert all(len(set(batch.tolist())) == 6 for batch in batches)
    assert len({tuple(batch.tolist()) for batch in batches}) > 1


def test_near_copies_of_a_pick_are_left_while_there_is_anything_else() -> None:
    rng = np.random.default_rng(1)
    pool = np.concatenate([np.tile(rng.standard_normal((1, 6)) * 3.7, (50, 1)), rng.standard_normal((4, 6))])
    probabilities = np.concatenate([np.tile(rng.dirichlet(np.ones(3)), (50, 1)), rng.dirichlet(np.ones(3), 4)])
    for seed in range(20):
        picked = dubito.select(pool, 5, probabilities=probabilities, strategy="badge", seed=seed).indices
        assert sorted(picked.tolist())[1:] == [50, 51, 52, 53]


def test_errors_of_a_confident_row_keep_their_digits() -> None:
    errors = label_errors(np.array([[1.0, 1e-9, 2e-9]], dtype=np.float32))
    assert errors[0] == pytest.approx([-3e-9, 1e-9, 2e-9], rel=1e-6)


def test_badge_takes_memory_maps_half_precision_logits_and_posterior_samples(tmp_path: Path) -> None:
    rng = np.random.default_rng(2)
    features, logits = rng.integers(-8, 8, (300, 6)).astype(np.float16), rng.standard_normal((300, 4))
    np.save(tmp_path / "pool.npy", features)
    probabilities = Softmax(logits)[:]
    expected = dubito.select(features.astype(np.float64), 40, probabilities=probabilities, strategy="badge").indices
    mapped = np.load(tmp_path / "pool.npy", mmap_mode="r")
    assert dubito.select(mapped, 40, logits=logits, strategy="badge").indices.tolist() == expected.tolist()
    lifted = np.repeat(probabilities[:, None], 3, axis=1)
    assert dubito.select(mapped, 40, probabilities=lifted, strategy="badge").indices.tolist() == expected.tolist()


@pytest.mark.parametrize("block", [1, 100, 1 << 20])
def test_badge_is_the_same_for_every_block_size(block: int, monkeypatch: pytest.MonkeyPatch) -> None:
    rng = np.random.default_rng(3)
    pool, probabilities = rng.integers(-9, 10, (120, 5)).astype(np.float32), rng.dirichlet(np.ones(3), 120)
    expected = dubito.select(pool, 30, probabilities=probabilities, strategy="badge").indices.tolist()
    monkeypatch.setattr("dubito.strategies.badge.BLOCK_BYTES", block)
    assert dubito.select(pool, 30, probabilities=probabilities, strategy="badge").indices.tolist() == expected


def test_the_metric_cosine_compares_directions() -> None:
    pool, probabilities = np.array([[1.0, 0.0], [900.0, 0.0], [0.0, 2.0]]), np.full((3, 2), 0.5)
    for seed in range(10):
        picked = dubito.select(pool, 2, probabilities=probabilities, strategy="badge", metric="cosine", seed=seed)
        assert picked.indices.tolist() == [0, 2]
        assert picked.priorities == pytest.approx([np.sqrt(0.5), 1.0])


def test_what_is_labelled_plays_no_part() -> None:
    rng = np.random.default_rng(4)
    pool, probabilities = rng.standard_normal((30, 3)), rng.dirichlet(np.ones(3), 30)
    alone = dubito.select(pool, 8, probabilities=probabilities, strategy="badge").indices
    beside = dubito.select(pool, 8, probabilities=probabilities, strategy="badge", labelled=pool + 0.1).indices
    assert alone.tolist() == beside.tolist()


def test_badge_without_probabilities_says_what_to_pass() -> None:
    choose: Callable[..., object] = dubito.select
    for given_ in ({}, {"doubt": np.full(4, 0.5)}):
        with pytest.raises(InvalidArgument, match=r"strategy='badge' needs class probabilities; pass probabilities="):
            choose(np.zeros((4, 2)), 2, strategy="badge", **given_)
