"""What a `dubito.Pool` keeps of one round of coverage for the next: points, cells, and the pairs within the limits.

Points and cells depend only on the pool. As rows are labeled, the distance of each row to the nearest labeled row only
decreases. So the pairs within a row's limit are among those of an earlier round, unless the reach has increased or the
row had no weight then.
"""

from copy import copy
from dataclasses import dataclass, replace

import numpy as np

from dubito.core.coverage_reference import CoverageProblem
from dubito.engines.cpu.coverage.pairs import NEAR, PAIR, Pairs, PairSearch, PointCloud, ReportPhase, used_rows
from dubito.engines.cpu.coverage.space import Directions, Int32Array, Space, locate
from dubito.engines.lazy.bounds import Float32Array
from dubito.matrix import AnyArray, BoolArray, FloatArray, IntArray, len_of

MOST_BYTES = 1 << 29
"""Pairs are kept if they need at most this much memory."""
NEW_SHARE = 0.5
"""If a larger share of the rows or candidates is new, all pairs are searched again."""
SMALLEST_KERNEL = 1e-30
"""Added to kernels to round them up."""


@dataclass(frozen=True, slots=True, eq=False)
class KeptPairs:
    """All pairs of points within limits; points are numbered as in the point cloud."""

    limits: FloatArray
    """(p,) squared distances of shifted points; -1 for points without pairs."""
    is_candidate: BoolArray
    """(n,) whether each row of the pool is a candidate."""
    candidates: Int32Array
    """(pairs,) the candidate of each pair, as a row of the pool."""
    rows: Int32Array
    """(pairs,) the row of each pair, as a point."""
    squared: Float32Array
    """(pairs,) lower bounds on the squared distances of shifted points."""


@dataclass(frozen=True, slots=True, eq=False)
class KeptRound:
    """The data of a round that the next round can use again."""

    space: Space
    directions: Directions
    cloud: PointCloud
    pairs: KeptPairs | None = None

    def space_of(self, problem: CoverageProblem) -> Space | None:
        """The space of another problem; None if its points are different, or if it may not use the kept data."""
        before = self.space.problem
        if problem.pool is not before.pool or problem.metric != before.metric or problem.largest != before.largest:
            return None
        is_used = used_rows(problem)
        is_used[self.cloud.rows] = False
        if is_used.any() or not may_keep(problem):
            return None
        space = copy(self.space)
        space.problem, space.references = problem, locate(problem.references, space.full_bytes)
        return space

    def without_problem(self) -> "KeptRound":
        """A copy without references to the last problem, except its points."""
        space, problem = copy(self.space), self.space.problem
        space.problem = replace(problem, known=None, progress=None, doubt=None, costs=None, references=problem.pool[:0])
        space.references = None
        return replace(self, space=space)


def may_keep(problem: CoverageProblem) -> bool:
    """Whether data may be kept for another round."""
    return problem.known is not None and problem.memory_limit is None


def find_pairs(
    kept: KeptPairs | None, search: PairSearch, limits: FloatArray, covered: FloatArray, reach: float, capacity: int,
    report_phase: ReportPhase,
) -> tuple[Pairs, KeptPairs | None]:  # fmt: skip
    """The pairs of all candidates, as `PairSearch.run` returns them, and the pairs to keep.

    Only the pairs of rows whose limit has increased and of new candidates are searched.
    """
    candidates, n_pool = search.space.problem.candidates, len_of(search.space.problem.pool)
    numbers = np.full(n_pool, -1, dtype=np.int32)
    every = np.arange(len(candidates))
    numbers[candidates] = every
    if kept is not None:
        is_new_row = limits > kept.limits
        is_new = ~kept.is_candidate[candidates]
        n_rows, n_new = np.count_nonzero(limits > 0.0), np.count_nonzero(is_new_row)
        if n_new > NEW_SHARE * n_rows or np.count_nonzero(is_new) > NEW_SHARE * len(candidates):
            kept = None
    if kept is None:
        all_pairs = search.run(limits, covered, every, reach, capacity, report_phase)
        return all_pairs, _keep(_flat(all_pairs), limits, candidates, n_pool, reach * search.space.unit)
    numbers[candidates[is_new]] = -1
    old = np.where(is_new_row, -1.0, limits)
    parts = [_select_pairs(kept, old, numbers, reach * search.space.unit)]
    if is_new_row.any():
        parts.append(
            _flat(search.run(np.where(is_new_row, limits, -1.0), covered, every, reach, capacity, report_phase))
        )
    if is_new.any():
        parts.append(_flat(search.run(old, covered, every[is_new], reach, capacity, report_phase)))
    if len(parts) > 1:
        flat = np.concatenate(parts)
        kept = _keep(flat, limits, candidates, n_pool, reach * search.space.unit)
    else:
        flat = parts[0]
    return search.grouped(flat, every.astype(np.int32), len(candidates)), kept


def _flat(pairs: Pairs) -> AnyArray:
    """Pairs as one array, in the order in which they are stored."""
    order = np.argsort(pairs.starts, kind="stable")
    flat = np.empty(len(pairs.rows), dtype=PAIR)
    flat["candidate"] = np.repeat(order, (pairs.stops - pairs.starts)[order])
    flat["row"], flat["kernel"] = pairs.rows, pairs.kernels
    return flat


def _keep(flat: AnyArray, limits: FloatArray, candidates: IntArray, n_pool: int, reach: float) -> KeptPairs | None:
    """The pairs to keep; None if they need too much memory. ``reach`` is squared, in units of shifted points."""
    if flat.nbytes > MOST_BYTES:
        return None
    is_candidate = np.zeros(n_pool, dtype=np.bool_)
    is_candidate[candidates] = True
    squared = (reach * (1.0 - np.sqrt(flat["kernel"], dtype=np.float64))).astype(np.float32)
    squared = np.maximum(np.nextafter(squared, np.float32(-np.inf)), np.float32(0.0))
    return KeptPairs(limits, is_candidate, candidates[flat["candidate"]].astype(np.int32), flat["row"].copy(), squared)


def _select_pairs(kept: KeptPairs, limits: FloatArray, numbers: Int32Array, reach: float) -> AnyArray:
    """The kept pairs within the limits (p,), with kernels for this reach.

    ``numbers`` (n,) are the numbers of candidates by row of the pool, or -1.
    """
    limit = np.where(limits > 0.0, np.minimum(limits * NEAR, np.finfo(np.float32).max), -1.0).astype(np.float32)
    chosen = np.flatnonzero((kept.squared <= limit[kept.rows]) & (numbers[kept.candidates] >= 0))
    flat = np.empty(len(chosen), dtype=PAIR)
    flat["row"], flat["candidate"] = kept.rows[chosen], numbers[kept.candidates[chosen]]
    near = np.maximum(1.0 - kept.squared[chosen] / np.float64(reach), 0.0)
    flat["kernel"] = np.minimum(near * near * NEAR + SMALLEST_KERNEL, 1.0)
    return flat
