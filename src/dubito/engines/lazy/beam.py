"""The lazy algorithm for a beam: w configurations at about the cost of one.

Configurations have nearly all their picks in common. These *common picks* are references like any other, and the bounds
of all candidates account for them. The other picks of a configuration, its *own picks*, are part of every front, where
they lower the priorities of this configuration. A step is valid if all candidates that the configurations propose come
before the threshold; a front that allows no step is enlarged.

The bound that a front writes back for a candidate is the largest over the configurations. It holds for all later
configurations, since these only gain picks. It may be lower than the priority given the common picks alone.
"""

from collections.abc import Iterator, Sequence
from itertools import chain, pairwise
from typing import NamedTuple, TypeVar

import numpy as np
import numpy.typing as npt

from dubito import native as compiled
from dubito.core.problem import Configuration, Problem, Solution
from dubito.engines.lazy.configurations import NO_NODE, Leaf, Nodes, own_picks
from dubito.engines.lazy.front import ExactPriorities, Front, Threshold
from dubito.engines.lazy.interfaces import CandidateBounds, Fresh, Reporter
from dubito.engines.lazy.interrupts import DeferInterrupt, retry_on_interrupt
from dubito.errors import InvalidData
from dubito.matrix import BoolArray, FloatArray, IntArray

# The candidates of a front, with an interval for the priority of each in each configuration. The effect of common picks
# is stored once, in `CommonPicks`; that of a configuration's own picks in `ShortList`.


class CommonPicks:
    """Intervals (K,) that contain the priorities of a front's candidates given the common picks."""

    def __init__(self, front: Front, start: FloatArray) -> None:
        self.front = front
        self.low, self.high, self.exact = start.copy(), start.copy(), ExactPriorities(start)
        self.picks: list[int] = []

    def add(self, picks: IntArray) -> None:
        """Add picks of this front that all configurations have."""
        every, starts = np.arange(len(self.low)), np.array([0, len(picks)])
        if compiled.steps is not None:
            _lower_in_c(compiled.steps, self.front, (picks, starts, every, self.low, self.high))
        else:
            near, far = self.front.bounds_between(picks, every)
            np.minimum(self.low, near.min(axis=0), out=self.low)
            np.minimum(self.high, far.min(axis=0), out=self.high)
            self.low[picks] = self.high[picks] = -1.0
        self.picks.extend(picks.tolist())

    def make_exact(self, candidates: IntArray) -> bool:
        """Make the intervals of candidates exact; returns False if all were exact already."""
        unsure = candidates[self.low[candidates] < self.high[candidates]]
        if len(unsure):
            self.exact.update(self.front, unsure, self.picks, self.high[unsure])
            self.low[unsure] = self.high[unsure] = self.exact.values[unsure]
        return len(unsure) > 0


class Proposals(NamedTuple):
    """The candidates that configurations would pick next."""

    parents: IntArray
    """Ranks of the configurations, ascending."""
    positions: IntArray
    """Positions in the list; for each configuration the highest priority first."""


