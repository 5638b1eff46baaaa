"""Solving a problem of coverage: the reach, the cover there is, the pairs, the picks."""

import heapq

import numpy as np

from dubito.core.coverage_reference import CoverageProblem, add_rows, cold_reach, finished, kernel, warm_reach
from dubito.core.problem import Solution
from dubito.engines.cpu.coverage.engine import CoverPlan, plan_cover
from dubito.engines.cpu.coverage.pairs import CLOSED, EXACT, Found, Lists, PairSearch, TooManyPairs, cut
from dubito.engines.cpu.coverage.space import WIDTHS, Nearest, Probed, Probes, Space, evenly, fit_probes, right
from dubito.engines.cpu.products import product
from dubito.engines.lazy.bounds import first_in_order, squared_lengths
from dubito.engines.lazy.front import Threshold
from dubito.engines.lazy.frontier import Reporter
from dubito.matrix import FloatArray, IntArray, len_of

# Finding the pairs of candidates: of all at once where there is room, otherwise of a front at a time.

ROOM = 1.5
"""How many times the expected number of pairs there should be room for."""


class Opening:
    """Opens candidates: afterwards their pairs are held by the lists."""

    def __init__(self, lists: Lists, limits: FloatArray, plan: CoverPlan, pairs_each: float) -> None:
        self.lists, self.limits, self.plan = lists, limits, plan
        """``limits`` (n,): squared distances among shifted points within which a pick adds something, at first."""
        self.numbers = np.full(len_of(lists.space.problem.pool), -1, dtype=np.int64)
        self.numbers[lists.candidates] = np.arange(len(lists.candidates))
        self.n_together = self._n_for(pairs_each)
        """Candidates that are opened together."""

    def _n_for(self, pairs_each: float) -> int:
        return max(1, min(len(self.lists.candidates), int(self.plan.n_pairs / max(pairs_each, 1.0))))

    def first_bounds(self) -> FloatArray:
        """(n,) upper bounds on what each candidate adds; all of them are open afterwards if there is room."""
        n_candidates, bound, start = len(self.lists.candidates), np.empty(len(self.lists.candidates)), 0
        while start < n_candidates:
            stop = start + self._open(np.arange(start, min(start + self.n_together, n_candidates)))
            bound[start:stop] = self.lists.bounds(start, stop)
            start = stop
        return bound

    def open(self, bound: FloatArray) -> int:
        """Hold the pairs of the first candidates in order of their bounds (n,), of as many as there is room for."""
        chosen, _ = first_in_order(bound, self.n_together)
        n_opened = self._open(chosen[np.argsort(-bound[chosen], kind="stable")])
        self.n_together = self._n_for(ROOM * len(self.lists.found.rows) / n_opened)
        return n_opened

    def _open(self, candidates: IntArray) -> int:
        """Hold the pairs of the first of these candidates; how many there is room for."""
        while True:
            try:
                self.lists.hold(self._search(candidates), candidates)
            except TooManyPairs:
                self.n_together = max(1, len(candidates) // 2)
                candidates = candidates[: self.n_together]
            else:
                return len(candidates)

    def _search(self, candidates: IntArray) -> Found:
        lists, plan = self.lists, self.plan
        all_blocks = cut(self._limits_now(), lists.candidates[np.sort(candidates)], plan.block_rows)
        # Alone, a candidate has no more pairs than there are rows.
        room = plan.n_pairs if len(candidates) > 1 else len(self.numbers)
        search = PairSearch(lists.probed, all_blocks, lists.scaled_reach, room)
        return search.run(self.numbers, len(lists.candidates))

    def _limits_now(self) -> FloatArray:
        """Limits with the cover that there is: beyond ``R²·(1 - √cover)`` a kernel is no larger."""
        reach = self.lists.scaled_reach
        now = reach * ((1.0 - np.sqrt(self.lists.cover)) * (1.0 + 1e-9) + 1e-12)
        return np.where(self.limits > 0.0, np.minimum(self.limits, now), -1.0)


# Greedy picks: candidates in the order of their bounds, what stands first made exact.

FRONT = 512
"""Candidates that are brought up to date together, at most."""


class CoverGreedy:
    """A run: bounds on what each candidate adds for its cost, -1 once it is picked, and the picks so far."""

    def __init__(self, lists: Lists, opening: Opening) -> None:
        problem, self.lists, self.opening = lists.space.problem, lists, opening
        self.costs = None if problem.costs is None else problem.costs[problem.candidates]
        # What is no less stays so over a cost: one division, which rounds all alike.
        self.bound = problem.priorities(slice(None), opening.first_bounds())
        self.stamp = np.full(len(self.bound), -1, dtype=np.int64)
        """(n,) how many picks there were when a bound was computed."""
        self.picks: list[int] = []
        self.gained: list[float] = []
        self.quotas, self.rows = problem.quotas, problem.candidates
        self.room = None if self.quotas is None else self.quotas.limits.copy()

    def step(self, budget: int) -> None:
        """One front: bring it up to date, and pick from it until something outside may come first."""
        front, threshold = first_in_order(self.bound, FRONT)
        if self.bound[front].max(initial=0.0) <= 0.0:
            # Nothing adds anything any more: the lowest numbers meet the budget.
            rest = np.flatnonzero(self.bound == 0.0)
            if self.quotas is not None and self.room is not None:
                rest = rest[self.quotas.allowed(self.rows[rest], self.room)]
            for candidate in rest[: budget - len(self.picks)].tolist():
                self._note(candidate, 0.0)
            return
        if (self.lists.level[front] == CLOSED).any():
            front, threshold = first_in_order(self.bound, min(FRONT, self.opening.open(self.bound)))
        self.lists.refine(front)
        for candidate in front.tolist():
            self._renew(candidate)
        self._pick(front, threshold, budget)

    def _pick(self, front: IntArray, threshold: Threshold, budget: int) -> None:
        heap = [(-float(self.bound[candidate]), candidate) for candidate in front.tolist()]
        heapq.heapify(heap)
        while heap and len(self.picks) < budget:
            value, candidate = -heap[0][0], heap[0][1]
            if self.bound[candidate] < 0.0:
                heapq.heappop(heap)  # Its class is full.
                continue
            if value <= 0.0 or not threshold.admits(value, candidate):
                return
            if self.stamp[candidate] == len(self.picks):
                if self.lists.level[candidate] == EXACT:
                    heapq.heappop(heap)
                    gain = value if self.costs is None else self.lists.bound(candidate)
                    self.lists.take(candidate)
                    self._note(candidate, gain)
                    continue
                self.lists.settle(candidate)
            self._renew(candidate)
            heapq.heapreplace(heap, (-float(self.bound[candidate]), candidate))

    def _renew(self, candidate: int) -> None:
        """A bound with the cover that there is now; it never grows."""
        cost = 1.0 if self.costs is None else float(self.costs[candidate])
        self.bound[candidate] = min(float(self.bound[candidate]), self.lists.bound(candidate) / cost)
        self.stamp[candidate] = len(self.picks)

    def _note(self, candidate: int, gain: float) -> None:
        self.bound[candidate] = -1.0
        self.picks.append(candidate)
        self.gained.append(gain)
        if self.quotas is not None and self.room is not None:
            own = self.quotas.classes[self.rows[candidate]]
            self.room[own] -= 1
            if self.room[own] == 0:
                self.bound[self.quotas.classes[self.rows] == own] = -1.0


# How wide probes should be: tried on a few pairs.

TRIAL_ROWS = 512
CLOSER_LOOK = 30.0
"""A feature of a pair that is looked at closely costs as much as so many of a product."""


def choose_probes(space: Space, widest: Probes, rows: IntArray, limits: FloatArray) -> tuple[Probes, float]:
    """The probes that should cost least, and the share of all pairs that they let through.

    ``limits`` (r,) are those of some ``rows`` of the pool, squared, among shifted points.
    """
    few, candidates = evenly(len(rows), TRIAL_ROWS), space.problem.candidates
    others = candidates[evenly(len(candidates), TRIAL_ROWS)]
    near, far = space.shifted(rows[few]), space.shifted(others)
    # A row and itself are a pair that there is one of, not one in a few hundred.
    floor = np.where(rows[few][:, None] == others, np.inf, -0.5 * limits[few][:, None])
    widths = [] if widest.directions is None else [width for width in WIDTHS if width <= widest.width]
    tried = list[tuple[float, Probes, float]]()
    for width in (*widths, near.shape[1]):
        probes = widest.narrow(width)
        nearness = product(probes.left(near, squared_lengths(near)), right(probes.left(far, squared_lengths(far))))
        share = float(np.mean(nearness > floor)) if len(few) else 0.0
        # A product serves both ways about.
        closer = 0.0 if probes.directions is None else share * CLOSER_LOOK * near.shape[1]
        tried.append((0.5 * probes.width + closer, probes, share))
    _, probes, share = min(tried, key=lambda each: each[0])
    return probes, share


SMALL_PROBLEM = 2e10
"""Products of features below which fitting probes costs more than it saves."""
FIRST_WIDTH = 128
"""Of the probes that find the reach: then it is known what width is best."""


def solve(problem: CoverageProblem) -> Solution:
    """The reference's picks; after Ctrl-C a prefix of them."""
    reporter = Reporter(problem)
    cover = FirstCover(problem)
    if cover.reach == 0.0:
        return _by_weight(problem)
    lists = Lists(cover.probed, cover.cover, cover.reach)
    before = float(add_rows(problem.weights * cover.cover))
    greedy, complete = CoverGreedy(lists, Opening(lists, cover.limits, cover.plan, cover.pairs_each)), True
    try:
        while len(greedy.picks) < problem.budget:
            greedy.step(problem.budget)
            reporter.report(len(greedy.picks), None)
    except KeyboardInterrupt:
        complete = False
    return Solution((finished(problem, cover.reach, before, greedy.picks, greedy.gained),), complete)


class FirstCover:
    """What is covered before any pick, and how near a pick must come to add something."""

    def __init__(self, problem: CoverageProblem) -> None:
        self.problem = problem
        n_pool, d = problem.pool.shape
        self.plan = plan_cover(n_pool, d, problem.memory_limit)
        space = Space(problem)
        self.nearest, widest = Nearest(space, problem.known), _widest(space)
        self.reach = self._reach(widest.narrow(min(FIRST_WIDTH, widest.width)))
        if self.reach == 0.0:
            return
        sample, unit = problem.sample, space.unit
        probes, share = choose_probes(space, widest, sample, self._squared_limits(self.nearest.squared[sample]) * unit)
        wanted = np.flatnonzero(problem.weights > 0.0)
        nearest = self.nearest.of(wanted, probes)
        self.pairs_each = share * len(wanted)
        """About how many pairs a candidate has."""
        self.cover, self.limits = np.zeros(len_of(problem.pool)), np.full(len_of(problem.pool), -1.0)
        self.cover[wanted] = kernel(nearest, self.reach)
        self.limits[wanted] = self._squared_limits(nearest) * unit
        self.probed = Probed(space, probes, 4 * len(self.cover) * (probes.width + 3) <= self.plan.probe_bytes)

    def _squared_limits(self, nearest: FloatArray) -> FloatArray:
        return np.minimum(nearest, self.reach)

    def _reach(self, probes: Probes) -> float:
        problem = self.problem
        if problem.radius is not None:
            return problem.radius * problem.radius
        if len_of(problem.references) == 0:
            return cold_reach(problem)
        return warm_reach(self.nearest.of(problem.sample, probes), problem.factor)


def _widest(space: Space) -> Probes:
    """Probes as wide as may pay; points themselves where there is less to multiply than to fit."""
    (n_pool, d), n_candidates = space.problem.pool.shape, len(space.problem.candidates)
    return fit_probes(space.sample()) if n_pool * n_candidates * d > SMALL_PROBLEM else Probes(None, d)


def _by_weight(problem: CoverageProblem) -> Solution:
    """Without reach a candidate covers itself alone."""
    weights = problem.weights[problem.candidates]
    picks = np.argsort(-problem.priorities(slice(None), weights), kind="stable")
    if problem.quotas is not None:
        picks = picks[problem.quotas.allowed(problem.candidates[picks], problem.quotas.limits)]
    picks = picks[: problem.budget]
    return Solution((finished(problem, 0.0, 0.0, picks, weights[picks]),))
