"""The worker's side of coverage: the candidates of a shard, and the targets of all shards."""

from dataclasses import dataclass, replace
from typing import Protocol

import numpy as np
import numpy.typing as npt

from dubito.core.coverage_reference import CoverageProblem, running_sums, sample_rows, systematic_sample
from dubito.core.problem import Known
from dubito.engines.cluster.driver import is_before
from dubito.engines.cluster.messages import HOST, NO_THRESHOLD, Hardware, array_bytes, ranked_bounds
from dubito.engines.cpu.coverage.pairs import Nearest
from dubito.engines.cpu.coverage.solver import FirstCover
from dubito.engines.cpu.coverage.space import Directions, Space
from dubito.engines.lazy.bounds import first_in_order
from dubito.engines.lazy.front import Threshold
from dubito.errors import MemoryLimit
from dubito.matrix import AnyArray, BoolArray, FloatArray, IntArray, Stack, len_of

NO_ROWS = np.empty(0, dtype=np.int64)
Int32Array = npt.NDArray[np.int32]


# What the driver and the workers exchange.


@dataclass(frozen=True, slots=True)
class Targets:
    """The rows to cover, ascending; ``rows`` are row numbers of the whole pool."""

    rows: IntArray
    features: AnyArray
    """(k, d) in the type of the pool."""
    weights: FloatArray
    is_candidate: BoolArray
    costs: FloatArray | None

    def __len__(self) -> int:
        return len(self.rows)

    @property
    def nbytes(self) -> int:
        return array_bytes(self)


def concat_targets(parts: list[Targets], empty_features: AnyArray) -> Targets:
    """Concatenate. Parts without rows are left out; if all are empty, the features are ``empty_features`` (0, d)."""
    parts = [part for part in parts if len(part)] or [replace(parts[0], features=empty_features)]
    costs = [part.costs for part in parts if part.costs is not None]
    return Targets(
        np.concatenate([part.rows for part in parts]),
        np.concatenate([part.features for part in parts]),
        np.concatenate([part.weights for part in parts]),
        np.concatenate([part.is_candidate for part in parts]),
        np.concatenate(costs) if costs else None,
    )


@dataclass(frozen=True, slots=True)
class CoverageStart:
    """The state in which a run starts; the same for every shard."""

    targets: Targets
    squared: FloatArray
    """(k,) squared distances from each target to the nearest labeled point."""
    radius: float
    """The reach."""
    largest: float
    """The largest magnitude of a feature in the pool and the labeled points."""

    @property
    def nbytes(self) -> int:
        return self.targets.nbytes + self.squared.nbytes


@dataclass(frozen=True, slots=True)
class CoverUpdate:
    """Targets whose cover has increased, and new picks. Applying it twice has no effect."""

    positions: Int32Array
    """Positions in the targets."""
    cover: FloatArray
    picks: IntArray

    @property
    def nbytes(self) -> int:
        return array_bytes(self)


@dataclass(frozen=True, slots=True)
class CoverageAnswer:
    """The first candidates of a shard, with exact gains."""

    rows: IntArray
    """Rows of the whole pool, ascending."""
    is_new: BoolArray
    """Candidates that were not in the shard's last answer; the arrays below describe only these."""
    counts: IntArray
    """The number of targets that each covers."""
    positions: Int32Array
    """Positions of these targets, ascending for each candidate."""
    kernels: FloatArray
    costs: FloatArray | None
    threshold: Threshold
    """The first candidate of the shard that is not included; its row is a row of the whole pool."""
    ranks: IntArray
    bounds: FloatArray
    """The bounds at these ranks of the shard's candidates, descending."""

    @property
    def nbytes(self) -> int:
        return array_bytes(self)


# Upper bounds on what the candidates of a shard add. The first candidates are made exact.


