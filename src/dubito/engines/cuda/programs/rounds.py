"""Triton kernels that make greedy picks in rounds: first all picks that are certain, then their effects.

Greedy picks are ordered by priority (for coverage: by gain), largest first, ties by number, and priorities only
decrease. So a candidate is certain to be picked, at its current priority, once it comes before every candidate that
could lower it. A round picks all certain candidates and then updates the others.

All programs of a launch synchronize between the phases of a round, so that one launch makes all rounds. For this they
must run at the same time, so there are at most as many programs as multiprocessors.
"""

from functools import cache

import torch
import triton
import triton.language as tl

from dubito.engines.cuda.points import Tensor
from dubito.engines.lazy.front import Threshold

ARRIVED = tl.constexpr(0)
"""``control[0]``: the number of arrivals at synchronization points."""


@triton.jit
def synchronize(control, goal):
    """Wait until all programs have arrived; ``goal`` is the total number of arrivals by then."""
    tl.debug_barrier()
    tl.atomic_add(control + ARRIVED, 1, sem="release")
    while tl.atomic_add(control + ARRIVED, 0, sem="acquire") < goal:
        pass
    tl.debug_barrier()


@cache
def multiprocessors(device: torch.device) -> int:
    """The number of multiprocessors; 1 on a CPU, where programs run one after another."""
    return torch.cuda.get_device_properties(device).multi_processor_count if device.type == "cuda" else 1


FLAGS = tl.constexpr(1)
"""``control[1:4]``: whether a round changed anything. Rounds use the three flags in turn; the next one is cleared."""
CONTROLS = 4


# Core-sets: a front of candidates, of which a pick lowers the priorities of its near neighbors.

PAIRS = 1024


@triton.jit
def _effects(pairs, lefts, rights, squared, weights, priorities, picked, n_pairs, BY_PICK: tl.constexpr):
    """For each pair: the positions, the priorities after picking the other one, whether these are lower, and whether
    each is picked.
    """
    is_pair = pairs < n_pairs
    left = tl.load(lefts + pairs, mask=is_pair, other=0)
    right = tl.load(rights + pairs, mask=is_pair, other=0)
    distance = tl.load(squared + pairs, mask=is_pair, other=float("inf"))
    left_weight, right_weight = tl.load(weights + left), tl.load(weights + right)
    if BY_PICK:
        to_left, to_right = distance * right_weight, distance * left_weight
    else:
        to_left, to_right = distance * left_weight, distance * right_weight
    left_priority = tl.load(priorities + left, volatile=True)
    right_priority = tl.load(priorities + right, volatile=True)
    is_left_first = (left_priority > right_priority) | ((left_priority == right_priority) & (left < right))
    left_picked = tl.load(picked + left, volatile=True) > 0
    right_picked = tl.load(picked + right, volatile=True) > 0
    lowers_right = is_pair & is_left_first & (right_picked == 0) & (to_right < right_priority)
    lowers_left = is_pair & (is_left_first == 0) & (left_picked == 0) & (to_left < left_priority)
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
        synchronize(control, goal)
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
        synchronize(control, goal)
        start = first
        while start < n_rows:
            positions = start + tl.arange(0, BLOCK)
            is_row = positions < n_rows
            priority = tl.load(priorities + positions, mask=is_row, other=-1.0, volatile=True)
            number = tl.load(rows + positions, mask=is_row, other=0)
            is_free = tl.load(picked + positions, mask=is_row, other=1, volatile=True) == 0
            is_free = is_free & (tl.load(blocked + positions, mask=is_row, other=turn, volatile=True) != turn)
            is_first = (priority > level) | ((priority == level) & (number < threshold_row))
            is_certain = is_free & is_first & (priority > 0.0)
            tl.store(picked + positions, 1, mask=is_certain)
            if tl.sum(is_certain.to(tl.int32)) > 0:
                tl.store(flag, 1)
            start += step
        goal += n_programs
        synchronize(control, goal)
        going = tl.load(flag, volatile=True)


