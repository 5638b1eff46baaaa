"""Upper bounds on the squared priorities of all candidates, on a device.

For each bound, ``tight`` is the number of references whose products were applied to it, and ``seen`` is the number of
references that were compared exactly. If these are all references, the bound is exact; otherwise it is exact for the
references seen, or the nearest reference is not among them. It is -1 once the candidate is picked.
"""

from collections.abc import Callable
from functools import cached_property
from typing import NamedTuple

import torch

from dubito.core.problem import Problem
from dubito.engines.cuda.memory import DeviceSizes
from dubito.engines.cuda.points import (
    FULL_PAIRS,
    DevicePoints,
    DeviceReferences,
    PreparedPoints,
    Tensor,
    evenly_spaced_rows,
    to_device,
)
from dubito.engines.cuda.programs.exact import lower_priorities
from dubito.engines.cuda.programs.pairs import near_pairs, tighten
from dubito.engines.lazy.front import Threshold
from dubito.matrix import IntArray, blocks

ANCHORS, SOME = 256, 4096
"""If there are many references, `ANCHORS` of them are applied to the first bounds. Then up to `SOME`, and at last all,
are applied to candidates that may come first: twice as many each time, to the candidates that still may."""
STAGED_PAIRS = 2.5e8
"""Up to this number of pairs of candidates and references, they are applied at once instead."""
LEVEL_ROWS, LEVEL_SPARE = 1 << 14, 8
"""Size of the sample from which the level of the first bounds is estimated. If there are many references, they are
applied only to this multiple of the number of bounds in the sample that are above the level."""
LENGTH_ROWS = 1 << 20
"""Number of rows of a resident pool whose lengths are computed at a time."""


