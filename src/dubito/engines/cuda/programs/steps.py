"""The Triton kernel that steps all configurations of a beam inside a front, many steps in one launch.

**Keys.** Every squared priority that a candidate of the front can come to have is known beforehand: the one it starts
with, or what one pick leaves to it. Sorted by (priority; number, highest first), their places are keys: whole numbers
that compare as the reference compares, ties included. A configuration is a row of keys, -1 where it picked, and a
pick lowers the row to the minimum of two rows.

**Sets.** Configurations hold equally many picks, and no two hold the same. So two children are the same set only where
their parents are one pick apart, and each child takes the other parent's odd one. Kept for each pair of
configurations: how many picks of the one the other lacks, and the sum of their places, which is the odd one's place
where it is alone. No set is ever compared, and nothing is left to chance.

**Tables.** What programs tell each other lies in tables that are filled up to powers of two: W for the width, CHILDREN
for its square, so that loads need no mask and fetch several numbers at a time. They pass by the cache of a
multiprocessor (``.cg``), where what others write does not show.

**Arguments.** Every table that programs share goes by one name everywhere: `dubito.engines.cuda.beam.Tables` has its
shape and its meaning. ``rank`` is the configuration at hand, ``step`` the steps made, ``width`` the beam's, ``n_live``
how many configurations there are. Where two numbers lie in one, the lower `PLACE_BITS` are a place in the front.

A step has two halves, and programs wait for each other after each: every configuration proposes its first candidates;
then every child is ranked by counting those that come before it. The configuration of each rank finds its parent and
its pick by that order, next time round.
"""

import triton
import triton.language as tl

from dubito.engines.cuda.programs.grid import meet

PLACE_BITS = tl.constexpr(12)
"""Bits of a place in a front, and of a child's number."""
PLACES = tl.constexpr(1 << PLACE_BITS.value)
HIGHEST_KEY = tl.constexpr(2**31 - 1)
"""No key is higher."""
# In ``control``, after the number that programs meet by: whether a proposal was not certain, and what came of it all.
STOPPED, STEPS_MADE, ALIVE = tl.constexpr(1), tl.constexpr(2), tl.constexpr(3)
CONTROLS = 4


@triton.jit
def _survivors(order, width, W: tl.constexpr, CHILDREN: tl.constexpr):
    """Which children (W,) live on, in order, what they pick, and how many they are."""
    slots = tl.arange(0, W)
    chosen, n_alive, start = tl.zeros((W,), tl.int32), 0, 0
    while (start < CHILDREN) & (n_alive < width):
        entries = tl.load(order + start + tl.arange(0, 2 * W), cache_modifier=".cg")
        is_alive = 1 - (entries & 1)
        numbers = (n_alive + tl.cumsum(is_alive, 0)) * is_alive
        is_it = numbers[:, None] == (slots + 1)[None, :]
        chosen += tl.sum(tl.where(is_it, (entries >> 1)[:, None], 0), axis=0)
        n_alive += tl.sum(is_alive, 0)
        start += 2 * W
    return chosen >> PLACE_BITS, chosen & (PLACES - 1), tl.minimum(n_alive, width)


@triton.jit
def _adopt(
    keys, lowered, gains, totals, apart, odd, parents, picks, heights, children, their_pick, rank, step, width,
    W: tl.constexpr, COLUMNS: tl.constexpr,
):  # fmt: skip
    """Make the configuration of a rank out of its parent: its keys, its score, and how it differs from the others."""
    slots, columns = tl.arange(0, W), tl.arange(0, COLUMNS)
    is_me = slots == rank
    before, after = (step + 1) % 2, step % 2
    old, square = keys + before * width * COLUMNS, before * W * W
    their_parent = children // width
    parent, pick = tl.sum(tl.where(is_me, their_parent, 0), 0), tl.sum(tl.where(is_me, their_pick, 0), 0)
    # Everything is asked for before anything is waited for.
    row = tl.load(old + parent * COLUMNS + columns, cache_modifier=".cg")
    lower = tl.load(lowered + pick * COLUMNS + columns)
    mine = tl.load(old + parent * COLUMNS + their_pick, cache_modifier=".cg")
    theirs = tl.load(old + their_parent * COLUMNS + pick, cache_modifier=".cg")
    near = tl.load(apart + square + parent * W + their_parent, cache_modifier=".cg")
    my_odd = tl.load(odd + square + parent * W + their_parent, cache_modifier=".cg")
    their_odd = tl.load(odd + square + their_parent * W + parent, cache_modifier=".cg")
    total = tl.load(totals + before * width + parent, cache_modifier=".cg") + tl.load(gains + pick)
    height = tl.load(old + parent * COLUMNS + pick, cache_modifier=".cg")
    row = tl.where(columns == pick, -1, tl.minimum(row, lower))
    tl.store(keys + (after * width + rank) * COLUMNS + columns, row)
    # Of two children: whether the one's parent holds the other's pick, and who gains a pick that the other lacks.
    is_mine, is_theirs, is_other = mine < 0, theirs < 0, their_pick != pick
    i_gain, they_gain = is_other & (is_theirs == 0), is_other & (is_mine == 0)
    near += i_gain.to(tl.int32) - is_mine.to(tl.int32)
    my_odd += tl.where(i_gain, pick, 0) - tl.where(is_mine, their_pick, 0)
    their_odd += tl.where(they_gain, their_pick, 0) - tl.where(is_theirs, pick, 0)
    pairs = after * W * W + rank * W + slots
    tl.store(apart + pairs, near)
    tl.store(odd + pairs, my_odd)
    tl.store(totals + after * width + rank, total)
    made = (step - 1) * width + rank
    tl.store(parents + made, parent)
    tl.store(picks + made, pick)
    tl.store(heights + made, height)
    return row, total, near, my_odd, their_odd


