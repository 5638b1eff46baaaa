"""Figure 3: on the quadrants a core-set covers evenly, and along the class boundaries once distances are scaled."""

from dataclasses import dataclass

import numpy as np

from dubito.api import select
from dubito.experiments.built_in_data import quadrant_probabilities, quadrants
from dubito.matrix import FloatArray, IntArray
from dubito.paper.verdicts import Verdict
from dubito.request.arrays import check_integer, check_real

VIEWS = {"origin": (0.0, 0.0), "corner": (-1.0, 1.0)}
"""Where the warped space is looked at from: a point in doubt and a sure one."""


@dataclass(frozen=True, slots=True)
class QuadrantsStudy:
    """Steps of ``batch`` acquisitions by the core-set, plain and scaled, with a model that is sure off the axes."""

    n: int = 2000
    initial: int = 12
    batch: int = 20
    steps: int = 4
    near: float = 0.2
    """Within this distance of an axis counts as near it."""
    seeds: int = 10
    """Pools over which the shares are averaged; the first is drawn."""
    steepness: float = 7.0

    def __post_init__(self) -> None:
        for name in ("n", "initial", "batch", "steps", "seeds"):
            check_integer(name, getattr(self, name), least=1)
        for name in ("near", "steepness"):
            check_real(name, getattr(self, name), least=0.0)

    def measure(self, seed: int) -> "Quadrants":
        """The model does not learn: what changes from step to step is only what is labeled."""
        seeds = [int(each) for each in np.random.SeedSequence(seed).generate_state(self.seeds)]
        rows = [self._acquire(each) for each in seeds]
        pool = quadrants(seeds[0], n=self.n, n_test=1).features
        shares = {name: np.array([row[name][1] for row in rows]) for name in ("coreset", "doubt-coreset")}
        return Quadrants(
            pool=pool,
            doubt=1.0 - quadrant_probabilities(pool, self.steepness).max(axis=1),
            initial=np.arange(self.initial),
            acquired={name: rows[0][name][0] for name in rows[0]},
            shares=shares,
            uniform=share_near_axes(pool, self.near),
            views={name: warped_from(place, self.steepness) for name, place in VIEWS.items()},
            near=self.near,
        )

    def _acquire(self, seed: int) -> dict[str, tuple[IntArray, float]]:
        """Acquisitions (steps, batch) of each strategy, and the share of them near an axis."""
        pool = quadrants(seed, n=self.n, n_test=1).features
        likely = quadrant_probabilities(pool, self.steepness)
        found = {}
        for name in ("coreset", "doubt-coreset"):
            labeled, steps = np.arange(self.initial), []
            for _ in range(self.steps):
                steps.append(select(pool, self.batch, labeled=labeled, probabilities=likely, strategy=name).indices)
                labeled = np.concatenate([labeled, steps[-1]])
            found[name] = np.array(steps), share_near_axes(pool[labeled[self.initial :]], self.near)
        return found


@dataclass(frozen=True, slots=True, eq=False)
class Quadrants:
    """Acquisitions on the pool drawn, shares near an axis on all, and the warped space from two places."""

    pool: FloatArray
    doubt: FloatArray
    initial: IntArray
    acquired: dict[str, IntArray]
    """(steps, batch) rows of the pool for each strategy."""
    shares: dict[str, FloatArray]
    """(seeds,) share of the acquisitions near an axis, for each strategy."""
    uniform: float
    """Share of the pool near an axis: what even coverage would give."""
    views: dict[str, FloatArray]
    """(side, side) distance times doubt over the square, from each place."""
    near: float

    def verdict(self) -> Verdict:
        """Scaled acquisitions gather near the axes, plain ones do not; from either place the farthest lie there."""
        plain, scaled = (float(self.shares[name].mean()) for name in ("coreset", "doubt-coreset"))
        always = bool((self.shares["doubt-coreset"] > self.shares["coreset"]).all())
        farthest = {name: float(np.abs(farthest_in(view)).min()) for name, view in self.views.items()}
        numbers = {
            "share near an axis, core-set": plain,
            "share near an axis, scaled": scaled,
            "share near an axis, pool": self.uniform,
            "farthest from the origin, distance to an axis": farthest["origin"],
            "farthest from (-1, 1), distance to an axis": farthest["corner"],
        }
        holds = always and scaled > 1.5 * self.uniform and plain < 1.2 * self.uniform and max(farthest.values()) < 0.2
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


def warped_from(place: tuple[float, float], steepness: float, side: int = 201) -> FloatArray:
    """(side, side) how far each point of the square looks from a pick: its distance times its own doubt."""
    grid = square_grid(side)
    doubt = 1.0 - quadrant_probabilities(grid, steepness).max(axis=1)
    return np.asarray(np.linalg.norm(grid - np.array(place), axis=1) * doubt).reshape(side, side)


def farthest_in(view: FloatArray) -> FloatArray:
    """(2,) the point of the square that looks farthest in a view."""
    return np.asarray(square_grid(len(view))[int(view.argmax())])


def square_grid(side: int) -> FloatArray:
    """(side², 2) points of [-1, 1]², row by row from below."""
    line = np.linspace(-1.0, 1.0, side)
    return np.stack(np.meshgrid(line, line), axis=-1).reshape(-1, 2)
