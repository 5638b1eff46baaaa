"""A shard: some rows of a pool in one process, and what the lazy algorithm knows of them."""

from collections.abc import Callable
from dataclasses import dataclass, field, replace
from typing import Any, Protocol

import numpy as np

from dubito.core.coverage_reference import CoverageProblem
from dubito.core.distances import read_rows, settle
from dubito.core.problem import Problem
from dubito.engines.cluster.candidates import Candidates, Sums
from dubito.engines.cluster.hardware import HOST, Hardware
from dubito.engines.cluster.messages import NOTHING, Answer, Errand, Facts, Orders, Points, Start
from dubito.engines.lazy.front import Threshold
from dubito.engines.lazy.frontier import Fresh
from dubito.matrix import AnyArray, FloatArray, IntArray, blocks, len_of, rows_per_read


@dataclass(frozen=True, slots=True)
class Opened:
    """A part that was read."""

    problem: Problem | CoverageProblem
    """These rows alone: their features, candidates, doubt, weights and scores, without references."""
    labeled: IntArray = field(default_factory=lambda: np.empty(0, dtype=np.int64))
    """Rows that say so themselves; they are no candidates."""
    ids: AnyArray | None = None
    """(n,) what rows are called."""
    otherwise: Problem | CoverageProblem | None = None
    """The problem where little is labeled, if that makes a difference."""


class Part(Protocol):
    """Where a shard comes from: can be sent to another process, which reads it there."""

    def open(self) -> Opened:
        """Read it; an error names what cannot be read."""
        ...