class DeviceBounds:
    """The bounds and the methods that lower them. Candidates are numbered 0 to n - 1."""

    def __init__(
        self, problem: Problem, points: DevicePoints, references: DeviceReferences, sizes: DeviceSizes
    ) -> None:
        self.problem, self.points, self.references, self.sizes = problem, points, references, sizes
        self.device = references.exact.device
        self.constants = references.transform.constants(self.device)
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
        """The number of references that were applied to all bounds."""
        self.picked = torch.empty(0, dtype=torch.int64, device=self.device)
        """Candidates that became references, in order."""

    def exact(self, rows: Tensor | slice) -> Tensor:
        """(r, d) points of candidates."""
        return self.points.exact(rows if self.numbers is None else self.numbers[rows])

    def pick(self, rows: Tensor) -> None:
        """Make candidates references."""
        self.references.add(self.exact(rows))
        self.picked = torch.cat([self.picked, rows])
        self.value[rows] = -1.0

    def start(self, first: IntArray) -> None:
        """Pick ``first`` and compute the first bounds, from all references or, if these are many, from some."""
        weights = self.weights
        if len(first):
            rows = to_device(first, self.device)
            self.pick(rows)
            if self.by_pick:
                # The only reference is a pick, whose weight scales the distances. With weight 0, a priority is 0.
                weights = (weights > 0.0) * weights[rows]
        count = self.references.count
        n_anchors = count if len(self.value) * count <= FULL_PAIRS else min(ANCHORS, count)
        self.tighten_by(slice(0, n_anchors), weights)
        self._note_tight(min(n_anchors, self.n_applicable))

    @cached_property
    def resident_points(self) -> PreparedPoints | None:
        """The pool prepared for products, if it is on the device and needs no preparation, so that no row is copied."""
        pool, transform = self.points.pool.tensor, self.references.transform
        if pool is None or transform.center is not None or pool.dtype != transform.dtype or not pool.is_contiguous():
            return None
        parts = [self.references.prepare(pool[span]).lengths for span in blocks(len(pool), LENGTH_ROWS)]
        return PreparedPoints(pool, parts[0] if len(parts) == 1 else torch.cat(parts))

    def tighten_by(self, references: slice, weights: Tensor) -> None:
        """Lower all bounds by products with some references, scaled by weights (n,)."""
        targets = self.references.prepared[references]
        if self.resident_points is not None:
            tighten(self.resident_points, targets, self.value, weights, self.constants, x_rows=self.numbers)
            return
        for span in blocks(len(self.value), self.sizes.rows):
            own = self.references.prepare(self.exact(span))
            tighten(own, targets, self.value[span], weights[span], self.constants)

    @property
    def n_applicable(self) -> int:
        """The number of references that `tighten` can apply: without picks if their weights scale the distances."""
        return self.references.n_labeled if self.by_pick else self.references.count

    def _note_tight(self, n_tight: int) -> None:
        self.n_tight = n_tight
        self.tight.fill_(self.n_tight)

    def tighten_all(self) -> None:
        """Lower all bounds by products with the references that were not applied yet."""
        if self.n_tight < self.n_applicable:
            self.tighten_by(slice(self.n_tight, self.n_applicable), self.weights)
            self._note_tight(self.n_applicable)

    def n_untightened(self, rows: Tensor, n_references: int) -> int:
        """The number of bounds to which not all of the first ``n_references`` references were applied."""
        return int((self.tight[rows] < n_references).sum())

    def tighten(self, rows: Tensor, n_references: int) -> bool:
        """Apply the first references to some bounds; returns False if all were applied already."""
        tight, order = self.tight[rows].sort()
        n_stale = int((tight < n_references).sum())
        rows = rows[order[:n_stale]]
        targets = self.references.prepared[:n_references]
        if self.resident_points is not None and n_stale:
            own = rows if self.numbers is None else self.numbers[rows]
            tighten(self.resident_points, targets, self.value, self.weights, self.constants, rows, self.tight, own)
        for span in blocks(n_stale if self.resident_points is None else 0, self.sizes.rows):
            own = self.references.prepare(self.exact(rows[span]))
            tighten(own, targets, self.value, self.weights, self.constants, rows[span], self.tight)
        self.tight[rows] = n_references
        return n_stale > 0

    def tighten_above(self, level: float, rows: Tensor, n_references: int) -> None:
        """Apply the first references to bounds: twice as many each time, to the bounds that are not below a level yet.

        If there are few pairs, all references are applied at once, since finding out which bounds are below the level
        would take longer.
        """
        n_applied = n_references
        if len(rows) * n_references > STAGED_PAIRS:
            n_applied = max(2 * int(self.tight[rows].min()), ANCHORS)
        while len(rows):
            self.tighten(rows, min(n_applied, n_references))
            if n_applied >= n_references:
                return
            rows, n_applied = rows[self.value[rows] >= level], 2 * n_applied

    def refresh(self, rows: Tensor) -> bool:
        """Make the bounds of candidates exact for all references; returns False if they were exact already."""
        references = self.references
        rows = rows[(self.seen[rows] < references.count) & (self.value[rows] > 0.0)]
        if not len(rows):
            return False
        exact = references.widen(self.exact(rows))
        own, step = references.prepare(exact), max(1, self.sizes.pairs // len(rows))
        for begin, end, by_pick in self._reference_spans():
            for start in range(begin, end, step):
                span = slice(start, min(start + step, end))
                scales = self.weights[self.picked[span.start - begin : span.stop - begin]] if by_pick else None
                pairs = near_pairs(
                    own, references.prepared[span], rows, self.value, self.weights, self.constants,
                    references.transform.precision, scales, self.seen, span.start,
                )  # fmt: skip
                weights = self.weights if scales is None else scales
                others = references.exact[span]
                lower_priorities(exact, others, pairs, rows, self.value, weights, by_pick=by_pick)
        self.seen[rows] = references.count
        return True

    def _reference_spans(self) -> list[tuple[int, int, bool]]:
        """Spans of references, and whether the weights of the references scale the distances."""
        n_labeled, count = self.references.n_labeled, self.references.count
        return [(0, n_labeled, False), (n_labeled, count, True)] if self.by_pick else [(0, count, False)]


# The first candidates by bound, and the first of the others.

TOP_FRONTS = 4
"""Approximate number of candidates to whose bounds all references are applied, as a multiple of the front size."""


class FirstRows(NamedTuple):
    """Candidates ascending by number, and the first of the others."""

    rows: Tensor
    threshold: Threshold


class Fronts:
    """Finds fronts with `first_in_order` (positive priorities only) or `first_unpicked`."""

    def __init__(self, bounds: DeviceBounds, first: Callable[[Tensor, int], FirstRows]) -> None:
        self.bounds, self.first = bounds, first
        self.is_small = len(bounds.value) <= 4 * TOP_FRONTS * bounds.sizes.front

    def find(self, size: int) -> FirstRows:
        """The first candidates by tightened bounds."""
        return self._first_of_all(size) if self.is_small else self._first_of_top(size)

    def _first_of_all(self, size: int) -> FirstRows:
        """For a small pool: tighten all bounds."""
        self.bounds.tighten_all()
        return self.first(self.bounds.value, size)

    def _first_of_top(self, size: int) -> FirstRows:
        """For a large pool: tighten only the bounds of candidates that may still be among the first afterwards.

        If there are many references, only some of them are applied at first.
        """
        bounds, value, n_applicable = self.bounds, self.bounds.value, self.bounds.n_applicable
        front = self.first(value, size)
        for n_references in (n_applicable,) if n_applicable <= 2 * SOME else (SOME, n_applicable):
            n_searched = TOP_FRONTS * size
            while bounds.n_untightened(front.rows, n_references):
                rows, level = front.rows, -1.0
                if front.threshold.row >= 0:
                    level = min(self._level(n_searched, n_references), front.threshold.value)
                    rows = torch.nonzero(value >= level)[:, 0]
                bounds.tighten_above(level, rows, n_references)
                front, n_searched = self.first(value, size), 2 * n_searched
        return front

    def _level(self, n_searched: int, n_references: int) -> float:
        """The approximate bound at rank ``n_searched`` if the first references were applied to all bounds."""
        n, value = len(self.bounds.value), self.bounds.value
        sample = evenly_spaced_rows(n, min(n, LEVEL_ROWS), value.device)
        n_above = len(sample) * n_searched // n + 1
        if n_above >= len(sample):
            return -1.0
        n_first = len(sample) if n_references <= 2 * SOME else min(LEVEL_SPARE * n_above, len(sample))
        self.bounds.tighten(sample[torch.topk(value[sample], n_first).indices], n_references)
        return float(torch.topk(value[sample], n_above).values[-1])


def first_in_order(bound: Tensor, size: int) -> FirstRows:
    """At most ``size`` candidates with positive bounds, by (bound, largest first; number, lowest first)."""
    n_top = min(size + 1, len(bound))
    values, rows = torch.topk(bound, n_top)
    if n_top <= size:
        return FirstRows(rows[values > 0.0].sort().values, Threshold(0.0, -1))
    last = values[-1].clamp(min=0.0)
    answers = torch.stack([last, (values > last).sum(), (bound == last).int().argmax()])
    cut, n_above, level = answers.tolist()
    if n_above > 0 or cut == 0.0:
        return FirstRows(rows[: int(n_above)].sort().values, Threshold(cut, int(level) if cut > 0.0 else -1))
    tied = torch.nonzero(bound == cut)[:, 0]
    return FirstRows(tied[:size], Threshold(cut, int(tied[size])))


def first_unpicked(bound: Tensor, size: int) -> FirstRows:
    """The first ``size`` candidates not picked, in the same order, including those with bound 0."""
    n_top = min(size + 1, len(bound))
    values, rows = torch.topk(bound, n_top)
    cut = float(values[-1])
    if n_top <= size or cut < 0.0:
        return FirstRows(rows[values >= 0.0].sort().values, Threshold(-1.0, -1))
    above, tied = rows[values > cut], torch.nonzero(bound == cut)[:, 0]
    n_tied = size - len(above)
    return FirstRows(torch.cat([above, tied[:n_tied]]).sort().values, Threshold(cut, int(tied[n_tied])))


def first_threshold(one: Threshold, other: Threshold) -> Threshold:
    """The threshold that comes first."""
    if one.row < 0 or (other.row >= 0 and one.admits(other.value, other.row)):
        return other
    return one
