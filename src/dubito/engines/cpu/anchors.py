"""First bounds on distances: products of all candidates with a few references, then of some candidates with more.

The few references are the *anchors*: those that are the nearest reference of most candidates of a sample. Every
reference belongs to the cells of its nearest anchors. A candidate that may be picked early is compared with all
references in the cell of its nearest anchor: a few dozen references near a point give better bounds than hundreds
elsewhere.
"""

from itertools import pairwise

import numpy as np

from dubito import native as compiled
from dubito.core.problem import Problem
from dubito.engines.cpu.memory import CpuPlan
from dubito.engines.cpu.products import closest, pack, product
from dubito.engines.cpu.references import References
from dubito.engines.cpu.rowsteps import CandidatesByCell, RowSteps
from dubito.engines.cpu.sketch import Sketch
from dubito.engines.lazy.bounds import FLOOR, Float32Array, squared_lengths
from dubito.matrix import AnyArray, FloatArray, IntArray, blocks

CHOICE = 1024
"""Number of references from which anchors are chosen."""
CELLS = 2
"""Number of cells that a reference belongs to."""
CELL_ROWS = 512
"""Maximum number of references of a cell that candidates are compared with."""
CLOSER = 4
"""Number of candidates, per pick, that are compared with a cell; half as many with doubt, which spreads the
priorities."""


class DistanceBounds:
    """Shifted references, and upper bounds on distances to them."""

    def __init__(self, plain: Sketch, references: Float32Array, sizes: FloatArray) -> None:
        self.plain, self.references = plain, references
        self.sizes = ((1.0 + plain.slack) * sizes).astype(np.float32)

    def squared(self, points: Float32Array) -> Float32Array:
        """(r, references) upper bounds on squared distances, without the term of the point itself; see `point_term`."""
        squared: Float32Array = points @ self.references.T
        squared *= -2.0
        squared += self.sizes
        return squared

    def nearest(self, points: Float32Array) -> tuple[FloatArray, IntArray]:
        """(r,) upper bounds on the squared distance to the nearest reference, in feature units, and its number."""
        squared, own = self.squared(points), point_term(self.plain, points)
        which = squared.argmin(axis=1)
        own += squared[np.arange(len(which)), which]
        return np.maximum(own, 0.0) / self.plain.scale**2, which


def point_term(plain: Sketch, points: Float32Array) -> FloatArray:
    """(r,) the term of the point itself in upper bounds on its squared distances."""
    return (1.0 + plain.slack) * squared_lengths(points) + FLOOR


def read_candidates(problem: Problem, plain: Sketch, rows: slice | IntArray) -> Float32Array:
    """Shifted points of candidates; consecutive rows are not copied."""
    pool_rows = problem.candidates[rows]
    is_whole = isinstance(rows, slice) and pool_rows[-1] - pool_rows[0] + 1 == len(pool_rows)
    which = slice(pool_rows[0], pool_rows[-1] + 1) if is_whole else pool_rows
    return plain.read(problem.pool, which, problem.metric)


