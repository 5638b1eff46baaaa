"""What is to be covered, gathered from all shards: rows, weights, distances to what is labelled, and the reach."""

from dataclasses import dataclass

import numpy as np

from dubito.coverage import CoverageProblem, cold_reach, kernel, sample_rows, warm_reach
from dubito.engines.cluster.covering.holder import Holder
from dubito.engines.cluster.covering.messages import Terrain, joined
from dubito.engines.cluster.frontier import Placed, Traffic
from dubito.engines.cluster.workers import Workers
from dubito.matrix import AnyArray, FloatArray, IntArray, len_of


@dataclass(frozen=True, slots=True)
class Laid:
    """The ground of a run."""

    ground: Terrain
    squared: FloatArray
    """(k,) from each row to what is labelled."""
    reach: float
    """R²."""
    sampled: int | None
    """How many rows stand for all, if fewer do."""

    @property
    def cover(self) -> FloatArray:
        """(k,) before any pick."""
        return kernel(self.squared, self.reach) if self.reach > 0.0 else np.zeros(len(self.ground))


class Surveyor:
    """Asks shards before a run; ``problem`` has the references, but no points of the pool."""

    def __init__(self, problem: CoverageProblem, workers: Workers, placed: Placed, traffic: Traffic) -> None:
        self.problem, self.workers, self.placed, self.traffic = problem, workers, placed, traffic
        self.largest = max([problem.largest, *(each.largest for each in placed.facts)])
        workers.restore = lambda shard: [*placed.restore(shard), ("hold", (Holder,))]
        workers.ask("hold", (Holder,))

    def lay(self, sample: int | None) -> Laid:
        """The ground, of a sample if that is asked for and fewer than all."""
        counts = self.workers.ask("held", ("n_weighted",))
        is_sampled = sample is not None and sample < sum(counts)
        sums = self._sums() if is_sampled else [0.0] * (len(self.workers) + 1)
        thinning = (sample, sums[-1]) if is_sampled else None
        parts = self.workers.ask("held", ("ground", thinning), [(before,) for before in sums[:-1]])
        pool = self.problem.pool
        ground = joined(parts, np.empty((0, pool.shape[1]), pool.dtype))
        self.traffic.rounds += 2
        self.traffic.received += ground.nbytes
        return Laid(ground, *self._distances(ground.rows), sample if is_sampled else None)

    def _sums(self) -> list[float]:
        """Of the weights before each shard, and of all of them."""
        sums = [0.0]
        for shard in range(len(self.workers)):
            sums.append(self.workers.ask_one(shard, "held", "add_weights", sums[-1]))
        return sums

    def nearest(self, rows: IntArray, references: AnyArray) -> FloatArray:
        """(r,) squared distances of rows, ascending, to references; each shard computes those of its own rows."""
        if len(references) == 0 or len(rows) == 0:
            return np.full(len(rows), np.inf)
        found = self.workers.ask("held", ("nearest", rows, references, self.largest))
        self.traffic.rounds += 1
        self.traffic.sent += rows.nbytes + references.nbytes
        return np.concatenate(found)

    def read(self, rows: IntArray) -> AnyArray:
        """(r, d) features of rows, ascending."""
        parts = [part for part in self.workers.ask("held", ("read", rows)) if len(part)]
        return np.concatenate(parts) if parts else np.empty((0, self.problem.pool.shape[1]))

    def _distances(self, rows: IntArray) -> tuple[FloatArray, float]:
        """(r,) squared distances of rows to what is labelled, and R²."""
        problem, references = self.problem, np.asarray(self.problem.references[:])
        given = None if problem.radius is None else problem.radius * problem.radius
        if len(references) == 0:
            return np.full(len(rows), np.inf), self._cold_reach() if given is None else given
        # All at once: what is labelled goes to the shards once.
        both = rows if given is not None else np.union1d(rows, problem.sample)
        squared = self.nearest(both, references)
        if given is None:
            given = warm_reach(squared[np.searchsorted(both, problem.sample)], problem.factor)
        return squared[np.searchsorted(both, rows)], given

    def _cold_reach(self) -> float:
        points = self.read(self.problem.sample)
        self.traffic.rounds += 1
        self.traffic.received += points.nbytes
        return cold_reach(_of_points(self.problem, points))

    def unlabelled_sample(self) -> IntArray:
        """The rows that give the reach, where every row that is not labelled is a candidate."""
        starts = np.cumsum([0, *self.placed.n_candidates.tolist()])
        ranks = sample_rows(np.arange(starts[-1]))
        edges = np.searchsorted(ranks, starts)
        each = [(ranks[edges[shard] : edges[shard + 1]] - starts[shard],) for shard in range(len(self.workers))]
        return np.concatenate(self.workers.ask("held", ("ranked",), each))


def _of_points(problem: CoverageProblem, points: AnyArray) -> CoverageProblem:
    """A problem whose sample are these points."""
    rows = np.arange(len_of(points))
    none = problem.references
    return CoverageProblem(
        points, none, rows, 1, np.ones(len(rows)), rows, factor=problem.factor, metric=problem.metric
    )
