"""The contract of core-set engines and of strategies."""

from collections.abc import Callable, Iterable, Sequence
from dataclasses import fields, replace
from functools import lru_cache, partial
from typing import Any, TypeAlias, TypeVar

import numpy as np

from dubito.api import select
from dubito.core import reference
from dubito.core.coverage_reference import CoverageProblem
from dubito.core.problem import Configuration, Known, Problem
from dubito.engines.base import Engine, keeps_quotas
from dubito.matrix import IntArray, len_of
from dubito.strategies import Strategy
from dubito.testing.problems import make_problem

MANY_ROWS = 300
"""Number of rows in problems for engines that refuse small ones."""


def check_engine(engine: Engine[Problem], *, examples: int = 200, seed: int = 0, beams: bool = True) -> None:
    """Check that an engine returns the picks of `dubito.core.reference`, bit for bit, and leaves its inputs unchanged.

    Parameters
    ----------
    engine : Engine
        The engine to test. If it refuses a problem, a larger one is tried; it must accept at least one in ten.
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

    def make(number: int) -> Example[Problem]:
        least_rows, problem = 1, make_problem(number, beams=beams)
        if engine.refusals(problem):
            least_rows, problem = MANY_ROWS, make_problem(number, beams=beams, least_rows=MANY_ROWS)
        problem = problem if keeps_quotas(engine) else replace(problem, quotas=None)
        made = f"make_problem({number}, beams={beams}, least_rows={least_rows})"
        return problem, made, partial(_reference_solution, number, beams, least_rows, problem.quotas is not None)

    check_examples(engine, map(make, range(seed, seed + examples)))
    problem = _first_accepted(engine, _problem_to_interrupt, (500, 60, 9, 4000))
    check_interruption(engine, problem, _interruption_reference(len_of(problem.pool)))
    _check_other_methods(engine)


P = TypeVar("P", Problem, CoverageProblem)
Example: TypeAlias = tuple[P, str, Callable[[], Sequence[Configuration]]]
"""A problem, the call that makes it, and a function that solves it with the reference."""


def check_examples(engine: Engine[P], examples: Iterable[Example[P]]) -> None:
    """Check that an engine accepts at least one problem in ten, and returns the picks of the reference."""
    label, n_examples, n_accepted = f"engine {engine.name!r}", 0, 0
    for problem, made, solve in examples:
        n_examples += 1
        if engine.refusals(problem):
            continue
        n_accepted += 1
        before = _contents(problem)
        solution = engine.solve(problem)
        assert _contents(problem) == before, f"{label} changed its input: {made}"
        assert solution.complete, f"{label} returned complete=False for {made} without an interruption."
        difference = difference_between(solve(), solution.configurations)
        assert not difference, f"{label} differs from the reference on {made}: {difference}"
    assert n_accepted * 10 >= n_examples, f"{label} refused {n_examples - n_accepted} of {n_examples} problems."


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
        label, arguments = f"strategy {strategy.name!r} on the pool of seed {number}", _make_arguments(number)
        arrays = [each for each in arguments.values() if isinstance(each, np.ndarray)]
        before = [array.tobytes() for array in arrays]
        picked, again = select(**arguments, strategy=strategy), select(**arguments, strategy=strategy)
        assert before == [array.tobytes() for array in arrays], f"{label} changed its input."
        for found in picked.configurations:
            fault = _first_violation(found, arguments["budget"], np.flatnonzero(arguments["candidates"]))
            assert not fault, f"{label}: {fault}"
        assert np.array_equal(picked.indices, again.indices), f"{label} picks other rows in a second call."
        assert (picked.engine is not None) == strategy.uses_engine, f"{label} returned engine={picked.engine!r}."


def difference_between(expected: Sequence[Configuration], found: Sequence[Configuration]) -> str:
    """A description of the first difference; empty if there is none."""
    if len(found) != len(expected):
        return f"{len(found)} configurations instead of {len(expected)}"
    for rank, (ours, theirs) in enumerate(zip(expected, found, strict=True)):
        for name in ("groups", "indices", "priorities", "earned", "covered", "radius", "reach"):
            wanted, got = np.asarray(getattr(ours, name)), np.asarray(getattr(theirs, name))
            if wanted.dtype != got.dtype or not np.array_equal(wanted, got):
                return f"configuration {rank} has {name} {got!r} instead of {wanted!r}"
        close_to = np.nan if theirs.uncertainty is None else theirs.uncertainty
        if ours.uncertainty is not None and not np.isclose(ours.uncertainty, close_to, rtol=1e-9, atol=0.0):
            return f"configuration {rank} has uncertainty {theirs.uncertainty!r} instead of {ours.uncertainty!r}"
    return ""


def _first_violation(found: Configuration, budget: int, candidates: IntArray) -> str:
    """A description of the first violation of the contract; empty if there is none."""
    if len(found.indices) != budget or len(found.priorities) != budget:
        return f"{len(found.indices)} picks with {len(found.priorities)} priorities for budget={budget}"
    if found.indices.dtype != np.int64 or found.priorities.dtype != np.float64:
        return f"indices are {found.indices.dtype} and priorities {found.priorities.dtype}; expected int64 and float64"
    if len(np.unique(found.indices)) != budget:
        return f"a row is picked twice: {found.indices.tolist()}"
    stray = np.setdiff1d(found.indices, candidates)
    return f"row {stray[0]} is not a candidate" if len(stray) else ""


def _contents(problem: Problem | CoverageProblem) -> list[bytes]:
    values = [problem.pool[:], problem.references[:], *(getattr(problem, each.name) for each in fields(problem))]
    return [value.tobytes() for value in values if isinstance(value, np.ndarray)]


def _first_accepted(engine: Engine[Problem], make: Callable[[int], Problem], sizes: Iterable[int]) -> Problem:
    for n in sizes:
        problem = make(n)
        if not engine.refusals(problem):
            return problem
    tried = ", ".join(str(n) for n in sizes)
    raise AssertionError(f"engine {engine.name!r} refused plain problems of {tried} rows; it must accept one of them.")


def _problem_to_interrupt(n: int) -> Problem:
    pool = np.random.default_rng(0).standard_normal((n, 4))
    return Problem(pool, pool[:3] + 0.5, np.arange(n), 4 * n // 5, largest=float(np.abs(pool).max()) + 0.5)


@lru_cache
def _interruption_reference(n: int) -> Configuration:
    return reference.solve(_problem_to_interrupt(n))[0]


def check_interruption(engine: Engine[P], problem: P, whole: Configuration) -> None:
    """Check that Ctrl-C during a progress report leaves a prefix of the reference's picks."""
    reports, budget, label = list[int](), problem.budget, f"engine {engine.name!r}"

    def interrupt(done: int, total: int, radius: float | None, seconds: float, /) -> None:
        assert 0 <= done <= total == budget, f"{label} reports progress {done} of {total}, not of {budget}."
        reports.append(done)
        raise KeyboardInterrupt

    solution = engine.solve(replace(problem, progress=interrupt))
    when = f"KeyboardInterrupt was raised at {reports} picks"
    assert solution.complete is not bool(reports), f"{label} returned complete={solution.complete}; {when}."
    found = solution.configurations[0].indices
    assert len(found) >= max(reports, default=budget), f"{label} returned {len(found)} picks; {when}."
    is_prefix = np.array_equal(found, whole.indices[: len(found)])
    assert is_prefix, f"{label} returned picks that are not a prefix of the reference's; {when}."


