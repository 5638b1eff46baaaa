"""Class quotas and spending limits, for any engine.

An engine that supports quotas receives them with the problem. Any other engine solves the problem without quotas, and
its picks are kept up to the first that violates one. The problem is then solved again from there: picks count as
labeled, candidates of full classes are removed, weights and reach do not change. This gives the picks of a greedy
choice among the classes that are not full, with at most one solution per class. Picking stops at the spending limit.
"""

import time
from dataclasses import replace

import numpy as np

from dubito.core.constraints import ROUNDING
from dubito.core.coverage_reference import CoverageProblem, sums_in_order
from dubito.core.problem import Configuration, Known, Problem, Progress, Quotas, Request
from dubito.doubt import uncertainty
from dubito.engines.base import Engine, keeps_quotas
from dubito.engines.dispatch import choose_engine
from dubito.errors import InvalidArgument, named
from dubito.matrix import FloatArray, IntArray, Matrix, Rows, Stack
from dubito.strategies.base import Choice, Strategy

Solvable = Problem | CoverageProblem


def refuse_limits(strategy: Strategy, request: Request) -> None:
    """Raise `InvalidArgument` if costs, quotas or groups are given to a strategy that ignores them."""
    if request.groups is not None:
        refuse_groups(strategy)
    given = "costs" if request.costs is not None else "quotas"
    has_limits = request.costs is not None or request.quotas is not None
    if has_limits and not getattr(strategy, "keeps_limits", False):
        problem = f"is not supported by {named('strategy', strategy.name)}"
        hint = "leave it out, or choose auto, coverage, doubt-coverage, coreset or doubt-coreset."
        raise InvalidArgument(problem, argument=given, hint=hint)


def refuse_groups(strategy: Strategy) -> None:
    """Raise `InvalidArgument` if a strategy does not pick groups."""
    if not getattr(strategy, "picks_groups", False):
        hint = (
            "leave it out, or choose auto, coverage, doubt-coverage, coreset, doubt-coreset, margin, entropy, "
            "least-confidence, bald or random."
        )
        raise InvalidArgument(f"is not supported by {named('strategy', strategy.name)}", argument="groups", hint=hint)


def solve_with_constraints(request: Request, problem: Solvable) -> Choice:
    """Solve a problem with the requested engine, within the request's quotas and spending limit."""
    if request.groups is not None:
        return _solve_groups(request, replace(problem, groups=request.groups.numbers))
    engine: Engine[Solvable] = choose_engine(request.engine, problem)
    if request.quotas is not None:
        problem = replace(problem, candidates=pickable(problem.candidates, request.quotas))
        if keeps_quotas(engine):
            problem, request = replace(problem, quotas=request.quotas), replace(request, quotas=None)
    if request.quotas is None and request.spend is None:
        solution = engine.solve(problem)
        found = tuple(with_uncertainty(each, request, problem) for each in solution.configurations)
        return Choice(found, engine.name, solution.complete)
    run, complete = ConstrainedRun(request, problem, engine), True
    try:
        while complete and run.is_running:
            complete = run.step()
        if complete:
            run.report_end()
    except KeyboardInterrupt:
        complete = False
    return Choice((with_uncertainty(run.configuration(), request, problem),), engine.name, complete)


def _solve_groups(request: Request, problem: Solvable) -> Choice:
    """Solve a problem with groups, whose engines support quotas. Picking stops at the spending limit."""
    if request.quotas is not None:
        problem = replace(problem, candidates=pickable(problem.candidates, request.quotas), quotas=request.quotas)
    engine: Engine[Solvable] = choose_engine(request.engine, problem)
    solution = engine.solve(problem)
    found = solution.configurations[0]
    if problem.costs is not None and request.spend is not None and len(found.indices):
        assert found.groups is not None
        assert request.groups is not None
        prices = np.empty(len(request.groups.names))
        prices[request.groups.numbers] = problem.costs
        found = first_groups(found, problem, int((prices[found.groups].cumsum() <= request.spend * ROUNDING).sum()))
    return Choice((with_uncertainty(found, request, problem),), engine.name, solution.complete)


def first_groups(found: Configuration, problem: Solvable, n_kept: int) -> Configuration:
    """The configuration without all groups after the first ``n_kept``."""
    assert found.groups is not None
    assert found.earned is not None
    assert problem.groups is not None
    if n_kept == len(found.groups):
        return found
    kept = np.isin(problem.groups[found.indices], found.groups[:n_kept])
    return replace(
        found,
        indices=found.indices[kept],
        priorities=found.priorities[:n_kept],
        # The priority of the next group, which exceeded the spending limit.
        radius=None if found.radius is None else float(found.priorities[n_kept]),
        covered=None if found.covered is None else found.covered[:n_kept],
        uncertainty=None,
        groups=found.groups[:n_kept],
        earned=found.earned[kept],
    )


def pickable(candidates: IntArray, quotas: Quotas) -> IntArray:
    """The candidates of classes whose quota is not 0."""
    return candidates[quotas.limits[quotas.classes[candidates]] > 0]


def with_uncertainty(found: Configuration, request: Request, problem: Solvable) -> Configuration:
    """Add the uncertainty if the engine did not compute it because the problem has no doubt."""
    if found.uncertainty is not None or request.doubt is None or len(found.indices) == 0:
        return found
    doubt = request.doubt if problem.doubt is None else problem.doubt
    return replace(found, uncertainty=uncertainty(doubt[found.indices]))


