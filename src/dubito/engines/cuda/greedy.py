"""Greedy picks on a device: the picks among a front of thousands of candidates are made in a few rounds.

Greedy picks are ordered by priority, largest first, ties by index, and priorities only decrease. So a candidate is
certain to be picked, at its current priority, once no candidate that comes before it could lower this priority. A round
picks all certain candidates and then lowers the priorities of the others. Only pairs of near candidates matter, a few
for each candidate. Products on tensor cores find them, with bounds that never miss a pair; their distances are then
computed like those of the reference. So all decisions are made with the numbers of the reference, including ties.
"""

import numpy as np
import torch

from dubito.core.problem import Configuration, Problem, Solution
from dubito.engines.cuda.bounds import DeviceBounds, FirstRows, Fronts, first_in_order
from dubito.engines.cuda.points import Tensor
from dubito.engines.cuda.programs.exact import exact_sq_distances
from dubito.engines.cuda.programs.pairs import TooManyPairs, near_pairs
from dubito.engines.cuda.programs.rounds import decide
from dubito.engines.lazy.configurations import make_configuration
from dubito.engines.lazy.front import Threshold
from dubito.engines.lazy.interfaces import Reporter

RADIUS_FRONT = 64
WIDE = 4
"""Fronts are this many times as large while few of their candidates are near each other."""
MOST_PAIRS = 1 << 21
"""Maximum number of near pairs in such a front."""


class DeviceGreedy:
    """A greedy run: the bounds and the picks so far."""

    def __init__(self, problem: Problem, bounds: DeviceBounds) -> None:
        self.problem, self.bounds, self.front = problem, bounds, WIDE * bounds.sizes.front
        self.fronts = Fronts(bounds, first_in_order)
        n_first = len(bounds.picked)
        self.squared = [torch.full((n_first,), torch.inf, dtype=torch.float64, device=bounds.device)]
        self.next_squared: float | None = None

    def solve(self) -> Solution:
        """Pick until the budget is reached. After Ctrl-C, the picks so far are a prefix of the full answer."""
        reporter, complete = Reporter(self.problem), True
        try:
            while len(self.bounds.picked) < self.problem.budget:
                self._step()
                if self.problem.progress is not None:
                    reporter.report(len(self.bounds.picked), lambda: float(self.bounds.value.max()))
        except KeyboardInterrupt:
            complete = False
        return Solution((self._configuration(),), complete)

    def _step(self) -> None:
        """Find a front, refresh it, and pick from it."""
        bounds, n_left = self.bounds, self.problem.budget - len(self.bounds.picked)
        rows, threshold = self._fresh(min(self.front, n_left + n_left // 4 + RADIUS_FRONT))
        if not len(rows):
            # All remaining priorities are 0: fill the budget with the lowest numbers.
            zeros = torch.nonzero(bounds.value == 0.0)[:n_left, 0]
            self._take(zeros, bounds.value[zeros])
            return
        priorities = bounds.value[rows]
        try:
            picked = self._decide(rows, threshold, priorities)
        except TooManyPairs:
            self.front = bounds.sizes.front
            return
        # Positions are ascending and the sort is stable, so that ties go to the lowest index.
        positions = torch.nonzero(picked)[:, 0]
        squared, order = torch.sort(priorities[positions], descending=True, stable=True)
        if len(positions) > n_left:
            self.next_squared = float(squared[n_left])
        bounds.value[rows] = priorities
        self._take(rows[positions[order[:n_left]]], squared[:n_left])
        bounds.seen[rows] = bounds.references.count
        bounds.tight[rows] = bounds.n_applicable

    def _take(self, rows: Tensor, squared: Tensor) -> None:
        self.bounds.pick(rows)
        self.squared.append(squared)

    def _fresh(self, size: int) -> FirstRows:
        """The first candidates, with exact priorities."""
        ranked = self.fronts.find(size)
        self.bounds.refresh(ranked.rows)
        return ranked

    def _decide(self, rows: Tensor, threshold: Threshold, priorities: Tensor) -> Tensor:
        """Whether each candidate of a front is picked. Lowers the ``priorities`` of the others."""
        bounds, references = self.bounds, self.bounds.references
        exact = references.widen(bounds.exact(rows))
        own, weights = references.prepare(exact), bounds.weights[rows]
        pairs = near_pairs(
            own, own, rows, bounds.value, bounds.weights, bounds.constants, references.transform.precision,
            weights if bounds.by_pick else None, most=MOST_PAIRS if len(rows) > bounds.sizes.front else None,
        )  # fmt: skip
        squared = exact_sq_distances(exact, exact, pairs)
        return decide(pairs, squared, weights, rows, threshold, priorities, by_pick=bounds.by_pick)

    def _radius(self) -> float:
        """The priority that the next pick would have."""
        while self.next_squared is None:
            rows, threshold = self._fresh(RADIUS_FRONT)
            highest = float(self.bounds.value[rows].max()) if len(rows) else 0.0
            if highest >= threshold.value:
                self.next_squared = highest
        return float(np.sqrt(self.next_squared))

    def _configuration(self) -> Configuration:
        radius, squared = self._radius(), torch.cat(self.squared).cpu().numpy()
        picks = self.bounds.picked[: len(squared)].cpu().numpy()
        return make_configuration(self.problem, self.problem.candidates[picks], squared, radius)
