"""A thread pool for NumPy work, which releases the GIL."""

import os
import sys
from collections.abc import Callable, Iterable
from concurrent.futures import ThreadPoolExecutor
from functools import cache
from typing import Any

VARIABLE = "DUBITO_THREADS"
"""Environment variable: the maximum number of threads. Cluster workers, one per core, set it to 1."""
BLAS_VARIABLES = ("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS")
"""A limit on BLAS threads applies to ours too."""


def n_threads() -> int:
    """Cores that this process may use, limited by the environment variables and by threadpoolctl."""
    limits = [os.environ.get(name, "") for name in (VARIABLE, *BLAS_VARIABLES)]
    return min([count_cores(), *(max(1, int(limit)) for limit in limits if limit.isdecimal()), *_blas_limits()])


def _blas_limits() -> list[int]:
    """Threads of the BLAS libraries, if they are fewer than at first: then threadpoolctl limits them."""
    if "threadpoolctl" not in sys.modules:
        return []
    return [blas.num_threads for blas, at_first in _blas_libraries() if 0 < blas.num_threads < at_first]


@cache
def _blas_libraries() -> list[tuple[Any, int]]:
    from threadpoolctl import ThreadpoolController

    return [(each, each.num_threads) for each in ThreadpoolController().select(user_api="blas").lib_controllers]


def count_cores() -> int:
    """Cores that this process may use, by its affinity where the system has one."""
    if hasattr(os, "process_cpu_count"):  # Python 3.13.
        return os.process_cpu_count() or 1
    # os.cpu_count reads a file on each call.
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1


def parallel_map(function: Callable[..., None], tasks: Iterable[tuple[object, ...]]) -> None:
    """Call ``function(*task)`` for every task; after an error or Ctrl-C, tasks that have not started are canceled."""
    tasks = list(tasks)
    if len(tasks) < 2 or n_threads() == 1:
        for task in tasks:
            function(*task)
        return
    with ThreadPoolExecutor(n_threads()) as executor:
        futures = [executor.submit(function, *task) for task in tasks]
        try:
            for future in futures:
                future.result()
        finally:
            executor.shutdown(cancel_futures=True)
