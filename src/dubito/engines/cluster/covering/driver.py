"""The driver's side of coverage over shards."""

from dataclasses import replace
from typing import NamedTuple

import numpy as np

from dubito.coverage import CoverageProblem, add_rows, kernel, shares
from dubito.doubt import uncertainty
from dubito.engines.cluster.covering.front import CoverFront, Told, heard
from dubito.engines.cluster.covering.ground import Laid, Surveyor
from dubito.engines.cluster.covering.messages import CoverAnswer, CoverStart, Grown
from dubito.engines.cluster.frontier import Placed, Traffic, first_of
from dubito.engines.cluster.shares import Shares
from dubito.engines.cluster.workers import Workers
from dubito.engines.lazy.greedy import PickLog
from dubito.engines.lazy.progress import Reporter
from dubito.matrix import FloatArray, IntArray
from dubito.problem import Configuration, Solution

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
        surveyor.problem = replace(problem, sample=surveyor.unlabelled_sample())
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
        self.told: Told = {}
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
        """What a shard made anew must hear; what is still to be told is told with the next round."""
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
        front = CoverFront(self.told, self.cover, self.laid.ground.weights)
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
        known, self.told = self.told, {}
        for answer in answers:
            self.told |= heard(answer, known)
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
        found = self.workers.ask("held", ("told", rows))
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
