"""The pairs of a row and a candidate within the row's limit, and exact distances to labeled rows, in C.

The limit of a row is its squared distance to the nearest labeled row, at most R²: only candidates within it add cover
to the row. Rows are grouped into cells of near points, and cells are divided into leaves of up to 64 points. Two leaves
of different cells are skipped if their projections on the line between the centers of the cells are farther apart than
the limits of all their rows.
"""

import time
from collections.abc import Callable
from dataclasses import dataclass, replace
from itertools import pairwise
from typing import NamedTuple

import numpy as np

from dubito import native as compiled
from dubito.core.coverage_reference import CoverageProblem
from dubito.core.distances import squared_radii
from dubito.core.problem import Known
from dubito.engines.cpu.coverage.space import LEVELS, Directions, Int32Array, Points, Space, encode, evenly_spaced
from dubito.engines.cpu.products import PANEL, closest, pack, product
from dubito.engines.lazy.bounds import FLOAT32_LARGEST, FLOOR, UNIT, Float32Array, gamma, squared_lengths
from dubito.matrix import AnyArray, BoolArray, FloatArray, IntArray, Rows, blocks, len_of

ReportPhase = Callable[[str, float], None]
"""A function that is called between calls of C with the name of a phase and the share of it that is done."""
DISTANCES, NEAR_PAIRS = "measuring distances", "finding near pairs"

PAIR = np.dtype([("row", np.int32), ("candidate", np.int32), ("kernel", np.float32)])
LEAF = np.dtype([(name, np.float32) for name in ("farthest", "longest", "error", "has_candidates")])
MOST_ROWS = 96
"""Maximum number of rows that are compared with labeled rows together."""
CHUNK = 64
"""Number of pairs for which a thread of C reserves memory at a time."""
NEAR = 1.0 + 1e-6
"""Exceeds the rounding of a limit to float32."""
CALL_PRODUCTS = 4e9
"""Maximum number of products of features in a call of C, which take some tenths of a second."""
CALL_SECONDS = 0.1
"""If a call takes less time than this, the next one does more work."""
CELL_ROWS = 400
"""Average number of rows in a cell, unless the number of cells is limited."""
FEWEST_CELLS, MOST_CELLS = 8, 512
CELL_SAMPLE = 48
"""Number of rows per cell of the sample from which the cells are computed."""
CELL_STEPS = 3
"""Number of steps of k-means."""
WIDTHS = (32, 64, 96, 128, 192)
"""Widths of heads from which `choose_width` chooses."""
TRIAL_ROWS = 512
PAIR_COST = 6000.0
"""Cost of a pair that heads do not rule out, relative to a product of two codes."""
COMPARED, LEAST_COMPARED = 2.0, 0.05
"""Estimated number of pairs that cells do not rule out: as a multiple of those that the smallest width does not rule
out, and at least as a share of all pairs."""


class Pairs(NamedTuple):
    """Pairs of each candidate: those of candidate c are at ``starts[c]`` to ``stops[c]``."""

    starts: IntArray
    stops: IntArray
    rows: Int32Array
    kernels: Float32Array
    """Upper bounds on the kernels."""


class TooManyPairs(Exception):
    """The pairs do not fit in memory."""


