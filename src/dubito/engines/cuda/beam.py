"""The beam on a device: fronts as `dubito.engines.lazy.beam` has them, whose steps one kernel makes.

What all configurations hold is the base: references like any other. A configuration's own few picks stand in every
front. Each front says how many steps it allowed; one that allowed none, though all in it was fresh, grows.

Steps are made in one block of threads where the device lets it (`dubito.engines.cuda.block`), or else across the GPU
(`dubito.engines.cuda.tables`): slower by far, and for smaller fronts.
"""

from typing import NamedTuple

import numpy as np
import torch
import triton

from dubito.engines.cuda.block import MOST_OWN, block_program, largest_front, run_in_block
from dubito.engines.cuda.board import DeviceBoard, DeviceFront, StepsTaken
from dubito.engines.cuda.bounds import DeviceBounds
from dubito.engines.cuda.fronts import Fronts, first_unpicked
from dubito.engines.cuda.points import Tensor, to_device
from dubito.engines.cuda.programs.steps import PLACES
from dubito.engines.cuda.tables import run_steps
from dubito.engines.lazy.configurations import finished_beam
from dubito.engines.lazy.progress import Reporter
from dubito.matrix import FloatArray, IntArray
from dubito.problem import Configuration, Problem, Solution

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
        is_sparse = self.bounds.references.n_labelled >= BEAM_FRONT
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
