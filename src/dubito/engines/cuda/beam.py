"""The beam on a GPU: fronts as in `dubito.engines.lazy.beam`, where one thread block makes all steps inside a front.

Picks that all configurations have in common are references like any other; the other picks of a configuration are part
of every front. If all priorities of a front are exact but no step is possible, the front is enlarged. If the thread
block cannot continue (the beam is too wide, NVRTC is missing, or configurations differ in too many picks),
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

# A front of a beam. All squared priorities that a candidate of the front can have are known in advance: the one at the
# start, and the one after each single pick. They are sorted by (priority; index, highest first), and their positions in
# this order are the *keys*: integers that compare like the priorities of the reference, including ties.


@dataclass(frozen=True, slots=True)
class KeyedFront:
    """A front of n candidates, with keys in place of priorities, and the effects of picks."""

    start: Tensor
    """(n,) int32 keys before a configuration's own picks."""
    picks: Tensor
    """(e,) int64 positions, in any order: the pick of each effect."""
    others: Tensor
    """(e,) int64 positions of the candidates whose priority the pick lowers."""
    left: Tensor
    """(e,) int32 keys of these candidates after the pick."""
    gains: Tensor
    """(n,) int64 scores."""
    threshold_key: Tensor
    """(1,) int32: the smallest key that comes before all candidates outside the front; -1 if there are none."""
    n_keys: int
    """Larger than all keys."""

    def by_pick(self) -> tuple[Tensor, Tensor, Tensor]:
        """The effects in the order of picks, int32: (n + 1,) the start of each pick, the candidates, and their keys."""
        picks, order = torch.sort(self.picks)
        positions = torch.arange(len(self.start) + 1, device=picks.device)
        return torch.searchsorted(picks, positions, out_int32=True), self.others[order].int(), self.left[order]


@dataclass(frozen=True, slots=True)
class StepsTaken:
    """The result of a front."""

    keys: Tensor
    """(w, n) the keys of all candidates in each remaining configuration; -1 for its picks."""
    totals: Tensor
    """(w,) the scores of the configurations."""
    parents: Tensor
    """(steps, w) ranks in the step before."""
    picks: Tensor
    """(steps, w) positions in the front."""
    pick_keys: Tensor
    """(steps, w) keys of the picks when they were picked."""


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
        own = references.prepare(self.exact)
        # A priority of 0 cannot be lowered, and a weight of 0 must not be a divisor.
        if bounds.by_pick:
            priorities, scales = torch.where(start > 0.0, start, -1.0), self.weights
        else:
            priorities, scales = start, torch.where(start > 0.0, self.weights, 1.0)
        positions = torch.arange(len(self.rows), device=self.rows.device)
        return near_pairs(
            own, own, positions, priorities, scales, bounds.constants, references.transform.precision,
            self.weights if bounds.by_pick else None,
        )  # fmt: skip

    def keyed(self, threshold: Threshold, scores: Tensor) -> KeyedFront:
        """The front with keys in place of priorities. Afterwards, `squared_of` converts keys to squared priorities."""
        picks, others, left = self._effects()
        n, device = len(self.rows), self.rows.device
        owner = torch.cat([torch.arange(n, device=device), others])
        values = torch.cat([self.start, left])
        order = in_order(values, owner)
        self.squared = values[order]
        """Ascending: the squared priority of each key."""
        keys = torch.empty(len(order), dtype=torch.int32, device=device)
        keys[order] = torch.arange(len(order), dtype=torch.int32, device=device)
        threshold_key = self._threshold_key(threshold, self.rows[owner[order]])
        return KeyedFront(keys[:n], picks, others, keys[n:], scores[self.rows], threshold_key, len(order))

    def _effects(self) -> tuple[Tensor, Tensor, Tensor]:
        """Picks, the candidates whose squared priorities they lower, and these priorities after the pick."""
        squared = exact_sq_distances(self.exact, self.exact, self.pairs)
        lefts, rights = (side.long() for side in self.pairs)
        picks, others = torch.cat([lefts, rights]), torch.cat([rights, lefts])
        left = torch.cat([squared, squared]) * self.weights[picks if self.bounds.by_pick else others]
        is_lower = left < self.start[others]
        return picks[is_lower], others[is_lower], left[is_lower]

    def _threshold_key(self, threshold: Threshold, rows: Tensor) -> Tensor:
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
SHARED_BYTES, LIST_BYTES = 8784, 6144
"""The sizes of the structs `Shared` and `ListScratch`, which the compiler checks."""
CHILD_BYTES = 16
LARGEST_BLOCK_FRONT = SLOTS * SLOTS
"""Maximum number of candidates in a front: their keys are stored temporarily in an array of this size."""
STUCK = 2
"""The outcome of the program if the short list was too short."""
SOURCES = tuple(Path(nvrtc.__file__).parent / "block" / f"{name}.cu" for name in ("state", "list", "children", "steps"))
CONSTANTS = tuple(
    f"{name}={value}"
    for name, value in {
        "SLOTS": SLOTS, "PITCH": PITCH, "WIDEST": WIDEST_BLOCK, "MOST_OWN": MOST_OWN, "BUCKETS": BUCKETS,
        "SHARED_BYTES": SHARED_BYTES, "LIST_BYTES": LIST_BYTES,
    }.items()
)  # fmt: skip


