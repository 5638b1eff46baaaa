"""Picks within limits, whatever the engine: so many of a class at most, and no more spent than may be.

An engine that keeps quotas is reported of them. Any other solves the problem without, and its picks are taken up to the
first that would break a quota. The problem is then solved again from there: what is picked counts as labelled, the
candidates of classes that are full are left out, weights and reach stay. That is what a greedy choice among the classes
that are not full yet would have picked, and as many solutions as there are classes are enough. Where the money ends, so
do the picks.
"""

import time
from dataclasses import replace
from typing import Protocol, runtime_checkable

import numpy as np

from dubito.core.constraints import ROUNDING
from dubito.core.coverage_reference import CoverageProblem, add_rows
from dubito.core.problem import Configuration, Known, Problem, Progress, Quotas, Request
from dubito.doubt import uncertainty
from dubito.engines.base import Engine, keeps_quotas
from dubito.engines.dispatch import choose_engine
from dubito.errors import InvalidArgument, named
from dubito.matrix import FloatArray, IntArray, Matrix, Rows, Stack
from dubito.strategies.base import Choice, Strategy

Solvable = Problem | CoverageProblem


@runtime_checkable
class KeepsLimits(Protocol):
    """A strategy that says whether it minds costs and quotas."""

    @property
    def keeps_limits(self) -> bool:
        """Whether it does."""
        ...


def refuse_limits(strategy: Strategy, request: Request) -> None:
    """Refuse costs and quotas for a strategy that would not mind them."""
    given = "costs" if request.costs is not None else "quotas"
    has_limits = request.costs is not None or request.quotas is not None
    if has_limits and not (isinstance(strategy, KeepsLimits) and strategy.keeps_limits):
        problem = f"means nothing to {named('strategy', strategy.name)}"
        hint = "leave it out, or choose auto, coverage, doubt-coverage, coreset or doubt-coreset."
        raise InvalidArgument(problem, argument=given, hint=hint)


def ask_within(request: Request, problem: Solvable) -> Choice:
    """What the engine that was asked for makes of a problem, within the request's quotas and spending."""
    engine: Engine[Solvable] = choose_engine(request.engine, problem)
    if request.quotas is not None:
        problem = replace(problem, candidates=allowed(problem.candidates, request.quotas))
        if keeps_quotas(engine):
            problem, request = replace(problem, quotas=request.quotas), replace(request, quotas=None)
    if request.quotas is None and request.spend is None:
        solution = engine.solve(problem)
        found = tuple(doubted(each, request, problem) for each in solution.configurations)
        return Choice(found, engine.name, solution.complete)
    picking, complete = Picking(request, problem, engine), True
    try:
        while complete and picking.goes_on:
            complete = picking.step()
        if complete:
            picking.tell_end()
    except KeyboardInterrupt:
        complete = False
    return Choice((doubted(picking.configuration(), request, problem),), engine.name, complete)


def allowed(candidates: IntArray, quotas: Quotas) -> IntArray:
    """Those whose class may be picked at all."""
    return candidates[quotas.limits[quotas.classes[candidates]] > 0]


def doubted(found: Configuration, request: Request, problem: Solvable) -> Configuration:
    """With its uncertainty, where the engine did not need the doubt and was not told of it."""
    if found.uncertainty is not None or request.doubt is None or len(found.indices) == 0:
        return found
    doubt = request.doubt if problem.doubt is None else problem.doubt
    return replace(found, uncertainty=uncertainty(doubt[found.indices]))