class Nearest:
    """Exact squared distances of rows of the pool to the nearest labeled row, computed on request."""

    def __init__(self, space: Space, report_phase: ReportPhase) -> None:
        problem, self.space, self.report_phase = space.problem, space, report_phase
        n_pool = len_of(problem.pool)
        self.known = problem.known or Known(np.full(n_pool, np.inf), np.zeros(n_pool, np.int32), np.empty(0, np.int64))

    def squared_distances(
        self, rows: IntArray, directions: Directions, cloud: "PointCloud | None" = None
    ) -> FloatArray:
        """(r,) squared distances of rows; infinite if no row is labeled. Known distances are not computed again.

        ``cloud`` contains the points of these rows; without it, they are read from the pool.
        """
        known, n_references = self.known, len_of(self.space.problem.references)
        missing = rows[known.seen[rows] < n_references]
        for first in np.unique(known.seen[missing]).tolist():
            group = missing[known.seen[missing] == first]
            self._lower(group, np.arange(first, n_references), directions, cloud)
            known.seen[group] = n_references
        return known.squared[rows]

    def _lower(self, rows: IntArray, references: IntArray, directions: Directions, cloud: "PointCloud | None") -> None:
        space, problem, known = self.space, self.space.problem, self.known
        if compiled.steps is None or space.pool is None or space.references is None:
            squared = squared_radii(Rows(problem.pool, rows), Rows(problem.references, references), problem.metric)
            known.squared[rows] = np.minimum(known.squared[rows], squared)
            return
        pool, others = space.pool, space.references
        targets = directions.points(space, others.array, others.rows[references])
        if cloud is None:
            cells, owner = Cells.single(targets.head.shape[1]), np.zeros(len(rows), dtype=np.int64)
        else:
            numbers = np.sort(cloud.numbers[rows]).astype(np.int64)
            cells, owner, rows = cloud.cells, cloud.cell_of_point[numbers], cloud.rows[numbers]
        of_target = cells.nearest(compiled.steps, targets)
        by_cell = np.argsort(of_target, kind="stable")
        targets, of_target = targets.take(by_cell), of_target[by_cell]
        target_starts = _leaf_starts(of_target, PANEL)
        target_cells = of_target[target_starts[:-1]]
        arrays = (
            *(target_starts, target_cells, cells.edges(targets, target_starts, target_cells)),
            *(
                np.maximum.reduceat(targets.length, target_starts[:-1]),
                pack(cells.centers),
                *cells.gaps(directions),
            ),
        )
        per_row = len(references) * targets.head.shape[1]
        for span in blocks(len(rows), max(MOST_ROWS, int(CALL_PRODUCTS / max(per_row, 1)))):
            if cloud is None:
                points = directions.points(space, pool.array, pool.rows[rows[span]])
            else:
                points = cloud.points.take(numbers[span])
            squared, starts = known.squared[rows[span]], _leaf_starts(owner[span], MOST_ROWS)
            n_leaves = len(starts) - 1
            sizes = (*others.array.shape[::-1], len(points), len(targets), *points.widths(directions))
            compiled.steps.find_nearest(
                (
                    *(*space.arrays(1.0), others.array, *points.arrays, *targets.arrays, squared),
                    *(starts, owner[span][starts[:-1]], *arrays),
                ),
                *(sizes[0], len(pool.array), *sizes[1:], n_leaves, len(target_cells), len(cells.centers), 0, n_leaves),
                *(directions.scale.step, directions.fine_scale(space).step, directions.slack),
                *(len(points.full) > 0, len(targets.full) > 0),
                *(space.itemsize, others.array.itemsize, *space.flags, space.n_threads),
            )
            known.squared[rows[span]] = squared
            self.report_phase(DISTANCES, span.stop / len(rows))


def choose_width(space: Space, widest: Directions, rows: IntArray, limits: FloatArray) -> Directions:
    """The directions with the width of heads of lowest estimated cost, or the features themselves; tried on some pairs.

    ``limits`` (r,) of some ``rows`` of the pool are squared distances of shifted points.
    """
    assert widest.matrix is not None
    trial, candidates = evenly_spaced(len(rows), TRIAL_ROWS), space.problem.candidates
    others = candidates[evenly_spaced(len(candidates), TRIAL_ROWS)]
    # Pairs of a row with itself are rare among all pairs, but frequent here.
    is_other = rows[trial][:, None] != others
    left, right = (space.shifted(space.problem.pool, part) for part in (rows[trial], others))
    fitted_directions, shares, sizes = (
        list[Directions](),
        list[float](),
        (squared_lengths(left), squared_lengths(right)),
    )
    widths = [width for width in WIDTHS if width <= widest.matrix.shape[1]]
    n, d = space.problem.pool.shape
    all_features = [Directions.features(space)] if 8 * n * d <= space.full_bytes else []
    for chosen in (*(replace(widest, width=width) for width in widths), *all_features):
        fitted = chosen.fitted(space)
        encoded = [encode(fitted.heads(*each), fitted.scale) for each in zip((left, right), sizes, strict=True)]
        weights = np.repeat(2.0 ** np.arange(LEVELS - 1, -1, -1), np.diff([0, *fitted.scale.ends])).astype(np.float32)
        codes = [each.numbers[: len(each.sizes)] * weights for each in encoded]
        products = product(codes[0], codes[1])
        squared = encoded[0].sizes[:, :1] + encoded[1].sizes[:, 0] - 2.0 * products
        errors = encoded[0].errors[:, None] + encoded[1].errors
        most = (np.sqrt(limits[trial])[:, None] + errors) / fitted.scale.step
        shares.append(float(np.mean((squared <= most**2) & is_other)) if is_other.size else 0.0)
        fitted_directions.append(fitted)
    compared = min(1.0, max(LEAST_COMPARED, COMPARED * shares[0]))
    costs = [compared * each.width + PAIR_COST * share for each, share in zip(fitted_directions, shares, strict=True)]
    return fitted_directions[int(np.argmin(costs))]