class Shard:
    """Does what a driver says; can be made again at any time from its part and a `Start`."""

    def __init__(self, part: Part, hardware: Hardware = HOST) -> None:
        self.part, self.hardware, self.first_row, self.n_picks = part, hardware, 0, 0
        self.placed: Problem | CoverageProblem
        self.candidates: Candidates | None = None

    def open(self) -> Facts:
        """Read the part; what it is."""
        self.opened = self.part.open()
        problem = self.placed = self.opened.problem
        shape = len_of(problem.pool), len(problem.candidates), int(problem.pool.shape[1])
        self.hardware = self.hardware.settled(shape[2])
        return Facts(
            *shape,
            str(problem.pool.dtype),
            problem.largest,
            is_weighted=problem.weights is not None,
            is_scored=getattr(problem, "scores", None) is not None,
            is_doubted=problem.doubt is not None,
            on_device=self.hardware.takes(problem),
        )

    def place(self, first_row: int, left_out: IntArray, is_early: bool = False) -> int:
        """Hear where the shard begins in the whole pool, and rows of that which are labeled; candidates left."""
        self.first_row = first_row
        given = self.opened.otherwise if is_early and self.opened.otherwise is not None else self.opened.problem
        gone = left_out - first_row
        candidates = np.delete(given.candidates, places_among(given.candidates, gone))
        self.placed = replace(given, candidates=candidates)
        if isinstance(given, CoverageProblem):
            weights = given.weights.copy()
            weights[gone[(gone >= 0) & (gone < len(weights))]] = 0.0
            self.placed = replace(given, candidates=candidates, weights=weights)
        return len(candidates)

    def hold(self, kind: Callable[[Any, int, Hardware], object]) -> None:
        """Let something else do what a driver says of the shard's rows; see `held`."""
        self.holder = kind(self.placed, self.first_row, self.hardware)

    def held(self, step: str, *arguments: Any) -> Any:
        """What that makes of a step."""
        return getattr(self.holder, step)(*arguments)

    @property
    def problem(self) -> Problem:
        """The core-set problem of these rows."""
        assert isinstance(self.placed, Problem)
        return self.placed

    def labeled(self) -> AnyArray:
        """Features of the rows that say that they are labeled."""
        return np.asarray(self.placed.pool[self.opened.labeled])

    def names(self, rows: IntArray) -> tuple[IntArray, AnyArray | None]:
        """Those of some rows of the whole pool that are here, and what they are called."""
        here = rows[(rows >= self.first_row) & (rows < self.first_row + len_of(self.placed.pool))]
        return here, None if self.opened.ids is None else self.opened.ids[here - self.first_row]

    def read(self, rows: IntArray) -> Points:
        """Those of some rows of the whole pool that are here."""
        local = rows - self.first_row
        return self._points(local[(local >= 0) & (local < len_of(self.placed.pool))])

    def add_up(self) -> None:
        """Sum these rows, for `add_to`."""
        self.sums = Sums(self.problem.pool, self.first_row, self.problem.metric)

    def add_to(self, total: FloatArray, begun: FloatArray) -> tuple[FloatArray, FloatArray]:
        """The sums of all shards up to this one."""
        return self.sums.add_to(total, begun)

    def coldest(self, n_wanted: int, n_pool: int, total: FloatArray | None) -> tuple[FloatArray, Points]:
        """The first candidates as a cold start takes them, by doubt or, given the sum of all rows, by the mean."""
        keys, rows = self._cold_keys(n_pool, total), self.problem.candidates
        first = np.argsort(keys, kind="stable")[:n_wanted]
        return keys[first], self._points(rows[first])

    def _cold_keys(self, n_pool: int, total: FloatArray | None) -> FloatArray:
        problem, rows = self.problem, self.problem.candidates
        costs = 1.0 if problem.costs is None else problem.costs[rows]
        if total is None:
            assert problem.doubt is not None
            return np.asarray(-problem.doubt[rows] / costs)
        keys = np.empty(len(rows))
        with np.errstate(over="ignore"):
            for span in blocks(len(rows), rows_per_read(problem.pool)):
                keys[span] = settle(n_pool * read_rows(problem.pool, rows[span], problem.metric), total)
            return np.asarray(keys * (costs * costs))

    def start(self, start: Start) -> None:
        """Bound every candidate by what is labeled and picked; or by the farthest of those that stand apart."""
        self.candidates, self.n_picks = None, len(start.picks)
        if len(self.problem.candidates) == 0:
            return
        self.candidates = self.hardware.candidates(self.problem, start)
        self.placed = replace(self.problem, weights=self.candidates.weights)
        self.drop(start.picks.rows)

    def advance(self, orders: Orders, errand: Errand) -> Answer:
        """One round: hear what was picked, bring the first candidates up to date, and tell them."""
        candidates = self.candidates
        if candidates is None:
            return Answer(self._points(np.empty(0, np.int64)), np.empty(0), NOTHING)
        candidates.lower(self._numbers(errand.lowered), errand.values)
        if orders.n_before == self.n_picks:
            candidates.add(orders.picks)
            self.n_picks += len(orders.picks)
            self.drop(orders.picks.rows)
        return self._answer(candidates.fresh(errand.size, self._numbers(errand.own)), candidates.levels(errand.size))

    def drop(self, rows: IntArray) -> None:
        """Rows of the whole pool that may not be picked any more; those that are no candidates here are passed over."""
        if self.candidates is not None:
            self.candidates.drop(places_among(self.problem.candidates, rows - self.first_row))

    def zeros(self, n_wanted: int | None) -> Points:
        """The first candidates that nothing sets apart from a reference."""
        numbers = np.empty(0, dtype=np.int64) if self.candidates is None else self.candidates.zeros(n_wanted)
        return self._points(self.problem.candidates[numbers])

    def _answer(self, fresh: Fresh, levels: tuple[IntArray, FloatArray]) -> Answer:
        threshold, rows = fresh.threshold, self.problem.candidates
        if threshold.row >= 0:
            threshold = Threshold(threshold.value, int(rows[threshold.row]) + self.first_row)
        return Answer(self._points(rows[fresh.rows]), fresh.values, threshold, *levels)

    def _points(self, rows: IntArray) -> Points:
        """Rows of the shard with all that is known of them."""
        problem = self.placed
        scores: IntArray | None = getattr(problem, "scores", None)
        return Points(
            rows + self.first_row,
            np.asarray(problem.pool[rows]),
            None if problem.weights is None else problem.weights[rows],
            None if scores is None else scores[rows],
            None if problem.doubt is None else problem.doubt[rows],
        )

    def _numbers(self, rows: IntArray) -> IntArray:
        """Which candidates some rows of the whole pool are."""
        return np.searchsorted(self.problem.candidates, rows - self.first_row)


def places_among(ascending: IntArray, rows: IntArray) -> IntArray:
    """Where some rows stand among others that ascend; those that do not are passed over."""
    places = np.searchsorted(ascending, rows)
    inside = places < len(ascending)
    places, rows = places[inside], rows[inside]
    return np.asarray(places[ascending[places] == rows])
