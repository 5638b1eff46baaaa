"""The beam on a device: fronts as `dubito.engines.lazy.beam` has them, whose steps one kernel makes.

What all configurations hold is the base: references like any other. A configuration's own few picks stand in every
front. Each front says how many steps it allowed; one that allowed none, though all in it was fresh, grows.

Steps are made in one block of threads where the device lets it (`dubito.engines.cuda.beam`), or else across the GPU
(`dubito.engines.cuda.beam`): slower by far, and for smaller fronts.
"""

import ctypes
from ctypes import c_int, c_void_p
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import torch
import triton

from dubito.core.problem import Configuration, Problem, Solution
from dubito.engines.cuda.bounds import DeviceBounds, Fronts, first_unpicked
from dubito.engines.cuda.points import Tensor, to_device
from dubito.engines.cuda.programs import native
from dubito.engines.cuda.programs.grid import multiprocessors
from dubito.engines.cuda.programs.pairs import near_pairs
from dubito.engines.cuda.programs.settling import settle
from dubito.engines.cuda.programs.steps import ALIVE, CONTROLS, HIGHEST_KEY, PLACES, STEPS_MADE, make_steps, start_rows
from dubito.engines.lazy.configurations import finished_beam
from dubito.engines.lazy.front import Threshold
from dubito.engines.lazy.frontier import Reporter
from dubito.matrix import FloatArray, IntArray

# A front of a beam on a device: exact priorities turned into keys.

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


# Steps of a beam inside a front: the tables that programs share, and the launch that makes the steps.

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


# Steps of a beam inside a front, in one block of threads: for beams no wider than a block has warps.
#
# The threads of a block meet in a fraction of the time that programs across a GPU take, and have memory of their own.
# `programs/block/` has the program; a front may be larger here than there.

SLOTS = 128
"""Candidates on the short list."""
PITCH = SLOTS + 1
"""Numbers from one configuration's keys to the next one's: a column of them does not lie in one bank of memory."""
MOST_OWN = SLOTS // 2
"""Picks of some configurations alone, in all, that there is room for on the list."""
WIDEST_BLOCK = 32
LEAST_WARPS = 16
"""Narrow beams have helpers that draw the list."""
WARP = 32
BUCKETS = 512
"""Into which keys are sorted in search of the highest."""
SHARED_BYTES, DRAWING_BYTES = 8784, 6144
"""Room for `Shared` and `Drawing`, whose sizes the compiler checks."""
CHILD_BYTES = 16
LARGEST_BLOCK_FRONT = SLOTS * SLOTS
"""Keys of a whole front lie for a while where later each pair on the list has one."""
STUCK = 2
SOURCES = tuple(
    Path(native.__file__).parent / "block" / f"{name}.cu" for name in ("state", "list", "children", "steps")
)
CONSTANTS = tuple(
    f"{name}={value}"
    for name, value in {
        "SLOTS": SLOTS, "PITCH": PITCH, "WIDEST": WIDEST_BLOCK, "MOST_OWN": MOST_OWN, "BUCKETS": BUCKETS,
        "SHARED_BYTES": SHARED_BYTES, "DRAWING_BYTES": DRAWING_BYTES,
    }.items()
)  # fmt: skip


class BlockTask(ctypes.Structure):
    """What the program takes: `Task` of ``state.cu``."""

    _fields_ = (
        *((name, c_void_p) for name in ("start", "starts", "others", "left", "bar", "gains", "own", "is_held")),
        *((name, c_void_p) for name in ("totals", "base", "keys", "last_totals", "past", "control")),
        *((name, c_int) for name in ("n", "n_keys", "n_own", "n_live", "width", "limit")),
    )


def block_program(device: Any) -> Any:
    """The program on a device; None where it cannot be had."""
    if device.type != "cuda":
        return None
    return native.native_program(SOURCES, "make_block_steps", CONSTANTS, device.index or 0)


