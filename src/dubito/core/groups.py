"""Reference implementation of picking groups of rows, such as the boxes of an image: slow, simple, in float64.

A problem with ``groups`` (n,) picks groups, and its budget counts them. The rows of a group are its candidates: rows
that may not be picked, such as labeled ones, take no part. Picking a group picks all its rows. ``costs`` and the
classes of ``quotas`` are those of a row's group. Ties go to the group of the lowest number, whose first row comes
first in the pool. If each row is a group of its own, the picks are those of rows.

- Coverage: the gain of a group is what its rows add together, ``F(s ∪ group) - F(s)``. F is submodular over rows, so it
  is over groups: as coverage grows no gain grows, rounding included, and a stale gain is an upper bound.
- Core-set: the priority of a group is that of its row of largest priority, since that row decides the covering radius.
  Then all its rows become references. In a cold start the first group is that of the first row in the order of rows.

The part that a row earned: for coverage the gain on the pool rows that it covers best within its group (ties go to the
lowest row); for core-sets its own priority; in a cold start 0 except for the first row.
"""

from collections.abc import Sequence
from dataclasses import replace
from typing import TypeVar

import numpy as np

from dubito.core.coverage_reference import (
    CoverageProblem,
    Kernels,
    gains,
    initial_cover,
    shares,
    squared_reach,
    sums_in_order,
)
from dubito.core.distances import exact_sq_distances, read_rows
from dubito.core.problem import Configuration, Problem
from dubito.core.reference import cold_order, initial_priorities, scaled
from dubito.doubt import uncertainty
from dubito.matrix import BoolArray, FloatArray, IntArray, len_of

P = TypeVar("P", Problem, CoverageProblem)


class Members:
    """The groups that have candidates, in the order of their numbers; here they are numbered from 0."""

    def __init__(self, problem: Problem | CoverageProblem) -> None:
        assert problem.groups is not None
        self.problem = problem
        self.numbers, self.of = np.unique(problem.groups[problem.candidates], return_inverse=True)
        """(g,) the numbers in the problem, and (candidates,) the group of each candidate."""
        self.order = np.argsort(self.of, kind="stable")
        """(candidates,) positions of candidates, group by group, ascending within a group."""
        self.starts = np.concatenate([[0], np.cumsum(np.bincount(self.of))])
        """(g + 1,) where each group starts in the order."""
        self.first = problem.candidates[self.order[self.starts[:-1]]]
        """(g,) the first row of each group."""

    def __len__(self) -> int:
        return len(self.numbers)

    def positions(self, group: int) -> IntArray:
        """Positions of a group's candidates, ascending."""
        return self.order[self.starts[group] : self.starts[group + 1]]

    def largest(self, values: FloatArray) -> FloatArray:
        """(g,) the largest of the candidates' values in each group."""
        return np.maximum.reduceat(values[self.order], self.starts[:-1])

    def costs(self, groups: int | slice) -> FloatArray | float:
        """The costs of groups; 1 without costs."""
        return 1.0 if self.problem.costs is None else self.problem.costs[self.first[groups]]

    def allowed(self, picks: Sequence[int]) -> BoolArray:
        """(g,) whether a group may be picked after these."""
        is_left = np.ones(len(self), dtype=np.bool_)
        is_left[list(picks)] = False
        quotas = self.problem.quotas
        return is_left if quotas is None else is_left & (quotas.remaining(self.first[list(picks)])[self._classes] > 0)

    @property
    def _classes(self) -> IntArray:
        assert self.problem.quotas is not None
        return np.asarray(self.problem.quotas.classes[self.first])

    def configuration(
        self,
        picks: Sequence[int] | IntArray,
        priorities: Sequence[float] | FloatArray,
        earned: Sequence[FloatArray],
        radius: float | None = None,
        covered: FloatArray | None = None,
        reach: float | None = None,
    ) -> Configuration:
        """The picked groups; ``earned`` has the parts of each group's rows, which put them in order, ties by row."""
        doubt, rows, parts = self.problem.doubt, [np.empty(0, dtype=np.int64)], [np.empty(0)]
        for pick, part in zip(np.array(picks, dtype=np.int64).tolist(), earned, strict=True):
            order = np.argsort(-part, kind="stable")
            rows.append(self.problem.candidates[self.positions(pick)[order]])
            parts.append(part[order])
        indices = np.concatenate(rows)
        return Configuration(
            indices=indices,
            priorities=np.array(priorities, dtype=np.float64),
            radius=radius,
            uncertainty=None if doubt is None or len(indices) == 0 else uncertainty(doubt[indices]),
            covered=covered,
            reach=reach,
            groups=self.numbers[np.array(picks, dtype=np.int64)],
            earned=np.concatenate(parts),
        )


