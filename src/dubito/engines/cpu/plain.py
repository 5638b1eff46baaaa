"""The plain way for small problems: one product with what is labelled, then picks among those that come first.

It keeps one number of float32 a candidate, about its squared distance to the nearest reference, and a bound on how far
that is off. A few hundred that come first are the front: picks are made there while none outside can come before, and
then all others are compared with these picks. A pick is made when no other candidate can reach it by the bounds; else
the contenders are settled in float64, as `dubito.engines.lazy.algorithm` does it: picks and priorities are the
reference's.
"""

from dataclasses import dataclass

import numpy as np

from dubito.distances import read_rows, settle
from dubito.engines.cpu.sketch import plain_sketch
from dubito.engines.lazy.configurations import finished
from dubito.engines.lazy.progress import Reporter
from dubito.engines.lazy.rounding import FLOAT32_SMALLEST, FLOOR, UNIT, Float32Array
from dubito.matrix import BoolArray, FloatArray, IntArray, Matrix, len_of
from dubito.problem import Problem, Solution
from dubito.reference import cold_order

FEW = 16
"""Rows that say where the points lie."""
PICKED, FAR = -1e30, 1e30
"""Beyond every squared distance in scaled units; numbers, since nothing times infinity is none."""
FRONT, LARGEST_FRONT = 64, 384
"""Candidates in a front: so many and two for each pick, but no more than these at first."""
PRODUCT_SECONDS = 2.8e-11
"""A feature of a pair in a matrix product."""
PICK_SECONDS, PICK_READ_SECONDS, PICK_ROW_SECONDS = 2e-5, 2e-7, 1e-8
"""A pick beside that: once, for each feature, and for each candidate."""
LAZY_SECONDS, LAZY_READ_SECONDS, LAZY_PICK_SECONDS = 4e-3, 6e-9, 8e-5
"""What the lazy way costs at least, for each feature of the pool, and for each pick.

All of these were fitted to 72 sizes from 500 x 16 to 15,000 x 512, on two cores; what counts is where the two ways
cross, and both are mostly products and calls of NumPy, so that a faster machine moves it little."""
SMALL = 2.0**-300
"""Weights are no smaller, in scaled units, but for those that are nothing beside the largest."""
BLOCK = 1 << 20
"""Products at a time."""
LARGEST = 32 << 20
"""Bytes of candidates in float32 up to which they may be copied."""


def can(problem: Problem) -> bool:
    """It solves greedy problems of a single call, within as much memory as it likes."""
    is_greedy = problem.beam_width == 1 and problem.scaling == "respective" and problem.quotas is None
    return is_greedy and problem.known is None and problem.memory_limit is None


def pays(problem: Problem) -> bool:
    """Whether it is the quicker way, by what both were measured to cost."""
    n_rows, d = len(problem.candidates), problem.pool.shape[1]
    n_values, n_references = n_rows * d, len_of(problem.references) + problem.budget
    a_pick = PICK_SECONDS + d * PICK_READ_SECONDS + n_rows * PICK_ROW_SECONDS
    here = n_values * n_references * PRODUCT_SECONDS + problem.budget * a_pick
    lazily = LAZY_SECONDS + n_values * LAZY_READ_SECONDS + problem.budget * LAZY_PICK_SECONDS
    return here < lazily and 4 * n_values <= LARGEST


class NotPlain(Exception):
    """So many candidates are level that the lazy way is quicker, or numbers are too small or large for this one."""


def solve(problem: Problem) -> Solution:
    """The reference's picks. Raises NotPlain."""
    return Plain(problem).solve()


@dataclass(slots=True)
class Few:
    """Candidates that come first."""

    places: IntArray
    nearest: Float32Array
    sizes: Float32Array
    scaled: Float32Array | None
    outside: float
    """The largest priority of all others, about."""

    def priorities(self) -> Float32Array:
        """(K,) squared, about, in scaled units."""
        squared = self.nearest + self.sizes
        if self.scaled is not None:
            squared *= self.scaled
        return squared


