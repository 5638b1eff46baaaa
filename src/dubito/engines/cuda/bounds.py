"""Upper bounds on every candidate's squared priority, kept on a device.

``tight`` counts the references that products have lowered a bound by, ``seen`` those it is exact for. A bound is exact
for the references seen, or the nearest is among the others; -1 once picked.
"""

import torch

from dubito.engines.cuda.memory import DeviceSizes
from dubito.engines.cuda.points import DevicePoints, Tensor, spread_out, to_device
from dubito.engines.cuda.programs.pairs import near_pairs, tighten
from dubito.engines.cuda.programs.settling import settle_priorities
from dubito.engines.cuda.shapes import DeviceReferences
from dubito.matrix import IntArray, blocks
from dubito.problem import Problem

FULL_PAIRS = 1e9
"""Candidates times labelled points below which every bound starts tight."""
ANCHORS = 256


class DeviceBounds:
    """Bounds, and what it takes to lower them. Candidates are numbered 0 to n - 1."""

    def __init__(
        self, problem: Problem, points: DevicePoints, references: DeviceReferences, sizes: DeviceSizes
    ) -> None:
        self.problem, self.points, self.references, self.sizes = problem, points, references, sizes
        self.device = references.exact.device
        self.constants = references.shape.constants(self.device)
        n = len(problem.candidates)
        self.numbers = None if n == problem.pool.shape[0] else to_device(problem.candidates, self.device)
        if problem.weights is None:
            self.weights = torch.ones(n, dtype=torch.float64, device=self.device)
        else:
            chosen = problem.weights if self.numbers is None else problem.weights[problem.candidates]
            self.weights = to_device(chosen, self.device)
        self.by_pick = problem.weights is not None and problem.scaling == "acquired"
        self.value = torch.full((n,), torch.inf, dtype=torch.float64, device=self.device)
        self.seen = torch.zeros(n, dtype=torch.int32, device=self.device)
        self.tight = torch.zeros(n, dtype=torch.int32, device=self.device)
        self.n_tight = 0
        """References that every bound is tight for."""
        self.picked = torch.empty(0, dtype=torch.int64, device=self.device)
        """Candidates that became references, in order."""

    def exact(self, rows: Tensor | slice) -> Tensor:
        """(r, d) points of candidates."""
        return self.points.exact(rows if self.numbers is None else self.numbers[rows])

    def pick(self, rows: Tensor) -> None:
        """Candidates become references."""
        self.references.add(self.exact(rows))
        self.picked = torch.cat([self.picked, rows])
        self.value[rows] = -1.0

    def start(self, first: IntArray) -> None:
        """Bounds from a few anchors, or from every reference where that is little work; ``first`` are picked."""
        weights = self.weights
        if len(first):
            rows = to_device(first, self.device)
            self.pick(rows)
            if self.by_pick:
                # The only reference is a pick, and its weight counts; but without any doubt a priority is 0.
                weights = (weights > 0.0) * weights[rows]
        count = self.references.count
        is_full = len(self.value) * count <= FULL_PAIRS
        anchors = slice(0, count) if is_full else spread_out(count, ANCHORS, self.device)
        self.tighten_by(anchors, weights)
        if is_full:
            self._note_tight()

    def tighten_by(self, references: slice | Tensor, weights: Tensor) -> None:
        """Lower every bound by products with some references, scaled by weights (n,)."""
        targets = self.references.shaped[references]
        for span in blocks(len(self.value), self.sizes.rows):
            own = self.references.shape_of(self.exact(span))
            tighten(own, targets, self.value[span], weights[span], self.constants)

    @property
    def n_wanted(self) -> int:
        """References that bounds are tightened by: where the pick's weight counts, no picks."""
        return self.references.n_labelled if self.by_pick else self.references.count

    def _note_tight(self) -> None:
        self.n_tight = self.n_wanted
        self.tight.fill_(self.n_tight)

    def tighten_all(self) -> None:
        """Lower every bound by products with the references that have not done so."""
        if self.n_tight < self.n_wanted:
            self.tighten_by(slice(self.n_tight, self.n_wanted), self.weights)
            self._note_tight()

    def tighten(self, rows: Tensor) -> bool:
        """The same for some candidates; False where there was nothing to do."""
        tight, order = self.tight[rows].sort()
        n_stale = int((tight < self.n_wanted).sum())
        rows = rows[order[:n_stale]]
        targets = self.references.shaped[: self.n_wanted]
        for span in blocks(n_stale, self.sizes.rows):
            own = self.references.shape_of(self.exact(rows[span]))
            tighten(own, targets, self.value, self.weights, self.constants, rows[span], self.tight)
        self.tight[rows] = self.n_wanted
        return n_stale > 0

    def refresh(self, rows: Tensor) -> bool:
        """Exact squared priorities of candidates against every reference; False where all were."""
        references = self.references
        rows = rows[(self.seen[rows] < references.count) & (self.value[rows] > 0.0)]
        if not len(rows):
            return False
        exact = references.widen(self.exact(rows))
        own, step = references.shape_of(exact), max(1, self.sizes.pairs // len(rows))
        for begin, end, by_pick in self._kinds():
            for start in range(begin, end, step):
                span = slice(start, min(start + step, end))
                scales = self.weights[self.picked[span.start - begin : span.stop - begin]] if by_pick else None
                pairs = near_pairs(
                    own, references.shaped[span], rows, self.value, self.weights, self.constants,
                    references.shape.precise, scales, self.seen, span.start,
                )  # fmt: skip
                weights = self.weights if scales is None else scales
                others = references.exact[span]
                settle_priorities(exact, others, pairs, rows, self.value, weights, by_pick=by_pick)
        self.seen[rows] = references.count
        return True

    def _kinds(self) -> list[tuple[int, int, bool]]:
        """Spans of references, and whether their own weights count."""
        n_labelled, count = self.references.n_labelled, self.references.count
        return [(0, n_labelled, False), (n_labelled, count, True)] if self.by_pick else [(0, count, False)]