def decide(
    pairs: tuple[Tensor, Tensor], squared: Tensor, weights: Tensor, rows: Tensor, threshold: Threshold,
    priorities: Tensor, *, by_pick: bool,
) -> Tensor:  # fmt: skip
    """(K,) which candidates of a front are picked before the threshold; lowers ``priorities`` (K,) by the picks.

    ``pairs`` are positions in the front, ``squared`` their squared distances.
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


# Coverage: a pick lowers the gains of the candidates that cover the same rows. Sums are added in the reference's order.

COVER_PAIRS, COVER_WARPS = 2048, 16
"""Number of pairs that one program processes at a time, and its warps: many, since each mostly waits for memory."""
COVER_SUMS = 128
"""Number of candidates whose terms one program adds at a time."""
NO_OWNER = tl.constexpr(2**31 - 1)
N_TERMS = tl.constexpr(8)
"""Number of terms of a candidate in a tile. Four tiles are read at a time."""


@triton.jit
def _pair(pairs, owners, rows, kernels, cover, gains, picked, level, level_owner, n_pairs):
    """For each pair: owner, row, kernel, the owner's gain, and whether the owner may be picked and adds cover."""
    is_pair = pairs < n_pairs
    owner = tl.load(owners + pairs, mask=is_pair, other=0)
    row = tl.load(rows + pairs, mask=is_pair, other=0)
    kernel = tl.load(kernels + pairs, mask=is_pair, other=0.0)
    current = tl.load(cover + row, mask=is_pair, other=2.0, volatile=True)
    gain = tl.load(gains + owner, mask=is_pair, other=-1.0, volatile=True)
    is_free = tl.load(picked + owner, mask=is_pair, other=1, volatile=True) == 0
    is_first = (gain > level) | ((gain == level) & (owner < level_owner))
    return owner, row, kernel, gain, is_pair & is_free & is_first & (kernel > current)


@triton.jit
def _columns(tile, LANES: tl.constexpr):
    """The eight columns of a tile."""
    even, odd = tl.split(tl.reshape(tile, (LANES, 4, 2)))
    even_0, even_2 = tl.split(tl.reshape(even, (LANES, 2, 2)))
    odd_1, odd_3 = tl.split(tl.reshape(odd, (LANES, 2, 2)))
    c0, c4 = tl.split(even_0)
    c2, c6 = tl.split(even_2)
    c1, c5 = tl.split(odd_1)
    c3, c7 = tl.split(odd_3)
    return c0, c1, c2, c3, c4, c5, c6, c7


@triton.jit
def _tile(terms, begin, n_terms, done):
    """The next terms of each owner; 0 after the last."""
    position = done + tl.arange(0, N_TERMS)
    is_term = position[None, :] < n_terms[:, None]
    return tl.load(terms + begin[:, None] + position[None, :], mask=is_term, other=0.0, volatile=True)


@triton.jit
def _add(total, tile, LANES: tl.constexpr):
    """Add the terms of a tile one after another."""
    c0, c1, c2, c3, c4, c5, c6, c7 = _columns(tile, LANES)
    total = total + c0
    total = total + c1
    total = total + c2
    total = total + c3
    total = total + c4
    total = total + c5
    total = total + c6
    return total + c7


@triton.jit
def _sums(owner, is_wanted, starts, terms, LANES: tl.constexpr):
    """The sums of the terms of each owner, added one after another."""
    begin = tl.load(starts + owner, mask=is_wanted, other=0)
    n_terms = tl.load(starts + owner + 1, mask=is_wanted, other=0) - begin
    total = tl.zeros((LANES,), tl.float64)
    most, done = tl.max(n_terms), 0
    while done < most:
        first = _tile(terms, begin, n_terms, done)
        second = _tile(terms, begin, n_terms, done + N_TERMS)
        third = _tile(terms, begin, n_terms, done + 2 * N_TERMS)
        fourth = _tile(terms, begin, n_terms, done + 3 * N_TERMS)
        total = _add(_add(_add(_add(total, first, LANES), second, LANES), third, LANES), fourth, LANES)
        done += 4 * N_TERMS
    return total


