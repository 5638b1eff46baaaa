"""Pools as users have them: redundant, ambiguous, imbalanced, mislabelled.

Benchmarks are clean and pools are not. Each flaw is a seeded transformation of features and labels that keeps track of
what it did. It is meant for the training data alone: the test set stays as it is, and stays out of sight.
"""

from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from typing import Literal, get_args

import numpy as np

from dubito.errors import InvalidArgument, InvalidData
from dubito.experiments.images import ImageArray
from dubito.matrix import AnyArray, BoolArray, FloatArray, IntArray, Matrix, blocks
from dubito.request.arrays import check_choice, check_integer, check_real

# Near-copies and blends of 8-bit images, a block at a time: what comes out is 8-bit again, and never wraps around.

BRIGHTNESS = 0.05
"""A near-copy is at most this share brighter or darker."""
PIXEL_NOISE = 3.0
"""Standard deviation of a near-copy's noise in every pixel and color, out of 255."""
BLOCK_ROWS = 1024


def is_images(features: AnyArray) -> bool:
    """Whether these are 8-bit images (n, h, w, 3) and no features."""
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


Flaw = Literal["redundant", "ambiguous", "imbalanced", "mislabelled"]
FLAWS: tuple[Flaw, ...] = get_args(Flaw)

USUAL_AMOUNTS: dict[Flaw, float] = {"redundant": 5, "ambiguous": 1.0, "imbalanced": 10.0, "mislabelled": 0.1}
"""What a flaw without a number means."""
JITTER = 0.05
"""Noise of a near-copy, in standard deviations of each feature: 5% of the distance between two items, about."""
LEAST_MIXED = 0.3
"""A blend has at least this share of either item."""


