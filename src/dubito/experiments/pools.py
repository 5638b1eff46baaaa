"""Pools with realistic flaws: redundant, ambiguous, imbalanced or mislabelled.

Each flaw is a seeded transformation of the features and labels of the training part, and records what it changed. The
test set is not changed.
"""

from collections.abc import Callable, Iterator
from dataclasses import dataclass, fields, replace
from typing import Literal, get_args

import numpy as np

from dubito.errors import InvalidArgument, InvalidData
from dubito.experiments.images import ImageArray
from dubito.matrix import AnyArray, BoolArray, FloatArray, IntArray, Matrix, blocks
from dubito.request.arrays import check_choice, check_integer, check_real

# Near-copies and blends of 8-bit images, computed in blocks, rounded and clipped to 8 bits.

BRIGHTNESS = 0.05
"""A near-copy is brighter or darker by at most this fraction."""
PIXEL_NOISE = 3.0
"""Standard deviation of the noise of a near-copy in each pixel and color, out of 255."""
BLOCK_ROWS = 1024


def is_images(features: AnyArray) -> bool:
    """Whether these are 8-bit images (n, h, w, 3) rather than features."""
    return features.dtype == np.uint8 and features.ndim == 4


def near_copies(images: ImageArray, rng: np.random.Generator) -> ImageArray:
    """(n, h, w, 3) each image a little brighter or darker, with a little noise.

    Examples
    --------
    >>> gray = np.full((1, 8, 8, 3), 128, dtype=np.uint8)
    >>> copy = near_copies(gray, np.random.default_rng(0))
    >>> copy.dtype, bool(0 < np.abs(copy.astype(int) - 128).mean() < 12)
    (dtype('uint8'), True)
    """
    copies = np.empty_like(images)
    for rows in blocks(len(images), BLOCK_ROWS):
        block = images[rows]
        factor = rng.uniform(1.0 - BRIGHTNESS, 1.0 + BRIGHTNESS, (len(block), 1, 1, 1)).astype(np.float32)
        noise = rng.standard_normal(block.shape, dtype=np.float32) * np.float32(PIXEL_NOISE)
        copies[rows] = as_pixels(block * factor + noise)
    return copies


def blend(images: ImageArray, first: IntArray, second: IntArray, share: FloatArray) -> ImageArray:
    """(b, h, w, 3) ``share`` of each first image and the rest of each second one, pixel by pixel.

    Examples
    --------
    >>> two = np.array([0, 255], dtype=np.uint8).reshape(2, 1, 1, 1).repeat(3, axis=3)
    >>> blend(two, np.array([0]), np.array([1]), np.array([0.4])).ravel().tolist()
    [153, 153, 153]
    """
    blends = np.empty((len(first), *images.shape[1:]), dtype=np.uint8)
    for rows in blocks(len(first), BLOCK_ROWS):
        part = share[rows].astype(np.float32).reshape(-1, 1, 1, 1)
        blends[rows] = as_pixels(part * images[first[rows]] + (1 - part) * images[second[rows]])
    return blends


def as_pixels(values: FloatArray) -> ImageArray:
    return np.clip(np.rint(values), 0, 255).astype(np.uint8)


Flaw = Literal["redundant", "ambiguous", "imbalanced", "mislabelled"]
FLAWS: tuple[Flaw, ...] = get_args(Flaw)

DEFAULT_AMOUNTS: dict[Flaw, float] = {"redundant": 5, "ambiguous": 1.0, "imbalanced": 10.0, "mislabelled": 0.1}
JITTER = 0.05
"""Noise of a near-copy in standard deviations of each feature; its length is about 3.5% (0.05/√2) of the distance
between two random items."""
MIN_SHARE = 0.3
"""Minimum fraction of each item in a blend."""


@dataclass(frozen=True, slots=True)
class PoolStep:
    """A flaw and its amount."""

    flaw: Flaw
    amount: float

    def __post_init__(self) -> None:
        check_choice("pool", self.flaw, FLAWS)
        if self.flaw == "redundant":
            check_integer("redundant", self.amount, least=1)
        elif self.flaw == "imbalanced":
            check_real("imbalanced", self.amount, least=1.0)
        elif not check_real(self.flaw, self.amount, least=0.0) > 0 or (self.flaw == "mislabelled" and self.amount > 1):
            allowed = "a share above 0" + (" and at most 1" if self.flaw == "mislabelled" else "")
            raise InvalidArgument("is not allowed", argument=self.flaw, value=self.amount, hint=f"pass {allowed}.")

    def __str__(self) -> str:
        return f"{self.flaw}:{self.amount:g}"