@triton.jit(do_not_specialize=["level_owner", "n_pairs", "n_owners", "n_rows"])
def _cover(
    starts, owners, rows, kernels, terms, weights, cover, gains, picked, best, first, blocked, touched, dirty,
    level_at, level_owner, control, n_pairs, n_owners, n_rows, BLOCK: tl.constexpr, LANES: tl.constexpr,
):  # fmt: skip
    n_programs, here = tl.num_programs(0), tl.program_id(0)
    turn, goal, going = 0, 0, 1
    level = tl.load(level_at)
    while going > 0:
        turn += 1
        flag = control + FLAGS + turn % 3
        tl.store(control + FLAGS + (turn + 1) % 3, 0)
        start = here * BLOCK
        while start < n_pairs:
            _, row, _, gain, is_live = _pair(
                start + tl.arange(0, BLOCK), owners, rows, kernels, cover, gains, picked, level, level_owner, n_pairs
            )
            tl.atomic_max(best + row, gain, mask=is_live)
            start += n_programs * BLOCK
        goal += n_programs
        synchronize(control, goal)
        start = here * BLOCK
        while start < n_pairs:
            owner, row, _, gain, is_live = _pair(
                start + tl.arange(0, BLOCK), owners, rows, kernels, cover, gains, picked, level, level_owner, n_pairs
            )
            is_best = is_live & (tl.load(best + row, mask=is_live, other=-1.0, volatile=True) == gain)
            tl.atomic_min(first + row, owner, mask=is_best)
            start += n_programs * BLOCK
        goal += n_programs
        synchronize(control, goal)
        start = here * BLOCK
        while start < n_pairs:
            owner, row, _, gain, is_live = _pair(
                start + tl.arange(0, BLOCK), owners, rows, kernels, cover, gains, picked, level, level_owner, n_pairs
            )
            is_late = is_live & (tl.load(first + row, mask=is_live, other=0, volatile=True) != owner)
            tl.store(blocked + owner, turn, mask=is_late)
            start += n_programs * BLOCK
        goal += n_programs
        synchronize(control, goal)
        start = here * BLOCK
        while start < n_owners:
            owner = start + tl.arange(0, BLOCK)
            is_owner = owner < n_owners
            gain = tl.load(gains + owner, mask=is_owner, other=-1.0, volatile=True)
            is_free = tl.load(picked + owner, mask=is_owner, other=1, volatile=True) == 0
            is_free = is_free & (tl.load(blocked + owner, mask=is_owner, other=turn, volatile=True) != turn)
            is_first = (gain > level) | ((gain == level) & (owner < level_owner))
            is_certain = is_free & is_first & (gain > 0.0)
            tl.store(picked + owner, turn, mask=is_certain)
            if tl.sum(is_certain.to(tl.int32)) > 0:
                tl.store(flag, 1)
            start += n_programs * BLOCK
        start = here * BLOCK
        while start < n_rows:
            row = start + tl.arange(0, BLOCK)
            tl.store(best + row, -1.0, mask=row < n_rows)
            tl.store(first + row, NO_OWNER, mask=row < n_rows)
            start += n_programs * BLOCK
        goal += n_programs
        synchronize(control, goal)
        going = tl.load(flag, volatile=True)
        start = here * BLOCK
        while start < n_pairs:
            pairs = start + tl.arange(0, BLOCK)
            is_pair = pairs < n_pairs
            owner = tl.load(owners + pairs, mask=is_pair, other=0)
            is_new = is_pair & (tl.load(picked + owner, mask=is_pair, other=0, volatile=True) == turn)
            row = tl.load(rows + pairs, mask=is_new, other=0)
            kernel = tl.load(kernels + pairs, mask=is_new, other=0.0)
            is_more = is_new & (kernel > tl.load(cover + row, mask=is_new, other=2.0, volatile=True))
            tl.atomic_max(cover + row, kernel, mask=is_more)
            tl.store(touched + row, turn, mask=is_more)
            start += n_programs * BLOCK
        goal += n_programs
        synchronize(control, goal)
        start = here * BLOCK
        while start < n_pairs:
            pairs = start + tl.arange(0, BLOCK)
            is_pair = pairs < n_pairs
            row = tl.load(rows + pairs, mask=is_pair, other=0)
            is_due = is_pair & (tl.load(touched + row, mask=is_pair, other=0, volatile=True) == turn)
            owner = tl.load(owners + pairs, mask=is_due, other=0)
            kernel = tl.load(kernels + pairs, mask=is_due, other=0.0)
            above = tl.maximum(kernel - tl.load(cover + row, mask=is_due, other=2.0, volatile=True), 0.0)
            term = above * tl.load(weights + row, mask=is_due, other=0.0)
            tl.store(terms + pairs, term, mask=is_due)
            tl.store(dirty + owner, turn, mask=is_due)
            start += n_programs * BLOCK
        goal += n_programs
        synchronize(control, goal)
        start = here * LANES
        while start < n_owners:
            owner = start + tl.arange(0, LANES)
            is_owner = owner < n_owners
            is_due = is_owner & (tl.load(dirty + owner, mask=is_owner, other=0, volatile=True) == turn)
            is_due = is_due & (tl.load(picked + owner, mask=is_owner, other=1, volatile=True) == 0)
            if tl.sum(is_due.to(tl.int32)) > 0:
                tl.store(gains + owner, _sums(owner, is_due, starts, terms, LANES), mask=is_due)
            start += n_programs * LANES
        goal += n_programs
        synchronize(control, goal)


