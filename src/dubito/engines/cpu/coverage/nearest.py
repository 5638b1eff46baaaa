"""The exact squared distance of rows of the pool to what is labelled.

Probes bound every distance from below, the nearest by probes bounds it from above; float32 differences of what is
left rule out nearly all the rest, and `settle` decides. What a `Pool` knows from earlier rounds is not looked at again.
"""

import numpy as np

from dubito.distances import settle
from dubito.engines.cpu.coverage.probes import Probes, right
from dubito.engines.cpu.coverage.space import Space, difference_bounds
from dubito.engines.cpu.products import Packed
from dubito.engines.lazy.rounding import Float32Array, squared_lengths
from dubito.matrix import FloatArray, IntArray, Rows, blocks, len_of
from dubito.problem import Known
from dubito.threads import each

ROWS = 512
"""Rows of the pool in a block."""
REFERENCES = 8192
"""Labelled points in a block."""
PAIR_ROWS = 256
"""Pairs whose differences are taken at once."""


class Nearest:
    """Squared distances to the nearest of the references, for those rows of the pool that were asked for."""

    def __init__(self, space: Space, known: Known | None) -> None:
        problem = space.problem
        self.space, self.n_references = space, len_of(problem.references)
        n_pool = len_of(problem.pool)
        self.known = known or Known(np.full(n_pool, np.inf), np.zeros(n_pool, np.int32), np.empty(0, np.int64))

    def of(self, rows: IntArray, probes: Probes) -> FloatArray:
        """(r,) exact; infinite where nothing is labelled."""
        known, problem = self.known, self.space.problem
        missing = rows[known.seen[rows] < self.n_references]
        for first in np.unique(known.seen[missing]).tolist():
            group = missing[known.seen[missing] == first]
            unseen = Rows(problem.references, np.arange(first, self.n_references))
            search = Search(self.space, probes, unseen)
            each(search.lower, [(group[span], known.squared) for span in blocks(len(group), ROWS)])
            known.seen[group] = self.n_references
        return known.squared[rows]

    @property
    def squared(self) -> FloatArray:
        """(n,) what is known of all rows."""
        return self.known.squared


class Search:
    """Some references, ready to be compared with any rows."""

    def __init__(self, space: Space, probes: Probes, references: Rows) -> None:
        self.space, self.probes, self.references = space, probes, references
        spans = blocks(len_of(references), REFERENCES)
        self.blocks = [(span.start, space.shifted(span, references)) for span in spans]
        self.rights = [Packed(right(probes.left(shifted, squared_lengths(shifted)))) for _, shifted in self.blocks]

    def lower(self, rows: IntArray, squared: FloatArray) -> None:
        """Lower ``squared`` (n,), at these rows, to their squared distances to the nearest reference."""
        block = Block(self.space, rows, squared[rows])
        left = self.probes.left(block.shifted, block.sizes, threads=1)
        for (start, others), rights in zip(self.blocks, self.rights, strict=True):
            block.look_at(rights.product(left, threads=1), start, others)
        squared[rows] = block.settled(self.references)


class Block:
    """Rows that are compared together: upper bounds on their distances, and the pairs that may be nearest."""

    def __init__(self, space: Space, rows: IntArray, squared: FloatArray) -> None:
        self.space, self.rows, self.squared = space, rows, squared
        self.shifted = space.shifted(rows)
        self.sizes = squared_lengths(self.shifted)
        self.lengths = np.sqrt(self.sizes)
        with np.errstate(over="ignore"):
            self.limits = np.sqrt(squared * space.unit) * (1.0 + 1e-12)
        """(r,) no nearest reference lies farther, among shifted points."""
        self.found: list[tuple[IntArray, IntArray, FloatArray]] = []

    def look_at(self, nearness: Float32Array, start: int, others: Float32Array) -> None:
        """Keep the pairs with a block of references that may be nearest; ``nearness`` is minus half of d², at least."""
        best = nearness.argmax(axis=1)
        all_rows = np.arange(len(best))
        _, highest = self._bounds(all_rows, best, others)
        self.limits = np.minimum(self.limits, highest)
        floor = (-0.5 * np.minimum(self.limits, 1e18) ** 2 * (1.0 + 1e-6)).astype(np.float32)
        near = np.flatnonzero(nearness >= floor[:, None])
        row, other = np.divmod(near, nearness.shape[1])
        lowest, highest = self._bounds(row, other, others)
        np.minimum.at(self.limits, row, highest)
        self.found.append((row, other + start, lowest))

    def _bounds(self, row: IntArray, other: IntArray, others: Float32Array) -> tuple[FloatArray, FloatArray]:
        lowest, highest = np.empty(len(row)), np.empty(len(row))
        for span in blocks(len(row), PAIR_ROWS):
            differences = self.shifted[row[span]]
            differences -= others[other[span]]
            lowest[span], highest[span] = difference_bounds(differences, self.lengths[row[span]])
        return lowest, highest

    def settled(self, references: Rows) -> FloatArray:
        """(r,) exact squared distances."""
        row, other, lowest = (np.concatenate(parts) for parts in zip(*self.found, strict=True))
        near = np.flatnonzero(lowest <= self.limits[row])
        for span in blocks(len(near), PAIR_ROWS):
            pairs = near[span]
            points = self.space.exact(self.rows[row[pairs]])
            exact = settle(points, self.space.exact(other[pairs], references))
            np.minimum.at(self.squared, row[pairs], exact)
        return self.squared
