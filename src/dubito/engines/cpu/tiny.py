"""The way for problems so small that any bound costs more than it saves: exact distances alone, in C."""

import numpy as np

from dubito.distances import read_rows
from dubito.engines import compiled
from dubito.engines.lazy.configurations import finished
from dubito.engines.lazy.progress import Reporter
from dubito.problem import Problem, Solution
from dubito.reference import cold_order


def solve(problem: Problem, steps: compiled.CompiledSteps) -> Solution:
    """The reference's picks; one more tells the radius."""
    points = read_rows(problem.pool, problem.candidates, problem.metric)
    references = read_rows(problem.references, slice(None), problem.metric)
    (n, d), limit = points.shape, min(problem.budget + 1, len(points))
    weights = np.ones(n) if problem.weights is None else problem.weights[problem.candidates]
    picks, heights, left = np.empty(limit, dtype=np.int64), np.empty(limit), np.empty(n)
    first = -1 if len(references) else int(cold_order(problem)[0])
    steps.exactly((points, references, weights, left, np.empty(d), picks, heights), n, len(references), d, first, limit)
    radius = float(np.sqrt(heights[-1])) if limit > problem.budget else 0.0
    complete = True
    try:
        Reporter(problem).report(problem.budget, radius * radius)
    except KeyboardInterrupt:
        complete = False
    rows = problem.candidates[picks[: problem.budget]]
    return Solution((finished(problem, rows, heights[: problem.budget], radius),), complete)
