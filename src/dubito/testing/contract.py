"""The contract of core-set engines and of strategies."""

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, replace
from functools import lru_cache

import numpy as np

from dubito.api import select
from dubito.core import reference
from dubito.core.problem import Configuration, Known, Problem, Selection
from dubito.engines.base import Engine, keeps_quotas
from dubito.matrix import AnyArray, FloatArray, IntArray, len_of
from dubito.strategies import Strategy
from dubito.testing.problems import make_problem

MANY_ROWS = 300
"""Number of rows in problems for engines that refuse small ones."""


def check_engine(engine: Engine[Problem], *, examples: int = 200, seed: int = 0, beams: bool = True) -> None:
    """Check that an engine returns the picks of `dubito.core.reference`, bit for bit, and leaves its inputs unchanged.

    Parameters
    ----------
    engine : Engine
        The engine to test. A problem that it refuses is made larger, then left out; it must accept at least one in ten.
    examples : int
        Number of problems, a few milliseconds each.
    seed : int
        The seed of the first problem; see `make_problem`.
    beams : bool
        Whether to include beams of up to five configurations.

    Examples
    --------
    >>> from dubito.engines.reference_engine import ReferenceEngine
    >>> check_engine(ReferenceEngine(), examples=5)
    """
    label = f"engine {engine.name!r}"
    n_accepted = 0
    for number in range(seed, seed + examples):
        problem_rows, problem = 1, make_problem(number, beams=beams)
        if engine.refusals(problem):
            problem_rows, problem = MANY_ROWS, make_problem(number, beams=beams, least_rows=MANY_ROWS)
        if engine.refusals(problem):
            continue
        made = f"make_problem({number}, beams={beams}, least_rows={problem_rows})"
        problem = problem if keeps_quotas(engine) else replace(problem, quotas=None)
        n_accepted += 1
        before = _contents(problem)
        solution = engine.solve(problem)
        assert _contents(problem) == before, f"{label} changed its input: {made}"
        assert solution.complete, f"{label} returned complete=False for {made} without an interruption."
        expected = _reference_solution(number, beams, problem_rows, problem.quotas is not None)
        difference = _difference(expected, solution.configurations)
        assert not difference, f"{label} differs from the reference on {made}: {difference}"
    assert n_accepted * 10 >= examples, f"{label} refused {examples - n_accepted} of {examples} problems."
    _check_interruption(engine)
    _check_answers(engine)


@lru_cache(maxsize=2000)
def _reference_solution(seed: int, beams: bool, least_rows: int, quotas: bool) -> Sequence[Configuration]:
    """The reference solution, cached for the next engine that is checked."""
    problem = make_problem(seed, beams=beams, least_rows=least_rows)
    return reference.solve(problem if quotas else replace(problem, quotas=None))


def check_strategy(strategy: Strategy, *, examples: int = 20, seed: int = 0) -> None:
    """Check that a strategy returns distinct candidates for every budget, the same for the same seed.

    Parameters
    ----------
    strategy : Strategy
        The strategy to test, on small pools with class probabilities, with and without labeled points.
    examples : int
        Number of pools.
    seed : int
        The seed of the first pool.

    Examples
    --------
    >>> from dubito.strategies import Margin
    >>> check_strategy(Margin(), examples=5)
    """
    for number in range(seed, seed + examples):
        label, call = f"strategy {strategy.name!r} on the pool of seed {number}", _make_call(number)
        before = [array.tobytes() for array in call.arrays]
        picked, again = call.run(strategy), call.run(strategy)
        assert before == [array.tobytes() for array in call.arrays], f"{label} changed its input."
        for found in picked.configurations:
            fault = _fault(found, call.budget, call.candidates)
            assert not fault, f"{label}: {fault}"
        assert np.array_equal(picked.indices, again.indices), f"{label} picks other rows in a second call."
        assert (picked.engine is not None) == strategy.uses_engine, f"{label} returned engine={picked.engine!r}."


def _difference(expected: Sequence[Configuration], found: Sequence[Configuration]) -> str:
    """A description of the first difference; empty if there is none."""
    if len(found) != len(expected):
        return f"{len(found)} configurations instead of {len(expected)}"
    for rank, (ours, theirs) in enumerate(zip(expected, found, strict=True)):
        for name in ("indices", "priorities"):
            wanted, got = getattr(ours, name), np.asarray(getattr(theirs, name))
            if wanted.dtype != got.dtype or not np.array_equal(wanted, got):
                return f"configuration {rank} has {name} {got!r} instead of {wanted!r}"
        if ours.radius != theirs.radius:
            return f"configuration {rank} has radius {theirs.radius!r} instead of {ours.radius!r}"
        close_to = np.nan if theirs.uncertainty is None else theirs.uncertainty
        if ours.uncertainty is not None and not np.isclose(ours.uncertainty, close_to, rtol=1e-9, atol=0.0):
            return f"configuration {rank} has uncertainty {theirs.uncertainty!r} instead of {ours.uncertainty!r}"
    return ""


def _fault(found: Configuration, budget: int, candidates: IntArray) -> str:
    """A description of the first violation of the contract; empty if there is none."""
    if len(found.indices) != budget or len(found.priorities) != budget:
        return f"{len(found.indices)} picks with {len(found.priorities)} priorities for budget={budget}"
    if found.indices.dtype != np.int64 or found.priorities.dtype != np.float64:
        return f"indices are {found.indices.dtype} and priorities {found.priorities.dtype}; expected int64 and float64"
    if len(np.unique(found.indices)) != budget:
        return f"a row is picked twice: {found.indices.tolist()}"
    stray = np.setdiff1d(found.indices, candidates)
    return f"row {stray[0]} is not a candidate" if len(stray) else ""


