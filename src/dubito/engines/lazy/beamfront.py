"""Stepping all configurations of a beam inside a front.

Priorities are intervals, as in `dubito.engines.lazy.front`, one row a configuration. Only the highest candidates of the
front, the short list, are carried from step to step; the list is drawn again when a step may need others.
"""

from typing import NamedTuple

import numpy as np

from dubito import compiled
from dubito.engines.lazy.beamsteps import run_compiled
from dubito.engines.lazy.configurations import Leaf, Nodes
from dubito.engines.lazy.front import Front, Threshold
from dubito.engines.lazy.shortlist import Common, Proposals, ShortList, own_intervals
from dubito.matrix import FloatArray, IntArray

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
            self._breed(short, proposals)
            self.n_steps += 1
            if step % SHARE_EVERY == SHARE_EVERY - 1:
                self._share()

    def _breed(self, short: ShortList, proposals: Proposals) -> None:
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
