"""The driver's side of coverage over shards."""

import heapq
from dataclasses import dataclass, replace

import numpy as np

from dubito.core.coverage_reference import (
    CoverageProblem,
    cold_squared_reach,
    kernel,
    sample_rows,
    shares,
    sums_in_order,
    warm_squared_reach,
)
from dubito.core.problem import Configuration, Solution
from dubito.doubt import uncertainty
from dubito.engines.cluster.coverage.worker import (
    CoverageAnswer,
    CoverageShard,
    CoverageStart,
    CoverUpdate,
    Int32Array,
    Targets,
    concat_targets,
)
from dubito.engines.cluster.driver import ShardLayout, Traffic, first_threshold
from dubito.engines.cluster.messages import RequestSizes
from dubito.engines.cluster.workers import Workers
from dubito.engines.lazy.algorithm import PickLog
from dubito.engines.lazy.front import Threshold
from dubito.engines.lazy.interfaces import Reporter
from dubito.matrix import AnyArray, FloatArray, IntArray, len_of


@dataclass(frozen=True, slots=True)
class Candidate:
    """A candidate with the targets to which it could add cover when it was received."""

    positions: Int32Array
    """Positions in the targets, ascending."""
    kernels: FloatArray
    cost: float

    def gain(self, cover: FloatArray, weights: FloatArray) -> float:
        """What it adds to the current cover, exactly: the targets left out add 0."""
        terms = self.kernels - cover[self.positions]
        np.maximum(terms, 0.0, out=terms)
        terms *= weights[self.positions]
        return float(sums_in_order(terms)) if len(terms) else 0.0


def read_answer(answer: CoverageAnswer, known: dict[int, Candidate]) -> dict[int, Candidate]:
    """The candidates of an answer by row; those that are not new are taken from ``known``."""
    ends = np.cumsum(answer.counts).tolist()
    costs = [1.0] * len(ends) if answer.costs is None else answer.costs.tolist()
    numbers = iter(range(len(ends)))
    found: dict[int, Candidate] = {}
    for row, is_new in zip(answer.rows.tolist(), answer.is_new.tolist(), strict=True):
        if not is_new:
            found[row] = known[row]
            continue
        number = next(numbers)
        pairs = slice(ends[number] - int(answer.counts[number]), ends[number])
        found[row] = Candidate(answer.positions[pairs], answer.kernels[pairs], costs[number])
    return found


class CoverFront:
    """A greedy run among some candidates.

    It increases ``cover`` (k,) in place: for each target, the largest kernel with a labeled or picked row.
    """

    def __init__(self, candidates: dict[int, Candidate], cover: FloatArray, weights: FloatArray) -> None:
        self.candidates, self.cover, self.weights = candidates, cover, weights
        self.picks: list[int] = []
        self.gains: list[float] = []
        self.heap = [(-self._priority(row), row) for row in candidates]
        heapq.heapify(self.heap)
        self.n_seen = dict.fromkeys(candidates, 0)
        """The number of picks that a candidate's priority accounts for."""

    @property
    def best_gain_per_cost(self) -> float:
        return -self.heap[0][0] if self.heap else 0.0

    def _priority(self, row: int) -> float:
        candidate = self.candidates[row]
        return candidate.gain(self.cover, self.weights) / candidate.cost

    def pick(self, threshold: Threshold, limit: int) -> None:
        """Pick up to ``limit`` candidates that come before the threshold and add something."""
        while self.heap and len(self.picks) < limit:
            value, row = -self.heap[0][0], self.heap[0][1]
            if value <= 0.0 or not threshold.admits(value, row):
                return
            if self.n_seen[row] < len(self.picks):
                self.n_seen[row] = len(self.picks)
                heapq.heapreplace(self.heap, (-self._priority(row), row))
                continue
            heapq.heappop(self.heap)
            candidate = self.candidates[row]
            self.picks.append(row)
            self.gains.append(candidate.gain(self.cover, self.weights))
            self.cover[candidate.positions] = np.maximum(self.cover[candidate.positions], candidate.kernels)


