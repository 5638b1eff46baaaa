"""The engine `cpu` for coverage: what it takes, what it costs, and how it solves."""

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

# How coverage uses the memory that it may use.

STATE_BYTES = 300
"""For each pool row: distances, cover, limits, bounds, and where its pairs begin."""
FEATURE_BYTES, CODE_BYTES = 10, 2
"""A feature of a point and its code, or its code alone, twice: as it was read, and in the order of the search."""
WORKING_BYTES = 2 << 30
"""For pairs and points without a memory limit."""
PAIR_BYTES = 20
"""A pair as it is found, and as it is kept."""
PAIRS_PER_ROW = 4
"""Memory for this many pairs of each row is always needed."""
BLOCK_BYTES = 48 << 20
"""Directions, cells and blocks that are being read, at most."""
BLOCK_FEATURE_BYTES = 32
SCRATCH_BYTES = 1 << 20


def most_pairs(n_pool: int, d: int, limit: int | None) -> int:
    """Number of pairs that fit in memory; raises MemoryLimit if a pool (n, d) does not fit into the limit in bytes."""
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


# What coverage will cost the CPU engine, before it runs.

HEAD_WIDTH = 64
"""Features that a pair of rows is compared by, at most."""
PRODUCT_SHARE = 0.03
"""Of the products of all pairs, those that cells leave, on data with clusters."""
CALL_SECONDS, ROW_SECONDS, FEATURE_SECONDS = 4e-3, 5e-7, 5.2e-8
"""A call, and what each row and each of its features take."""
PAIR_SECONDS = 1.3e-7
"""Of a near pair. A row has about as many as there are rows for each labeled one."""
COLD_LABELED = 10
"""Labeled rows that the reach of a cold start corresponds to, about."""
PICK_SECONDS = 5e-6
SERIAL_SHARE = 0.1
"""Of the time with one thread, what more threads do not shorten."""


def cost_of(problem: CoverageProblem, engine: str) -> Estimate:
    """Bytes and seconds; raises MemoryLimit if the limit is too small."""
    (n, d), m = problem.pool.shape, len_of(problem.references)
    most_pairs(n, d, problem.memory_limit)
    n_wanted, n_candidates = int(np.count_nonzero(problem.weights)), len(problem.candidates)
    products = 2.0 * PRODUCT_SHARE * min(d, HEAD_WIDTH) * n_wanted * (2.0 * m + n_candidates)
    rows = ROW_SECONDS * n + FEATURE_SECONDS * n * d
    pairs = PAIR_SECONDS * n_wanted * n_candidates / max(m, COLD_LABELED)
    threads = n_threads()
    others = CALL_SECONDS + PICK_SECONDS * problem.budget + rows + pairs
    share = SERIAL_SHARE + (1.0 - SERIAL_SHARE) / threads
    seconds = products / product_rate() + share * slowness() * others
    return Estimate(most_bytes(n, d, problem.memory_limit), seconds, engine)


@dataclass(frozen=True, slots=True)
class CpuCoverage:
    """Exact, lazy, on every core."""

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
        """Nothing: distances to what is labeled are those of a core-set, which a `Pool` asks for. See `kept`."""

    def solve(self, problem: CoverageProblem) -> Solution:
        """See `dubito.engines.cpu.coverage`, which is imported on first use."""
        from dubito.engines.cpu.coverage.groups import solve_groups
        from dubito.engines.cpu.coverage.solver import solve

        native.warn_if_missing()
        if problem.known is not None:
            problem.known.forget_later(len_of(problem.references))
        return solve(problem) if problem.groups is None else solve_groups(problem)