def parse_pool(spec: str) -> tuple[PoolStep, ...]:
    """Parse flaws with their amounts, joined by ``+``; or ``clean``.

    ``redundant:k`` adds k near-copies of each item; ``ambiguous:share`` adds that many blends per item;
    ``imbalanced:factor`` makes the largest class that many times as large as the smallest; ``mislabelled:share``
    replaces that share of the labels. The default amounts are 5, 1, 10 and 0.1.

    Examples
    --------
    >>> [str(step) for step in parse_pool("redundant:5 + mislabelled")], parse_pool("clean")
    (['redundant:5', 'mislabelled:0.1'], ())
    """
    if spec.strip() == "clean":
        return ()
    return tuple(_parse_step(part.strip(), spec) for part in spec.split("+"))


def _parse_step(part: str, spec: str) -> PoolStep:
    name, colon, amount = (piece.strip() for piece in part.partition(":"))
    flaw: Flaw = check_choice("pool", name, FLAWS)
    if not colon:
        return PoolStep(flaw, DEFAULT_AMOUNTS[flaw])
    for kind in (int, float):
        try:
            return PoolStep(flaw, kind(amount))
        except InvalidArgument:  # InvalidArgument is a ValueError.
            raise
        except ValueError:
            continue
    hint = f"write for example {flaw}:{DEFAULT_AMOUNTS[flaw]:g}."
    raise InvalidArgument(f"has {amount!r} instead of a number", argument="pool", value=spec, hint=hint)


@dataclass(frozen=True, slots=True, eq=False)
class FlawedPool:
    """A pool with flaws, and what was changed."""

    features: AnyArray
    """(n', d) in the original float type; 8-bit images stay 8-bit, and other numbers become float64."""
    labels: IntArray
    """(n',) the labels, possibly wrong."""
    origin: IntArray
    """(n',) the original row of each item; of a blend, the one whose label it has."""
    partner: IntArray
    """(n',) the other row of a blend, else -1."""
    is_copy: BoolArray
    """(n',) whether the item is a near-copy."""
    is_mislabeled: BoolArray
    """(n',) whether the label was replaced."""

    @property
    def is_blend(self) -> BoolArray:
        """(n',) whether the item is a blend of two classes."""
        return np.asarray(self.partner >= 0)

    def dropped(self, n: int) -> IntArray:
        """Those of the ``n`` original rows that are no longer in the pool."""
        return np.setdiff1d(np.arange(n), self.origin)


def make_pool(features: Matrix, labels: AnyArray, spec: str, seed: int) -> FlawedPool:
    """Add the flaws of ``spec`` (see `parse_pool`) to clean training data, from left to right.

    ``features`` (n, d) or 8-bit images (n, h, w, 3) are not changed. In the result the original items come first, in
    their order. Near-copies of images differ a little in brightness and in every pixel; blends are blends of pixels.

    Examples
    --------
    >>> features, labels = np.eye(4), np.array([0, 0, 1, 1])
    >>> pool = make_pool(features, labels, "redundant:1+mislabelled:0.25", seed=0)
    >>> pool.features.shape, pool.origin.tolist(), int(pool.is_mislabeled.sum())
    ((8, 4), [0, 1, 2, 3, 0, 1, 2, 3], 2)
    """
    steps = parse_pool(spec)
    check_integer("seed", seed, least=0)
    array, codes = np.asarray(features[:]), np.asarray(labels)
    if codes.dtype.kind not in "iu" or codes.shape != array.shape[:1]:
        problem = f"labels have shape {codes.shape} and dtype {codes.dtype}"
        raise InvalidData(problem, hint="pass one class code for each row.")
    array = array if array.dtype.kind == "f" or is_images(array) else array.astype(np.float64)
    n, codes = len(array), codes.astype(np.int64)
    all_false = np.zeros(n, dtype=np.bool_)
    pool = FlawedPool(array, codes, np.arange(n), np.full(n, -1), all_false, all_false)
    for position, step in enumerate(steps):
        pool = ADD_FLAW[step.flaw](pool, step.amount, np.random.default_rng((seed, position)))
    return pool


def _redundant(pool: FlawedPool, amount: float, rng: np.random.Generator) -> FlawedPool:
    """All items, followed by their near-copies."""
    times = int(amount) + 1
    is_copy = np.tile(pool.is_copy, times)
    is_copy[len(pool.labels) :] = True
    return FlawedPool(
        np.concatenate([pool.features, *_copies(pool.features, int(amount), rng)]),
        np.tile(pool.labels, times),
        np.tile(pool.origin, times),
        np.tile(pool.partner, times),
        is_copy,
        np.tile(pool.is_mislabeled, times),
    )


