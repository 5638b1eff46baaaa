"""The driver's side of a run: the candidates of all shards as one `Frontier`."""

from dataclasses import dataclass

import numpy as np

from dubito.core.problem import Configuration, Problem
from dubito.doubt import uncertainty
from dubito.engines.cluster.candidates import whole_sum
from dubito.engines.cluster.messages import NOTHING, Answer, Errand, Facts, Orders, Points, Shares, Start, joined
from dubito.engines.cluster.workers import Workers
from dubito.engines.cpu.kernels import CpuKernels
from dubito.engines.lazy.front import Front, Threshold
from dubito.engines.lazy.frontier import Fresh
from dubito.matrix import AnyArray, FloatArray, IntArray, len_of

FRONT_ROWS = 2048
"""Candidates in a merged front: a round goes over the network, so that it should bring many picks."""


@dataclass(frozen=True, slots=True)
class Placed:
    """Shards that were read, and where they lie."""

    facts: list[Facts]
    starts: IntArray
    """Where each begins in the whole pool, and where the last one ends."""
    left_out: IntArray
    """Rows of the whole pool that may not be picked."""
    n_candidates: IntArray
    """Of each."""
    is_early: bool = False
    """Whether so little is labeled that a shard's other problem is meant, where it has one."""

    def of(self, shard: int) -> tuple[int, IntArray, bool]:
        """What one shard is sent."""
        return int(self.starts[shard]), self.left_out, self.is_early

    def restore(self, shard: int) -> list[tuple[str, tuple[object, ...]]]:
        """What a shard made anew must hear before a run."""
        return [("open", ()), ("place", self.of(shard))]


@dataclass(slots=True)
class Traffic:
    """What went between driver and shards."""

    rounds: int = 0
    """Times that the driver waited for all shards."""
    sent: int = 0
    """Bytes that every shard was sent."""
    received: int = 0
    """Bytes from all shards together."""


