"""A beam's steps over a short list, compiled: see ``dubito/compiled/beam.c``.

The compiled part goes on while intervals tell what comes first. Where they do not, it hands back which configuration is
in doubt; candidates are settled here, and it goes on. What came of it is written down as parents and picks, of which
only the ancestors of those that are left become nodes.
"""

from collections.abc import Iterator
from itertools import chain, pairwise
from typing import NamedTuple, TypeVar

import numpy as np
import numpy.typing as npt

from dubito import compiled
from dubito.engines.lazy.configurations import Leaf, Nodes
from dubito.engines.lazy.shortlist import ShortList
from dubito.errors import InvalidData
from dubito.matrix import BoolArray, FloatArray, IntArray

MOST_STEPS = 64
"""At a time: what is written down of them stays in the cache, and Ctrl-C is not kept waiting."""
MOST_IDLE = 100
"""Times in a row that nothing comes of settling all that is in doubt: exact numbers are never in doubt, but NaN is."""

Words = npt.NDArray[np.uint64]
Rows = TypeVar("Rows", FloatArray, npt.NDArray[np.int32], Words)


class Log(NamedTuple):
    """Steps made, each (steps, width)."""

    parents: npt.NDArray[np.int32]
    """Ranks; -1 where no configuration that is left descends from a child."""
    picks: npt.NDArray[np.int32]
    """Places in the list."""
    heights: FloatArray
    is_exact: BoolArray


def run_compiled(
    steps: compiled.CompiledSteps, short: ShortList, nodes: Nodes, scores: IntArray, width: int, limit: int
) -> Iterator[int]:
    """Step while the short list allows it; yields how many steps were made, whenever the leaves are up to date.

    Picks that all leaves hold by then are common, and no longer their own.
    """
    why, n_words = compiled.DONE, -(-len(short.rows) // 64)
    low, high = _padded(short.own_low, width), _padded(short.own_high, width)
    order = _padded(np.argsort(-short.high, axis=1, kind="stable").astype(np.int32), width)
    sets = _padded(_sets([leaf.own for leaf in short.leaves], n_words), width)
    totals = np.zeros(width, dtype=np.int64)
    totals[: len(short.leaves)] = [leaf.score for leaf in short.leaves]
    n_idle = 0
    log, unsure = _empty_log(min(limit, MOST_STEPS), width), np.empty(width, dtype=np.int64)
    while limit > 0 and why != compiled.OUTSIDE:
        at_most = min(limit, MOST_STEPS)
        arrays = (
            *(short.common.low[short.listed], short.common.high[short.listed], short.near, short.far),
            *(scores, short.listed, short.rows[short.listed], low, high, order, sets, totals),
            *(each[:at_most] for each in log),
            unsure,
        )
        why, made, n_leaves, n_unsure = steps.step(
            *(arrays, len(short.listed), width, n_words, len(short.leaves)),
            *(at_most, short.bar.value, short.bar.row),
        )
        held = np.bitwise_and.reduce(sets[:n_leaves])
        shared = np.flatnonzero(_bits(held[None])[0])
        sets &= ~held
        owns, common = _picks_of(sets[:n_leaves]), frozenset(shared.tolist())
        # Wherever Ctrl-C comes between, a pick counts twice at worst, which is harmless, and never not at all.
        _adopt(short, nodes, log, made, totals[:n_leaves], [own | common for own in owns])
        if common:
            short.common.add(shared)
            short.leaves[:] = [Leaf(node, score, own) for (node, score, _), own in zip(short.leaves, owns, strict=True)]
        short.own_low, short.own_high = low[:n_leaves], high[:n_leaves]
        short.merge()
        limit -= made
        yield made
        n_idle = n_idle + 1 if made == 0 else 0
        if n_idle > MOST_IDLE:
            mend = "pass a copy that nobody writes to meanwhile."
            raise InvalidData("holds other numbers than when the call began", argument="pool", mend=mend)
        if why == compiled.UNSURE:
            short.settle(unsure[:n_unsure], width)


def _empty_log(n_steps: int, width: int) -> Log:
    shape = n_steps, width
    return Log(np.empty(shape, np.int32), np.empty(shape, np.int32), np.empty(shape), np.empty(shape, np.bool_))


def _padded(rows: Rows, width: int) -> Rows:
    """Room for as many configurations as there may be."""
    padded = np.empty((width, rows.shape[1]), dtype=rows.dtype)
    padded[: len(rows)] = rows
    return padded


def _sets(owns: list[frozenset[int]], n_words: int) -> Words:
    """Own picks, a bit for each position in the front."""
    bits = np.zeros((len(owns), 64 * n_words), dtype=np.bool_)
    ranks = np.repeat(np.arange(len(owns)), [len(own) for own in owns])
    bits[ranks, np.fromiter(chain.from_iterable(owns), dtype=np.int64, count=len(ranks))] = True
    return np.packbits(bits, axis=1, bitorder="little").view("<u8").astype(np.uint64)


def _bits(sets: Words) -> BoolArray:
    return np.unpackbits(sets.astype("<u8").view(np.uint8), axis=1, bitorder="little").view(np.bool_)


def _where(is_so: BoolArray) -> tuple[IntArray, IntArray]:
    """Rows and columns, as `numpy.nonzero` has them, which is slow with more than one dimension."""
    rows, columns = np.divmod(np.flatnonzero(is_so), is_so.shape[1])
    return rows, columns


def _picks_of(sets: Words) -> list[frozenset[int]]:
    ranks, picks = _where(_bits(sets))
    stops = np.cumsum(np.bincount(ranks, minlength=len(sets))).tolist()
    listed = picks.tolist()
    return [frozenset(listed[start:stop]) for start, stop in pairwise([0, *stops])]


def _adopt(
    short: ShortList, nodes: Nodes, log: Log, n_steps: int, totals: IntArray, owns: list[frozenset[int]]
) -> None:
    """Make nodes of the ancestors of the configurations that are left."""
    if n_steps == 0:
        return
    steps, ranks = _where(log.parents[:n_steps] >= 0)
    numbers = np.empty((n_steps + 1, log.parents.shape[1]), dtype=np.int64)
    numbers[0, : len(short.leaves)] = [leaf.node for leaf in short.leaves]
    numbers[steps + 1, ranks] = np.arange(len(nodes), len(nodes) + len(steps))
    parents = numbers[steps, log.parents[steps, ranks]]
    nodes.add(short.listed[log.picks[steps, ranks]], parents, log.heights[steps, ranks], log.is_exact[steps, ranks])
    short.leaves[:] = map(Leaf, numbers[n_steps, : len(totals)].tolist(), totals.tolist(), owns)