class Plain:
    """A run: candidates go by their places, references are what is labelled, then picks."""

    def __init__(self, problem: Problem) -> None:
        self.problem, self.n_labelled = problem, len_of(problem.references)
        n_candidates, d = len(problem.candidates), problem.pool.shape[1]
        few = problem.candidates[:: -(-n_candidates // FEW)]
        self.sketch = plain_sketch(read_rows(problem.pool, few, problem.metric), problem.largest)
        if not SMALL < self.sketch.scale**2 < 1.0 / SMALL:
            raise NotPlain
        is_whole = n_candidates == len_of(problem.pool)
        self.points = self._read(problem.pool, slice(None) if is_whole else problem.candidates)
        self.sizes = _sizes(self.points)
        self.others = np.empty((self.n_labelled + problem.budget, d), dtype=np.float32)
        """References times -2."""
        self.other_sizes = np.empty(len(self.others), dtype=np.float32)
        self.n_others = self.n_compared = 0
        """References there are, and those that all candidates are compared with."""
        self.nearest = np.full(n_candidates, FAR, dtype=np.float32)
        """About |y|² - 2·x·y for the nearest reference y; `PICKED` once picked."""
        self.weights = None if problem.weights is None else problem.weights[problem.candidates]
        self.scaled = None if self.weights is None else self._in_single(self.weights)
        self.exact, self.seen = np.full(n_candidates, np.inf), np.zeros(n_candidates, dtype=np.int64)
        """Smallest settled squared distances to the first references, and how many those are."""
        self.picks: list[int] = []
        self.heights: list[float] = []
        """Squared priorities; below 0 where they are yet to be settled."""
        self.levels: list[float] = []
        self.n_settled = 0

    def _in_single(self, weights: FloatArray) -> Float32Array:
        """Over the largest; no priority that float32 can tell from 0 may lose digits in float64."""
        top = float(weights.max(initial=0.0))
        if top > 0.0 and not SMALL < top / self.sketch.scale**2 < 1.0 / SMALL:
            raise NotPlain
        with np.errstate(under="ignore"):
            return (weights / (top or 1.0)).astype(np.float32)

    def _read(self, matrix: Matrix, rows: slice | IntArray) -> Float32Array:
        return np.ascontiguousarray(self.sketch.read(matrix, rows, self.problem.metric))

    def solve(self) -> Solution:
        """Pick until the budget is met, or until Ctrl-C: the picks so far are a prefix of the answer."""
        self._open()
        reporter, complete = Reporter(self.problem), True
        size = min(LARGEST_FRONT, 2 * self.problem.budget + FRONT)
        try:
            while len(self.picks) < self.problem.budget:
                self._compare()
                size *= 1 if self._pick_among(self._front(size)) else 2
                if self.problem.progress is not None:
                    reporter.report(len(self.picks), self._largest())
        except KeyboardInterrupt:
            complete = False
        radius = self._radius()
        rows = self.problem.candidates[np.array(self.picks, dtype=np.int64)]
        return Solution((finished(self.problem, rows, self._settled_heights(), float(np.sqrt(radius))),), complete)

    def _largest(self) -> float:
        """No squared priority is much larger."""
        squared = np.maximum(self.nearest + self.sizes, 0.0) / self.sketch.scale**2
        return float((squared if self.weights is None else squared * self.weights).max())

    def _open(self) -> None:
        """Distances to all that is labelled, or to a cold start's first pick."""
        labelled = self._read(self.problem.references, slice(None))
        self.other_sizes[: self.n_labelled] = _sizes(labelled)
        np.multiply(labelled, np.float32(-2.0), out=self.others[: self.n_labelled])
        self.n_others = self.n_labelled
        # The longest there is: candidates are references sooner or later.
        longest = max(float(self.sizes.max()), float(self.other_sizes[: self.n_labelled].max(initial=0.0)))
        self.error = self.sketch.slack * (self.sizes.astype(np.float64) + longest) + FLOOR
        weights = 1.0 if self.scaled is None else self.scaled
        self.margin = 2.0 * float((self.error * weights).max()) * (1.0 + 8.0 * UNIT) + 16.0 * FLOAT32_SMALLEST * longest
        if self.n_labelled == 0:
            self._take(int(cold_order(self.problem)[0]), np.inf)

    def _compare(self) -> None:
        """All candidates with the references that they have not been compared with."""
        step = max(1, BLOCK // max(1, self.n_others - self.n_compared))
        for start in range(0, len(self.points) if self.n_others > self.n_compared else 0, step):
            span = slice(start, start + step)
            np.minimum(self.nearest[span], self._nearest_new(span), out=self.nearest[span])
        self.nearest[self.picks] = PICKED
        self.n_compared = self.n_others

    def _nearest_new(self, places: slice | IntArray) -> Float32Array:
        """About |y|² - 2·x·y for the nearest reference that not all have been compared with."""
        new = slice(self.n_compared, self.n_others)
        products: Float32Array = self.points[places] @ self.others[new].T
        products += self.other_sizes[new]
        nearest: Float32Array = products.min(axis=1, initial=FAR)
        return nearest

    def _front(self, size: int) -> Few:
        """The first by what is known of them."""
        priorities = self.nearest + self.sizes
        if self.scaled is not None:
            priorities *= self.scaled
        places, outside = np.arange(len(priorities)), -np.inf
        if size < len(priorities):
            parted = np.argpartition(priorities, len(priorities) - size)
            outside = float(priorities[parted[:-size]].max())
            places = np.sort(parted[-size:])
        scaled = None if self.scaled is None else self.scaled[places]
        return Few(places, self.nearest[places], self.sizes[places], scaled, outside)

    def _radius(self) -> float:
        """The squared priority that the next pick would have; a few tell it, mostly."""
        if len(self.picks) == len(self.nearest):
            return 0.0
        self.nearest[self.picks] = PICKED
        for size in (FRONT, len(self.nearest)):
            front = self._front(size)
            np.minimum(front.nearest, self._nearest_new(front.places), out=front.nearest)
            top = float(front.priorities().max())
            if top - self._slack(top) > front.outside:
                break
        return self._best(front)[1]

    def _pick_among(self, front: Few) -> int:
        """Pick while none outside can come first; how many were picked."""
        before, points = len(self.picks), self.points[front.places]
        # About |y|² - 2·x·y, y by row.
        table = (points * np.float32(-2.0)) @ points.T
        table += front.sizes[:, None]
        while len(self.picks) < self.problem.budget:
            priorities = front.priorities()
            first = int(priorities.argmax())
            top = float(priorities[first])
            level = top - self._slack(top)
            if level <= front.outside:
                break
            height = -1.0
            if level <= 0.0 or np.count_nonzero(priorities >= np.float32(level)) > 1:
                first, height = self._best(front)
            if height == 0.0:
                self._take_zeros()
                break
            self._take(int(front.places[first]), height, float(front.nearest[first]))
            np.minimum(front.nearest, table[first], out=front.nearest)
            front.nearest[first] = PICKED
        return len(self.picks) - before

    def _take_zeros(self) -> None:
        """Nothing positive is left: the lowest indices meet the budget."""
        left = np.ones(len(self.nearest), dtype=np.bool_)
        left[self.picks] = False
        for place in np.flatnonzero(left)[: self.problem.budget - len(self.picks)].tolist():
            self._take(place, 0.0)

    def _slack(self, top: float) -> float:
        """How far under the highest a candidate is lower for sure; float32 rounds all that is compared."""
        return self.margin + 16.0 * UNIT * abs(top)

    def _take(self, place: int, height: float, level: float = 0.0) -> None:
        self.picks.append(place)
        self.heights.append(height)
        self.levels.append(level)
        self.other_sizes[self.n_others] = self.sizes[place]
        np.multiply(self.points[place], np.float32(-2.0), out=self.others[self.n_others])
        self.n_others += 1

    def _best(self, front: Few) -> tuple[int, float]:
        """Which of a front is first, and its exact squared priority; outside there is none that can be."""
        priorities = front.priorities()
        top = float(priorities.max())
        near = np.flatnonzero((priorities >= np.float32(top - self._slack(top))) & (front.nearest != PICKED))
        near = near[self._may_be_first(front, near)]
        places = front.places[near]
        is_stale = self.seen[places] < self.n_others
        stale = places[is_stale]
        if len(stale):
            limits = front.nearest[near[is_stale]] + 2.0 * self.error[stale]
            counts = np.arange(self.n_others) >= self.seen[stale, None]
            self.exact[stale] = np.minimum(self.exact[stale], self._settle(stale, limits, counts))
            self.seen[stale] = self.n_others
        exact = self._weigh(self.exact[places], places)
        first = int(exact.argmax())
        return int(near[first]), float(exact[first])

    def _may_be_first(self, front: Few, near: IntArray) -> BoolArray:
        """By each one's own bounds on its squared distance."""
        places = front.places[near]
        squared = front.nearest[near].astype(np.float64) + front.sizes[near]
        # As features measure them, then one product with a weight: rounding keeps their order, however small they are.
        low = self._weigh(np.maximum(squared - self.error[places], 0.0) / self.sketch.scale**2, places)
        high = self._weigh((squared + self.error[places]) / self.sketch.scale**2, places)
        return np.asarray(high >= low.max())

    def _weigh(self, squared: FloatArray, places: IntArray) -> FloatArray:
        return squared if self.weights is None else squared * self.weights[places]

    def _settle(self, places: IntArray, limits: FloatArray, counts: BoolArray) -> FloatArray:
        """Exact squared distances to the nearest of those references that count, (r, references)."""
        approximate = self.points[places] @ self.others[: self.n_others].T
        approximate += self.other_sizes[: self.n_others]
        which, others = np.nonzero((approximate <= limits[:, None]) & counts)
        self.n_settled += len(which)
        if self.n_settled > 4 * len(self.points) + 1024:
            raise NotPlain
        lowest = np.full(len(places), np.inf)
        points = read_rows(self.problem.pool, self.problem.candidates[places[which]], self.problem.metric)
        np.minimum.at(lowest, which, settle(points, self._exact_points(others)))
        return lowest

    def _exact_points(self, others: IntArray) -> FloatArray:
        problem, is_pick = self.problem, others >= self.n_labelled
        points = np.empty((len(others), problem.pool.shape[1]))
        points[~is_pick] = read_rows(problem.references, others[~is_pick], problem.metric)
        picks = np.array(self.picks, dtype=np.int64)[others[is_pick] - self.n_labelled]
        points[is_pick] = read_rows(problem.pool, problem.candidates[picks], problem.metric)
        return points

    def _settled_heights(self) -> FloatArray:
        """Exact squared priorities of the picks, each when it was picked."""
        heights, picks = np.array(self.heights), np.array(self.picks, dtype=np.int64)
        unsure = np.flatnonzero(heights < 0.0)
        if len(unsure):
            places = picks[unsure]
            limits = np.array(self.levels)[unsure] + 2.0 * self.error[places]
            is_earlier = np.arange(self.n_others) < (self.n_labelled + unsure)[:, None]
            heights[unsure] = self._weigh(self._settle(places, limits, is_earlier), places)
        return heights


def _sizes(points: Float32Array) -> Float32Array:
    """|x|² of each row."""
    squared: Float32Array = np.einsum("ij,ij->i", points, points)
    return squared
