"""The engine `cpu` for coverage: which problems it solves, and at what cost."""

from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from dubito import native
from dubito.core.coverage_reference import CoverageProblem
from dubito.core.problem import Solution
from dubito.engines.base import Estimate
from dubito.engines.cpu.coverage.space import MOST_FINE_CODES, NARROWEST, WIDEST
from dubito.engines.cpu.speed import product_rate, slowness
from dubito.engines.lazy.bounds import WIDEST_ROW
from dubito.errors import MemoryLimit
from dubito.matrix import len_of
from dubito.threads import n_threads

# Memory.

STATE_BYTES = 300
"""For each row of the pool: distances, cover, limits, bounds, and the start of its pairs."""
FEATURE_BYTES, CODE_BYTES = 10, 2
"""For a coordinate of a head with its code, and for a fine code. Points are stored twice: in the order of the cells and
in the order of the search."""
WORKING_BYTES = 2 << 30
"""Memory for pairs if there is no memory limit."""
PAIR_BYTES = 20
"""For each pair: unsorted, and sorted by candidate."""
PAIRS_PER_ROW = 4
"""The minimum number of pairs per row for which there must be memory."""
BLOCK_BYTES = 48 << 20
"""Maximum memory for directions, cells, and blocks of features."""
BLOCK_FEATURE_BYTES = 32
SCRATCH_BYTES = 1 << 20
"""For each thread."""


def most_pairs(n_pool: int, d: int, limit: int | None) -> int:
    """The number of pairs that fit in memory; raises MemoryLimit if a pool (n, d) needs more than ``limit`` bytes."""
    least = least_bytes(n_pool, d)
    if limit is not None and limit < least:
        raise MemoryLimit(
            f"cannot hold what coverage of {n_pool} rows of {d} features needs",
            argument="memory_limit",
            value=limit,
            hint=f"pass at least {least} bytes ({-(-least // 10**6)} MB).",
        )
    left = WORKING_BYTES if limit is None else limit - least
    return PAIRS_PER_ROW * n_pool + max(0, left) // PAIR_BYTES


def least_bytes(n_pool: int, d: int) -> int:
    """The smallest memory_limit that works."""
    point = FEATURE_BYTES * (d if d <= NARROWEST else min(d, WIDEST) + 64) + CODE_BYTES * min(d, MOST_FINE_CODES)
    rows = (STATE_BYTES + PAIRS_PER_ROW * PAIR_BYTES + point) * n_pool
    return rows + min(BLOCK_BYTES, BLOCK_FEATURE_BYTES * n_pool * d) + n_threads() * (SCRATCH_BYTES + 64 * d)


def most_bytes(n_pool: int, d: int, limit: int | None) -> int:
    """Upper bound on the memory used."""
    return least_bytes(n_pool, d) + min(WORKING_BYTES, PAIR_BYTES * n_pool * n_pool) if limit is None else limit


# Estimated cost.

HEAD_WIDTH = 64
"""Assumed maximum number of coordinates by which pairs of rows are compared."""
PRODUCT_SHARE = 0.03
"""Share of all products that cells do not rule out, on data with clusters."""
CALL_SECONDS, ROW_SECONDS, FEATURE_SECONDS = 4e-3, 5e-7, 5.2e-8
"""Time of a call, per row, and per feature of a row."""
PAIR_SECONDS = 1.3e-7
"""Time per near pair. A row has about as many near pairs as there are rows per labeled row."""
COLD_LABELED = 10
"""The reach of a cold start is about as large as with this number of labeled rows."""
PICK_SECONDS = 5e-6
SERIAL_SHARE = 0.1
"""Share of the time on one thread that more threads do not reduce."""


def cost_of(problem: CoverageProblem, engine: str) -> Estimate:
    """Bytes and seconds; raises MemoryLimit if the limit is too small."""
    (n, d), m = problem.pool.shape, len_of(problem.references)
    most_pairs(n, d, problem.memory_limit)
    n_weighted, n_candidates = int(np.count_nonzero(problem.weights)), len(problem.candidates)
    products = 2.0 * PRODUCT_SHARE * min(d, HEAD_WIDTH) * n_weighted * (2.0 * m + n_candidates)
    rows = ROW_SECONDS * n + FEATURE_SECONDS * n * d
    pairs = PAIR_SECONDS * n_weighted * n_candidates / max(m, COLD_LABELED)
    others = CALL_SECONDS + PICK_SECONDS * problem.budget + rows + pairs
    share = SERIAL_SHARE + (1.0 - SERIAL_SHARE) / n_threads()
    seconds = products / product_rate() + share * slowness() * others
    return Estimate(most_bytes(n, d, problem.memory_limit), seconds, engine)


@dataclass(frozen=True, slots=True)
class CpuCoverage:
    """Exact coverage by lazy evaluation, on all cores."""

    name: ClassVar[str] = "cpu"
    solves: ClassVar[tuple[type, ...]] = (CoverageProblem,)
    keeps_quotas: ClassVar[bool] = True
    picks_groups: ClassVar[bool] = True

    def refusals(self, problem: CoverageProblem) -> list[str]:
        """It solves every problem whose rows are not wider than its error bounds allow."""
        d = problem.pool.shape[1]
        return [f"{d} features are more than the {WIDEST_ROW} it has bounds for"] if d > WIDEST_ROW else []

    def pays(self, problem: CoverageProblem) -> bool:
        return True

    def estimate(self, problem: CoverageProblem) -> Estimate:
        return cost_of(problem, self.name)

    def catch_up(self, problem: CoverageProblem) -> None:
        """Nothing to do: a `Pool` has the engine for core-sets update distances to labeled rows. See also `kept`."""

    def solve(self, problem: CoverageProblem) -> Solution:
        """Solve by `dubito.engines.cpu.coverage.solver`, which is imported on first use."""
        from dubito.engines.cpu.coverage.groups import solve_groups
        from dubito.engines.cpu.coverage.solver import solve

        native.warn_if_missing()
        if problem.known is not None:
            problem.known.forget_later(len_of(problem.references))
        return solve(problem) if problem.groups is None else solve_groups(problem)
