"""Steps of the CPU kernels in C, on all cores: first bounds, refreshing candidates, and others.

The C code reads features in place, in memory or in a memory map. Other features are processed by NumPy in blocks.
"""

from dataclasses import dataclass
from itertools import pairwise
from typing import NamedTuple

import numpy as np

from dubito import native as compiled
from dubito.core.problem import Problem
from dubito.engines.cpu.products import PANEL, pack
from dubito.engines.cpu.references import ReferenceArrays, References
from dubito.engines.cpu.sketch import Sketch, fits_float32
from dubito.engines.lazy.bounds import (
    BEYOND,
    FLOOR,
    FLOOR_LENGTH,
    LENGTH_UNITS,
    ROUND_DOWN,
    ROUND_UP,
    SMALLEST,
    UNIT,
    Float32Array,
)
from dubito.matrix import AnyArray, BoolArray, FloatArray, IntArray, Matrix, Rows, blocks, len_of
from dubito.threads import n_threads

WIDE = 4096
"""With more features than this, a block of points does not fit in a thread's cache."""
PIECE_ROWS = 240
CALL_ROWS = 1 << 18
"""Number of rows per call of C; Ctrl-C is handled between calls."""
USELESS = 0.1
"""If sketches leave a larger share of the pairs than this, they are dropped during a refresh."""
NO_CENTER = NO_WEIGHTS = np.empty(0)
NO_DIRECTIONS = np.empty(0, dtype=np.float32)


class Stale(NamedTuple):
    rows: IntArray
    """(r,) rows of the pool."""
    bounds: FloatArray
    weights: FloatArray
    seen: AnyArray
    """(r,) int32, ascending: number of references that each bound accounts for."""

    def part(self, span: slice) -> "Stale":
        return Stale(self.rows[span], self.bounds[span], self.weights[span], self.seen[span])


class Refreshed(NamedTuple):
    limits: FloatArray
    """(r,) exact squared priorities; upper bounds where ``is_unfinished``."""
    squared: FloatArray
    """(r,) smallest exact squared distances."""
    is_unfinished: BoolArray
    """(r,) True for candidates whose limit fell below ``needed``, so that their exact priority was not computed."""

    def part(self, span: slice) -> "Refreshed":
        return Refreshed(self.limits[span], self.squared[span], self.is_unfinished[span])


class CandidatesByCell(NamedTuple):
    """Candidates, grouped by the cell of references that each is compared with."""

    rows: IntArray
    """(r,) candidates."""
    anchors: AnyArray
    """(r,) the anchor of each candidate's cell, ascending."""
    cells: list[IntArray]
    """The references in the cell of each anchor."""

    def pieces(self) -> tuple[IntArray, IntArray]:
        """(pieces + 1,) starts of pieces, of up to `PANEL` candidates of one cell, and (pieces,) the anchor of each."""
        runs = [0, *(np.flatnonzero(np.diff(self.anchors)) + 1).tolist(), len(self.rows)]
        starts = np.concatenate([np.arange(start, stop, PANEL) for start, stop in pairwise(runs)])
        return np.append(starts, len(self.rows)), self.anchors[starts].astype(np.int64)


@dataclass(slots=True)
class SmallRun:
    bounds: FloatArray
    """(n,) upper bounds on squared priorities; -1 once picked."""
    weights: FloatArray
    exact: FloatArray
    """(n,) squared distances to the references seen."""
    seen: AnyArray
    """(n,) int32, number of picks accounted for; -1 if not even the labeled points are."""
    positions: IntArray
    """(capacity,) the picks; -1 where there is none yet."""
    squared: FloatArray
    """(capacity,) their squared priorities when they were picked."""
    picked: FloatArray
    """(capacity, d) their points."""
    panels: Float32Array
    """(panels, d, 64) the labeled points, packed by C."""
    sizes: Float32Array
    """(panels · 64,) the term of each labeled point in squared distances."""
    is_bounded: bool
    """Whether ``bounds`` holds first bounds; otherwise C computes them."""
    n_before: int
    """Number of picks that serve as labeled points: the first pick of a cold start."""

    @property
    def n_picks(self) -> int:
        """The number of picks; counted on each access, because Ctrl-C may have interrupted a call."""
        return int(np.count_nonzero(self.positions >= 0))


