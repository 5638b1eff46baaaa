"""The plain way for small problems: one product with what is labeled, then picks among those that come first.

It keeps one number of float32 a candidate, about its squared distance to the nearest reference, and a bound on how far
that is off. A few hundred that come first are the front. Products in float64 give each of them an interval that holds
its exact priority, and picks are made there while none outside can come before; then all others are compared with
these picks. Contenders are settled as `dubito.engines.lazy.front` does it: picks and priorities are the reference's.
"""

import numpy as np

from dubito.core.distances import read_rows, settle
from dubito.core.problem import Problem, Solution
from dubito.core.reference import cold_order
from dubito.engines.cpu.sketch import plain_sketch
from dubito.engines.lazy.bounds import FLOOR, ROUND_UP, SMALLEST, Float32Array, front_slack
from dubito.engines.lazy.configurations import finished
from dubito.engines.lazy.front import Front, FrontPicking, Threshold
from dubito.engines.lazy.frontier import Reporter
from dubito.matrix import FloatArray, IntArray, Matrix, blocks, len_of

FEW = 16
"""Rows that say where the points lie."""
PICKED, FAR = -1e30, 1e30
"""Beyond every squared distance in scaled units."""
FRONT, LARGEST_FRONT = 64, 384
"""Candidates in a front: so many and two for each pick, but no more than these at first."""
TOO_MANY = 2048
"""Candidates that may be in a front at all."""
BLOCK = 1 << 20
"""Products at a time."""
PAIR_VALUES = 1 << 18
"""Features in a block of pairs that are settled."""
UNSURE = 2.0**-10
"""More than what float32 rounds of a length."""


class NotPlain(Exception):
    """So many candidates are level that the lazy way is quicker; ``described`` picks were reported already."""

    def __init__(self, described: int) -> None:
        super().__init__(described)
        self.described = described


def solve(problem: Problem) -> Solution:
    """The reference's picks. Raises NotPlain."""
    return Plain(problem).solve()


class Few(FrontPicking):
    """Picks in a front whose candidates start with intervals, not with exact priorities."""

    def __init__(self, plain: "Plain", places: IntArray, front: Front, low: FloatArray, high: FloatArray) -> None:
        super().__init__(front, high)
        self.plain, self.places, self.low = plain, places, low

    def settle(self, unsure: IntArray) -> None:
        """Against every reference there is, the picks made here among them."""
        picks = [*self.plain.picks, *self.places[self.picks].tolist()]
        self.low[unsure] = self.high[unsure] = self.plain.settled(self.places[unsure], picks)


