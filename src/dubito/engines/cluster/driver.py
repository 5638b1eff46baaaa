"""The driver's side of a run: the candidates of all shards as one `CandidateBounds`."""

from dataclasses import dataclass
from typing import Any

import numpy as np

from dubito.core.problem import Configuration, Problem
from dubito.doubt import uncertainty
from dubito.engines.cluster.messages import (
    NO_THRESHOLD,
    Answer,
    Points,
    RequestSizes,
    ShardInfo,
    Start,
    concat_points,
)
from dubito.engines.cluster.shard import final_sum
from dubito.engines.cluster.workers import Call, Workers
from dubito.engines.cpu.kernels import CpuKernels
from dubito.engines.lazy.front import Front, Threshold
from dubito.engines.lazy.interfaces import Fresh
from dubito.matrix import AnyArray, BoolArray, FloatArray, IntArray, len_of

FRONT_ROWS = 2048
"""Candidates in a merged front: large, since each round costs a trip over the network."""


@dataclass(frozen=True, slots=True)
class ShardLayout:
    """The shards of a pool and their positions in it."""

    infos: list[ShardInfo]
    starts: IntArray
    """The first row of each shard in the whole pool, then the number of rows of the pool."""
    excluded: IntArray
    """Rows of the whole pool that must not be picked."""
    n_candidates: IntArray
    """The number of candidates of each shard."""
    is_early: bool = False
    """Whether to solve the problem for few labeled rows; see `dubito.engines.cluster.shard.ShardData`."""

    @property
    def lead(self) -> int:
        """The first shard that has rows."""
        return first_with_rows(self.infos)

    def configuration_of(self, shard: int) -> tuple[int, IntArray, bool]:
        """The arguments of `Shard.configure`."""
        return int(self.starts[shard]), self.excluded, self.is_early

    def restore(self, shard: int) -> list[Call]:
        """The calls that restore a shard before a run."""
        return [("open", ()), ("configure", self.configuration_of(shard))]


def first_with_rows(infos: list[ShardInfo]) -> int:
    return next((number for number, each in enumerate(infos) if each.n_rows), 0)


@dataclass(slots=True)
class Traffic:
    rounds: int = 0
    """How many times the driver waited for all shards."""
    sent: int = 0
    """Bytes sent to each shard."""
    received: int = 0
    """Bytes received from all shards together."""


