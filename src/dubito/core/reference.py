"""Reference implementation of Algorithms 1 and 2 and the beam search, slow and simple: the engines' test oracle.

The squared priority of a point is ``Δ²·weight``, where Δ is its distance to the nearest reference. The point of largest
priority is picked; ties go to the lowest index. Differences from the published pseudo-code:

- exactly ``b`` picks (the published loop ``t = 0..budget`` makes one more);
- a pick leaves the pool and counts as labeled (Algorithm 1 as published would pick it again);
- ``scaling="respective"`` scales an update by the doubt of the *remaining* point, following the paper's text and its
  quadrant figure; ``"acquired"`` scales it by the doubt of the pick, following line 11.

Costs divide priorities: the weights are already divided by squared costs.
"""

from dataclasses import dataclass, replace

import numpy as np

from dubito.core.distances import exact_sq_distances, read_rows, scaled_sq_distances_from_mean
from dubito.core.problem import Configuration, Problem
from dubito.doubt import uncertainty
from dubito.matrix import FloatArray, IntArray, len_of


@dataclass(frozen=True, slots=True)
class SearchState:
    """A configuration during the search. Picks are positions in ``problem.candidates``."""

    picks: tuple[int, ...]
    priorities: tuple[float, ...]
    score: int
    squared: FloatArray
    """(candidates,) squared priorities; -1 where picked."""


def solve(problem: Problem) -> tuple[Configuration, ...]:
    """All configurations, best first; exactly one if ``beam_width`` is 1."""
    return (greedy(problem),) if problem.beam_width == 1 else beam(problem)


def greedy(problem: Problem) -> Configuration:
    """Algorithm 2, or Algorithm 1 if the weights are None. O(n·(m + b)·d) time, O(n·d) memory."""
    points = read_rows(problem.pool, problem.candidates, problem.metric)
    state = SearchState((), (), 0, initial_priorities(problem, points))
    for _ in range(problem.budget):
        best = int(proposals(problem, state, 1)[0])
        state = exclude_full_classes(problem, extend(problem, points, state, best))
    return finish(problem, state)


def beam(problem: Problem) -> tuple[Configuration, ...]:
    """Beam search: each step keeps the ``w`` most uncertain of up to ``w²`` children."""
    points = read_rows(problem.pool, problem.candidates, problem.metric)
    states = [SearchState((), (), 0, initial_priorities(problem, points))]
    for _ in range(problem.budget):
        children = sorted(
            (
                -(state.score + score_of(problem, position)),
                rank,
                -squared_priority(problem, state, position),
                position,
            )
            for rank, state in enumerate(states)
            for position in proposals(problem, state, problem.beam_width).tolist()
        )
        kept: dict[frozenset[int], tuple[SearchState, int]] = {}
        for _, rank, _, position in children:
            kept.setdefault(frozenset((*states[rank].picks, position)), (states[rank], position))
        survivors = list(kept.values())[: problem.beam_width]
        states = [extend(problem, points, state, position) for state, position in survivors]
    return tuple(finish(problem, state) for state in states)


def initial_priorities(problem: Problem, points: FloatArray) -> FloatArray:
    """Squared priorities before any pick (line 3); infinite in a cold start, 0 without doubt."""
    nearest = np.full(len(points), np.inf)
    for row in range(len_of(problem.references)):
        reference = read_rows(problem.references, slice(row, row + 1), problem.metric)[0]
        nearest = np.minimum(nearest, exact_sq_distances(points, reference))
    return scaled(nearest, None if problem.weights is None else problem.weights[problem.candidates])


def scaled(squared: FloatArray, weights: FloatArray | None) -> FloatArray:
    """Δ²·weight; 0 where the weight is 0, even if Δ is infinite."""
    if weights is None:
        return squared
    return np.where(weights == 0.0, 0.0, np.where(weights == 0.0, 0.0, squared) * weights)


def proposals(problem: Problem, state: SearchState, width: int) -> IntArray:
    """The unpicked candidates of largest priority, ties by index; the first pick of a cold start by `cold_order`."""
    order = cold_order(problem) if is_cold(problem, state) else np.argsort(-state.squared, kind="stable")
    return order[: min(width, len(order) - len(state.picks))]


def is_cold(problem: Problem, state: SearchState) -> bool:
    """Whether nothing is labeled or picked, so that no distance is defined."""
    return not state.picks and len_of(problem.references) == 0


def squared_priority(problem: Problem, state: SearchState, position: int) -> float:
    """The squared priority of a candidate; infinite for the first pick of a cold start."""
    return np.inf if is_cold(problem, state) else float(state.squared[position])


def cold_order(problem: Problem) -> IntArray:
    """Candidates in cold-start order, per unit of cost: by doubt, or else by distance from the pool's mean."""
    costs = 1.0 if problem.costs is None else problem.costs[problem.candidates]
    if problem.weights is not None and problem.doubt is not None:
        return np.argsort(-problem.doubt[problem.candidates] / costs, kind="stable")
    with np.errstate(over="ignore"):
        distances = scaled_sq_distances_from_mean(problem.pool, problem.candidates, problem.metric) * (costs * costs)
    return np.argsort(distances, kind="stable")


def extend(problem: Problem, points: FloatArray, state: SearchState, pick: int) -> SearchState:
    """The configuration with one more pick (lines 8 to 12)."""
    update = exact_sq_distances(points, points[pick])
    if problem.weights is not None and problem.scaling == "respective":
        update = scaled(update, problem.weights[problem.candidates])
    elif problem.weights is not None:
        update = update * problem.weights[problem.candidates[pick]]
    priority = float(np.sqrt(squared_priority(problem, state, pick)))
    squared = np.minimum(state.squared, update)
    squared[pick] = -1.0
    return SearchState(
        (*state.picks, pick), (*state.priorities, priority), state.score + score_of(problem, pick), squared
    )


def exclude_full_classes(problem: Problem, state: SearchState) -> SearchState:
    """Mark all candidates of classes with exhausted quotas as picked."""
    if problem.quotas is None:
        return state
    remaining = problem.quotas.remaining(problem.candidates[list(state.picks)])
    is_full = remaining[problem.quotas.classes[problem.candidates]] <= 0
    return replace(state, squared=np.where(is_full, -1.0, state.squared))


def score_of(problem: Problem, position: int) -> int:
    """The fixed-point -log(1 - doubt) of a candidate; 0 if ``beam_width`` is 1."""
    return 0 if problem.scores is None else int(problem.scores[problem.candidates[position]])


def finish(problem: Problem, state: SearchState) -> Configuration:
    """Convert positions among the candidates to row numbers of the pool."""
    indices = problem.candidates[np.array(state.picks, dtype=np.int64)]
    return Configuration(
        indices=indices,
        priorities=np.array(state.priorities),
        radius=float(np.sqrt(max(state.squared.max(), 0.0))),
        uncertainty=None if problem.doubt is None else uncertainty(problem.doubt[indices]),
    )
