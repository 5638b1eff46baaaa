"""The beam on a GPU: fronts as in `dubito.engines.lazy.beam`, with all steps in a front made by one thread block.

Picks that all configurations have in common are references like any other; the other picks of a configuration are part
of every front. A front of exact candidates in which no step is possible is enlarged. If the thread block cannot
continue (the beam is too wide, NVRTC is missing, or configurations differ in too many picks),
`dubito.engines.lazy.beam` makes the steps on the host, with distances from the device.
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
from dubito.engines.cuda.programs import nvrtc
from dubito.engines.cuda.programs.exact import exact_sq_distances
from dubito.engines.cuda.programs.pairs import near_pairs
from dubito.engines.lazy.configurations import make_configurations
from dubito.engines.lazy.front import Threshold
from dubito.engines.lazy.interfaces import Reporter
from dubito.matrix import FloatArray, IntArray

# A front of a beam. All squared priorities that a candidate of the front can have are known in advance: its priority at
# the start, and that after each single pick. Their positions, sorted by (priority; index, highest first), are keys:
# integers that compare like the priorities of the reference, including ties.


@dataclass(frozen=True, slots=True)
class DeviceBoard:
    """A front of n candidates in keys, and the effects of each pick."""

    start: Tensor
    """(n,) int32 keys before a configuration's own picks."""
    picks: Tensor
    """int64 positions, in any order: this pick lowers the priority"""
    others: Tensor
    """of this candidate"""
    left: Tensor
    """to this int32 key."""
    gains: Tensor
    """(n,) int64 scores."""
    bar: Tensor
    """(1,) int32: the smallest key that comes before all candidates outside the front; -1 if there are none."""
    n_keys: int
    """Larger than all keys."""

    def by_pick(self) -> tuple[Tensor, Tensor, Tensor]:
        """In the order of picks: (n + 1,) where each pick starts, the candidates it lowers, and their keys; int32."""
        picks, order = torch.sort(self.picks)
        positions = torch.arange(len(self.start) + 1, device=picks.device)
        return torch.searchsorted(picks, positions, out_int32=True), self.others[order].int(), self.left[order]


@dataclass(frozen=True, slots=True)
class StepsTaken:
    """The result of a front: the configurations (w, n) as rows of keys, their scores, and the picks of each step."""

    keys: Tensor
    totals: Tensor
    parents: Tensor
    """(steps, w) ranks in the step before."""
    picks: Tensor
    """(steps, w) positions in the front."""
    heights: Tensor
    """(steps, w) keys of the picks when picked."""


class DeviceFront:
    """Candidates ascending by number, with exact priorities and their keys."""

    def __init__(self, bounds: DeviceBounds, rows: Tensor) -> None:
        self.bounds, self.rows = bounds, rows
        self.start = bounds.value[rows]
        references = bounds.references
        self.exact = references.widen(bounds.exact(rows))
        self.weights = bounds.weights[rows]
        self.pairs = self._near()

    @property
    def n_pairs(self) -> int:
        """The number of pairs in which one pick may lower the other candidate."""
        return len(self.pairs[0])

    def _near(self) -> tuple[Tensor, Tensor]:
        bounds, references, start = self.bounds, self.bounds.references, self.start
        own = references.shape_of(self.exact)
        # A priority of 0 cannot be lowered, and a weight of 0 must not be a divisor.
        if bounds.by_pick:
            heights, scales = torch.where(start > 0.0, start, -1.0), self.weights
        else:
            heights, scales = start, torch.where(start > 0.0, self.weights, 1.0)
        positions = torch.arange(len(self.rows), device=self.rows.device)
        return near_pairs(
            own, own, positions, heights, scales, bounds.constants, references.shape.precision,
            self.weights if bounds.by_pick else None,
        )  # fmt: skip

    def board(self, threshold: Threshold, scores: Tensor) -> DeviceBoard:
        """The front in keys. Afterwards, `squared_of` converts keys to squared priorities."""
        picks, others, left = self._effects()
        n, device = len(self.rows), self.rows.device
        owner = torch.cat([torch.arange(n, device=device), others])
        values = torch.cat([self.start, left])
        order = in_order(values, owner)
        self.squared = values[order]
        """Ascending: the squared priority of each key."""
        keys = torch.empty(len(order), dtype=torch.int32, device=device)
        keys[order] = torch.arange(len(order), dtype=torch.int32, device=device)
        bar = self._bar(threshold, self.rows[owner[order]])
        return DeviceBoard(keys[:n], picks, others, keys[n:], scores[self.rows], bar, len(order))

    def _effects(self) -> tuple[Tensor, Tensor, Tensor]:
        """Picks, candidates, and the squared priority of the candidate after the pick, where it is lower."""
        squared = exact_sq_distances(self.exact, self.exact, self.pairs)
        lefts, rights = (side.long() for side in self.pairs)
        picks, others = torch.cat([lefts, rights]), torch.cat([rights, lefts])
        left = torch.cat([squared, squared]) * self.weights[picks if self.bounds.by_pick else others]
        is_lower = left < self.start[others]
        return picks[is_lower], others[is_lower], left[is_lower]

    def _bar(self, threshold: Threshold, rows: Tensor) -> Tensor:
        """The smallest key that comes before the threshold; ``rows`` are the candidates of the keys."""
        if threshold.row < 0:
            return torch.full((1,), -1, dtype=torch.int32, device=rows.device)
        is_after = (self.squared == threshold.value) & (rows >= threshold.row)
        return ((self.squared < threshold.value) | is_after).sum(dtype=torch.int32).reshape(1)

    def squared_of(self, keys: Tensor) -> Tensor:
        """Squared priorities of keys; -1 for picked candidates."""
        return torch.where(keys >= 0, self.squared[keys.clamp(min=0).long()], -1.0)


