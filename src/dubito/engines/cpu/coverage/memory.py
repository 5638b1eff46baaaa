"""How coverage shares out the memory it may use."""

from dataclasses import dataclass

from dubito.errors import MemoryLimit
from dubito.threads import n_threads

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