class CoverBounds:
    """The bounds on the CPU. Candidates are numbered from 0."""

    def __init__(self, problem: CoverageProblem, cover: FloatArray) -> None:
        """``cover`` (k,) is that of the first rows of the pool, the targets. The other rows have weight 0."""
        first = FirstCover(problem, lambda *_: None)
        first.cover[: len(cover)] = cover
        self.gains = first.gains(budget=0)
        self.costs = None if problem.costs is None else problem.costs[problem.candidates]

    def update(self, positions: Int32Array, cover: FloatArray) -> None:
        self.gains.raise_cover(positions.astype(np.int64), cover)

    def fresh(self, size: int) -> tuple[IntArray, Threshold]:
        while True:
            front, threshold = first_in_order(self.gains.bound, size)
            due = self.gains.stale(front)
            if len(due) == 0:
                return front, threshold
            updated = self.gains.update(due, is_exact=False)
            size = size if len(updated) == len(due) else max(1, min(size, len(updated)))
            # Candidates that fell behind the threshold need not be exact.
            self.gains.update(updated[is_before(threshold, self.gains.bound[updated], updated)], is_exact=True)

    def pairs(self, candidates: IntArray) -> tuple[IntArray, Int32Array, FloatArray]:
        found = [self.gains.pairs(each) for each in candidates.tolist()]
        return (
            np.array([len(rows) for rows, _ in found], dtype=np.int64),
            np.concatenate([np.empty(0, np.int32), *(rows for rows, _ in found)]).astype(np.int32),
            np.concatenate([np.empty(0), *(kernels for _, kernels in found)]),
        )

    def ranked_bounds(self, size: int) -> tuple[IntArray, FloatArray]:
        return ranked_bounds(self.gains.bound, size)

    def drop(self, candidates: IntArray) -> None:
        self.gains.drop(candidates)


class GainBounds(Protocol):
    """Upper bounds on what each candidate adds per cost, -1 once picked, on the CPU or a GPU; see `CoverBounds`."""

    @property
    def costs(self) -> FloatArray | None:
        """(n,) costs of the candidates."""

    def update(self, positions: Int32Array, cover: FloatArray) -> None:
        """Increase the cover of targets."""

    def fresh(self, size: int) -> tuple[IntArray, Threshold]:
        """The first candidates in order, with exact bounds, and the next one; fewer if memory is short."""

    def pairs(self, candidates: IntArray) -> tuple[IntArray, Int32Array, FloatArray]:
        """The number of targets that each exact candidate covers, their positions (ascending), and the kernels."""

    def ranked_bounds(self, size: int) -> tuple[IntArray, FloatArray]:
        """See `dubito.engines.cluster.messages.ranked_bounds`."""

    def drop(self, candidates: IntArray) -> None:
        """Exclude candidates, which were picked."""