def _known_problem(n: int) -> Problem:
    pool, m = np.random.default_rng(1).standard_normal((n, 3)), min(n // 2, 9)
    known = Known(np.full(n, np.inf), np.zeros(n, dtype=np.int32), np.empty(0, dtype=np.int64))
    budget, largest = min(12, n - m), float(np.abs(pool).max())
    return Problem(pool, pool[:m], np.arange(m, n), budget, largest=largest, known=known)


def _check_other_methods(engine: Engine[Problem]) -> None:
    """Check `pays` and `estimate`, and that `catch_up` changes no pick."""
    label = f"engine {engine.name!r}"
    assert Problem in engine.solves, f"{label} does not solve core-sets (Problem is not in its solves)."
    problem = _first_accepted(engine, _known_problem, (60, 9, 500, 4000))
    assert isinstance(engine.pays(problem), bool), f"{label} must return a bool from pays."
    cost = engine.estimate(problem)
    if cost is not None:
        is_valid = cost.bytes > 0 and cost.seconds > 0.0 and cost.engine == engine.name
        assert is_valid, f"{label} estimates a cost of {(cost.bytes, cost.seconds, cost.engine)}."
    engine.catch_up(problem)
    difference = difference_between(reference.solve(problem), engine.solve(problem).configurations)
    assert not difference, f"{label} differs from the reference after catch_up: {difference}"


def _make_arguments(seed: int) -> dict[str, Any]:
    """Arguments of `select` for a small pool."""
    rng = np.random.default_rng(seed)
    n, m = int(rng.integers(1, 30)), int(rng.integers(0, 4))
    candidates = np.sort(rng.permutation(n)[: rng.integers(1, n + 1)])
    return {
        "pool": rng.integers(-3, 4, (n, 3)).astype(np.float64),
        "labeled": rng.standard_normal((m, 3)),
        "probabilities": rng.dirichlet(np.full(4, 0.3), n),
        "candidates": np.isin(np.arange(n), candidates),
        "budget": int(rng.integers(1, len(candidates) + 1)),
        "seed": seed,
    }
