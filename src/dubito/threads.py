"""The same work on many pieces, on every core. NumPy lets go of the interpreter in all that takes long."""

import os
from collections.abc import Callable, Iterable
from concurrent.futures import ThreadPoolExecutor

VARIABLE = "DUBITO_THREADS"
"""An environment variable: so many threads at most. The workers of a cluster, one for each processor, set it to 1."""
PRODUCTS = ("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS")
"""The same of NumPy's own products: who asks those for fewer threads means ours, too."""


def n_threads() -> int:
    """Cores that this process may use, as far as the system tells."""
    counted = _cores()
    said = [os.environ.get(name, "") for name in (VARIABLE, *PRODUCTS)]
    return min([counted, *(max(1, int(most)) for most in said if most.isdecimal())])


def _cores() -> int:
    if hasattr(os, "process_cpu_count"):
        return os.process_cpu_count() or 1
    # To count the machine's, as all there is elsewhere, is to read a file.
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1


def each(work: Callable[..., None], pieces: Iterable[tuple[object, ...]]) -> None:
    """Do ``work(*piece)`` for every piece; an error, or Ctrl-C, ends it once the pieces begun are done."""
    waiting = list(pieces)
    if len(waiting) < 2 or n_threads() == 1:
        for piece in waiting:
            work(*piece)
        return
    with ThreadPoolExecutor(n_threads()) as workers:
        futures = [workers.submit(work, *piece) for piece in waiting]
        try:
            for future in futures:
                future.result()
        finally:
            workers.shutdown(cancel_futures=True)