class CoverageShard:
    """Executes the calls of the driver. It can be restored at any time from its problem and a `CoverageStart`."""

    def __init__(self, problem: CoverageProblem, first_row: int, hardware: Hardware) -> None:
        self.problem, self.first_row = problem, first_row
        self.hardware = hardware if hardware.can_solve(problem) else HOST
        self.bounds: GainBounds | None = None
        self.last_answer = NO_ROWS
        """The candidates in the last answer."""

    # Start of a run

    def n_weighted(self) -> int:
        return int(np.count_nonzero(self.problem.weights))

    def add_weights(self, before: float) -> float:
        """The sum of all weights up to the end of this shard, added in the same order as on one machine."""
        return float(running_sums(self.problem.weights, before)[-1]) if len(self.problem.weights) else before

    def targets(self, sample: tuple[int, float] | None, before: float) -> Targets:
        """The rows to cover in this shard, or those of a sample.

        ``sample`` is the size of the sample and the sum of all weights; ``before`` the sum before this shard.
        """
        problem, weights = self.problem, self.problem.weights
        if sample is not None:
            weights = systematic_sample(weights, sample[0], before, sample[1])
        rows = np.flatnonzero(weights > 0.0)
        return Targets(
            rows + self.first_row,
            np.asarray(problem.pool[rows]),
            weights[rows],
            np.isin(rows, problem.candidates),
            None if problem.costs is None else problem.costs[rows],
        )

    def candidate_rows(self, numbers: IntArray | int) -> IntArray:
        """Rows of the whole pool of candidates, by their numbers in the shard."""
        return np.asarray(self.problem.candidates[numbers] + self.first_row)

    def read(self, rows: IntArray) -> AnyArray:
        """Features of the rows of the whole pool that are in this shard."""
        return np.asarray(self.problem.pool[self._local_rows(rows)])

    def doubt_and_costs(self, rows: IntArray) -> tuple[IntArray, FloatArray | None, FloatArray | None]:
        """The rows of the whole pool that are in this shard, with their doubt and costs."""
        local, doubt, costs = self._local_rows(rows), self.problem.doubt, self.problem.costs
        doubt, costs = (None if values is None else values[local] for values in (doubt, costs))
        return local + self.first_row, doubt, costs

    def nearest(self, rows: IntArray, references: AnyArray, largest: float) -> FloatArray:
        """Exact squared distances to the nearest reference, of the rows that are in this shard."""
        local = self._local_rows(rows)
        if len(local) == 0:
            return np.empty(0)
        if self.hardware.device is not None:
            from dubito.engines.cluster.coverage.device import nearest

            return nearest(self.problem.pool[local], references, self.problem.metric, largest, self.hardware)
        space = Space(replace(self.problem, references=references, largest=largest, known=None))
        return Nearest(space, lambda *_: None).squared_distances(local, Directions.features(space).fitted(space))

    def start(self, start: CoverageStart, update: CoverUpdate) -> None:
        """Compute the first bounds of all candidates."""
        self.bounds, self.last_answer = None, NO_ROWS
        if len(self.problem.candidates):
            cover = np.zeros(len(start.targets))
            cover[update.positions] = update.cover
            self.bounds = self._bounds(self._local(start), cover)
            self._drop(update.picks)

    def _bounds(self, local: CoverageProblem, cover: FloatArray) -> GainBounds:
        if self.hardware.device is not None:
            from dubito.engines.cluster.coverage.device import device_bounds

            try:
                return device_bounds(local, cover, self.hardware)
            except MemoryLimit:
                # Coverage on a device needs the whole shard in its memory.
                self.hardware = HOST
        return CoverBounds(local, cover)

    def _local(self, start: CoverageStart) -> CoverageProblem:
        """The problem of the targets followed by the shard's own rows, which get weight 0."""
        problem, targets = self.problem, start.targets
        n_own, k = len_of(problem.pool), len(targets)
        known = Known(np.append(start.squared, np.full(n_own, np.inf)), np.zeros(k + n_own, np.int32), NO_ROWS)
        return replace(
            problem,
            pool=Stack([targets.features, problem.pool]),
            references=targets.features[:0],
            candidates=problem.candidates + k,
            weights=np.append(targets.weights, np.zeros(n_own)),
            sample=sample_rows(np.arange(k)),
            radius=start.radius,
            largest=start.largest,
            doubt=None,
            known=known,
            costs=None if problem.costs is None else np.append(np.ones(k), problem.costs),
        )

    # A round

    def advance(self, update: CoverUpdate, size: int) -> CoverageAnswer:
        """Apply the update and return the first ``size`` candidates."""
        if self.bounds is None:
            none, positions = np.empty(0), np.empty(0, np.int32)
            return CoverageAnswer(NO_ROWS, none > 0, NO_ROWS, positions, none, None, NO_THRESHOLD, NO_ROWS, none)
        self.bounds.update(update.positions, update.cover)
        self._drop(update.picks)
        front, threshold = self.bounds.fresh(size)
        is_new = ~np.isin(front, self.last_answer)
        self.last_answer = front
        costs = self.bounds.costs
        return CoverageAnswer(
            self.candidate_rows(front),
            is_new,
            *self.bounds.pairs(front[is_new]),
            None if costs is None else costs[front[is_new]],
            threshold if threshold.row < 0 else Threshold(threshold.value, int(self.candidate_rows(threshold.row))),
            *self.bounds.ranked_bounds(size),
        )

    def lowest(self, n_wanted: int, picks: IntArray) -> IntArray:
        """The first remaining candidates, as rows of the whole pool."""
        rows = self.problem.candidates + self.first_row
        return rows[~np.isin(rows, picks)][:n_wanted]

    def _local_rows(self, rows: IntArray) -> IntArray:
        """The numbers in this shard of rows of the whole pool; rows of other shards are skipped."""
        local = rows - self.first_row
        return local[(local >= 0) & (local < len_of(self.problem.pool))]

    def _drop(self, picks: IntArray) -> None:
        if self.bounds is not None:
            self.bounds.drop(np.searchsorted(self.problem.candidates, self._local_rows(picks)))
