"""The beam over a lazy engine's kernels: w configurations at about the price of one.

Configurations share nearly all their picks. What all of them hold is the base: those picks are references like any
other, and bounds are kept against the base alone. A configuration's own few picks stand in every front, and lower its
priorities there. A step is valid while every proposal of every configuration comes before the threshold; a front
that allows none grows.

What a front writes back is the largest value over the configurations: a true bound for every later one, since
configurations only gain picks. It may lie under the base's own priority, but never under a configuration's.
"""

from collections.abc import Iterator, Sequence
from itertools import chain, pairwise
from typing import NamedTuple, TypeVar

import numpy as np
import numpy.typing as npt

from dubito import native as compiled
from dubito.core.problem import Configuration, Problem, Solution
from dubito.engines.lazy.configurations import NO_NODE, Leaf, Nodes, own_picks
from dubito.engines.lazy.front import Exact, Front, Threshold
from dubito.engines.lazy.frontier import Fresh, Frontier, Reporter
from dubito.engines.lazy.interrupts import DeferInterrupt, retry_on_interrupt
from dubito.errors import InvalidData
from dubito.matrix import BoolArray, FloatArray, IntArray

# The highest candidates of a beam's front, carried from step to step: every configuration's interval for each.
#
# Picks that all configurations hold are common, and their effect is kept once, in `Common`; a configuration's own
# picks lower its own rows here.


class Common:
    """What the picks that all configurations hold leave to each candidate of a front: an interval."""

    def __init__(self, front: Front, start: FloatArray) -> None:
        self.front = front
        self.low, self.high, self.exact = start.copy(), start.copy(), Exact(start)
        self.picks: list[int] = []

    def add(self, picks: IntArray) -> None:
        """Picks of this front that every configuration holds by now."""
        every, starts = np.arange(len(self.low)), np.array([0, len(picks)])
        if compiled.steps is not None:
            _lower_in_c(compiled.steps, self.front, (picks, starts, every, self.low, self.high))
        else:
            near, far = self.front.bounds_between(picks, every)
            np.minimum(self.low, near.min(axis=0), out=self.low)
            np.minimum(self.high, far.min(axis=0), out=self.high)
            self.low[picks] = self.high[picks] = -1.0
        self.picks.extend(picks.tolist())

    def settle(self, candidates: IntArray) -> bool:
        """Make the intervals of some candidates exact, for every configuration at once; whether any was not."""
        unsure = candidates[self.low[candidates] < self.high[candidates]]
        if len(unsure):
            self.exact.settle(self.front, unsure, self.picks, self.high[unsure])
            self.low[unsure] = self.high[unsure] = self.exact.values[unsure]
        return len(unsure) > 0


class Proposals(NamedTuple):
    """Candidates that configurations would pick next."""

    parents: IntArray
    """Ranks of the configurations, ascending."""
    places: IntArray
    """Places in the list; of one configuration the highest first, but where any order will do."""


