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
    """A front as configurations see it. ``columns`` is a power of two, from 2·W to 4096; those beyond it hold -1."""

    start: Tensor
    """(columns,) int32 keys before a configuration's own picks."""
    lowered: Tensor
    """(K, columns) int32 keys that a pick leaves to each candidate; `NEVER` where it leaves it alone."""
    gains: Tensor
    """(columns,) int64 scores."""
    bar: Tensor
    """(1,) int32 keys from here on come before everything outside; -1 where nothing is outside."""


class DeviceFront:
    """Candidates ascending by number, with exact priorities, and the keys that stand for them."""

    def __init__(
        self, bounds: DeviceBounds, rows: Tensor, threshold: Threshold, scores: Tensor, n_columns: int
    ) -> None:
        self.bounds, self.rows = bounds, rows
        start = bounds.value[rows]
        picks, candidates, left = self._effects(start)
        whose = torch.cat([torch.arange(len(rows), device=rows.device), candidates])
        order = in_order(torch.cat([start, left]), whose)
        self.squared = torch.cat([start, left])[order]
        """Ascending: of each key."""
        keys = torch.empty(len(order), dtype=torch.int32, device=rows.device)
        keys[order] = torch.arange(len(order), dtype=torch.int32, device=rows.device)
        lowered = torch.full((len(rows), n_columns), NEVER, dtype=torch.int32, device=rows.device)
        lowered.view(-1)[picks * n_columns + candidates] = keys[len(rows) :]
        first = torch.full((n_columns,), -1, dtype=torch.int32, device=rows.device)
        first[: len(rows)] = keys[: len(rows)]
        gains = torch.zeros(n_columns, dtype=torch.int64, device=rows.device)
        gains[: len(rows)] = scores[rows]
        bar = self._bar(threshold, rows[whose[order]])
        self.board = DeviceBoard(first, lowered, gains, bar)

    def _effects(self, start: Tensor) -> tuple[Tensor, Tensor, Tensor]:
        """Picks, candidates, and the squared priorities that these picks leave to these candidates, if lower."""
        bounds, references = self.bounds, self.bounds.references
        exact = references.widen(bounds.exact(self.rows))
        own, weights = references.shape_of(exact), bounds.weights[self.rows]
        # Nothing can lower a priority of 0, and a weight of 0 is not to be divided by.
        if bounds.by_pick:
            heights, scales = torch.where(start > 0.0, start, -1.0), weights
        else:
            heights, scales = start, torch.where(start > 0.0, weights, 1.0)
        places = torch.arange(len(self.rows), device=self.rows.device)
        pairs = near_pairs(
            own, own, places, heights, scales, bounds.constants, references.shape.precise,
            weights if bounds.by_pick else None,
        )  # fmt: skip
        squared = settle(exact, exact, pairs)
        lefts, rights = (places.long() for places in pairs)
        picks, candidates = torch.cat([lefts, rights]), torch.cat([rights, lefts])
        left = torch.cat([squared, squared]) * weights[picks if bounds.by_pick else candidates]
        is_lower = left < start[candidates]
        return picks[is_lower], candidates[is_lower], left[is_lower]

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
