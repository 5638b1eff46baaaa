"""What coverage will cost the CPU engine, before it runs."""

import numpy as np

from dubito.coverage import CoverageProblem
from dubito.engines.base import Estimate
from dubito.engines.cpu.cost import product_rate
from dubito.engines.cpu.coverage.memory import most_bytes, plan_cover
from dubito.engines.cpu.coverage.probes import NARROWEST
from dubito.matrix import len_of

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