@dataclass(frozen=True, slots=True)
class Cells:
    """Cells of points, given by their centers: a point belongs to the cell of the nearest center."""

    centers: Float32Array
    """(c, k) in the coordinates of heads."""

    @classmethod
    def single(cls, width: int) -> "Cells":
        """One cell, to which all points belong."""
        return cls(np.zeros((1, width), dtype=np.float32))

    def nearest(self, steps: compiled.CompiledSteps, points: Points) -> IntArray:
        if len(self.centers) == 1:
            return np.zeros(len(points), dtype=np.int64)
        return _nearest_center(steps, points.head[: len(points)], self.centers)

    def edges(self, points: Points, starts: IntArray, cells: IntArray) -> Float32Array:
        """(leaves, c) the maximum of g(cell) - g(own cell) over the points of each leaf.

        g(cell) is the product of a point with the center of a cell.
        """
        if len(self.centers) == 1:
            return np.zeros((len(cells), 1), dtype=np.float32)
        products = product(points.head[: len(points)], self.centers)
        products -= np.take_along_axis(products, np.repeat(cells, np.diff(starts))[:, None], axis=1)
        return np.maximum.reduceat(products, starts[:-1], axis=0)

    def gaps(self, directions: Directions) -> tuple[Float32Array, Float32Array]:
        """(c, c) reciprocals of the distances between centers, and (c, c) errors of projections on the lines.

        The projections of two points on the line between two centers are no farther apart than the points. The error is
        relative to the sum of the points' lengths.
        """
        if len(self.centers) == 1:
            return np.zeros((1, 1), dtype=np.float32), np.zeros((1, 1), dtype=np.float32)
        centers = self.centers.astype(np.float64)
        squared = (centers**2).sum(axis=1)
        distances = np.sqrt(np.maximum(squared[:, None] + squared - 2.0 * (centers @ centers.T), 0.0))
        lengths = np.sqrt(squared)
        products = 4.0 * gamma(centers.shape[1] + 8) * (lengths[:, None] + lengths)
        error = products + distances * (8.0 * UNIT + 2.0 * directions.error) + 1e-15
        with np.errstate(divide="ignore"):
            return (1.0 / (distances * (1.0 + 1e-4))).astype(np.float32), (error * NEAR).astype(np.float32)


