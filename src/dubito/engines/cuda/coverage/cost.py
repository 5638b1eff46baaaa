"""What coverage will cost the GPU engine, before it runs, torch started and kernels compiled."""

import numpy as np

from dubito.core.coverage_reference import CoverageProblem
from dubito.engines.base import Estimate
from dubito.engines.cuda.cost import CALL_SECONDS, ROW_SECONDS, SHARE_OF_RATE, WAY_BYTES, product_rate
from dubito.engines.cuda.coverage.memory import PAIR_BYTES, STATE_BYTES, plan_for, point_bytes
from dubito.matrix import OnDevice, len_of

ROUND_SECONDS = 100e-6
ROUNDS = 200


def cost_of(problem: CoverageProblem, device: str, engine: str) -> Estimate:
    """Bytes of the device beyond tensors that are there, and seconds."""
    (n, d), m, plan = problem.pool.shape, len_of(problem.references), plan_for(problem, device)
    n_wanted, n_candidates = int(np.count_nonzero(problem.weights)), len(problem.candidates)
    n_pairs = min(plan.n_pairs, n_wanted * n_candidates // max(m, 1) + n)
    n_bytes = (STATE_BYTES + point_bytes(problem)) * n + plan.sizes.working_bytes(d) + PAIR_BYTES * n_pairs
    way = 0.0 if isinstance(problem.pool, OnDevice) else n * point_bytes(problem) / WAY_BYTES
    products = 2.0 * d * (n_wanted * n_candidates / 2 + 4.0 * n * m)
    seconds = CALL_SECONDS + ROW_SECONDS * n + way + products / (SHARE_OF_RATE * product_rate(device))
    return Estimate(n_bytes, seconds + ROUNDS * ROUND_SECONDS, engine)
