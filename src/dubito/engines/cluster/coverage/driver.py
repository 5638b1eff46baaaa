"""The driver's side of coverage over shards."""

import heapq
from dataclasses import dataclass, replace
from typing import NamedTuple

import numpy as np

from dubito.core.coverage_reference import (
    CoverageProblem,
    add_rows,
    cold_reach,
    kernel,
    sample_rows,
    shares,
    warm_reach,
)
from dubito.core.problem import Configuration, Solution
from dubito.doubt import uncertainty
from dubito.engines.cluster.coverage.messages import CoverAnswer, CoverStart, Grown, Int32Array, Terrain, joined
from dubito.engines.cluster.coverage.worker import Holder
from dubito.engines.cluster.frontier import Placed, Traffic, first_of
from dubito.engines.cluster.messages import Shares
from dubito.engines.cluster.workers import Workers
from dubito.engines.lazy.algorithm import PickLog
from dubito.engines.lazy.front import Threshold
from dubito.engines.lazy.frontier import Reporter
from dubito.matrix import AnyArray, FloatArray, IntArray, len_of

# Picking among what the shards answered with, while nothing that they left out may come first.


@dataclass(frozen=True, slots=True)
class Candidate:
    """A candidate that shards told of: its pairs with the ground, exact, as far as they could add something then."""

    places: Int32Array
    """Ascending."""
    kernels: FloatArray
    cost: float

    def adds(self, cover: FloatArray, weights: FloatArray) -> float:
        """What it adds now, to the bit: pairs that add nothing are not missed."""
        terms = self.kernels - cover[self.places]
        np.maximum(terms, 0.0, out=terms)
        terms *= weights[self.places]
        return float(add_rows(terms)) if len(terms) else 0.0


Described = dict[int, Candidate]
"""By their rows in the whole pool."""


def heard(answer: CoverAnswer, known: Described) -> Described:
    """The candidates of an answer; those that are not fresh were known from the one before."""
    ends = np.cumsum(answer.counts).tolist()
    costs = [1.0] * len(ends) if answer.costs is None else answer.costs.tolist()
    rows, fresh = answer.rows.tolist(), iter(range(len(ends)))
    described: Described = {}
    for row, is_fresh in zip(rows, answer.fresh.tolist(), strict=True):
        if not is_fresh:
            described[row] = known[row]
            continue
        number = next(fresh)
        pairs = slice(ends[number] - int(answer.counts[number]), ends[number])
        described[row] = Candidate(answer.places[pairs], answer.kernels[pairs], costs[number])
    return described


class CoverFront:
    """A greedy run among some candidates; ``cover`` (k,) grows with the picks."""

    def __init__(self, described: Described, cover: FloatArray, weights: FloatArray) -> None:
        self.described, self.cover, self.weights = described, cover, weights
        self.picks: list[int] = []
        self.gained: list[float] = []
        self.heap = [(-self._priority(row), row) for row in described]
        heapq.heapify(self.heap)
        self.stamp = dict.fromkeys(described, 0)

    @property
    def largest(self) -> float:
        """What the first of them adds for its cost."""
        return -self.heap[0][0] if self.heap else 0.0

    def _priority(self, row: int) -> float:
        candidate = self.described[row]
        return candidate.adds(self.cover, self.weights) / candidate.cost

    def pick(self, threshold: Threshold, limit: int) -> None:
        """As many as come before the threshold and add something, up to a limit."""
        while self.heap and len(self.picks) < limit:
            value, row = -self.heap[0][0], self.heap[0][1]
            if value <= 0.0 or not threshold.admits(value, row):
                return
            if self.stamp[row] < len(self.picks):
                self.stamp[row] = len(self.picks)
                heapq.heapreplace(self.heap, (-self._priority(row), row))
                continue
            heapq.heappop(self.heap)
            self._take(row)

    def _take(self, row: int) -> None:
        candidate = self.described[row]
        self.picks.append(row)
        self.gained.append(candidate.adds(self.cover, self.weights))
        self.cover[candidate.places] = np.maximum(self.cover[candidate.places], candidate.kernels)


# What is to be covered, gathered from all shards: rows, weights, distances to what is labeled, and the reach.