class ConstrainedRun:
    """Picks from the solutions of several subproblems, each of which starts where the limits ended the previous one."""

    def __init__(self, request: Request, problem: Solvable, engine: Engine[Solvable]) -> None:
        self.request, self.problem, self.engine = request, problem, engine
        self.picks = np.empty(0, dtype=np.int64)
        self.priorities, self.covered = np.empty(0), np.empty(0)
        self.radius: float | None = None
        self.reach: float | None = None
        self.is_running = True
        self.known, self.n_reported, self.started = _copy(problem.known), 0, time.perf_counter()

    def step(self) -> bool:
        """Solve once and keep the picks within the limits. Returns False if the engine was interrupted."""
        part = self._subproblem()
        solution = self.engine.solve(part)
        found = solution.configurations[0]
        n_kept, is_spent = self._count_allowed(found.indices)
        self._append(found, n_kept)
        if n_kept < len(found.indices):
            # The next pick was not allowed; its priority is an upper bound on that of the next allowed one.
            self.radius = None if found.radius is None else float(found.priorities[n_kept])
        is_done = is_spent or len(self.picks) == self.problem.budget
        self.is_running = solution.complete and not is_done
        if solution.complete and not is_spent and not self.is_running and self.radius is not None:
            self.radius = self._last_radius(part, found.radius)
        return solution.complete

    def _count_allowed(self, found: IntArray) -> tuple[int, bool]:
        """The number of picks before the first that violates a limit, and whether that was the spending limit."""
        n_kept, is_spent = len(found), False
        quotas = self.request.quotas
        if quotas is not None:
            is_allowed = quotas.allowed(found, quotas.remaining(self.picks))
            n_kept = n_kept if is_allowed.all() else int(np.argmin(is_allowed))
        if self.request.costs is not None and self.request.spend is not None:
            spent = np.cumsum(self.request.costs[np.concatenate([self.picks, found])])[len(self.picks) :]
            n_paid = int(np.count_nonzero(spent <= self.request.spend * ROUNDING))
            n_kept, is_spent = min(n_kept, n_paid), n_paid < n_kept
        return n_kept, is_spent

    def _remaining(self) -> IntArray:
        """Unpicked candidates of classes that are not full."""
        left = np.setdiff1d(self.problem.candidates, self.picks, assume_unique=True)
        quotas = self.request.quotas
        return left if quotas is None else left[quotas.remaining(self.picks)[quotas.classes[left]] > 0]

    def _subproblem(self, budget: int | None = None) -> Solvable:
        """The problem that remains. The first one uses the distances known to a pool."""
        left = self.problem.budget - len(self.picks) if budget is None else budget
        part = replace(self.problem, candidates=self._remaining(), budget=left, progress=self._progress())
        if len(self.picks) == 0:
            return part
        references = references_with(self.problem, self.picks)
        part = replace(part, references=references, known=_copy(self.known))
        return replace(part, radius=self.reach) if isinstance(part, CoverageProblem) else part

    def _append(self, found: Configuration, n_kept: int) -> None:
        priorities, indices = found.priorities[:n_kept], found.indices[:n_kept]
        if found.covered is not None and isinstance(self.problem, CoverageProblem):
            covered = found.covered[:n_kept]
            if len(self.picks):
                costs = 1.0 if self.problem.costs is None else self.problem.costs[indices]
                covered = cumulative_coverage(self.problem.weights, float(self.covered[-1]), priorities * costs)
            self.covered = np.concatenate([self.covered, covered])
        self.picks = np.concatenate([self.picks, indices])
        self.priorities = np.concatenate([self.priorities, priorities])
        self.radius = found.radius
        self.reach = found.reach if self.reach is None else self.reach

    def _last_radius(self, part: Solvable, radius: float | None) -> float | None:
        """The priority of the next pick from the classes that are not full."""
        left = self._remaining()
        if len(left) == 0:
            return 0.0
        if len(left) == len(part.candidates) - part.budget:
            return radius
        found = self.engine.solve(replace(self._subproblem(1), progress=None)).configurations[0]
        return float(found.priorities[0]) if len(found.priorities) else radius

    def _progress(self) -> Progress | None:
        """A callback that reports the subproblems as one run. The last pick is reported by `report_end`."""
        progress, before, total = self.problem.progress, len(self.picks), self.problem.budget
        if progress is None:
            return None

        def report(done: int, _: int, radius: float | None, __: float, /) -> None:
            # Some picks of a solution may be dropped later; reported progress never decreases.
            self.n_reported = max(self.n_reported, min(before + done, total - 1))
            progress(self.n_reported, total, radius, time.perf_counter() - self.started)

        return report

    def report_end(self) -> None:
        if self.problem.progress is not None:
            seconds = time.perf_counter() - self.started
            self.problem.progress(len(self.picks), len(self.picks), self.radius, seconds)

    def configuration(self) -> Configuration:
        return Configuration(
            indices=self.picks,
            priorities=self.priorities,
            radius=self.radius,
            covered=self.covered if isinstance(self.problem, CoverageProblem) else None,
            reach=self.reach,
        )


def references_with(problem: Solvable, picks: IntArray) -> Matrix:
    references = problem.references
    if isinstance(references, Rows) and references.matrix is problem.pool:
        return Rows(problem.pool, np.concatenate([references.rows, picks]))
    return Stack([references, Rows(problem.pool, picks)])


def cumulative_coverage(weights: FloatArray, before: float, gained: FloatArray) -> FloatArray:
    """The fraction of the weight covered after each pick; ``before`` is the fraction before the first."""
    total = float(sums_in_order(weights))
    if total == 0.0:
        return np.ones(len(gained))
    return np.minimum(np.add.accumulate(np.concatenate([[before], gained / total]))[1:], 1.0)


def _copy(known: Known | None) -> Known | None:
    if known is None:
        return None
    return Known(known.squared.copy(), known.seen.copy(), known.added, known.kept)
