"""Toy data of the paper: quadrants, overlapping clusters, and the signed line.

Points are drawn with ``seed``; the distribution (for example, which cluster has which class) does not depend on it.
"""

import numpy as np

from dubito.experiments.data import Dataset
from dubito.matrix import FloatArray, IntArray
from dubito.request.arrays import check_integer, check_real

QUADRANTS = ("lower left", "lower right", "upper left", "upper right")
STEEPNESS = 7.0
"""How fast the model of the quadrants becomes certain away from the axes."""
SIGNS = ("not positive", "positive")
SPACING = 3.0
"""Distance between neighboring clusters: six standard deviations of 0.5, or three of 1."""
SHUFFLE_SEED = 0
"""Seed of the permutation that assigns classes to clusters, the same for all data."""


def quadrants(seed: int, n: int = 2500, n_test: int = 2500) -> Dataset:
    """Points drawn uniformly from [-1, 1]², whose class is their quadrant.

    Examples
    --------
    >>> made = quadrants(0, n=4)
    >>> made.features.shape, [made.classes[code] for code in made.labels]
    ((4, 2), ['lower right', 'lower left', 'upper right', 'upper right'])
    """
    points = np.random.default_rng(seed).uniform(-1.0, 1.0, (_count("n", n) + _count("n_test", n_test), 2))
    labels = (points[:, 0] > 0) + 2 * (points[:, 1] > 0)
    return _with_test_part("quadrants", points, labels.astype(np.int64), QUADRANTS, n)


def quadrant_probabilities(points: FloatArray, steepness: float = STEEPNESS) -> FloatArray:
    """(n, 4) probabilities of a model that is uncertain near the axes: the product of a logistic for each coordinate.

    Examples
    --------
    >>> quadrant_probabilities(np.array([[0.0, 0.0], [1.0, 1.0]])).round(3).tolist()
    [[0.25, 0.25, 0.25, 0.25], [0.0, 0.001, 0.001, 0.998]]
    """
    right, upper = (1.0 / (1.0 + np.exp(-steepness * points))).T
    return np.column_stack([(1 - right) * (1 - upper), right * (1 - upper), (1 - right) * upper, right * upper])


def clusters(
    seed: int,
    n: int = 2000,
    n_test: int = 4000,
    side: int = 5,
    n_classes: int = 5,
    deviation: float = 1.0,
    spacing: float = SPACING,
) -> Dataset:
    """Round Gaussian clusters on a square grid of ``side`` × ``side``, with their classes shuffled over the grid.

    Examples
    --------
    >>> made = clusters(0, n=100, side=3, n_classes=2)
    >>> made.features.shape, made.classes, len(made.test_labels)
    ((100, 2), ('0', '1'), 4000)
    """
    check_real("deviation", deviation, least=0.0)
    rng, total = np.random.default_rng(seed), _count("n", n) + _count("n_test", n_test)
    centers, classes = cluster_centers(side, n_classes, spacing)
    cluster = rng.integers(side * side, size=total)
    points = centers[cluster] + rng.normal(0.0, deviation, (total, 2))
    return _with_test_part("clusters", points, classes[cluster], tuple(str(each) for each in range(n_classes)), n)


def cluster_centers(side: int, n_classes: int, spacing: float = SPACING) -> tuple[FloatArray, IntArray]:
    """Centers (side², 2) of `clusters` and their classes (side²,).

    Examples
    --------
    >>> cluster_centers(2, 2)[0].tolist()
    [[-1.5, -1.5], [1.5, -1.5], [-1.5, 1.5], [1.5, 1.5]]
    """
    check_integer("side", side, least=1)
    check_integer("n_classes", n_classes, least=2)
    line = spacing * (np.arange(side) - (side - 1) / 2)
    classes = np.random.default_rng(SHUFFLE_SEED).permutation(np.arange(side * side) % n_classes)
    return np.stack(np.meshgrid(line, line), axis=-1).reshape(-1, 2), np.asarray(classes, dtype=np.int64)


