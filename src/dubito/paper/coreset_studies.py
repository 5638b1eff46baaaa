"""Figures 2 to 4: core-sets of small pools."""

from dataclasses import dataclass
from itertools import pairwise

import numpy as np

from dubito.api import select
from dubito.core.problem import Configuration
from dubito.matrix import FloatArray, IntArray
from dubito.paper.study import Verdict
from dubito.paper.toys import quadrant_probabilities, quadrants
from dubito.request.arrays import check_integer, check_real
from dubito.strategies import DoubtCoreset
from dubito.theory import covering_radius

# Figure 2: covering radii of optimal, greedy and closest-K-means core-sets of k points.

METHODS = ("optimal-coreset", "coreset", "closest-kmeans")
CLUSTER_SHARES = (0.4, 0.25, 0.2, 0.15)
"""K-means favors large clusters, a core-set the outermost points."""


@dataclass(frozen=True, slots=True)
class RadiiStudy:
    """Pools of uneven clusters, covered with ``k`` picks by three methods."""

    n: int = 120
    k: int = 4
    pools: int = 20
    """Number of pools on which radii are compared; the first one is plotted."""

    def __post_init__(self) -> None:
        for name in ("n", "k", "pools"):
            check_integer(name, getattr(self, name), least=1)

    def measure(self, seed: int) -> "Radii":
        """Cover each pool, without labels, by each method."""
        seeds = np.random.SeedSequence(seed).generate_state(self.pools)
        pools = [uneven_pool(int(each), self.n) for each in seeds]
        covers = [{name: cover(pool, self.k, name, seed) for name in METHODS} for pool in pools]
        radii = np.array([[covered[name].radius for name in METHODS] for covered in covers])
        return Radii(pools[0], covers[0], radii)


@dataclass(frozen=True, slots=True, eq=False)
class MethodCover:
    """The picks of one method, and their covering radius."""

    picks: IntArray
    radius: float


@dataclass(frozen=True, slots=True, eq=False)
class Radii:
    """The first pool with its covers, and the radii on all pools."""

    pool: FloatArray
    covers: dict[str, MethodCover]
    radii: FloatArray
    """(pools, 3) in the order of `METHODS`."""

    def verdict(self) -> Verdict:
        """The optimal radius is smallest, greedy at most doubles it, and on most pools both others exceed it."""
        optimal, greedy, kmeans = self.radii.T
        is_ordered = bool((optimal <= greedy + 1e-12).all() and (optimal <= kmeans + 1e-12).all())
        is_bounded = bool((greedy <= 2.0 * optimal + 1e-12).all())
        n_differ = int(((greedy > optimal) & (kmeans > optimal)).sum())
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
            f"{numbers['mean K-means/optimal']:.2f} times; all three differ on {n_differ} of {len(optimal)}"
        )
        return Verdict(is_ordered and is_bounded and n_differ > len(optimal) / 2, numbers, sentence)


def uneven_pool(seed: int, n: int) -> FloatArray:
    """(n, 2): four clusters of unequal size around random centers."""
    rng = np.random.default_rng(seed)
    centers, spreads = rng.uniform(-1.0, 1.0, (4, 2)), rng.uniform(0.12, 0.35, 4)
    cluster = rng.choice(4, size=n, p=CLUSTER_SHARES)
    return np.asarray(centers[cluster] + rng.normal(size=(n, 2)) * spreads[cluster, None])


def cover(pool: FloatArray, k: int, strategy: str, seed: int) -> MethodCover:
    """``k`` picks by a strategy on a pool without labels, and their covering radius."""
    picked = select(pool, k, strategy=strategy, seed=seed)
    return MethodCover(picked.indices, covering_radius(pool, pool[picked.indices]))


# Figure 3: on the quadrants a core-set covers evenly; with scaled distances, it follows the class boundaries.

VIEWS = {"origin": (0.0, 0.0), "corner": (-1.0, 1.0)}
"""Points from which scaled distances are shown: one where the model is uncertain, one where it is certain."""


