"""How coverage uses the memory of a GPU, and its estimated cost."""

from dataclasses import dataclass

import numpy as np

from dubito.core.coverage_reference import CoverageProblem
from dubito.engines.base import Estimate
from dubito.engines.cuda.memory import DeviceSizes
from dubito.engines.cuda.solver import (
    CALL_SECONDS,
    RATE_FRACTION,
    ROW_SECONDS,
    TRANSFER_RATE,
    free_bytes,
    product_rate,
)
from dubito.errors import MemoryLimit, named
from dubito.matrix import OnDevice, len_of

STATE_BYTES = 640
"""Per row of the pool: distances, limits, cover, weights, bounds, sketches, and the state of the rounds."""
PAIR_BYTES = 112
"""Per pair: its rows, kernel and term, and temporary copies for sorting."""
GROUP_PAIR_BYTES = 40
"""Additional memory per pair for groups: copies when the pairs of a group are joined."""
MIN_PAIRS = 4
"""The minimum number of pairs in memory, per row of the pool."""


@dataclass(frozen=True, slots=True)
class DeviceCoverPlan:
    """Block sizes, the maximum number of pairs, and the bytes of everything."""

    sizes: DeviceSizes
    n_pairs: int
    n_bytes: int


def plan_for(problem: CoverageProblem, device: str) -> DeviceCoverPlan:
    """A plan that fits the device; raises MemoryLimit if there is none."""
    return plan_memory(problem, free_bytes(problem.memory_limit, device))


def plan_memory(problem: CoverageProblem, free: int) -> DeviceCoverPlan:
    """A plan that fits into ``free`` bytes with the whole pool; raises MemoryLimit if there is none."""
    (n, d), m = problem.pool.shape, len_of(problem.references)
    kept = (STATE_BYTES + point_bytes(problem)) * n + m * d * 12
    sizes = DeviceSizes()
    while kept + sizes.working_bytes(d) > free // 2 and sizes.front > 64:
        sizes = sizes.smaller()
    kept += sizes.working_bytes(d)
    pair_bytes = PAIR_BYTES + (0 if problem.groups is None else GROUP_PAIR_BYTES)
    least = kept + MIN_PAIRS * pair_bytes * n
    if least > free:
        raise MemoryLimit(
            f"coverage of {n} rows of {d} features needs {-(-least // 10**6)} MB of GPU memory, and "
            f"{-(-free // 10**6)} MB may be used",
            hint=f"free some, raise {named('memory_limit')}, pass float16 features, or pass {named('engine', 'cpu')}.",
        )
    n_pairs = min((free - kept) // pair_bytes, 2**31 - 1)
    return DeviceCoverPlan(sizes, n_pairs, free)


def point_bytes(problem: CoverageProblem) -> int:
    """Bytes per row: its features, unless they are on the device already, and its features prepared for products."""
    d, dtype = problem.pool.shape[1], problem.pool.dtype
    is_kept = dtype.kind == "f" and dtype.isnative and problem.metric == "euclidean"
    own = 0 if isinstance(problem.pool, OnDevice) and is_kept else d * (dtype.itemsize if is_kept else 8)
    return own + 4 * d


ROUND_SECONDS = 100e-6
ROUNDS = 200


def cost_of(problem: CoverageProblem, device: str, engine: str) -> Estimate:
    """The additional memory on the device, and seconds."""
    (n, d), m, plan = problem.pool.shape, len_of(problem.references), plan_for(problem, device)
    n_weighted, n_candidates = int(np.count_nonzero(problem.weights)), len(problem.candidates)
    n_pairs = min(plan.n_pairs, n_weighted * n_candidates // max(m, 1) + n)
    n_bytes = (STATE_BYTES + point_bytes(problem)) * n + plan.sizes.working_bytes(d) + PAIR_BYTES * n_pairs
    transfer = 0.0 if isinstance(problem.pool, OnDevice) else n * point_bytes(problem) / TRANSFER_RATE
    products = 2.0 * d * (n_weighted * n_candidates / 2 + 4.0 * n * m)
    seconds = CALL_SECONDS + ROW_SECONDS * n + transfer + products / (RATE_FRACTION * product_rate(device))
    return Estimate(n_bytes, seconds + ROUNDS * ROUND_SECONDS, engine)