class BlockTask(ctypes.Structure):
    """The argument of the program: `Task` of ``state.cu``."""

    _fields_ = (
        *(
            (name, c_void_p)
            for name in ("start", "starts", "others", "left", "threshold_key", "gains", "own", "is_held")
        ),
        *((name, c_void_p) for name in ("totals", "base", "keys", "last_totals", "records", "control")),
        *((name, c_int) for name in ("n", "n_keys", "n_own", "n_live", "width", "limit")),
    )


def block_program(device: Any) -> Any:
    """The program for a device, or None if it is not available."""
    if device.type != "cuda":
        return None
    return nvrtc.load_program(SOURCES, "make_block_steps", CONSTANTS, device.index or 0)


def shared_bytes(width: int, n: int) -> int:
    """Bytes of shared memory for a front of n candidates."""
    # The memory in which a list is built is used again for the keys of configurations and for children.
    n_either = max(-(-width * PITCH // 4) * 16, LIST_BYTES) + max(CHILD_BYTES * width * width, n)
    return SHARED_BYTES + 4 * SLOTS * SLOTS + n_either


def largest_front(most_shared: int, width: int) -> int:
    """Maximum number of candidates in a front; 0 if the beam is too wide or needs too much shared memory."""
    if width > WIDEST_BLOCK or shared_bytes(width, 0) > most_shared:
        return 0
    return min(LARGEST_BLOCK_FRONT, most_shared - shared_bytes(width, 0) + CHILD_BYTES * width * width)


def run_in_block(
    program: Any, keyed: KeyedFront, own: Tensor, is_held: Tensor, totals: Tensor, width: int, limit: int
) -> tuple[StepsTaken, bool]:
    """Make at most ``limit`` steps, as long as all proposals come before all candidates outside the front.

    ``own`` (u,) are the positions of earlier picks that only some configurations have, ``is_held`` (configurations, u)
    tells which configurations have them, and ``totals`` are the scores. The second result is True if the program
    stopped because the short list was too short.
    """
    n, n_live, device = len(keyed.start), len(totals), totals.device
    base, control = torch.empty(n, dtype=torch.int32, device=device), torch.empty(3, dtype=torch.int32, device=device)
    keys = torch.empty((width, n), dtype=torch.int32, device=device)
    last_totals = torch.empty(width, dtype=torch.int64, device=device)
    # Ranks without a configuration have the parent 0.
    records = torch.zeros((limit, width, 4), dtype=torch.int32, device=device)
    own, held, totals = own.contiguous(), is_held.contiguous(), totals.contiguous()
    tensors = (
        keyed.start, *keyed.by_pick(), keyed.threshold_key, keyed.gains, own, held,
        totals, base, keys, last_totals, records, control,
    )  # fmt: skip
    task = BlockTask(*(each.data_ptr() for each in tensors), n, keyed.n_keys, len(own), n_live, width, limit)
    program.run(task, WARP * max(width, LEAST_WARPS), shared_bytes(width, n))
    made, n_live, outcome = control.tolist()
    parents, picks, pick_keys, _ = records[:made].unbind(dim=2)
    steps = StepsTaken(keys[:n_live], last_totals[:n_live], parents, picks, pick_keys)
    return steps, outcome == STUCK


BLOCK_FRONT = 8192
"""Number of candidates in a front if few pairs are near, so that most of the candidates are picked."""
BEAM_FRONT = 2048
"""Number of candidates in a front if most pairs are near."""
MOST_PAIRS, FEW_PAIRS = 1 << 21, 1 << 16
"""If a front has more near pairs than the first number, fronts become smaller; if fewer than the second, larger."""
ROWS_PER_CONFIGURATION = 8
"""Minimum number of candidates in a front for each configuration."""
HIGHEST_SCORE = 1 << 37
"""Scores must be smaller: the program packs the score of a child and its number into 63 bits."""


class CannotStep(Exception):
    """The thread block cannot make the steps of this beam; the host can."""


class StepRecord(NamedTuple):
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
        """(configurations, u) whether each configuration picked each of them."""
        self.totals = torch.zeros(1, dtype=torch.int64, device=bounds.device)
        self.records: list[StepRecord] = []
        self.n_steps = 0
        width = problem.beam_width
        self.program = block_program(bounds.device)
        self.max_front_rows = 0 if self.program is None else largest_front(self.program.most_shared, width)
        """Maximum number of candidates in a front."""
        least = min(len(bounds.value), ROWS_PER_CONFIGURATION * width)
        if self.max_front_rows < least:
            raise CannotStep
        self.preferred_front_rows = max(
            least, min(BLOCK_FRONT, 2 * bounds.sizes.front, self.max_front_rows, 2 * problem.budget + 64)
        )
        """Number of candidates in a front if few pairs are near."""
        # With few references, most pairs of candidates are near.
        is_sparse = bounds.references.n_labeled >= BEAM_FRONT
        self.front_rows = self.usual_front_rows = (
            self.preferred_front_rows if is_sparse else min(self.preferred_front_rows, BEAM_FRONT)
        )
        """Number of candidates in a front: now, and usually (a front may have to grow)."""

    def start_cold(self, first: IntArray) -> None:
        """The first step of a cold start: each of these candidates becomes a configuration, best first."""
        self.own = to_device(np.sort(first), self.bounds.device)
        picks = to_device(first, self.bounds.device)
        self.is_held = picks[:, None] == self.own
        self.totals = self.scores[picks]
        squared = torch.full((1, len(first)), torch.inf, dtype=torch.float64, device=self.bounds.device)
        self.records.append(StepRecord(torch.zeros_like(picks[None]), picks[None], squared))
        self.n_steps = 1

    def solve(self) -> Solution:
        """Make steps until the budget is reached. After Ctrl-C, return the configurations so far."""
        reporter, complete, largest_remaining = Reporter(self.problem), True, None
        try:
            while self.n_steps < self.problem.budget:
                largest_remaining = self._step(self.problem.budget - self.n_steps)
                if self.problem.progress is not None:
                    reporter.report(self.n_steps, lambda: float(self.bounds.value.max()))
        except KeyboardInterrupt:
            complete = False
        while largest_remaining is None:
            largest_remaining = self._step(0)
        return Solution(self._configurations(largest_remaining), complete)

    def _step(self, limit: int) -> FloatArray | None:
        """Process a front. Returns the largest remaining squared priority of each configuration; None if uncertain."""
        rows, threshold = self.fronts.find(max(1, self.front_rows - len(self.own)))
        if len(self.own):
            rows = torch.unique(torch.cat([rows, self.own]))
        was_stale = self.bounds.refresh(rows)
        if len(rows) > self.front_rows:
            self._grow(len(rows))
        front = DeviceFront(self.bounds, rows)
        if front.n_pairs > MOST_PAIRS and self.front_rows == self.usual_front_rows > BEAM_FRONT:
            self.front_rows = self.usual_front_rows = BEAM_FRONT
            return None
        keyed = front.keyed(threshold, self.scores)
        steps = self._run(keyed, torch.searchsorted(rows, self.own), limit)
        if self.usual_front_rows < self.preferred_front_rows and front.n_pairs < FEW_PAIRS:
            self.front_rows = self.usual_front_rows = self.preferred_front_rows
        highest = steps.keys.amax(dim=1)
        is_certain = bool((highest >= keyed.threshold_key).all())
        largest_remaining = front.squared_of(highest).clamp(min=0.0).cpu().numpy() if is_certain else None
        self._note(front, steps)
        if is_certain and self.n_steps == self.problem.budget and self.problem.progress is None:
            return largest_remaining
        self._close(front, steps)
        if not (was_stale or len(steps.picks) or (limit == 0 and is_certain)):
            self._grow(self.front_rows + 1)
        return largest_remaining

    def _run(self, keyed: KeyedFront, positions: Tensor, limit: int) -> StepsTaken:
        if len(positions) > MOST_OWN:
            raise CannotStep
        beam = positions, self.is_held, self.totals, self.problem.beam_width, limit
        steps, needs_host = run_in_block(self.program, keyed, *beam)
        if needs_host and not len(steps.picks):
            raise CannotStep
        return steps

    def _grow(self, n_rows: int) -> None:
        if n_rows > self.max_front_rows:
            raise CannotStep
        self.front_rows = min(1 << (n_rows - 1).bit_length(), self.max_front_rows)

    def _note(self, front: DeviceFront, steps: StepsTaken) -> None:
        picks = front.rows[steps.picks.long()]
        self.records.append(StepRecord(steps.parents.long(), picks, front.squared_of(steps.pick_keys)))
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
        bounds.tight[rows] = bounds.n_applicable

    def _configurations(self, largest_remaining: FloatArray) -> tuple[Configuration, ...]:
        picks, squared = trace_configurations(self.records, len(largest_remaining))
        return make_configurations(self.problem, self.problem.candidates[picks], squared, np.sqrt(largest_remaining))


def trace_configurations(records: list[StepRecord], n_live: int) -> tuple[IntArray, FloatArray]:
    """Picks and squared priorities, each (configurations, steps), of the remaining configurations.

    The rank of a configuration after each step is computed by pointer doubling over the parents.
    """
    width = max((step.parents.shape[1] for step in records), default=1)
    parents, picks, squared = (
        torch.cat([torch.nn.functional.pad(each, (0, width - each.shape[1])) for each in parts])
        for parts in zip(*records, strict=True)
    )
    # Row t: the rank after t + 1 steps of each rank after 2, 3, 5, 9, ... more steps; the last row is the identity.
    same = torch.arange(width, device=parents.device).expand(1, width)
    ranks, stride = torch.cat([parents[1:], same]), 1
    while stride < len(ranks):
        later = torch.cat([ranks[stride:], same.expand(stride, width)])
        ranks, stride = ranks.gather(1, later), 2 * stride
    ranks = ranks[: len(picks), :n_live]
    chosen, priorities = (each.gather(1, ranks).T.contiguous().cpu().numpy() for each in (picks, squared))
    return chosen, priorities
