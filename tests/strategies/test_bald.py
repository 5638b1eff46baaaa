from itertools import combinations, product

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import dubito
from dubito.doubt.posterior import Labelings, information_gain, unlabeled
from dubito.errors import InvalidArgument
from dubito.matrix import FloatArray, IntArray, Matrix
from dubito.strategies import BatchBald, bald, build_strategy
from dubito.strategies.bald import extend


def entropy(probabilities: FloatArray) -> float:
    present = probabilities[probabilities > 0]
    return float(-(present * np.log(present)).sum())


def joint_information(batch: FloatArray) -> float:
    """``H(y_1..y_b) - mean_k Σ_i H(y_i | θ_k)`` of (b, k, c), every labeling written out."""
    b, k, c = batch.shape
    joint = [
        np.mean([np.prod([batch[i, j, label] for i, label in enumerate(labels)]) for j in range(k)])
        for labels in product(range(c), repeat=b)
    ]
    return entropy(np.array(joint)) - float(np.mean([sum(entropy(row[j]) for row in batch) for j in range(k)]))


def make_posterior(rng: np.random.Generator, n: int, k: int, c: int) -> FloatArray:
    return rng.dirichlet(np.full(c, rng.choice([0.1, 0.5, 3.0])), (n, k))


def pick(posterior: FloatArray, budget: int, samples: int = 1024, seed: int = 0) -> dubito.Selection:
    pool = np.zeros((len(posterior), 1))
    return dubito.select(pool, budget, probabilities=posterior, strategy=BatchBald(samples=samples), seed=seed)


@given(st.integers(0, 2**31))
def test_bald_is_the_mutual_information_of_brute_force(seed: int) -> None:
    rng = np.random.default_rng(seed)
    posterior = make_posterior(rng, int(rng.integers(2, 9)), int(rng.integers(2, 6)), int(rng.integers(2, 5)))
    n = len(posterior)
    scores = np.array([joint_information(row[None]) for row in posterior])
    picked = dubito.select(np.zeros((n, 2)), n, probabilities=posterior, strategy="bald")
    assert picked.priorities == pytest.approx(scores[picked.indices], abs=1e-11)
    assert (np.diff(picked.priorities) <= 0).all()
    assert picked.radius is None


@given(st.integers(0, 2**31))
def test_batchbald_adds_the_point_that_brute_force_adds(seed: int) -> None:
    rng = np.random.default_rng(seed)
    posterior = make_posterior(rng, int(rng.integers(2, 7)), int(rng.integers(2, 5)), int(rng.integers(2, 4)))
    candidates = np.sort(rng.permutation(len(posterior))[: rng.integers(2, len(posterior) + 1)])
    budget = int(rng.integers(1, min(len(candidates), 4) + 1))
    allowed = np.isin(np.arange(len(posterior)), candidates)
    picked = dubito.select(
        np.zeros((len(posterior), 1)), budget, probabilities=posterior, candidates=allowed, strategy="batchbald"
    )
    batch: list[int] = []
    for row, priority in zip(picked.indices.tolist(), picked.priorities.tolist(), strict=True):
        known = joint_information(posterior[batch]) if batch else 0.0
        gains = {i: joint_information(posterior[[*batch, i]]) - known for i in candidates.tolist() if i not in batch}
        assert gains[row] == pytest.approx(max(gains.values()), abs=1e-9)
        assert priority == pytest.approx(gains[row], abs=1e-9)
        batch.append(row)


@given(st.integers(0, 2**31))
def test_an_exact_batch_has_the_greedy_share_of_the_best_and_gains_that_never_grow(seed: int) -> None:
    rng = np.random.default_rng(seed)
    posterior = make_posterior(rng, 6, 4, 2)
    picked = pick(posterior, 3)
    best = max(joint_information(posterior[list(batch)]) for batch in combinations(range(6), 3))
    assert best * (1 - 1 / np.e) - 1e-9 <= picked.priorities.sum() <= best + 1e-9
    assert (np.diff(picked.priorities) <= 1e-9).all()
    assert picked.priorities.sum() <= np.log(4) + 1e-9


