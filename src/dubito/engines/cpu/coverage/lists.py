"""What each candidate may add: its pairs, with upper bounds on their kernels that are sharpened when it comes up."""

import numpy as np

from dubito.coverage import add_rows, kernel
from dubito.distances import settle
from dubito.engines.cpu.coverage.pairs import Found, upper_kernels
from dubito.engines.cpu.coverage.probes import Probed
from dubito.engines.cpu.coverage.space import product_bounds
from dubito.engines.lazy.rounding import ROUND_UP, SMALLEST
from dubito.matrix import FloatArray, IntArray, blocks
from dubito.threads import each

SETTLE_ROWS = 128
REFINE_TOGETHER = 16
"""Candidates that one piece of work refines."""
NEGLIGIBLE = 1e-4
"""Pairs that make up less than this share of their candidate's bound are not worth a closer look."""
SUM_TOGETHER = 1 << 18

CLOSED, PROBED, REFINED, EXACT = range(4)
"""What is known of a candidate's pairs: nothing, bounds by probes, bounds by products of points, all of it."""


class Lists:
    """The pairs of candidates, and the cover that there is so far. Candidates are numbered from 0."""

    def __init__(self, probed: Probed, cover: FloatArray, reach: float) -> None:
        self.probed, self.space, self.cover, self.reach = probed, probed.space, cover, reach
        """``cover`` (n,) is exact, but at rows without weight."""
        problem = probed.space.problem
        self.weights, self.candidates = problem.weights, problem.candidates
        self.found = Found(np.zeros(len(self.candidates) + 1, np.int64), np.empty(0, np.int32), np.empty(0, np.float32))
        self.level = np.full(len(self.candidates), CLOSED, dtype=np.uint8)
        self.exact: dict[int, tuple[IntArray, FloatArray]] = {}
        """Rows, ascending, and kernels of the candidates that were settled."""

    def hold(self, found: Found, candidates: IntArray) -> None:
        """Take over the pairs of these candidates, in place of what was held; what was settled stays."""
        self.found = found
        self.level[self.level < EXACT] = CLOSED
        whole = self.probed.probes.directions is None
        fresh = candidates[self.level[candidates] < EXACT]
        self.level[fresh] = REFINED if whole else PROBED

    def bound(self, candidate: int) -> float:
        """What a candidate adds now: an upper bound, or exactly where it was settled."""
        if self.level[candidate] == EXACT:
            rows, kernels = self.exact[candidate]
            terms = kernels - self.cover[rows]
            np.maximum(terms, 0.0, out=terms)
            terms *= self.weights[rows]
            return float(add_rows(terms)) if len(terms) else 0.0
        span = slice(self.found.starts[candidate], self.found.starts[candidate + 1])
        near = self.found.rows[span]
        terms = self.found.kernels[span] - self.cover[near]
        np.maximum(terms, 0.0, out=terms)
        n_terms = int(np.count_nonzero(terms))
        terms *= self.weights[near]
        return float(terms.sum()) * ROUND_UP + SMALLEST * n_terms

    def bounds(self, first: int, last: int) -> FloatArray:
        """Upper bounds of the candidates from one number to before another, none of them settled."""
        starts, found = self.found.starts, np.empty(last - first)
        for span in blocks(
            last - first, max(1, SUM_TOGETHER * (last - first) // max(1, int(starts[last] - starts[first])))
        ):
            begin, end = first + span.start, first + span.stop
            pairs = slice(starts[begin], starts[end])
            rows = self.found.rows[pairs]
            terms = np.maximum(self.found.kernels[pairs] - self.cover[rows], 0.0)
            owner = np.repeat(np.arange(end - begin), np.diff(starts[begin : end + 1]))
            # Products too small for all their digits: as many times the smallest number as there are any.
            smallest = SMALLEST * np.bincount(owner, terms > 0.0, minlength=end - begin)
            found[span] = np.bincount(owner, terms * self.weights[rows], minlength=end - begin) * ROUND_UP + smallest
        return found

    def refine(self, candidates: IntArray) -> None:
        """Sharpen the bounds of candidates by products of the points, where only probes were compared."""
        due = candidates[self.level[candidates] == PROBED]
        each(self._refine, [(due[span],) for span in blocks(len(due), REFINE_TOGETHER)])
        self.level[due] = REFINED

    def _refine(self, candidates: IntArray) -> None:
        starts, sizes = self.found.starts, self.probed.sizes
        counts = starts[candidates + 1] - starts[candidates]
        owner = np.repeat(np.arange(len(candidates)), counts)
        places = np.arange(len(owner)) + np.repeat(starts[candidates] - (np.cumsum(counts) - counts), counts)
        places, owner = self._worth(places, owner, len(candidates))
        rows, points = self.found.rows[places].astype(np.int64), self.space.shifted(self.candidates[candidates])
        products, edges = np.empty(len(rows)), np.searchsorted(owner, np.arange(len(candidates) + 1)).tolist()
        for point, start, stop in zip(points, edges[:-1], edges[1:], strict=True):
            # A row at a time, for which BLAS begins no threads.
            products[start:stop] = np.matmul(self.space.shifted(rows[start:stop])[:, None], point[:, None])[:, 0, 0]
        own = sizes[self.candidates[candidates]][owner]
        highest = upper_kernels(product_bounds(products, sizes[rows] + own, points.shape[1]), self.scaled_reach)
        self.found.kernels[places] = np.minimum(self.found.kernels[places], highest)

    def _worth(self, places: IntArray, owner: IntArray, n_owners: int) -> tuple[IntArray, IntArray]:
        """Those pairs, by their places, that make up more than a little of their owners' bounds."""
        rows = self.found.rows[places]
        terms = (self.found.kernels[places] - self.cover[rows]) * self.weights[rows]
        np.maximum(terms, 0.0, out=terms)
        total = np.bincount(owner, terms, minlength=n_owners)
        worth = np.flatnonzero(terms > NEGLIGIBLE * total[owner])
        return places[worth], owner[worth]

    @property
    def scaled_reach(self) -> float:
        """R² among shifted points."""
        return self.reach * self.space.unit

    def settle(self, candidate: int) -> None:
        """Make a candidate's pairs exact, as far as they can still add anything."""
        span = slice(self.found.starts[candidate], self.found.starts[candidate + 1])
        rows = self.found.rows[span].astype(np.int64)
        rows = np.sort(rows[self.found.kernels[span] > self.cover[rows]])
        point = self.space.exact(self.candidates[candidate : candidate + 1])[0]
        squared = np.empty(len(rows))
        for part in blocks(len(rows), SETTLE_ROWS):
            squared[part] = settle(self.space.exact(rows[part]), point)
        self.exact[candidate] = rows, kernel(squared, self.reach)
        self.level[candidate] = EXACT

    def take(self, candidate: int) -> None:
        """Count a settled candidate among what covers."""
        rows, kernels = self.exact.pop(candidate)
        self.cover[rows] = np.maximum(self.cover[rows], kernels)