FRONT_ROWS = 2048
"""Maximum number of candidates in a merged front: large, since each round costs a network round trip."""
FIRST_ROWS = 512
"""Candidates in the first front, before the number of targets that a candidate covers is known."""
FRONT_PAIRS = 1 << 21
"""Approximate maximum number of candidate-target pairs in a merged front."""
SPARE_ROWS = 64
"""Candidates requested in addition to twice the number of remaining picks."""


def cover(
    problem: CoverageProblem,
    workers: Workers,
    layout: ShardLayout,
    journal: PickLog | None = None,
    n_targets: int | None = None,
) -> tuple[Solution, Traffic, int | None]:
    """Coverage over shards: the solution, the traffic, and the size of the sample if only a sample is covered.

    ``problem`` has the options and the references, but no rows of the pool. With ``n_targets``, at most this many rows
    are covered, and the reach is determined from a sample of all candidates.
    """
    run = CoverageRun(problem, workers, layout, journal, n_targets)
    return run.solve(), run.traffic, run.sample_size


class CoverageRun:
    """A run: the targets and their cover, and the picks so far."""

    def __init__(
        self,
        problem: CoverageProblem,
        workers: Workers,
        layout: ShardLayout,
        journal: PickLog | None,
        n_targets: int | None,
    ) -> None:
        self.problem, self.workers, self.layout, self.journal = problem, workers, layout, journal
        self.traffic = Traffic()
        self.largest_magnitude = max([problem.largest, *(each.largest for each in layout.infos)])
        workers.restore = lambda shard: [*layout.restore(shard), ("set_delegate", (CoverageShard,))]
        workers.ask("set_delegate", (CoverageShard,))
        if n_targets is not None:
            self.problem = replace(problem, sample=self._unlabeled_sample())
        self.targets, self.sample_size = self._collect_targets(n_targets)
        self.sq_distances, self.squared_reach = self._distances(self.targets.rows)
        weights = self.targets.weights
        has_reach = self.squared_reach > 0.0
        self.cover = kernel(self.sq_distances, self.squared_reach) if has_reach else np.zeros(len(weights))
        self.covered_before = float(sums_in_order(weights * self.cover)) if len(weights) else 0.0
        self.sent_cover = np.zeros(len(weights))
        """(k,) the cover that the shards know."""
        self.request_sizes = RequestSizes(layout.n_candidates)
        self.candidates: dict[int, Candidate] = {}
        self.mean_targets = FRONT_PAIRS / FIRST_ROWS
        """The mean number of targets that a candidate covers."""
        self.picks: list[int] = []
        self.gains: list[float] = []
        self.n_sent_picks = 0
        if journal is not None:
            self._resume(*journal.earlier)

    # Start of a run

    def _unlabeled_sample(self) -> IntArray:
        """The rows that determine the reach if every row that is not labeled is a candidate."""
        starts = np.cumsum([0, *self.layout.n_candidates.tolist()])
        ranks = sample_rows(np.arange(starts[-1]))
        edges = np.searchsorted(ranks, starts)
        ranks_by_shard = [
            (ranks[edges[shard] : edges[shard + 1]] - starts[shard],) for shard in range(len(self.workers))
        ]
        return np.concatenate(self.workers.ask("delegate", ("candidate_rows",), ranks_by_shard))

    def _collect_targets(self, n_targets: int | None) -> tuple[Targets, int | None]:
        """The targets, and their number if they are a sample."""
        counts = self.workers.ask("delegate", ("n_weighted",))
        is_sampled = n_targets is not None and n_targets < sum(counts)
        sums = self._weight_sums() if is_sampled else [0.0] * (len(self.workers) + 1)
        sample = (n_targets, sums[-1]) if is_sampled else None
        parts = self.workers.ask("delegate", ("targets", sample), [(before,) for before in sums[:-1]])
        pool = self.problem.pool
        targets = concat_targets(parts, np.empty((0, pool.shape[1]), pool.dtype))
        self.traffic.rounds += 2
        self.traffic.received += targets.nbytes
        return targets, n_targets if is_sampled else None

    def _weight_sums(self) -> list[float]:
        """The sums of the weights before each shard, then the sum of all weights."""
        sums = [0.0]
        for shard in range(len(self.workers)):
            sums.append(self.workers.ask_one(shard, "delegate", "add_weights", sums[-1]))
        return sums

    def _distances(self, rows: IntArray) -> tuple[FloatArray, float]:
        """(r,) squared distances of rows to the nearest labeled point, and the squared reach."""
        problem, references = self.problem, np.asarray(self.problem.references[:])
        squared_reach = None if problem.radius is None else problem.radius * problem.radius
        if len(references) == 0:
            return np.full(len(rows), np.inf), self._cold_reach() if squared_reach is None else squared_reach
        # One call for the targets and the sample, so that the labeled points are sent once.
        both = rows if squared_reach is not None else np.union1d(rows, problem.sample)
        sq_distances = self._nearest(both, references)
        if squared_reach is None:
            squared_reach = warm_squared_reach(sq_distances[np.searchsorted(both, problem.sample)], problem.factor)
        return sq_distances[np.searchsorted(both, rows)], squared_reach

    def _nearest(self, rows: IntArray, references: AnyArray) -> FloatArray:
        """(r,) squared distances of rows, ascending, to the nearest reference. Each shard computes its own rows."""
        if len(references) == 0 or len(rows) == 0:
            return np.full(len(rows), np.inf)
        found = self.workers.ask("delegate", ("nearest", rows, references, self.largest_magnitude))
        self.traffic.rounds += 1
        self.traffic.sent += rows.nbytes + references.nbytes
        return np.concatenate(found)

    def _read(self, rows: IntArray) -> AnyArray:
        """(r, d) features of rows, ascending."""
        parts = [part for part in self.workers.ask("delegate", ("read", rows)) if len(part)]
        return np.concatenate(parts) if parts else np.empty((0, self.problem.pool.shape[1]))

    def _cold_reach(self) -> float:
        problem, points = self.problem, self._read(self.problem.sample)
        self.traffic.rounds += 1
        self.traffic.received += points.nbytes
        rows, no_references = np.arange(len_of(points)), problem.references
        weights = np.ones(len(rows))
        return cold_squared_reach(
            CoverageProblem(points, no_references, rows, 1, weights, rows, factor=problem.factor, metric=problem.metric)
        )

    def _resume(self, picks: IntArray, gains: FloatArray) -> None:
        """Continue after the picks of an interrupted run."""
        self.picks, self.gains = picks.tolist(), gains.tolist()
        if len(picks) and self.squared_reach > 0.0:
            # The kernel decreases with the distance, so the nearest pick determines the cover.
            sq_distances = self._nearest(self.targets.rows, self._read(np.sort(picks)))
            self.cover = np.maximum(self.cover, kernel(sq_distances, self.squared_reach))

    def _start(self) -> None:
        reach = float(np.sqrt(self.squared_reach))
        start = CoverageStart(self.targets, self.sq_distances, reach, self.largest_magnitude)
        update, restore = self._update(), self.workers.restore
        self.workers.restore = lambda shard: [*restore(shard), ("delegate", ("start", start, self._sent()))]
        self.workers.ask("delegate", ("start", start, update))
        self.traffic.rounds += 1
        self.traffic.sent += start.nbytes + update.nbytes

    def _sent(self) -> CoverUpdate:
        """Everything that was sent so far, for a shard that is restored; the rest is sent with the next round."""
        positions = np.flatnonzero(self.sent_cover > 0.0)
        picks = np.array(self.picks[: self.n_sent_picks], dtype=np.int64)
        return CoverUpdate(positions.astype(np.int32), self.sent_cover[positions], picks)

    def _update(self) -> CoverUpdate:
        """What was not sent yet. It counts as sent from now on."""
        positions = np.flatnonzero(self.cover > self.sent_cover)
        self.sent_cover = self.cover.copy()
        picks, self.n_sent_picks = np.array(self.picks[self.n_sent_picks :], dtype=np.int64), len(self.picks)
        return CoverUpdate(positions.astype(np.int32), self.cover[positions], picks)

    # Rounds

    def solve(self) -> Solution:
        """Pick until the budget is reached. After Ctrl-C, the picks so far are a prefix of the full answer."""
        reporter, budget, complete = Reporter(self.problem), self.problem.budget, True
        try:
            if self.squared_reach == 0.0:
                self._pick_heaviest()
            elif len(self.picks) < budget:
                self._start()
            while len(self.picks) < budget:
                self._step(budget - len(self.picks))
                reporter.report(len(self.picks), None)
        except KeyboardInterrupt:
            complete = False
        return Solution((self._configuration(),), complete)

    def _step(self, n_left: int) -> None:
        """One round: a front of all shards, and the picks in it."""
        rows = int(np.clip(FRONT_PAIRS / max(self.mean_targets, 1.0), 1, FRONT_ROWS))
        answers = self._advance(min(rows, 2 * n_left + SPARE_ROWS))
        front = CoverFront(self.candidates, self.cover, self.targets.weights)
        if front.best_gain_per_cost <= 0.0:
            # No candidate adds anything: fill the budget with the lowest rows.
            rest = self._lowest(n_left, self.picks)
            self._record(rest, [0.0] * len(rest))
            return
        front.pick(first_threshold([answer.threshold for answer in answers]), n_left)
        self._record(front.picks, front.gains)

    def _advance(self, size: int) -> list[CoverageAnswer]:
        update = self._update()
        sizes = [(each,) for each in self.request_sizes.split(size)]
        answers: list[CoverageAnswer] = self.workers.ask("delegate", ("advance", update), sizes)
        self.traffic.rounds += 1
        self.traffic.sent += update.nbytes
        self.traffic.received += sum(answer.nbytes for answer in answers)
        self.request_sizes.update(answers)
        known, self.candidates = self.candidates, {}
        for answer in answers:
            self.candidates |= read_answer(answer, known)
        counts = np.concatenate([answer.counts for answer in answers])
        self.mean_targets = float(counts.mean()) if len(counts) else self.mean_targets
        return answers

    def _lowest(self, n_wanted: int, picks: list[int]) -> list[int]:
        """The first candidates of all shards that are not picked."""
        found = self.workers.ask("delegate", ("lowest", n_wanted, np.array(picks, dtype=np.int64)))
        self.traffic.rounds += 1
        return [int(row) for row in np.concatenate(found)[:n_wanted]]

    def _pick_heaviest(self) -> None:
        """With reach 0, a candidate covers only itself."""
        targets, budget, n_earlier = self.targets, self.problem.budget, len(self.picks)
        candidate_positions = np.flatnonzero(targets.is_candidate)
        costs: float | FloatArray = 1.0 if targets.costs is None else targets.costs[candidate_positions]
        priorities = targets.weights[candidate_positions] / costs
        order = np.argsort(-priorities, kind="stable")
        picks: list[int] = targets.rows[candidate_positions[order[priorities[order] > 0.0]]][:budget].tolist()
        picks += self._lowest(budget - len(picks), picks)
        weights = dict(zip(targets.rows.tolist(), targets.weights.tolist(), strict=True))
        self._record(picks[n_earlier:], [weights.get(row, 0.0) for row in picks[n_earlier:]])

    def _record(self, picks: list[int], gains: list[float]) -> None:
        if self.journal is not None and picks:
            self.journal.note(np.array(picks, dtype=np.int64), np.array(gains))
        self.picks += picks
        self.gains += gains

    def _configuration(self) -> Configuration:
        rows, gains = np.array(self.picks, dtype=np.int64), np.array(self.gains)
        found = self.workers.ask("delegate", ("doubt_and_costs", rows))
        found_rows = np.concatenate([each for each, _, _ in found])
        order = np.argsort(found_rows, kind="stable")[np.searchsorted(np.sort(found_rows), rows)]
        doubts, costs = ([each[which] for each in found if each[which] is not None] for which in (1, 2))
        weights = self.targets.weights
        return Configuration(
            indices=rows,
            priorities=gains / np.concatenate(costs)[order] if costs else gains,
            radius=None,
            uncertainty=uncertainty(np.concatenate(doubts)[order]) if doubts and len(rows) else None,
            covered=shares(weights if len(weights) else np.zeros(1), self.covered_before, gains),
            reach=float(np.sqrt(self.squared_reach)),
        )
