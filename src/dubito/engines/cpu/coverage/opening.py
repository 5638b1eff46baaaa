"""Finding the pairs of candidates: of all at once where there is room, otherwise of a front at a time."""

import numpy as np

from dubito.engines.cpu.coverage.lists import Lists
from dubito.engines.cpu.coverage.memory import CoverPlan
from dubito.engines.cpu.coverage.pairs import Found, PairSearch, TooManyPairs, cut
from dubito.engines.lazy.bounds import first_in_order
from dubito.matrix import FloatArray, IntArray, len_of

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
