"""Toys: what they are never depends on the seed, what is drawn does."""

import numpy as np
import pytest

from dubito.errors import InvalidArgument
from dubito.experiments.data import builtin_dataset
from dubito.paper.toys import (
    cluster_centers,
    cluster_noise,
    clusters,
    feature_pool,
    line_density,
    quadrant_probabilities,
    quadrants,
    signed_line,
)


@pytest.mark.parametrize("name", ["quadrants", "clusters", "clusters-apart", "clusters-many", "signed-line"])
def test_every_toy_is_the_same_for_the_same_seed_and_another_for_another(name: str) -> None:
    one, again, other = (builtin_dataset(name, seed) for seed in (1, 1, 2))
    assert np.array_equal(one.features, again.features)
    assert np.array_equal(one.test_labels, again.test_labels)
    assert not np.array_equal(one.features, other.features)
    assert one.has_test
    assert set(np.unique(one.labels)) == set(range(len(one.classes)))


def test_the_class_of_a_point_is_its_quadrant() -> None:
    made = quadrants(3, n=200)
    assert np.abs(made.features).max() <= 1
    for point, code in zip(made.features, made.labels, strict=True):
        vertical, _, side = made.classes[code].partition(" ")
        assert (point[0] > 0) == (side == "right")
        assert (point[1] > 0) == (vertical == "upper")


def test_the_quadrants_model_is_right_and_doubts_only_near_the_axes() -> None:
    made = quadrants(4, n=500)
    likely = quadrant_probabilities(made.features)
    assert np.allclose(likely.sum(axis=1), 1)
    assert (likely.argmax(axis=1) == made.labels).all()
    near = np.abs(made.features).min(axis=1)
    doubt = 1 - likely.max(axis=1)
    assert doubt[near < 0.05].min() > doubt[near > 0.6].max()


def test_clusters_lie_around_their_centers_with_the_deviation_asked_for() -> None:
    made = clusters(0, n=9000, side=3, n_classes=3, deviation=0.2)
    centers, classes = cluster_centers(3, 3)
    nearest = ((made.features[:, None] - centers[None]) ** 2).sum(axis=2).argmin(axis=1)
    assert (classes[nearest] == made.labels).mean() > 0.999
    assert (made.features - centers[nearest]).std() == pytest.approx(0.2, rel=0.05)


def test_noise_is_the_share_of_points_that_the_best_guess_gets_wrong() -> None:
    made = clusters(1, n=20_000, side=3, n_classes=3, deviation=1.0)
    noise = cluster_noise(made.features, side=3, n_classes=3, deviation=1.0)
    centers, classes = cluster_centers(3, 3)
    near = np.exp(-0.5 * ((made.features[:, None] - centers[None]) ** 2).sum(axis=2))
    guess = np.stack([near[:, classes == code].sum(axis=1) for code in range(3)]).argmax(axis=0)
    assert noise.mean() == pytest.approx((guess != made.labels).mean(), abs=0.01)


def test_the_signed_line_follows_its_density() -> None:
    made = signed_line(0, n=50_000)
    counts, edges = np.histogram(made.features[:, 0], bins=40, range=(-5, 4), density=True)
    assert np.abs(counts - line_density((edges[1:] + edges[:-1]) / 2)).max() < 0.02
    assert (made.labels == (made.features[:, 0] > 0)).all()


def test_a_feature_pool_looks_like_a_networks() -> None:
    features, probabilities = feature_pool(0, n=300, d=32)
    assert features.dtype == np.float32
    assert (features >= 0).all()
    assert np.allclose(probabilities.sum(axis=1), 1)
    assert 0.001 < (1 - probabilities.max(axis=1)).mean() < 0.9


@pytest.mark.parametrize(
    ("wrong", "named"), [({"side": 0}, "side=0"), ({"n_classes": 1}, "n_classes=1"), ({"n": 0}, "n=0")]
)
def test_sizes_that_cannot_be_meant_are_refused(wrong: dict[str, int], named: str) -> None:
    with pytest.raises(InvalidArgument, match=named):
        clusters(0, **wrong)
