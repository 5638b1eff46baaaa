"""The contract of engines that pick groups."""

from dataclasses import replace
from typing import Any, TypeVar

import numpy as np

from dubito.core import coverage_reference, groups, reference
from dubito.core.coverage_reference import CoverageProblem
from dubito.core.problem import Configuration, Problem
from dubito.engines.base import Engine, group_refusals
from dubito.matrix import len_of
from dubito.testing.contract import Example, check_examples
from dubito.testing.coverage import make_coverage_problem
from dubito.testing.problems import make_problem

P = TypeVar("P", Problem, CoverageProblem)


def check_groups(engine: Engine[Problem] | Engine[CoverageProblem], *, examples: int = 200, seed: int = 0) -> None:
    """Check that an engine picks the groups of `dubito.core.groups`, with the same numbers, bit for bit.

    Parameters
    ----------
    engine : Engine
        The engine to test, of core-sets or of coverage; it must declare ``picks_groups``.
    examples : int
        Number of problems, some milliseconds each.
    seed : int
        The seed of the first problem; see `make_group_problem`.

    Examples
    --------
    >>> from dubito.engines.reference_engine import CoverageReference
    >>> check_groups(CoverageReference(), examples=5)
    """
    covers = CoverageProblem in engine.solves
    undeclared = group_refusals(engine, make_group_problem(seed, covers=covers))
    assert not undeclared, f"engine {engine.name!r} does not declare picks_groups."

    def make(number: int) -> Example[Any]:
        problem = make_group_problem(number, covers=covers)
        return problem, f"make_group_problem({number}, covers={covers})", lambda: [solve_reference(problem)]

    check_examples(engine, map(make, range(seed, seed + examples)))


def solve_reference(problem: Problem | CoverageProblem) -> Configuration:
    """The solution of the reference, with or without groups."""
    if isinstance(problem, CoverageProblem):
        return (coverage_reference.greedy if problem.groups is None else groups.greedy_coverage)(problem)
    return (reference.greedy if problem.groups is None else groups.greedy_core_set)(problem)


def make_group_problem(seed: int, *, covers: bool) -> Problem | CoverageProblem:
    """A small problem with groups, of whose rows none, some or all are candidates, and with the other edge cases.

    One in twenty has a group of up to 500 rows.

    Parameters
    ----------
    seed : int
        The same number gives the same problem.
    covers : bool
        Whether it is a problem of coverage, instead of a core-set.

    Examples
    --------
    >>> make_group_problem(3, covers=True).budget == make_group_problem(3, covers=True).budget
    True
    """
    least_rows = 500 if seed % 20 == 13 else 1
    if covers:
        return _with_groups(make_coverage_problem(seed, least_rows=least_rows), seed)
    return _with_groups(replace(make_problem(seed, beams=False, least_rows=least_rows), scaling="respective"), seed)


def _with_groups(problem: P, seed: int) -> P:
    rng, n = np.random.default_rng([seed, 17]), len_of(problem.pool)
    kind = rng.integers(6)
    if n >= 500:
        numbers = np.maximum(np.arange(n) - int(rng.integers(100, 500)), 0) // 3
    elif kind == 0:
        numbers = np.arange(n)
    elif kind == 1:
        numbers = np.zeros(n, dtype=np.int64)
    elif kind == 2:
        numbers = np.sort(rng.integers(0, max(1, n // 4), n))
    elif kind == 3:
        numbers = np.minimum(np.arange(n), n // 2)
    else:
        numbers = rng.permutation(n)[rng.integers(0, n, n) // rng.integers(1, 8)]
    first = np.unique(numbers, return_index=True)[1][np.unique(numbers, return_inverse=True)[1]]
    quotas, costs, budget = problem.quotas, problem.costs, len(np.unique(numbers[problem.candidates]))
    if costs is not None:
        if isinstance(problem, Problem) and problem.weights is not None:
            problem = replace(problem, weights=problem.weights * (costs / costs[first]) ** 2)
        costs = costs[first]
    if quotas is not None:
        quotas = quotas._replace(classes=quotas.classes[first])
        rows = problem.candidates[np.unique(numbers[problem.candidates], return_index=True)[1]]
        counts = np.bincount(quotas.classes[rows], minlength=len(quotas.limits))
        budget = int(np.minimum(counts, quotas.limits).sum())
    budget = budget if rng.random() < 0.3 else int(rng.integers(1, budget + 1))
    return replace(problem, groups=numbers, costs=costs, quotas=quotas, budget=budget)
