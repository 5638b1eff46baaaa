"""A front of a beam on a device: exact priorities turned into keys."""

from dataclasses import dataclass

import torch

from dubito.engines.cuda.bounds import DeviceBounds
from dubito.engines.cuda.points import Tensor
from dubito.engines.cuda.programs.pairs import near_pairs
from dubito.engines.cuda.programs.settling import settle
from dubito.engines.cuda.programs.steps import HIGHEST_KEY
from dubito.engines.lazy.front import Threshold

NEVER = HIGHEST_KEY.value
"""A key above all: a pick that leaves a candidate alone."""


@dataclass(frozen=True, slots=True)
class DeviceBoard:
    """A front of n candidates as configurations see it: keys, and the few that a pick lowers."""

    start: Tensor
    """(n,) int32 keys before a configuration's own picks."""
    picks: Tensor
    """int64 places, in any order, of picks that lower a candidate,"""
    others: Tensor
    """of these candidates,"""
    left: Tensor
    """and int32 keys that they leave to them."""
    gains: Tensor
    """(n,) int64 scores."""
    bar: Tensor
    """(1,) int32 keys from here on come before everything outside; -1 where nothing is outside."""
    n_keys: int
    """Above all keys."""

    def lowered(self, n_columns: int) -> Tensor:
        """(n, columns) int32 keys that a pick leaves to each candidate; `NEVER` where it leaves it alone."""
        rows = torch.full((len(self.start), n_columns), NEVER, dtype=torch.int32, device=self.start.device)
        rows.view(-1)[self.picks * n_columns + self.others] = self.left
        return rows

    def by_pick(self) -> tuple[Tensor, Tensor, Tensor]:
        """Whom picks lower and to which keys, int32, in the order of picks; and (n + 1,) where each pick's begin."""
        picks, order = torch.sort(self.picks)
        places = torch.arange(len(self.start) + 1, device=picks.device)
        return torch.searchsorted(picks, places, out_int32=True), self.others[order].int(), self.left[order]


@dataclass(frozen=True, slots=True)
class StepsTaken:
    """What came of a front: configurations (w, n) as rows of keys, their scores, and each step's picks."""

    keys: Tensor
    totals: Tensor
    parents: Tensor
    """(steps, w) ranks, one step before."""
    picks: Tensor
    """(steps, w) places in the front."""
    heights: Tensor
    """(steps, w) keys of the picks when picked."""


class DeviceFront:
    """Candidates ascending by number, with exact priorities, and the keys that stand for them."""

    def __init__(self, bounds: DeviceBounds, rows: Tensor) -> None:
        self.bounds, self.rows = bounds, rows
        self.start = bounds.value[rows]
        references = bounds.references
        self.exact = references.widen(bounds.exact(rows))
        self.weights = bounds.weights[rows]
        self.pairs = self._near()

    @property
    def n_pairs(self) -> int:
        """Pairs of which one may lower the other."""
        return len(self.pairs[0])

    def _near(self) -> tuple[Tensor, Tensor]:
        bounds, references, start = self.bounds, self.bounds.references, self.start
        own = references.shape_of(self.exact)
        # Nothing can lower a priority of 0, and a weight of 0 is not to be divided by.
        if bounds.by_pick:
            heights, scales = torch.where(start > 0.0, start, -1.0), self.weights
        else:
            heights, scales = start, torch.where(start > 0.0, self.weights, 1.0)
        places = torch.arange(len(self.rows), device=self.rows.device)
        return near_pairs(
            own, own, places, heights, scales, bounds.constants, references.shape.precise,
            self.weights if bounds.by_pick else None,
        )  # fmt: skip

    def board(self, threshold: Threshold, scores: Tensor) -> DeviceBoard:
        """Every priority that a candidate can come to have, as a key; from here on `squared_of` has them back."""
        picks, others, left = self._effects()
        n, device = len(self.rows), self.rows.device
        whose = torch.cat([torch.arange(n, device=device), others])
        values = torch.cat([self.start, left])
        order = in_order(values, whose)
        self.squared = values[order]
        """Ascending: of each key."""
        keys = torch.empty(len(order), dtype=torch.int32, device=device)
        keys[order] = torch.arange(len(order), dtype=torch.int32, device=device)
        bar = self._bar(threshold, self.rows[whose[order]])
        return DeviceBoard(keys[:n], picks, others, keys[n:], scores[self.rows], bar, len(order))

    def _effects(self) -> tuple[Tensor, Tensor, Tensor]:
        """Picks, candidates, and the squared priorities that these picks leave to these candidates, if lower."""
        squared = settle(self.exact, self.exact, self.pairs)
        lefts, rights = (places.long() for places in self.pairs)
        picks, others = torch.cat([lefts, rights]), torch.cat([rights, lefts])
        left = torch.cat([squared, squared]) * self.weights[picks if self.bounds.by_pick else others]
        is_lower = left < self.start[others]
        return picks[is_lower], others[is_lower], left[is_lower]

    def _bar(self, threshold: Threshold, rows: Tensor) -> Tensor:
        """The first key that comes before the threshold; ``rows`` are those of the keys."""
        if threshold.row < 0:
            return torch.full((1,), -1, dtype=torch.int32, device=rows.device)
        is_behind = (self.squared == threshold.value) & (rows >= threshold.row)
        return ((self.squared < threshold.value) | is_behind).sum(dtype=torch.int32).reshape(1)

    def squared_of(self, keys: Tensor) -> Tensor:
        """Squared priorities; -1 where picked."""
        return torch.where(keys >= 0, self.squared[keys.clamp(min=0).long()], -1.0)


def in_order(values: Tensor, candidates: Tensor) -> Tensor:
    """The order by (value, smallest first; candidate, highest first)."""
    by_candidate = torch.sort(candidates, descending=True).indices
    return by_candidate[torch.sort(values[by_candidate], stable=True).indices]