@dataclass(frozen=True, slots=True)
class Laid:
    """The ground of a run."""

    ground: Terrain
    squared: FloatArray
    """(k,) from each row to what is labeled."""
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
        """(r,) squared distances of rows to what is labeled, and R²."""
        problem, references = self.problem, np.asarray(self.problem.references[:])
        given = None if problem.radius is None else problem.radius * problem.radius
        if len(references) == 0:
            return np.full(len(rows), np.inf), self._cold_reach() if given is None else given
        # All at once: what is labeled goes to the shards once.
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

    def unlabeled_sample(self) -> IntArray:
        """The rows that give the reach, where every row that is not labeled is a candidate."""
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


FRONT_ROWS = 2048
"""Candidates in a merged front, at most: a round goes over the network, so that it should bring many picks."""
FIRST_ROWS = 512
"""In the first, before it is known how many pairs a candidate has."""
FRONT_PAIRS = 1 << 21
"""Pairs of all candidates in a merged front, about, at most."""
SPARE_ROWS = 64
"""Asked for beside twice what is left to pick."""


class Covered(NamedTuple):
    """The picks of one machine, what went between driver and shards, and how many rows stood for all, if fewer did."""

    solution: Solution
    traffic: Traffic
    sampled: int | None


def cover(
    problem: CoverageProblem,
    workers: Workers,
    placed: Placed,
    journal: PickLog | None = None,
    n_ground: int | None = None,
) -> Covered:
    """Cover over shards. ``problem`` says what is asked for; it has the references, but no points of the pool.

    With ``n_ground`` at most so many rows stand for all; the sample that gives the reach is then one of all candidates.
    """
    surveyor = Surveyor(problem, workers, placed, Traffic())
    if n_ground is not None:
        surveyor.problem = replace(problem, sample=surveyor.unlabeled_sample())
    laid = surveyor.lay(n_ground)
    solution = CoverRun(surveyor, laid, journal).solve()
    return Covered(solution, surveyor.traffic, laid.sampled)


