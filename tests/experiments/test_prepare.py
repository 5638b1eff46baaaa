"""One seed's view of the data: what tests, which rows take part, and images that stay as they are."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from dubito.errors import InvalidArgument
from dubito.experiments.data import Dataset, make_dataset
from dubito.experiments.images import ImageSet
from dubito.experiments.models.base import Model
from dubito.experiments.models.linear import Linear
from dubito.experiments.models.networks.network import Mlp, Torch
from dubito.experiments.plan import Arm, Data, Experiment, Schedule
from dubito.experiments.rounds import prepare, prepare_seed, training_rows

NETWORK = Torch(
    factory="dubito.experiments.models.networks.network.perceptron", head="head", options={"widths": (12, 2)}
)


@pytest.fixture
def images() -> Dataset:
    rng = np.random.default_rng(0)
    pixels, labels = rng.integers(0, 256, (60, 2, 2, 3), dtype=np.uint8), np.arange(60) % 2
    return ImageSet("tiny", pixels[:40], labels[:40], ("a", "b"), pixels[40:], labels[40:]).as_dataset()


def plan(model: Model, pool: str = "clean", *, rows: int | None = None, test_share: float | None = None) -> Experiment:
    schedule = Schedule(initial=4, budget=2, rounds=2)
    return Experiment(
        "plan", (Arm("random"),), Data(rows=rows, test_share=test_share), schedule, model, pool, seeds=(0,)
    )


@pytest.mark.parametrize("pool", ["clean", "redundant:1", "ambiguous:1", "imbalanced:2", "mislabelled:0.2"])
def test_images_stay_8_bit_for_a_network_that_takes_them(images: Dataset, pool: str) -> None:
    seed_data = prepare_seed(plan(NETWORK, pool), images, seed=1)
    assert seed_data.data.features.dtype == seed_data.data.test_features.dtype == np.uint8
    assert seed_data.data.features.shape[1:] == (2, 2, 3)
    assert seed_data.nearest is None


def test_other_models_get_pixels_between_0_and_1(images: Dataset) -> None:
    for model in (Linear(), Mlp(features="hidden")):
        seen = prepare(plan(model), images, seed=1)
        assert seen.features.dtype == seen.test_features.dtype == np.float32
        np.testing.assert_array_equal(seen.features, images.features.astype(np.float32) / 255)
    seed_data = prepare_seed(plan(Linear()), images, seed=1)
    assert seed_data.nearest is not None
    assert seed_data.nearest.features.shape == (40, 12)


def test_rows_are_drawn_by_the_seed_and_keep_their_order(images: Dataset) -> None:
    some = plan(NETWORK, rows=15)
    seen = prepare(some, images, seed=1)
    assert len(seen.labels) == 15
    assert len(seen.test_labels) == 20
    places = [int(np.flatnonzero((images.features == row).all(axis=(1, 2, 3)))[0]) for row in seen.features]
    assert places == sorted(set(places))
    np.testing.assert_array_equal(images.labels[places], seen.labels)
    np.testing.assert_array_equal(prepare(some, images, seed=1).features, seen.features)
    assert not np.array_equal(prepare(some, images, seed=2).features, seen.features)


def test_a_pool_is_made_of_the_rows_that_take_part(images: Dataset) -> None:
    assert len(prepare(plan(NETWORK, "redundant:2", rows=10), images, seed=1).labels) == 30


def test_more_rows_than_there_are_is_an_error(images: Dataset) -> None:
    with pytest.raises(InvalidArgument, match="rows=41 exceeds the 40 rows of the training part; pass rows <= 40"):
        prepare(plan(NETWORK, rows=41), images, seed=0)
    with pytest.raises(InvalidArgument, match="rows=31 exceeds the 30 rows"):
        prepare(plan(NETWORK, rows=31, test_share=0.25), images, seed=0)


def test_a_test_share_leaves_the_test_set_of_the_data_out(images: Dataset) -> None:
    """Whatever is chosen by results is chosen on a hold-out, and the test set is never looked at."""
    seen = prepare(plan(NETWORK, test_share=0.25), images, seed=3)
    assert (len(seen.labels), len(seen.test_labels)) == (30, 10)
    known = {row.tobytes() for row in images.features}
    assert {row.tobytes() for row in (*seen.features, *seen.test_features)} == known
    np.testing.assert_array_equal(prepare(plan(NETWORK), images, seed=3).test_features, images.test_features)


@given(
    st.lists(
        st.sampled_from(["redundant:2", "ambiguous:0.5", "imbalanced:3", "mislabelled:0.3"]), max_size=3, unique=True
    ),
    st.sampled_from([None, 30]),
    st.booleans(),
    st.integers(0, 2**20),
)
def test_rows_are_counted_without_their_features(
    flaws: list[str], rows: int | None, standardize: bool, seed: int
) -> None:
    labels = np.arange(60) % 3
    features = np.random.default_rng(0).normal(size=(60, 2)) + labels[:, None]
    data = make_dataset("three", features, labels)
    plan = Experiment(
        "plan", (Arm("random"),), Data(rows=rows, standardize=standardize), pool=" + ".join(flaws) or "clean"
    )
    assert training_rows(plan, data, seed) == len(prepare(plan, data, seed).labels)
