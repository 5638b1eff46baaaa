"""Algorithms 1 and 2 and the beam, slow and obvious, in float64: the oracle of every engine.

A point's priority is ``Δ²·weight``, squared, where Δ is its distance to the nearest reference; the largest is
picked, ties go to the lowest index. Departures from the printed pseudo-code:

- exactly ``b`` picks (the printed loop ``t = 0..budget`` makes one more);
- a pick leaves the pool and counts as labelled (Algorithm 1 as printed would pick it again);
- ``scaling="respective"`` scales an update by the doubt of the *remaining* point, as the text and the quadrant
  figure have it; ``"acquired"`` by the doubt of the pick, as line 11 is printed.

A cost divides a priority: weights come over squared costs.
"""

from dataclasses import dataclass, replace

import numpy as np

from dubito.core.distances import distance_from_mean, read_rows, settle
from dubito.core.problem import Configuration, Problem
from dubito.doubt import uncertainty
from dubito.matrix import FloatArray, IntArray, len_of


@dataclass(frozen=True, slots=True)
class Trail:
    """A configuration in the making: what it picked, and the squared priority of every candidate."""

    picks: tuple[int, ...]
    priorities: tuple[float, ...]
    score: int
    left: FloatArray
    """(candidates,) squared priorities; -1 where picked."""


def solve(problem: Problem) -> tuple[Configuration, ...]:
    """Greedy for a beam one wide, else the beam with all its configurations, best first."""
    if problem.beam_width == 1:
        return (greedy(problem),)
    return beam(problem)


def greedy(problem: Problem) -> Configuration:
    """Algorithm 2; Algorithm 1 where the weights are None. O(n·(m + b)·d) time, O(n·d) memory."""
    points = read_rows(problem.pool, problem.candidates, problem.metric)
    trail = Trail((), (), 0, first_priorities(problem, points))
    for _ in range(problem.budget):
        best = int(proposals(problem, trail, 1)[0])
        trail = without_full(problem, extend(problem, points, trail, best))
    return finish(problem, trail)


def beam(problem: Problem) -> tuple[Configuration, ...]:
    """The beam: at each step the ``w`` most uncertain of up to ``w²`` children live on."""
    points = read_rows(problem.pool, problem.candidates, problem.metric)
    trails = [Trail((), (), 0, first_priorities(problem, points))]
    for _ in range(problem.budget):
        children = sorted(
            (-(trail.score + score_of(problem, position)), rank, -height(problem, trail, position), position)
            for rank, trail in enumerate(trails)
            for position in proposals(problem, trail, problem.beam_width).tolist()
        )
        kept: dict[frozenset[int], tuple[Trail, int]] = {}
        for _, rank, _, position in children:
            kept.setdefault(frozenset((*trails[rank].picks, position)), (trails[rank], position))
        survivors = list(kept.values())[: problem.beam_width]
        trails = [extend(problem, points, trail, position) for trail, position in survivors]
    return tuple(finish(problem, trail) for trail in trails)


def first_priorities(problem: Problem, points: FloatArray) -> FloatArray:
    """Squared priorities before any pick (line 3); infinite in a cold start, 0 without doubt."""
    nearest = np.full(len(points), np.inf)
    for row in range(len_of(problem.references)):
        reference = read_rows(problem.references, slice(row, row + 1), problem.metric)[0]
        nearest = np.minimum(nearest, settle(points, reference))
    return scaled(nearest, None if problem.weights is None else problem.weights[problem.candidates])


def scaled(squared: FloatArray, weights: FloatArray | None) -> FloatArray:
    """Δ²·weight, and 0 where the weight is 0, however far."""
    if weights is None:
        return squared
    return np.where(weights == 0.0, 0.0, np.where(weights == 0.0, 0.0, squared) * weights)


def proposals(problem: Problem, trail: Trail, width: int) -> IntArray:
    """The unpicked candidates of largest priority, ties by index; a cold start's first by its own rule."""
    order = cold_order(problem) if is_cold(problem, trail) else np.argsort(-trail.left, kind="stable")
    return order[: min(width, len(order) - len(trail.picks))]


def is_cold(problem: Problem, trail: Trail) -> bool:
    """Nothing labelled and nothing picked: there is no distance to go by."""
    return not trail.picks and len_of(problem.references) == 0


def height(problem: Problem, trail: Trail, position: int) -> float:
    """A candidate's squared priority; infinite for a cold start's first pick."""
    return np.inf if is_cold(problem, trail) else float(trail.left[position])


def cold_order(problem: Problem) -> IntArray:
    """Candidates as a cold start takes them, over costs: by doubt, or by nearness to the pool's mean if none weighs."""
    costs = 1.0 if problem.costs is None else problem.costs[problem.candidates]
    if problem.weights is not None and problem.doubt is not None:
        return np.argsort(-problem.doubt[problem.candidates] / costs, kind="stable")
    with np.errstate(over="ignore"):
        far = distance_from_mean(problem.pool, problem.candidates, problem.metric) * (costs * costs)
    return np.argsort(far, kind="stable")


def extend(problem: Problem, points: FloatArray, trail: Trail, pick: int) -> Trail:
    """The configuration with one more pick (lines 8 to 12)."""
    squared = settle(points, points[pick])
    if problem.weights is None:
        update = squared
    elif problem.scaling == "respective":
        update = scaled(squared, problem.weights[problem.candidates])
    else:
        update = squared * problem.weights[problem.candidates[pick]]
    priority = float(np.sqrt(height(problem, trail, pick)))
    left = np.minimum(trail.left, update)
    left[pick] = -1.0
    return Trail((*trail.picks, pick), (*trail.priorities, priority), trail.score + score_of(problem, pick), left)


def without_full(problem: Problem, trail: Trail) -> Trail:
    """Candidates of classes whose quotas are met count as picked."""
    if problem.quotas is None:
        return trail
    room = problem.quotas.room(problem.candidates[list(trail.picks)])
    is_full = room[problem.quotas.classes[problem.candidates]] <= 0
    return replace(trail, left=np.where(is_full, -1.0, trail.left))


def score_of(problem: Problem, position: int) -> int:
    """A candidate's fixed-point -log(1 - doubt); 0 where the beam is one wide."""
    return 0 if problem.scores is None else int(problem.scores[problem.candidates[position]])


def finish(problem: Problem, trail: Trail) -> Configuration:
    """The configuration in the pool's own row numbers."""
    indices = problem.candidates[np.array(trail.picks, dtype=np.int64)]
    return Configuration(
        indices=indices,
        priorities=np.array(trail.priorities),
        radius=float(np.sqrt(max(trail.left.max(), 0.0))),
        uncertainty=None if problem.doubt is None else uncertainty(problem.doubt[indices]),
    )
