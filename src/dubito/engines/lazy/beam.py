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
from dubito.engines.lazy.configurations import NO_NODE, Leaf, Nodes, own_picks
from dubito.engines.lazy.frontier import Fresh, Frontier
from dubito.engines.lazy.progress import Reporter
from dubito.engines.lazy.unbroken import Unbroken, persistently
from dubito.problem import Configuration, Problem, Solution


class Beam:
    """A beam's run: its configurations. Of the problem it looks at what is asked for, never at the points."""

    def __init__(self, problem: Problem, frontier: Frontier) -> None:
        self.problem, self.frontier = problem, frontier
        self.nodes = Nodes()
        self.leaves = [Leaf(NO_NODE, 0, frozenset())]
        self.n_steps = 0
        self.size = max(frontier.front_rows, 8 * problem.beam_width)

    def open(self) -> None:
        """Bound every candidate.

        A cold start has no distances to go by: the first w of the cold order, the most uncertain ahead.
        """
        if not self.frontier.is_cold:
            self.frontier.open(np.empty(0, dtype=np.int64))
            return
        first = self.frontier.cold_order(self.problem.beam_width)
        scores = self.frontier.scores(first)
        order = np.lexsort((first, -scores))
        none, is_exact = np.full(len(first), NO_NODE), np.ones(len(first), dtype=np.bool_)
        nodes = self.nodes.add(first[order], none, np.full(len(first), np.inf), is_exact)
        self.leaves = [
            Leaf(node, score, frozenset({pick}))
            for node, score, pick in zip(nodes.tolist(), scores[order].tolist(), first[order].tolist(), strict=True)
        ]
        self.n_steps = 1
        self.frontier.open_apart(first[order])

    def solve(self) -> Solution:
        """Step until the budget is met, or until Ctrl-C: then the leading configuration so far is first."""
        reporter, complete = Reporter(self.problem), True
        try:
            while self.n_steps < self.problem.budget:
                self._step()
                reporter.report(self.n_steps, self.frontier.largest)
        except KeyboardInterrupt:
            complete = False
        found, is_quiet = persistently(self._configurations)
        return Solution(found, complete and is_quiet)

    def _step(self) -> None:
        front = self._front(self._fresh())
        before, n_nodes = {leaf.node: leaf.own for leaf in front.leaves}, len(self.nodes)
        try:
            front.run(self.problem.budget - self.n_steps)
        finally:
            with Unbroken() as held:
                self._close(front, before, n_nodes)
            held.raise_heard()
        if front.n_steps == 0:
            self.size *= 2

    def _fresh(self) -> Fresh:
        """The first candidates in order, with the configurations' own picks."""
        return self.frontier.fresh(self.size, own_picks(self.leaves))

    def _front(self, fresh: Fresh) -> BeamFront:
        rows, own = fresh.rows, own_picks(self.leaves)
        place = dict(zip(own.tolist(), np.searchsorted(rows, own).tolist(), strict=True))
        leaves = [leaf._replace(own=frozenset(place[pick] for pick in leaf.own)) for leaf in self.leaves]
        front, scores = self.frontier.front(rows), self.frontier.scores(rows)
        width = self.problem.beam_width
        return BeamFront(front, rows, fresh.values, scores, fresh.threshold, self.nodes, leaves, width)

    def _close(self, front: BeamFront, before: dict[int, frozenset[int]], n_before: int) -> None:
        """Leave a front: settle its picks' priorities, write bounds back, and let the base have what is common."""
        rows, nodes = front.rows, self.nodes
        paths = list(nodes.paths(front.leaves, n_before))
        front.settle_nodes([(before[start], path) for path, start in paths])
        self.frontier.close(rows, front.highest(), rows[front.common.picks])
        renumber = nodes.keep(np.unique(np.concatenate([path for path, _ in paths])), n_before)
        nodes.picks[n_before : len(nodes)] = rows[nodes.picks[n_before : len(nodes)]]
        numbers = renumber(np.array([leaf.node for leaf in front.leaves])).tolist()
        self.leaves = [
            Leaf(node, leaf.score, frozenset(rows[list(leaf.own)].tolist()))
            for node, leaf in zip(numbers, front.leaves, strict=True)
        ]
        self.n_steps += front.n_steps

    def _configurations(self) -> tuple[Configuration, ...]:
        tops, nodes = None, self.nodes
        while tops is None:
            tops = self._front(self._fresh()).tops()
            self.size *= 2
        return tuple(
            self.frontier.configuration(nodes.picks[path], nodes.heights[path], float(np.sqrt(max(top, 0.0))))
            for (path, _), top in zip(nodes.paths(self.leaves), tops.tolist(), strict=True)
        )
