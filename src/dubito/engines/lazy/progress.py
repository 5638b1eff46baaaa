"""Telling how far a run is."""

import time
from collections.abc import Callable
from typing import Protocol

import numpy as np

from dubito.problem import Progress

REPORT_SECONDS = 0.1


class Reported(Protocol):
    """A problem of any kind."""

    @property
    def budget(self) -> int:
        """Picks wanted."""
        ...

    @property
    def progress(self) -> Progress | None:
        """Whom to tell."""
        ...


class Reporter:
    """Calls ``progress`` a few times a second, and at the end."""

    def __init__(self, problem: Reported) -> None:
        self.problem = problem
        self.started = self.reported = time.perf_counter()

    def report(self, done: int, squared_radius: Callable[[], float] | None) -> None:
        """Tell how far it is; the radius is asked for only then, and None for what has none."""
        now, total, progress = time.perf_counter(), self.problem.budget, self.problem.progress
        if progress is not None and (now - self.reported > REPORT_SECONDS or done == total):
            self.reported = now
            radius = None if squared_radius is None else float(np.sqrt(max(squared_radius(), 0.0)))
            progress(done, total, radius, now - self.started)
