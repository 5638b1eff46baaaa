"""The way for small problems, in C: every candidate is bounded by all that is labelled, then picks are made one by one.

No references are sketched, and there are no fronts: so little is left to do after one product that keeping books of it
would take longer.
"""

from dataclasses import replace

import numpy as np

from dubito import compiled
from dubito.distances import read_rows
from dubito.engines.cpu.anchors import read_candidates
from dubito.engines.cpu.rowsteps import RowSteps, SmallRun, row_steps
from dubito.engines.cpu.sketch import Sketch, plain_sketch
from dubito.engines.lazy.configurations import finished
from dubito.engines.lazy.progress import Reporter
from dubito.engines.lazy.rounding import FLOOR, Float32Array, squared_lengths
from dubito.matrix import FloatArray, blocks, len_of
from dubito.problem import Problem, Solution
from dubito.reference import cold_order

FEW = 16
"""Rows that say where the points lie."""
AT_ONCE = 64
"""Picks between two reports."""
PRODUCTS = 1 << 20
"""Numbers in a block of products."""


def solve(problem: Problem, steps: compiled.CompiledSteps) -> Solution:
    """The reference's picks; one more tells the radius."""
    in_c = row_steps(problem) or _read(problem, steps)
    first = [] if len_of(problem.references) else [int(cold_order(problem)[0])]
    if first:
        in_c = replace(in_c, labelled=in_c.pool, labelled_rows=in_c.problem.candidates[first])
    few = problem.candidates[:: -(-len(problem.candidates) // FEW)]
    sketch = plain_sketch(read_rows(problem.pool, few, problem.metric), problem.largest)
    others = np.ascontiguousarray(sketch.read(in_c.labelled, in_c.labelled_rows, in_c.problem.metric))
    run = _begin(in_c, first, _first_bounds(in_c, sketch, others))
    budget, complete, reporter = problem.budget, True, Reporter(problem)
    try:
        while run.n_picks < budget:
            in_c.pick_small(sketch, others, run, min(budget, max(1, run.n_picks) + AT_ONCE))
            if run.n_picks < budget:
                reporter.report(run.n_picks, lambda: float(run.bounds.max()))
    except KeyboardInterrupt:
        complete = False
    n_picks, radius = run.n_picks, 0.0
    if n_picks < len(run.places):
        in_c.pick_small(sketch, others, run, n_picks + 1)
        radius = float(np.sqrt(run.squared[n_picks]))
    try:
        if complete:
            reporter.report(n_picks, lambda: radius * radius)
    except KeyboardInterrupt:
        complete = False
    rows = problem.candidates[run.places[:n_picks]]
    return Solution((finished(problem, rows, run.squared[:n_picks], radius),), complete)


def _begin(in_c: RowSteps, first: list[int], bounds: FloatArray) -> SmallRun:
    problem, n = in_c.problem, len(bounds)
    weights = np.ones(n) if problem.weights is None else problem.weights[problem.candidates]
    bounds *= weights
    bounds[first] = -1.0
    room = min(problem.budget + 1, n)
    places, squared = np.zeros(room, dtype=np.int64), np.full(room, np.inf)
    places[: len(first)] = first
    seen, picked = np.full(n, -1, dtype=np.int32), np.empty((room, in_c.pool.shape[1]))
    return SmallRun(bounds, weights, np.full(n, np.inf), seen, places, squared, picked, len(first), len(first))


def _read(problem: Problem, steps: compiled.CompiledSteps) -> RowSteps:
    """Features that C cannot read as they lie, in float64."""
    points = read_rows(problem.pool, slice(None), problem.metric)
    labelled = read_rows(problem.references, slice(None), problem.metric)
    own = replace(problem, pool=points, references=labelled, metric="euclidean")
    return RowSteps(steps, own, points, labelled, np.arange(len(labelled)), workers=1)


def _first_bounds(in_c: RowSteps, sketch: Sketch, others: Float32Array) -> FloatArray:
    """(n,) upper bounds on squared distances to the nearest of what is labelled.

    By NumPy's products: its threads may still wait busily for more of them, and ours would have half a core each.
    """
    problem, bounds = in_c.problem, np.empty(len(in_c.problem.candidates))
    sizes = ((1.0 + sketch.slack) * squared_lengths(others)).astype(np.float32)
    (m, d), doubled = others.shape, others * np.float32(-2.0)
    for span in blocks(len(bounds), max(1, PRODUCTS // m)):
        points = np.ascontiguousarray(read_candidates(problem, sketch, span))
        arrays = (points, points @ doubled.T, sizes, bounds[span])
        in_c.steps.bound(arrays, len(points), m, d, 1.0 + sketch.slack, FLOOR, sketch.scale**2)
    return bounds
