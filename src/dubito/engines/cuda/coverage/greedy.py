"""Greedy picks on a device: those of the candidates that are open, in rounds, down to a level at a time."""

import numpy as np
import torch

from dubito.engines.cuda.coverage.ground import Ground
from dubito.engines.cuda.coverage.lists import DeviceLists, TooManyPairs, open_lists
from dubito.engines.cuda.fronts import first_in_order, first_of
from dubito.engines.cuda.points import Tensor, to_device
from dubito.engines.cuda.programs.cover import Marks, cover_rounds
from dubito.engines.cuda.programs.within import most_covered
from dubito.engines.lazy.front import Threshold
from dubito.engines.lazy.rounding import SMALLEST
from dubito.matrix import FloatArray, IntArray, len_of

AHEAD = 3
"""Candidates looked at in a stage, for each pick that is still wanted: many of them will fall."""
FIRST_PAIRS = 1 << 20
ROOM = 2
"""How many times the pairs that there should be are made room for."""


class DeviceCover:
    """A run: what is open, upper bounds on the others, and the picks so far. Candidates are numbered from 0."""

    def __init__(self, ground: Ground) -> None:
        self.ground, problem = ground, ground.problem
        self.numbers = to_device(problem.candidates, ground.cover.device)
        self.bound = torch.full((len(self.numbers),), torch.inf, dtype=torch.float64, device=ground.cover.device)
        """(n,) upper bounds on what candidates add; -1 once picked."""
        self.together = len(self.numbers)
        """Candidates that are opened together."""
        n_pool, m = len_of(problem.pool), len_of(problem.references)
        self.guess = max(FIRST_PAIRS, ROOM * n_pool * n_pool // (m + 1)) if m else FIRST_PAIRS
        self.picks: list[Tensor] = []
        self.gains: list[Tensor] = []
        self.n_picks = 0

    def step(self) -> None:
        """One front: open it, and pick from it all that comes before what is outside."""
        n_left = self.ground.problem.budget - self.n_picks
        front = first_in_order(self.bound, self.together)
        if not len(front.rows):
            # Nothing adds anything any more: the lowest numbers meet the budget.
            zeros = torch.nonzero(self.bound == 0.0)[:n_left, 0]
            self._take(zeros, self.bound[zeros])
            return
        try:
            lists = open_lists(self.ground, self.numbers[front.rows], self.guess)
        except TooManyPairs as error:
            self._make_fronts(len(front.rows), error.n_pairs)
            return
        self.guess = max(FIRST_PAIRS, ROOM * len(lists.rows))
        self._pick(front.rows, lists, front.threshold, n_left)

    def _make_fronts(self, n_tried: int, n_pairs: int) -> None:
        """Open fewer at a time from now on, in the order of bounds, which there must be then."""
        fewer = int(n_tried * self.ground.room / (ROOM * n_pairs))
        self.together = max(1, min(fewer, n_tried // 2))
        if bool(torch.isinf(self.bound).any()):
            self.bound = upper_bounds(self.ground, self.numbers)

    def _pick(self, front: Tensor, lists: DeviceLists, outside: Threshold, n_left: int) -> None:
        """Stage after stage, each down to a lower level, until the front has nothing more before what is outside."""
        ground, gains = self.ground, lists.gains
        marks = Marks(len(front), len(ground.cover), ground.cover.device)
        # What is outside has a number among all candidates; those of the front ascend, too.
        edge = Threshold(outside.value, int((front < outside.row).sum()) if outside.row >= 0 else -1)
        while True:
            free = torch.where(marks.picked == 0, gains, -1.0)
            level = first_of(edge, first_in_order(free, AHEAD * n_left).threshold)
            cover_rounds(
                lists.starts, lists.owners, lists.rows, lists.kernels, lists.terms, ground.weights, ground.cover,
                gains, marks, level,
            )  # fmt: skip
            places = torch.nonzero(marks.picked)[:, 0]
            if len(places) >= n_left or level == edge:
                break
        added, order = torch.sort(gains[places], descending=True, stable=True)
        self.bound[front] = gains
        self._take(front[places[order[:n_left]]], added[:n_left])

    def _take(self, candidates: Tensor, added: Tensor) -> None:
        self.bound[candidates] = -1.0
        self.picks.append(candidates)
        self.gains.append(added)
        self.n_picks += len(candidates)

    def found(self) -> tuple[IntArray, FloatArray]:
        """Picks in order, and what each added."""
        nothing = np.empty(0, dtype=np.int64), np.empty(0)
        if not self.picks:
            return nothing
        picks: IntArray = torch.cat(self.picks).cpu().numpy()
        added: FloatArray = torch.cat(self.gains).cpu().numpy()
        return picks, added


def upper_bounds(ground: Ground, numbers: Tensor) -> Tensor:
    """(c,) from products alone, of candidates given by their rows in the pool."""
    live, bound = ground.live_rows(), torch.zeros(len(numbers), dtype=torch.float64, device=numbers.device)
    if len(live) == 0:
        return bound
    largest = ground.weights.max()
    # Weights over the largest, and no smaller than float32 has digits for.
    weights = (ground.weights[live] / largest).clamp(min=1e-30).float() * (1.0 + 2.0**-20)
    cover = (ground.cover[live] * (1.0 - 2.0**-20)).float()
    reach = ground.reach * ground.shape.scale**2
    most_covered(ground.shaped[live], ground.shaped[numbers], weights, cover, reach, ground.constants, bound)
    return torch.where(bound > 0.0, bound * (largest * (1.0 + 2.0**-20)) + SMALLEST, 0.0)
