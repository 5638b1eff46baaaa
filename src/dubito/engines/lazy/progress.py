"""Telling how far a run is."""

import time

import numpy as np

from dubito.problem import Problem

REPORT_SECONDS = 0.1


class Reporter:
    """Calls ``progress`` a few times a second, and at the end."""

    def __init__(self, problem: Problem) -> None:
        self.problem = problem
        self.started = self.reported = time.perf_counter()

    def report(self, done: int, squared_radius: float) -> None:
        """Tell how far it is."""
        now, total, progress = time.perf_counter(), self.problem.budget, self.problem.progress
        if progress is not None and (now - self.reported > REPORT_SECONDS or done == total):
            self.reported = now
            progress(done, total, float(np.sqrt(max(squared_radius, 0.0))), now - self.started)