def cluster_noise(points: FloatArray, side: int, n_classes: int, deviation: float) -> FloatArray:
    """(n,) the Bayes error of `clusters` at each point.

    Examples
    --------
    >>> cluster_noise(np.array([[-1.5, -1.5], [0.0, 0.0]]), side=2, n_classes=4, deviation=1.0).round(3).tolist()
    [0.022, 0.75]
    """
    centers, classes = cluster_centers(side, n_classes)
    squared = ((points[:, None] - centers[None]) ** 2).sum(axis=2)
    near = np.exp(-0.5 * (squared - squared.min(axis=1, keepdims=True)) / deviation**2)
    by_class = np.stack([near[:, classes == code].sum(axis=1) for code in range(n_classes)])
    return np.asarray(1.0 - by_class.max(axis=0) / by_class.sum(axis=0))


def signed_line(seed: int, n: int = 1000, n_test: int = 1000) -> Dataset:
    """Real numbers drawn from two Gaussians, 60% around -2 and 40% around 1.5; the class is their sign.

    Examples
    --------
    >>> made = signed_line(0, n=5)
    >>> made.features.shape, (made.labels == (made.features[:, 0] > 0)).all().item()
    ((5, 1), True)
    """
    rng, total = np.random.default_rng(seed), _count("n", n) + _count("n_test", n_test)
    is_left = rng.random(total) < LINE_SHARES[0]
    points = np.where(is_left, rng.normal(*LINE_PEAKS[0], total), rng.normal(*LINE_PEAKS[1], total))[:, None]
    return _with_test_part("signed-line", points, (points[:, 0] > 0).astype(np.int64), SIGNS, n)


LINE_SHARES = (0.6, 0.4)
LINE_PEAKS = ((-2.0, 0.8), (1.5, 0.5))
"""Mean and standard deviation of each peak of `signed_line`."""


def line_density(x: FloatArray) -> FloatArray:
    """The true density of `signed_line`.

    Examples
    --------
    >>> line_density(np.array([-2.0, 0.0])).round(4).tolist()
    [0.2992, 0.0167]
    """
    peaks = [
        share * np.exp(-0.5 * ((x - mean) / deviation) ** 2) / (deviation * np.sqrt(2.0 * np.pi))
        for share, (mean, deviation) in zip(LINE_SHARES, LINE_PEAKS, strict=True)
    ]
    return np.asarray(sum(peaks))


def feature_pool(seed: int, n: int, d: int, n_classes: int = 10) -> tuple[FloatArray, FloatArray]:
    """Features (n, d) and probabilities (n, c) like those of a network: rectified clusters in float32.

    Later features have smaller scales. Logits are products with the centers of the classes.

    Examples
    --------
    >>> features, probabilities = feature_pool(0, n=50, d=8)
    >>> features.shape, probabilities.shape, bool((features >= 0).all())
    ((50, 8), (50, 10), True)
    """
    rng = np.random.default_rng(seed)
    scale = (1.0 / np.sqrt(1.0 + np.arange(d))).astype(np.float32)
    centers = rng.standard_normal((n_classes, d), dtype=np.float32) * scale
    labels = rng.integers(n_classes, size=n)
    features = np.maximum(centers[labels] + rng.standard_normal((n, d), dtype=np.float32) * scale, 0.0)
    logits = features @ centers.T * 2.0
    likely = np.exp(logits - logits.max(axis=1, keepdims=True), dtype=np.float64)
    return features, likely / likely.sum(axis=1, keepdims=True)


def _with_test_part(name: str, points: FloatArray, labels: IntArray, classes: tuple[str, ...], n: int) -> Dataset:
    return Dataset(name, points[:n], labels[:n], classes, points[n:], labels[n:])


def _count(name: str, value: int) -> int:
    return check_integer(name, value, least=1)


def many_clusters(seed: int) -> Dataset:
    """81 clusters in three classes, three standard deviations apart, as in the first figure."""
    return clusters(seed, n=3000, side=9, n_classes=3)


def separate_clusters(seed: int) -> Dataset:
    """25 clusters in five classes with a standard deviation of 0.5, which hardly overlap."""
    return clusters(seed, deviation=0.5)