class FirstBounds:
    """Upper bounds on each candidate's squared distance to its nearest reference, unscaled."""

    def __init__(
        self,
        problem: Problem,
        references: References,
        plain: Sketch,
        plan: CpuPlan,
        n_anchors: int,
        n_picks: int | None = None,
        in_c: RowSteps | None = None,
    ) -> None:
        self.problem, self.references, self.plain, self.plan, self.in_c = problem, references, plain, plan, in_c
        self.n_picks = problem.budget if n_picks is None else n_picks
        """Approximate number of candidates that will be picked."""
        self.anchors, self.level = self._choose_anchors(n_anchors)
        """Numbers of references, and the squared priority above which candidates are compared with cells."""

    def compute(self) -> FloatArray:
        n_candidates, upper = len(self.problem.candidates), self._distance_bounds(self.anchors)
        if self.in_c is not None:
            bounds, nearest, is_high = self.in_c.first_bounds(self.plain, upper.references, upper.sizes, self.level)
        else:
            bounds, nearest = np.empty(n_candidates), np.empty(n_candidates, dtype=np.uint16)
            is_high = np.empty(n_candidates, dtype=np.bool_)
            for span in blocks(n_candidates, 2 * self.plan.refresh_rows):
                bounds[span], nearest[span] = upper.nearest(read_candidates(self.problem, self.plain, span))
                is_high[span] = bounds[span] * self._weights(span) > self.level
        if len(self.anchors) < len(self.references):
            self._tighten_by_cells(bounds, nearest, np.flatnonzero(is_high))
        return bounds

    def _distance_bounds(self, which: IntArray) -> DistanceBounds:
        return DistanceBounds(self.plain, self.references.rows(which), self.references.sizes[which])

    def _choose_anchors(self, n_anchors: int) -> tuple[IntArray, float]:
        """The anchors, and a squared priority that few candidates exceed; both from a sample of the candidates."""
        problem, references = self.problem, self.references
        stride = -(-len(references) // min(CHOICE, self.plan.reference_rows))
        chosen = np.arange(0, len(references), stride)
        step = -(-len(problem.candidates) // self.plan.refresh_rows)
        sample = np.arange(0, len(problem.candidates), step)
        shifted = read_candidates(problem, self.plain, sample)
        sizes = squared_lengths(shifted)
        sketches, _ = references.sketch.apply(shifted, sizes)
        nearest, nearness = self._nearest(sketches, stride)
        popular = np.argsort(-np.bincount(nearest, minlength=len(chosen)), kind="stable")
        squared = (sizes - nearness) / self.plain.scale**2
        squared *= self._weights(sample)
        n_compared = CLOSER * self.n_picks // (1 if problem.weights is None else 2)
        position = max(0, len(sample) - 1 - n_compared // step)
        return np.sort(chosen[popular[:n_anchors]]), float(np.partition(squared, position)[position])

    def _nearest(self, sketches: Float32Array, stride: int) -> tuple[AnyArray, Float32Array]:
        """(r,) the nearest of every ``stride``-th reference, and (r,) the nearness of the nearest of all references.

        The nearness of the nearest of a few references would give a level that is much too high. The lengths used are
        those of whole points, from which distances are estimated better than from those of sketches.
        """
        panels, n_references = self.references.panels, len(self.references)
        if compiled.steps is not None and panels is not None:
            sizes = self.references.sizes[:n_references].astype(np.float32)
            probes = np.pad(sketches, ((0, 0), (0, 1)))
            positions, largest = closest(compiled.steps, probes, panels, sizes, stride=stride)
            return positions[:, 0] // stride, largest
        spans = blocks(n_references, self.plan.reference_rows)
        nearest: Float32Array = np.max([self._nearness(sketches, span).max(axis=1) for span in spans], axis=0)
        return self._nearness(sketches, slice(0, n_references, stride)).argmax(axis=1), nearest

    def _nearness(self, sketches: Float32Array, span: slice) -> Float32Array:
        """(r, span) nearness of sketches to references: larger is nearer."""
        nearness = product(sketches, self.references.targets(span)[:, :-1])
        nearness -= self.references.sizes[span].astype(np.float32)
        return nearness

    def _weights(self, rows: slice | IntArray) -> FloatArray | float:
        weights = self.problem.weights
        return 1.0 if weights is None else weights[self.problem.candidates[rows]]

    def _tighten_by_cells(self, bounds: FloatArray, nearest: AnyArray, rows: IntArray) -> None:
        """Lower the largest bounds by the cells of their anchors."""
        rows = rows[np.argsort(nearest[rows], kind="stable")]
        cells = self._cells()
        if self.in_c is not None and self.in_c.can_tighten_by_cells:
            lower = bounds[rows]
            sizes = ((1.0 + self.plain.slack) * self.references.sizes[: len(self.references)]).astype(np.float32)
            self.in_c.tighten_by_cells(
                self.plain, self.references.picks, sizes, CandidatesByCell(rows, nearest[rows], cells), lower
            )
            bounds[rows] = lower
            return
        for span in blocks(len(rows), 2 * self.plan.refresh_rows):
            lower = self._bounds_by_cells(rows[span], nearest[rows[span]], cells)
            bounds[rows[span]] = np.minimum(bounds[rows[span]], lower)

    def _bounds_by_cells(self, rows: IntArray, anchors: AnyArray, cells: list[IntArray]) -> FloatArray:
        """(r,) upper bounds on squared distances to the cells of anchors; candidates are sorted by anchor."""
        points, squared = read_candidates(self.problem, self.plain, rows), np.empty(len(rows))
        starts = [0, *(np.flatnonzero(np.diff(anchors)) + 1).tolist(), len(rows)]
        for start, stop in pairwise(starts):
            upper = self._distance_bounds(cells[anchors[start]])
            squared[start:stop] = upper.squared(points[start:stop]).min(axis=1, initial=np.inf)
        return np.maximum(squared + point_term(self.plain, points), 0.0) / self.plain.scale**2

    def _cells(self) -> list[IntArray]:
        """The references of each cell: those to which the anchor is one of the nearest, by sketches."""
        targets = self.references.targets
        anchors = np.concatenate([targets(slice(anchor, anchor + 1)) for anchor in self.anchors.tolist()])
        nearest = np.empty((len(self.references), min(CELLS, len(anchors))), dtype=np.uint16)
        for span in blocks(len(nearest), self.plan.reference_rows):
            nearest[span] = _nearest_of(targets(span), anchors, nearest.shape[1])
        owners = nearest.ravel()
        members = np.argsort(owners, kind="stable") // nearest.shape[1]
        cells = np.split(members, np.searchsorted(np.sort(owners), np.arange(1, len(anchors))))
        most = min(CELL_ROWS, self.plan.reference_rows)
        return [cell[:: -(-len(cell) // most) or 1] for cell in cells]


def _nearest_of(targets: Float32Array, anchors: Float32Array, n_best: int) -> AnyArray:
    """(r, n_best) the nearest anchors; points and anchors are given as targets."""
    points = np.float32(0.5) * anchors
    points[:, -1] = 0.0
    if compiled.steps is not None:
        return closest(compiled.steps, targets, pack(points), -anchors[:, -1], n_best=n_best)[0]
    nearness, every = product(targets, points) + anchors[:, -1], np.arange(len(targets))
    nearest = np.empty((len(targets), n_best), dtype=np.uint16)
    for position in range(n_best):
        nearest[:, position] = nearness.argmax(axis=1)
        nearness[every, nearest[:, position]] = -np.inf
    return nearest
