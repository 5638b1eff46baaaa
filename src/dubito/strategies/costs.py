"""Estimated costs of strategies without an engine: counts of operations, with constants fitted to runs on one machine.

`benchmarks/estimates.py` compares the estimates with measured times. Matrix products are timed by this machine's rate,
everything else by its `slowness`.
"""

from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np

from dubito.engines.base import Estimate
from dubito.engines.cpu.speed import product_rate, slowness
from dubito.strategies.badge import FIRST_BLOCK, LARGEST_BLOCK, Badge
from dubito.strategies.bald import Bald, BatchBald
from dubito.strategies.base import Strategy
from dubito.strategies.kmeans import MOST_CLUSTERS, ClosestKMeans, TypiClust
from dubito.strategies.lcmd import LargestCluster
from dubito.strategies.mixture import ProbabilisticCoreset
from dubito.strategies.uncertainty import Entropy, LeastConfidence, Margin, PowerSampling, Random

NO_ENGINE = "none"
"""The value that takes the place of an engine's name."""


class Sizes(NamedTuple):
    n: int
    """Candidates."""
    d: int
    m: int
    """Labeled points."""
    budget: int
    n_classes: int = 10
    n_posterior_samples: int = 10
    """Used by strategies that need posterior samples."""


def cost_of(strategy: Strategy, sizes: Sizes) -> Estimate | None:
    """Bytes and seconds of a built-in strategy that needs no engine.

    None for all others: those with an engine, ``optimal-coreset``, and plug-ins.
    """
    found = COSTS.get(type(strategy))
    if found is None:
        return None
    n_numbers, multiplications, seconds = found(strategy, sizes)
    # Two operations per multiplication, in float64, which takes twice the time of float32.
    time = 4.0 * multiplications / product_rate() + seconds * slowness() + call_seconds(sizes)
    return Estimate(int(8 * n_numbers), time, NO_ENGINE)


def call_seconds(sizes: Sizes) -> float:
    """Seconds of a call of `dubito.select` besides the strategy: checks of features and probabilities."""
    return slowness() * (1.5e-3 + sizes.n * (2e-8 * sizes.n_classes + 3e-10 * sizes.d))


class Work(NamedTuple):
    n_numbers: float
    """float64 numbers in memory at once, beyond the inputs."""
    multiplications: float
    """Multiplications in matrix products."""
    seconds: float
    """Time of everything else on the machine on which the constants were fitted."""


def _ranking(strategy: Strategy, sizes: Sizes) -> Work:
    n, classes = sizes.n, sizes.n_classes
    return Work(n * (classes + 3), 0.0, n * (1e-7 + 8e-9 * classes))


def _random(strategy: Strategy, sizes: Sizes) -> Work:
    return Work(sizes.n, 0.0, 2e-8 * sizes.n)


def _badge(strategy: Strategy, sizes: Sizes) -> Work:
    n, d, _, budget, classes, _ = sizes
    n_passes = 2.0 + np.log2(1.0 + budget / FIRST_BLOCK) + budget / LARGEST_BLOCK
    seconds = 6e-7 * n + 2.5e-9 * n_passes * n * d + 9e-9 * n * budget
    return Work(n * (classes + 5), n * budget * (d + classes), seconds)


def _largest_cluster(strategy: Strategy, sizes: Sizes) -> Work:
    n, d, m, budget, *_ = sizes
    seconds = n * m * (1.6e-8 + 1.2e-10 * d) + n * budget * (3e-8 + 8e-10 * d) + 1e-4 * budget
    return Work(n * (d + 6), 0.0, seconds)


def _kmeans(n: int, d: int, k: int) -> float:
    return n * k * (5e-8 + 4e-10 * d) + n * (1e-6 + 2e-8 * d)


def _closest_kmeans(strategy: Strategy, sizes: Sizes) -> Work:
    n, d, budget = sizes.n, sizes.d, sizes.budget
    return Work(1.5 * n * d + 2 * budget * d, 0.0, _kmeans(n, d, budget))


def _typiclust(strategy: Strategy, sizes: Sizes) -> Work:
    n, d, m, budget, *_ = sizes
    k = min(m + budget, MOST_CLUSTERS)
    return Work(2.5 * (n + m) * d, 0.0, 0.65 * _kmeans(n + m, d, k) + 3e-8 * n * n / k + 1e-4 * k)


def _bald(strategy: Strategy, sizes: Sizes) -> Work:
    return Work(2 * sizes.n, 0.0, 2.7e-8 * sizes.n * sizes.n_posterior_samples * sizes.n_classes)


def _batchbald(strategy: BatchBald, sizes: Sizes) -> Work:
    n, _, _, budget, classes, samples = sizes
    return Work(3 * n, 0.0, 4e-10 * budget * n * samples * classes * strategy.samples)


def _probabilistic(strategy: ProbabilisticCoreset, sizes: Sizes) -> Work:
    n, d, m, budget, *_ = sizes
    batches, components = strategy.batches, strategy.components
    seconds = 1.3e-8 * (batches * budget + m) * components * strategy.samples
    return Work(n * (d + components) + batches * budget, 0.0, seconds)


COSTS: dict[type, Callable[[Any, Sizes], Work]] = {
    Badge: _badge,
    Bald: _bald,
    BatchBald: _batchbald,
    ClosestKMeans: _closest_kmeans,
    Entropy: _ranking,
    LargestCluster: _largest_cluster,
    LeastConfidence: _ranking,
    Margin: _ranking,
    PowerSampling: _ranking,
    ProbabilisticCoreset: _probabilistic,
    Random: _random,
    TypiClust: _typiclust,
}