def shared_bytes(width: int, n: int) -> int:
    """Of shared memory, for a front of n candidates."""
    # What is needed while a list is drawn lies where keys of configurations, and children, lie in between.
    n_either = max(-(-width * PITCH // 4) * 16, DRAWING_BYTES) + max(CHILD_BYTES * width * width, n)
    return SHARED_BYTES + 4 * SLOTS * SLOTS + n_either


def largest_front(most_shared: int, width: int) -> int:
    """Candidates in a front, at most; 0 where the beam is too wide, or the device's blocks too small for it."""
    if width > WIDEST_BLOCK or shared_bytes(width, 0) > most_shared:
        return 0
    return min(LARGEST_BLOCK_FRONT, most_shared - shared_bytes(width, 0) + CHILD_BYTES * width * width)


def run_in_block(
    program: Any, board: DeviceBoard, own: Tensor, is_held: Tensor, totals: Tensor, width: int, limit: int
) -> tuple[StepsTaken, bool]:
    """See `dubito.engines.cuda.beam.run_steps`; and whether the list was too short to go on."""
    n, n_live, device = len(board.start), len(totals), totals.device
    base, control = torch.empty(n, dtype=torch.int32, device=device), torch.empty(3, dtype=torch.int32, device=device)
    keys = torch.empty((width, n), dtype=torch.int32, device=device)
    last_totals = torch.empty(width, dtype=torch.int64, device=device)
    # Ranks that no configuration has name the first one as their parent.
    past = torch.zeros((limit, width, 4), dtype=torch.int32, device=device)
    own, held, totals = own.contiguous(), is_held.contiguous(), totals.contiguous()
    tensors = (
        board.start, *board.by_pick(), board.bar, board.gains, own, held,
        totals, base, keys, last_totals, past, control,
    )  # fmt: skip
    task = BlockTask(*(each.data_ptr() for each in tensors), n, board.n_keys, len(own), n_live, width, limit)
    program.run(task, WARP * max(width, LEAST_WARPS), shared_bytes(width, n))
    made, n_live, outcome = control.tolist()
    parents, picks, heights, _ = past[:made].unbind(dim=2)
    steps = StepsTaken(keys[:n_live], last_totals[:n_live], parents, picks, heights)
    return steps, outcome == STUCK


BLOCK_FRONT = 8192
"""Candidates in a front for one block: most of them are picked before it is left."""
BEAM_FRONT = 2048
"""The same across the GPU, where each step goes through all of them; and for one block where most pairs are near."""
MOST_PAIRS, FEW_PAIRS = 1 << 21, 1 << 16
"""Near pairs in a front, from which on it is made smaller, and under which it may be as large as it should be."""
LEAST_ROOM = 8
"""Candidates in a front for each configuration, at least."""
LARGEST_FRONT = PLACES.value
WIDEST = 64
HIGHEST_SCORE = 1 << 37
"""Within these, scores of children times their number stay below 2^63, and their places fit in `PLACE_BITS` each."""


class FrontTooLarge(Exception):
    """Too many candidates are in the running at once for keys on the device."""


class Past(NamedTuple):
    """Steps made in one front: the ranks of parents, candidates, and squared priorities, each (steps, w)."""

    parents: Tensor
    picks: Tensor
    squared: Tensor


class DeviceBeam:
    """A beam's run: what its configurations hold beyond the base, and the steps so far."""

    def __init__(self, problem: Problem, bounds: DeviceBounds, scores: IntArray) -> None:
        self.problem, self.bounds = problem, bounds
        self.scores = to_device(scores[problem.candidates], bounds.device)
        self.fronts = Fronts(bounds, first_unpicked)
        self.own = torch.empty(0, dtype=torch.int64, device=bounds.device)
        """(u,) candidates that some configurations hold, and others do not."""
        self.is_held = torch.zeros((1, 0), dtype=torch.bool, device=bounds.device)
        """(configurations, u) by whom."""
        self.totals = torch.zeros(1, dtype=torch.int64, device=bounds.device)
        self.past: list[Past] = []
        self.n_steps = 0
        self.program = block_program(bounds.device)
        self.room = self.usual = self.wanted = self.largest = 0
        """Candidates that a front has room for: now, unless one had to grow, where pairs are few, and at most."""
        self._size_for(0 if self.program is None else largest_front(self.program.most_shared, problem.beam_width))

    def _size_for(self, largest: int) -> None:
        """Fronts for one block, of so many candidates at most; where that is too few, across the GPU."""
        width, budget, front = self.problem.beam_width, self.problem.budget, self.bounds.sizes.front
        least = min(len(self.bounds.value), LEAST_ROOM * width)
        if largest < least:
            self.program = None
        if self.program is None:
            n_wanted = min(len(self.bounds.value), max(least, min(BEAM_FRONT, front, 4 * budget + 64)))
            self.wanted, self.largest = n_columns(n_wanted, width), LARGEST_FRONT
        else:
            self.wanted, self.largest = max(least, min(BLOCK_FRONT, 2 * front, largest, 2 * budget + 64)), largest
        # Of few references, most candidates are near each other.
        is_sparse = self.bounds.references.n_labeled >= BEAM_FRONT
        self.room = self.usual = self.wanted if is_sparse else min(self.wanted, BEAM_FRONT)

    def start_cold(self, first: IntArray) -> None:
        """The first step had no distances to go by: each of these candidates is a configuration, best first."""
        self.own = to_device(np.sort(first), self.bounds.device)
        picks = to_device(first, self.bounds.device)
        self.is_held = picks[:, None] == self.own
        self.totals = self.scores[picks]
        squared = torch.full((1, len(first)), torch.inf, dtype=torch.float64, device=self.bounds.device)
        self.past.append(Past(torch.zeros_like(picks[None]), picks[None], squared))
        self.n_steps = 1

    def solve(self) -> Solution:
        """Step until the budget is met, or until Ctrl-C: then the leading configuration so far is first."""
        reporter, complete, tops = Reporter(self.problem), True, None
        try:
            while self.n_steps < self.problem.budget:
                tops = self._step(self.problem.budget - self.n_steps)
                if self.problem.progress is not None:
                    reporter.report(self.n_steps, lambda: float(self.bounds.value.max()))
        except KeyboardInterrupt:
            complete = False
        while tops is None:
            tops = self._step(0)
        return Solution(self._configurations(tops), complete)

    def _step(self, limit: int) -> FloatArray | None:
        """One front; the largest squared priority left to each configuration, None where others may be larger."""
        rows, threshold = self.fronts.find(max(1, self.room - len(self.own)))
        if len(self.own):
            rows = torch.unique(torch.cat([rows, self.own]))
        was_stale = self.bounds.refresh(rows)
        if len(rows) > self.room:
            self._grow(len(rows))
        front = DeviceFront(self.bounds, rows)
        if front.n_pairs > MOST_PAIRS and self.room == self.usual > BEAM_FRONT:
            self.room = self.usual = BEAM_FRONT
            return None
        board = front.board(threshold, self.scores)
        steps = self._run(board, torch.searchsorted(rows, self.own), limit)
        if steps is None:
            return None
        if self.usual < self.wanted and front.n_pairs < FEW_PAIRS:
            self.room = self.usual = self.wanted
        highest = steps.keys.amax(dim=1)
        is_certain = bool((highest >= board.bar).all())
        tops = front.squared_of(highest).clamp(min=0.0).cpu().numpy() if is_certain else None
        self._note(front, steps)
        if is_certain and self.n_steps == self.problem.budget and self.problem.progress is None:
            return tops
        self._close(front, steps)
        if not (was_stale or len(steps.picks) or (limit == 0 and is_certain)):
            self._grow(self.room + 1)
        return tops

    def _run(self, board: DeviceBoard, places: Tensor, limit: int) -> StepsTaken | None:
        """Steps in a front; None where one block cannot make any, and the front is too large for more."""
        n, width = len(board.start), self.problem.beam_width
        beam = places, self.is_held, self.totals, width, limit
        if self.program is None:
            return run_steps(board, *beam, n_columns(self.room, width))
        if len(places) <= MOST_OWN:
            steps, is_stuck = run_in_block(self.program, board, *beam)
            if len(steps.picks) or not is_stuck:
                return steps
        if n <= LARGEST_FRONT:
            return run_steps(board, *beam, n_columns(n, width))
        if self.room > self.usual:
            raise FrontTooLarge
        self.room = self.usual = BEAM_FRONT
        return None

    def _grow(self, n_rows: int) -> None:
        if n_rows > self.largest:
            raise FrontTooLarge
        self.room = min(triton.next_power_of_2(n_rows), self.largest)

    def _note(self, front: DeviceFront, steps: StepsTaken) -> None:
        """The steps made in a front."""
        picks = front.rows[steps.picks.long()]
        self.past.append(Past(steps.parents.long(), picks, front.squared_of(steps.heights)))
        self.n_steps += len(steps.picks)

    def _close(self, front: DeviceFront, steps: StepsTaken) -> None:
        """Leave a front: write bounds back, and let the base have what is common."""
        rows, bounds, keys = front.rows, self.bounds, steps.keys
        highest = keys.amax(dim=0)
        bounds.value[rows] = front.squared_of(highest)
        is_own = (keys < 0).any(dim=0) & (highest >= 0)
        self.own, self.is_held = rows[is_own], keys[:, is_own] < 0
        self.totals = steps.totals - steps.totals.min()
        bounds.pick(rows[highest < 0])
        # No reference can lower what every configuration's picks, the new references among them, have left.
        bounds.seen[rows] = bounds.references.count
        bounds.tight[rows] = bounds.n_wanted

    def _configurations(self, tops: FloatArray) -> tuple[Configuration, ...]:
        picks, squared = trace(self.past, len(tops))
        return finished_beam(self.problem, self.problem.candidates[picks], squared, np.sqrt(tops))


def n_columns(n_rows: int, width: int) -> int:
    """Of tables for so many candidates, as programs across the GPU share them."""
    return int(max(triton.next_power_of_2(n_rows), 2 * triton.next_power_of_2(width)))


def trace(past: list[Past], n_live: int) -> tuple[IntArray, FloatArray]:
    """Picks and their squared priorities, each (configurations, steps), of those that are left.

    Which rank a configuration had at each step is found by joining steps two by two, then four by four, and so on.
    """
    width = max((step.parents.shape[1] for step in past), default=1)
    parents, picks, squared = (
        torch.cat([torch.nn.functional.pad(each, (0, width - each.shape[1])) for each in parts])
        for parts in zip(*past, strict=True)
    )
    # Row t: the rank, after t + 1 steps, of what has each rank after 2, 3, 5, 9, ... more; after the last, itself.
    same = torch.arange(width, device=parents.device).expand(1, width)
    ranks, stride = torch.cat([parents[1:], same]), 1
    while stride < len(ranks):
        later = torch.cat([ranks[stride:], same.expand(stride, width)])
        ranks, stride = ranks.gather(1, later), 2 * stride
    ranks = ranks[: len(picks), :n_live]
    chosen, heights = (each.gather(1, ranks).T.contiguous().cpu().numpy() for each in (picks, squared))
    return chosen, heights
