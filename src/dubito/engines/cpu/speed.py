"""The speed of this machine, measured in a few milliseconds, for estimates of time."""

import time
from functools import cache

import numpy as np

from dubito.threads import n_threads, single_blas_thread

TRIALS = 5
PASS_SECONDS = 0.35e-3
"""The result of `_pass_trial` on the machine on which the constants of estimates were fitted."""


def product_rate() -> float:
    """float32 operations per second in matrix products, on all threads that may be used."""
    return _thread_rate() * n_threads()


def slowness() -> float:
    """Time of other NumPy operations, relative to the machine on which the constants of estimates were fitted."""
    return _pass_trial() / PASS_SECONDS


def _clock() -> float:
    """CPU time of this thread, which other processes do not affect, or elapsed time if its resolution is too low."""
    is_fine = time.get_clock_info("thread_time").resolution <= 1e-6
    return time.thread_time() if is_fine else time.perf_counter()


@cache
def _thread_rate() -> float:
    block, best = np.ones((384, 384), dtype=np.float32), np.inf
    with single_blas_thread():
        for _ in range(TRIALS):
            started = _clock()
            block @ block
            best = min(best, _clock() - started)
    return float(2.0 * len(block) ** 3 / best)


@cache
def _pass_trial() -> float:
    """Seconds to sort some numbers and add them."""
    values, best = np.random.default_rng(0).random((64, 256)), np.inf
    for _ in range(TRIALS):
        started = _clock()
        for _ in range(4):
            np.sort(values, axis=1)
            (values * values + values).sum(axis=1)
        best = min(best, _clock() - started)
    return float(best)