def by_rows(problem: Problem) -> Problem:
    """The problem without groups and quotas, with a budget for the rows of the largest groups."""
    if problem.groups is None:
        return problem
    sizes = np.sort(np.bincount(problem.groups[problem.candidates]))
    return replace(problem, groups=None, quotas=None, budget=int(sizes[-problem.budget :].sum()))


def greedy_coverage(problem: CoverageProblem) -> Configuration:
    """O(b·candidates·n·d) time, O(n·d) memory."""
    members, reach = Members(problem), squared_reach(problem)
    kernels, cover = Kernels(problem, reach), initial_cover(problem, reach)
    before = float(sums_in_order(problem.weights * cover))
    picks, gained, priorities, earned = list[int](), list[float](), list[float](), list[FloatArray]()

    kept = None
    if kernels.kept is not None:
        kept = np.maximum.reduceat(kernels.kept[members.order], members.starts[:-1], axis=0)

    def group_kernel(group: int) -> FloatArray:
        return np.asarray(np.stack([kernels[position] for position in members.positions(group)]).max(axis=0))

    for _ in range(problem.budget):
        allowed = members.allowed(picks)
        blocks = [kept] if kept is not None else (group_kernel(group)[None] for group in range(len(members)))
        added = np.concatenate([gains(block, cover, problem.weights) for block in blocks])
        best = int(np.argmax(np.where(allowed, added / members.costs(slice(None)), -1.0)))
        own = np.stack([kernels[position] for position in members.positions(best)])
        parts = earned_coverage(np.maximum(own - cover, 0.0) * problem.weights)
        cover = np.maximum(cover, own.max(axis=0))
        picks.append(best)
        gained.append(float(added[best]))
        priorities.append(float(added[best] / members.costs(best)))
        earned.append(parts / members.costs(best))
    covered = shares(problem.weights, before, np.array(gained))
    return members.configuration(picks, priorities, earned, covered=covered, reach=float(np.sqrt(reach)))


def coverage_without_reach(problem: CoverageProblem) -> Configuration:
    """The same if the reach is 0: a row covers only itself."""
    members, weights = Members(problem), problem.weights[problem.candidates]
    gained: FloatArray = np.bincount(members.of, weights=weights).astype(np.float64)
    priorities = gained / members.costs(slice(None))
    picks = np.argsort(-priorities, kind="stable")
    if problem.quotas is not None:
        picks = picks[problem.quotas.allowed(members.first[picks], problem.quotas.limits)]
    picks = picks[: problem.budget]
    parts = [weights[members.positions(pick)] / members.costs(pick) for pick in picks.tolist()]
    covered = shares(problem.weights, 0.0, gained[picks])
    return members.configuration(picks, priorities[picks], parts, covered=covered, reach=0.0)


def earned_coverage(terms: FloatArray) -> FloatArray:
    """(r,) parts of the rows of a group, from what each would add to each pool row (r, n).

    Examples
    --------
    >>> earned_coverage(np.array([[1.0, 0.5, 0.0], [0.5, 2.0, 0.0]])).tolist()
    [1.0, 2.0]
    """
    is_best = np.arange(len(terms))[:, None] == terms.argmax(axis=0)
    return sums_in_order(np.where(is_best, terms, 0.0))


def greedy_core_set(problem: Problem) -> Configuration:
    """O(n·(m + b·rows of a group)·d) time, O(n·d) memory."""
    members, points = Members(problem), read_rows(problem.pool, problem.candidates, problem.metric)
    weights = None if problem.weights is None else problem.weights[problem.candidates]
    squared = initial_priorities(problem, points)
    picks, priorities, earned = list[int](), list[float](), list[FloatArray]()
    for _ in range(problem.budget):
        if not picks and len_of(problem.references) == 0:
            best, parts = first_of_cold_start(members, int(cold_order(problem)[0]))
        else:
            largest = members.largest(squared)
            best = int(np.argmax(np.where(members.allowed(picks), largest, -1.0)))
            parts = np.sqrt(squared[members.positions(best)])
        picks.append(best)
        priorities.append(float(parts.max()))
        earned.append(parts)
        for position in members.positions(best):
            squared = np.minimum(squared, scaled(exact_sq_distances(points, points[position]), weights))
    left = np.where(members.allowed(picks), members.largest(squared), 0.0)
    return members.configuration(picks, priorities, earned, radius=float(np.sqrt(left.max(initial=0.0))))


def first_of_cold_start(members: Members, first: int) -> tuple[int, FloatArray]:
    """The group of the first candidate in the order of a cold start, and what its rows earned."""
    group = int(members.of[first])
    return group, np.where(members.positions(group) == first, np.inf, 0.0)
