"""The beam on a GPU: fronts as in `dubito.engines.lazy.beam`, with all steps in a front made by one block of threads.

Picks that all configurations hold are references like any other; a configuration's own few picks are part of every
front. A front that allowed no step, although all its candidates were fresh, grows. Where the block cannot go on (the
beam is too wide, no NVRTC, configurations that differ in too many picks), the steps are made on the host by
`dubito.engines.lazy.beam`, over fronts whose distances come from the device.
"""

import ctypes
from ctypes import c_int, c_void_p
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import torch

from dubito.core.problem import Configuration, Problem, Solution
from dubito.engines.cuda.bounds import DeviceBounds, Fronts, first_unpicked
from dubito.engines.cuda.points import Tensor, to_device
from dubito.engines.cuda.programs import native
from dubito.engines.cuda.programs.pairs import near_pairs
from dubito.engines.cuda.programs.settling import settle
from dubito.engines.lazy.configurations import finished_beam
from dubito.engines.lazy.front import Threshold
from dubito.engines.lazy.frontier import Reporter
from dubito.matrix import FloatArray, IntArray

# A front of a beam on a device. Every squared priority that a candidate of the front can have is known in advance: the
# one it starts with, or what a single pick leaves to it. Sorted by (priority; index, highest first), their positions
# are keys: integers that compare as the reference compares, ties included.


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


# Steps of a beam inside a front, in one block of threads: for beams no wider than a block has warps. The program is in
# `programs/block/`. The threads of a block synchronize fast and share memory.

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
    """Step at most ``limit`` times, while all proposals of all configurations come before everything outside the front.

    ``own`` (u,) are positions that some configurations picked before, ``is_held`` (configurations, u) says which did,
    and ``totals`` are their scores. Also returns whether the short list was too short to go on.
    """
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
"""The same where most pairs are near."""
MOST_PAIRS, FEW_PAIRS = 1 << 21, 1 << 16
"""Near pairs in a front, from which on it is made smaller, and under which it may be as large as it should be."""
LEAST_ROOM = 8
"""Candidates in a front for each configuration, at least."""
HIGHEST_SCORE = 1 << 37
"""Scores of children times their number stay below 2^63."""


class CannotStep(Exception):
    """The block cannot make the steps of this beam; the host can."""


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
        width = problem.beam_width
        self.program = block_program(bounds.device)
        self.largest = 0 if self.program is None else largest_front(self.program.most_shared, width)
        """Maximum number of candidates in a front."""
        least = min(len(bounds.value), LEAST_ROOM * width)
        if self.largest < least:
            raise CannotStep
        self.wanted = max(least, min(BLOCK_FRONT, 2 * bounds.sizes.front, self.largest, 2 * problem.budget + 64))
        """Candidates in a front where pairs are few."""
        # With few references, most candidates are near each other.
        is_sparse = bounds.references.n_labeled >= BEAM_FRONT
        self.room = self.usual = self.wanted if is_sparse else min(self.wanted, BEAM_FRONT)
        """Candidates in a front: now, and unless one had to grow."""

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

    def _run(self, board: DeviceBoard, places: Tensor, limit: int) -> StepsTaken:
        if len(places) > MOST_OWN:
            raise CannotStep
        beam = places, self.is_held, self.totals, self.problem.beam_width, limit
        steps, is_stuck = run_in_block(self.program, board, *beam)
        if is_stuck and not len(steps.picks):
            raise CannotStep
        return steps

    def _grow(self, n_rows: int) -> None:
        if n_rows > self.largest:
            raise CannotStep
        self.room = min(1 << (n_rows - 1).bit_length(), self.largest)

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
