"""The contract of coverage engines."""

from dataclasses import replace
from functools import lru_cache

import numpy as np

from dubito.core import coverage_reference as coverage
from dubito.core.coverage_reference import CoverageProblem, sample_rows
from dubito.core.problem import Configuration, Known
from dubito.doubt import scaling_weights
from dubito.engines.base import Engine, keeps_quotas
from dubito.matrix import FloatArray, Matrix
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
    label, n_accepted = f"engine {engine.name!r}", 0
    for number in range(seed, seed + examples):
        problem, made = make_coverage_problem(number), f"make_coverage_problem({number})"
        if engine.refusals(problem):
            continue
        problem = problem if keeps_quotas(engine) else replace(problem, quotas=None)
        n_accepted += 1
        before = _contents(problem)
        solution = engine.solve(problem)
        assert _contents(problem) == before, f"{label} changed its input: {made}"
        assert solution.complete, f"{label} returned complete=False for {made} without an interruption."
        assert len(solution.configurations) == 1, f"{label} returned more than one configuration for {made}"
        difference = _difference(_reference_solution(number, problem.quotas is not None), solution.configurations[0])
        assert not difference, f"{label} differs from the reference on {made}: {difference}"
    assert n_accepted * 10 >= examples, f"{label} refused {examples - n_accepted} of {examples} problems."
    _check_interruption(engine)
    _check_second_round(engine)


@lru_cache(maxsize=2000)
def _reference_solution(seed: int, quotas: bool) -> Configuration:
    """The reference solution, cached for the next engine that is checked."""
    problem = make_coverage_problem(seed)
    return coverage.greedy(problem if quotas else replace(problem, quotas=None))


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
        radius=_some_distance(rng, base.pool) if rng.random() < 0.3 else None,
        factor=factor,
        doubt=doubt,
        metric=base.metric,
        largest=base.largest,
        costs=make_costs(seed + 1, n),
    )
    return with_quotas(problem, seed + 1)


def _some_distance(rng: np.random.Generator, pool: Matrix) -> float:
    """A distance that some pair of rows may have exactly, where the kernel is 0."""
    rows = np.asarray(pool[:], dtype=np.float64)
    left, right = rows[rng.integers(len(rows), size=2)]
    return float(np.sqrt(np.sum((left - right) ** 2))) * float(rng.choice([0.5, 1.0, 2.0]))


def _difference(ours: Configuration, theirs: Configuration) -> str:
    """A description of the first difference; empty if there is none."""
    for name in ("indices", "priorities", "covered"):
        wanted, got = np.asarray(getattr(ours, name)), np.asarray(getattr(theirs, name))
        if wanted.dtype != got.dtype or not np.array_equal(wanted, got):
            return f"{name} are {got!r} instead of {wanted!r}"
    for name in ("radius", "reach"):
        if getattr(ours, name) != getattr(theirs, name):
            return f"{name} is {getattr(theirs, name)!r} instead of {getattr(ours, name)!r}"
    doubt, other = (np.nan if each.uncertainty is None else each.uncertainty for each in (ours, theirs))
    if not np.isclose(doubt, other, rtol=1e-9, atol=0.0, equal_nan=True):
        return f"uncertainty is {theirs.uncertainty!r} instead of {ours.uncertainty!r}"
    return ""


def _contents(problem: CoverageProblem) -> list[bytes]:
    arrays = (problem.candidates, problem.weights, problem.sample, problem.doubt, problem.costs)
    given = [np.asarray(matrix[:]) for matrix in (problem.pool, problem.references)]
    return [array.tobytes() for array in (*given, *arrays) if array is not None]


def _even_problem(n: int, budget: int) -> tuple[CoverageProblem, FloatArray]:
    rng = np.random.default_rng(0)
    pool = rng.standard_normal((n, 4))
    rows, largest = np.arange(n), float(np.abs(pool).max()) + 0.5
    problem = CoverageProblem(pool, pool[:3] + 0.5, rows, budget, rng.random(n), rows, largest=largest)
    return problem, pool


@lru_cache
def _interruption_reference() -> Configuration:
    return coverage.greedy(_even_problem(500, 400)[0])


def _check_interruption(engine: Engine[CoverageProblem]) -> None:
    """Ctrl-C during a progress report must leave a prefix of the reference's picks."""
    reports = list[int]()

    def interrupt(done: int, total: int, radius: float | None, seconds: float, /) -> None:
        assert 0 <= done <= total == 400, f"engine {engine.name!r} reports progress {done} of {total}, not of 400."
        reports.append(done)
        raise KeyboardInterrupt

    problem, _ = _even_problem(500, 400)
    if engine.refusals(problem):
        return
    solution = engine.solve(replace(problem, progress=interrupt))
    made = "rows when progress raised KeyboardInterrupt"
    assert solution.complete is not bool(reports), (
        f"engine {engine.name!r} returned complete={solution.complete}; {reports} {made}"
    )
    found, whole = solution.configurations[0], _interruption_reference()
    n_found = len(found.indices)
    assert n_found >= max(reports, default=400), f"engine {engine.name!r} returned {n_found} picks; {reports} {made}"
    same = np.array_equal(found.indices, whole.indices[:n_found])
    assert same, f"engine {engine.name!r} returned picks that are not a prefix of the reference's; {reports} {made}"


def _check_second_round(engine: Engine[CoverageProblem]) -> None:
    """The ``known`` distances of one round must not change the next, with other weights and more labeled rows."""
    problem, pool = _even_problem(200, 20)
    if engine.refusals(problem):
        return
    labeled = np.arange(5)
    known = Known(np.full(200, np.inf), np.zeros(200, dtype=np.int32), labeled[:0])
    for n_round in range(3):
        rest = np.setdiff1d(np.arange(200), labeled)
        weights = np.random.default_rng(n_round).random(200)
        again = replace(problem, references=pool[labeled], candidates=rest, weights=weights, sample=rest, known=known)
        found, expected = engine.solve(again).configurations[0], coverage.greedy(again)
        difference = _difference(expected, found)
        assert not difference, (
            f"engine {engine.name!r} differs in round {n_round + 1} with known distances: {difference}"
        )
        labeled = np.concatenate([labeled, found.indices])
        known.added = labeled[:0]