class ShortList:
    """Some candidates of a front, with intervals (w, M) for every configuration; -1 where it picked.

    ``leaves`` is the front's own list, which changes with every step.
    """

    def __init__(self, common: Common, leaves: list[Leaf], listed: IntArray, rows: IntArray, bar: Threshold) -> None:
        self.common, self.leaves, self.listed, self.rows, self.bar = common, leaves, listed, rows, bar
        self.own_low, self.own_high = own_intervals(common.front, leaves, listed, len(common.low))
        """What a configuration's own picks leave."""
        self.near, self.far = common.front.bounds_between(listed, listed)
        """What each listed candidate, once picked, would leave to the others."""
        self.merge()

    def merge(self) -> None:
        """Each configuration's intervals: the lower of what common picks and its own picks leave."""
        self.low = np.minimum(self.own_low, self.common.low[self.listed])
        self.high = np.minimum(self.own_high, self.common.high[self.listed])

    def propose(self, width: int, *, any_order: bool) -> Proposals | None:
        """Each configuration's first candidates; None where something outside the list may come first."""
        n_leaves = len(self.leaves)
        is_sure, places = np.zeros(n_leaves, dtype=np.bool_), np.empty((n_leaves, 0), dtype=np.int64)
        if any_order and len(self.listed) > width:
            is_sure, places = self._certain(width)
            if is_sure.all():
                return Proposals(np.repeat(np.arange(n_leaves), width), places.ravel())
        proposals = list[IntArray]()
        for leaf in range(n_leaves):
            first = places[leaf] if is_sure[leaf] else self.first(leaf, width)
            if first is None:
                return None
            proposals.append(first)
        lengths = [len(first) for first in proposals]
        return Proposals(np.repeat(np.arange(n_leaves), lengths), np.concatenate(proposals))

    def _certain(self, width: int) -> tuple[BoolArray, IntArray]:
        """(w,) where intervals alone tell which candidates come first, and (w, width) which, in any order."""
        split = len(self.listed) - width
        order = np.argpartition(self.high, [split - 1, split], axis=1)
        rank = np.arange(len(self.leaves))
        floor = self.low[rank[:, None], order[:, split:]].min(axis=1)
        is_sure = (floor > self.high[rank, order[:, split - 1]]) & (floor > max(self.bar.value, 0.0))
        return is_sure, order[:, split:]

    def first(self, leaf: int, width: int) -> IntArray | None:
        """A configuration's first candidates in exact order; None where something outside the list may come first."""
        while True:
            high, first = self.high[leaf], np.argsort(-self.high[leaf], kind="stable")[:width]
            # Too low by an upper bound already: exactly, it would be no higher.
            if high[first].min(initial=np.inf) < self.bar.value:
                return None
            unsure = self._unsure(leaf, first)
            if not len(unsure):
                break
            self._settle(leaf, unsure)
        last = first[-1] if len(first) else 0
        if self.bar.value >= 0.0 and not self.bar.admits(float(high[last]), int(self.rows[self.listed[last]])):
            return None
        return np.asarray(first[high[first] >= 0.0])

    def settle(self, leaves: IntArray, width: int) -> None:
        """Make exact whatever leaves these configurations in doubt of their first candidates."""
        while (places := self._in_doubt(leaves, width)).any():
            if self.common.settle(self.listed[places.any(axis=0)]):
                self.merge()
            which, still = np.nonzero(places & (self.low[leaves] < self.high[leaves]))
            if len(still):
                self._settle_own(leaves[which], still)

    def _in_doubt(self, leaves: IntArray, width: int) -> BoolArray:
        """(leaves, M) candidates whose intervals reach as high as the first of a configuration."""
        low, high = self.low[leaves], self.high[leaves]
        first = np.argsort(-high, axis=1, kind="stable")[:, :width]
        floor = np.take_along_axis(low, first, axis=1).min(axis=1, initial=np.inf)
        return np.asarray((high >= np.maximum(floor, 0.0)[:, None]) & (low < high))

    def _settle_own(self, ranks: IntArray, places: IntArray) -> None:
        """Make pairs of configurations and listed candidates exact, all at once."""
        present, own_rank = np.unique(ranks, return_inverse=True)
        leaves = [self.leaves[rank] for rank in present.tolist()]
        picks, candidates = own_picks(leaves), self.listed[places]
        holds = np.zeros((len(leaves), len(picks)), dtype=np.bool_)
        for rank, leaf in enumerate(leaves):
            holds[rank, np.searchsorted(picks, list(leaf.own))] = True
        limits = np.where(holds[own_rank], self.high[ranks, places][:, None], -1.0)
        exact = self.common.front.settled(candidates, picks, self.common.high[candidates], limits)
        self.own_low[ranks, places] = self.own_high[ranks, places] = exact
        self.low[ranks, places] = np.minimum(exact, self.common.low[candidates])
        self.high[ranks, places] = np.minimum(exact, self.common.high[candidates])

    def _unsure(self, leaf: int, first: IntArray) -> IntArray:
        """Candidates whose intervals reach as high as the first of a configuration."""
        low, high = self.low[leaf], self.high[leaf]
        return np.flatnonzero((high >= max(low[first].min(initial=np.inf), 0.0)) & (low < high))

    def _settle(self, leaf: int, places: IntArray) -> None:
        """Make listed candidates exact: what common picks leave, and where that is not enough, in one configuration."""
        if self.common.settle(self.listed[places]):
            self.merge()
        still = places[self.low[leaf, places] < self.high[leaf, places]]
        if len(still):
            candidates, own = self.listed[still], np.fromiter(self.leaves[leaf].own, dtype=np.int64)
            start, limits = self.common.high[candidates], self.high[leaf, still]
            exact = self.common.front.settled(candidates, own, start, limits)
            self.own_low[leaf, still] = self.own_high[leaf, still] = exact
            self.low[leaf] = np.minimum(self.own_low[leaf], self.common.low[self.listed])
            self.high[leaf] = np.minimum(self.own_high[leaf], self.common.high[self.listed])

    def grow(self, parents: IntArray, places: IntArray) -> None:
        """One configuration for each of these children: its parent's intervals, lowered by its pick."""
        self.own_low = np.minimum(self.own_low[parents], self.near[places])
        self.own_high = np.minimum(self.own_high[parents], self.far[places])
        rank = np.arange(len(parents))
        self.own_low[rank, places] = self.own_high[rank, places] = -1.0
        self.merge()


