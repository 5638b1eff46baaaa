"""The beam over a lazy engine's kernels: w configurations at about the price of one.

Configurations share nearly all their picks. What all of them hold is the base: those picks are references like any
other, and bounds are kept against the base alone. A configuration's own few picks stand in every front, and lower its
priorities there. A step is valid while every proposal of every configuration comes before the threshold; a front
that allows none grows.

What a front writes back is the largest value over the configurations: a true bound for every later one, since
configurations only gain picks. It may lie under the base's own priority, but never under a configuration's.
"""

import numpy as np

from dubito.engines.lazy.beamfront import BeamFront
from dubito.engines.lazy.bounds import Bounds
from dubito.engines.lazy.configurations import Leaf, Node, own_picks, path_of
from dubito.engines.lazy.front import Threshold
from dubito.engines.lazy.greedy import finished
from dubito.engines.lazy.kernels import Kernels
from dubito.engines.lazy.progress import Reporter
from dubito.matrix import AnyArray, FloatArray, IntArray, len_of
from dubito.problem import Configuration, Problem, Solution
from dubito.reference import cold_order


class Beam:
    """A beam's run: its configurations, and the bounds between fronts."""

    def __init__(self, problem: Problem, kernels: Kernels, scores: IntArray) -> None:
        self.problem, self.kernels, self.scores = problem, kernels, scores[problem.candidates]
        self.leaves = [Leaf(None, 0, frozenset())]
        self.n_steps = 0
        # Every configuration looks through the whole front now and then, so that a smaller one is quicker.
        self.size = max(kernels.front_rows // 2, 8 * problem.beam_width)
        first = self._cold_start() if len_of(problem.references) == 0 else kernels.first_bounds()
        self.bounds = Bounds(kernels, *first, len_of(problem.references))

    def _cold_start(self) -> tuple[FloatArray, AnyArray]:
        """The first step has no distances to go by: the first w of the cold order, the most uncertain ahead."""
        first = cold_order(self.problem)[: self.problem.beam_width]
        first = first[np.lexsort((first, -self.scores[first]))]
        self.leaves = [
            Leaf(Node(pick, None, np.inf, True), int(self.scores[pick]), frozenset({pick})) for pick in first.tolist()
        ]
        self.n_steps = 1
        bound = self.kernels.farthest_bounds(first)
        return bound, np.zeros(len(bound), dtype=np.int32)

    def solve(self) -> Solution:
        """Step until the budget is met, or until Ctrl-C: then the leading configuration so far is first."""
        reporter, complete = Reporter(self.problem), True
        try:
            while self.n_steps < self.problem.budget:
                self._step()
                reporter.report(self.n_steps, float(self.bounds.bound.max()))
        except KeyboardInterrupt:
            complete = False
        return Solution(self._configurations(), complete)

    def _step(self) -> None:
        rows, threshold = self._fresh_rows()
        front = self._front(rows, threshold)
        before = {leaf.node: leaf.own for leaf in front.leaves}
        try:
            made = front.run(self.problem.budget - self.n_steps)
        finally:
            self._close(front, before)
        if made == 0:
            self.size *= 2

    def _fresh_rows(self) -> tuple[IntArray, Threshold]:
        """The first candidates in order, with the configurations' own picks, all of them up to date."""
        own = own_picks(self.leaves)
        self.bounds.refresh(own, needed=0.0)
        while True:
            rows, threshold = self.bounds.first(self.size)
            if not self.bounds.refresh_first(rows, threshold):
                return np.union1d(rows, own), threshold

    def _front(self, rows: IntArray, threshold: Threshold) -> BeamFront:
        place = {int(row): position for position, row in enumerate(rows)}
        leaves = [leaf._replace(own=frozenset(place[pick] for pick in leaf.own)) for leaf in self.leaves]
        start, scores = self.bounds.bound[rows], self.scores[rows]
        return BeamFront(self.kernels.front(rows), rows, start, scores, threshold, leaves, self.problem.beam_width)

    def _close(self, front: BeamFront, before: dict[Node | None, frozenset[int]]) -> None:
        """Leave a front: settle its picks' priorities, write bounds back, and let the base have what is common."""
        rows, new_nodes = front.rows, set[Node]()
        for leaf in front.leaves:
            nodes, node = [], leaf.node
            while node is not None and node not in before:
                nodes.append(node)
                node = node.parent
            front.settle_nodes(before[node], nodes[::-1])
            new_nodes.update(nodes)
        self.bounds.bound[rows] = front.highest()
        self.bounds.pick(rows[front.common.picks])
        for node in new_nodes:
            node.pick = int(rows[node.pick])
        self.leaves = [leaf._replace(own=frozenset(rows[list(leaf.own)].tolist())) for leaf in front.leaves]
        self.n_steps = len(path_of(self.leaves[0]))

    def _configurations(self) -> tuple[Configuration, ...]:
        tops = None
        while tops is None:
            tops = self._front(*self._fresh_rows()).tops()
            self.size *= 2
        return tuple(
            finished(
                self.problem,
                self.problem.candidates[np.array([node.pick for node in nodes], dtype=np.int64)],
                np.array([node.height for node in nodes]),
                float(np.sqrt(max(top, 0.0))),
            )
            for nodes, top in zip(map(path_of, self.leaves), tops.tolist(), strict=True)
        )
