"""A front of a beam on a device: exact priorities turned into keys, which one kernel steps on."""

from dataclasses import dataclass

import torch
import triton

from dubito.engines.cuda.bounds import DeviceBounds
from dubito.engines.cuda.points import Tensor
from dubito.engines.cuda.programs.pairs import near_pairs, settle
from dubito.engines.cuda.programs.rounds import multiprocessors
from dubito.engines.cuda.programs.steps import make_steps, start_rows
from dubito.engines.lazy.front import Threshold

CHILDREN = 512
"""Children looked through at a time."""
STEP_WARPS = 8
LEAST = -(2**62)
"""Below what every child is worth."""
NEVER = 2**31 - 1
"""A key above all: a pick that leaves a candidate alone."""


@dataclass(frozen=True, slots=True)
class Board:
    """A front as configurations see it. ``columns`` is a power of two, from 2·W to 4096; those beyond it hold -1."""

    start: Tensor
    """(columns,) int32 keys before a configuration's own picks."""
    lowered: Tensor
    """(K, columns) int32 keys that a pick leaves to each candidate; `NEVER` where it leaves it alone."""
    gains: Tensor
    """(columns,) int64 scores."""
    bar: Tensor
    """(1,) int32 keys from here on come before everything outside; -1 where nothing is outside."""


class BeamFront:
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
        self.board = Board(first, lowered, gains, bar)

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


@dataclass(frozen=True, slots=True)
class Steps:
    """What came of a front: configurations (w, columns) as rows of keys, their scores, and each step's picks."""

    keys: Tensor
    totals: Tensor
    parents: Tensor
    """(steps, w) ranks, one step before."""
    picks: Tensor
    """(steps, w) places in the front."""
    heights: Tensor
    """(steps, w) keys of the picks when picked."""


def run_steps(board: Board, own: Tensor, is_held: Tensor, totals: Tensor, width: int, limit: int) -> Steps:
    """Step at most ``limit`` times, while all proposals of all configurations come before what is outside.

    ``own`` (u,) are places that some configurations picked before, ``is_held`` (configurations, u) says which did,
    and ``totals`` are their scores, small enough to be multiplied by the number of children.
    """
    device, n_live, n_columns, n_slots = totals.device, len(totals), len(board.start), triton.next_power_of_2(width)

    # One by one, since a kernel is compiled anew for an address that is not aligned.
    def zeros(*shape: int, dtype: Tensor = torch.int32) -> Tensor:
        return torch.zeros(shape, dtype=dtype, device=device)

    keys, scores = zeros(2, width, n_columns), zeros(2, width, dtype=torch.int64)
    start_rows[(n_live,)](keys, board.lowered, board.start, own, is_held.int(), len(own), n_columns)
    scores[0, :n_live] = totals
    apart, odd = zeros(2, n_slots, n_slots), zeros(2, n_slots, n_slots)
    only = is_held[:, None] & ~is_held[None]
    apart[0, :n_live, :n_live] = only.sum(dim=2)
    odd[0, :n_live, :n_live] = (only * own).sum(dim=2)
    short, short_gains = (zeros(width, 2 * n_slots, dtype=torch.int64) for _ in range(2))
    n_children = max(triton.next_power_of_2(width * width), 2 * n_slots)
    # The last configuration reads W children, too.
    worth = zeros(n_children + n_slots, dtype=torch.int64).fill_(LEAST)
    proposals, order = zeros(n_children + n_slots), zeros(n_children).fill_(1)
    twins, control = zeros(n_slots, n_slots).fill_(-1), zeros(4)
    parents, picks, heights = zeros(limit, width), zeros(limit, width), zeros(limit, width)
    make_steps[(min(width, multiprocessors(device)),)](
        keys, board.lowered, board.gains, scores, apart, odd, short, short_gains, proposals, worth, twins, order,
        parents, picks, heights, board.bar, control, width, n_live, limit,
        n_slots, n_columns, n_children, min(CHILDREN, n_children), num_warps=STEP_WARPS,
    )  # fmt: skip
    _, _, made, n_live = control.tolist()
    last = made % 2
    return Steps(keys[last, :n_live], scores[last, :n_live], parents[:made], picks[:made], heights[:made])
