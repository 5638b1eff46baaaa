"""Strategies related to the core-set and to uncertainty, compared with their definitions."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from sklearn.datasets import load_digits

import dubito
from dubito.errors import InvalidArgument
from dubito.matrix import FloatArray
from dubito.strategies import FilterThenCover, LargestCluster, PowerSampling, TypiClust
from dubito.strategies import lcmd as clusters
from dubito.strategies.base import Kind
from dubito.strategies.kmeans import picks_by_cluster, typicality
from dubito.strategies.lcmd import nearest_references
from dubito.strategies.uncertainty import CoverKind


def by_definition(pool: FloatArray, labeled: FloatArray, weights: FloatArray, budget: int) -> list[int]:
    """The farthest point of the largest cluster, every distance looked at anew for every pick."""
    centers, picks, left = list(labeled), list[int](), list(range(len(pool)))
    if not centers:
        apart = ((len(pool) * pool - pool.sum(axis=0)) ** 2).sum(axis=1)
        picks.append(int(np.argmin(apart)))
        left.remove(picks[0])
        centers.append(pool[picks[0]])
    while len(picks) < budget:
        squared = ((pool[:, None] - np.array(centers)[None]) ** 2).sum(axis=2)
        owner, spread = squared.argmin(axis=1), squared.min(axis=1) * weights
        sums = [sum(spread[row] for row in left if owner[row] == name) for name in range(len(centers))]
        largest = int(np.argmax(sums)) if max(sums) > 0 else owner[left[0]]
        picks.append(max((row for row in left if owner[row] == largest), key=lambda row: (spread[row], -row)))
        left.remove(picks[-1])
        centers.append(pool[picks[-1]])
    return picks


@given(st.integers(0, 2**31), st.integers(0, 3), st.sampled_from([0.0, 1.0]), st.sampled_from([2, 3, 1024]))
def test_the_picks_are_the_farthest_of_the_largest_cluster(
    seed: int, n_labeled: int, strength: float, block: int
) -> None:
    rng = np.random.default_rng(seed)
    # Whole numbers: ties and copies abound, and nothing is rounded.
    pool, labeled = rng.integers(0, 6, (14, 2)).astype(float), rng.integers(0, 6, (n_labeled, 2)).astype(float)
    doubt = rng.integers(0, 3, 14) / 2
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(clusters, "BLOCK", block)
        picked = dubito.select(
            pool, 6, labeled=labeled if n_labeled else None, doubt=doubt, strategy=LargestCluster(strength=strength)
        )
    assert picked.indices.tolist() == by_definition(pool, labeled, doubt ** (2 * strength), 6)


def test_the_nearest_of_many_references_is_found_and_of_equals_the_first() -> None:
    digits = load_digits().data
    points, references = digits[:300], np.concatenate([digits[300:1500], digits[300:400]])
    squared = ((points[:, None] - references[None]) ** 2).sum(axis=2)
    found, which = nearest_references(points, references, "euclidean")
    np.testing.assert_array_equal(found, squared.min(axis=1))
    np.testing.assert_array_equal(which, squared.argmin(axis=1))


def test_an_outlier_by_itself_waits_until_larger_clusters_are_opened() -> None:
    crowd = np.random.default_rng(0).normal(size=(200, 2))
    apart = np.array([0.0, 10.0])
    pool = np.concatenate([[[40.0, 0.0]], crowd + apart, crowd - apart])
    far = dubito.select(pool, 3, labeled=[[38.0, 0.0], [0.0, 9.0], [0.0, -9.0]], strategy="coreset")
    large = dubito.select(pool, 3, labeled=[[38.0, 0.0], [0.0, 9.0], [0.0, -9.0]], strategy="largest-cluster")
    assert 0 not in large.indices
    assert len(far) == len(large)


@pytest.mark.parametrize("cover", ["coreset", "coverage"])
def test_only_the_most_doubtful_are_covered(cover: CoverKind) -> None:
    digits = load_digits().data[:200]
    doubt = np.random.default_rng(0).random(200)
    kept = np.argsort(-doubt, kind="stable")[:30]
    picked = dubito.select(
        digits,
        10,
        labeled=[0, 1],
        doubt=doubt,
        strategy=FilterThenCover(times=3.0, cover=cover),
    )
    allowed = np.setdiff1d(kept, [0, 1])
    assert set(picked.indices.tolist()) <= set(np.argsort(-np.where(np.isin(np.arange(200), [0, 1]), -1, doubt))[:30])
    assert len(np.intersect1d(picked.indices, allowed)) >= 9
    whole = dubito.select(digits, 10, labeled=[0, 1], doubt=doubt, strategy=FilterThenCover(times=1.0))
    assert set(whole.indices.tolist()) == set(np.argsort(-np.where(np.arange(200) < 2, -1, doubt))[:10].tolist())


def test_doubt_is_the_margin_where_there_are_probabilities_and_as_given_otherwise() -> None:
    pool, probabilities = np.arange(3.0)[:, None], np.array([[0.5, 0.5, 0.0], [0.4, 0.3, 0.3], [0.9, 0.1, 0.0]])
    kinds: tuple[Kind, ...] = ("margin", "confidence")
    by = {kind: FilterThenCover(times=1.0, doubt=kind) for kind in kinds}
    first = {kind: dubito.select(pool, 1, probabilities=probabilities, strategy=each) for kind, each in by.items()}
    assert first["margin"].indices.tolist() == [0]
    assert first["confidence"].indices.tolist() == [1]
    with pytest.raises(InvalidArgument, match="needs the model's doubt"):
        dubito.select(pool, 1, strategy="power")


def test_power_sampling_draws_by_doubt_to_the_power() -> None:
    pool, doubt, draws = np.zeros((4, 1)), np.array([0.0, 0.1, 0.3, 0.6]), 1000
    for power in (1.0, 2.0):
        first = np.bincount(
            [
                dubito.select(pool, 1, doubt=doubt, strategy=PowerSampling(power=power), seed=seed).indices[0]
                for seed in range(draws)
            ],
            minlength=4,
        )
        wanted = draws * doubt**power / (doubt**power).sum()
        assert first[0] == 0
        assert (np.abs(first - wanted) <= 4.5 * np.sqrt(wanted) + 1e-9).all()


def test_what_has_no_doubt_is_drawn_last_in_its_order() -> None:
    picked = dubito.select(np.zeros((4, 1)), 4, doubt=[0.0, 0.5, 0.0, 0.5], strategy="power", seed=3)
    assert sorted(picked.indices[:2].tolist()) == [1, 3]
    assert picked.indices[2:].tolist() == [0, 2]


def test_the_first_batch_has_a_typical_point_of_every_cluster() -> None:
    rng = np.random.default_rng(0)
    centers = np.array([[0.0, 0.0], [20.0, 0.0], [0.0, 20.0], [20.0, 20.0]])
    pool = np.concatenate([center + rng.normal(size=(50, 2)) for center in centers])
    picked = dubito.select(pool, 4, strategy="typiclust")
    assert sorted((picked.indices // 50).tolist()) == [0, 1, 2, 3]
    apart = np.linalg.norm(pool[picked.indices] - centers[picked.indices // 50], axis=1)
    assert (apart < 1.0).all()
    second = dubito.select(pool, 2, labeled=picked.indices[:2], strategy="typiclust")
    assert not set(second.indices // 50) & set(picked.indices[:2] // 50)


@given(st.integers(0, 2**31), st.integers(1, 5))
def test_typical_points_have_near_neighbors_in_their_cluster(seed: int, neighbors: int) -> None:
    rng = np.random.default_rng(seed)
    points, cluster = rng.integers(0, 5, (12, 2)).astype(float), rng.integers(0, 3, 12)
    found = typicality(points, cluster, neighbors)
    for row in range(12):
        others = [other for other in range(12) if other != row and cluster[other] == cluster[row]]
        near = sorted(float(np.linalg.norm(points[row] - points[other])) for other in others)[:neighbors]
        if not near:
            assert found[row] == 0.0
        elif sum(near) > 0.0:
            assert found[row] == pytest.approx(len(near) / sum(near), rel=1e-6)


def test_clusters_without_labels_come_first_and_then_the_largest_and_each_in_turn() -> None:
    cluster, typical = np.array([0, 0, 0, 1, 1, 2]), np.array([1.0, 3.0, 2.0, 1.0, 1.0, 9.0])
    assert picks_by_cluster(cluster, typical, np.array([1, 0, 0]), 6).tolist() == [3, 5, 1, 4, 2, 0]


@pytest.mark.parametrize(
    ("factory", "option", "value"),
    [
        (LargestCluster, "strength", -1.0),
        (FilterThenCover, "times", 0.5),
        (FilterThenCover, "cover", "all"),
        (PowerSampling, "power", -1.0),
        (PowerSampling, "doubt", "entropy"),
        (TypiClust, "neighbors", 0),
    ],
)
def test_an_option_out_of_its_range_is_refused_by_name(factory: type, option: str, value: object) -> None:
    with pytest.raises(InvalidArgument, match=option):
        factory(**{option: value})
