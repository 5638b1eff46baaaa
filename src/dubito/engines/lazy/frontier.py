"""Interfaces of the lazy algorithm: candidates (`Frontier`), work on features (`Kernels`), progress (`Reporter`)."""

import time
from collections.abc import Callable
from dataclasses import dataclass
from typing import Protocol

import numpy as np

from dubito.core.problem import Configuration, PhasedProgress, Progress
from dubito.engines.lazy.front import Front, Threshold
from dubito.matrix import AnyArray, BoolArray, FloatArray, IntArray


@dataclass(frozen=True, slots=True)
class Fresh:
    """Candidates with exact priorities, in ascending order, and the first of all others."""

    rows: IntArray
    values: FloatArray
    """(K,) squared priorities; -1 once picked."""
    threshold: Threshold


class Frontier(Protocol):
    """The candidates and their bounds, in this process or in several. Candidates are numbered in pool order."""

    @property
    def front_rows(self) -> int:
        """The preferred number of candidates in a front."""

    @property
    def is_cold(self) -> bool:
        """Whether there are no labeled points."""

    def cold_order(self, n_wanted: int) -> IntArray:
        """The first candidates in the order of a cold start."""

    def open(self, first: IntArray) -> None:
        """Bound every candidate by the labeled points and by these picks, which become references."""

    def open_cold_beam(self, first: IntArray) -> None:
        """Bound every candidate by the farthest of these, the first picks of different configurations."""

    def fresh(self, size: int, own: IntArray) -> Fresh:
        """The first ``size`` candidates and the candidates ``own``, all refreshed."""

    def front(self, rows: IntArray) -> Front:
        """Fresh candidates with their pairwise distances."""

    def close(self, rows: IntArray, values: FloatArray, picks: IntArray) -> None:
        """Write back the bounds of a front's candidates; ``picks`` become references."""

    def drop(self, rows: IntArray) -> None:
        """Exclude candidates from further picks."""

    def zeros(self, n_wanted: int | None) -> IntArray:
        """The first remaining candidates, all of which have priority 0; all of them for None."""

    def largest(self) -> float:
        """An upper bound on all squared priorities."""

    def scores(self, rows: IntArray) -> IntArray:
        """The fixed-point doubt by which a beam ranks candidates."""

    def configuration(self, rows: IntArray, squared: FloatArray, radius: float) -> Configuration:
        """The result for these picks with their squared priorities."""


class Kernels(Protocol):
    """All work on features, implemented for each device. Candidates are numbered 0 to n - 1."""

    @property
    def front_rows(self) -> int:
        """The preferred number of candidates in a front."""

    def first_bounds(self) -> tuple[FloatArray, AnyArray]:
        """(n,) upper bounds on squared priorities, and (n,) the number of references they account for."""

    def farthest_bounds(self, picks: IntArray) -> FloatArray:
        """(n,) upper bounds on the squared priorities that any single one of these candidates would leave."""

    def refresh(
        self, rows: IntArray, bounds: FloatArray, seen: AnyArray, needed: float
    ) -> tuple[FloatArray, BoolArray]:
        """Squared priorities of these candidates against every reference, and True where they are exact.

        A candidate whose bound falls below ``needed`` may keep that bound.
        """

    def front(self, rows: IntArray) -> Front:
        """These candidates with their pairwise distances."""

    def add_references(self, picks: IntArray) -> None:
        """Make these candidates references."""


REPORT_SECONDS = 0.1


class Reported(Protocol):
    """A problem of any kind, as far as progress reports need it."""

    @property
    def budget(self) -> int:
        """Number of picks."""

    @property
    def progress(self) -> Progress | None:
        """The progress callback."""


class Reporter:
    """Calls ``progress`` at most ten times a second, and at the end."""

    def __init__(self, problem: Reported) -> None:
        self.problem = problem
        self.started = self.reported = time.perf_counter()

    def report(self, done: int, squared_radius: Callable[[], float] | None) -> None:
        """Report progress if it is time to. ``squared_radius`` is called only then; None if there is no radius."""
        now, total, progress = time.perf_counter(), self.problem.budget, self.problem.progress
        if progress is not None and (now - self.reported > REPORT_SECONDS or done == total):
            self.reported = now
            radius = None if squared_radius is None else float(np.sqrt(max(squared_radius(), 0.0)))
            progress(done, total, radius, now - self.started)

    def report_phase(self, name: str, share: float) -> None:
        """Report a phase before the first pick, and the share of it that is done, if it is time to."""
        now, progress = time.perf_counter(), self.problem.progress
        if progress is not None and now - self.reported > REPORT_SECONDS:
            self.reported = now
            if isinstance(progress, PhasedProgress):
                progress.phase(name, share, now - self.started)
            else:
                progress(0, self.problem.budget, None, now - self.started)