@dataclass(frozen=True, slots=True)
class QuadrantsStudy:
    """Picks of the plain and the scaled core-set, with a model that is certain away from the axes."""

    n: int = 2000
    initial: int = 12
    batch: int = 20
    steps: int = 4
    near: float = 0.2
    """Points within this distance of an axis count as near it."""
    seeds: int = 10
    """Number of pools over which the shares are averaged; the first one is plotted."""
    steepness: float = 7.0

    def __post_init__(self) -> None:
        for name in ("n", "initial", "batch", "steps", "seeds"):
            check_integer(name, getattr(self, name), least=1)
        for name in ("near", "steepness"):
            check_real(name, getattr(self, name), least=0.0)

    def measure(self, seed: int) -> "Quadrants":
        """Run all steps. The model does not learn: only the labeled points change between steps."""
        seeds = [int(each) for each in np.random.SeedSequence(seed).generate_state(self.seeds)]
        runs = [self._acquire(each) for each in seeds]
        pool = quadrants(seeds[0], n=self.n, n_test=1).features
        shares = {name: np.array([run[name][1] for run in runs]) for name in ("coreset", "doubt-coreset")}
        return Quadrants(
            pool=pool,
            doubt=1.0 - quadrant_probabilities(pool, self.steepness).max(axis=1),
            initial=np.arange(self.initial),
            acquired={name: rows for name, (rows, _) in runs[0].items()},
            shares=shares,
            uniform=share_near_axes(pool, self.near),
            views={name: scaled_distances_from(position, self.steepness) for name, position in VIEWS.items()},
            near=self.near,
        )

    def _acquire(self, seed: int) -> dict[str, tuple[IntArray, float]]:
        """Acquisitions (steps, batch) of each strategy, and the share of them near an axis."""
        pool = quadrants(seed, n=self.n, n_test=1).features
        probabilities = quadrant_probabilities(pool, self.steepness)
        acquired = {}
        for name in ("coreset", "doubt-coreset"):
            labeled, steps = np.arange(self.initial), []
            for _ in range(self.steps):
                picked = select(pool, self.batch, labeled=labeled, probabilities=probabilities, strategy=name).indices
                steps.append(picked)
                labeled = np.concatenate([labeled, picked])
            acquired[name] = np.array(steps), share_near_axes(pool[labeled[self.initial :]], self.near)
        return acquired


@dataclass(frozen=True, slots=True, eq=False)
class Quadrants:
    """Acquisitions on the first pool, shares near an axis on all pools, and scaled distances from two points."""

    pool: FloatArray
    doubt: FloatArray
    initial: IntArray
    acquired: dict[str, IntArray]
    """(steps, batch) rows of the pool for each strategy."""
    shares: dict[str, FloatArray]
    """(seeds,) share of the acquisitions near an axis, for each strategy."""
    uniform: float
    """Share of the pool near an axis, which even coverage would also have."""
    views: dict[str, FloatArray]
    """(side, side) distance times doubt on a grid, from each point of `VIEWS`."""
    near: float

    def verdict(self) -> Verdict:
        """Scaled acquisitions are concentrated near the axes, as are the farthest points; plain ones are not."""
        plain, scaled = (float(self.shares[name].mean()) for name in ("coreset", "doubt-coreset"))
        is_always_higher = bool((self.shares["doubt-coreset"] > self.shares["coreset"]).all())
        farthest = {name: float(np.abs(farthest_in(view)).min()) for name, view in self.views.items()}
        numbers = {
            "share near an axis, core-set": plain,
            "share near an axis, scaled": scaled,
            "share near an axis, pool": self.uniform,
            "farthest from the origin, distance to an axis": farthest["origin"],
            "farthest from (-1, 1), distance to an axis": farthest["corner"],
        }
        holds = (
            is_always_higher
            and scaled > 1.5 * self.uniform
            and plain < 1.2 * self.uniform
            and max(farthest.values()) < 0.2
        )
        sentence = (
            f"{scaled:.0%} of the scaled core-set's acquisitions lie within {self.near:g} of an axis, {plain:.0%} of "
            f"the plain one's and {self.uniform:.0%} of the pool (mean of {len(self.shares['coreset'])} pools); seen "
            f"from the origin and from (-1, 1) the farthest points are {farthest['origin']:.2f} and "
            f"{farthest['corner']:.2f} from an axis"
        )
        return Verdict(holds, numbers, sentence)


def share_near_axes(points: FloatArray, near: float) -> float:
    """Share of points (n, 2) within ``near`` of an axis.

    Examples
    --------
    >>> share_near_axes(np.array([[0.1, 0.9], [0.5, 0.5]]), near=0.2)
    0.5
    """
    return float((np.abs(points).min(axis=1) < near).mean())


