"""A worker's side: the candidates of a shard, and the whole ground that they may cover."""

from dataclasses import replace
from typing import Protocol

import numpy as np

from dubito.core.coverage_reference import CoverageProblem, running_sums, sample_rows, thinned
from dubito.core.problem import Known
from dubito.engines.cluster.coverage.messages import CoverAnswer, CoverStart, Grown, Int32Array, Terrain, Thinning
from dubito.engines.cluster.frontier import before
from dubito.engines.cluster.hardware import HOST, Hardware
from dubito.engines.cluster.messages import NOTHING, levels_of
from dubito.engines.cpu.coverage.pairs import CLOSED, EXACT, Lists
from dubito.engines.cpu.coverage.solver import FIRST_WIDTH, SMALL_PROBLEM, FirstCover, Opening
from dubito.engines.cpu.coverage.space import Nearest, Probes, Space, fit_probes
from dubito.engines.lazy.bounds import first_in_order
from dubito.engines.lazy.front import Threshold
from dubito.errors import MemoryLimit
from dubito.matrix import AnyArray, BoolArray, FloatArray, IntArray, Stack, len_of

# Upper bounds on what the candidates of a shard add, and the first of them made exact.


class CoverBounds:
    """Bounds on what each candidate adds for its cost, -1 once it is picked. Candidates are numbered from 0."""

    def __init__(self, problem: CoverageProblem, cover: FloatArray) -> None:
        """``cover`` (k,) is that of the first rows of the pool; the others count for nothing."""
        first = FirstCover(problem)
        first.cover[: len(cover)] = cover
        self.lists = Lists(first.probed, first.cover, first.reach)
        self.opening = Opening(self.lists, first.limits, first.plan, first.pairs_each)
        self.costs = None if problem.costs is None else problem.costs[problem.candidates]
        self.bound = problem.priorities(slice(None), self.opening.first_bounds())
        self.n_heard = 0
        self.stamp = np.full(len(self.bound), -1, dtype=np.int64)
        """(n,) how many times cover had grown when a bound was computed."""

    def hear(self, places: Int32Array, cover: FloatArray) -> None:
        """Cover has grown."""
        self.lists.cover[places] = np.maximum(self.lists.cover[places], cover)
        self.n_heard += 1

    def fresh(self, size: int) -> tuple[IntArray, Threshold]:
        """The first candidates in order, all of them exact, and what comes next; fewer where memory is short."""
        while True:
            front, threshold = first_in_order(self.bound, size)
            due = front[self._is_due(front)]
            if len(due) == 0:
                return front, threshold
            if (self.lists.level[due] == CLOSED).any():
                size = min(size, self.opening.open(self.bound))
                continue
            self.lists.refine(due)
            self._renew(due)
            # What has fallen behind the front need not be settled.
            due = due[before(threshold, self.bound[due], due)]
            for candidate in due[self.lists.level[due] < EXACT].tolist():
                self.lists.settle(candidate)
            self._renew(due)

    def _is_due(self, candidates: IntArray) -> BoolArray:
        is_stale = (self.stamp[candidates] < self.n_heard) | (self.lists.level[candidates] < EXACT)
        return np.asarray(is_stale & (self.bound[candidates] > 0.0))

    def _renew(self, candidates: IntArray) -> None:
        """Bounds with the cover that there is now; none grows."""
        for candidate in candidates.tolist():
            cost = 1.0 if self.costs is None else float(self.costs[candidate])
            self.bound[candidate] = min(float(self.bound[candidate]), self.lists.bound(candidate) / cost)
        self.stamp[candidates] = self.n_heard

    def pairs(self, candidates: IntArray) -> tuple[IntArray, Int32Array, FloatArray]:
        """How many rows each of some exact candidates covers, which, ascending, and how far."""
        found = [self._pairs(each) for each in candidates.tolist()]
        return (
            np.array([len(places) for places, _ in found], dtype=np.int64),
            np.concatenate([np.empty(0, np.int32), *(places for places, _ in found)]).astype(np.int32),
            np.concatenate([np.empty(0), *(kernels for _, kernels in found)]),
        )

    def _pairs(self, candidate: int) -> tuple[IntArray, FloatArray]:
        """Where a candidate can still add something."""
        if candidate not in self.lists.exact:
            return np.empty(0, dtype=np.int64), np.empty(0)
        rows, kernels = self.lists.exact[candidate]
        more = kernels > self.lists.cover[rows]
        return rows[more], kernels[more]

    def levels(self, size: int) -> tuple[IntArray, FloatArray]:
        """Ranks in the order of the bounds, and the bounds there."""
        return levels_of(self.bound, size)

    def drop(self, candidates: IntArray) -> None:
        """They are picked."""
        self.bound[candidates] = -1.0
        for candidate in candidates.tolist():
            self.lists.exact.pop(candidate, None)


