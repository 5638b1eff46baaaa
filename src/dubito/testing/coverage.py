"""What every engine that covers is held to."""

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
    """An engine gives the picks and priorities of `dubito.core.coverage_reference`, bit for bit, and changes no input.

    Parameters
    ----------
    engine : Engine
        What is tried. A problem that it refuses is left out; it must take at least one in ten.
    examples : int
        Number of problems, some milliseconds each.
    seed : int
        The problems are those of `make_coverage_problem` from this number on.

    Examples
    --------
    >>> from dubito.engines.reference_engine import CoverageReference
    >>> check_coverage_engine(CoverageReference(), examples=5)
    """
    whose, n_taken = f"engine {engine.name!r}", 0
    for number in range(seed, seed + examples):
        problem, made = make_coverage_problem(number), f"make_coverage_problem({number})"
        if engine.refusals(problem):
            continue
        problem = problem if keeps_quotas(engine) else replace(problem, quotas=None)
        n_taken += 1
        before = _contents(problem)
        solution = engine.solve(problem)
        assert _contents(problem) == before, f"{whose} changed what it was handed: {made}"
        assert solution.complete, f"{whose} calls {made} incomplete, and nothing interrupted it."
        assert len(solution.configurations) == 1, f"{whose} gives more than one configuration for {made}"
        difference = _difference(_reference_solution(number, problem.quotas is not None), solution.configurations[0])
        assert not difference, f"{whose} differs from the reference on {made}: {difference}"
    assert n_taken * 10 >= examples, f"{whose} refused {examples - n_taken} of {examples} problems."
    _check_interruption(engine)
    _check_second_round(engine)


@lru_cache(maxsize=2000)
def _reference_solution(seed: int, quotas: bool) -> Configuration:
    """The reference's answer, kept for the next engine that is checked on the same problem."""
    problem = make_coverage_problem(seed)
    return coverage.greedy(problem if quotas else replace(problem, quotas=None))


def make_coverage_problem(seed: int) -> CoverageProblem:
    """A small problem full of what goes wrong: ties, copies, no doubt, outliers, no reach, costs, quotas, odd storage.

    Parameters
    ----------
    seed : int
        The same number gives the same problem.

    Examples
    --------
    >>> make_coverage_problem(3).budget == make_coverage_problem(3).budget
    True
    """
    rng, base = np.random.default_rng([seed, 14]), make_problem(seed, beams=False)
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
    """A distance that some pair of rows may have exactly: on the rim of the reach nothing is covered."""
    rows = np.asarray(pool[:], dtype=np.float64)
    left, right = rows[rng.integers(len(rows), size=2)]
    return float(np.sqrt(np.sum((left - right) ** 2))) * float(rng.choice([0.5, 1.0, 2.0]))


def _difference(ours: Configuration, theirs: Configuration) -> str:
    """The first thing that is not as it should be; empty where all is."""
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
    """Ctrl-C while progress is reported leaves a prefix of the reference's picks."""
    described = list[int]()

    def interrupt(done: int, total: int, radius: float | None, seconds: float, /) -> None:
        assert 0 <= done <= total == 400, f"engine {engine.name!r} tells progress {done} of {total}, not of 400."
        described.append(done)
        raise KeyboardInterrupt

    problem, _ = _even_problem(500, 400)
    if engine.refusals(problem):
        return
    solution = engine.solve(replace(problem, progress=interrupt))
    made = "rows when progress raised KeyboardInterrupt"
    assert solution.complete is not bool(described), (
        f"engine {engine.name!r} says complete={solution.complete}; {described} {made}"
    )
    found, whole = solution.configurations[0], _interruption_reference()
    n_found = len(found.indices)
    assert n_found >= max(described, default=400), f"engine {engine.name!r} kept {n_found} picks; {described} {made}"
    same = np.array_equal(found.indices, whole.indices[:n_found])
    assert same, f"engine {engine.name!r} kept picks that are no prefix of the reference's; {described} {made}"


def _check_second_round(engine: Engine[CoverageProblem]) -> None:
    """What a first round leaves in ``known`` must not change a second one, with other weights and more labeled."""
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
        assert not difference, f"engine {engine.name!r} differs in round {n_round + 1} on what it knows: {difference}"
        labeled = np.concatenate([labeled, found.indices])
        known.added = labeled[:0]
