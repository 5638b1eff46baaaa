"""`estimate`: bytes and seconds before a run."""

import time
from dataclasses import dataclass

import numpy as np

from dubito.checks import check_integer, check_memory_limit
from dubito.engines.cpu.kernels import ANCHORS
from dubito.engines.cpu.memory import default_bytes, plan_memory
from dubito.engines.cpu.sketch import NARROWEST, SKETCH_WIDTH

PICK_SECONDS, STEP_SECONDS = 10e-6, 180e-6
"""One greedy pick inside a front, and one step of a beam, with NumPy's overhead."""
PAIR_SECONDS = 12e-6
"""Settling a refreshed row."""
TOUCHED = 3.0
"""Rows refreshed for each pick when doubt scales: most of a pool is never looked at closely."""


@dataclass(frozen=True, slots=True)
class Estimate:
    """What a core-set selection will take."""

    bytes: int
    """Memory beyond the inputs, at most."""
    seconds: float
    """On this machine; features without structure can take several times as long."""


def estimate(
    n: int,
    d: int,
    m: int,
    budget: int,
    *,
    beam_width: int = 1,
    scaled: bool = True,
    memory_limit: int | str | None = None,
) -> Estimate:
    """Bytes and seconds of a core-set selection by the CPU engine, before it runs.

    Parameters
    ----------
    n, d : int
        Pool rows and features.
    m : int
        Labelled points.
    budget, beam_width : int
        As in `dubito.select`.
    scaled : bool
        Whether doubt scales the distances; the plain core-set looks at every row.
    memory_limit : int or str, optional
        As in `dubito.select`; one that cannot hold the minimum is an error here too.

    Examples
    --------
    >>> import dubito
    >>> dubito.estimate(45_000, 512, 5_000, 5_000).bytes < 150e6
    True
    """
    n, d = check_integer("n", n, least=1), check_integer("d", d, least=1)
    m, budget = check_integer("m", m, least=0), check_integer("budget", budget, least=1)
    width, limit = check_integer("beam_width", beam_width, least=1), check_memory_limit(memory_limit)
    plan_memory(n, d, limit)
    rate = product_rate()
    touched = min(n, TOUCHED * budget) if scaled else n
    sketch = d if d < NARROWEST else SKETCH_WIDTH + 2
    products = 2.0 * (n * d * ANCHORS + touched * (m + budget / 2) * sketch + 384.0 * budget * d)
    picking = budget * (PICK_SECONDS if width == 1 else STEP_SECONDS * max(1.0, width / 20))
    seconds = products / rate + touched * PAIR_SECONDS + picking + 4e-9 * n * d
    return Estimate(default_bytes(n, d, m + budget) if limit is None else limit, seconds)


def product_rate() -> float:
    """float32 operations a second that BLAS does here, from a product of some milliseconds."""
    block = np.ones((512, 512), dtype=np.float32)
    best = np.inf
    for _ in range(4):
        started = time.perf_counter()
        block @ block
        best = min(best, time.perf_counter() - started)
    return float(2.0 * 512**3 / best)
