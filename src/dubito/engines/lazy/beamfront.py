"""Stepping all configurations of a beam inside a front.

Priorities are intervals, as in `dubito.engines.lazy.front`, one row a configuration. Only the highest candidates of the
front, the short list, are carried from step to step; the list is drawn again when a step may need others.
"""

from dataclasses import dataclass
from typing import NamedTuple

import numpy as np

from dubito.engines.lazy.front import Exact, Front, Threshold
from dubito.matrix import FloatArray, IntArray

FIRST_LIST = 96
SHARE_EVERY = 8
"""Steps after which picks that all configurations made by now are taken out of them: short sets compare quickly."""


@dataclass(slots=True, eq=False)
class Node:
    """One pick of a configuration; configurations that share a past share its nodes."""

    pick: int
    """Position in the front it was made in; the candidate's number once that front is left."""
    parent: "Node | None"
    height: float
    """Squared priority when picked: an upper bound until it is settled."""
    is_exact: bool


class Leaf(NamedTuple):
    """A configuration: its last pick, its score, and those of its picks that not every configuration holds."""

    node: Node | None
    score: int
    own: frozenset[int]


class BeamFront:
    """A front, its configurations, and what they have picked in it; ``own`` picks are positions in the front."""

    def __init__(
        self,
        front: Front,
        rows: IntArray,
        start: FloatArray,
        scores: IntArray,
        threshold: Threshold,
        leaves: list[Leaf],
        width: int,
    ) -> None:
        self.front, self.rows, self.start, self.scores = front, rows, start, scores
        self.threshold, self.leaves, self.width = threshold, leaves, width
        self.shared_low, self.shared_high, self.exact = start.copy(), start.copy(), Exact(start)
        self.common: list[int] = []
        """Picks of this front that every configuration holds."""
        self.list_size = max(FIRST_LIST, 4 * width)

    def run(self, limit: int) -> int:
        """Step until ``limit`` steps are made or something outside the front may come first; how many were made."""
        steps = 0
        while steps < limit:
            made = self._run_list(limit - steps)
            steps += made
            if made == 0:
                if self.bar is self.threshold:
                    break
                self.list_size *= 2
            self._share()
        return steps

    def tops(self) -> FloatArray | None:
        """The largest squared priority left to each configuration; None where something outside may be larger."""
        self._draw(len(self.rows))
        tops = np.zeros(len(self.leaves))
        for leaf in range(len(self.leaves)):
            first = self._first(leaf, 1)
            if first is None:
                return None
            tops[leaf] = self.high[leaf, first[0]] if len(first) else 0.0
        return tops

    def highest(self) -> FloatArray:
        """(K,) the largest upper bound over the configurations."""
        _, high = self._intervals(np.arange(len(self.rows)))
        return np.asarray(np.minimum(high.max(axis=0), self.shared_high))

    def _intervals(self, listed: IntArray) -> tuple[FloatArray, FloatArray]:
        """Intervals (w, M) that each configuration's own picks leave to the listed candidates; -1 where picked."""
        low = np.full((len(self.leaves), len(listed)), np.inf)
        high = low.copy()
        # Configurations hold many picks in common: bounds once for each, then a minimum for each configuration.
        picks = np.array(sorted(frozenset().union(*(leaf.own for leaf in self.leaves))), dtype=np.int64)
        near, far = self.front.bounds_between(picks, listed)
        place_of = np.full(len(self.rows), -1)
        place_of[listed] = np.arange(len(listed))
        for leaf, configuration in enumerate(self.leaves):
            own = np.fromiter(configuration.own, dtype=np.int64)
            if len(own):
                rank, places = np.searchsorted(picks, own), place_of[own]
                low[leaf], high[leaf] = near[rank].min(axis=0), far[rank].min(axis=0)
                low[leaf, places[places >= 0]] = high[leaf, places[places >= 0]] = -1.0
        return low, high

    def _share(self) -> None:
        """Move picks that every configuration holds from the configurations to the front."""
        common = frozenset.intersection(*(leaf.own for leaf in self.leaves))
        if not common:
            return
        picks = np.fromiter(common, dtype=np.int64)
        near, far = self.front.bounds_between(picks, np.arange(len(self.rows)))
        np.minimum(self.shared_low, near.min(axis=0), out=self.shared_low)
        np.minimum(self.shared_high, far.min(axis=0), out=self.shared_high)
        self.shared_low[picks] = self.shared_high[picks] = -1.0
        self.common.extend(picks.tolist())
        self.leaves = [Leaf(leaf.node, leaf.score, leaf.own - common) for leaf in self.leaves]

    def _draw(self, size: int) -> None:
        """Draw the short list: the highest candidates, and the largest value left out."""
        everyone = np.arange(len(self.rows))
        self.listed, self.bar = everyone, self.threshold
        if size < len(self.rows):
            highest = self.highest()
            order = np.argsort(-highest, kind="stable")
            self.listed, outside = np.sort(order[:size]), int(order[size])
            left_out = Threshold(float(highest[outside]), int(self.rows[outside]))
            if not self.threshold.admits(left_out.value, left_out.row):
                left_out = self.threshold
            self.bar = left_out
        self.own_low, self.own_high = self._intervals(self.listed)
        self._merge()
        self.near, self.far = self.front.bounds_between(self.listed, self.listed)
        listed_scores = self.scores[self.listed]
        self.has_ties = len(np.unique(listed_scores)) < len(listed_scores)

    def _run_list(self, limit: int) -> int:
        self._draw(self.list_size)
        for step in range(limit):
            proposals = self._proposals()
            if proposals is None:
                return step
            self._breed(*proposals)
            if step % SHARE_EVERY == SHARE_EVERY - 1:
                self._share()
        return limit

    def _proposals(self) -> tuple[IntArray, IntArray] | None:
        """Each configuration's first w candidates, as ranks and places in the list; None where that is not certain."""
        width, n_listed = self.width, len(self.listed)
        if n_listed > width and not self.has_ties:
            split = n_listed - width
            order = np.argpartition(self.high, [split - 1, split], axis=1)
            rank = np.arange(len(self.leaves))[:, None]
            floor = self.low[rank, order[:, split:]].min(axis=1)
            sure = (floor > self.high[rank[:, 0], order[:, split - 1]]) & (floor > max(self.bar.value, 0.0))
            if sure.all():
                return np.repeat(rank[:, 0], width), order[:, split:].ravel()
        else:
            sure, order, split = np.zeros(len(self.leaves), dtype=np.bool_), np.empty((0, 0), dtype=np.int64), 0
        proposals = []
        for leaf in range(len(self.leaves)):
            first = order[leaf, split:] if sure[leaf] else self._first(leaf, width)
            if first is None:
                return None
            proposals.append(first)
        lengths = [len(first) for first in proposals]
        return np.repeat(np.arange(len(proposals)), lengths), np.concatenate(proposals)

    def _first(self, leaf: int, width: int) -> IntArray | None:
        """A configuration's first candidates in exact order; None where something outside the list may come first."""
        while True:
            low, high = self.low[leaf], self.high[leaf]
            order = np.argsort(-high, kind="stable")
            first = order[:width]
            unsure = np.flatnonzero((high >= low[first].min(initial=np.inf)) & (high >= 0.0) & (low < high))
            if not len(unsure):
                break
            self._settle_shared(unsure)
            self._merge()
            still = unsure[self.low[leaf, unsure] < self.high[leaf, unsure]]
            if len(still):
                self._settle(leaf, still)
                self._merge()
        last = first[-1] if len(first) else 0
        if self.bar.value >= 0.0 and not self.bar.admits(float(high[last]), int(self.rows[self.listed[last]])):
            return None
        return np.asarray(first[high[first] >= 0.0])

    def _settle(self, leaf: int, places: IntArray) -> None:
        """Make listed candidates exact in one configuration."""
        candidates = self.listed[places]
        own = np.fromiter(self.leaves[leaf].own, dtype=np.int64)
        exact = self.front.settled(candidates, own, self.shared_high[candidates], self.high[leaf, places])
        self.own_low[leaf, places] = self.own_high[leaf, places] = exact

    def _settle_shared(self, places: IntArray) -> None:
        """Make what the front's common picks leave to listed candidates exact, for every configuration at once."""
        candidates = self.listed[places]
        candidates = candidates[self.shared_low[candidates] < self.shared_high[candidates]]
        if len(candidates):
            self.exact.settle(self.front, candidates, self.common, self.shared_high[candidates])
            self.shared_low[candidates] = self.shared_high[candidates] = self.exact.values[candidates]

    def _merge(self) -> None:
        """Each configuration's intervals: the lower of what common picks and its own picks leave."""
        self.low = np.minimum(self.own_low, self.shared_low[self.listed])
        self.high = np.minimum(self.own_high, self.shared_high[self.listed])

    def _breed(self, parents: IntArray, places: IntArray) -> None:
        """One step: the w highest-scoring children, no two of them the same set."""
        candidates = self.listed[places]
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
        self._grow(parents[chosen], places[chosen], totals[chosen], list(children))

    def _grow(self, parents: IntArray, places: IntArray, totals: IntArray, owns: list[frozenset[int]]) -> None:
        heights = self.high[parents, places]
        is_exact = self.low[parents, places] == heights
        nodes = [leaf.node for leaf in self.leaves]
        self.leaves = [
            Leaf(Node(pick, nodes[parent], height, exact), total, own)
            for pick, parent, height, exact, total, own in zip(
                self.listed[places].tolist(),
                parents.tolist(),
                heights.tolist(),
                is_exact.tolist(),
                totals.tolist(),
                owns,
                strict=True,
            )
        ]
        self.own_low = np.minimum(self.own_low[parents], self.near[places])
        self.own_high = np.minimum(self.own_high[parents], self.far[places])
        rank = np.arange(len(self.leaves))
        self.own_low[rank, places] = self.own_high[rank, places] = -1.0
        self._merge()

    def settle_nodes(self, first_own: frozenset[int], new_nodes: list[Node]) -> None:
        """Make the priorities of one configuration's picks in this front exact; oldest pick first."""
        unsure = [place for place, node in enumerate(new_nodes) if not node.is_exact]
        if not unsure:
            return
        picks = np.array([*first_own, *(node.pick for node in new_nodes)], dtype=np.int64)
        places = np.array(unsure)
        heights = np.array([new_nodes[place].height for place in unsure])
        is_earlier = np.arange(len(picks)) < (places + len(first_own))[:, None]
        candidates = picks[places + len(first_own)]
        exact = self.front.settled(
            candidates, picks, self.start[candidates], np.where(is_earlier, heights[:, None], -1.0)
        )
        for place, value in zip(unsure, exact.tolist(), strict=True):
            new_nodes[place].height, new_nodes[place].is_exact = value, True