class ShortList:
    """Some candidates of a front, with intervals (w, M) for all configurations; -1 for their own picks.

    ``leaves`` is the list of the front's configurations, which is modified in every step.
    """

    def __init__(
        self, common: CommonPicks, leaves: list[Leaf], listed: IntArray, rows: IntArray, threshold: Threshold
    ) -> None:
        self.common, self.leaves, self.listed, self.rows, self.threshold = common, leaves, listed, rows, threshold
        self.own_low, self.own_high = own_intervals(common.front, leaves, listed, len(common.low))
        """The intervals given the own picks alone."""
        self.near, self.far = common.front.bounds_between(listed, listed)
        """(M, M) bounds on the priority of each candidate after picking another one."""
        self.merge()

    def merge(self) -> None:
        """Combine the intervals given the common picks and given the own picks."""
        self.low = np.minimum(self.own_low, self.common.low[self.listed])
        self.high = np.minimum(self.own_high, self.common.high[self.listed])

    def propose(self, width: int) -> Proposals | None:
        """The first candidates of all configurations; None if a candidate outside the list may come before one."""
        ranks = np.arange(len(self.leaves))
        self.make_exact(ranks, width)
        proposals = list[IntArray]()
        for leaf in range(len(ranks)):
            first = self.first(leaf, width)
            if first is None:
                return None
            proposals.append(first)
        return Proposals(np.repeat(ranks, [len(first) for first in proposals]), np.concatenate(proposals))

    def first(self, leaf: int, width: int) -> IntArray | None:
        """The first candidates of a configuration, in order, after `make_exact`; None as for `propose`."""
        high, first = self.high[leaf], np.argsort(-self.high[leaf], kind="stable")[:width]
        last, threshold = first[-1] if len(first) else 0, self.threshold
        if threshold.value >= 0.0 and not threshold.admits(float(high[last]), int(self.rows[self.listed[last]])):
            return None
        return np.asarray(first[high[first] >= 0.0])

    def make_exact(self, leaves: IntArray, width: int) -> None:
        """Make candidates exact until the first ``width`` of these configurations are certain."""
        while (unsure := self._unsure(leaves, width)).any():
            if self.common.make_exact(self.listed[unsure.any(axis=0)]):
                self.merge()
            which, inexact = np.nonzero(unsure & (self.low[leaves] < self.high[leaves]))
            if len(inexact):
                self._make_own_exact(leaves[which], inexact)

    def _unsure(self, leaves: IntArray, width: int) -> BoolArray:
        """(leaves, M) candidates that are not exact and may be among the first of a configuration."""
        low, high = self.low[leaves], self.high[leaves]
        first = np.argsort(-high, axis=1, kind="stable")[:, :width]
        floor = np.take_along_axis(low, first, axis=1).min(axis=1, initial=np.inf)
        return np.asarray((high >= np.maximum(floor, 0.0)[:, None]) & (low < high))

    def _make_own_exact(self, ranks: IntArray, positions: IntArray) -> None:
        """Make pairs of configurations and listed candidates exact."""
        present, own_rank = np.unique(ranks, return_inverse=True)
        leaves = [self.leaves[rank] for rank in present.tolist()]
        picks, candidates = own_picks(leaves), self.listed[positions]
        holds = np.zeros((len(leaves), len(picks)), dtype=np.bool_)
        for rank, leaf in enumerate(leaves):
            holds[rank, np.searchsorted(picks, list(leaf.own))] = True
        limits = np.where(holds[own_rank], self.high[ranks, positions][:, None], -1.0)
        exact = self.common.front.exact_priorities(candidates, picks, self.common.high[candidates], limits)
        self.own_low[ranks, positions] = self.own_high[ranks, positions] = exact
        self.low[ranks, positions] = np.minimum(exact, self.common.low[candidates])
        self.high[ranks, positions] = np.minimum(exact, self.common.high[candidates])

    def grow(self, parents: IntArray, positions: IntArray) -> None:
        """Replace the configurations by children, whose intervals are those of the parent, lowered by the pick."""
        self.own_low = np.minimum(self.own_low[parents], self.near[positions])
        self.own_high = np.minimum(self.own_high[parents], self.far[positions])
        rank = np.arange(len(parents))
        self.own_low[rank, positions] = self.own_high[rank, positions] = -1.0
        self.merge()