class ClusterFrontier:
    """Candidates that lie in shards; they go by their rows in the whole pool.

    ``problem`` says what is asked for; it has the references, but no points of the pool.
    """

    def __init__(self, problem: Problem, workers: Workers, placed: Placed) -> None:
        self.problem, self.workers, self.placed = problem, workers, placed
        facts = placed.facts
        self.traffic = Traffic()
        self.largest_feature = max([problem.largest, *(each.largest for each in facts)])
        self.starts, self.n_candidates = placed.starts, placed.n_candidates
        self.facts = facts[leading(facts)]
        self.n_features = self.facts.n_features
        self.shares = Shares(placed.n_candidates)
        self.none = self.facts.no_points()
        self.is_started = self.is_adding = False
        self.picked, self.apart, self.seen = self.none, self.none, self.none
        """References beside what is labeled; picks of a beam's cold start; the points of the last front."""
        self.pending = self.none
        self.dropped = np.empty(0, dtype=np.int64)
        self.lowered: list[tuple[IntArray, FloatArray]] = [_nothing_lowered() for _ in facts]
        self.level = np.inf
        workers.restore = self.restore

    @property
    def front_rows(self) -> int:
        """Many more than in one process."""
        return FRONT_ROWS

    @property
    def is_cold(self) -> bool:
        """Whether nothing is labeled."""
        return len_of(self.problem.references) == 0 and len(self.picked) == 0

    # How a run begins

    def cold_order(self, n_wanted: int) -> IntArray:
        """The first of every shard's first, by the same keys."""
        total = None if self.facts.is_weighted and self.facts.is_doubted else self._sum()
        found = self.workers.ask("coldest", (n_wanted, int(self.starts[-1]), total))
        keys, points = np.concatenate([each for each, _ in found]), joined([each for _, each in found])
        self.traffic.rounds += 1
        first = np.lexsort((points.rows, keys))[:n_wanted]
        self.seen = points.take(first[np.argsort(points.rows[first])])
        return points.rows[first]

    def _sum(self) -> FloatArray:
        """(d,) of all rows of the pool."""
        self.workers.ask("add_up")
        self.is_adding = True
        total, begun = np.zeros(self.n_features), np.empty((0, self.n_features))
        for shard in range(len(self.workers)):
            total, begun = self.workers.ask_one(shard, "add_to", total, begun)
        self.is_adding = False
        return whole_sum(total, begun)

    def open(self, first: IntArray) -> None:
        """Bounds by what is labeled and by these picks."""
        self.picked = joined([self.picked, self.seen.at(first)]) if len(first) else self.picked
        self._start()

    def take_up(self, rows: IntArray) -> None:
        """Go on behind these picks of a run that broke off."""
        points = joined(self.workers.ask("read", (rows,)))
        order = np.argsort(points.rows, kind="stable")
        self.picked = points.take(order[np.searchsorted(points.rows[order], rows)])

    def open_apart(self, first: IntArray) -> None:
        """Bounds by the farthest of these."""
        self.apart = self.seen.at(np.sort(first))
        self._start()

    def _start(self) -> None:
        start = self._begun(self.picked)
        self.workers.ask("start", (start,))
        self.traffic.rounds += 1
        self.traffic.sent += start.nbytes
        self.is_started = True

    def _begun(self, picks: Points) -> Start:
        references: AnyArray = np.asarray(self.problem.references[:])
        n_candidates = int(self.n_candidates.sum())
        return Start(references, self.largest_feature, self.problem.budget, picks, self.apart, n_candidates)

    def restore(self, shard: int) -> list[tuple[str, tuple[object, ...]]]:
        """What a shard made anew must hear; picks that are still to be reported are reported with the next round."""
        calls = self.placed.restore(shard)
        if self.is_adding:
            calls.append(("add_up", ()))
        if self.is_started:
            described = self.picked.take(np.arange(len(self.picked) - len(self.pending)))
            calls += [("start", (self._begun(described),)), ("drop", (self.dropped,))]
        return calls

    # A round

    def fresh(self, size: int, own: IntArray) -> Fresh:
        """Every shard's first candidates, merged: those that nothing left out can come before."""
        orders = Orders(len(self.picked) - len(self.pending), self.pending)
        shares = [self._share(shard, n_wanted, own) for shard, n_wanted in enumerate(self.shares.split(size))]
        answers: list[Answer] = self.workers.ask("advance", (orders,), [(share,) for share in shares])
        self._count(orders, answers)
        self.pending = self.none
        self.shares.learn(answers)
        self.lowered = [_nothing_lowered() for _ in answers]
        threshold = first_of([answer.threshold for answer in answers])
        points, values = (
            joined([answer.points for answer in answers]),
            np.concatenate([each.values for each in answers]),
        )
        kept = before(threshold, values, points.rows) | np.isin(points.rows, own)
        self.level = float(values.max(initial=threshold.value))
        # Shards lie one behind another, and so do their rows.
        self.seen = points.take(np.flatnonzero(kept))
        return Fresh(self.seen.rows, values[kept], threshold)

    def _share(self, shard: int, size: int, own: IntArray) -> Errand:
        here = own[(own >= self.starts[shard]) & (own < self.starts[shard + 1])]
        return Errand(size, here, *self.lowered[shard])

    def _count(self, orders: Orders, answers: list[Answer]) -> None:
        self.traffic.rounds += 1
        self.traffic.sent += orders.picks.nbytes
        self.traffic.received += sum(answer.nbytes for answer in answers)

    def front(self, rows: IntArray) -> Front:
        """All distances among what the shards sent."""
        points = self.seen
        problem = Problem(
            pool=points.features,
            references=points.features[:0],
            candidates=np.arange(len(points)),
            budget=1,
            weights=points.weights,
            scaling=self.problem.scaling,
            metric=self.problem.metric,
            largest=self.largest_feature,
        )
        return CpuKernels(problem).front(np.searchsorted(points.rows, rows))

    def close(self, rows: IntArray, values: FloatArray, picks: IntArray) -> None:
        """Kept until the next round, with which it goes."""
        self.pending = self.seen.take(np.searchsorted(self.seen.rows, picks)) if len(picks) else self.none
        self.picked = joined([self.picked, self.pending])
        self.level = float(values.max(initial=0.0))
        for shard in range(len(self.workers)):
            here = (rows >= self.starts[shard]) & (rows < self.starts[shard + 1]) & (values >= 0.0)
            self.lowered[shard] = rows[here], values[here]

    def drop(self, rows: IntArray) -> None:
        """Shards hear it at once: it happens once for every class that is full."""
        self.dropped = np.union1d(self.dropped, rows)
        self.workers.ask("drop", (rows,))
        self.traffic.rounds += 1
        self.traffic.sent += rows.nbytes

    def zeros(self, n_wanted: int | None) -> IntArray:
        """The lowest rows of all shards."""
        self.seen = joined(self.workers.ask("zeros", (n_wanted,)))
        self.traffic.rounds += 1
        return self.seen.rows[:n_wanted]

    # What is reported

    def largest(self) -> float:
        """After the last front."""
        return self.level

    def scores(self, rows: IntArray) -> IntArray:
        """As the shards sent them."""
        scores = self.seen.at(rows).scores
        return np.zeros(len(rows), dtype=np.int64) if scores is None else scores

    def configuration(self, rows: IntArray, squared: FloatArray, radius: float) -> Configuration:
        """Rows are the pool's own already."""
        doubt = None
        if self.facts.is_doubted and len(rows):
            known = joined([self.picked, self.seen])
            order = np.argsort(known.rows, kind="stable")
            assert known.doubt is not None
            doubt = uncertainty(known.doubt[order][np.searchsorted(known.rows[order], rows)])
        return Configuration(rows, np.sqrt(squared), radius, doubt)


def leading(facts: list[Facts]) -> int:
    """The first shard that has rows."""
    return next((number for number, each in enumerate(facts) if each.n_rows), 0)


def first_of(thresholds: list[Threshold]) -> Threshold:
    """The one that comes before all others."""
    first = NOTHING
    for each in thresholds:
        if each.row >= 0 and (first.row < 0 or first.admits(each.value, each.row)):
            first = each
    return first


def before(threshold: Threshold, values: FloatArray, rows: IntArray) -> AnyArray:
    """Which candidates come before the threshold."""
    if threshold.row < 0:
        return np.ones(len(rows), dtype=np.bool_)
    return np.asarray((values > threshold.value) | ((values == threshold.value) & (rows < threshold.row)))


def _nothing_lowered() -> tuple[IntArray, FloatArray]:
    return np.empty(0, dtype=np.int64), np.empty(0)