def _copies(features: AnyArray, times: int, rng: np.random.Generator) -> Iterator[AnyArray]:
    """Yield near-copies of all items, ``times`` times, with noise in proportion to each feature's deviation."""
    if is_images(features):
        yield from (near_copies(features, rng) for _ in range(times))
        return
    scale = JITTER * features.std(axis=0, dtype=np.float64)
    for _ in range(times):
        noise = rng.standard_normal(features.shape, dtype=np.float32) * scale
        yield (features + noise).astype(features.dtype)


def _ambiguous(pool: FlawedPool, amount: float, rng: np.random.Generator) -> FlawedPool:
    """Blends of two items of different classes, each with the label of one of them, at random."""
    n_blends = max(1, round(amount * len(pool.labels)))
    first, second = _pairs_of_two_classes(pool.labels, n_blends, rng)
    share = rng.uniform(MIN_SHARE, 1.0 - MIN_SHARE, n_blends)
    return FlawedPool(
        np.concatenate([pool.features, _blends(pool.features, first, second, share)]),
        np.concatenate([pool.labels, pool.labels[first]]),
        np.concatenate([pool.origin, pool.origin[first]]),
        np.concatenate([pool.partner, pool.origin[second]]),
        np.concatenate([pool.is_copy, np.zeros(n_blends, np.bool_)]),
        np.concatenate([pool.is_mislabeled, pool.is_mislabeled[first]]),
    )


def _blends(features: AnyArray, first: IntArray, second: IntArray, share: FloatArray) -> AnyArray:
    """``share`` of each first item and the rest of each second one."""
    if is_images(features):
        return blend(features, first, second, share)
    part = share.reshape(-1, *(1,) * (features.ndim - 1))
    return (part * features[first] + (1.0 - part) * features[second]).astype(features.dtype)


def _pairs_of_two_classes(labels: IntArray, n_pairs: int, rng: np.random.Generator) -> tuple[IntArray, IntArray]:
    """Random rows (n_pairs,), and for each a random row of another class."""
    _, codes, counts = np.unique(labels, return_inverse=True, return_counts=True)
    _check_two_classes(len(counts), "ambiguous")
    by_class, ends = np.argsort(codes, kind="stable"), np.cumsum(counts)
    first = rng.integers(len(labels), size=n_pairs)
    # In `by_class`, continued cyclically, the rows of all other classes follow those of a class.
    steps = rng.integers(len(labels) - counts[codes[first]])
    return first, by_class[(ends[codes[first]] + steps) % len(labels)]


def _imbalanced(pool: FlawedPool, amount: float, rng: np.random.Generator) -> FlawedPool:
    """A long tail: in a random order of classes, their sizes fall geometrically by this factor in total."""
    classes, counts = np.unique(pool.labels, return_counts=True)
    _check_two_classes(len(classes), "imbalanced")
    position = rng.permutation(len(classes))
    sizes = np.rint(counts.max() * amount ** (-position / (len(classes) - 1))).astype(np.int64)
    kept = [
        rng.permutation(np.flatnonzero(pool.labels == each))[: max(1, size)]
        for each, size in zip(classes, sizes, strict=True)
    ]
    rows = np.sort(np.concatenate(kept))
    return FlawedPool(**{each.name: getattr(pool, each.name)[rows] for each in fields(pool)})


def _mislabelled(pool: FlawedPool, amount: float, rng: np.random.Generator) -> FlawedPool:
    """Labels replaced by a random other class."""
    classes, codes = np.unique(pool.labels, return_inverse=True)
    _check_two_classes(len(classes), "mislabelled")
    rows = rng.permutation(len(codes))[: max(1, round(amount * len(codes)))]
    labels, is_mislabeled = pool.labels.copy(), pool.is_mislabeled.copy()
    labels[rows] = classes[(codes[rows] + rng.integers(1, len(classes), size=len(rows))) % len(classes)]
    is_mislabeled[rows] = True
    return replace(pool, labels=labels, is_mislabeled=is_mislabeled)


def _check_two_classes(n: int, flaw: Flaw) -> None:
    if n < 2:
        problem = f"labels have only one class, and a pool that is {flaw} needs two"
        raise InvalidData(problem, hint="pass data of several classes.")


AddFlaw = Callable[[FlawedPool, float, np.random.Generator], FlawedPool]
ADD_FLAW: dict[Flaw, AddFlaw] = {
    "redundant": _redundant,
    "ambiguous": _ambiguous,
    "imbalanced": _imbalanced,
    "mislabelled": _mislabelled,
}
