"""Steps of a beam inside a front: the tables that programs share, and the launch that makes the steps."""

from typing import NamedTuple

import torch
import triton

from dubito.engines.cuda.board import DeviceBoard, StepsTaken
from dubito.engines.cuda.points import Tensor
from dubito.engines.cuda.programs.grid import multiprocessors
from dubito.engines.cuda.programs.steps import ALIVE, CONTROLS, STEPS_MADE, make_steps, start_rows

CHILDREN = 512
"""Children looked through at a time."""
STEP_WARPS = 8
LEAST = -(2**62)
"""Below what every child is worth."""


class Tables(NamedTuple):
    """What the programs of `dubito.engines.cuda.programs.steps` share, in the order they take it.

    W is the width, and children its square, filled up to powers of two. Where there are two of a table, the one is as
    the last step left it and the other is being made.
    """

    keys: Tensor
    """(2, width, columns) int32 of each configuration; -1 where it picked."""
    lowered: Tensor
    """(n, columns) int32, of the board."""
    gains: Tensor
    """(columns,) int64, of the board, and 0 beyond it."""
    totals: Tensor
    """(2, width) int64 scores of the configurations."""
    apart: Tensor
    """(2, W, W) int32 how many picks of the one the other lacks."""
    odd: Tensor
    """(2, W, W) int32 the sum of their places: where there is one such pick, its place."""
    short: Tensor
    """(width, 2·W) int64 a configuration's highest candidates: key, then place."""
    short_gains: Tensor
    """(width, 2·W) int64 scores of these."""
    proposals: Tensor
    """(children + W,) int32 the place that each child would pick; the last configuration reads W of them, too."""
    worth: Tensor
    """(children + W,) int64 what children are ranked by; negative where there is none."""
    twins: Tensor
    """(W, W) int32 what a later configuration must not pick, lest it be the same set; -1 where it may."""
    order: Tensor
    """(children,) int32 children by rank: child, then place, then a bit that is 1 where it does not live on."""
    parents: Tensor
    """(limit, width) int32, of `StepsTaken`."""
    picks: Tensor
    """(limit, width) int32, of `StepsTaken`."""
    heights: Tensor
    """(limit, width) int32, of `StepsTaken`."""
    bar: Tensor
    """(1,) int32, of the board."""
    control: Tensor
    """(4,) int32 by which programs meet, stop and say what came of it."""


def run_steps(
    board: DeviceBoard, own: Tensor, is_held: Tensor, totals: Tensor, width: int, limit: int, n_columns: int
) -> StepsTaken:
    """Step at most ``limit`` times, while all proposals of all configurations come before what is outside.

    ``own`` (u,) are places that some configurations picked before, ``is_held`` (configurations, u) says which did,
    and ``totals`` are their scores, small enough to be multiplied by the number of children. ``n_columns`` has room for
    the board: a power of two, from twice that of the width to `PLACES`.
    """
    n, n_live, n_slots = len(board.start), len(totals), triton.next_power_of_2(width)
    n_children = max(triton.next_power_of_2(width * width), 2 * n_slots)
    tables = _lay_out(board, width, limit, n_slots, n_columns, n_children)
    start = torch.nn.functional.pad(board.start, (0, n_columns - n), value=-1)
    start_rows[(n_live,)](tables.keys, tables.lowered, start, own, is_held.int(), len(own), n_columns)
    tables.totals[0, :n_live] = totals
    only = is_held[:, None] & ~is_held[None]
    tables.apart[0, :n_live, :n_live] = only.sum(dim=2)
    tables.odd[0, :n_live, :n_live] = (only * own).sum(dim=2)
    make_steps[(min(width, multiprocessors(totals.device)),)](
        *tables, width, n_live, limit,
        n_slots, n_columns, n_children, min(CHILDREN, n_children), num_warps=STEP_WARPS,
    )  # fmt: skip
    control = tables.control.tolist()
    made, n_live = control[STEPS_MADE.value], control[ALIVE.value]
    last = made % 2
    return StepsTaken(
        tables.keys[last, :n_live, :n],
        tables.totals[last, :n_live],
        tables.parents[:made],
        tables.picks[:made],
        tables.heights[:made],
    )


def _lay_out(board: DeviceBoard, width: int, limit: int, n_slots: int, n_columns: int, n_children: int) -> Tables:
    """Tables as they are before the first step, but for what the configurations bring."""

    # One by one, since a kernel is compiled anew for an address that is not aligned.
    def full(*shape: int, value: int = 0, dtype: Tensor = torch.int32) -> Tensor:
        return torch.full(shape, value, dtype=dtype, device=board.start.device)

    return Tables(
        keys=full(2, width, n_columns),
        lowered=board.lowered(n_columns),
        gains=torch.nn.functional.pad(board.gains, (0, n_columns - len(board.gains))),
        totals=full(2, width, dtype=torch.int64),
        apart=full(2, n_slots, n_slots),
        odd=full(2, n_slots, n_slots),
        short=full(width, 2 * n_slots, dtype=torch.int64),
        short_gains=full(width, 2 * n_slots, dtype=torch.int64),
        proposals=full(n_children + n_slots),
        worth=full(n_children + n_slots, value=LEAST, dtype=torch.int64),
        twins=full(n_slots, n_slots, value=-1),
        order=full(n_children, value=1),
        parents=full(limit, width),
        picks=full(limit, width),
        heights=full(limit, width),
        bar=board.bar,
        control=full(CONTROLS),
    )
