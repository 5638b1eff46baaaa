"""Interfaces of the lazy algorithm: `CandidateBounds`, `Kernels` (computations on features), and progress reports."""

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
    """Candidates with exact priorities, ascending by number, and the first of all others."""

    rows: IntArray
    values: FloatArray
    """(K,) squared priorities; -1 once picked."""
    threshold: Threshold


class CandidateBounds(Protocol):
    """Candidates and their bounds, in this process or in several. Candidates are numbered in the order of the pool."""

    @property
    def front_rows(self) -> int:
        """The preferred number of candidates in a front."""

    @property
    def is_cold(self) -> bool:
        """Whether there are no labeled points."""

    def cold_order(self, n_first: int) -> IntArray:
        """The first candidates in the order of a cold start."""

    def open(self, first: IntArray) -> None:
        """Compute first bounds from the labeled points and these first picks, which become references."""

    def open_cold_beam(self, first: IntArray) -> None:
        """Compute first bounds from these first picks, each of a different configuration: the farthest one counts."""

    def fresh(self, size: int, own: IntArray) -> Fresh:
        """The first ``size`` candidates and the configurations' ``own`` picks, all refreshed."""

    def front(self, rows: IntArray) -> Front:
        """Refreshed candidates with their pairwise distances."""

    def close(self, rows: IntArray, values: FloatArray, picks: IntArray) -> None:
        """Write back the bounds of a front's candidates; ``picks`` become references."""

    def drop(self, rows: IntArray) -> None:
        """Exclude candidates from further picks."""

    def zeros(self, n_first: int | None) -> IntArray:
        """The first ``n_first`` remaining candidates, or all for None, when all remaining priorities are 0."""

    def largest(self) -> float:
        """An upper bound on all squared priorities."""

    def scores(self, rows: IntArray) -> IntArray:
        """The fixed-point doubt by which a beam ranks candidates."""

    def configuration(self, rows: IntArray, squared: FloatArray, radius: float) -> Configuration:
        """The result for these picks with their squared priorities."""


class Kernels(Protocol):
    """All computations on features, implemented for each device. Candidates are numbered 0 to n - 1."""

    @property
    def front_rows(self) -> int:
        """The preferred number of candidates in a front."""

    def first_bounds(self) -> tuple[FloatArray, AnyArray]:
        """(n,) upper bounds on squared priorities, and (n,) the number of references they account for."""

    def farthest_bounds(self, picks: IntArray) -> FloatArray:
        """(n,) upper bounds on the squared priorities after picking any single one of these candidates."""

    def refresh(
        self, rows: IntArray, bounds: FloatArray, seen: AnyArray, needed: float
    ) -> tuple[FloatArray, BoolArray]:
        """Squared priorities of these candidates given all references, and True where they are exact.

        A candidate whose bound falls below ``needed`` may keep that bound.
        """

    def front(self, rows: IntArray) -> Front:
        """These candidates with their pairwise distances."""

    def add_references(self, picks: IntArray) -> None:
        """Make these candidates references."""


REPORT_SECONDS = 0.1


class Reported(Protocol):
    """The attributes of a problem, of any kind, that progress reports need."""

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
        """Report progress if it is due. ``squared_radius`` is called only then; None if there is no radius."""
        now, total, progress = time.perf_counter(), self.problem.budget, self.problem.progress
        if progress is not None and (now - self.reported > REPORT_SECONDS or done == total):
            self.reported = now
            radius = None if squared_radius is None else float(np.sqrt(max(squared_radius(), 0.0)))
            progress(done, total, radius, now - self.started)

    def report_phase(self, name: str, share: float) -> None:
        """Report a phase before the first pick, and the share of it that is done, if a report is due."""
        now, progress = time.perf_counter(), self.problem.progress
        if progress is not None and now - self.reported > REPORT_SECONDS:
            self.reported = now
            if isinstance(progress, PhasedProgress):
                progress.phase(name, share, now - self.started)
            else:
                progress(0, self.problem.budget, None, now - self.started)