NONE = np.empty(0, dtype=np.int64)


class Bounded(Protocol):
    """What the candidates of a shard add, on whatever machine it has; see `CoverBounds`."""

    @property
    def costs(self) -> FloatArray | None:
        """(n,) of the candidates."""
        ...

    def hear(self, places: Int32Array, cover: FloatArray) -> None:
        """Cover has grown."""
        ...

    def fresh(self, size: int) -> tuple[IntArray, Threshold]:
        """The first candidates in order, all of them exact, and what comes next."""
        ...

    def pairs(self, candidates: IntArray) -> tuple[IntArray, Int32Array, FloatArray]:
        """How many rows each of some exact candidates covers, which, and how far."""
        ...

    def levels(self, size: int) -> tuple[IntArray, FloatArray]:
        """Ranks in the order of the bounds, and the bounds there."""
        ...

    def drop(self, candidates: IntArray) -> None:
        """They are picked."""
        ...


class Holder:
    """Does what a driver says; can be made again at any time from its problem and a `CoverStart`."""

    def __init__(self, problem: CoverageProblem, first_row: int, hardware: Hardware) -> None:
        self.problem, self.first_row = problem, first_row
        self.hardware = hardware if hardware.takes(problem) else HOST
        self.bounds: Bounded | None = None
        self.last = NONE
        """Candidates of the last answer."""

    # How a run begins

    def n_weighted(self) -> int:
        """Rows that count."""
        return int(np.count_nonzero(self.problem.weights))

    def add_weights(self, before: float) -> float:
        """The sum of all weights up to the end of this shard, in the order of one machine."""
        return float(running_sums(self.problem.weights, before)[-1]) if len(self.problem.weights) else before

    def ground(self, thinning: Thinning | None, before: float) -> Terrain:
        """What is to be covered here."""
        problem, weights = self.problem, self.problem.weights
        if thinning is not None:
            n_rows, total = thinning
            weights = thinned(weights, n_rows, before, total)
        rows = np.flatnonzero(weights > 0.0)
        return Terrain(
            rows + self.first_row,
            np.asarray(problem.pool[rows]),
            weights[rows],
            np.isin(rows, problem.candidates),
            None if problem.costs is None else problem.costs[rows],
        )

    def ranked(self, ranks: IntArray) -> IntArray:
        """Rows of the whole pool of candidates by their ranks among those of the shard."""
        return self.problem.candidates[ranks] + self.first_row

    def read(self, rows: IntArray) -> AnyArray:
        """Features of those of some rows of the whole pool that are here."""
        return np.asarray(self.problem.pool[self._here(rows)])

    def described(self, rows: IntArray) -> tuple[IntArray, FloatArray | None, FloatArray | None]:
        """Those of some rows of the whole pool that are here, their doubt and their costs."""
        local, doubt, costs = self._here(rows), self.problem.doubt, self.problem.costs
        doubt, costs = (None if values is None else values[local] for values in (doubt, costs))
        return local + self.first_row, doubt, costs

    def nearest(self, rows: IntArray, references: AnyArray, largest: float) -> FloatArray:
        """Exact squared distances to the references, of those of some rows of the whole pool that are here."""
        local = self._here(rows)
        if len(local) == 0:
            return np.empty(0)
        if self.hardware.device is not None:
            points, metric = self.problem.pool[local], self.problem.metric
            found: FloatArray = self.hardware.covering().nearest(points, references, metric, largest, self.hardware)
            return found
        space = Space(replace(self.problem, references=references, largest=largest))
        d = references.shape[1]
        probes = Probes(None, d)
        if len(local) * len(references) * d > SMALL_PROBLEM:
            widest = fit_probes(space.sample())
            probes = widest.narrow(min(FIRST_WIDTH, widest.width))
        return Nearest(space, None).of(local, probes)

    def start(self, start: CoverStart, grown: Grown) -> None:
        """Bound what every candidate adds to the cover that there is."""
        self.bounds, self.last = None, NONE
        if len(self.problem.candidates):
            cover = np.zeros(len(start.ground))
            cover[grown.places] = grown.cover
            self.bounds = self._bounded(self._local(start), cover)
            self._drop(grown.picks)

    def _bounded(self, local: CoverageProblem, cover: FloatArray) -> Bounded:
        if self.hardware.device is not None:
            try:
                found: Bounded = self.hardware.covering().bounded(local, cover, self.hardware)
            except MemoryLimit:
                # All of a shard must lie on a device to be covered there.
                self.hardware = HOST
            else:
                return found
        return CoverBounds(local, cover)

    def _local(self, start: CoverStart) -> CoverageProblem:
        """The ground, and the shard's own rows behind it, which count for nothing: those that do stand in both."""
        problem, ground = self.problem, start.ground
        n_own, k = len_of(problem.pool), len(ground)
        known = Known(np.append(start.squared, np.full(n_own, np.inf)), np.zeros(k + n_own, np.int32), NONE)
        return replace(
            problem,
            pool=Stack([ground.features, problem.pool]),
            references=ground.features[:0],
            candidates=problem.candidates + k,
            weights=np.append(ground.weights, np.zeros(n_own)),
            sample=sample_rows(np.arange(k)),
            radius=start.radius,
            largest=start.largest,
            doubt=None,
            known=known,
            costs=None if problem.costs is None else np.append(np.ones(k), problem.costs),
        )

    # A round

    def advance(self, grown: Grown, size: int) -> CoverAnswer:
        """Hear what was picked, bring the first candidates up to date, and tell them."""
        if self.bounds is None:
            none = np.empty(0)
            return CoverAnswer(NONE, none > 0, NONE, NONE.astype(np.int32), none, None, NOTHING, NONE, none)
        self.bounds.hear(grown.places, grown.cover)
        self._drop(grown.picks)
        front, threshold = self.bounds.fresh(size)
        is_new = ~np.isin(front, self.last)
        self.last = front
        costs = self.bounds.costs
        return CoverAnswer(
            self._rows(front),
            is_new,
            *self.bounds.pairs(front[is_new]),
            None if costs is None else costs[front[is_new]],
            threshold if threshold.row < 0 else Threshold(threshold.value, int(self._rows(threshold.row))),
            *self.bounds.levels(size),
        )

    def lowest(self, n_wanted: int, picks: IntArray) -> IntArray:
        """The first candidates that are left."""
        rows = self.problem.candidates + self.first_row
        return rows[~np.isin(rows, picks)][:n_wanted]

    def _rows(self, numbers: IntArray | int) -> IntArray:
        """Rows of the whole pool."""
        return np.asarray(self.problem.candidates[numbers] + self.first_row)

    def _here(self, rows: IntArray) -> IntArray:
        """Those of some rows of the whole pool that are here, as the shard numbers them."""
        local = rows - self.first_row
        return local[(local >= 0) & (local < len_of(self.problem.pool))]

    def _drop(self, picks: IntArray) -> None:
        """Candidates of this shard that are picked."""
        if self.bounds is not None:
            self.bounds.drop(np.searchsorted(self.problem.candidates, self._here(picks)))