def scaled_distances_from(position: tuple[float, float], steepness: float, side: int = 201) -> FloatArray:
    """(side, side) scaled distances of the points of a grid from ``position``: distance times doubt of the point."""
    grid = square_grid(side)
    doubt = 1.0 - quadrant_probabilities(grid, steepness).max(axis=1)
    return np.asarray(np.linalg.norm(grid - np.array(position), axis=1) * doubt).reshape(side, side)


def farthest_in(view: FloatArray) -> FloatArray:
    """(2,) the point of the grid with the largest scaled distance."""
    return np.asarray(square_grid(len(view))[int(view.argmax())])


def square_grid(side: int) -> FloatArray:
    """(side², 2) points of [-1, 1]², row by row from the bottom."""
    line = np.linspace(-1.0, 1.0, side)
    return np.stack(np.meshgrid(line, line), axis=-1).reshape(-1, 2)


# Figure 4: the configurations that a beam keeps on the quadrants, ranked by uncertainty.


@dataclass(frozen=True, slots=True)
class BeamsStudy:
    """One acquisition of ``budget`` points with a beam of ``width``, scaled by doubt."""

    n: int = 2000
    initial: int = 12
    budget: int = 20
    width: int = 4
    pools: int = 20
    """Number of pools on which the beam is compared with greedy selection; the first one is plotted."""

    def __post_init__(self) -> None:
        for name in ("n", "initial", "budget", "width", "pools"):
            check_integer(name, getattr(self, name), least=1)

    def measure(self, seed: int) -> "Beams":
        """Select from each pool with a beam and greedily."""
        seeds = [int(each) for each in np.random.SeedSequence(seed).generate_state(self.pools)]
        pairs = []
        for each in seeds:
            ranked, greedy = (self._select(each, width) for width in (self.width, 1))
            pairs.append((ranked[0], greedy[0]))
        pool = quadrants(seeds[0], n=self.n, n_test=1).features
        return Beams(
            pool=pool,
            doubt=1.0 - quadrant_probabilities(pool).max(axis=1),
            initial=np.arange(self.initial),
            ranked=self._select(seeds[0], self.width),
            uncertainty=np.array([[_or_nan(each.uncertainty) for each in pair] for pair in pairs]),
            radius=np.array([[_or_nan(each.radius) for each in pair] for pair in pairs]),
        )

    def _select(self, seed: int, width: int) -> tuple[Configuration, ...]:
        pool = quadrants(seed, n=self.n, n_test=1).features
        strategy, labeled = DoubtCoreset(beam_width=width), np.arange(self.initial)
        probabilities = quadrant_probabilities(pool)
        return select(pool, self.budget, labeled=labeled, probabilities=probabilities, strategy=strategy).configurations


@dataclass(frozen=True, slots=True, eq=False)
class Beams:
    """The ranked configurations on the first pool, and the beam compared with greedy selection on all pools."""

    pool: FloatArray
    doubt: FloatArray
    initial: IntArray
    ranked: tuple[Configuration, ...]
    uncertainty: FloatArray
    """(pools, 2) U(s) of the first configuration of the beam, and of the greedy one."""
    radius: FloatArray
    """(pools, 2) their scaled covering radii."""

    def verdict(self) -> Verdict:
        """U falls with the rank; the first of a beam has a higher U than greedy, at about the same radius."""
        ranked = [_or_nan(each.uncertainty) for each in self.ranked]
        is_ordered = all(left >= right for left, right in pairwise(ranked))
        gain = float((self.uncertainty[:, 0] / self.uncertainty[:, 1]).mean())
        n_ahead = int((self.uncertainty[:, 0] > self.uncertainty[:, 1]).sum())
        radius_ratio = float((self.radius[:, 0] / self.radius[:, 1]).mean())
        pools = len(self.uncertainty)
        numbers = {f"U of rank {rank}": value for rank, value in enumerate(ranked, start=1)}
        numbers |= {"U, beam over greedy": gain, "scaled radius, beam over greedy": radius_ratio}
        sentence = (
            f"ranks 1 to {len(ranked)} have U = {', '.join(f'{value:.3f}' for value in ranked)}; against the greedy "
            f"choice the first has {gain:.2f} times the U (more on {n_ahead} of {pools} pools) and leaves "
            f"{radius_ratio:.2f} "
            "times the scaled radius"
        )
        return Verdict(is_ordered and n_ahead > pools / 2 and radius_ratio < 1.5, numbers, sentence)


def _or_nan(value: float | None) -> float:
    return float("nan") if value is None else value