@given(st.integers(0, 2**31))
def test_the_first_pick_of_batchbald_is_that_of_bald(seed: int) -> None:
    posterior = np.round(make_posterior(np.random.default_rng(seed), 12, 3, 3), 1) + 1e-3
    posterior /= posterior.sum(axis=2, keepdims=True)
    alone = dubito.select(np.zeros((12, 1)), 1, probabilities=posterior, strategy="bald")
    together = pick(posterior, 1)
    assert together.indices.tolist() == alone.indices.tolist()
    assert together.priorities.tolist() == alone.priorities.tolist()


def eager(posterior: FloatArray, budget: int) -> list[int]:
    """BatchBALD with every point scored for every pick, over all labelings."""
    labelings, picked = unlabeled(posterior.shape[1]), list[int]()
    for _ in range(budget):
        gains = information_gain(posterior, labelings)
        gains[picked] = -1.0
        picked.append(int(gains.argmax()))
        labelings = extend(labelings, posterior[picked[-1]], 10**9, np.random.default_rng(0))
    return picked


@given(st.integers(0, 2**31), st.sampled_from([1, 3, 64]))
def test_scoring_again_only_what_could_be_best_changes_no_exact_pick(seed: int, first_look: int) -> None:
    rng = np.random.default_rng(seed)
    posterior = make_posterior(rng, 40, int(rng.integers(2, 6)), 2)
    posterior[20:] = posterior[rng.integers(20, size=20)]  # Twins tie.
    with pytest.MonkeyPatch.context() as patched:
        patched.setattr(bald, "FIRST_LOOK", first_look)
        assert pick(posterior, 8, samples=2**8).indices.tolist() == eager(posterior, 8)


def test_few_points_are_scored_again_and_none_once_nothing_is_left_to_tell(monkeypatch: pytest.MonkeyPatch) -> None:
    scored, gains_of = list[int](), bald._gains

    def counted(probabilities: Matrix, rows: IntArray, labelings: Labelings) -> FloatArray:
        scored.append(len(rows))
        return gains_of(probabilities, rows, labelings)

    monkeypatch.setattr(bald, "_gains", counted)
    posterior = np.random.default_rng(9).dirichlet(np.full(3, 3.0), (600, 10))
    picked = pick(posterior, 300, samples=64)
    described = int((picked.priorities > 0).sum())
    assert 50 < described < 250
    assert sum(scored) < 0.5 * 600 * described
    assert (np.diff(picked.indices[described:]) > 0).all()


def test_a_sampled_batch_tells_nearly_what_scoring_every_point_does() -> None:
    for seed in range(3):
        posterior = make_posterior(np.random.default_rng(seed), 60, 8, 3)
        exact = joint_information(posterior[eager(posterior, 6)])
        assert joint_information(posterior[pick(posterior, 6, samples=128).indices]) > 0.95 * exact


def test_batchbald_leaves_the_twins_that_bald_takes() -> None:
    posterior = np.full((8, 4, 2), 0.5)
    posterior[:3, :, 0] = [0.99, 0.99, 0.01, 0.01]
    posterior[3, :, 0] = [0.9, 0.1, 0.9, 0.1]
    posterior[..., 1] = 1 - posterior[..., 0]
    assert dubito.select(np.zeros((8, 1)), 3, probabilities=posterior, strategy="bald").indices.tolist() == [0, 1, 2]
    assert pick(posterior, 2).indices.tolist() == [0, 3]


def test_sampled_information_is_near_the_exact_one() -> None:
    rng = np.random.default_rng(5)
    posterior = make_posterior(rng, 20, 6, 3)
    exact = sampled = unlabeled(6)
    for row in range(6):
        exact = extend(exact, posterior[row], 3**6, rng)
        sampled = extend(sampled, posterior[row], 400, rng)
    assert len(exact.weights) == 3**6
    assert len(sampled.weights) == 400
    rest = posterior[6:]
    wanted, found = information_gain(rest, exact), information_gain(rest, sampled)
    assert found == pytest.approx(wanted, abs=0.06)
    assert not np.array_equal(found, wanted)
    written = [joint_information(posterior[[*range(6), 6 + i]]) - joint_information(posterior[:6]) for i in range(2)]
    assert wanted[:2] == pytest.approx(written, abs=1e-9)


