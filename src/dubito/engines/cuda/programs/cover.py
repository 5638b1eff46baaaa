"""The Triton program that covers: rounds of picks that cannot touch each other, by exact sums.

Greedy picks are ordered by what they add, largest first, ties by number, since a gain only falls. So a candidate is
certain to be picked, at the gain it has, once at every row where it still adds something it comes before all others
that do. All that are certain are picked at once; then the rows they cover, and the gains of those that shared them,
are brought up to date. Sums add one term after another, as the reference does.
"""

import torch
import triton
import triton.language as tl

from dubito.engines.cuda.points import Tensor
from dubito.engines.cuda.programs.grid import meet, multiprocessors
from dubito.engines.lazy.front import Threshold

COVER_PAIRS = 1024
COVER_SUMS = 128
"""Candidates whose terms one program adds at a time."""
FLAGS = tl.constexpr(1)
"""Where in ``control`` it stands whether a round got on: in turn one of three numbers, as the next is being cleared."""
CONTROLS = 5
LAST_TURN = tl.constexpr(4)
"""Where in ``control`` the number of the last turn is left."""
NOBODY = tl.constexpr(2**31 - 1)
TOGETHER = tl.constexpr(8)
"""Terms of a candidate that are read at once."""


@triton.jit
def _pair(places, owners, rows, kernels, cover, gains, picked, level, level_owner, n_pairs):
    """Of each pair: owner, row, kernel, the owner's gain, and whether it adds something and is in the running."""
    is_pair = places < n_pairs
    owner = tl.load(owners + places, mask=is_pair, other=0)
    row = tl.load(rows + places, mask=is_pair, other=0)
    kernel = tl.load(kernels + places, mask=is_pair, other=0.0)
    there = tl.load(cover + row, mask=is_pair, other=2.0, volatile=True)
    gain = tl.load(gains + owner, mask=is_pair, other=-1.0, volatile=True)
    is_free = tl.load(picked + owner, mask=is_pair, other=1, volatile=True) == 0
    is_first = (gain > level) | ((gain == level) & (owner < level_owner))
    return owner, row, kernel, gain, is_pair & is_free & is_first & (kernel > there)


@triton.jit
def _columns(tile, LANES: tl.constexpr):
    """The eight columns of a tile, apart."""
    even, odd = tl.split(tl.reshape(tile, (LANES, 4, 2)))
    even_0, even_2 = tl.split(tl.reshape(even, (LANES, 2, 2)))
    odd_1, odd_3 = tl.split(tl.reshape(odd, (LANES, 2, 2)))
    c0, c4 = tl.split(even_0)
    c2, c6 = tl.split(even_2)
    c1, c5 = tl.split(odd_1)
    c3, c7 = tl.split(odd_3)
    return c0, c1, c2, c3, c4, c5, c6, c7


@triton.jit
def _sums(owner, is_wanted, starts, terms, LANES: tl.constexpr):
    """The terms of each owner, added one after another."""
    begin = tl.load(starts + owner, mask=is_wanted, other=0)
    n_terms = tl.load(starts + owner + 1, mask=is_wanted, other=0) - begin
    total = tl.zeros((LANES,), tl.float64)
    most, done = tl.max(n_terms), 0
    while done < most:
        place = done + tl.arange(0, TOGETHER)
        is_term = place[None, :] < n_terms[:, None]
        tile = tl.load(terms + begin[:, None] + place[None, :], mask=is_term, other=0.0, volatile=True)
        c0, c1, c2, c3, c4, c5, c6, c7 = _columns(tile, LANES)
        total = total + c0
        total = total + c1
        total = total + c2
        total = total + c3
        total = total + c4
        total = total + c5
        total = total + c6
        total = total + c7
        done += TOGETHER
    return total


