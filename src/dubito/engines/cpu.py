"""The lazy engine's kernels on NumPy and BLAS: products in float32, decisions in float64."""

from collections.abc import Callable
from dataclasses import dataclass
from itertools import pairwise

import numpy as np

from dubito.distances import read_rows
from dubito.engines import lazy
from dubito.engines.front import Front
from dubito.engines.references import References
from dubito.engines.refresh import Group
from dubito.engines.sketch import FLOOR, Float32Array, fit_sketch, plain_sketch
from dubito.matrix import AnyArray, BoolArray, FloatArray, IntArray, blocks
from dubito.problem import Problem, Solution

Reduction = Callable[..., AnyArray]

SAMPLE_ROWS = 1024
ANCHORS = 64
REFRESH_ROWS = 512
REFERENCE_ROWS = 8192
MEMORY = 128 << 20


@dataclass(frozen=True, slots=True)
class CpuEngine:
    """Exact, lazy, on every core that BLAS uses."""

    name: str = "cpu"

    def refusals(self, problem: Problem) -> list[str]:
        """None: it takes every problem."""
        return []

    def solve(self, problem: Problem) -> Solution:
        """See `dubito.engines.lazy`."""
        return lazy.solve(problem, CpuKernels(problem))


class CpuKernels:
    """See `dubito.engines.lazy.Kernels`."""

    def __init__(self, problem: Problem) -> None:
        self.problem = problem
        self.weights = np.ones(1) if problem.weights is None else problem.weights
        sample = self._sample()
        self.full = plain_sketch(sample, problem.largest)
        self.references = References(problem, fit_sketch(sample, problem.largest), MEMORY // 2)

    def _sample(self) -> FloatArray:
        problem = self.problem
        rows = problem.candidates
        if len(rows) > SAMPLE_ROWS:
            rows = rows[np.linspace(0, len(rows) - 1, SAMPLE_ROWS).astype(np.int64)]
        return read_rows(problem.pool, rows, problem.metric)

    def _points(self, rows: IntArray) -> FloatArray:
        return read_rows(self.problem.pool, self.problem.candidates[rows], self.problem.metric)

    def _weights(self, rows: IntArray) -> FloatArray:
        if self.problem.weights is None:
            return np.ones(len(rows))
        return self.problem.weights[self.problem.candidates[rows]]

    def add_references(self, picks: IntArray) -> None:
        """Candidates picked."""
        self.references.add(picks)

    def first_bounds(self) -> FloatArray:
        """Distance to the nearest of a few anchors among the references: one product over the pool."""
        anchors = np.unique(np.linspace(0, len(self.references) - 1, ANCHORS).astype(np.int64))
        picked = self.references.pick_weights(slice(0, len(self.references)))
        own = None if picked is None else picked[anchors]
        return self._bounds_to(self.references.points(anchors), own, np.ndarray.min)

    def farthest_bounds(self, picks: IntArray) -> FloatArray:
        """Distance to the farthest of these candidates."""
        own = self._weights(picks) if self.problem.scaling == "acquired" else None
        return self._bounds_to(self._points(picks), own, np.ndarray.max)

    def _bounds_to(self, anchors: FloatArray, own: FloatArray | None, reduce: Reduction) -> FloatArray:
        """(n,) upper bounds on squared priorities over anchors, scaled by the anchors' own weights where given."""
        full, n_candidates = self.full, len(self.problem.candidates)
        others = full.shift(anchors).astype(np.float32)
        other_sizes = ((1.0 + full.slack) * _sizes(others)).astype(np.float32)
        bounds = np.empty(n_candidates)
        for span in blocks(n_candidates, 4 * REFRESH_ROWS):
            rows = np.arange(span.start, span.stop)
            points, weights = self._shifted(rows), self._weights(rows)
            squared = points @ (-2.0 * others.T)
            squared += other_sizes
            sizes = (1.0 + full.slack) * _sizes(points) + FLOOR
            if own is None:
                reached = (reduce(squared, axis=1) + sizes) * weights
            else:
                # In "acquired" scaling the pick's weight counts, but what has no doubt at all stays at 0.
                reached = reduce((squared + sizes[:, None]) * own, axis=1) * (weights > 0.0)
            bounds[span] = np.maximum(reached, 0.0) / full.scale**2
        return bounds

    def _shifted(self, rows: IntArray) -> Float32Array:
        return self.full.shift(self._points(rows)).astype(np.float32)

    def refresh(
        self, rows: IntArray, bounds: FloatArray, seen: IntArray, needed: float
    ) -> tuple[FloatArray, BoolArray]:
        """Candidates that have seen about as much go together."""
        order = np.argsort(seen, kind="stable")
        exact, is_fresh = np.empty(len(rows)), np.empty(len(rows), dtype=np.bool_)
        for span in blocks(len(rows), REFRESH_ROWS):
            part = order[span]
            group = Group(self.references, self._points(rows[part]), bounds[part], self._weights(rows[part]), needed)
            for start, stop in self._spans(int(seen[part[0]])):
                group.look_at(slice(start, stop))
            exact[part] = group.finish()
            is_fresh[part] = ~group.is_out
        return exact, is_fresh

    def _spans(self, first: int) -> list[tuple[int, int]]:
        """Spans of references from ``first`` on, labelled and picks apart."""
        cuts = [first, max(first, self.references.n_labelled), len(self.references)]
        return [
            (start, min(start + REFERENCE_ROWS, stop))
            for begin, stop in pairwise(cuts)
            for start in range(begin, stop, REFERENCE_ROWS)
        ]

    def front(self, rows: IntArray) -> Front:
        """One symmetric product."""
        points = self._points(rows)
        shifted = self.full.shift(points.copy()).astype(np.float32)
        sizes = _sizes(shifted)
        squared = shifted @ shifted.T
        squared *= -2.0
        squared += sizes.astype(np.float32)
        squared += sizes.astype(np.float32)[:, None]
        error = self.full.slack * sizes + FLOOR
        unit, by_pick = 1.0 / self.full.scale**2, self.problem.scaling == "acquired"
        return Front(points, squared, error, unit, self._weights(rows), by_pick)


def _sizes(rows: Float32Array) -> FloatArray:
    sizes: Float32Array = np.einsum("ij,ij->i", rows, rows)
    return sizes.astype(np.float64)