@triton.jit
def _resume(keys, totals, apart, odd, rank, W: tl.constexpr, COLUMNS: tl.constexpr):
    """The same, as a front starts with it."""
    slots = tl.arange(0, W)
    row = tl.load(keys + rank * COLUMNS + tl.arange(0, COLUMNS), cache_modifier=".cg")
    near = tl.load(apart + rank * W + slots, cache_modifier=".cg")
    my_odd = tl.load(odd + rank * W + slots, cache_modifier=".cg")
    their_odd = tl.load(odd + slots * W + rank, cache_modifier=".cg")
    return row, tl.load(totals + rank, cache_modifier=".cg"), near, my_odd, their_odd


@triton.jit
def _floor(row, width, W: tl.constexpr, COLUMNS: tl.constexpr):
    """A key that at least ``width`` others reach, if so many are left, and at most 2·W; and how many do."""
    # Of the highest in each of 2·W groups, the one of this width is such a key, and mostly few others reach it.
    highest = tl.max(tl.reshape(row, (2 * W, COLUMNS // (2 * W))), axis=1)
    n_ahead = tl.sum((highest[None, :] > highest[:, None]).to(tl.int32), axis=1)
    floor = tl.maximum(tl.max(tl.where(n_ahead >= width - 1, highest, -1), 0), 0)
    n_reach, ceiling = tl.sum((row >= floor).to(tl.int32), 0), floor * 0 + HIGHEST_KEY
    while n_reach > 2 * W:
        middle = floor + (ceiling - floor) // 2
        n_middle = tl.sum((row >= middle).to(tl.int32), 0)
        is_floor = n_middle >= width
        floor, ceiling = tl.where(is_floor, middle, floor), tl.where(is_floor, ceiling, middle)
        n_reach = tl.where(is_floor, n_middle, n_reach)
    return floor, n_reach


@triton.jit
def _propose(
    row, gain_row, total, near, my_odd, their_odd, short, short_gains, proposals, worth, twins, control, bar, n_live,
    rank, width, W: tl.constexpr, COLUMNS: tl.constexpr,
):  # fmt: skip
    """Publish a configuration's first candidates, and which of the others' children would be the same sets."""
    floor, n_short = _floor(row, width, W, COLUMNS)
    is_short = row >= floor
    place = rank * 2 * W + tl.cumsum(is_short.to(tl.int32), 0) - 1
    tl.store(short + place, row.to(tl.int64) * PLACES + tl.arange(0, COLUMNS), mask=is_short)
    tl.store(short_gains + place, gain_row, mask=is_short)
    tl.debug_barrier()
    slots, all_slots = tl.arange(0, W), tl.arange(0, 2 * W)
    listed = tl.load(short + rank * 2 * W + all_slots)
    gain = tl.load(short_gains + rank * 2 * W + all_slots)
    key = tl.where(all_slots < n_short, (listed >> PLACE_BITS).to(tl.int32), -1)
    candidate = (listed & (PLACES - 1)).to(tl.int32)
    n_ahead = tl.sum((key[None, :] > key[:, None]).to(tl.int32), axis=1)
    number = tl.where(key >= 0, n_ahead, all_slots)
    is_child = number < width
    is_one = is_child & (key >= 0)
    if tl.min(tl.where(is_child, key, HIGHEST_KEY), 0) < bar:
        tl.store(control + STOPPED, 1)
    child, n_children = rank * width + number, width * width
    # Unique: by score, then by the parent's rank, then by priority.
    value = (total + gain) * n_children + (n_children - 1 - child)
    tl.store(worth + child, tl.where(is_one, value, (-1 - child).to(tl.int64)), mask=is_child)
    tl.store(proposals + child, candidate, mask=is_child)
    n_takes = tl.sum(((candidate[:, None] == their_odd[None, :]) & is_one[:, None]).to(tl.int32), axis=0)
    is_twin = (n_takes > 0) & (near == 1) & (slots > rank) & (slots < n_live)
    tl.store(twins + rank * W + slots, tl.where(is_twin, my_odd, -1))


@triton.jit
def _rank(order, proposals, worth, twins, rank, width, W: tl.constexpr, CHILDREN: tl.constexpr, AT_ONCE: tl.constexpr):
    """Put the children of one configuration in their places in the order of all; odd entries do not live on."""
    slots = tl.arange(0, W)
    child = rank * width + slots
    own = tl.load(worth + child, cache_modifier=".cg")
    picks = tl.load(proposals + child, cache_modifier=".cg")
    twin_picks = tl.load(twins + slots * W + rank, cache_modifier=".cg")
    position = tl.zeros((W,), tl.int32)
    for part in tl.static_range(CHILDREN // AT_ONCE):
        others = tl.load(worth + part * AT_ONCE + tl.arange(0, AT_ONCE), cache_modifier=".cg")
        position += tl.sum((others[None, :] > own[:, None]).to(tl.int32), axis=1)
    n_earlier = tl.sum((picks[:, None] == twin_picks[None, :]).to(tl.int32), axis=1)
    is_out = (n_earlier > 0) | (own < 0)
    entry = (((child << PLACE_BITS) + picks) << 1) + is_out.to(tl.int32)
    tl.store(order + position, entry, mask=slots < width)


@triton.jit
def _turn(
    keys, lowered, gains, totals, apart, odd, short, short_gains, proposals, worth, twins, parents, picks, heights,
    control, gain_row, children, their_pick, bar, n_live, rank, step, limit, width,
    W: tl.constexpr, COLUMNS: tl.constexpr,
):  # fmt: skip
    """The first half of a step for one rank; nobody proposes for a rank that no configuration has."""
    if rank < n_live:
        if step > 0:
            row, total, near, my_odd, their_odd = _adopt(
                keys, lowered, gains, totals, apart, odd, parents, picks, heights, children, their_pick, rank, step,
                width, W, COLUMNS,
            )  # fmt: skip
        else:
            row, total, near, my_odd, their_odd = _resume(keys, totals, apart, odd, rank, W, COLUMNS)
        if step < limit:
            _propose(
                row, gain_row, total, near, my_odd, their_odd, short, short_gains, proposals, worth, twins, control,
                bar, n_live, rank, width, W, COLUMNS,
            )  # fmt: skip
    else:
        slots = tl.arange(0, W)
        child = rank * width + slots
        tl.store(worth + child, (-1 - child).to(tl.int64), mask=slots < width)
        tl.store(twins + rank * W + slots, tl.full((W,), -1, tl.int32))


@triton.jit(do_not_specialize=["width", "n_live", "limit"])
def make_steps(
    keys, lowered, gains, totals, apart, odd, short, short_gains, proposals, worth, twins, order, parents, picks,
    heights, bar, control, width, n_live, limit, W: tl.constexpr, COLUMNS: tl.constexpr, CHILDREN: tl.constexpr,
    AT_ONCE: tl.constexpr,
):  # fmt: skip
    """Step until ``limit`` or until a proposal is not certain; all programs must run at once."""
    first, n_programs, lowest = tl.program_id(0), tl.num_programs(0), tl.load(bar)
    goal, step, going, alive = 0, 0, 1, n_live + 0
    gain_row = tl.load(gains + tl.arange(0, COLUMNS))
    while going > 0:
        children, their_pick = tl.zeros((W,), tl.int32), tl.zeros((W,), tl.int32)
        if step > 0:
            children, their_pick, alive = _survivors(order, width, W, CHILDREN)
        rank = first
        while rank < width:
            _turn(
                keys, lowered, gains, totals, apart, odd, short, short_gains, proposals, worth, twins, parents, picks,
                heights, control, gain_row, children, their_pick, lowest, alive, rank, step, limit, width, W, COLUMNS,
            )  # fmt: skip
            rank += n_programs
        goal += n_programs
        meet(control, goal)
        going = ((step < limit) & (tl.load(control + STOPPED, cache_modifier=".cg") == 0)).to(tl.int32)
        if going > 0:
            rank = first
            while rank < width:
                _rank(order, proposals, worth, twins, rank, width, W, CHILDREN, AT_ONCE)
                rank += n_programs
            goal += n_programs
            meet(control, goal)
            step += 1
    if first == 0:
        tl.store(control + STEPS_MADE, step)
        tl.store(control + ALIVE, alive)


@triton.jit(do_not_specialize=["n_own"])
def start_rows(keys, lowered, start, own, is_held, n_own, COLUMNS: tl.constexpr):
    """Rows of keys that configurations' own picks leave; one program each."""
    rank, columns = tl.program_id(0), tl.arange(0, COLUMNS)
    row, number = tl.load(start + columns), 0
    while number < n_own:
        if tl.load(is_held + rank * n_own + number) > 0:
            pick = tl.load(own + number)
            row = tl.minimum(row, tl.load(lowered + pick * COLUMNS + columns))
            row = tl.where(columns == pick, -1, row)
        number += 1
    tl.store(keys + rank * COLUMNS + columns, row)
