"""The contract of coverage engines."""

from dataclasses import replace
from functools import lru_cache, partial

import numpy as np

from dubito.core import coverage_reference as coverage
from dubito.core.coverage_reference import CoverageProblem, sample_rows
from dubito.core.problem import Configuration, Known
from dubito.doubt import scaling_weights
from dubito.engines.base import Engine, keeps_quotas
from dubito.matrix import FloatArray, Matrix
from dubito.testing.contract import Example, check_examples, check_interruption, difference_between
from dubito.testing.problems import STRENGTHS, make_costs, make_problem, with_quotas


def check_coverage_engine(engine: Engine[CoverageProblem], *, examples: int = 200, seed: int = 0) -> None:
    """Check that an engine returns the picks and priorities of `dubito.core.coverage_reference`, bit for bit.

    Parameters
    ----------
    engine : Engine
        The engine to test. A problem that it refuses is left out; it must accept at least one in ten.
    examples : int
        Number of problems, some milliseconds each.
    seed : int
        The seed of the first problem; see `make_coverage_problem`.

    Examples
    --------
    >>> from dubito.engines.reference_engine import CoverageReference
    >>> check_coverage_engine(CoverageReference(), examples=5)
    """

    def make(number: int) -> Example[CoverageProblem]:
        problem = make_coverage_problem(number)
        problem = problem if keeps_quotas(engine) else replace(problem, quotas=None)
        return problem, f"make_coverage_problem({number})", partial(_solution, number, problem.quotas is not None)

    check_examples(engine, map(make, range(seed, seed + examples)))
    problem, _ = _normal_problem(500, 400)
    if not engine.refusals(problem):
        check_interruption(engine, problem, _interruption_reference())
    _check_second_round(engine)


@lru_cache(maxsize=2000)
def _solution(seed: int, quotas: bool) -> tuple[Configuration]:
    """The reference solution, cached for the next engine that is checked."""
    problem = make_coverage_problem(seed)
    return (coverage.greedy(problem if quotas else replace(problem, quotas=None)),)


def make_coverage_problem(seed: int, *, least_rows: int = 1) -> CoverageProblem:
    """A small problem with edge cases: ties, copies, zero doubt, outliers, zero reach, costs, quotas, unusual storage.

    Parameters
    ----------
    seed : int
        The same number gives the same problem.
    least_rows : int
        Minimum number of rows of the pool; most pools have fewer than 60 more.

    Examples
    --------
    >>> make_coverage_problem(3).budget == make_coverage_problem(3).budget
    True
    """
    rng, base = np.random.default_rng([seed, 14]), make_problem(seed, beams=False, least_rows=least_rows)
    n, doubt = base.pool.shape[0], base.doubt if base.doubt is not None else np.ones(base.pool.shape[0])
    weights = scaling_weights(doubt, float(rng.choice(STRENGTHS)) / 2.0).copy()
    weights[rng.random(n) < rng.choice([0.0, 0.0, 0.0, 0.3, 0.3, 0.9])] = 0.0
    factor = float(rng.choice([0.0, 0.5, 1.4, 1.4, 1.4, 3.0]))
    problem = CoverageProblem(
        pool=base.pool,
        references=base.references,
        candidates=base.candidates,
        budget=base.budget,
        weights=weights,
        sample=sample_rows(np.flatnonzero(rng.random(n) < rng.choice([0.5, 1.0]))),
        radius=_distance_of_a_pair(rng, base.pool) if rng.random() < 0.3 else None,
        factor=factor,
        doubt=doubt,
        metric=base.metric,
        largest=base.largest,
        costs=make_costs(seed + 1, n),
    )
    return with_quotas(problem, seed + 1)


def _distance_of_a_pair(rng: np.random.Generator, pool: Matrix) -> float:
    """The exact distance of a random pair of rows, at which the kernel is 0, or half or twice of it."""
    rows = np.asarray(pool[:], dtype=np.float64)
    left, right = rows[rng.integers(len(rows), size=2)]
    return float(np.sqrt(np.sum((left - right) ** 2))) * float(rng.choice([0.5, 1.0, 2.0]))


def _normal_problem(n: int, budget: int) -> tuple[CoverageProblem, FloatArray]:
    rng = np.random.default_rng(0)
    pool = rng.standard_normal((n, 4))
    rows, largest = np.arange(n), float(np.abs(pool).max()) + 0.5
    problem = CoverageProblem(pool, pool[:3] + 0.5, rows, budget, rng.random(n), rows, largest=largest)
    return problem, pool


@lru_cache
def _interruption_reference() -> Configuration:
    return coverage.greedy(_normal_problem(500, 400)[0])


def _check_second_round(engine: Engine[CoverageProblem]) -> None:
    """Check that ``known`` distances of earlier rounds change no pick, with other weights and more labeled rows."""
    problem, pool = _normal_problem(200, 20)
    if engine.refusals(problem):
        return
    labeled = np.arange(5)
    known = Known(np.full(200, np.inf), np.zeros(200, dtype=np.int32), labeled[:0])
    for n_round in range(3):
        rest = np.setdiff1d(np.arange(200), labeled)
        weights = np.random.default_rng(n_round).random(200)
        again = replace(problem, references=pool[labeled], candidates=rest, weights=weights, sample=rest, known=known)
        found = engine.solve(again).configurations
        difference = difference_between([coverage.greedy(again)], found)
        label = f"engine {engine.name!r} differs in round {n_round + 1} with known distances"
        assert not difference, f"{label}: {difference}"
        labeled = np.concatenate([labeled, found[0].indices])
        known.added = labeled[:0]
