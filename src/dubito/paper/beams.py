"""Figure 4: the configurations a beam keeps on the quadrants, ranked by how little the model is sure of them."""

from dataclasses import dataclass
from itertools import pairwise

import numpy as np

from dubito.api import select
from dubito.core.problem import Configuration
from dubito.experiments.built_in_data import quadrant_probabilities, quadrants
from dubito.matrix import FloatArray, IntArray
from dubito.paper.verdicts import Verdict
from dubito.request.arrays import check_integer
from dubito.strategies import DoubtCoreset


@dataclass(frozen=True, slots=True)
class BeamsStudy:
    """One acquisition of ``budget`` points with a beam of ``width``, scaled by doubt."""

    n: int = 2000
    initial: int = 12
    budget: int = 20
    width: int = 4
    pools: int = 20
    """Pools on which the beam is held against the greedy choice; the first is drawn."""

    def __post_init__(self) -> None:
        for name in ("n", "initial", "budget", "width", "pools"):
            check_integer(name, getattr(self, name), least=1)

    def measure(self, seed: int) -> "Beams":
        """Every pool gets a beam and the greedy choice beside it."""
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
            uncertainty=np.array([[_number(each.uncertainty) for each in pair] for pair in pairs]),
            radius=np.array([[_number(each.radius) for each in pair] for pair in pairs]),
        )

    def _select(self, seed: int, width: int) -> tuple[Configuration, ...]:
        pool = quadrants(seed, n=self.n, n_test=1).features
        likely, seen = quadrant_probabilities(pool), np.arange(self.initial)
        method = DoubtCoreset(beam_width=width)
        return select(pool, self.budget, labeled=seen, probabilities=likely, strategy=method).configurations


@dataclass(frozen=True, slots=True, eq=False)
class Beams:
    """The ranked configurations on the pool drawn, and the beam against greedy on every pool."""

    pool: FloatArray
    doubt: FloatArray
    initial: IntArray
    ranked: tuple[Configuration, ...]
    uncertainty: FloatArray
    """(pools, 2) U(s) of the beam's first configuration and of the greedy one."""
    radius: FloatArray
    """(pools, 2) the scaled radius each leaves."""

    def verdict(self) -> Verdict:
        """U falls with the rank, and the first of a beam is less sure than greedy's, at about the same radius."""
        ranked = [_number(each.uncertainty) for each in self.ranked]
        falls = all(left >= right for left, right in pairwise(ranked))
        gain = float((self.uncertainty[:, 0] / self.uncertainty[:, 1]).mean())
        ahead = int((self.uncertainty[:, 0] > self.uncertainty[:, 1]).sum())
        wider = float((self.radius[:, 0] / self.radius[:, 1]).mean())
        pools = len(self.uncertainty)
        numbers = {f"U of rank {rank}": value for rank, value in enumerate(ranked, start=1)}
        numbers |= {"U, beam over greedy": gain, "scaled radius, beam over greedy": wider}
        sentence = (
            f"ranks 1 to {len(ranked)} have U = {', '.join(f'{value:.3f}' for value in ranked)}; against the greedy "
            f"choice the first has {gain:.2f} times the U (more on {ahead} of {pools} pools) and leaves {wider:.2f} "
            "times the scaled radius"
        )
        return Verdict(falls and ahead > pools / 2 and wider < 1.5, numbers, sentence)


def _number(value: float | None) -> float:
    return float("nan") if value is None else value
