"""Points at the edges of what float32 and float64 hold, where a bound on rounding is put to the test.

Each function takes a generator and a shape (rows, features), and gives rows in float64.
"""

from collections.abc import Callable

import numpy as np

from dubito.matrix import FloatArray

PointMaker = Callable[[np.random.Generator, tuple[int, int]], FloatArray]


def mixed_columns(rng: np.random.Generator, shape: tuple[int, int]) -> FloatArray:
    """Features of 60 orders of magnitude: the largest decide, the others are lost beside them."""
    return np.asarray(rng.standard_normal(shape) * 10.0 ** rng.uniform(-30, 30, shape[1]))


def mixed_rows(rng: np.random.Generator, shape: tuple[int, int]) -> FloatArray:
    """Points of 20 orders of magnitude: one centre serves none of them."""
    return np.asarray(rng.standard_normal(shape) * 10.0 ** rng.uniform(-10, 10, (shape[0], 1)))


def one_outlier(rng: np.random.Generator, shape: tuple[int, int]) -> FloatArray:
    """One point so far away that the others are one point beside it."""
    points = rng.standard_normal(shape)
    points[rng.integers(shape[0])] *= 10.0 ** rng.integers(5, 30)
    return points


def cancelling(rng: np.random.Generator, shape: tuple[int, int]) -> FloatArray:
    """Whole numbers that differ in their last digits alone, on an offset that float32 cannot hold with them."""
    offset = 2.0 ** rng.integers(20, 50, shape[1])
    return np.asarray(offset + rng.integers(-3, 4, shape))


def last_digits(rng: np.random.Generator, shape: tuple[int, int]) -> FloatArray:
    """Ones but for a few of float32's last digits: products and sums are rounded the same way again and again."""
    return np.asarray(1.0 + rng.integers(0, 8, shape) * 2.0**-24)


def great(rng: np.random.Generator, shape: tuple[int, int]) -> FloatArray:
    """Around 1e37 and the largest of float32, whose squares it cannot hold, and whose differences may be too large."""
    return np.asarray(rng.choice([-1.0, 1.0], shape) * rng.uniform(0.5, 1.5, shape) * rng.choice([1e36, 1e37, 2e38]))


def slight(rng: np.random.Generator, shape: tuple[int, int]) -> FloatArray:
    """Around 1e-37 and below the normal numbers of float32, where digits are lost."""
    return np.asarray(rng.standard_normal(shape) * rng.choice([1e-36, 1e-37, 1e-38, 1e-43]))


def slight_beside_ones(rng: np.random.Generator, shape: tuple[int, int]) -> FloatArray:
    """Some features around 1, the others below the normal numbers of float32."""
    is_slight = rng.random(shape) < 0.5
    return np.asarray(np.where(is_slight, rng.standard_normal(shape) * 1e-40, rng.integers(-1, 2, shape)))


def vanishing(rng: np.random.Generator, shape: tuple[int, int]) -> FloatArray:
    """So small that squares of differences are the last numbers of float64, or nothing."""
    return np.asarray(rng.standard_normal(shape) * rng.choice([1e-155, 1e-160, 2e-162]))


def greatest(rng: np.random.Generator, shape: tuple[int, int]) -> FloatArray:
    """The largest features that are allowed."""
    return np.asarray(rng.uniform(-1.0, 1.0, shape) * 1e140)


EDGES: tuple[PointMaker, ...] = (
    mixed_columns,
    mixed_rows,
    one_outlier,
    cancelling,
    last_digits,
    great,
    slight,
    slight_beside_ones,
    vanishing,
    greatest,
)
