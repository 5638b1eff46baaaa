"""The covering radius of a selection, computed on demand.

A selection must not keep a large pool alive, so it stores weak references to the arguments of `select`. The radius can
be computed as long as the caller keeps them alive.
"""

import weakref
from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np

from dubito.core.problem import Metric, Problem, Request
from dubito.engines.dispatch import choose_engine
from dubito.matrix import IntArray, Matrix, Rows, Stack, len_of
from dubito.request.ids import check_pool
from dubito.request.rows import Labeled, check_labeled
from dubito.request.scaling import standardize_points


class CoverTerms(NamedTuple):
    """Options of the distance computation."""

    metric: Metric
    largest: float
    memory_limit: int | None
    is_standardized: bool


class Given(NamedTuple):
    """The arguments of `select` as passed by the caller, of which only weak references are kept."""

    pool: object
    labeled: object
    is_checked: bool = False
    """Whether the pool is already the validated, possibly standardized matrix of the request."""


class Cover:
    """Computes the covering radius of some picks; returns None once the pool or the labeled features are gone.

    Unpickles as None, since the pool does not exist in another process.
    """

    __slots__ = ("is_checked", "is_foreign", "labeled", "picked", "pool", "rows", "terms")

    def __init__(self, given: Given, request: Request, picked: IntArray) -> None:
        references = request.references
        self.is_foreign = not (isinstance(references, Rows) and references.matrix is request.pool)
        self.pool, self.labeled = (
            weak_reference(given.pool),
            weak_reference(given.labeled if self.is_foreign else None),
        )
        self.is_checked, self.rows, self.picked = given.is_checked, request.labeled, picked
        self.terms = CoverTerms(request.metric, request.largest, request.memory_limit, request.standardized)

    def __call__(self) -> float | None:
        pool, labeled = self.pool(), self.labeled()
        if pool is None or (self.is_foreign and labeled is None):
            return None
        matrix, references = self._read(pool, labeled)
        return covering_radius(matrix, Stack([references, Rows(matrix, self.picked)]), self.picked, self.terms)

    def _read(self, pool: Any, labeled: object) -> tuple[Matrix, Matrix]:
        """The validated pool and references, as they were during the selection."""
        if self.is_checked:
            return pool, Rows(pool, self.rows)
        matrix = check_pool(pool)[0].matrix
        seen = Labeled(Rows(matrix, self.rows), self.rows, 0.0)
        if self.is_foreign:
            seen = check_labeled(labeled, matrix)
        if self.terms.is_standardized:
            matrix, seen, _, _ = standardize_points(matrix, seen)
        return matrix, seen.references

    def __deepcopy__(self, memo: object) -> "Cover":
        return self

    def __reduce__(self) -> tuple[type[None], tuple[()]]:
        return type(None), ()


def weak_reference(value: object) -> Callable[[], object]:
    """A weak reference, or a strong one to objects that do not support it, such as lists, which are never large."""
    try:
        return weakref.ref(value)
    except TypeError:
        return lambda: value


def covering_radius(pool: Matrix, references: Matrix, picked: IntArray, terms: CoverTerms) -> float:
    """δ: the largest distance from a pool point to its nearest reference; 0 if every point was picked.

    It equals the priority of the next pick of a plain core-set, so an engine computes it.
    """
    rest = np.setdiff1d(np.arange(len_of(pool)), picked)
    if len(rest) == 0:
        return 0.0
    problem = Problem(
        pool, references, rest, 1, metric=terms.metric, largest=terms.largest, memory_limit=terms.memory_limit
    )
    solution = choose_engine("auto", problem).solve(problem)
    return float(solution.configurations[0].priorities[0])