def own_intervals(front: Front, leaves: Sequence[Leaf], listed: IntArray, n_rows: int) -> tuple[FloatArray, FloatArray]:
    """Intervals (w, M) of listed candidates given each configuration's own picks; -1 for these picks."""
    low = np.full((len(leaves), len(listed)), np.inf)
    high = low.copy()
    if compiled.steps is not None:
        picks = np.array([pick for leaf in leaves for pick in leaf.own], dtype=np.int64)
        starts = np.concatenate([[0], np.cumsum([len(leaf.own) for leaf in leaves])])
        _lower_in_c(compiled.steps, front, (picks, starts, listed, low, high))
        return low, high
    # Many configurations have the same picks, so bounds are computed once per pick.
    picks = own_picks(leaves)
    near, far = front.bounds_between(picks, listed)
    position_of = np.full(n_rows, -1)
    position_of[listed] = np.arange(len(listed))
    for leaf, configuration in enumerate(leaves):
        own = np.fromiter(configuration.own, dtype=np.int64)
        if len(own):
            rank, positions = np.searchsorted(picks, own), position_of[own]
            low[leaf], high[leaf] = near[rank].min(axis=0), far[rank].min(axis=0)
            low[leaf, positions[positions >= 0]] = high[leaf, positions[positions >= 0]] = -1.0
    return low, high


def _lower_in_c(steps: compiled.CompiledSteps, front: Front, arguments: compiled.Arrays) -> None:
    """Lower intervals by picks. ``arguments``: picks, their start per configuration, candidates, and the intervals."""
    picks, starts, listed = arguments[:3]
    arrays = (front.squared, front.error, front.weights, *arguments)
    steps.own_intervals(arrays, len(front.error), len(listed), len(starts) - 1, len(picks), front.unit, front.by_pick)


# Compiled steps of a beam over a short list: see ``dubito/native/beam.c``.
#
# The C code makes steps as long as the intervals determine the first candidates. Then it returns the configurations for
# which they do not; their candidates are made exact here, and it is called again. It logs the parents and picks of all
# steps. Only the ancestors of the remaining configurations become nodes.

MAX_STEPS = 64
"""Maximum number of steps per call, so that the log stays in the cache and Ctrl-C is handled soon."""
MAX_CALLS_WITHOUT_STEP = 100
"""Maximum number of calls without a step. Exact priorities always allow one, unless the pool is modified meanwhile."""

Words = npt.NDArray[np.uint64]
Rows = TypeVar("Rows", FloatArray, npt.NDArray[np.int32], Words)


class StepLog(NamedTuple):
    parents: npt.NDArray[np.int32]
    """(steps, w) ranks; -1 for children without remaining descendants."""
    picks: npt.NDArray[np.int32]
    """(steps, w) positions in the list."""
    pick_priorities: FloatArray
    is_exact: BoolArray


