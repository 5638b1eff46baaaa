"""K-means++ in blocks has the distribution of single draws, for any block size."""

from collections import Counter
from collections.abc import Iterator
from itertools import islice, permutations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy.stats import chisquare

from dubito.matrix import FloatArray, IntArray
from dubito.strategies.badge import FIRST_BLOCK, LARGEST_BLOCK, draw_block, next_size, sample
from levels import examples


class Cloud:
    """Points written out, which counts how often all of them are looked at."""

    def __init__(self, points: FloatArray) -> None:
        self.squared_lengths: FloatArray = (points**2).sum(axis=1)
        self.squared: FloatArray = ((points[:, None] - points) ** 2).sum(axis=2)
        self.passes, self.proposed = 0, list[int]()

    def pairwise(self, positions: IntArray) -> FloatArray:
        self.proposed.append(len(positions))
        return self.squared[np.ix_(positions, positions)]

    def to_nearest(self, positions: IntArray) -> FloatArray:
        self.passes += 1
        return np.asarray(self.squared[positions].min(axis=0))


def one_after_another(cloud: Cloud, rng: np.random.Generator) -> Iterator[tuple[int, float]]:
    """K-means++ as it is written, until every weight is zero, by the draws of blocks of one."""
    picks = [int(cloud.squared_lengths.argmax())]
    yield picks[0], float(np.sqrt(cloud.squared_lengths.max()))
    while (weights := cloud.squared[picks].min(axis=0)).any():
        steps = np.cumsum(weights)
        picks.append(int(np.searchsorted(steps, rng.random(2)[0] * steps[-1], side="right")))
        yield picks[-1], float(np.sqrt(weights[picks[-1]]))


def chance_of(order: tuple[int, ...], cloud: Cloud) -> float:
    """The probability that k-means++ picks these points in this order after the longest."""
    picks, chance = [int(cloud.squared_lengths.argmax())], 1.0
    for position in order:
        weights = cloud.squared[picks].min(axis=0)
        chance *= weights[position] / weights.sum()
        picks.append(position)
    return float(chance)


# On a line, with a copy and near neighbors: weights fall steeply, so that many proposals must be rejected.
UNEVEN = Cloud(np.array([[5.0], [4.5], [0.0], [0.25], [0.25], [-3.0], [-3.5]]))


@pytest.mark.parametrize(("first", "largest"), [(2, 8), (4, 4), (24, 24)])
def test_every_order_of_picks_has_its_probability_under_k_means_plus_plus(first: int, largest: int) -> None:
    orders = list(permutations(range(1, 7), 3))
    chances = np.array([chance_of(order, UNEVEN) for order in orders])
    assert chances.sum() == pytest.approx(1.0)
    n_draws, rng, seen = max(2_500, examples(8_000)), np.random.default_rng(first), Counter[tuple[int, ...]]()
    for _ in range(n_draws):
        start, *rest = islice(sample(UNEVEN, rng, first, largest), 4)
        assert start[0] == 0
        seen[tuple(position for position, _ in rest)] += 1
    counts = np.array([seen[order] for order in orders])
    assert counts.sum() == n_draws
    assert counts[chances == 0.0].sum() == 0
    often = chances * n_draws >= 5.0
    observed, expected = [*counts[often], counts[~often].sum()], [*chances[often], chances[~often].sum()]
    assert chisquare(observed, np.array(expected) * n_draws).pvalue > 1e-3


def test_blocks_of_one_make_the_draws_of_k_means_plus_plus_itself() -> None:
    for seed in range(20):
        cloud = Cloud(np.random.default_rng(seed).standard_normal((30, 2)))
        expected = list(one_after_another(cloud, np.random.default_rng(seed)))
        assert list(sample(cloud, np.random.default_rng(seed), 1, 1)) == expected