class ClusterBounds:
    """The candidates of all shards, identified by their rows in the whole pool.

    ``problem`` has the options and the references, but no rows of the pool.
    """

    def __init__(self, problem: Problem, workers: Workers, layout: ShardLayout) -> None:
        self.problem, self.workers, self.layout = problem, workers, layout
        self.traffic = Traffic()
        self.largest_feature = max([problem.largest, *(each.largest for each in layout.infos)])
        self.starts = layout.starts
        self.info = layout.infos[layout.lead]
        self.request_sizes = RequestSizes(layout.n_candidates)
        self.none = self.info.empty_points()
        self.is_started = self.is_summing = False
        self.picked = self.none
        self.cold_starts = self.none
        self.last_front = self.none
        self.unsent = self.none
        """Picks that the shards have not received yet."""
        self.dropped = np.empty(0, dtype=np.int64)
        self.lowered: list[tuple[IntArray, FloatArray]] = [_nothing_lowered() for _ in layout.infos]
        """For each shard, the rows whose bounds the last front lowered, and their new bounds."""
        self.largest_squared = np.inf
        workers.restore = self.restore

    @property
    def front_rows(self) -> int:
        return FRONT_ROWS

    @property
    def is_cold(self) -> bool:
        return len_of(self.problem.references) == 0 and len(self.picked) == 0

    # Start of a run

    def cold_order(self, n_first: int) -> IntArray:
        total = None if self.info.has_weights and self.info.has_doubt else self._sum()
        found = self.workers.ask("cold_order", (n_first, int(self.starts[-1]), total))
        keys, points = np.concatenate([each for each, _ in found]), concat_points([each for _, each in found])
        self.traffic.rounds += 1
        first = np.lexsort((points.rows, keys))[:n_first]
        self.last_front = points.take(first[np.argsort(points.rows[first])])
        return points.rows[first]

    def _sum(self) -> FloatArray:
        """(d,) the sum of all rows of the pool."""
        self.workers.ask("start_sum")
        self.is_summing = True
        total, incomplete = np.zeros(self.info.n_features), np.empty((0, self.info.n_features))
        for shard in range(len(self.workers)):
            total, incomplete = self.workers.ask_one(shard, "add_to_sum", total, incomplete)
        self.is_summing = False
        return final_sum(total, incomplete)

    def open(self, first: IntArray) -> None:
        self.picked = concat_points([self.picked, self.last_front.at(first)]) if len(first) else self.picked
        self._start()

    def resume(self, rows: IntArray) -> None:
        """Continue after these picks of an interrupted run."""
        points = concat_points(self.workers.ask("read", (rows,)))
        order = np.argsort(points.rows, kind="stable")
        self.picked = points.take(order[np.searchsorted(points.rows[order], rows)])

    def open_cold_beam(self, first: IntArray) -> None:
        self.cold_starts = self.last_front.at(np.sort(first))
        self._start()

    def _start(self) -> None:
        start = self._start_message(self.picked)
        self.workers.ask("start", (start,))
        self.traffic.rounds += 1
        self.traffic.sent += start.nbytes
        self.is_started = True

    def _start_message(self, picks: Points) -> Start:
        references: AnyArray = np.asarray(self.problem.references[:])
        n_candidates = int(self.layout.n_candidates.sum())
        return Start(references, self.largest_feature, self.problem.budget, picks, self.cold_starts, n_candidates)

    def restore(self, shard: int) -> list[Call]:
        """The calls that restore a shard; picks that were not sent yet are sent with the next round."""
        calls = self.layout.restore(shard)
        if self.is_summing:
            calls.append(("start_sum", ()))
        if self.is_started:
            sent = self.picked.take(np.arange(len(self.picked) - len(self.unsent)))
            calls += [("start", (self._start_message(sent),)), ("drop", (self.dropped,))]
        return calls

    # A round

    def fresh(self, size: int, own: IntArray) -> Fresh:
        """The first candidates of all shards, merged. All of them come before every candidate that was not sent."""
        n_before = len(self.picked) - len(self.unsent)
        requests: list[tuple[Any, ...]] = [
            (wanted, own[self._is_in(shard, own)], *self.lowered[shard])
            for shard, wanted in enumerate(self.request_sizes.split(size))
        ]
        answers: list[Answer] = self.workers.ask("advance", (n_before, self.unsent), requests)
        self.traffic.rounds += 1
        self.traffic.sent += self.unsent.nbytes
        self.traffic.received += sum(answer.nbytes for answer in answers)
        self.unsent = self.none
        self.request_sizes.update(answers)
        self.lowered = [_nothing_lowered() for _ in answers]
        threshold = first_threshold([answer.threshold for answer in answers])
        points = concat_points([answer.points for answer in answers])
        values = np.concatenate([answer.values for answer in answers])
        kept = is_before(threshold, values, points.rows) | np.isin(points.rows, own)
        self.largest_squared = float(values.max(initial=threshold.value))
        # The shards are in pool order, so the rows are ascending.
        self.last_front = points.take(np.flatnonzero(kept))
        return Fresh(self.last_front.rows, values[kept], threshold)

    def _is_in(self, shard: int, rows: IntArray) -> BoolArray:
        return np.asarray((rows >= self.starts[shard]) & (rows < self.starts[shard + 1]))

    def front(self, rows: IntArray) -> Front:
        points = self.last_front
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
        """Keep the picks and the lowered bounds; they are sent with the next round."""
        self.unsent = self.last_front.take(np.searchsorted(self.last_front.rows, picks)) if len(picks) else self.none
        self.picked = concat_points([self.picked, self.unsent])
        self.largest_squared = float(values.max(initial=0.0))
        for shard in range(len(self.workers)):
            here = self._is_in(shard, rows) & (values >= 0.0)
            self.lowered[shard] = rows[here], values[here]

    def drop(self, rows: IntArray) -> None:
        """Exclude rows at once, in a separate round; called once for each class whose quota is full."""
        self.dropped = np.union1d(self.dropped, rows)
        self.workers.ask("drop", (rows,))
        self.traffic.rounds += 1
        self.traffic.sent += rows.nbytes

    def zeros(self, n_first: int | None) -> IntArray:
        self.last_front = concat_points(self.workers.ask("zeros", (n_first,)))
        self.traffic.rounds += 1
        return self.last_front.rows[:n_first]

    # Results

    def largest(self) -> float:
        return self.largest_squared

    def scores(self, rows: IntArray) -> IntArray:
        scores = self.last_front.at(rows).scores
        return np.zeros(len(rows), dtype=np.int64) if scores is None else scores

    def configuration(self, rows: IntArray, squared: FloatArray, radius: float) -> Configuration:
        doubt = None
        if self.info.has_doubt and len(rows):
            known = concat_points([self.picked, self.last_front])
            order = np.argsort(known.rows, kind="stable")
            assert known.doubt is not None
            doubt = uncertainty(known.doubt[order][np.searchsorted(known.rows[order], rows)])
        return Configuration(rows, np.sqrt(squared), radius, doubt)


def first_threshold(thresholds: list[Threshold]) -> Threshold:
    """The threshold that comes before all others."""
    first = NO_THRESHOLD
    for each in thresholds:
        if each.row >= 0 and (first.row < 0 or first.admits(each.value, each.row)):
            first = each
    return first


def is_before(threshold: Threshold, values: FloatArray, rows: IntArray) -> BoolArray:
    """Which candidates come before the threshold."""
    if threshold.row < 0:
        return np.ones(len(rows), dtype=np.bool_)
    return np.asarray((values > threshold.value) | ((values == threshold.value) & (rows < threshold.row)))


def _nothing_lowered() -> tuple[IntArray, FloatArray]:
    return np.empty(0, dtype=np.int64), np.empty(0)
