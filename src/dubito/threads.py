"""How many threads to use, and threads for NumPy work, which releases the GIL."""

import os
import sys
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from functools import cache
from threading import Lock
from typing import Any

VARIABLE = "DUBITO_THREADS"
"""Environment variable: the maximum number of threads. Cluster workers, one per core, set it to 1."""
BLAS_VARIABLES = ("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS")
"""A limit on BLAS threads applies to ours too, unless `VARIABLE` is set."""


def n_threads() -> int:
    """Cores that this process may use, limited by `VARIABLE`, or else by `BLAS_VARIABLES` and threadpoolctl."""
    for n_before in _n_threads_before_limit:
        return n_before
    limits = _read(VARIABLE) or [each for name in BLAS_VARIABLES for each in _read(name)] + _blas_limits()
    return min([count_cores(), *limits])


def _read(name: str) -> list[int]:
    """The number in an environment variable, if any. OMP_NUM_THREADS may be a list with a number per nesting level."""
    first = os.environ.get(name, "").partition(",")[0].strip()
    return [max(1, int(first))] if first.isdecimal() else []


def count_cores() -> int:
    """Cores that this process may use, according to its CPU affinity where the system supports it."""
    if hasattr(os, "process_cpu_count"):  # Python 3.13.
        return os.process_cpu_count() or 1
    # os.cpu_count reads a file on each call.
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1


# BLAS libraries, through threadpoolctl.


def _blas_limits() -> list[int]:
    """Numbers of threads of the BLAS libraries that threadpoolctl limits: those with fewer threads than by default."""
    if "threadpoolctl" not in sys.modules:
        return []
    libraries = zip(_blas().lib_controllers, _default_threads(), strict=True)
    return [each.num_threads for each, default in libraries if 0 < each.num_threads < default]


@cache
def _blas() -> Any:
    from threadpoolctl import ThreadpoolController

    return ThreadpoolController().select(user_api="blas")


@cache
def _default_threads() -> list[int]:
    """The number of threads of each BLAS library on the first call. If it is 1, a temporary limit is assumed."""
    return [max(2, each.num_threads) if each.threading_layer != "disabled" else 1 for each in _blas().lib_controllers]


_blas_lock, _n_threads_before_limit = Lock(), list[int]()
"""A lock that is held while BLAS is limited to one thread, and the result of `n_threads` before that."""


@contextmanager
def single_blas_thread() -> Iterator[None]:
    """Limit BLAS to one thread, for many small products; the result of `n_threads` does not change.

    BLAS threads spin while they wait for each other after every product. If other processes compete for the cores,
    small products then take many times as long. The limit holds in all threads of the process; if several threads call
    this at the same time, the first one sets and ends the limit.
    """
    if not _blas_lock.acquire(blocking=False):
        yield
        return
    try:
        _n_threads_before_limit.append(n_threads())
        with _blas().limit(limits=1):
            yield
    finally:
        _n_threads_before_limit.clear()
        _blas_lock.release()


def parallel_map(function: Callable[..., None], tasks: Iterable[tuple[object, ...]]) -> None:
    """Call ``function(*task)`` for every task, on several threads, with BLAS limited to one thread.

    After an error or Ctrl-C, tasks that have not started are canceled.
    """
    tasks, n_workers = list(tasks), n_threads()
    with single_blas_thread():
        if len(tasks) < 2 or n_workers == 1:
            for task in tasks:
                function(*task)
            return
        with ThreadPoolExecutor(n_workers) as executor:
            futures = [executor.submit(function, *task) for task in tasks]
            try:
                for future in futures:
                    future.result()
            finally:
                executor.shutdown(cancel_futures=True)