@given(st.integers(0, 2**31), st.integers(1, 40))
def test_points_are_picked_once_with_their_distance_to_the_picks_before(seed: int, block: int) -> None:
    rng = np.random.default_rng(seed)
    cloud = Cloud(rng.integers(-2, 3, (int(rng.integers(1, 30)), 2)).astype(np.float64))
    picks, distances = zip(*sample(cloud, rng, block, 2 * block), strict=True)
    assert sorted(picks) == list(range(len(cloud.squared)))
    expected = [cloud.squared[list(picks[:i]), picks[i]].min() for i in range(1, len(picks))]
    assert distances[1:] == pytest.approx(np.sqrt(expected))
    n_distinct = len(np.unique(cloud.squared, axis=0))
    assert np.count_nonzero(distances[1:]) == n_distinct - 1
    assert not any(distances[n_distinct:])


def test_fewer_picks_are_a_prefix_of_more() -> None:
    cloud = Cloud(np.random.default_rng(0).standard_normal((80, 2)))
    whole = list(sample(cloud, np.random.default_rng(1)))
    for count in (1, 2, 17, 50, 80):
        assert list(islice(sample(cloud, np.random.default_rng(1)), count)) == whole[:count]


def test_points_that_are_all_alike_follow_in_random_order() -> None:
    cloud, orders = Cloud(np.ones((6, 2))), set[tuple[int, ...]]()
    for seed in range(20):
        picks = list(sample(cloud, np.random.default_rng(seed)))
        assert sorted(position for position, _ in picks) == list(range(6))
        assert [distance for _, distance in picks] == [pytest.approx(np.sqrt(2.0)), *[0.0] * 5]
        orders.add(tuple(position for position, _ in picks))
    assert len({order[1] for order in orders}) == 5


def test_nothing_is_picked_twice_even_where_rounding_holds_points_apart_from_themselves() -> None:
    cloud = Cloud(np.ones((40, 2)))
    cloud.squared += 1e-16
    picks = [position for position, _ in sample(cloud, np.random.default_rng(0), 2, 8)]
    assert sorted(picks) == list(range(40))


def test_far_fewer_passes_than_picks_are_made() -> None:
    cloud = Cloud(np.random.default_rng(0).standard_normal((1500, 20)))
    picks = list(islice(sample(cloud, np.random.default_rng(0)), 1000))
    assert len({position for position, _ in picks}) == 1000
    assert cloud.passes <= 16
    assert cloud.proposed[:3] == [FIRST_BLOCK, 2 * FIRST_BLOCK, 4 * FIRST_BLOCK]
    assert max(cloud.proposed) == LARGEST_BLOCK


def test_blocks_grow_and_shrink_between_their_bounds() -> None:
    assert [next_size(size, size, 5, 48) for size in (5, 20, 40, 48)] == [10, 40, 48, 48]
    assert [next_size(size, 1, 5, 48) for size in (48, 20, 17, 4)] == [24, 10, 8, 8]
    assert next_size(6, 0, 5, 48) == 5


@pytest.mark.parametrize("unit", [5e-324, 1e-320, 1.0, 1e300])
def test_weights_of_every_size_are_drawn_and_none_that_is_zero(unit: float) -> None:
    weights = np.array([0.0, unit, 0.0, 2.0 * unit, 0.0])
    cloud = Cloud(np.zeros((5, 1)))
    cloud.squared[[1, 1, 3, 3], [1, 3, 1, 3]] = 2.0 * unit  # As if rounding held a point apart from itself.
    highest = np.nextafter(1.0, 0.0)
    for where in (0.0, 0.3, 0.6, highest):
        picked, squared = draw_block(cloud, weights, np.array([[where] * 3, [highest] * 3]))
        assert len(picked) == 1
        assert picked[0] in (1, 3)
        assert squared[0] == weights[picked[0]]


def test_a_proposal_is_accepted_by_its_current_weight() -> None:
    cloud = Cloud(np.array([[0.0], [4.0], [5.0]]))
    weights = np.array([0.0, 16.0, 25.0])
    # The draws propose 1, then 2: its weight fell from 25 to 1.
    for chance, kept in ((0.0399, [1, 2]), (0.0401, [1])):
        picked, squared = draw_block(cloud, weights, np.array([[0.1, 0.9], [0.99, chance]]))
        assert picked.tolist() == kept
        assert squared.tolist() == [16.0, 1.0][: len(kept)]