def own_intervals(front: Front, leaves: Sequence[Leaf], listed: IntArray, n_rows: int) -> tuple[FloatArray, FloatArray]:
    """Intervals (w, M) that each configuration's own picks leave to listed candidates of a front; -1 where picked."""
    low = np.full((len(leaves), len(listed)), np.inf)
    high = low.copy()
    if compiled.steps is not None:
        picks = np.array([pick for leaf in leaves for pick in leaf.own], dtype=np.int64)
        starts = np.concatenate([[0], np.cumsum([len(leaf.own) for leaf in leaves])])
        _lower_in_c(compiled.steps, front, (picks, starts, listed, low, high))
        return low, high
    # Configurations hold many picks in common: bounds once for each, then a minimum for each configuration.
    picks = own_picks(leaves)
    near, far = front.bounds_between(picks, listed)
    place_of = np.full(n_rows, -1)
    place_of[listed] = np.arange(len(listed))
    for leaf, configuration in enumerate(leaves):
        own = np.fromiter(configuration.own, dtype=np.int64)
        if len(own):
            rank, places = np.searchsorted(picks, own), place_of[own]
            low[leaf], high[leaf] = near[rank].min(axis=0), far[rank].min(axis=0)
            low[leaf, places[places >= 0]] = high[leaf, places[places >= 0]] = -1.0
    return low, high


def _lower_in_c(steps: compiled.CompiledSteps, front: Front, given: compiled.Arrays) -> None:
    """Lower intervals by picks: picks, where each configuration's start, listed candidates, and the intervals."""
    picks, starts, listed = given[:3]
    arrays = (front.squared, front.error, front.weights, *given)
    steps.own_intervals(arrays, len(front.error), len(listed), len(starts) - 1, len(picks), front.unit, front.by_pick)


