"""What the lazy algorithm asks of the candidates, wherever they lie: in this process, or in many."""

import time
from collections.abc import Callable
from dataclasses import dataclass
from typing import Protocol

import numpy as np

from dubito.core.problem import Configuration, Progress
from dubito.engines.lazy.front import Front, Threshold
from dubito.matrix import AnyArray, BoolArray, FloatArray, IntArray


@dataclass(frozen=True, slots=True)
class Fresh:
    """Candidates whose priorities are exact, ascending, and what comes next of all others."""

    rows: IntArray
    values: FloatArray
    """(K,) squared priorities; -1 once picked."""
    threshold: Threshold


class Frontier(Protocol):
    """Candidates in the order of what is known of them. They go by numbers, in the order of the pool."""

    @property
    def front_rows(self) -> int:
        """How many candidates a front should have."""
        ...

    @property
    def is_cold(self) -> bool:
        """Whether nothing is labelled."""
        ...

    def cold_order(self, n_wanted: int) -> IntArray:
        """The first candidates as a cold start takes them."""
        ...

    def open(self, first: IntArray) -> None:
        """Bound every candidate by what is labelled and by these picks, which are references from now on."""
        ...

    def open_apart(self, first: IntArray) -> None:
        """Bound every candidate by the farthest of these, which are picks of different configurations."""
        ...

    def fresh(self, size: int, own: IntArray) -> Fresh:
        """The first candidates in order, and some others, all of them up to date."""
        ...

    def front(self, rows: IntArray) -> Front:
        """Fresh candidates with all distances among them."""
        ...

    def close(self, rows: IntArray, values: FloatArray, picks: IntArray) -> None:
        """Leave a front: what its candidates fell to, and those that are references from now on."""
        ...

    def drop(self, rows: IntArray) -> None:
        """Candidates that may not be picked any more."""
        ...

    def zeros(self, n_wanted: int | None) -> IntArray:
        """The first candidates that are left, all of whose priorities are 0; every one for None."""
        ...

    def largest(self) -> float:
        """No squared priority is larger."""
        ...

    def scores(self, rows: IntArray) -> IntArray:
        """What a beam ranks candidates by."""
        ...

    def configuration(self, rows: IntArray, squared: FloatArray, radius: float) -> Configuration:
        """These picks with their squared priorities."""
        ...


# What the lazy algorithm asks of a machine: all the work on features is here, and nothing else touches them.


class Kernels(Protocol):
    """The work on features, which each machine does its own way. Candidates are numbered 0 to n - 1."""

    @property
    def front_rows(self) -> int:
        """How many candidates a front should have."""
        ...

    def first_bounds(self) -> tuple[FloatArray, AnyArray]:
        """(n,) upper bounds on squared priorities, and (n,) how many references they account for."""
        ...

    def farthest_bounds(self, picks: IntArray) -> FloatArray:
        """(n,) upper bounds on the squared priorities that any single one of these candidates would leave."""
        ...

    def refresh(
        self, rows: IntArray, bounds: FloatArray, seen: AnyArray, needed: float
    ) -> tuple[FloatArray, BoolArray]:
        """Exact squared priorities of these candidates against every reference, and True where they are.

        A candidate whose bound falls under ``needed`` may be left there, unfinished.
        """
        ...

    def front(self, rows: IntArray) -> Front:
        """These candidates with all distances among them."""
        ...

    def add_references(self, picks: IntArray) -> None:
        """These candidates are references from now on."""
        ...


# Telling how far a run is.

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
