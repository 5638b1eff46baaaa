"""Near-copies and blends of 8-bit images, a block at a time: what comes out is 8-bit again, and never wraps around."""

import numpy as np

from dubito.experiments.datasets.images.record import ImageArray
from dubito.matrix import AnyArray, FloatArray, IntArray, blocks

BRIGHTNESS = 0.05
"""A near-copy is at most this share brighter or darker."""
PIXEL_NOISE = 3.0
"""Standard deviation of a near-copy's noise in every pixel and colour, out of 255."""
BLOCK_ROWS = 1024


def is_images(features: AnyArray) -> bool:
    """Whether these are 8-bit images (n, h, w, 3) and no features."""
    return features.dtype == np.uint8 and features.ndim == 4


def near_copies(images: ImageArray, rng: np.random.Generator) -> ImageArray:
    """(n, h, w, 3) each image a little brighter or darker, with a little noise.

    Examples
    --------
    >>> grey = np.full((1, 8, 8, 3), 128, dtype=np.uint8)
    >>> copy = near_copies(grey, np.random.default_rng(0))
    >>> copy.dtype, bool(0 < np.abs(copy.astype(int) - 128).mean() < 12)
    (dtype('uint8'), True)
    """
    made = np.empty_like(images)
    for rows in blocks(len(images), BLOCK_ROWS):
        block = images[rows]
        factor = rng.uniform(1.0 - BRIGHTNESS, 1.0 + BRIGHTNESS, (len(block), 1, 1, 1)).astype(np.float32)
        noise = rng.standard_normal(block.shape, dtype=np.float32) * np.float32(PIXEL_NOISE)
        made[rows] = as_pixels(block * factor + noise)
    return made


def blended(images: ImageArray, first: IntArray, second: IntArray, share: FloatArray) -> ImageArray:
    """(b, h, w, 3) ``share`` of each first image and the rest of each second one, pixel by pixel.

    Examples
    --------
    >>> two = np.array([0, 255], dtype=np.uint8).reshape(2, 1, 1, 1).repeat(3, axis=3)
    >>> blended(two, np.array([0]), np.array([1]), np.array([0.4])).ravel().tolist()
    [153, 153, 153]
    """
    made = np.empty((len(first), *images.shape[1:]), dtype=np.uint8)
    for rows in blocks(len(first), BLOCK_ROWS):
        part = share[rows].astype(np.float32).reshape(-1, 1, 1, 1)
        made[rows] = as_pixels(part * images[first[rows]] + (1 - part) * images[second[rows]])
    return made


def as_pixels(values: FloatArray) -> ImageArray:
    """Rounded, and held between 0 and 255."""
    return np.clip(np.rint(values), 0, 255).astype(np.uint8)
