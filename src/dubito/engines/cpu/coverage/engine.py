"""The engine `cpu` for coverage: what it takes, what it costs, and how it solves."""

from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from dubito.core.coverage_reference import CoverageProblem
from dubito.core.problem import Solution
from dubito.engines.base import Estimate
from dubito.engines.cpu.cost import product_rate
from dubito.engines.cpu.coverage.space import NARROWEST
from dubito.engines.lazy.bounds import WIDEST_ROW
from dubito.errors import MemoryLimit
from dubito.matrix import len_of
from dubito.threads import n_threads

# How coverage shares out the memory it may use.

STATE_BYTES = 136
"""For each pool row: distances, cover, limits, bounds, and where its pairs begin."""
WORKING_BYTES = 512 << 20
"""Beside that by default: an eighth for probes, three quarters for pairs, the rest for blocks in the making."""
PAIR_BYTES = 20
"""A pair as it is found, and as it is kept."""
BLOCK_ROWS = 1024
"""At most 2¹⁶, which is what sorting is quick for."""
SMALLEST_BLOCK = 32


@dataclass(frozen=True, slots=True)
class CoverPlan:
    """Rows at a time, bytes for probes, and how many pairs there is room for."""

    block_rows: int
    probe_bytes: int
    n_pairs: int


def plan_cover(n_pool: int, d: int, limit: int | None) -> CoverPlan:
    """Sizes for a pool (n, d) within a limit in bytes; MemoryLimit where even the smallest do not fit."""
    least = least_bytes(n_pool, d)
    if limit is not None and limit < least:
        raise MemoryLimit(
            f"memory_limit={limit} cannot hold what coverage of {n_pool} rows of {d} features needs; pass at least "
            f"{least} bytes ({-(-least // 10**6)} MB)."
        )
    working = WORKING_BYTES if limit is None else limit - STATE_BYTES * n_pool
    block_rows = BLOCK_ROWS
    while block_rows > SMALLEST_BLOCK and block_bytes(d, block_rows) > working // 8:
        block_rows //= 2
    return CoverPlan(block_rows, working // 8, max(3 * working // (4 * PAIR_BYTES), n_pool))


def block_bytes(d: int, block_rows: int) -> int:
    """What blocks in the making hold at once: points, probes, products, and what is found in them."""
    return n_threads() * block_rows * (24 * block_rows + 16 * d)


def least_bytes(n_pool: int, d: int) -> int:
    """The smallest memory_limit that works."""
    return (STATE_BYTES + PAIR_BYTES) * n_pool + 4 * block_bytes(d, SMALLEST_BLOCK) + (8 << 20)


def most_bytes(n_pool: int, d: int, limit: int | None) -> int:
    """What is used, at most."""
    whole = STATE_BYTES * n_pool + min(WORKING_BYTES, 6 * n_pool * d + PAIR_BYTES * n_pool * n_pool + (16 << 20))
    return whole if limit is None else limit


# What coverage will cost the CPU engine, before it runs.

PROBE_WIDTH = 96
"""Of probes, somewhere in the middle."""
OVERHEAD = 1.6
"""All that is done with products, over the products."""
PICK_SECONDS = 300e-6
ROW_SECONDS = 40e-6


def cost_of(problem: CoverageProblem, engine: str) -> Estimate:
    """Bytes and seconds; MemoryLimit where the limit cannot hold the least there is to hold."""
    (n, d), m = problem.pool.shape, len_of(problem.references)
    plan_cover(n, d, problem.memory_limit)
    n_wanted = int(np.count_nonzero(problem.weights))
    width = d if d < NARROWEST or m == 0 else min(d, PROBE_WIDTH)
    products = 2.0 * width * (n_wanted * m + n_wanted * len(problem.candidates) / 2)
    seconds = OVERHEAD * products / product_rate() + PICK_SECONDS * problem.budget + ROW_SECONDS * n
    return Estimate(most_bytes(n, d, problem.memory_limit), seconds, engine)


@dataclass(frozen=True, slots=True)
class CpuCoverage:
    """Exact, lazy, on every core."""

    name: ClassVar[str] = "cpu"
    solves: ClassVar[tuple[type, ...]] = (CoverageProblem,)
    keeps_quotas: ClassVar[bool] = True

    def refusals(self, problem: CoverageProblem) -> list[str]:
        """It takes every problem, but for rows wider than its bounds hold for."""
        d = problem.pool.shape[1]
        return [f"{d} features are more than the {WIDEST_ROW} it has bounds for"] if d > WIDEST_ROW else []

    def pays(self, problem: CoverageProblem) -> bool:
        """Always: it is what every machine has."""
        return True

    def estimate(self, problem: CoverageProblem) -> Estimate:
        """See `dubito.engines.cpu.coverage.engine`."""
        return cost_of(problem, self.name)

    def catch_up(self, problem: CoverageProblem) -> None:
        """Nothing: distances to what is labeled are those of a core-set, which a `Pool` asks for."""

    def solve(self, problem: CoverageProblem) -> Solution:
        """See `dubito.engines.cpu.coverage`, which is loaded when it is wanted."""
        from dubito.engines.cpu.coverage.solver import solve

        return solve(problem)
