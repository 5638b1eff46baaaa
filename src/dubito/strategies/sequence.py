"""Picking one point after another: progress is told along the way, and Ctrl-C keeps the picks so far."""

import time
from collections.abc import Callable

import numpy as np

from dubito.problem import Configuration, Request
from dubito.strategies.base import Choice, without_distances

REPORT_SECONDS = 0.25

Pick = Callable[[], tuple[int, float]]
"""Makes the next pick: its position among the candidates, and its priority."""


def pick_in_turn(request: Request, pick: Pick) -> Choice:
    """``budget`` picks, or fewer after Ctrl-C: a prefix of the whole answer."""
    positions, priorities, complete = list[int](), list[float](), True
    started = reported = time.perf_counter()
    try:
        while len(positions) < request.budget:
            position, priority = pick()
            positions.append(position)
            priorities.append(priority)
            now, is_last = time.perf_counter(), len(positions) == request.budget
            if request.progress is not None and (is_last or now - reported > REPORT_SECONDS):
                reported = now
                request.progress(len(positions), request.budget, None, now - started)
    except KeyboardInterrupt:
        complete = False
    indices = request.candidates[np.array(positions, dtype=np.int64)]
    if len(indices) == 0:
        return Choice((Configuration(indices, np.empty(0), radius=None),), complete=complete)
    return Choice(without_distances(request, indices, np.array(priorities)).configurations, complete=complete)