class Picking:
    """A run over several solutions: what is picked, and what the last solution said."""

    def __init__(self, request: Request, problem: Solvable, engine: Engine[Solvable]) -> None:
        self.request, self.problem, self.engine = request, problem, engine
        self.picks = np.empty(0, dtype=np.int64)
        self.priorities, self.covered = np.empty(0), np.empty(0)
        self.radius: float | None = None
        self.reach: float | None = None
        self.goes_on = True
        self.known, self.described, self.started = _copied(problem.known), 0, time.perf_counter()

    def step(self) -> bool:
        """One solution, as far as it keeps within the limits; False where it was interrupted."""
        part = self._rest()
        solution = self.engine.solve(part)
        found = solution.configurations[0]
        n_kept, is_spent = self._within(found.indices)
        self._take(found, n_kept)
        if n_kept < len(found.indices):
            # What comes next was not allowed; its priority is that of the next pick, or more.
            self.radius = None if found.radius is None else float(found.priorities[n_kept])
        is_done = is_spent or len(self.picks) == self.problem.budget
        self.goes_on = solution.complete and not is_done
        if solution.complete and not is_spent and not self.goes_on and self.radius is not None:
            self.radius = self._last_radius(part, found.radius)
        return solution.complete

    def _within(self, found: IntArray) -> tuple[int, bool]:
        """How many of these picks come before the first that breaks a limit, and whether that was the spending."""
        n_kept, is_spent = len(found), False
        quotas = self.request.quotas
        if quotas is not None:
            is_within = quotas.allowed(found, quotas.remaining(self.picks))
            n_kept = n_kept if is_within.all() else int(np.argmin(is_within))
        if self.request.costs is not None and self.request.spend is not None:
            spent = np.cumsum(self.request.costs[np.concatenate([self.picks, found])])[len(self.picks) :]
            n_paid = int(np.count_nonzero(spent <= self.request.spend * ROUNDING))
            n_kept, is_spent = min(n_kept, n_paid), n_paid < n_kept
        return n_kept, is_spent

    def _open(self) -> IntArray:
        """Candidates that are left in classes that are not full."""
        left = np.setdiff1d(self.problem.candidates, self.picks, assume_unique=True)
        quotas = self.request.quotas
        return left if quotas is None else left[quotas.remaining(self.picks)[quotas.classes[left]] > 0]

    def _rest(self, budget: int | None = None) -> Solvable:
        """The problem from here on; at first as it is, with what a pool knows."""
        left = self.problem.budget - len(self.picks) if budget is None else budget
        part = replace(self.problem, candidates=self._open(), budget=left, progress=self._progress())
        if len(self.picks) == 0:
            return part
        references = with_picks(self.problem, self.picks)
        part = replace(part, references=references, known=_copied(self.known))
        return replace(part, radius=self.reach) if isinstance(part, CoverageProblem) else part

    def _take(self, found: Configuration, n_kept: int) -> None:
        priorities, indices = found.priorities[:n_kept], found.indices[:n_kept]
        if found.covered is not None and isinstance(self.problem, CoverageProblem):
            covered = found.covered[:n_kept]
            if len(self.picks):
                costs = 1.0 if self.problem.costs is None else self.problem.costs[indices]
                covered = more_covered(self.problem.weights, float(self.covered[-1]), priorities * costs)
            self.covered = np.concatenate([self.covered, covered])
        self.picks = np.concatenate([self.picks, indices])
        self.priorities = np.concatenate([self.priorities, priorities])
        self.radius = found.radius
        self.reach = found.reach if self.reach is None else self.reach

    def _last_radius(self, part: Solvable, radius: float | None) -> float | None:
        """The priority of the next pick, which must not be of a class that has become full."""
        left = self._open()
        if len(left) == 0:
            return 0.0
        if len(left) == len(part.candidates) - part.budget:
            return radius
        found = self.engine.solve(replace(self._rest(1), progress=None)).configurations[0]
        return float(found.priorities[0]) if len(found.priorities) else radius

    def _progress(self) -> Progress | None:
        """Tells of all solutions as of one; the last pick is reported at the end."""
        tell, before, total = self.problem.progress, len(self.picks), self.problem.budget
        if tell is None:
            return None

        def described(done: int, _: int, radius: float | None, __: float, /) -> None:
            # A solution may have to be taken back in part; what is reported never goes back.
            self.described = max(self.described, min(before + done, total - 1))
            tell(self.described, total, radius, time.perf_counter() - self.started)

        return described

    def tell_end(self) -> None:
        """That all picks are made."""
        if self.problem.progress is not None:
            seconds = time.perf_counter() - self.started
            self.problem.progress(len(self.picks), len(self.picks), self.radius, seconds)

    def configuration(self) -> Configuration:
        """All picks so far."""
        return Configuration(
            indices=self.picks,
            priorities=self.priorities,
            radius=self.radius,
            covered=self.covered if isinstance(self.problem, CoverageProblem) else None,
            reach=self.reach,
        )


def with_picks(problem: Solvable, picks: IntArray) -> Matrix:
    """What is labelled, and what is picked."""
    references = problem.references
    if isinstance(references, Rows) and references.matrix is problem.pool:
        return Rows(problem.pool, np.concatenate([references.rows, picks]))
    return Stack([references, Rows(problem.pool, picks)])


def more_covered(weights: FloatArray, before: float, gained: FloatArray) -> FloatArray:
    """Shares that are covered after each pick, from that before them and what each adds."""
    total = float(add_rows(weights))
    if total == 0.0:
        return np.ones(len(gained))
    return np.minimum(np.add.accumulate(np.concatenate([[before], gained / total]))[1:], 1.0)


def _copied(known: Known | None) -> Known | None:
    if known is None:
        return None
    return Known(known.squared.copy(), known.seen.copy(), known.added, known.kept)