def find_cells(steps: compiled.CompiledSteps, points: Points) -> Cells:
    """Cells from a few steps of k-means on a sample. If heads begin with a remainder, it is 0 in centers."""
    n, n_cells = len(points), min(MOST_CELLS, len(points) // CELL_ROWS)
    if n_cells < FEWEST_CELLS:
        return Cells.single(points.head.shape[1])
    sample = points.head[evenly_spaced(n, CELL_SAMPLE * n_cells)]
    if not points.is_whole:
        sample[:, 0] = 0.0
    centers = sample[evenly_spaced(len(sample), n_cells)].copy()
    for _ in range(CELL_STEPS):
        owner = _nearest_center(steps, sample, centers)
        order = np.argsort(owner, kind="stable")
        _, first, counts = np.unique(owner[order], return_index=True, return_counts=True)
        centers = np.add.reduceat(sample[order], first, axis=0)
        centers /= counts[:, None].astype(np.float32)
    return Cells(centers)


def _nearest_center(steps: compiled.CompiledSteps, heads: Float32Array, centers: Float32Array) -> IntArray:
    halves = (0.5 * squared_lengths(centers)).astype(np.float32)
    return closest(steps, heads, pack(centers), halves)[0][:, 0].astype(np.int64)


def _leaf_starts(key: IntArray, most: int) -> IntArray:
    """(leaves + 1,) the starts of leaves of at most ``most`` consecutive points with equal keys."""
    runs = [0, *(np.flatnonzero(key[1:] != key[:-1]) + 1).tolist(), len(key)]
    starts = [each for first, stop in pairwise(runs) for each in range(first, stop, most)]
    return np.array([*starts, len(key)], dtype=np.int64)


def used_rows(problem: CoverageProblem) -> BoolArray:
    """(n,) rows that have a weight, may be picked, or determine the reach."""
    is_used = problem.weights > 0.0
    is_used[problem.candidates] = is_used[problem.sample] = True
    return is_used


class PointCloud:
    """The points of `used_rows`, sorted by cell, so that near points have similar numbers."""

    def __init__(self, steps: compiled.CompiledSteps, space: Space, directions: Directions, rows: IntArray) -> None:
        matrix, where = (space.problem.pool, rows) if space.pool is None else (space.pool.array, space.pool.rows[rows])
        points = directions.points(space, matrix, where)
        self.cells = find_cells(steps, points)
        cell_of_point = self.cells.nearest(steps, points)
        order = np.argsort(cell_of_point.astype(np.int16), kind="stable")  # A radix sort.
        self.rows, self.points, self.cell_of_point = rows[order], points.take(order), cell_of_point[order]
        self.numbers = np.full(len_of(space.problem.pool), -1, dtype=np.int32)
        """(n,) the number of the point of each row of the pool; -1 if it has none."""
        self.numbers[self.rows] = np.arange(len(rows))


class PairSearch:
    """Finds pairs of near points, which are numbered as in the point cloud."""

    def __init__(self, steps: compiled.CompiledSteps, space: Space, directions: Directions, cloud: PointCloud) -> None:
        self.steps, self.space, self.directions, self.cloud = steps, space, directions, cloud
        self.gaps = cloud.cells.gaps(directions)

    def run(
        self, limits: FloatArray, covered: FloatArray, candidates: IntArray, reach: float, capacity: int,
        report_phase: ReportPhase, sums: FloatArray | None = None,
    ) -> Pairs:  # fmt: skip
        """Pairs of points within their limits with these candidates; raises TooManyPairs if they exceed the capacity.

        ``limits`` (p,) are squared distances of shifted points, or -1 for points without a limit; ``covered`` (p, 2)
        holds cover and weight. With ``sums`` (candidates,), pairs are not stored; instead, upper bounds on the gains,
        not yet multiplied by ROUND_UP, are added to it.
        """
        problem, steps, space, cloud = self.space.problem, self.steps, self.space, self.cloud
        n_candidates, candidate_of = len(problem.candidates), np.full(len(limits), -1, dtype=np.int32)
        candidate_of[cloud.numbers[problem.candidates[candidates]]] = candidates
        squared = np.where(limits > 0.0, np.clip(limits * NEAR, FLOOR, FLOAT32_LARGEST), -1.0)
        limit = squared.astype(np.float32)
        is_used = (limit > 0.0) | (candidate_of >= 0)
        kind = np.where(limit > 0.0, (candidate_of >= 0).astype(np.int64), 2)
        key = 3 * cloud.cell_of_point + kind
        order = np.argsort(key.astype(np.int16), kind="stable")  # A radix sort.
        order = order[is_used[order]]
        if len(order) == 0:
            zeros = np.zeros(n_candidates, dtype=np.int64)
            return Pairs(zeros, zeros.copy(), np.empty(0, np.int32), np.empty(0, np.float32))
        points, limit, candidate_of, key = cloud.points.take(order), limit[order], candidate_of[order], key[order]
        # Candidates are numbered in the order of the points, so that near candidates have similar numbers.
        is_candidate = candidate_of >= 0
        numbers = np.where(is_candidate, np.cumsum(is_candidate) - 1, -1).astype(np.int32)
        candidate_of = candidate_of[is_candidate]
        starts, leaves = _leaves(key, limit, numbers, points)
        cells, centers = key[starts[:-1]] // 3, cloud.cells.centers
        edges = np.empty((2, len(leaves), len(centers)), dtype=np.float32)
        added = np.zeros(0 if sums is None else len(candidate_of))
        pairs = np.empty(0 if sums is not None else capacity, dtype=PAIR)
        arrays = (
            *(*space.arrays(reach), *points.arrays, order, limit, numbers),
            *(starts, cells, leaves, pack(centers), *edges),
            *(*self.gaps, covered, added, pairs.view(np.uint8)),
        )
        sizes = (
            *(
                problem.pool.shape[1],
                space.n_matrix,
                len(limits),
                len(candidate_of),
                len(points),
                *points.widths(self.directions),
            ),
            *(len(leaves), len(centers), len(added)),
        )
        directions = self.directions
        scales = directions.scale.step, directions.fine_scale(space).step, directions.slack
        flags = *scales, len(points.full) > 0, space.itemsize, *space.flags
        n_pairs, threads = 0, space.n_threads
        if len(centers) > 1:
            steps.search_pairs(arrays, *sizes, 0, 0, 0, len(pairs), *flags, True, threads)
        # Each leaf is compared with all leaves before it. Start with the last leaves, which have the most work.
        stop, per_leaf = len(leaves), PANEL * points.head.shape[1] * len(points)
        n_leaves = max(threads, int(CALL_PRODUCTS / per_leaf))
        while stop > 0:
            start, started = max(0, stop - n_leaves), time.perf_counter()
            is_full, n_pairs = steps.search_pairs(
                arrays, *sizes, start, stop - start, n_pairs, len(pairs), *flags, False, threads
            )
            if is_full:
                raise TooManyPairs
            report_phase(NEAR_PAIRS, 1.0 - (start / len(leaves)) ** 2)
            # A call is fast if bounds between cells rule out most leaves.
            n_leaves = 2 * n_leaves if time.perf_counter() - started < CALL_SECONDS else n_leaves
            stop = start
        if sums is not None:
            sums[candidate_of] += added
        return self.grouped(pairs[:n_pairs], candidate_of, n_candidates)

    def grouped(self, pairs: AnyArray, candidates: Int32Array, n_candidates: int) -> Pairs:
        """Pairs sorted by candidate. In ``pairs``, a candidate is numbered by its position in ``candidates``."""
        bounds = np.empty(len(candidates) + 1, dtype=np.int64)
        rows, kernels = np.empty(len(pairs), dtype=np.int32), np.empty(len(pairs), dtype=np.float32)
        self.steps.group_pairs(
            (pairs.view(np.uint8), bounds, rows, kernels), len(pairs), len(candidates), self.space.n_threads
        )
        starts, stops = np.zeros((2, n_candidates), dtype=np.int64)
        starts[candidates], stops[candidates] = bounds[:-1], bounds[1:]
        return Pairs(starts, stops, rows[: bounds[-1]], kernels[: bounds[-1]])


def _leaves(key: IntArray, limit: Float32Array, numbers: Int32Array, points: Points) -> tuple[IntArray, AnyArray]:
    """(leaves + 1,) starts of leaves of at most `PANEL` points with equal keys, and (leaves,) their `LEAF` records."""
    starts = _leaf_starts(key, PANEL)
    leaves = np.empty(len(starts) - 1, dtype=LEAF)
    values_of = {
        "farthest": limit,
        "longest": points.length,
        "error": points.codes.errors,
        "has_candidates": numbers >= 0,
    }
    for name, values in values_of.items():
        leaves[name] = np.maximum.reduceat(values, starts[:-1])
    return starts, leaves