def in_order(values: Tensor, candidates: Tensor) -> Tensor:
    """The order by (value, smallest first; candidate, highest first)."""
    by_candidate = torch.sort(candidates, descending=True).indices
    return by_candidate[torch.sort(values[by_candidate], stable=True).indices]


# Steps of a beam inside a front, in one thread block, whose threads synchronize fast and share memory. The beam may be
# at most as wide as a block has warps. The CUDA C source is in `programs/block/`.

SLOTS = 128
"""Number of candidates on the short list."""
PITCH = SLOTS + 1
"""Distance between the keys of two configurations, chosen so that a column is spread over the memory banks."""
MOST_OWN = SLOTS // 2
"""Maximum number of different picks that only some configurations have."""
WIDEST_BLOCK = 32
LEAST_WARPS = 16
"""Minimum number of warps: in narrow beams, the additional ones help to build the list."""
WARP = 32
BUCKETS = 512
"""Number of buckets in the search for the highest keys."""
SHARED_BYTES, DRAWING_BYTES = 8784, 6144
"""The sizes of the structs `Shared` and `Drawing`, which the compiler checks."""
CHILD_BYTES = 16
LARGEST_BLOCK_FRONT = SLOTS * SLOTS
"""The keys of a front are stored temporarily in the array of pairs on the list."""
STUCK = 2
SOURCES = tuple(Path(nvrtc.__file__).parent / "block" / f"{name}.cu" for name in ("state", "list", "children", "steps"))
CONSTANTS = tuple(
    f"{name}={value}"
    for name, value in {
        "SLOTS": SLOTS, "PITCH": PITCH, "WIDEST": WIDEST_BLOCK, "MOST_OWN": MOST_OWN, "BUCKETS": BUCKETS,
        "SHARED_BYTES": SHARED_BYTES, "DRAWING_BYTES": DRAWING_BYTES,
    }.items()
)  # fmt: skip


class BlockTask(ctypes.Structure):
    """The argument of the program: `Task` of ``state.cu``."""

    _fields_ = (
        *((name, c_void_p) for name in ("start", "starts", "others", "left", "bar", "gains", "own", "is_held")),
        *((name, c_void_p) for name in ("totals", "base", "keys", "last_totals", "past", "control")),
        *((name, c_int) for name in ("n", "n_keys", "n_own", "n_live", "width", "limit")),
    )


def block_program(device: Any) -> Any:
    """The program for a device, or None if it is not available."""
    if device.type != "cuda":
        return None
    return nvrtc.load_program(SOURCES, "make_block_steps", CONSTANTS, device.index or 0)