def test_a_sample_of_labelings_has_no_bias() -> None:
    rng = np.random.default_rng(6)
    posterior = make_posterior(rng, 5, 4, 3)
    exact = unlabeled(4)
    for row in range(4):
        exact = extend(exact, posterior[row], 81, rng)
    estimates = []
    for _ in range(400):
        sampled = unlabeled(4)
        for row in range(4):
            sampled = extend(sampled, posterior[row], 8, rng)
        estimates.append(information_gain(posterior[4:], sampled)[0])
    spread = np.std(estimates) / np.sqrt(len(estimates))
    assert abs(np.mean(estimates) - information_gain(posterior[4:], exact)[0]) < 4 * spread
    assert spread < 0.02


def test_impossible_labelings_are_dropped() -> None:
    sure = np.array([[1.0, 0.0, 0.0], [0.0, 1.0, 0.0]])
    labelings = unlabeled(2)
    for _ in range(50):
        labelings = extend(labelings, sure, 8, np.random.default_rng(0))
    assert labelings.weights.tolist() == [0.5, 0.5]
    assert labelings.posterior.tolist() == [[1.0, 0.0], [0.0, 1.0]]


def test_a_large_batch_is_picked_by_a_sample_and_follows_the_seed() -> None:
    posterior = make_posterior(np.random.default_rng(7), 150, 10, 4)
    picked = pick(posterior, 120, samples=32, seed=1)
    assert len(set(picked.indices.tolist())) == 120
    assert np.isfinite(picked.priorities).all()
    assert picked.indices.tolist() == pick(posterior, 120, samples=32, seed=1).indices.tolist()
    assert picked.indices.tolist() != pick(posterior, 120, samples=32, seed=2).indices.tolist()
    near = pick(posterior, 5, samples=64).priorities.sum()
    assert near == pytest.approx(pick(posterior, 5, samples=1024).priorities.sum(), rel=0.1)


def test_ties_go_to_the_lowest_index_and_the_budget_is_met_where_nothing_is_reported() -> None:
    agreed = np.tile([0.7, 0.3], (5, 3, 1))
    for strategy in ("bald", "batchbald"):
        picked = dubito.select(np.zeros((5, 1)), 4, probabilities=agreed, strategy=strategy, candidates=[1, 2, 3, 4])
        assert picked.indices.tolist() == [1, 2, 3, 4]
        assert picked.priorities.tolist() == [0.0] * 4


@pytest.mark.parametrize("strategy", ["bald", "batchbald"])
def test_picks_are_the_same_for_every_block_size(strategy: str, monkeypatch: pytest.MonkeyPatch) -> None:
    posterior = make_posterior(np.random.default_rng(8), 90, 5, 3)
    expected = dubito.select(np.zeros((90, 1)), 12, probabilities=posterior, strategy=strategy)
    monkeypatch.setattr("dubito.strategies.bald.READ_BYTES", 4000)
    again = dubito.select(np.zeros((90, 1)), 12, probabilities=posterior, strategy=strategy)
    assert again.indices.tolist() == expected.indices.tolist()
    assert again.priorities == pytest.approx(expected.priorities, abs=1e-11)


def test_half_precision_probabilities_are_taken_as_rows_that_add_up_to_one() -> None:
    agreed = np.tile(np.array([1 / 3, 1 / 3, 1 / 3], dtype=np.float16), (4, 5, 1))
    assert agreed.astype(np.float64).sum(axis=2).max() < 1.0
    picked = dubito.select(np.zeros((4, 1)), 2, probabilities=agreed, strategy="bald")
    assert picked.priorities.tolist() == [0.0, 0.0]


@pytest.mark.parametrize("strategy", ["bald", "batchbald"])
@pytest.mark.parametrize(
    ("shape", "described"), [((6, 3), r"got shape \(6, 3\)"), ((6, 1, 3), r"got shape \(6, 1, 3\)"), (None, "got none")]
)
def test_probabilities_of_one_model_are_refused(strategy: str, shape: tuple[int, ...] | None, described: str) -> None:
    probabilities = None if shape is None else np.full(shape, 1 / 3)
    with pytest.raises(
        InvalidArgument, match=rf"strategy='{strategy}' needs .* k >= 2 .*{described}; .*strategy='entropy'"
    ):
        dubito.select(np.zeros((6, 2)), 2, probabilities=probabilities, strategy=strategy)


@pytest.mark.parametrize("samples", [0, 2.5, True])
def test_the_number_of_samples_is_checked(samples: object) -> None:
    with pytest.raises(InvalidArgument, match=f"samples={samples}"):
        build_strategy("batchbald", {"samples": samples})
