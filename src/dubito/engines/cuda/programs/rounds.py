"""The Triton kernel that decides a front in rounds: all picks that are certain at once, then what they lower.

Its programs wait for each other, so that one launch goes through all rounds of a front.
"""

import torch
import triton
import triton.language as tl

from dubito.engines.cuda.points import Tensor
from dubito.engines.cuda.programs.grid import meet, multiprocessors
from dubito.engines.lazy.front import Threshold

PAIRS = 1024
FLAGS = tl.constexpr(1)
"""Where in ``control`` it stands whether a round got on: in turn one of three numbers, as the next is being cleared."""
CONTROLS = 4


@triton.jit
def _effects(pairs, lefts, rights, squared, weights, priorities, picked, n_pairs, BY_PICK: tl.constexpr):
    """Of each pair: places, priorities, whether picked, and what picking the one leaves to the other, now."""
    is_pair = pairs < n_pairs
    left = tl.load(lefts + pairs, mask=is_pair, other=0)
    right = tl.load(rights + pairs, mask=is_pair, other=0)
    distance = tl.load(squared + pairs, mask=is_pair, other=float("inf"))
    left_weight, right_weight = tl.load(weights + left), tl.load(weights + right)
    if BY_PICK:
        to_left, to_right = distance * right_weight, distance * left_weight
    else:
        to_left, to_right = distance * left_weight, distance * right_weight
    left_height = tl.load(priorities + left, volatile=True)
    right_height = tl.load(priorities + right, volatile=True)
    is_left_first = (left_height > right_height) | ((left_height == right_height) & (left < right))
    left_picked = tl.load(picked + left, volatile=True) > 0
    right_picked = tl.load(picked + right, volatile=True) > 0
    lowers_right = is_pair & is_left_first & (right_picked == 0) & (to_right < right_height)
    lowers_left = is_pair & (is_left_first == 0) & (left_picked == 0) & (to_left < left_height)
    return left, right, to_left, to_right, lowers_left, lowers_right, left_picked, right_picked


@triton.jit(do_not_specialize=["threshold_row", "n_pairs", "n_rows"])
def _rounds(
    lefts, rights, squared, weights, rows, threshold, threshold_row, priorities, picked, blocked, control,
    n_pairs, n_rows, BY_PICK: tl.constexpr, BLOCK: tl.constexpr,
):  # fmt: skip
    n_programs, first = tl.num_programs(0), tl.program_id(0) * BLOCK
    step, goal, turn, going = n_programs * BLOCK, 0, 0, 1
    level = tl.load(threshold)
    while going > 0:
        turn += 1
        flag = control + FLAGS + turn % 3
        tl.store(control + FLAGS + (turn + 1) % 3, 0)
        start = first
        while start < n_pairs:
            left, right, to_left, to_right, lowers_left, lowers_right, left_picked, right_picked = _effects(
                start + tl.arange(0, BLOCK), lefts, rights, squared, weights, priorities, picked, n_pairs, BY_PICK
            )
            tl.atomic_min(priorities + right, to_right, mask=lowers_right & left_picked)
            tl.atomic_min(priorities + left, to_left, mask=lowers_left & right_picked)
            start += step
        goal += n_programs
        meet(control, goal)
        start = first
        while start < n_pairs:
            left, right, to_left, to_right, lowers_left, lowers_right, left_picked, right_picked = _effects(
                start + tl.arange(0, BLOCK), lefts, rights, squared, weights, priorities, picked, n_pairs, BY_PICK
            )
            tl.store(blocked + right, turn, mask=lowers_right)
            tl.store(blocked + left, turn, mask=lowers_left)
            is_pending = (lowers_right & left_picked) | (lowers_left & right_picked)
            if tl.sum(is_pending.to(tl.int32)) > 0:
                tl.store(flag, 1)
            start += step
        goal += n_programs
        meet(control, goal)
        start = first
        while start < n_rows:
            places = start + tl.arange(0, BLOCK)
            is_row = places < n_rows
            height = tl.load(priorities + places, mask=is_row, other=-1.0, volatile=True)
            number = tl.load(rows + places, mask=is_row, other=0)
            is_free = tl.load(picked + places, mask=is_row, other=1, volatile=True) == 0
            is_free = is_free & (tl.load(blocked + places, mask=is_row, other=turn, volatile=True) != turn)
            is_first = (height > level) | ((height == level) & (number < threshold_row))
            is_certain = is_free & is_first & (height > 0.0)
            tl.store(picked + places, 1, mask=is_certain)
            if tl.sum(is_certain.to(tl.int32)) > 0:
                tl.store(flag, 1)
            start += step
        goal += n_programs
        meet(control, goal)
        going = tl.load(flag, volatile=True)


def decide(
    pairs: tuple[Tensor, Tensor], squared: Tensor, weights: Tensor, rows: Tensor, threshold: Threshold,
    priorities: Tensor, *, by_pick: bool,
) -> Tensor:  # fmt: skip
    """(K,) which candidates of a front are picked before the threshold; lowers ``priorities`` (K,) by the picks.

    ``pairs`` are places in the front, ``squared`` their squared distances. All programs must run at once, so there are
    no more of them than multiprocessors.
    """
    lefts, rights = pairs
    n_programs = min(multiprocessors(rows.device), triton.cdiv(max(len(lefts), len(rows)), PAIRS))
    picked, blocked = torch.zeros((2, len(rows)), dtype=torch.int32, device=rows.device)
    control = torch.zeros(CONTROLS, dtype=torch.int32, device=rows.device)
    level = torch.full((1,), threshold.value, dtype=torch.float64, device=rows.device)
    _rounds[(n_programs,)](
        lefts, rights, squared, weights, rows, level, threshold.row, priorities, picked, blocked, control,
        len(lefts), len(rows), by_pick, PAIRS, enable_fp_fusion=False, num_warps=8,
    )  # fmt: skip
    return picked > 0
