"""What a `dubito.Pool` keeps of one round of coverage for the next: points, cells, and the pairs within the limits.

Points and cells depend on the pool alone. As labels arrive, rows only come nearer to what is labeled, so the pairs of a
row within its limit are among those of an earlier round, unless the reach has grown or the row had no weight.
"""

from copy import copy
from dataclasses import dataclass, replace

import numpy as np

from dubito.core.coverage_reference import CoverageProblem
from dubito.engines.cpu.coverage.pairs import NEAR, PAIR, Cloud, Look, Pairs, PairSearch, used_rows
from dubito.engines.cpu.coverage.space import Directions, Int32Array, Space, locate
from dubito.engines.lazy.bounds import Float32Array
from dubito.matrix import AnyArray, BoolArray, FloatArray, IntArray, len_of

MOST_BYTES = 1 << 29
"""Pairs are kept if they need at most this much memory."""
NEW_SHARE = 0.5
"""If a larger share of the rows or of the candidates is new, all pairs are searched."""
SMALLEST_KERNEL = 1e-30
"""Added to a kernel that is rounded up."""


@dataclass(frozen=True, slots=True, eq=False)
class KeptPairs:
    """Pairs of points within a limit, all of them; points are numbered as in the cloud."""

    limits: FloatArray
    """(p,) squared distances of shifted points; -1 for those without pairs."""
    is_candidate: BoolArray
    """(n,) of the rows of the pool."""
    candidates: Int32Array
    """(pairs,) rows of the pool."""
    rows: Int32Array
    """(pairs,) points."""
    squared: Float32Array
    """(pairs,) lower bounds on the squared distances of shifted points."""


@dataclass(frozen=True, slots=True, eq=False)
class KeptRound:
    """The data of a round that the next round can reuse."""

    space: Space
    directions: Directions
    cloud: Cloud
    pairs: KeptPairs | None = None

    def space_of(self, problem: CoverageProblem) -> Space | None:
        """The space of another problem; None if it is not on the same points, or may not use what is kept."""
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
        """A copy that refers to nothing of the last problem but the points."""
        space, problem = copy(self.space), self.space.problem
        space.problem = replace(problem, known=None, progress=None, doubt=None, costs=None, references=problem.pool[:0])
        space.references = None
        return replace(self, space=space)


def may_keep(problem: CoverageProblem) -> bool:
    """Whether something may be kept for another round."""
    return problem.known is not None and problem.memory_limit is None


def find_pairs(
    kept: KeptPairs | None, search: PairSearch, limits: FloatArray, covered: FloatArray, reach: float, capacity: int,
    look: Look,
) -> tuple[Pairs, KeptPairs | None]:  # fmt: skip
    """The pairs of every candidate, as `PairSearch.run` finds them, and what to keep of them.

    Pairs of rows whose limit has grown, and of candidates that were none, are searched again.
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
        found = search.run(limits, covered, every, reach, capacity, look)
        return found, _keep(_flat(found), limits, candidates, n_pool, reach * search.space.unit)
    numbers[candidates[is_new]] = -1
    old = np.where(is_new_row, -1.0, limits)
    parts = [_within(kept, old, numbers, reach * search.space.unit)]
    if is_new_row.any():
        parts.append(_flat(search.run(np.where(is_new_row, limits, -1.0), covered, every, reach, capacity, look)))
    if is_new.any():
        parts.append(_flat(search.run(old, covered, every[is_new], reach, capacity, look)))
    if len(parts) > 1:
        flat = np.concatenate(parts)
        kept = _keep(flat, limits, candidates, n_pool, reach * search.space.unit)
    else:
        flat = parts[0]
    return search.grouped(flat, every.astype(np.int32), len(candidates)), kept


def _flat(pairs: Pairs) -> AnyArray:
    """Pairs in the order in which they lie in memory."""
    order = np.argsort(pairs.starts, kind="stable")
    flat = np.empty(len(pairs.rows), dtype=PAIR)
    flat["candidate"] = np.repeat(order, (pairs.stops - pairs.starts)[order])
    flat["row"], flat["kernel"] = pairs.rows, pairs.kernels
    return flat


def _keep(flat: AnyArray, limits: FloatArray, candidates: IntArray, n_pool: int, reach: float) -> KeptPairs | None:
    """``reach`` is squared, of shifted points."""
    if flat.nbytes > MOST_BYTES:
        return None
    is_candidate = np.zeros(n_pool, dtype=np.bool_)
    is_candidate[candidates] = True
    squared = (reach * (1.0 - np.sqrt(flat["kernel"], dtype=np.float64))).astype(np.float32)
    squared = np.maximum(np.nextafter(squared, np.float32(-np.inf)), np.float32(0.0))
    return KeptPairs(limits, is_candidate, candidates[flat["candidate"]].astype(np.int32), flat["row"].copy(), squared)


def _within(kept: KeptPairs, limits: FloatArray, numbers: Int32Array, reach: float) -> AnyArray:
    """Kept pairs that are within limits (p,), of candidates by their numbers (n,), with kernels for this reach."""
    limit = np.where(limits > 0.0, np.minimum(limits * NEAR, np.finfo(np.float32).max), -1.0).astype(np.float32)
    chosen = np.flatnonzero((kept.squared <= limit[kept.rows]) & (numbers[kept.candidates] >= 0))
    flat = np.empty(len(chosen), dtype=PAIR)
    flat["row"], flat["candidate"] = kept.rows[chosen], numbers[kept.candidates[chosen]]
    near = np.maximum(1.0 - kept.squared[chosen] / np.float64(reach), 0.0)
    flat["kernel"] = np.minimum(near * near * NEAR + SMALLEST_KERNEL, 1.0)
    return flat