class CoverRun:
    """A run: the ground and its cover, and what is picked."""

    def __init__(self, surveyor: Surveyor, laid: Laid, journal: PickLog | None) -> None:
        self.surveyor, self.laid, self.journal = surveyor, laid, journal
        self.problem, self.workers, self.traffic = surveyor.problem, surveyor.workers, surveyor.traffic
        self.cover, weights = laid.cover, laid.ground.weights
        self.before = float(add_rows(weights * self.cover)) if len(weights) else 0.0
        self.heard = np.zeros(len(weights))
        """(k,) the cover that shards know of."""
        self.shares = Shares(surveyor.placed.n_candidates)
        self.described: Described = {}
        self.n_pairs = FRONT_PAIRS / FIRST_ROWS
        """Of a candidate, about."""
        self.picks: list[int] = []
        self.gained: list[float] = []
        self.n_heard = 0
        if journal is not None:
            self._take_up(*journal.earlier)

    def _take_up(self, picks: IntArray, gained: FloatArray) -> None:
        """Go on behind the picks of a run that broke off. Kernels fall with distance: the nearest pick covers most."""
        self.picks, self.gained = picks.tolist(), gained.tolist()
        if len(picks) and self.laid.reach > 0.0:
            squared = self.surveyor.nearest(self.laid.ground.rows, self.surveyor.read(np.sort(picks)))
            self.cover = np.maximum(self.cover, kernel(squared, self.laid.reach))

    def solve(self) -> Solution:
        """Pick until the budget is met, or until Ctrl-C: the picks so far are a prefix of the answer."""
        reporter, budget, complete = Reporter(self.problem), self.problem.budget, True
        try:
            if self.laid.reach == 0.0:
                self._take_heaviest()
            elif len(self.picks) < budget:
                self._start()
            while len(self.picks) < budget:
                self._step(budget - len(self.picks))
                reporter.report(len(self.picks), None)
        except KeyboardInterrupt:
            complete = False
        return Solution((self._configuration(),), complete)

    def _start(self) -> None:
        laid = self.laid
        start = CoverStart(laid.ground, laid.squared, float(np.sqrt(laid.reach)), self.surveyor.largest)
        grown, restore = self._grown(), self.workers.restore
        self.workers.restore = lambda shard: [*restore(shard), ("held", ("start", start, self._known()))]
        self.workers.ask("held", ("start", start, grown))
        self.traffic.rounds += 1
        self.traffic.sent += start.nbytes + grown.nbytes

    def _known(self) -> Grown:
        """What a shard made anew must hear; what is still to be reported is reported with the next round."""
        places = np.flatnonzero(self.heard > 0.0)
        return Grown(places.astype(np.int32), self.heard[places], np.array(self.picks[: self.n_heard], dtype=np.int64))

    def _grown(self) -> Grown:
        """What shards have not heard yet; it counts as heard from now on."""
        places = np.flatnonzero(self.cover > self.heard)
        self.heard = self.cover.copy()
        picks, self.n_heard = np.array(self.picks[self.n_heard :], dtype=np.int64), len(self.picks)
        return Grown(places.astype(np.int32), self.cover[places], picks)

    def _step(self, n_left: int) -> None:
        """One round: a front of all shards, and the picks in it."""
        rows = int(np.clip(FRONT_PAIRS / max(self.n_pairs, 1.0), 1, FRONT_ROWS))
        answers = self._advance(min(rows, 2 * n_left + SPARE_ROWS))
        front = CoverFront(self.described, self.cover, self.laid.ground.weights)
        if front.largest <= 0.0:
            # Nothing adds anything any more: the lowest rows meet the budget.
            rest = self._lowest(n_left, self.picks)
            self._note(rest, [0.0] * len(rest))
            return
        front.pick(first_of([answer.threshold for answer in answers]), n_left)
        self._note(front.picks, front.gained)

    def _advance(self, size: int) -> list[CoverAnswer]:
        grown = self._grown()
        sizes = [(each,) for each in self.shares.split(size)]
        answers: list[CoverAnswer] = self.workers.ask("held", ("advance", grown), sizes)
        self.traffic.rounds += 1
        self.traffic.sent += grown.nbytes
        self.traffic.received += sum(answer.nbytes for answer in answers)
        self.shares.learn(answers)
        known, self.described = self.described, {}
        for answer in answers:
            self.described |= heard(answer, known)
        counts = np.concatenate([answer.counts for answer in answers])
        self.n_pairs = float(counts.mean()) if len(counts) else self.n_pairs
        return answers

    def _lowest(self, n_wanted: int, picks: list[int]) -> list[int]:
        """The first candidates of all shards that are not picked."""
        found = self.workers.ask("held", ("lowest", n_wanted, np.array(picks, dtype=np.int64)))
        self.traffic.rounds += 1
        return [int(row) for row in np.concatenate(found)[:n_wanted]]

    def _take_heaviest(self) -> None:
        """Without reach a candidate covers itself alone."""
        ground, budget, n_earlier = self.laid.ground, self.problem.budget, len(self.picks)
        mine = np.flatnonzero(ground.is_candidate)
        priorities = ground.weights[mine] / (1.0 if ground.costs is None else ground.costs[mine])
        order = np.argsort(-priorities, kind="stable")
        picks: list[int] = ground.rows[mine[order[priorities[order] > 0.0]]][:budget].tolist()
        picks += self._lowest(budget - len(picks), picks)
        weights = dict(zip(ground.rows.tolist(), ground.weights.tolist(), strict=True))
        self._note(picks[n_earlier:], [weights.get(row, 0.0) for row in picks[n_earlier:]])

    def _note(self, picks: list[int], gained: list[float]) -> None:
        if self.journal is not None and picks:
            self.journal.note(np.array(picks, dtype=np.int64), np.array(gained))
        self.picks += picks
        self.gained += gained

    def _configuration(self) -> Configuration:
        rows, added = np.array(self.picks, dtype=np.int64), np.array(self.gained)
        found = self.workers.ask("held", ("described", rows))
        here = np.concatenate([each for each, _, _ in found])
        order = np.argsort(here, kind="stable")[np.searchsorted(np.sort(here), rows)]
        doubts, costs = ([each[which] for each in found if each[which] is not None] for which in (1, 2))
        weights = self.laid.ground.weights
        return Configuration(
            indices=rows,
            priorities=added / np.concatenate(costs)[order] if costs else added,
            radius=None,
            uncertainty=uncertainty(np.concatenate(doubts)[order]) if doubts and len(rows) else None,
            covered=shares(weights if len(weights) else np.zeros(1), self.before, added),
            reach=float(np.sqrt(self.laid.reach)),
        )
