"""Pools of 8-bit images: near-copies and blends that stay images."""

import numpy as np
import pytest

from dubito.experiments.images import ImageArray
from dubito.experiments.pools import BLOCK_ROWS, BRIGHTNESS, MIN_SHARE, PIXEL_NOISE, make_pool
from dubito.matrix import AnyArray


def pictures(n: int = 40) -> tuple[ImageArray, AnyArray]:
    """Black, white and everything between."""
    images = np.random.default_rng(0).integers(0, 256, (n, 8, 8, 3), dtype=np.uint8)
    images[0], images[1] = 0, 255
    return images, np.arange(n) % 2


@pytest.mark.parametrize("spec", ["redundant:2", "ambiguous:1", "imbalanced:3", "mislabelled:0.2"])
def test_a_pool_of_images_is_one_of_8_bit_images(spec: str) -> None:
    images, labels = pictures()
    made, again = (make_pool(images, labels, spec, seed=4) for _ in range(2))
    assert made.features.dtype == np.uint8
    assert made.features.shape[1:] == (8, 8, 3)
    np.testing.assert_array_equal(made.features, again.features)
    kept = ~made.is_copy & ~made.is_blend
    np.testing.assert_array_equal(made.features[kept], images[made.origin[kept]])


def test_near_copies_of_images_differ_a_little_everywhere_and_never_wrap_around() -> None:
    images, labels = pictures()
    made = make_pool(images, labels, "redundant:3", seed=1)
    moved = made.features.astype(int) - images[made.origin].astype(int)
    copies = moved[made.is_copy]
    assert np.abs(copies).max() <= BRIGHTNESS * 255 + 7 * PIXEL_NOISE
    assert 1.0 < np.abs(copies).mean() < 10.0
    assert (np.abs(moved[made.is_copy & (made.origin > 1)]).max(axis=(1, 2, 3)) > 0).all()
    assert made.features[made.origin == 0].max() < 30
    assert made.features[made.origin == 1].min() > 225


def test_near_copies_differ_in_brightness_beyond_their_noise() -> None:
    images, labels = np.full((200, 8, 8, 3), 200, dtype=np.uint8), np.arange(200) % 2
    made = make_pool(images, labels, "redundant:1", seed=1)
    means = made.features[200:].mean(axis=(1, 2, 3))
    assert means.std() == pytest.approx(200 * BRIGHTNESS / np.sqrt(3), rel=0.15)
    assert made.features[200:].std(axis=(1, 2, 3)).mean() == pytest.approx(PIXEL_NOISE, rel=0.1)


def test_blends_of_images_lie_between_both_pixel_by_pixel() -> None:
    images, labels = pictures(60)
    made = make_pool(images, labels, "ambiguous:2", seed=2)
    blends = made.features[made.is_blend].astype(float)
    first, second = (images[rows[made.is_blend]].astype(float) for rows in (made.origin, made.partner))
    low, high = np.minimum(first, second), np.maximum(first, second)
    assert ((blends >= np.floor(low)) & (blends <= np.ceil(high))).all()
    assert (labels[made.origin[made.is_blend]] != labels[made.partner[made.is_blend]]).all()
    share = ((blends - second) * (first - second)).sum(axis=(1, 2, 3)) / ((first - second) ** 2).sum(axis=(1, 2, 3))
    assert share.min() > MIN_SHARE - 0.01
    assert share.max() < 1 - MIN_SHARE + 0.01


def test_more_images_than_a_block_holds_are_all_made() -> None:
    images = np.full((BLOCK_ROWS + 3, 1, 1, 3), 100, dtype=np.uint8)
    labels = np.arange(len(images)) % 2
    for spec in ("redundant:1", "ambiguous:1"):
        made = make_pool(images, labels, spec, seed=0)
        assert made.features.shape == (2 * len(images), 1, 1, 3)
        assert np.abs(made.features.astype(int) - 100).max() < 30


def test_float_images_blend_as_features_do() -> None:
    images, labels = pictures()
    made = make_pool(images / 255.0, labels, "ambiguous:1", seed=2)
    assert made.features.dtype == np.float64
    assert 0 <= made.features.min() <= made.features.max() <= 1
