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
    for outside in _n_threads_outside:
        return outside
    own = _read(VARIABLE)
    return min([count_cores(), *(own or [each for name in BLAS_VARIABLES for each in _read(name)] + _blas_limits())])


def _read(name: str) -> list[int]:
    """The number in an environment variable, if there is one. OMP_NUM_THREADS may be a list, by levels of nesting."""
    first = os.environ.get(name, "").partition(",")[0].strip()
    return [max(1, int(first))] if first.isdecimal() else []


def count_cores() -> int:
    """Cores that this process may use, by its affinity where the system has one."""
    if hasattr(os, "process_cpu_count"):  # Python 3.13.
        return os.process_cpu_count() or 1
    # os.cpu_count reads a file on each call.
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1


# BLAS libraries, through threadpoolctl.


def _blas_limits() -> list[int]:
    """Threads of the BLAS libraries that have fewer than by default: then threadpoolctl limits them."""
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
    """The number of threads of each library when this was first called; 1 is assumed to be a temporary limit."""
    return [max(2, each.num_threads) if each.threading_layer != "disabled" else 1 for each in _blas().lib_controllers]


_limiting, _n_threads_outside = Lock(), list[int]()
"""Held while BLAS is limited to one thread, and `n_threads` without that limit."""


@contextmanager
def single_blas_thread() -> Iterator[None]:
    """Limit BLAS to one thread, for many small products; `n_threads` stays as it is.

    BLAS threads spin while they wait for each other after every product. If other processes compete for the cores,
    small products then take many times as long. The limit holds in all threads of the process; if several threads call
    this, the first one sets and ends it.
    """
    if not _limiting.acquire(blocking=False):
        yield
        return
    try:
        _n_threads_outside.append(n_threads())
        with _blas().limit(limits=1):
            yield
    finally:
        _n_threads_outside.clear()
        _limiting.release()


def parallel_map(function: Callable[..., None], tasks: Iterable[tuple[object, ...]]) -> None:
    """Call ``function(*task)`` for every task, with one thread of BLAS each.

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
