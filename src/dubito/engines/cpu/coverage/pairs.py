"""Pairs that may matter: a row of the pool, and a candidate that may lie within the row's limit."""

from dataclasses import dataclass
from threading import Lock

import numpy as np
import numpy.typing as npt

from dubito.engines.cpu.coverage.probes import Probed, right
from dubito.engines.cpu.products import Packed
from dubito.engines.lazy.rounding import Float32Array
from dubito.matrix import BoolArray, FloatArray, IntArray
from dubito.threads import each

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
        each(self.probed.prepare, self.probed.missing([block.rows for block in self.blocks]))
        # Those with most to do first, so that no thread is left alone with a long piece.
        each(self._against_earlier, [(place,) for place in reversed(range(len(self.blocks)))])
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
