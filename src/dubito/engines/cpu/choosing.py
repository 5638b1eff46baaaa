"""Whether a problem is small: which of the engine's ways is the quickest, by what they were measured to cost.

The seconds were fitted to 42 sizes from 500 x 16 to 15,000 x 512, with 50 to 1,000 labelled and 20 or 200 picks, on two
cores. What counts is where the plain and the lazy way cross, and both are mostly products, so that a faster machine
moves that little.
"""

from typing import Literal

from dubito.engines import compiled
from dubito.engines.cpu.plain import FRONT, LARGEST_FRONT
from dubito.matrix import len_of
from dubito.problem import Problem

CALL_SECONDS, PRODUCT_SECONDS, FRONT_SECONDS = 1.2e-3, 1.8e-11, 3.3e-11
"""Of the plain way: a call, a feature of a pair in a product in float32, and in one of a front's in float64."""
READ_SECONDS, ROW_SECONDS, PICK_SECONDS = 6e-10, 5.6e-8, 1.4e-5
"""Beside that for each feature of the pool, each row of it, and each pick."""
PICKS_OF_A_FRONT = 150
LAZY_SECONDS, LAZY_PICK_SECONDS, LAZY_READ_SECONDS, ANCHOR_SECONDS = 6e-3, 2.9e-5, 8.7e-8, 6.8e-11
"""Of the lazy way: a call, a pick and each of its features, and a feature of a pair with an anchor."""
ANCHORS = 128
LARGEST = 32 << 20
"""Bytes of candidates in float32 up to which they may be copied."""


PAIR_SECONDS, FEATURE_SECONDS, TINY_SECONDS = 2e-8, 1e-9, 6e-4
"""Of the way for tiny ones: a pair of points, each of its features, and how long the whole may take."""

Way = Literal["tiny", "plain", "lazy"]


def way_of(problem: Problem) -> Way:
    """The quickest."""
    if not can(problem):
        return "lazy"
    n_rows, d, budget, n_labelled = _sizes(problem)
    seconds = n_rows * (n_labelled + budget) * (PAIR_SECONDS + d * FEATURE_SECONDS)
    if compiled.steps is not None and seconds < TINY_SECONDS:
        return "tiny"
    return "plain" if pays(problem) else "lazy"


def can(problem: Problem) -> bool:
    """The ways for small ones solve greedy problems of a single call, within as much memory as they like."""
    is_greedy = problem.beam_width == 1 and problem.scaling == "respective" and problem.quotas is None
    return is_greedy and problem.known is None and problem.memory_limit is None


def pays(problem: Problem) -> bool:
    """Whether the plain way is the quicker."""
    n_values = len(problem.candidates) * problem.pool.shape[1]
    return 4 * n_values <= LARGEST and _plainly(problem) < _lazily(problem)


def _plainly(problem: Problem) -> float:
    n_rows, d, budget, n_labelled = _sizes(problem)
    n_front = min(n_rows, LARGEST_FRONT, 2 * budget + FRONT)
    pairs = max(1.0, budget / PICKS_OF_A_FRONT) * n_front * (n_labelled + budget + n_front)
    return (
        CALL_SECONDS
        + n_rows * (ROW_SECONDS + d * (READ_SECONDS + (n_labelled + budget) * PRODUCT_SECONDS))
        + budget * PICK_SECONDS
        + pairs * d * FRONT_SECONDS
    )


def _lazily(problem: Problem) -> float:
    n_rows, d, budget, n_labelled = _sizes(problem)
    first = n_rows * d * min(n_labelled, ANCHORS) * ANCHOR_SECONDS
    return LAZY_SECONDS + first + budget * (LAZY_PICK_SECONDS + d * LAZY_READ_SECONDS)


def _sizes(problem: Problem) -> tuple[int, int, int, int]:
    return len(problem.candidates), problem.pool.shape[1], problem.budget, len_of(problem.references)