class Plain:
    """A run: candidates go by their places, references are what is labeled, then picks."""

    def __init__(self, problem: Problem) -> None:
        self.problem, self.n_labeled = problem, len_of(problem.references)
        n_candidates, d = len(problem.candidates), problem.pool.shape[1]
        few = problem.candidates[:: -(-n_candidates // FEW)]
        self.sketch = plain_sketch(read_rows(problem.pool, few, problem.metric), problem.largest)
        is_whole = n_candidates == len_of(problem.pool)
        self.points = self._read(problem.pool, slice(None) if is_whole else problem.candidates)
        self.sizes = _sizes(self.points)
        labeled = self._read(problem.references, slice(None))
        labeled_sizes = _sizes(labeled)
        # The longest there is: candidates are references sooner or later.
        self.longest = (1.0 + UNSURE) * float(max(self.sizes.max(), labeled_sizes.max(initial=0.0)))
        self.error = self.sketch.slack * (self.sizes.astype(np.float64) + self.longest) + FLOOR
        self.weights = np.ones(n_candidates) if problem.weights is None else problem.weights[problem.candidates]
        self.nearest = np.full(n_candidates, FAR, dtype=np.float32)
        """About |y|² - 2·x·y for the nearest reference y that all were compared with."""
        self._compare(labeled, labeled_sizes)
        self.picks: list[int] = []
        self.n_compared = self.n_exact = self.n_settled = self.described = 0
        """Picks that all were compared with, picks that are among ``others``, pairs settled, and picks told of."""
        self.others = np.empty((self.n_labeled + problem.budget + 1, d))
        """References in float64, shifted."""
        self.others[: self.n_labeled] = self._shifted(problem.references, np.arange(self.n_labeled))
        self.size = min(LARGEST_FRONT, 2 * problem.budget + FRONT)
        self.most_settled = 4.0 * n_candidates + 1024.0

    def _read(self, matrix: Matrix, rows: slice | IntArray) -> Float32Array:
        return np.ascontiguousarray(self.sketch.read(matrix, rows, self.problem.metric))

    def _shifted(self, matrix: Matrix, rows: IntArray) -> FloatArray:
        points = read_rows(matrix, rows, self.problem.metric)
        if self.sketch.center is not None:
            points -= self.sketch.center
            points *= self.sketch.scale
        return points

    def _compare(self, others: Float32Array, sizes: Float32Array) -> None:
        """All candidates with more references."""
        doubled = others * np.float32(-2.0)
        step = max(1, BLOCK // max(1, len(others)))
        for start in range(0, len(self.points) if len(others) else 0, step):
            span = slice(start, start + step)
            products: Float32Array = np.asarray(doubled @ self.points[span].T, dtype=np.float32)
            products += sizes[:, None]
            np.minimum(self.nearest[span], products.min(axis=0), out=self.nearest[span])

    def solve(self) -> Solution:
        """Pick until the budget is met, or until Ctrl-C: the picks so far are a prefix of the answer.

        One pick more tells the radius.
        """
        budget, complete, reporter = self.problem.budget, True, Reporter(self.problem)
        if self.n_labeled == 0:
            self.picks.append(int(cold_order(self.problem)[0]))
        try:
            self._pick(min(budget + 1, len(self.nearest)), reporter)
        except KeyboardInterrupt:
            # From here on nothing may begin anew.
            complete, self.most_settled = False, np.inf
        n_picks = min(budget, len(self.picks))
        self._pick(min(n_picks + 1, len(self.nearest)), None)
        heights = np.append(self._heights(), 0.0)
        try:
            if complete:
                reporter.report(n_picks, lambda: float(heights[n_picks]))
        except KeyboardInterrupt:
            complete = False
        rows = self.problem.candidates[np.array(self.picks[:n_picks], dtype=np.int64)]
        found = finished(self.problem, rows, heights[:n_picks], float(np.sqrt(heights[n_picks])))
        return Solution((found,), complete)

    def _pick(self, limit: int, reporter: Reporter | None) -> None:
        while len(self.picks) < limit:
            new = np.array(self.picks[self.n_compared :], dtype=np.int64)
            self._compare(self.points[new], self.sizes[new])
            self.n_compared = len(self.picks)
            highest = self._highest()
            self._pick_first(highest, limit)
            # That all are picked is reported once all is known of them.
            if reporter is not None and len(self.picks) < self.problem.budget:
                self.described = len(self.picks)
                reporter.report(self.described, highest.max)

    def _highest(self) -> FloatArray:
        """(n,) upper bounds on squared priorities; -1 where picked."""
        squared = np.maximum(self.nearest + self.sizes + self.error, 0.0)
        highest = squared * (ROUND_UP / self.sketch.scale**2) + SMALLEST
        highest *= self.weights
        highest[self.picks] = -1.0
        return highest

    def _pick_first(self, highest: FloatArray, limit: int) -> None:
        """Pick among the first while none outside can come before; more of them next time, where that is none."""
        places, threshold = np.flatnonzero(highest >= 0.0), Threshold(-1.0, -1)
        if self.size < len(places):
            parted = np.argpartition(highest, len(highest) - self.size)
            threshold = Threshold(float(highest[parted[: -self.size]].max()), -1)
            places = np.sort(parted[-self.size :])
        few = self._few(places)
        few.run(places, threshold, limit - len(self.picks))
        self.picks += places[few.picks].tolist()
        if few.picks:
            return
        if threshold.row < 0.0 <= threshold.value:
            self.size *= 2
            if self.size > TOO_MANY and np.isfinite(self.most_settled):
                raise NotPlain(self.described)
        else:
            # Nothing positive is left: the lowest indices meet the budget.
            self.picks += places[: limit - len(self.picks)].tolist()

    def _few(self, places: IntArray) -> Few:
        others = self._others(self.picks)
        points = self._shifted(self.problem.pool, self.problem.candidates[places])
        sizes, weights, unit = _lengths(points), self.weights[places], 1.0 / self.sketch.scale**2
        squared = -2.0 * (points @ points.T)
        squared += sizes
        squared += sizes[:, None]
        slack = front_slack(points.shape[1])
        front = Front(points, squared, slack * sizes + FLOOR, unit, weights, by_pick=False)
        nearest = (_lengths(others) - 2.0 * (points @ others.T)).min(axis=1) + sizes
        error = slack * (sizes + self.longest) + FLOOR
        return Few(self, places, front, (nearest - error) * unit * weights, (nearest + error) * unit * weights)

    def _others(self, picks: list[int]) -> FloatArray:
        """(references, d) shifted, these picks among them, which only ever become more."""
        start, stop = self.n_labeled + self.n_exact, self.n_labeled + len(picks)
        if stop > start:
            rows = self.problem.candidates[np.array(picks[self.n_exact :], dtype=np.int64)]
            self.others[start:stop] = self._shifted(self.problem.pool, rows)
            self.n_exact = len(picks)
        return self.others[:stop]

    def settled(self, places: IntArray, picks: list[int], n_before: IntArray | None = None) -> FloatArray:
        """Exact squared priorities, given what is labeled and these picks, or so many of them for each candidate."""
        others, problem = self._others(picks), self.problem
        points = self._shifted(problem.pool, problem.candidates[places])
        squared = _lengths(others) - 2.0 * (points @ others.T)
        if n_before is not None:
            squared[np.arange(len(others)) >= self.n_labeled + n_before[:, None]] = np.inf
        slack = 2.0 * (front_slack(points.shape[1]) * (_lengths(points) + self.longest) + FLOOR)
        which, nearest = np.nonzero(squared <= (squared.min(axis=1) + slack)[:, None])
        self.n_settled += len(which)
        if self.n_settled > self.most_settled:
            raise NotPlain(self.described)
        exact = np.full(len(places), np.inf)
        for span in blocks(len(which), max(1, PAIR_VALUES // problem.pool.shape[1])):
            rows = read_rows(problem.pool, problem.candidates[places[which[span]]], problem.metric)
            np.minimum.at(exact, which[span], settle(rows, self._exact(nearest[span], picks)))
        return np.asarray(exact * self.weights[places])

    def _exact(self, others: IntArray, picks: list[int]) -> FloatArray:
        """(r, d) references as the reference sees them."""
        problem, is_pick = self.problem, others >= self.n_labeled
        points = np.empty((len(others), problem.pool.shape[1]))
        points[~is_pick] = read_rows(problem.references, others[~is_pick], problem.metric)
        places = np.array(picks, dtype=np.int64)[others[is_pick] - self.n_labeled]
        points[is_pick] = read_rows(problem.pool, problem.candidates[places], problem.metric)
        return points

    def _heights(self) -> FloatArray:
        """Exact squared priorities of the picks, each when it was picked; infinite for the first of a cold start."""
        picks, n_cold = np.array(self.picks, dtype=np.int64), int(self.n_labeled == 0)
        heights = np.full(len(picks), np.inf)
        heights[n_cold:] = self.settled(picks[n_cold:], self.picks, np.arange(n_cold, len(picks)))
        return heights


def _sizes(points: Float32Array) -> Float32Array:
    """|x|² of each row."""
    squared: Float32Array = np.einsum("ij,ij->i", points, points)
    return squared


def _lengths(points: FloatArray) -> FloatArray:
    """The same in float64."""
    squared: FloatArray = np.einsum("ij,ij->i", points, points)
    return squared