def shared_bytes(width: int, n: int) -> int:
    """Bytes of shared memory for a front of n candidates."""
    # The memory for building a list is reused for the keys of configurations and for children.
    n_either = max(-(-width * PITCH // 4) * 16, DRAWING_BYTES) + max(CHILD_BYTES * width * width, n)
    return SHARED_BYTES + 4 * SLOTS * SLOTS + n_either


def largest_front(most_shared: int, width: int) -> int:
    """Maximum number of candidates in a front; 0 if the beam is too wide or needs too much shared memory."""
    if width > WIDEST_BLOCK or shared_bytes(width, 0) > most_shared:
        return 0
    return min(LARGEST_BLOCK_FRONT, most_shared - shared_bytes(width, 0) + CHILD_BYTES * width * width)


def run_in_block(
    program: Any, board: DeviceBoard, own: Tensor, is_held: Tensor, totals: Tensor, width: int, limit: int
) -> tuple[StepsTaken, bool]:
    """Make at most ``limit`` steps, as long as all proposals come before all candidates outside the front.

    ``own`` (u,) are the positions of earlier picks that only some configurations have, ``is_held`` (configurations, u)
    which of them, and ``totals`` the scores. Also returns whether it stopped because the short list was too short.
    """
    n, n_live, device = len(board.start), len(totals), totals.device
    base, control = torch.empty(n, dtype=torch.int32, device=device), torch.empty(3, dtype=torch.int32, device=device)
    keys = torch.empty((width, n), dtype=torch.int32, device=device)
    last_totals = torch.empty(width, dtype=torch.int64, device=device)
    # The parent of ranks without a configuration is rank 0.
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
"""Number of candidates in a front if few pairs are near: most candidates are picked in the front."""
BEAM_FRONT = 2048
"""The same if most pairs are near."""
MOST_PAIRS, FEW_PAIRS = 1 << 21, 1 << 16
"""With more near pairs than the first number, a front is made smaller; with fewer than the second, larger."""
ROWS_PER_CONFIGURATION = 8
"""Minimum number of candidates in a front for each configuration."""
HIGHEST_SCORE = 1 << 37
"""The program packs the score of a child and its number into 63 bits."""


class CannotStep(Exception):
    """The thread block cannot make the steps of this beam; the host can."""


class Past(NamedTuple):
    """The steps in one front: ranks of the parents, candidates, and squared priorities, each (steps, w)."""

    parents: Tensor
    picks: Tensor
    squared: Tensor


class DeviceBeam:
    """A beam: the picks that its configurations do not have in common, and the steps so far."""

    def __init__(self, problem: Problem, bounds: DeviceBounds, scores: IntArray) -> None:
        self.problem, self.bounds = problem, bounds
        self.scores = to_device(scores[problem.candidates], bounds.device)
        self.fronts = Fronts(bounds, first_unpicked)
        self.own = torch.empty(0, dtype=torch.int64, device=bounds.device)
        """(u,) candidates that only some configurations picked."""
        self.is_held = torch.zeros((1, 0), dtype=torch.bool, device=bounds.device)
        """(configurations, u) which configurations picked them."""
        self.totals = torch.zeros(1, dtype=torch.int64, device=bounds.device)
        self.past: list[Past] = []
        self.n_steps = 0
        width = problem.beam_width
        self.program = block_program(bounds.device)
        self.largest = 0 if self.program is None else largest_front(self.program.most_shared, width)
        """Maximum number of candidates in a front."""
        least = min(len(bounds.value), ROWS_PER_CONFIGURATION * width)
        if self.largest < least:
            raise CannotStep
        self.wanted = max(least, min(BLOCK_FRONT, 2 * bounds.sizes.front, self.largest, 2 * problem.budget + 64))
        """Number of candidates in a front if few pairs are near."""
        # With few references, most pairs of candidates are near.
        is_sparse = bounds.references.n_labeled >= BEAM_FRONT
        self.front_rows = self.usual_rows = self.wanted if is_sparse else min(self.wanted, BEAM_FRONT)
        """Number of candidates in a front: now, and usually (a front may have to grow)."""

    def start_cold(self, first: IntArray) -> None:
        """The first step of a cold start: each of these candidates is a configuration, best first."""
        self.own = to_device(np.sort(first), self.bounds.device)
        picks = to_device(first, self.bounds.device)
        self.is_held = picks[:, None] == self.own
        self.totals = self.scores[picks]
        squared = torch.full((1, len(first)), torch.inf, dtype=torch.float64, device=self.bounds.device)
        self.past.append(Past(torch.zeros_like(picks[None]), picks[None], squared))
        self.n_steps = 1

    def solve(self) -> Solution:
        """Step until the budget is reached, or until Ctrl-C, which leaves the configurations so far."""
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
        """One front. Returns the largest remaining squared priority of each configuration; None if not certain."""
        rows, threshold = self.fronts.find(max(1, self.front_rows - len(self.own)))
        if len(self.own):
            rows = torch.unique(torch.cat([rows, self.own]))
        was_stale = self.bounds.refresh(rows)
        if len(rows) > self.front_rows:
            self._grow(len(rows))
        front = DeviceFront(self.bounds, rows)
        if front.n_pairs > MOST_PAIRS and self.front_rows == self.usual_rows > BEAM_FRONT:
            self.front_rows = self.usual_rows = BEAM_FRONT
            return None
        board = front.board(threshold, self.scores)
        steps = self._run(board, torch.searchsorted(rows, self.own), limit)
        if self.usual_rows < self.wanted and front.n_pairs < FEW_PAIRS:
            self.front_rows = self.usual_rows = self.wanted
        highest = steps.keys.amax(dim=1)
        is_certain = bool((highest >= board.bar).all())
        tops = front.squared_of(highest).clamp(min=0.0).cpu().numpy() if is_certain else None
        self._note(front, steps)
        if is_certain and self.n_steps == self.problem.budget and self.problem.progress is None:
            return tops
        self._close(front, steps)
        if not (was_stale or len(steps.picks) or (limit == 0 and is_certain)):
            self._grow(self.front_rows + 1)
        return tops

    def _run(self, board: DeviceBoard, positions: Tensor, limit: int) -> StepsTaken:
        if len(positions) > MOST_OWN:
            raise CannotStep
        beam = positions, self.is_held, self.totals, self.problem.beam_width, limit
        steps, is_stuck = run_in_block(self.program, board, *beam)
        if is_stuck and not len(steps.picks):
            raise CannotStep
        return steps

    def _grow(self, n_rows: int) -> None:
        if n_rows > self.largest:
            raise CannotStep
        self.front_rows = min(1 << (n_rows - 1).bit_length(), self.largest)

    def _note(self, front: DeviceFront, steps: StepsTaken) -> None:
        picks = front.rows[steps.picks.long()]
        self.past.append(Past(steps.parents.long(), picks, front.squared_of(steps.heights)))
        self.n_steps += len(steps.picks)

    def _close(self, front: DeviceFront, steps: StepsTaken) -> None:
        """Write the bounds back, and make the common picks references."""
        rows, bounds, keys = front.rows, self.bounds, steps.keys
        highest = keys.amax(dim=0)
        bounds.value[rows] = front.squared_of(highest)
        is_own = (keys < 0).any(dim=0) & (highest >= 0)
        self.own, self.is_held = rows[is_own], keys[:, is_own] < 0
        self.totals = steps.totals - steps.totals.min()
        bounds.pick(rows[highest < 0])
        # The bounds account for the picks of every configuration, and so for the new references.
        bounds.seen[rows] = bounds.references.count
        bounds.tight[rows] = bounds.n_wanted

    def _configurations(self, tops: FloatArray) -> tuple[Configuration, ...]:
        picks, squared = trace(self.past, len(tops))
        return make_configurations(self.problem, self.problem.candidates[picks], squared, np.sqrt(tops))


def trace(past: list[Past], n_live: int) -> tuple[IntArray, FloatArray]:
    """Picks and squared priorities, each (configurations, steps), of the remaining configurations.

    The rank of a configuration after each step is computed by pointer doubling over the parents.
    """
    width = max((step.parents.shape[1] for step in past), default=1)
    parents, picks, squared = (
        torch.cat([torch.nn.functional.pad(each, (0, width - each.shape[1])) for each in parts])
        for parts in zip(*past, strict=True)
    )
    # Row t: the rank after t + 1 steps of each rank after 2, 3, 5, 9, ... more steps; the last row is the identity.
    same = torch.arange(width, device=parents.device).expand(1, width)
    ranks, stride = torch.cat([parents[1:], same]), 1
    while stride < len(ranks):
        later = torch.cat([ranks[stride:], same.expand(stride, width)])
        ranks, stride = ranks.gather(1, later), 2 * stride
    ranks = ranks[: len(picks), :n_live]
    chosen, heights = (each.gather(1, ranks).T.contiguous().cpu().numpy() for each in (picks, squared))
    return chosen, heights