def _contents(problem: Problem) -> list[bytes]:
    arrays = (problem.candidates, problem.doubt, problem.weights, problem.scores, problem.costs)
    given = [np.asarray(matrix[:]) for matrix in (problem.pool, problem.references)]
    return [array.tobytes() for array in (*given, *arrays) if array is not None]


def _first_accepted(engine: Engine[Problem], make: Callable[[int], Problem], sizes: Iterable[int]) -> Problem:
    for n in sizes:
        problem = make(n)
        if not engine.refusals(problem):
            return problem
    tried = ", ".join(str(n) for n in sizes)
    raise AssertionError(f"engine {engine.name!r} refused plain problems of {tried} rows; it must accept one of them.")


def _to_interrupt(n: int) -> Problem:
    pool = np.random.default_rng(0).standard_normal((n, 4))
    return Problem(pool, pool[:3] + 0.5, np.arange(n), 4 * n // 5, largest=float(np.abs(pool).max()) + 0.5)


@lru_cache
def _interruption_reference(n: int) -> Configuration:
    return reference.solve(_to_interrupt(n))[0]


def _check_interruption(engine: Engine[Problem]) -> None:
    """Ctrl-C during a progress report must leave a prefix of the reference's picks."""
    reports, problem = list[int](), _first_accepted(engine, _to_interrupt, (500, 60, 9, 4000))
    budget = problem.budget

    def interrupt(done: int, total: int, radius: float | None, seconds: float, /) -> None:
        message = f"engine {engine.name!r} reports progress {done} of {total}, not of {budget}."
        assert 0 <= done <= total == budget, message
        reports.append(done)
        raise KeyboardInterrupt

    solution = engine.solve(replace(problem, progress=interrupt))
    made = "rows when progress raised KeyboardInterrupt"
    assert solution.complete is not bool(reports), (
        f"engine {engine.name!r} returned complete={solution.complete}; {reports} {made}"
    )
    found, whole = solution.configurations[0], _interruption_reference(len_of(problem.pool))
    n_found = len(found.indices)
    assert n_found >= max(reports, default=budget), f"engine {engine.name!r} returned {n_found} picks; {reports} {made}"
    same = np.array_equal(found.indices, whole.indices[:n_found])
    assert same, f"engine {engine.name!r} returned picks that are not a prefix of the reference's; {reports} {made}"


def _to_answer(n: int) -> Problem:
    pool, m = np.random.default_rng(1).standard_normal((n, 3)), min(n // 2, 9)
    known = Known(np.full(n, np.inf), np.zeros(n, dtype=np.int32), np.empty(0, dtype=np.int64))
    budget, largest = min(12, n - m), float(np.abs(pool).max())
    return Problem(pool, pool[:m], np.arange(m, n), budget, largest=largest, known=known)


def _check_answers(engine: Engine[Problem]) -> None:
    """Check `pays` and `estimate`, and that `catch_up` changes no pick."""
    label = f"engine {engine.name!r}"
    assert Problem in engine.solves, f"{label} does not solve core-sets (Problem is not in its solves)."
    problem = _first_accepted(engine, _to_answer, (60, 9, 500, 4000))
    assert isinstance(engine.pays(problem), bool), f"{label} must return a bool from pays."
    cost = engine.estimate(problem)
    if cost is not None:
        figures = (cost.bytes, cost.seconds, cost.engine)
        assert cost.bytes > 0, f"{label} estimates a cost of {figures}."
        assert cost.seconds > 0.0, f"{label} estimates a cost of {figures}."
        assert cost.engine == engine.name, f"{label} estimates a cost of {figures}."
    engine.catch_up(problem)
    difference = _difference(reference.solve(problem), engine.solve(problem).configurations)
    assert not difference, f"{label} differs from the reference after catching up: {difference}"


@dataclass(frozen=True, slots=True)
class _Call:
    pool: FloatArray
    labeled: FloatArray
    probabilities: FloatArray
    candidates: IntArray
    budget: int
    seed: int

    @property
    def arrays(self) -> tuple[AnyArray, ...]:
        return self.pool, self.labeled, self.probabilities, self.candidates

    def run(self, strategy: Strategy) -> Selection:
        return select(
            self.pool,
            self.budget,
            labeled=self.labeled,
            probabilities=self.probabilities,
            candidates=np.isin(np.arange(len(self.pool)), self.candidates),
            strategy=strategy,
            seed=self.seed,
        )


def _make_call(seed: int) -> _Call:
    rng = np.random.default_rng(seed)
    n, m = int(rng.integers(1, 30)), int(rng.integers(0, 4))
    candidates = np.sort(rng.permutation(n)[: rng.integers(1, n + 1)])
    return _Call(
        pool=rng.integers(-3, 4, (n, 3)).astype(np.float64),
        labeled=rng.standard_normal((m, 3)),
        probabilities=rng.dirichlet(np.full(4, 0.3), n),
        candidates=candidates,
        budget=int(rng.integers(1, len(candidates) + 1)),
        seed=seed,
    )
