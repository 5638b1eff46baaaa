"""How the CPU kernels divide the memory that they may use."""

from dataclasses import dataclass

from dubito.errors import MemoryLimit

STATE_BYTES = 40
"""For each row of the pool: bound, references seen, index, doubt, weight."""
WORKING_BYTES = 88 << 20
"""Additional memory by default: half for references, half for temporary blocks."""
FIRST_FRONT = 384
"""Number of candidates in a front. Together with the candidates refreshed in advance, they fill one block."""
REFRESH_ROWS = 512
REFERENCE_ROWS = 8192


@dataclass(frozen=True, slots=True)
class CpuPlan:
    """Numbers of rows in blocks, and bytes for references that are stored between refreshes."""

    front_rows: int
    refresh_rows: int
    reference_rows: int
    cache_bytes: int

    @property
    def has_full_blocks(self) -> bool:
        """Whether blocks have the same size as without a limit."""
        return self.refresh_rows == REFRESH_ROWS


def plan_memory(n_pool: int, d: int, limit: int | None) -> CpuPlan:
    """Block sizes for a pool (n, d) within a limit in bytes; raises MemoryLimit if the smallest do not fit."""
    working = WORKING_BYTES if limit is None else limit - STATE_BYTES * n_pool
    if limit is not None and limit < least_bytes(n_pool, d):
        least = least_bytes(n_pool, d)
        raise MemoryLimit(
            f"cannot hold what {n_pool} rows of {d} features need",
            argument="memory_limit",
            value=limit,
            hint=f"pass at least {least} bytes ({-(-least // 10**6)} MB).",
        )
    share = min(1.0, working / (2 * block_bytes(d, FIRST_FRONT, REFRESH_ROWS, REFERENCE_ROWS)))
    return CpuPlan(
        front_rows=min(FIRST_FRONT, max(32, int(FIRST_FRONT * share))),
        refresh_rows=min(REFRESH_ROWS, max(16, int(REFRESH_ROWS * share))),
        reference_rows=min(REFERENCE_ROWS, max(256, int(REFERENCE_ROWS * share))),
        cache_bytes=working // 2,
    )


def block_bytes(d: int, front_rows: int, refresh_rows: int, reference_rows: int) -> int:
    """Upper bound on temporary memory: features in both precisions, products and masks."""
    front = front_rows * (front_rows * 6 + d * 20)
    refresh = refresh_rows * (reference_rows * 6 + d * 24)
    return max(front, refresh) + 12 * refresh_rows * d * 4


def least_bytes(n_pool: int, d: int) -> int:
    """The smallest memory_limit that works."""
    return STATE_BYTES * n_pool + 4 * block_bytes(d, 32, 16, 256) + (6 << 20)


def default_bytes(n_pool: int, d: int, n_references: int) -> int:
    """Upper bound on the memory used without a memory_limit."""
    kept = min(WORKING_BYTES // 2, 8 * n_references * d)
    rows = min(FIRST_FRONT, n_pool), min(REFRESH_ROWS, n_pool), min(REFERENCE_ROWS, n_references)
    return STATE_BYTES * n_pool + kept + block_bytes(d, *rows)