@triton.jit(do_not_specialize=["level_owner", "n_pairs", "n_owners", "n_rows", "turn"])
def _cover(
    starts, owners, rows, kernels, terms, weights, cover, gains, picked, best, first, blocked, touched, dirty,
    level_at, level_owner, control, turn, n_pairs, n_owners, n_rows, BLOCK: tl.constexpr, LANES: tl.constexpr,
):  # fmt: skip
    n_programs, here = tl.num_programs(0), tl.program_id(0)
    goal, going = 0, 1
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
        meet(control, goal)
        start = here * BLOCK
        while start < n_pairs:
            owner, row, _, gain, is_live = _pair(
                start + tl.arange(0, BLOCK), owners, rows, kernels, cover, gains, picked, level, level_owner, n_pairs
            )
            is_best = is_live & (tl.load(best + row, mask=is_live, other=-1.0, volatile=True) == gain)
            tl.atomic_min(first + row, owner, mask=is_best)
            start += n_programs * BLOCK
        goal += n_programs
        meet(control, goal)
        start = here * BLOCK
        while start < n_pairs:
            owner, row, _, gain, is_live = _pair(
                start + tl.arange(0, BLOCK), owners, rows, kernels, cover, gains, picked, level, level_owner, n_pairs
            )
            is_late = is_live & (tl.load(first + row, mask=is_live, other=0, volatile=True) != owner)
            tl.store(blocked + owner, turn, mask=is_late)
            start += n_programs * BLOCK
        goal += n_programs
        meet(control, goal)
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
            tl.store(first + row, NOBODY, mask=row < n_rows)
            start += n_programs * BLOCK
        goal += n_programs
        meet(control, goal)
        going = tl.load(flag, volatile=True)
        start = here * BLOCK
        while start < n_pairs:
            places = start + tl.arange(0, BLOCK)
            is_pair = places < n_pairs
            owner = tl.load(owners + places, mask=is_pair, other=0)
            is_new = is_pair & (tl.load(picked + owner, mask=is_pair, other=0, volatile=True) == turn)
            row = tl.load(rows + places, mask=is_new, other=0)
            kernel = tl.load(kernels + places, mask=is_new, other=0.0)
            is_more = is_new & (kernel > tl.load(cover + row, mask=is_new, other=2.0, volatile=True))
            tl.atomic_max(cover + row, kernel, mask=is_more)
            tl.store(touched + row, turn, mask=is_more)
            start += n_programs * BLOCK
        goal += n_programs
        meet(control, goal)
        start = here * BLOCK
        while start < n_pairs:
            places = start + tl.arange(0, BLOCK)
            is_pair = places < n_pairs
            row = tl.load(rows + places, mask=is_pair, other=0)
            is_due = is_pair & (tl.load(touched + row, mask=is_pair, other=0, volatile=True) == turn)
            owner = tl.load(owners + places, mask=is_due, other=0)
            kernel = tl.load(kernels + places, mask=is_due, other=0.0)
            above = tl.maximum(kernel - tl.load(cover + row, mask=is_due, other=2.0, volatile=True), 0.0)
            term = above * tl.load(weights + row, mask=is_due, other=0.0)
            tl.store(terms + places, term, mask=is_due)
            tl.store(dirty + owner, turn, mask=is_due)
            start += n_programs * BLOCK
        goal += n_programs
        meet(control, goal)
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
        meet(control, goal)
    tl.store(control + LAST_TURN, turn)


@triton.jit(do_not_specialize=["n_owners"])
def _add_terms(starts, terms, gains, n_owners, LANES: tl.constexpr):
    owner = tl.program_id(0) * LANES + tl.arange(0, LANES)
    is_owner = owner < n_owners
    tl.store(gains + owner, _sums(owner, is_owner, starts, terms, LANES), mask=is_owner)


def add_terms(starts: Tensor, terms: Tensor) -> Tensor:
    """(c,) sums of the terms of each owner, from ``starts[c]`` on, one after another."""
    gains = torch.zeros(len(starts) - 1, dtype=torch.float64, device=terms.device)
    if len(gains):
        _add_terms[(triton.cdiv(len(gains), COVER_SUMS),)](
            starts, terms, gains, len(gains), COVER_SUMS, enable_fp_fusion=False
        )
    return gains


class Marks:
    """What the rounds keep of candidates and of rows of the pool, from one call to the next."""

    def __init__(self, n_owners: int, n_rows: int, device: Tensor) -> None:
        self.picked, self.blocked, self.dirty = torch.zeros((3, n_owners), dtype=torch.int32, device=device)
        """The turn in which a candidate was picked, had to wait, or had its gain change; 0 before any."""
        self.touched = torch.zeros(n_rows, dtype=torch.int32, device=device)
        self.first = torch.full((n_rows,), NOBODY.value, dtype=torch.int32, device=device)
        self.best = torch.full((n_rows,), -1.0, dtype=torch.float64, device=device)
        self.turn = 0


def cover_rounds(
    starts: Tensor, owners: Tensor, rows: Tensor, kernels: Tensor, terms: Tensor, weights: Tensor, cover: Tensor,
    gains: Tensor, marks: Marks, threshold: Threshold,
) -> None:  # fmt: skip
    """Pick every candidate that comes before the threshold; ``gains`` keeps what a picked one added.

    Pairs, sorted by owner and then by row, have kernels and current terms; ``cover`` and ``terms`` are kept up to date.
    """
    n_programs = min(multiprocessors(cover.device), triton.cdiv(max(len(owners), len(gains), 1), COVER_PAIRS))
    control = torch.zeros(CONTROLS, dtype=torch.int32, device=cover.device)
    level = torch.full((1,), threshold.value, dtype=torch.float64, device=cover.device)
    _cover[(n_programs,)](
        starts, owners, rows, kernels, terms, weights, cover, gains, marks.picked, marks.best, marks.first,
        marks.blocked, marks.touched, marks.dirty, level, threshold.row, control, marks.turn, len(owners), len(gains),
        len(cover), COVER_PAIRS, COVER_SUMS, enable_fp_fusion=False, num_warps=8,
    )  # fmt: skip
    marks.turn = int(control[LAST_TURN.value])
