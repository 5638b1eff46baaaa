"""The estimated cost of a problem on the CPU engine."""

from dubito.core.problem import Problem
from dubito.engines.base import Estimate
from dubito.engines.cpu.kernels import ANCHORS
from dubito.engines.cpu.memory import default_bytes, plan_memory
from dubito.engines.cpu.sketch import NARROWEST, SKETCH_WIDTH
from dubito.engines.cpu.speed import product_rate, slowness
from dubito.matrix import len_of

CALL_SECONDS, ROW_SECONDS = 1.5e-3, 2e-7
"""Time of a call, and of checking a row and its probabilities."""
PICK_SECONDS, STEP_SECONDS = 10e-6, 180e-6
"""Time of a greedy pick inside a front, and of a step of a beam, including NumPy's overhead."""
STEP_WIDTH = 20
"""Maximum number of configurations of such a step; the time of wider beams is proportional to their width."""
PAIR_SECONDS = 12e-6
"""Time of the exact distances of a refreshed row."""
READ_SECONDS = 4e-9
"""Time of reading one feature of the pool once."""
FRONT_PRODUCTS = 384.0
"""Number of products inside fronts, per pick and feature."""
TOUCHED = 3.0
"""Number of rows refreshed per pick: most rows of a pool are never refreshed."""
TOUCHED_SHARE = 0.08
"""Share of all rows that are refreshed in addition if doubt does not scale distances."""


def cost_of(problem: Problem, engine: str) -> Estimate:
    """Bytes and seconds; raises MemoryLimit if the limit is too small."""
    (n, d), m, limit = problem.pool.shape, len_of(problem.references), problem.memory_limit
    plan_memory(n, d, limit)
    n_bytes = default_bytes(n, d, m + problem.budget) if limit is None else limit
    return Estimate(n_bytes, _seconds(len(problem.candidates), d, m, problem), engine)


def _seconds(n: int, d: int, m: int, problem: Problem) -> float:
    budget, width = problem.budget, problem.beam_width
    touched = min(n, TOUCHED * budget + (TOUCHED_SHARE * n if problem.weights is None else 0.0))
    sketch = d if d < NARROWEST else SKETCH_WIDTH + 2
    products = 2.0 * (n * d * ANCHORS + touched * (m + budget / 2) * sketch + FRONT_PRODUCTS * budget * d)
    picking = budget * (PICK_SECONDS if width == 1 else STEP_SECONDS * max(1.0, width / STEP_WIDTH))
    others = CALL_SECONDS + ROW_SECONDS * len_of(problem.pool) + touched * PAIR_SECONDS + picking + READ_SECONDS * n * d
    return products / product_rate() + others * slowness()
