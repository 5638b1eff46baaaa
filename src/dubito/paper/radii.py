"""Figure 2: what an optimal, a greedy and a closest-K-means core-set of K points leave uncovered."""

from dataclasses import dataclass

import numpy as np

from dubito.api import select
from dubito.matrix import FloatArray, IntArray
from dubito.paper.verdicts import Verdict
from dubito.request.arrays import check_integer
from dubito.theory import covering_radius

STRATEGIES = ("optimal-coreset", "coreset", "closest-kmeans")
SHARES = (0.4, 0.25, 0.2, 0.15)
"""Uneven clusters: K-means follows the crowd, a core-set the corners."""


@dataclass(frozen=True, slots=True)
class RadiiStudy:
    """A pool of uneven clusters, covered with ``k`` picks by three methods, and by them again on other pools."""

    n: int = 120
    k: int = 4
    pools: int = 20
    """Pools in all, on which the order of the radii is counted; the first is drawn."""

    def __post_init__(self) -> None:
        for name in ("n", "k", "pools"):
            check_integer(name, getattr(self, name), least=1)

    def measure(self, seed: int) -> "Radii":
        """Nothing is labeled; every method covers the pool alone."""
        seeds = np.random.SeedSequence(seed).generate_state(self.pools)
        pools = [uneven_pool(int(each), self.n) for each in seeds]
        covers = [{name: cover(pool, self.k, name, seed) for name in STRATEGIES} for pool in pools]
        radii = np.array([[covered[name].radius for name in STRATEGIES] for covered in covers])
        return Radii(pools[0], covers[0], radii)


@dataclass(frozen=True, slots=True, eq=False)
class MethodCover:
    """The picks of one method, and the largest distance they leave."""

    picks: IntArray
    radius: float


@dataclass(frozen=True, slots=True, eq=False)
class Radii:
    """Covers of the pool drawn, and the radii on every pool."""

    pool: FloatArray
    covers: dict[str, MethodCover]
    radii: FloatArray
    """(pools, 3) in the order of `STRATEGIES`."""

    def verdict(self) -> Verdict:
        """The optimum is least, greedy at most twice that, and on most pools K-means leaves more than greedy."""
        optimal, greedy, kmeans = self.radii.T
        is_ordered = bool((optimal <= greedy + 1e-12).all() and (optimal <= kmeans + 1e-12).all())
        is_bounded = bool((greedy <= 2.0 * optimal + 1e-12).all())
        differ = int(((greedy > optimal) & (kmeans > optimal)).sum())
        numbers = {
            "optimal δ": float(optimal[0]),
            "greedy δ": float(greedy[0]),
            "closest-K-means δ": float(kmeans[0]),
            "largest greedy/optimal": float((greedy / optimal).max()),
            "mean greedy/optimal": float((greedy / optimal).mean()),
            "mean K-means/optimal": float((kmeans / optimal).mean()),
        }
        sentence = (
            f"on {len(optimal)} pools the optimal radius is the least, greedy's {numbers['mean greedy/optimal']:.2f} "
            f"times it (never over {numbers['largest greedy/optimal']:.2f}), closest-K-means' "
            f"{numbers['mean K-means/optimal']:.2f} times; all three differ on {differ} of {len(optimal)}"
        )
        return Verdict(is_ordered and is_bounded and differ > len(optimal) / 2, numbers, sentence)


def uneven_pool(seed: int, n: int) -> FloatArray:
    """(n, 2): four clusters of unequal size around random centers."""
    rng = np.random.default_rng(seed)
    centers, spreads = rng.uniform(-1.0, 1.0, (4, 2)), rng.uniform(0.12, 0.35, 4)
    which = rng.choice(4, size=n, p=SHARES)
    return np.asarray(centers[which] + rng.normal(size=(n, 2)) * spreads[which, None])


def cover(pool: FloatArray, k: int, strategy: str, seed: int) -> MethodCover:
    """``k`` picks by a strategy on a pool without labels, and their covering radius."""
    picked = select(pool, k, strategy=strategy, seed=seed)
    return MethodCover(picked.indices, covering_radius(pool, pool[picked.indices]))
