"""Small problems, in C: all candidates are bounded by the labeled points, then picks are made one by one.

Sketches and fronts are not used: they would cost more time than they save.
"""

from dataclasses import replace

import numpy as np

from dubito import native as compiled
from dubito.core.distances import read_rows
from dubito.core.problem import Configuration, Problem, Solution
from dubito.core.reference import cold_order
from dubito.engines.cpu.anchors import read_candidates
from dubito.engines.cpu.products import PANEL
from dubito.engines.cpu.rowsteps import RowSteps, SmallRun, row_steps
from dubito.engines.cpu.sketch import Sketch, plain_sketch
from dubito.engines.lazy.bounds import FLOOR, Float32Array, squared_lengths
from dubito.engines.lazy.configurations import make_configuration
from dubito.engines.lazy.interfaces import Reporter
from dubito.engines.lazy.interrupts import retry_on_interrupt
from dubito.matrix import FloatArray, blocks, len_of

SHIFT_ROWS = 16
"""Number of rows from which the shift of the points is computed."""
PICKS_PER_CALL = 64
"""Number of picks per call of C; progress is reported between calls."""
ONE_THREAD_PRODUCTS = 1 << 26
"""Below this number of products of features, C computes them on one core: waking other threads would take longer."""
BLOCK_PRODUCTS = 1 << 20
"""Number of products in a block."""


def solve(problem: Problem, steps: compiled.CompiledSteps) -> Solution:
    """The picks of the reference; one more pick gives the radius."""
    in_c = row_steps(problem) or _with_copies(problem, steps)
    first = [] if len_of(problem.references) else [int(cold_order(problem)[0])]
    if first:
        in_c = replace(in_c, labeled=in_c.pool, labeled_rows=in_c.problem.candidates[first])
    sample_rows = problem.candidates[:: -(-len(problem.candidates) // SHIFT_ROWS)]
    sketch = plain_sketch(read_rows(problem.pool, sample_rows, problem.metric), problem.largest)
    labeled_points = np.ascontiguousarray(sketch.read(in_c.labeled, in_c.labeled_rows, in_c.problem.metric))
    is_serial = len(problem.candidates) * labeled_points.size < ONE_THREAD_PRODUCTS
    run = _start_run(
        in_c, first, len(labeled_points), None if is_serial else _first_bounds(in_c, sketch, labeled_points)
    )
    budget, capacity, complete, reporter = problem.budget, len(run.positions), True, Reporter(problem)
    try:
        while run.n_picks < capacity:
            in_c.pick_small(sketch, labeled_points, run, min(capacity, max(1, run.n_picks) + PICKS_PER_CALL))
            if run.n_picks < budget:
                reporter.report(run.n_picks, lambda: float(run.bounds.max()))
    except KeyboardInterrupt:
        complete = False

    def finish() -> Configuration:
        n_made, radius = run.n_picks, 0.0
        n_picks = min(n_made, budget)
        if n_picks < capacity:
            if n_made == n_picks:
                in_c.pick_small(sketch, labeled_points, run, n_picks + 1)
            radius = float(np.sqrt(run.squared[n_picks]))
        return make_configuration(problem, problem.candidates[run.positions[:n_picks]], run.squared[:n_picks], radius)

    configuration, is_uninterrupted = retry_on_interrupt(finish)
    try:
        if complete:
            reporter.report(len(configuration.indices), lambda: (configuration.radius or 0.0) ** 2)
    except KeyboardInterrupt:
        complete = False
    return Solution((configuration,), complete and is_uninterrupted)


def _start_run(in_c: RowSteps, first: list[int], n_labeled: int, bounds: FloatArray | None) -> SmallRun:
    problem, n, d = in_c.problem, len(in_c.problem.candidates), in_c.pool.shape[1]
    weights = np.ones(n) if problem.weights is None else problem.weights[problem.candidates]
    capacity, n_panels = min(problem.budget + 1, n), -(-n_labeled // PANEL)
    positions, squared = np.full(capacity, -1), np.full(capacity, np.inf)
    positions[: len(first)] = first
    panels, sizes = np.empty((n_panels, d, PANEL), dtype=np.float32), np.empty(n_panels * PANEL, dtype=np.float32)
    return SmallRun(
        bounds=np.empty(n) if bounds is None else bounds,
        weights=weights,
        exact=np.full(n, np.inf),
        seen=np.full(n, -1, dtype=np.int32),
        positions=positions,
        squared=squared,
        picked=np.empty((capacity, d)),
        panels=panels,
        sizes=sizes,
        is_bounded=bounds is not None,
        n_before=len(first),
    )


def _with_copies(problem: Problem, steps: compiled.CompiledSteps) -> RowSteps:
    """The steps for features that C cannot read in place: a float64 copy of the candidates and the labeled points."""
    rows, weights = problem.candidates, problem.weights
    points = read_rows(problem.pool, rows, problem.metric)
    labeled = read_rows(problem.references, slice(None), problem.metric)
    copied = replace(
        problem,
        pool=points,
        references=labeled,
        candidates=np.arange(len(rows)),
        weights=None if weights is None else weights[rows],
        metric="euclidean",
    )
    return RowSteps(steps, copied, points, labeled, np.arange(len(labeled)), workers=1)


def _first_bounds(in_c: RowSteps, sketch: Sketch, labeled_points: Float32Array) -> FloatArray:
    """(n,) upper bounds on squared distances to the nearest labeled point.

    Computed with BLAS: if its threads are still spinning after an earlier product, they would compete with threads of C
    for the cores.
    """
    problem, bounds = in_c.problem, np.empty(len(in_c.problem.candidates))
    sizes = ((1.0 + sketch.slack) * squared_lengths(labeled_points)).astype(np.float32)
    (m, d), doubled = labeled_points.shape, labeled_points * np.float32(-2.0)
    for span in blocks(len(bounds), max(1, BLOCK_PRODUCTS // m)):
        points = np.ascontiguousarray(read_candidates(problem, sketch, span))
        arrays = (points, points @ doubled.T, sizes, bounds[span])
        in_c.steps.bound_rows(arrays, len(points), m, d, 1.0 + sketch.slack, FLOOR, sketch.scale**2)
    return bounds
