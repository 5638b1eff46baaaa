"""How coverage shares out the memory of a GPU."""

from dataclasses import dataclass

from dubito.core.coverage_reference import CoverageProblem
from dubito.engines.cuda.memory import DeviceSizes
from dubito.engines.cuda.solver import free_bytes
from dubito.errors import MemoryLimit, named
from dubito.matrix import OnDevice, len_of

STATE_BYTES = 120
"""For each row of the pool: distances, limits, cover, weights, bounds, and the marks of the rounds."""
PAIR_BYTES = 112
"""A pair as it is found, settled, sorted both ways about, and kept."""
FEWEST_PAIRS = 4
"""For each row of the pool, room for as many pairs is the least."""


@dataclass(frozen=True, slots=True)
class DeviceCoverPlan:
    """Sizes for finding what is nearest, room for pairs, and bytes in all."""

    sizes: DeviceSizes
    n_pairs: int
    n_bytes: int


def plan_for(problem: CoverageProblem, device: str) -> DeviceCoverPlan:
    """What fits the device, or MemoryLimit."""
    return plan_within(problem, free_bytes(problem.memory_limit, device))


def plan_within(problem: CoverageProblem, free: int) -> DeviceCoverPlan:
    """What fits some bytes, or MemoryLimit: the pool must be there whole."""
    (n, d), m = problem.pool.shape, len_of(problem.references)
    kept = (STATE_BYTES + point_bytes(problem)) * n + m * d * 12
    sizes = DeviceSizes()
    while kept + sizes.working_bytes(d) > free // 2 and sizes.front > 64:
        sizes = sizes.smaller()
    kept += sizes.working_bytes(d)
    least = kept + FEWEST_PAIRS * PAIR_BYTES * n
    if least > free:
        raise MemoryLimit(
            f"coverage of {n} rows of {d} features needs {-(-least // 10**6)} MB of GPU memory, and "
            f"{-(-free // 10**6)} MB may be used",
            hint=f"free some, raise {named('memory_limit')}, pass float16 features, or pass {named('engine', 'cpu')}.",
        )
    n_pairs = min((free - kept) // PAIR_BYTES, 2**31 - 1)
    return DeviceCoverPlan(sizes, n_pairs, free)


def point_bytes(problem: CoverageProblem) -> int:
    """For each row: its features where they are not there yet, and as products take them."""
    d, dtype = problem.pool.shape[1], problem.pool.dtype
    is_kept = dtype.kind == "f" and dtype.isnative and problem.metric == "euclidean"
    own = 0 if isinstance(problem.pool, OnDevice) and is_kept else d * (dtype.itemsize if is_kept else 8)
    return own + 4 * d
