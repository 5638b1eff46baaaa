"""The highest candidates of a beam's front, carried from step to step: every configuration's interval for each.

Picks that all configurations hold are common, and their effect is kept once, in `Common`; a configuration's own picks
lower its own rows here.
"""

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np

from dubito import compiled
from dubito.engines.lazy.configurations import Leaf, own_picks
from dubito.engines.lazy.front import Exact, Front, Threshold
from dubito.matrix import BoolArray, FloatArray, IntArray


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
    steps.intervals(arrays, len(front.error), len(listed), len(starts) - 1, len(picks), front.unit, front.by_pick)