# A beam's steps over a short list, compiled: see ``dubito/native/beam.c``.
#
# The compiled part goes on while intervals tell what comes first. Where they do not, it hands back which
# configuration is in doubt; candidates are settled here, and it goes on. What came of it is written down as parents
# and picks, of which only the ancestors of those that are left become nodes.

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
        why, made, n_leaves, n_unsure = steps.step_beam(
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
            hint = "pass a copy that nobody writes to meanwhile."
            raise InvalidData("holds other numbers than when the call began", argument="pool", hint=hint)
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


# Stepping all configurations of a beam inside a front.
#
# Priorities are intervals, as in `dubito.engines.lazy.front`, one row a configuration. Only the highest candidates of
# the front, the short list, are carried from step to step; the list is drawn again when a step may need others.

FIRST_LIST = 96
SHARE_EVERY = 8
"""Steps after which picks that all configurations made by now are taken out of them: short sets compare quickly."""


class Unsettled(NamedTuple):
    """Nodes of a configuration whose priorities are not exact yet."""

    nodes: IntArray
    n_before: IntArray
    """How many of the picks came before each."""
    picks: IntArray
    """The configuration's, in order."""


class BeamFront:
    """A front, its configurations, and what they have picked in it; ``own`` picks are positions in the front."""

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
        self.common = Common(front, start)
        self.has_ties = len(np.unique(scores)) < len(scores)
        self.list_size = max(FIRST_LIST, 4 * width)
        self.n_steps = 0

    def run(self, limit: int) -> None:
        """Step until ``limit`` steps are made or something outside the front may come first."""
        while self.n_steps < limit:
            short, before = self._draw(self.list_size), self.n_steps
            self._run_list(short, limit - self.n_steps)
            if self.n_steps == before:
                if short.bar is self.threshold:
                    break
                self.list_size *= 2
            self._share()

    def tops(self) -> FloatArray | None:
        """The largest squared priority left to each configuration; None where something outside may be larger."""
        short = self._draw(len(self.rows))
        tops = np.zeros(len(self.leaves))
        for leaf in range(len(self.leaves)):
            first = short.first(leaf, 1)
            if first is None:
                return None
            tops[leaf] = short.high[leaf, first[0]] if len(first) else 0.0
        return tops

    def highest(self) -> FloatArray:
        """(K,) the largest upper bound over the configurations."""
        _, high = own_intervals(self.front, self.leaves, np.arange(len(self.rows)), len(self.rows))
        return np.asarray(np.minimum(high.max(axis=0), self.common.high))

    def _share(self) -> None:
        """Move picks that every configuration holds from the configurations to the front."""
        common = frozenset.intersection(*(leaf.own for leaf in self.leaves))
        if common:
            self.common.add(np.fromiter(common, dtype=np.int64))
            self.leaves[:] = [Leaf(node, score, own - common) for node, score, own in self.leaves]

    def _draw(self, size: int) -> ShortList:
        """The highest candidates; whatever of the others comes first, in the front or outside, is the bar."""
        if size >= len(self.rows):
            return ShortList(self.common, self.leaves, np.arange(len(self.rows)), self.rows, self.threshold)
        highest = self.highest()
        order = np.argsort(-highest, kind="stable")
        outside = int(order[size])
        left_out = Threshold(float(highest[outside]), int(self.rows[outside]))
        bar = left_out if self.threshold.admits(left_out.value, left_out.row) else self.threshold
        return ShortList(self.common, self.leaves, np.sort(order[:size]), self.rows, bar)

    def _run_list(self, short: ShortList, limit: int) -> None:
        """Step while the short list allows it."""
        scores = self.scores[short.listed]
        any_order = not self.has_ties or len(np.unique(scores)) == len(scores)
        # Where the order of equal scores counts, nearly every step has something to settle: that is not for C.
        if compiled.steps is not None and any_order:
            for made in run_compiled(compiled.steps, short, self.nodes, scores, self.width, limit):
                self.n_steps += made
            return
        for step in range(limit):
            proposals = short.propose(self.width, any_order=any_order)
            if proposals is None:
                return
            self._expand(short, proposals)
            self.n_steps += 1
            if step % SHARE_EVERY == SHARE_EVERY - 1:
                self._share()

    def _expand(self, short: ShortList, proposals: Proposals) -> None:
        """One step: the w highest-scoring children, no two of them the same set."""
        parents, places = proposals
        candidates = short.listed[places]
        totals = np.array([leaf.score for leaf in self.leaves])[parents] + self.scores[candidates]
        # Proposals are in order of parent's rank and priority, which a stable sort keeps for equal scores.
        order = np.argsort(-totals, kind="stable")
        owns = [leaf.own for leaf in self.leaves]
        children: dict[frozenset[int], int] = {}
        for child, parent, pick in zip(
            order.tolist(), parents[order].tolist(), candidates[order].tolist(), strict=True
        ):
            children.setdefault(owns[parent] | {pick}, child)
            if len(children) == self.width:
                break
        chosen = np.fromiter(children.values(), dtype=np.int64)
        self._grow(short, Proposals(parents[chosen], places[chosen]), totals[chosen], list(children))

    def _grow(self, short: ShortList, chosen: Proposals, totals: IntArray, owns: list[frozenset[int]]) -> None:
        parents, places = chosen
        heights = short.high[parents, places]
        is_exact = short.low[parents, places] == heights
        before = np.array([leaf.node for leaf in self.leaves])
        nodes = self.nodes.add(short.listed[places], before[parents], heights, is_exact)
        self.leaves[:] = map(Leaf, nodes.tolist(), totals.tolist(), owns)
        short.grow(parents, places)

    def settle_nodes(self, configurations: list[tuple[frozenset[int], IntArray]]) -> None:
        """Make the priorities of picks in this front exact, all at once.

        Of each configuration: the picks it held before, and its nodes in this front, the oldest first.
        """
        nodes, is_due = self.nodes, ~self.nodes.is_exact[: len(self.nodes)]
        due = list[Unsettled]()
        for held, path in configurations:
            places = np.flatnonzero(is_due[path])
            if len(places):
                # What another configuration holds, too, is settled once.
                is_due[path[places]] = False
                picks = np.append(np.fromiter(held, dtype=np.int64), nodes.picks[path])
                due.append(Unsettled(path[places], len(held) + places, picks))
        if not due:
            return
        is_pick = np.zeros(len(self.rows), dtype=np.bool_)
        is_pick[np.concatenate([each.picks for each in due])] = True
        column_of, unsure = np.cumsum(is_pick) - 1, np.concatenate([each.nodes for each in due])
        limits, start = np.full((len(unsure), column_of[-1] + 1), -1.0), 0
        for own, n_before, picks in due:
            is_earlier = np.arange(len(picks)) < n_before[:, None]
            limits[start : start + len(own), column_of[picks]] = np.where(is_earlier, nodes.heights[own, None], -1.0)
            start += len(own)
        candidates = nodes.picks[unsure]
        nodes.heights[unsure] = self.front.settled(candidates, np.flatnonzero(is_pick), self.start[candidates], limits)
        nodes.is_exact[unsure] = True


class Beam:
    """A beam's run: its configurations. Of the problem it looks at what is asked for, never at the points."""

    def __init__(self, problem: Problem, frontier: Frontier) -> None:
        self.problem, self.frontier = problem, frontier
        self.nodes = Nodes()
        self.leaves = [Leaf(NO_NODE, 0, frozenset())]
        self.n_steps = 0
        self.size = max(frontier.front_rows, 8 * problem.beam_width)

    def open(self) -> None:
        """Bound every candidate.

        A cold start has no distances to go by: the first w of the cold order, the most uncertain ahead.
        """
        if not self.frontier.is_cold:
            self.frontier.open(np.empty(0, dtype=np.int64))
            return
        first = self.frontier.cold_order(self.problem.beam_width)
        scores = self.frontier.scores(first)
        order = np.lexsort((first, -scores))
        none, is_exact = np.full(len(first), NO_NODE), np.ones(len(first), dtype=np.bool_)
        nodes = self.nodes.add(first[order], none, np.full(len(first), np.inf), is_exact)
        self.leaves = [
            Leaf(node, score, frozenset({pick}))
            for node, score, pick in zip(nodes.tolist(), scores[order].tolist(), first[order].tolist(), strict=True)
        ]
        self.n_steps = 1
        self.frontier.open_apart(first[order])

    def solve(self) -> Solution:
        """Step until the budget is met, or until Ctrl-C: then the leading configuration so far is first."""
        reporter, complete = Reporter(self.problem), True
        try:
            while self.n_steps < self.problem.budget:
                self._step()
                reporter.report(self.n_steps, self.frontier.largest)
        except KeyboardInterrupt:
            complete = False
        found, is_quiet = retry_on_interrupt(self._configurations)
        return Solution(found, complete and is_quiet)

    def _step(self) -> None:
        front = self._front(self._fresh())
        before, n_nodes = {leaf.node: leaf.own for leaf in front.leaves}, len(self.nodes)
        try:
            front.run(self.problem.budget - self.n_steps)
        finally:
            with DeferInterrupt() as held:
                self._close(front, before, n_nodes)
            held.raise_if_pending()
        if front.n_steps == 0:
            self.size *= 2

    def _fresh(self) -> Fresh:
        """The first candidates in order, with the configurations' own picks."""
        return self.frontier.fresh(self.size, own_picks(self.leaves))

    def _front(self, fresh: Fresh) -> BeamFront:
        rows, own = fresh.rows, own_picks(self.leaves)
        place = dict(zip(own.tolist(), np.searchsorted(rows, own).tolist(), strict=True))
        leaves = [leaf._replace(own=frozenset(place[pick] for pick in leaf.own)) for leaf in self.leaves]
        front, scores = self.frontier.front(rows), self.frontier.scores(rows)
        width = self.problem.beam_width
        return BeamFront(front, rows, fresh.values, scores, fresh.threshold, self.nodes, leaves, width)

    def _close(self, front: BeamFront, before: dict[int, frozenset[int]], n_before: int) -> None:
        """Leave a front: settle its picks' priorities, write bounds back, and let the base have what is common."""
        rows, nodes = front.rows, self.nodes
        paths = list(nodes.paths(front.leaves, n_before))
        front.settle_nodes([(before[start], path) for path, start in paths])
        self.frontier.close(rows, front.highest(), rows[front.common.picks])
        renumber = nodes.keep(np.unique(np.concatenate([path for path, _ in paths])), n_before)
        nodes.picks[n_before : len(nodes)] = rows[nodes.picks[n_before : len(nodes)]]
        numbers = renumber(np.array([leaf.node for leaf in front.leaves])).tolist()
        self.leaves = [
            Leaf(node, leaf.score, frozenset(rows[list(leaf.own)].tolist()))
            for node, leaf in zip(numbers, front.leaves, strict=True)
        ]
        self.n_steps += front.n_steps

    def _configurations(self) -> tuple[Configuration, ...]:
        tops, nodes = None, self.nodes
        while tops is None:
            tops = self._front(self._fresh()).tops()
            self.size *= 2
        return tuple(
            self.frontier.configuration(nodes.picks[path], nodes.heights[path], float(np.sqrt(max(top, 0.0))))
            for (path, _), top in zip(nodes.paths(self.leaves), tops.tolist(), strict=True)
        )
