"""Pools as users have them: each flaw does what it says, and tells what it did."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from dubito.errors import InvalidArgument, InvalidData
from dubito.experiments.pools import MIN_SHARE, FlawedPool, make_pool, parse_pool
from dubito.matrix import AnyArray

SPECS = ("redundant:2", "ambiguous", "imbalanced:4", "mislabelled:0.3", "redundant:1+mislabelled:0.2+imbalanced:3")


def blobs(n: int = 60, classes: int = 3, dtype: type = np.float64) -> tuple[AnyArray, AnyArray]:
    rng = np.random.default_rng(1)
    labels = np.arange(n) % classes
    return (rng.normal(size=(n, 5)) * [1, 10, 100, 0, 1] + labels[:, None]).astype(dtype), labels


def made(spec: str, seed: int = 3) -> tuple[FlawedPool, AnyArray, AnyArray]:
    features, labels = blobs()
    return make_pool(features, labels, spec, seed), features, labels


def test_near_copies_lie_close_to_their_item_and_have_its_label() -> None:
    pool, features, labels = made("redundant:3")
    assert pool.features.shape == (240, 5)
    assert (pool.labels == labels[pool.origin]).all()
    assert (pool.features[:60] == features).all()
    assert pool.is_copy.tolist() == [False] * 60 + [True] * 180
    shift = pool.features[60:] - features[pool.origin[60:]]
    assert shift.std(axis=0) == pytest.approx(0.05 * features.std(axis=0), rel=0.2)
    others = np.linalg.norm(features[:, None] - features, axis=2)[~np.eye(60, dtype=bool)]
    assert np.linalg.norm(shift, axis=1).mean() < 0.1 * others.mean()


def test_a_feature_that_never_varies_stays_as_it_is() -> None:
    features, labels = blobs()
    features[:, 3] = 7.0
    assert (make_pool(features, labels, "redundant:2", 0).features[:, 3] == 7.0).all()


def test_blends_lie_between_two_items_of_different_classes_and_have_one_of_their_labels() -> None:
    pool, features, labels = made("ambiguous:1")
    assert pool.is_blend.tolist() == [False] * 60 + [True] * 60
    one, other = pool.origin[60:], pool.partner[60:]
    assert (labels[one] != labels[other]).all()
    assert (pool.labels[60:] == labels[one]).all()
    share = (pool.features[60:, 2] - features[other, 2]) / (features[one, 2] - features[other, 2])
    assert pool.features[60:] == pytest.approx(share[:, None] * features[one] + (1 - share[:, None]) * features[other])
    assert MIN_SHARE - 1e-9 <= share.min() < 0.5 < share.max() <= 1 - MIN_SHARE + 1e-9


@given(st.lists(st.integers(0, 3), min_size=2, max_size=30).filter(lambda codes: len(set(codes)) > 1), st.integers(0))
def test_a_blend_never_joins_a_class_with_itself(codes: list[int], seed: int) -> None:
    labels = np.array(codes)
    pool = make_pool(np.zeros((len(codes), 1)), labels, "ambiguous:2", seed)
    blends = pool.is_blend
    assert blends.sum() == 2 * len(codes)
    assert (labels[pool.origin[blends]] != labels[pool.partner[blends]]).all()


def test_class_sizes_fall_geometrically_by_the_factor_in_all() -> None:
    labels = np.repeat(np.arange(4), 1000)
    pool = make_pool(np.zeros((4000, 1)), labels, "imbalanced:8", seed=0)
    assert sorted(np.bincount(pool.labels).tolist()) == [125, 250, 500, 1000]
    assert len(np.union1d(pool.origin, pool.dropped(4000))) == 4000
    assert len(pool.dropped(4000)) == 4000 - 1875
    assert not (pool.is_copy | pool.is_blend | pool.is_mislabeled).any()


def test_every_class_keeps_an_item_however_long_the_tail() -> None:
    pool = make_pool(np.zeros((60, 1)), np.arange(60) % 3, "imbalanced:1e9", seed=1)
    assert sorted(np.bincount(pool.labels).tolist()) == [1, 1, 20]


def test_exactly_the_share_of_labels_is_replaced_each_by_another() -> None:
    pool, features, labels = made("mislabelled:0.3")
    assert pool.is_mislabeled.sum() == 18
    assert ((pool.labels != labels) == pool.is_mislabeled).all()
    assert set(pool.labels) <= set(labels)
    assert pool.features is not features or (pool.features == features).all()


def test_flaws_apply_from_left_to_right_and_tracks_are_kept() -> None:
    pool, _, labels = made("mislabelled:0.5+redundant:1")
    assert pool.is_mislabeled.sum() == 60
    assert (pool.labels[:60] == pool.labels[60:]).all()
    pool, _, labels = made("redundant:1+mislabelled:0.5")
    assert (pool.labels[:60] != pool.labels[60:]).any()
    assert ((pool.labels != labels[pool.origin]) == pool.is_mislabeled).all()
    assert ((pool.is_copy | pool.is_blend | pool.is_mislabeled) == (pool.is_copy | pool.is_mislabeled)).all()


@pytest.mark.parametrize("spec", SPECS)
def test_a_seed_decides_everything_and_what_was_handed_in_stays(spec: str) -> None:
    features, labels = blobs()
    before = features.copy(), labels.copy()
    once, again, other = (make_pool(features, labels, spec, seed) for seed in (5, 5, 6))
    assert (once.features == again.features).all()
    assert (once.labels == again.labels).all()
    assert once.features.shape != other.features.shape or (once.labels != other.labels).any() or "redundant" in spec
    assert (features == before[0]).all()
    assert (labels == before[1]).all()


@pytest.mark.parametrize("spec", SPECS)
@pytest.mark.parametrize("dtype", [np.float16, np.float32, np.float64])
def test_the_float_type_is_kept(spec: str, dtype: type) -> None:
    features, labels = blobs(dtype=dtype)
    pool = make_pool(features, labels, spec, 0)
    assert pool.features.dtype == dtype
    assert np.isfinite(pool.features).all()
    assert len(pool.features) == len(pool.labels) == len(pool.origin) == len(pool.partner)


def test_whole_numbers_become_floats_and_a_clean_pool_is_the_data() -> None:
    features, labels = blobs(dtype=np.int64)
    assert make_pool(features, labels, "redundant:1", 0).features.dtype == np.float64
    clean = make_pool(features, labels, "clean", 0)
    assert (clean.features == features).all()
    assert not (clean.is_copy | clean.is_blend | clean.is_mislabeled).any()
    assert clean.dropped(60).size == 0


def test_a_flaw_without_a_number_means_the_usual_amount() -> None:
    described = [
        str(step) for flaw in ("redundant", "ambiguous", "imbalanced", "mislabelled") for step in parse_pool(flaw)
    ]
    assert described == ["redundant:5", "ambiguous:1", "imbalanced:10", "mislabelled:0.1"]


@pytest.mark.parametrize(
    ("spec", "said"),
    [
        ("redundat:5", "pool='redundat' is not known; did you mean 'redundant'?"),
        ("", "pool='' is not known"),
        ("redundant:many", "pool='redundant:many' has 'many' instead of a number; write for example redundant:5."),
        ("redundant:", "has '' instead of a number"),
        ("redundant:0", "redundant=0 is too small; pass redundant >= 1."),
        ("redundant:2.5", "redundant=2.5 is not a whole number"),
        ("ambiguous:0", "ambiguous=0 is not allowed; pass a share above 0."),
        ("ambiguous:nan", "ambiguous=nan is not allowed"),
        ("mislabelled:1.5", "mislabelled=1.5 is not allowed; pass a share above 0 and at most 1."),
        ("imbalanced:0.5", "imbalanced=0.5 is not allowed; pass a finite number >= 1."),
        ("redundant:2+clean", "pool='clean' is not known"),
    ],
)
def test_a_pool_that_cannot_be_is_refused(spec: str, said: str) -> None:
    with pytest.raises(InvalidArgument) as error:
        parse_pool(spec)
    assert said in str(error.value)


@pytest.mark.parametrize("flaw", ["ambiguous", "imbalanced", "mislabelled"])
def test_one_class_alone_cannot_be_flawed_so(flaw: str) -> None:
    with pytest.raises(InvalidData, match=f"only one class, and a pool that is {flaw} needs two"):
        make_pool(np.zeros((5, 2)), np.zeros(5, np.int64), flaw, 0)


def test_labels_must_be_codes_one_a_row() -> None:
    for labels in (np.zeros(4, np.int64), np.zeros(5), np.array(list("abcde"))):
        with pytest.raises(InvalidData, match="pass one class code for each row"):
            make_pool(np.zeros((5, 2)), labels, "redundant", 0)