@dataclass(frozen=True, slots=True)
class PoolStep:
    """One flaw and how much of it."""

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
    """Read what a pool shall be: flaws with their amounts, several joined by ``+``, or ``clean``.

    ``redundant:k`` adds k near-copies of each item; ``ambiguous:share`` adds that many blends for every item;
    ``imbalanced:factor`` makes the largest class that many times the smallest; ``mislabelled:share`` replaces that
    share of the labels. Without a number: 5, 1, 10 and 0.1.

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
        return PoolStep(flaw, USUAL_AMOUNTS[flaw])
    for kind in (int, float):
        try:
            return PoolStep(flaw, kind(amount))
        except InvalidArgument:
            raise
        except ValueError:
            continue
    raise InvalidArgument(
        f"has {amount!r} where a number belongs",
        argument="pool",
        value=spec,
        hint=f"pass such as {flaw}:{USUAL_AMOUNTS[flaw]:g}.",
    )


@dataclass(frozen=True, slots=True, eq=False)
class PoolMade:
    """A pool and what was done to make it so."""

    features: AnyArray
    """(n', d) in the float type handed in; 8-bit images stay so, and other numbers become float64."""
    labels: IntArray
    """(n',) as an annotator would give them."""
    origin: IntArray
    """(n',) the row each item comes from; of a blend, the one whose label it has."""
    partner: IntArray
    """(n',) a blend's other row, else -1."""
    is_copy: BoolArray
    """(n',) near-copies."""
    is_mislabelled: BoolArray
    """(n',) labels that were replaced."""

    @property
    def is_blend(self) -> BoolArray:
        """(n',) blends of two classes."""
        return np.asarray(self.partner >= 0)

    @property
    def is_flawed(self) -> BoolArray:
        """(n',) items that are not as they were handed in."""
        return np.asarray(self.is_copy | self.is_blend | self.is_mislabelled)

    def dropped(self, n: int) -> IntArray:
        """Rows of the ``n`` handed in that are in the pool no more."""
        return np.setdiff1d(np.arange(n), self.origin)


def make_pool(features: Matrix, labels: AnyArray, spec: str, seed: int) -> PoolMade:
    """Turn clean training data into a pool as users have them.

    Parameters
    ----------
    features : array (n, d) or (n, h, w, 3)
        Features of the training data; never changed. float16 and float32 are kept, and so are 8-bit images: their
        near-copies differ a little in brightness and in every pixel, and their blends are blends of pixels.
    labels : array (n,)
        Class codes.
    spec : str
        As `parse_pool` reads it, such as ``"redundant:5"``. Flaws apply from left to right.
    seed : int
        The same seed gives the same pool.

    Returns
    -------
    PoolMade
        The items handed in come first, in their order; what is added follows. A few copies of the result in memory.

    Examples
    --------
    >>> features, labels = np.eye(4), np.array([0, 0, 1, 1])
    >>> made = make_pool(features, labels, "redundant:1+mislabelled:0.25", seed=0)
    >>> made.features.shape, made.origin.tolist(), int(made.is_mislabelled.sum())
    ((8, 4), [0, 1, 2, 3, 0, 1, 2, 3], 2)
    """
    steps = parse_pool(spec)
    check_integer("seed", seed, least=0)
    array, codes = np.asarray(features[:]), np.asarray(labels)
    if codes.dtype.kind not in "iu" or codes.shape != array.shape[:1]:
        raise InvalidData(
            f"labels has shape {codes.shape} and dtype {codes.dtype}", hint="pass one class code for each row."
        )
    array = array if array.dtype.kind == "f" or is_images(array) else array.astype(np.float64)
    n, codes = len(array), codes.astype(np.int64)
    nothing = np.zeros(n, dtype=np.bool_)
    made = PoolMade(array, codes, np.arange(n), np.full(n, -1), nothing, nothing)
    for place, step in enumerate(steps):
        made = MAKERS[step.flaw](made, step.amount, np.random.default_rng((seed, place)))
    return made


def _redundant(made: PoolMade, amount: float, rng: np.random.Generator) -> PoolMade:
    """Every item, and then all of its near-copies."""
    times = int(amount) + 1
    is_copy = np.tile(made.is_copy, times)
    is_copy[len(made.labels) :] = True
    return PoolMade(
        np.concatenate([made.features, *_copies(made.features, int(amount), rng)]),
        np.tile(made.labels, times),
        np.tile(made.origin, times),
        np.tile(made.partner, times),
        is_copy,
        np.tile(made.is_mislabelled, times),
    )


def _copies(features: AnyArray, times: int, rng: np.random.Generator) -> Iterator[AnyArray]:
    """Near-copies of all items, so many times: noise in each feature, none in one that never varies."""
    if is_images(features):
        yield from (near_copies(features, rng) for _ in range(times))
        return
    scale = JITTER * features.std(axis=0, dtype=np.float64)
    for _ in range(times):
        noise = rng.standard_normal(features.shape, dtype=np.float32) * scale
        yield (features + noise).astype(features.dtype)


def _ambiguous(made: PoolMade, amount: float, rng: np.random.Generator) -> PoolMade:
    """Blends of two items of different classes, which have the label of either by the toss of a coin."""
    wanted = max(1, round(amount * len(made.labels)))
    first, second = _pairs_of_two_classes(made.labels, wanted, rng)
    share = rng.uniform(LEAST_MIXED, 1.0 - LEAST_MIXED, wanted)
    return PoolMade(
        np.concatenate([made.features, _blends(made.features, first, second, share)]),
        np.concatenate([made.labels, made.labels[first]]),
        np.concatenate([made.origin, made.origin[first]]),
        np.concatenate([made.partner, made.origin[second]]),
        np.concatenate([made.is_copy, np.zeros(wanted, np.bool_)]),
        np.concatenate([made.is_mislabelled, made.is_mislabelled[first]]),
    )


def _blends(features: AnyArray, first: IntArray, second: IntArray, share: FloatArray) -> AnyArray:
    """``share`` of each first item and the rest of each second one."""
    if is_images(features):
        return blended(features, first, second, share)
    part = share.reshape(-1, *(1,) * (features.ndim - 1))
    return (part * features[first] + (1.0 - part) * features[second]).astype(features.dtype)


def _pairs_of_two_classes(labels: IntArray, wanted: int, rng: np.random.Generator) -> tuple[IntArray, IntArray]:
    """Rows (wanted,) at random, and for each a row of another class at random."""
    _, codes, counts = np.unique(labels, return_inverse=True, return_counts=True)
    _need_classes(len(counts), "ambiguous")
    by_class, ends = np.argsort(codes, kind="stable"), np.cumsum(counts)
    first = rng.integers(len(labels), size=wanted)
    # In the order of classes, and past the end back to the start, the other classes follow one's own.
    steps = rng.integers(len(labels) - counts[codes[first]])
    return first, by_class[(ends[codes[first]] + steps) % len(labels)]


def _imbalanced(made: PoolMade, amount: float, rng: np.random.Generator) -> PoolMade:
    """A long tail: class sizes fall geometrically, in a random order of classes, by the factor in all."""
    classes, counts = np.unique(made.labels, return_counts=True)
    _need_classes(len(classes), "imbalanced")
    place = rng.permutation(len(classes))
    sizes = np.rint(counts.max() * amount ** (-place / (len(classes) - 1))).astype(np.int64)
    kept = [
        rng.permutation(np.flatnonzero(made.labels == each))[: max(1, size)]
        for each, size in zip(classes, sizes, strict=True)
    ]
    rows = np.sort(np.concatenate(kept))
    return PoolMade(
        made.features[rows],
        made.labels[rows],
        made.origin[rows],
        made.partner[rows],
        made.is_copy[rows],
        made.is_mislabelled[rows],
    )


def _mislabelled(made: PoolMade, amount: float, rng: np.random.Generator) -> PoolMade:
    """Labels replaced by another class, each of the others as likely."""
    classes, codes = np.unique(made.labels, return_inverse=True)
    _need_classes(len(classes), "mislabelled")
    rows = rng.permutation(len(codes))[: max(1, round(amount * len(codes)))]
    labels, wrong = made.labels.copy(), made.is_mislabelled.copy()
    labels[rows] = classes[(codes[rows] + rng.integers(1, len(classes), size=len(rows))) % len(classes)]
    wrong[rows] = True
    return replace(made, labels=labels, is_mislabelled=wrong)


def _need_classes(n: int, flaw: Flaw) -> None:
    if n < 2:
        raise InvalidData(
            f"labels hold one class only, and a pool that is {flaw} needs two", hint="pass data of several classes."
        )


PoolMaker = Callable[[PoolMade, float, np.random.Generator], PoolMade]
MAKERS: dict[Flaw, PoolMaker] = {
    "redundant": _redundant,
    "ambiguous": _ambiguous,
    "imbalanced": _imbalanced,
    "mislabelled": _mislabelled,
}
