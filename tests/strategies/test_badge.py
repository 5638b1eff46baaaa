import tracemalloc
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
from dubito.strategies.badge import HostGradients, errors_of, label_errors


def gradients_by_hand(features: FloatArray, probabilities: FloatArray) -> FloatArray:
    errors = probabilities - np.eye(probabilities.shape[1])[probabilities.argmax(axis=1)]
    return np.asarray((errors[:, :, None] * features[:, None, :]).reshape(len(features), -1))


def without_rounding(seed: int) -> tuple[FloatArray, FloatArray, IntArray]:
    """Quarters and small integers: duplicates, certain rows, whose gradient is zero, and no rounding."""
    rng = np.random.default_rng(seed)
    n, d, c = int(rng.integers(1, 25)), int(rng.integers(1, 5)), int(rng.integers(2, 5))
    features = rng.integers(-2, 3, (n, d)).astype(np.float64)
    probabilities = rng.multinomial(4, np.full(c, 1 / c), n).astype(np.float64) / 4
    return features, probabilities, np.sort(rng.permutation(n)[: rng.integers(1, n + 1)])


@given(st.integers(0, 2**31))
def test_each_pick_is_as_far_from_the_picks_before_as_its_priority_says(seed: int) -> None:
    features, probabilities, candidates = without_rounding(seed)
    allowed = np.isin(np.arange(len(features)), candidates)
    picked = dubito.select(
        features, len(candidates), probabilities=probabilities, candidates=allowed, strategy="badge", seed=seed
    )
    gradients = gradients_by_hand(features, probabilities)
    lengths = np.sqrt((gradients**2).sum(axis=1))
    assert sorted(picked.indices.tolist()) == candidates.tolist()
    assert picked.indices[0] == candidates[lengths[candidates].argmax()]
    assert picked.priorities[0] == pytest.approx(lengths[candidates].max())
    for turn in range(1, len(candidates)):
        before, after = gradients[picked.indices[:turn]], gradients[picked.indices[turn:]]
        distances = np.sqrt(((after[:, None] - before) ** 2).sum(axis=2).min(axis=1))
        assert picked.priorities[turn] == pytest.approx(distances[0], abs=1e-9)
        # Copies of picks wait until there is nothing else.
        assert distances[0] > 1e-6 or distances.max() < 1e-6


def test_factored_distances_are_those_of_the_outer_products() -> None:
    rng = np.random.default_rng(0)
    features, probabilities = rng.standard_normal((40, 7)), rng.dirichlet(np.ones(5), 40)
    rows = np.array([3, 4, 8, 30, 39])
    written = gradients_by_hand(features, probabilities)[rows]
    expected = ((written[:, None] - written) ** 2).sum(axis=2)
    gradients = HostGradients(features, rows, errors_of(probabilities, rows))
    assert gradients.squared_lengths == pytest.approx((written**2).sum(axis=1))
    for some in ([2], [4, 0], [1, 2, 3]):
        assert gradients.to_nearest(np.array(some)) == pytest.approx(expected[some].min(axis=0), abs=1e-12)
        assert gradients.pairwise(np.array(some)) == pytest.approx(expected[np.ix_(some, some)], abs=1e-12)


def test_later_picks_are_drawn_in_proportion_to_the_squared_distance() -> None:
    # HostGradients of length 3, 1, 2 and 0 along one line: from the first, squared distances 0, 4, 1 and 9.
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


@pytest.mark.parametrize(("offset", "scale"), [(1e6, 1.0), (-1e3, 1e130), (0.0, 1e-160)])
def test_copies_wait_whatever_the_size_of_the_features(offset: float, scale: float) -> None:
    rng = np.random.default_rng(5)
    pool = (rng.standard_normal((120, 4)) + offset) * scale
    pool, probabilities = np.tile(pool, (3, 1)), np.tile(rng.dirichlet(np.ones(3), 120), (3, 1))
    picked = dubito.select(pool, 360, probabilities=probabilities, strategy="badge")
    assert sorted(picked.indices.tolist()) == list(range(360))
    if scale > 1e-150:  # Below, squares have lost their digits.
        assert sorted((picked.indices[:120] % 120).tolist()) == list(range(120))
        assert not picked.priorities[120:].any()


def test_certain_rows_are_as_one_gradient_of_length_zero() -> None:
    rng = np.random.default_rng(6)
    pool, probabilities = rng.standard_normal((90, 3)), rng.dirichlet(np.ones(3), 90)
    probabilities[30:] = np.eye(3)[rng.integers(0, 3, 60)]
    picked = dubito.select(pool, 90, probabilities=probabilities, strategy="badge")
    assert np.count_nonzero(picked.indices[:31] < 30) == 30
    assert picked.priorities[:31].all()
    assert not picked.priorities[31:].any()


def test_fewer_picks_are_a_prefix_of_more() -> None:
    rng = np.random.default_rng(7)
    pool, probabilities = rng.standard_normal((400, 8)), rng.dirichlet(np.ones(3), 400)
    whole = dubito.select(pool, 300, probabilities=probabilities, strategy="badge", seed=1).indices.tolist()
    for budget in (1, 20, 150):
        part = dubito.select(pool, budget, probabilities=probabilities, strategy="badge", seed=1).indices
        assert part.tolist() == whole[:budget]


def test_many_picks_at_once_do_not_hold_their_distances_to_the_whole_pool(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("DUBITO_THREADS", "2")
    rng = np.random.default_rng(8)
    features, errors = rng.standard_normal((20_000, 2)).astype(np.float32), rng.standard_normal((20_000, 2))
    gradients = HostGradients(features, np.arange(20_000), errors)
    tracemalloc.start()
    gradients.to_nearest(np.arange(256))
    _, peak = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert peak < 20_000 * 256 * 8 / 4


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
    monkeypatch.setattr("dubito.strategies.badge.HOST_BLOCK_BYTES", block)
    assert dubito.select(pool, 30, probabilities=probabilities, strategy="badge").indices.tolist() == expected


def test_the_metric_cosine_compares_directions() -> None:
    pool, probabilities = np.array([[1.0, 0.0], [900.0, 0.0], [0.0, 2.0]]), np.full((3, 2), 0.5)
    for seed in range(10):
        picked = dubito.select(pool, 2, probabilities=probabilities, strategy="badge", metric="cosine", seed=seed)
        assert picked.indices.tolist() == [0, 2]
        assert picked.priorities == pytest.approx([np.sqrt(0.5), 1.0])


def test_labeled_points_have_no_influence() -> None:
    rng = np.random.default_rng(4)
    pool, probabilities = rng.standard_normal((30, 3)), rng.dirichlet(np.ones(3), 30)
    alone = dubito.select(pool, 8, probabilities=probabilities, strategy="badge").indices
    beside = dubito.select(pool, 8, probabilities=probabilities, strategy="badge", labeled=pool + 0.1).indices
    assert alone.tolist() == beside.tolist()


def test_badge_without_probabilities_says_what_to_pass() -> None:
    choose: Callable[..., object] = dubito.select
    for given_ in ({}, {"doubt": np.full(4, 0.5)}):
        with pytest.raises(InvalidArgument, match=r"strategy='badge' needs class probabilities; pass probabilities="):
            choose(np.zeros((4, 2)), 2, strategy="badge", **given_)