def run_compiled(
    steps: compiled.CompiledSteps, short: ShortList, nodes: Nodes, scores: IntArray, width: int, limit: int
) -> Iterator[int]:
    """Make steps while the short list allows it. After each call of C, update the leaves and yield the number of steps.

    Picks that all leaves have are moved to the common picks.
    """
    why, n_words = compiled.DONE, -(-len(short.rows) // 64)
    low, high = _padded(short.own_low, width), _padded(short.own_high, width)
    order = _padded(np.argsort(-short.high, axis=1, kind="stable").astype(np.int32), width)
    sets = _padded(_pack_sets([leaf.own for leaf in short.leaves], n_words), width)
    totals = np.zeros(width, dtype=np.int64)
    totals[: len(short.leaves)] = [leaf.score for leaf in short.leaves]
    n_calls_without_step = 0
    log, unsure = _empty_step_log(min(limit, MAX_STEPS), width), np.empty(width, dtype=np.int64)
    while limit > 0 and why != compiled.OUTSIDE:
        max_steps = min(limit, MAX_STEPS)
        arrays = (
            *(short.common.low[short.listed], short.common.high[short.listed], short.near, short.far),
            *(scores, short.listed, short.rows[short.listed], low, high, order, sets, totals),
            *(each[:max_steps] for each in log),
            unsure,
        )
        why, made, n_leaves, n_unsure = steps.step_beam(
            *(arrays, len(short.listed), width, n_words, len(short.leaves)),
            *(max_steps, short.threshold.value, short.threshold.row),
        )
        common_bits = np.bitwise_and.reduce(sets[:n_leaves])
        shared = np.flatnonzero(_unpack_bits(common_bits[None])[0])
        sets &= ~common_bits
        own_sets, common = _unpack_sets(sets[:n_leaves]), frozenset(shared.tolist())
        # If Ctrl-C interrupts between these statements, a pick may count twice, which is harmless, but is never lost.
        _add_nodes(short, nodes, log, made, totals[:n_leaves], [own | common for own in own_sets])
        if common:
            short.common.add(shared)
            short.leaves[:] = [
                Leaf(node, score, own) for (node, score, _), own in zip(short.leaves, own_sets, strict=True)
            ]
        short.own_low, short.own_high = low[:n_leaves], high[:n_leaves]
        short.merge()
        limit -= made
        yield made
        n_calls_without_step = n_calls_without_step + 1 if made == 0 else 0
        if n_calls_without_step > MAX_CALLS_WITHOUT_STEP:
            hint = "pass a copy that is not modified during the call."
            raise InvalidData("was modified during the call", argument="pool", hint=hint)
        if why == compiled.UNSURE:
            short.make_exact(unsure[:n_unsure], width)


def _empty_step_log(n_steps: int, width: int) -> StepLog:
    shape = n_steps, width
    return StepLog(np.empty(shape, np.int32), np.empty(shape, np.int32), np.empty(shape), np.empty(shape, np.bool_))


def _padded(rows: Rows, width: int) -> Rows:
    """``rows`` followed by uninitialized rows, ``width`` in all."""
    padded = np.empty((width, rows.shape[1]), dtype=rows.dtype)
    padded[: len(rows)] = rows
    return padded


def _pack_sets(own_sets: list[frozenset[int]], n_words: int) -> Words:
    """Sets of positions in the front as bit masks."""
    bits = np.zeros((len(own_sets), 64 * n_words), dtype=np.bool_)
    ranks = np.repeat(np.arange(len(own_sets)), [len(own) for own in own_sets])
    bits[ranks, np.fromiter(chain.from_iterable(own_sets), dtype=np.int64, count=len(ranks))] = True
    return np.packbits(bits, axis=1, bitorder="little").view("<u8").astype(np.uint64)


def _unpack_bits(sets: Words) -> BoolArray:
    return np.unpackbits(sets.astype("<u8").view(np.uint8), axis=1, bitorder="little").view(np.bool_)


def _nonzero(mask: BoolArray) -> tuple[IntArray, IntArray]:
    """Like `numpy.nonzero`, which is slow for two dimensions."""
    rows, columns = np.divmod(np.flatnonzero(mask), mask.shape[1])
    return rows, columns


def _unpack_sets(sets: Words) -> list[frozenset[int]]:
    ranks, picks = _nonzero(_unpack_bits(sets))
    stops = np.cumsum(np.bincount(ranks, minlength=len(sets))).tolist()
    listed = picks.tolist()
    return [frozenset(listed[start:stop]) for start, stop in pairwise([0, *stops])]


def _add_nodes(
    short: ShortList, nodes: Nodes, log: StepLog, n_steps: int, totals: IntArray, own_sets: list[frozenset[int]]
) -> None:
    """Add the ancestors of the remaining configurations to the nodes."""
    if n_steps == 0:
        return
    steps, ranks = _nonzero(log.parents[:n_steps] >= 0)
    numbers = np.empty((n_steps + 1, log.parents.shape[1]), dtype=np.int64)
    numbers[0, : len(short.leaves)] = [leaf.node for leaf in short.leaves]
    numbers[steps + 1, ranks] = np.arange(len(nodes), len(nodes) + len(steps))
    parents = numbers[steps, log.parents[steps, ranks]]
    nodes.add(
        short.listed[log.picks[steps, ranks]], parents, log.pick_priorities[steps, ranks], log.is_exact[steps, ranks]
    )
    short.leaves[:] = map(Leaf, numbers[n_steps, : len(totals)].tolist(), totals.tolist(), own_sets)


# Steps of a beam inside a front. Only the highest candidates of the front, the short list, are updated in each step;
# the list is built again when a step may need other candidates.

FIRST_LIST = 96
COMMON_EVERY = 8
"""Number of steps after which picks that all configurations have are moved to the common picks."""


class InexactNodes(NamedTuple):
    """Nodes of a configuration whose priorities are not exact."""

    nodes: IntArray
    n_before: IntArray
    """The number of picks before each node."""
    picks: IntArray
    """The picks of the configuration, in order."""


class BeamFront:
    """A front and the configurations in it, whose own picks are positions in the front."""

    def __init__(
        self,
        front: Front,
        rows: IntArray,
        start: FloatArray,
        scores: IntArray,
        threshold: Threshold,
        nodes: Nodes,
        leaves: list[Leaf],
        width: int,
    ) -> None:
        self.front, self.rows, self.start, self.scores = front, rows, start, scores
        self.threshold, self.nodes, self.leaves, self.width = threshold, nodes, leaves, width
        self.common = CommonPicks(front, start)
        self.has_ties = len(np.unique(scores)) < len(scores)
        self.list_size = max(FIRST_LIST, 4 * width)
        self.n_steps = 0

    def run(self, limit: int) -> None:
        """Make up to ``limit`` steps, until a candidate outside the front may come first."""
        while self.n_steps < limit:
            short, before = self._short_list(self.list_size), self.n_steps
            self._run_list(short, limit - self.n_steps)
            if self.n_steps == before:
                if short.threshold is self.threshold:
                    break
                self.list_size *= 2
            self._move_common()

    def largest_remaining(self) -> FloatArray | None:
        """The largest remaining squared priority of each configuration; None if one outside the front may be larger."""
        short = self._short_list(len(self.rows))
        largest = np.zeros(len(self.leaves))
        short.make_exact(np.arange(len(largest)), 1)
        for leaf in range(len(self.leaves)):
            first = short.first(leaf, 1)
            if first is None:
                return None
            largest[leaf] = short.high[leaf, first[0]] if len(first) else 0.0
        return largest

    def highest(self) -> FloatArray:
        """(K,) the largest upper bound over all configurations."""
        _, high = own_intervals(self.front, self.leaves, np.arange(len(self.rows)), len(self.rows))
        return np.asarray(np.minimum(high.max(axis=0), self.common.high))

    def _move_common(self) -> None:
        """Move the picks that all configurations have from their own picks to the common picks."""
        common = frozenset.intersection(*(leaf.own for leaf in self.leaves))
        if common:
            self.common.add(np.fromiter(common, dtype=np.int64))
            self.leaves[:] = [Leaf(node, score, own - common) for node, score, own in self.leaves]

    def _short_list(self, size: int) -> ShortList:
        """The candidates with the highest bounds; the threshold is the first of all others, in the front or outside."""
        if size >= len(self.rows):
            return ShortList(self.common, self.leaves, np.arange(len(self.rows)), self.rows, self.threshold)
        highest = self.highest()
        order = np.argsort(-highest, kind="stable")
        outside = int(order[size])
        next_row = Threshold(float(highest[outside]), int(self.rows[outside]))
        threshold = next_row if self.threshold.admits(next_row.value, next_row.row) else self.threshold
        return ShortList(self.common, self.leaves, np.sort(order[:size]), self.rows, threshold)

    def _run_list(self, short: ShortList, limit: int) -> None:
        """Make steps while the short list allows it."""
        scores = self.scores[short.listed]
        is_distinct = not self.has_ties or len(np.unique(scores)) == len(scores)
        # With equal scores, the order of priorities matters, and nearly every step needs exact priorities. C would not
        # be faster.
        if compiled.steps is not None and is_distinct:
            for made in run_compiled(compiled.steps, short, self.nodes, scores, self.width, limit):
                self.n_steps += made
            return
        for step in range(limit):
            proposals = short.propose(self.width)
            if proposals is None:
                return
            self._expand(short, proposals)
            self.n_steps += 1
            if step % COMMON_EVERY == COMMON_EVERY - 1:
                self._move_common()

    def _expand(self, short: ShortList, proposals: Proposals) -> None:
        """One step: keep the w children with the highest scores that are different sets."""
        parents, positions = proposals
        candidates = short.listed[positions]
        totals = np.array([leaf.score for leaf in self.leaves])[parents] + self.scores[candidates]
        # Proposals are sorted by the parent's rank and priority; the stable sort keeps this order for equal scores.
        order = np.argsort(-totals, kind="stable")
        own_sets = [leaf.own for leaf in self.leaves]
        children: dict[frozenset[int], int] = {}
        for child, parent, pick in zip(
            order.tolist(), parents[order].tolist(), candidates[order].tolist(), strict=True
        ):
            children.setdefault(own_sets[parent] | {pick}, child)
            if len(children) == self.width:
                break
        chosen = np.fromiter(children.values(), dtype=np.int64)
        self._grow(short, Proposals(parents[chosen], positions[chosen]), totals[chosen], list(children))

    def _grow(self, short: ShortList, chosen: Proposals, totals: IntArray, own_sets: list[frozenset[int]]) -> None:
        parents, positions = chosen
        pick_priorities = short.high[parents, positions]
        is_exact = short.low[parents, positions] == pick_priorities
        before = np.array([leaf.node for leaf in self.leaves])
        nodes = self.nodes.add(short.listed[positions], before[parents], pick_priorities, is_exact)
        self.leaves[:] = map(Leaf, nodes.tolist(), totals.tolist(), own_sets)
        short.grow(parents, positions)

    def make_nodes_exact(self, configurations: list[tuple[frozenset[int], IntArray]]) -> None:
        """Make the priorities of the picks in this front exact.

        ``configurations``: for each, its picks before this front, and its nodes in this front, oldest first.
        """
        nodes, is_inexact = self.nodes, ~self.nodes.is_exact[: len(self.nodes)]
        inexact_nodes = list[InexactNodes]()
        for earlier, path in configurations:
            positions = np.flatnonzero(is_inexact[path])
            if len(positions):
                # A node that belongs to several configurations is computed once.
                is_inexact[path[positions]] = False
                picks = np.append(np.fromiter(earlier, dtype=np.int64), nodes.picks[path])
                inexact_nodes.append(InexactNodes(path[positions], len(earlier) + positions, picks))
        if not inexact_nodes:
            return
        is_pick = np.zeros(len(self.rows), dtype=np.bool_)
        is_pick[np.concatenate([each.picks for each in inexact_nodes])] = True
        column_of, unsure = np.cumsum(is_pick) - 1, np.concatenate([each.nodes for each in inexact_nodes])
        limits, start = np.full((len(unsure), column_of[-1] + 1), -1.0), 0
        for own, n_before, picks in inexact_nodes:
            is_earlier = np.arange(len(picks)) < n_before[:, None]
            limits[start : start + len(own), column_of[picks]] = np.where(
                is_earlier, nodes.pick_priorities[own, None], -1.0
            )
            start += len(own)
        candidates = nodes.picks[unsure]
        nodes.pick_priorities[unsure] = self.front.exact_priorities(
            candidates, np.flatnonzero(is_pick), self.start[candidates], limits
        )
        nodes.is_exact[unsure] = True


class Beam:
    """A beam and its configurations. Only ``bounds`` reads features."""

    def __init__(self, problem: Problem, bounds: CandidateBounds) -> None:
        self.problem, self.bounds = problem, bounds
        self.nodes = Nodes()
        self.leaves = [Leaf(NO_NODE, 0, frozenset())]
        self.n_steps = 0
        self.size = max(bounds.front_rows, 8 * problem.beam_width)

    def open(self) -> None:
        """Compute the first bounds.

        In a cold start, each of the first w candidates of the cold order becomes a configuration, most uncertain first.
        """
        if not self.bounds.is_cold:
            self.bounds.open(np.empty(0, dtype=np.int64))
            return
        first = self.bounds.cold_order(self.problem.beam_width)
        scores = self.bounds.scores(first)
        order = np.lexsort((first, -scores))
        none, is_exact = np.full(len(first), NO_NODE), np.ones(len(first), dtype=np.bool_)
        nodes = self.nodes.add(first[order], none, np.full(len(first), np.inf), is_exact)
        self.leaves = [
            Leaf(node, score, frozenset({pick}))
            for node, score, pick in zip(nodes.tolist(), scores[order].tolist(), first[order].tolist(), strict=True)
        ]
        self.n_steps = 1
        self.bounds.open_cold_beam(first[order])

    def solve(self) -> Solution:
        """Make steps until the budget is reached. After Ctrl-C, return the configurations so far."""
        reporter, complete = Reporter(self.problem), True
        try:
            while self.n_steps < self.problem.budget:
                self._step()
                reporter.report(self.n_steps, self.bounds.largest)
        except KeyboardInterrupt:
            complete = False
        configurations, is_uninterrupted = retry_on_interrupt(self._configurations)
        return Solution(configurations, complete and is_uninterrupted)

    def _step(self) -> None:
        front = self._front(self._fresh())
        before, n_nodes = {leaf.node: leaf.own for leaf in front.leaves}, len(self.nodes)
        try:
            front.run(self.problem.budget - self.n_steps)
        finally:
            with DeferInterrupt() as deferred:
                self._close(front, before, n_nodes)
            deferred.raise_if_pending()
        if front.n_steps == 0:
            self.size *= 2

    def _fresh(self) -> Fresh:
        """The first candidates and the configurations' own picks."""
        return self.bounds.fresh(self.size, own_picks(self.leaves))

    def _front(self, fresh: Fresh) -> BeamFront:
        rows, own = fresh.rows, own_picks(self.leaves)
        position = dict(zip(own.tolist(), np.searchsorted(rows, own).tolist(), strict=True))
        leaves = [leaf._replace(own=frozenset(position[pick] for pick in leaf.own)) for leaf in self.leaves]
        front, scores = self.bounds.front(rows), self.bounds.scores(rows)
        width = self.problem.beam_width
        return BeamFront(front, rows, fresh.values, scores, fresh.threshold, self.nodes, leaves, width)

    def _close(self, front: BeamFront, before: dict[int, frozenset[int]], n_before: int) -> None:
        """Make the priorities of the picks exact, write the bounds back, and make the common picks references."""
        rows, nodes = front.rows, self.nodes
        paths = list(nodes.paths(front.leaves, n_before))
        front.make_nodes_exact([(before[start], path) for path, start in paths])
        self.bounds.close(rows, front.highest(), rows[front.common.picks])
        renumber = nodes.keep(np.unique(np.concatenate([path for path, _ in paths])), n_before)
        nodes.picks[n_before : len(nodes)] = rows[nodes.picks[n_before : len(nodes)]]
        numbers = renumber(np.array([leaf.node for leaf in front.leaves])).tolist()
        self.leaves = [
            Leaf(node, leaf.score, frozenset(rows[list(leaf.own)].tolist()))
            for node, leaf in zip(numbers, front.leaves, strict=True)
        ]
        self.n_steps += front.n_steps

    def _configurations(self) -> tuple[Configuration, ...]:
        largest, nodes = None, self.nodes
        while largest is None:
            largest = self._front(self._fresh()).largest_remaining()
            self.size *= 2
        return tuple(
            self.bounds.configuration(
                nodes.picks[path], nodes.pick_priorities[path], float(np.sqrt(max(next_squared, 0.0)))
            )
            for (path, _), next_squared in zip(nodes.paths(self.leaves), largest.tolist(), strict=True)
        )