@dataclass(frozen=True, slots=True)
class RowSteps:
    """The compiled functions, with the arrays of a problem that they read."""

    steps: compiled.CompiledSteps
    problem: Problem
    pool: AnyArray
    labeled: AnyArray
    labeled_rows: IntArray
    workers: int
    """Number of threads."""

    def pack_references(self, sketch: Sketch, picks: IntArray, start: int, into: ReferenceArrays) -> None:
        n_pool, d = self.pool.shape
        self.steps.pack_references(
            (*self._references(picks), *_center_and_directions(sketch), *into),
            *(d, n_pool, len(self.labeled), len(self.labeled_rows), len(picks), sketch.width(d) + 1, start),
            *(len(into.sizes), self.pool.itemsize, self.labeled.itemsize, self._is_cosine, fits_float32(sketch.scale)),
            *(sketch.center is not None, sketch.directions is not None, sketch.scale, sketch.slack, self.workers),
        )

    def _references(self, picks: IntArray) -> compiled.Arrays:
        return self.pool, self.labeled, self.labeled_rows, picks

    def first_bounds(
        self, plain: Sketch, anchors: Float32Array, sizes: Float32Array, level: float
    ) -> tuple[FloatArray, AnyArray, BoolArray]:
        """(n,) upper bounds on squared distances to the nearest of up to `PANEL` anchors, and the nearest anchor.

        ``anchors`` are shifted; ``sizes`` is the term of each anchor in squared distances. The third result (n,) tells
        whether a bound times the weight is above ``level``.
        """
        rows, (n_pool, d), weights = self.problem.candidates, self.pool.shape, self.problem.weights
        padded = np.full(PANEL, np.inf, dtype=np.float32)
        padded[: len(anchors)] = sizes
        bounds, nearest, is_high = np.empty(len(rows)), np.empty(len(rows), np.uint16), np.empty(len(rows), np.bool_)
        center, _ = _center_and_directions(plain)
        shared = (self.pool, center, pack(anchors), padded, NO_WEIGHTS if weights is None else weights)
        for span in blocks(len(rows), CALL_ROWS):
            arrays = (*shared, rows[span], bounds[span], nearest[span], is_high[span])
            self.steps.anchor_bounds(
                *(arrays, len(rows[span]), d, n_pool, PIECE_ROWS, self.pool.itemsize, self._is_cosine),
                *(
                    fits_float32(plain.scale),
                    plain.center is not None,
                    weights is not None,
                    plain.scale,
                    1.0 + plain.slack,
                ),
                *(FLOOR, plain.scale**2, level, self.workers),
            )
        return bounds, nearest, is_high

    @property
    def can_tighten_by_cells(self) -> bool:
        """Whether the points of a piece fit in a thread's cache."""
        return bool(self.pool.shape[1] <= WIDE)

    def tighten_by_cells(
        self, plain: Sketch, picks: IntArray, sizes: Float32Array, by_cell: CandidatesByCell, bounds: FloatArray
    ) -> None:
        """Lower bounds (r,) by the references of cells; ``sizes`` are the references' terms in squared distances."""
        if len(by_cell.rows) == 0:
            return
        (n_pool, d), (starts, of_cells) = self.pool.shape, by_cell.pieces()
        members = np.concatenate(by_cell.cells)
        arrays = (
            *(*self._references(picks), _center_and_directions(plain)[0]),
            *(sizes, members, np.cumsum([0, *map(len, by_cell.cells)])),
            *(self.problem.candidates[by_cell.rows], starts, of_cells, bounds),
        )
        self.steps.cell_bounds(
            *(arrays, len(by_cell.rows), d, n_pool, len(self.labeled), len(self.labeled_rows), len(picks)),
            *(len(members), len(by_cell.cells), len(of_cells), self.pool.itemsize, self.labeled.itemsize),
            *(self._is_cosine, fits_float32(plain.scale), plain.center is not None, plain.scale, 1.0 + plain.slack),
            *(FLOOR, plain.scale**2, self.workers),
        )

    def pairwise(self, rows: IntArray, middle: FloatArray, scale: float) -> tuple[FloatArray, FloatArray]:
        """(r, r) squared distances between rows of the pool, and (r,) their squared lengths, centered and scaled."""
        (n_pool, d), n = self.pool.shape, len(rows)
        squared, sizes = np.empty((n, n)), np.empty(n)
        arrays = (self.pool, rows, middle, sizes, squared)
        self.steps.pairwise_sq_distances(arrays, n, d, n_pool, self.pool.itemsize, self._is_cosine, scale, self.workers)
        return squared, sizes

    def pick_small(self, plain: Sketch, labeled_points: Float32Array, run: SmallRun, limit: int) -> None:
        """Pick greedily until there are ``limit`` picks; ``labeled_points`` are shifted."""
        (n_pool, d), capacity = self.pool.shape, len(run.positions)
        arrays = (
            *(self.pool, self.labeled, self.problem.candidates, self.labeled_rows),
            *(_center_and_directions(plain)[0], labeled_points, run.panels, run.sizes, _constants(plain, d, 0.0)),
            *(run.weights, run.bounds, run.exact, run.seen, run.positions, run.squared, run.picked),
        )
        self.steps.pick_small(
            *(arrays, len(run.bounds), d, n_pool, len(self.labeled), len(self.labeled_rows)),
            *(run.n_before, run.n_picks, limit, capacity, self.pool.itemsize, self.labeled.itemsize),
            *(self._is_cosine, fits_float32(plain.scale), plain.center is not None, run.is_bounded),
        )

    @property
    def _is_cosine(self) -> bool:
        return self.problem.metric == "cosine"

    def refresh(self, references: References, stale: Stale, needed: float) -> Refreshed | None:
        """Compare candidates with all references; None if the sketch was dropped and points need too much memory."""
        n_rows = len(stale.rows)
        done = Refreshed(stale.bounds.copy(), np.full(n_rows, np.inf), np.empty(n_rows, dtype=np.bool_))
        for span in blocks(n_rows, CALL_ROWS):
            is_done = False
            while not is_done:
                if references.panels is None:
                    return None
                is_done = self._refresh(references, references.panels, stale.part(span), needed, done.part(span))
                if not is_done:
                    references.drop_sketch()
            references.drop_useless_sketch()
        return done

    def _refresh(
        self, references: References, panels: Float32Array, stale: Stale, needed: float, into: Refreshed
    ) -> bool:
        """Lower the limits and distances; False if the sketches rule out too few pairs."""
        rows, _, weights, seen = stale
        sketch, (n_pool, d), picks = references.sketch, self.pool.shape, references.picks
        arrays = (
            *(*self._references(picks), *_center_and_directions(sketch), panels, _constants(sketch, d, needed)),
            *(rows, seen, weights, into.limits, into.squared, into.is_unfinished),
        )
        is_done, n_bounded, n_passed = self.steps.refresh(
            *(arrays, len(rows), d, n_pool, len(self.labeled), len(self.labeled_rows), len(picks)),
            *(sketch.width(d) + 1, references.n_bounded, references.n_passed, self.pool.itemsize),
            *(self.labeled.itemsize, self._is_cosine, fits_float32(sketch.scale)),
            *(sketch.center is not None, sketch.directions is not None, self.workers),
        )
        references.count_pairs(n_bounded, n_passed)
        return is_done


