"""Pairs that may matter: a row of the pool, and a candidate that may lie within the row's limit."""

from dataclasses import dataclass
from threading import Lock

import numpy as np
import numpy.typing as npt

from dubito.core.coverage_reference import add_rows, kernel
from dubito.core.distances import settle
from dubito.engines.cpu.coverage.space import Probed, product_bounds, right
from dubito.engines.cpu.products import Packed
from dubito.engines.lazy.bounds import ROUND_UP, SMALLEST, Float32Array
from dubito.matrix import BoolArray, FloatArray, IntArray, blocks
from dubito.threads import parallel_map

Int32Array = npt.NDArray[np.int32]
Places = npt.NDArray[np.uint16]
Part = tuple[Int32Array, Places, Float32Array]

NEAR = 1.0 + 1e-6
"""More than the rounding of a limit to float32."""


@dataclass(frozen=True, slots=True)
class Found:
    """Pairs, sorted by candidate: those of the c-th stand from ``starts[c]`` to ``starts[c + 1]``."""

    starts: IntArray
    rows: Int32Array
    kernels: Float32Array
    """Upper bounds."""


@dataclass(frozen=True, slots=True)
class Block:
    """Some rows of the pool that take part."""

    rows: IntArray
    limits: FloatArray
    """Squared distances among shifted points within which a pick adds something; -1 where none does."""
    is_candidate: bool
    farthest: float
    """The largest limit."""

    def wants(self, other: "Block") -> bool:
        """Whether the other's rows may be picked and add something here."""
        return other.is_candidate and self.farthest > 0.0


def cut(limits: FloatArray, candidates: IntArray, block_rows: int) -> list[Block]:
    """Rows with a limit (n,) above 0, and candidates, in blocks of their own; those of like limits together."""
    is_candidate = np.zeros(len(limits), dtype=np.bool_)
    is_candidate[candidates] = True
    others = np.flatnonzero((limits > 0.0) & ~is_candidate)
    return [
        Block(rows, limits[rows], kind, float(limits[rows].max()))
        for group, kind in ((others, False), (candidates, True))
        for rows in np.split(_by_limit(group, limits), range(block_rows, len(group), block_rows))
        if len(rows)
    ]


def _by_limit(rows: IntArray, limits: FloatArray) -> IntArray:
    return np.asarray(rows[np.argsort(-limits[rows], kind="stable")])


class TooManyPairs(Exception):
    """There is no room for all the pairs that were to be found."""


class PairSearch:
    """One pass over all blocks that want each other, both ways about at once: the products are the same."""

    def __init__(self, probed: Probed, all_blocks: list[Block], reach: float, room: int) -> None:
        self.probed, self.blocks, self.reach, self.room = probed, all_blocks, reach, room
        """``reach`` is squared, among shifted points; there may be so many pairs as ``room``."""
        self.bins: list[list[Part]] = [[] for _ in all_blocks]
        self.lock = Lock()

    def run(self, numbers: IntArray, n_candidates: int) -> Found:
        """All pairs; ``numbers`` (n,) are the candidates' own, from 0 to ``n_candidates - 1``."""
        parallel_map(self.probed.prepare, self.probed.missing([block.rows for block in self.blocks]))
        # Those with most to do first, so that no thread is left alone with a long piece.
        parallel_map(self._against_earlier, [(place,) for place in reversed(range(len(self.blocks)))])
        for block, parts in zip(self.blocks, self.bins, strict=True):
            if block.is_candidate:
                parts.append(_selves(block))
        return self._sorted(numbers, n_candidates)

    def _against_earlier(self, place: int) -> None:
        far, rights = self.blocks[place], None
        for earlier, near in enumerate(self.blocks[: place + 1]):
            if near.wants(far) or far.wants(near):
                if rights is None:
                    rights = Packed(right(self.probed.left(far.rows)))
                self._tile(earlier, place, rights.product(self.probed.left(near.rows), threads=1))

    def _tile(self, near: int, far: int, nearness: Float32Array) -> None:
        """``nearness`` is minus half of the squared distances, or more."""
        farthest = max(self.blocks[near].farthest, self.blocks[far].farthest)
        with np.errstate(over="ignore"):
            flat = np.flatnonzero(nearness > np.float32(-0.5 * NEAR * farthest))
        row, column = np.divmod(flat, nearness.shape[1])
        squared = -2.0 * nearness.ravel()[flat].astype(np.float64)
        if near == far:
            once = row < column
            row, column, squared = row[once], column[once], squared[once]
        self._keep(near, row, far, column, squared)
        self._keep(far, column, near, row, squared)

    def _keep(self, place: int, row: IntArray, other: int, column: IntArray, squared: FloatArray) -> None:
        """Keep the pairs of a block's rows with candidates of another that lie within the rows' limits."""
        block = self.blocks[place]
        if block.wants(self.blocks[other]):
            kept = np.flatnonzero(squared < block.limits[row] * NEAR)
            rows = block.rows[row[kept]].astype(np.int32)
            part = rows, column[kept].astype(np.uint16), upper_kernels(squared[kept], self.reach)
            with self.lock:
                self.room -= len(kept)
                self.bins[other].append(part)
            if self.room < 0:
                raise TooManyPairs

    def _sorted(self, numbers: IntArray, n_candidates: int) -> Found:
        """Pairs by candidate; each block of candidates is put together by itself."""
        counts = np.zeros(n_candidates + 1, dtype=np.int64)
        for block, parts in zip(self.blocks, self.bins, strict=True):
            for _, column, _ in parts:
                counts[numbers[block.rows] + 1] += np.bincount(column, minlength=len(block.rows))
        starts = np.cumsum(counts)
        rows, kernels = np.empty(starts[-1], dtype=np.int32), np.empty(starts[-1], dtype=np.float32)
        for place, block in enumerate(self.blocks):
            parts, self.bins[place] = self.bins[place], []
            if parts:
                _put(block, parts, starts[numbers[block.rows]], rows, kernels)
        return Found(starts, rows, kernels)


def _put(block: Block, parts: list[Part], starts: IntArray, rows: Int32Array, kernels: Float32Array) -> None:
    """Write the pairs of a block's candidates to where each of them begins."""
    row, column, kernel = (np.concatenate(part) for part in zip(*parts, strict=True))
    order = np.argsort(column, kind="stable")
    counts = np.bincount(column, minlength=len(block.rows))
    places = np.arange(len(order)) + np.repeat(starts - (np.cumsum(counts) - counts), counts)
    rows[places], kernels[places] = row[order], kernel[order]


def _selves(block: Block) -> Part:
    """Every candidate covers itself."""
    own = np.flatnonzero(block.limits > 0.0)
    return block.rows[own].astype(np.int32), own.astype(np.uint16), np.ones(len(own), dtype=np.float32)


def upper_kernels(squared: FloatArray, reach: float) -> Float32Array:
    """Upper bounds on kernels in float32, from lower bounds on squared distances."""
    with np.errstate(over="ignore"):
        near = np.clip(1.0 - squared / reach, 0.0, 1.0)
    near *= near
    near *= NEAR
    return np.minimum(near + 1e-30, 1.0).astype(np.float32)


def n_within(nearness: Float32Array, limits: FloatArray) -> BoolArray:
    """(r, c) which of some pairs lie within their rows' limits, by their probes."""
    return np.asarray(nearness > (-0.5 * NEAR * limits).astype(np.float32)[:, None])


# What each candidate may add: its pairs, with upper bounds on their kernels that are sharpened when it comes up.

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
        parallel_map(self._refine, [(due[span],) for span in blocks(len(due), REFINE_TOGETHER)])
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