@triton.jit(do_not_specialize=["n_owners"])
def _add_terms(starts, terms, gains, n_owners, LANES: tl.constexpr):
    owner = tl.program_id(0) * LANES + tl.arange(0, LANES)
    is_owner = owner < n_owners
    tl.store(gains + owner, _sums(owner, is_owner, starts, terms, LANES), mask=is_owner)


def add_terms(starts: Tensor, terms: Tensor) -> Tensor:
    """(c,) sums of the terms of each owner, which start at ``starts[c]``, added one after another."""
    gains = torch.zeros(len(starts) - 1, dtype=torch.float64, device=terms.device)
    if len(gains):
        _add_terms[(triton.cdiv(len(gains), COVER_SUMS),)](
            starts, terms, gains, len(gains), COVER_SUMS, enable_fp_fusion=False
        )
    return gains


def cover_rounds(
    starts: Tensor, owners: Tensor, rows: Tensor, kernels: Tensor, terms: Tensor, weights: Tensor, cover: Tensor,
    gains: Tensor, threshold: Threshold,
) -> Tensor:  # fmt: skip
    """(c,) whether each candidate is picked, with all picks made that come before the threshold.

    Pairs are sorted by owner and then by row. ``cover``, ``terms`` and ``gains`` are updated; the gains of picks are
    those when they were picked.
    """
    n_owners, n_rows, device = len(gains), len(cover), cover.device
    # The last round in which each candidate was picked, was blocked, or its gain changed; 0 if there was none.
    picked, blocked, dirty = torch.zeros((3, n_owners), dtype=torch.int32, device=device)
    touched = torch.zeros(n_rows, dtype=torch.int32, device=device)
    first = torch.full((n_rows,), NO_OWNER.value, dtype=torch.int32, device=device)
    best = torch.full((n_rows,), -1.0, dtype=torch.float64, device=device)
    n_programs = min(multiprocessors(device), triton.cdiv(max(len(owners), n_owners, 1), COVER_PAIRS))
    control = torch.zeros(CONTROLS, dtype=torch.int32, device=device)
    level = torch.full((1,), threshold.value, dtype=torch.float64, device=device)
    _cover[(n_programs,)](
        starts, owners, rows, kernels, terms, weights, cover, gains, picked, best, first, blocked, touched, dirty,
        level, threshold.row, control, len(owners), n_owners, n_rows, COVER_PAIRS, COVER_SUMS,
        enable_fp_fusion=False, num_warps=COVER_WARPS,
    )  # fmt: skip
    return picked > 0