def _center_and_directions(sketch: Sketch) -> compiled.Arrays:
    """The center and the directions of a sketch as arrays; empty if there are none."""
    center = NO_CENTER if sketch.center is None else sketch.center
    return center, NO_DIRECTIONS if sketch.directions is None else sketch.directions


def _constants(sketch: Sketch, d: int, needed: float) -> FloatArray:
    """The constants of a refresh, in the order of ``refresh.h``."""
    rounding = (FLOOR, FLOOR_LENGTH, ROUND_UP, ROUND_DOWN, SMALLEST, BEYOND, LENGTH_UNITS * UNIT, d * UNIT)
    return np.array([sketch.scale, sketch.scale**2, sketch.slack, *rounding, USELESS, needed])


def row_steps(problem: Problem) -> RowSteps | None:
    """The steps for a problem; None without the C extension, or if it cannot read the features in place."""
    pool, labeled = _in_memory(problem.pool), _in_memory(problem.references)
    if compiled.steps is None or pool is None or labeled is None or pool.rows is not None:
        return None
    rows = np.arange(len_of(problem.references)) if labeled.rows is None else labeled.rows
    rows = np.ascontiguousarray(rows, dtype=np.int64)
    return RowSteps(compiled.steps, problem, pool.array, labeled.array, rows, n_threads())


class Located(NamedTuple):
    """An array that C can read, and the rows of it to use; None for all rows."""

    array: AnyArray
    rows: IntArray | None


def _in_memory(matrix: Matrix) -> Located | None:
    if isinstance(matrix, Rows):
        below = _in_memory(matrix.matrix)
        return None if below is None or below.rows is not None else Located(below.array, matrix.rows)
    return Located(matrix, None) if isinstance(matrix, np.ndarray) and compiled.can_read(matrix) else None
