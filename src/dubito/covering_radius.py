"""The covering radius of a selection, computed on demand.

A selection must not keep a large pool alive, so it stores weak references to the arguments of `select`. The radius can
be computed as long as the caller keeps them alive.
"""

import weakref
from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np

from dubito.core.problem import Problem, Request
from dubito.engines.dispatch import choose_engine
from dubito.matrix import IntArray, Matrix, Rows, Stack, len_of
from dubito.request.ids import check_pool
from dubito.request.rows import Labeled, check_labeled
from dubito.request.scaling import standardize_points


class CallerArrays(NamedTuple):
    """The arrays that the caller passed to `select`, to which only weak references are kept."""

    pool: object
    labeled: object
    is_checked: bool = False
    """Whether the pool is already the validated, possibly standardized matrix of the request."""


class CoveringRadius:
    """Computes the covering radius of some picks; returns None once the pool or the labeled features are gone.

    Unpickles as None, since the pool does not exist in another process.
    """

    def __init__(self, original: CallerArrays, request: Request, picked: IntArray) -> None:
        references = request.references
        self.has_features = not (isinstance(references, Rows) and references.matrix is request.pool)
        """Whether the labeled points are separate features instead of rows of the pool."""
        self.pool = weak_reference(original.pool)
        self.labeled = weak_reference(original.labeled if self.has_features else None)
        self.is_checked, self.labeled_rows, self.picked = original.is_checked, request.labeled, picked
        self.metric, self.largest, self.memory_limit = request.metric, request.largest, request.memory_limit
        self.is_standardized = request.standardized

    def __call__(self) -> float | None:
        """δ: the largest distance from a pool point to its nearest reference; 0 if every point was picked.

        It equals the priority of the next pick of a plain core-set, so an engine computes it.
        """
        pool, labeled = self.pool(), self.labeled()
        if pool is None or (self.has_features and labeled is None):
            return None
        matrix, references = self._read(pool, labeled)
        rest = np.setdiff1d(np.arange(len_of(matrix)), self.picked)
        if len(rest) == 0:
            return 0.0
        problem = Problem(
            pool=matrix,
            references=Stack([references, Rows(matrix, self.picked)]),
            candidates=rest,
            budget=1,
            metric=self.metric,
            largest=self.largest,
            memory_limit=self.memory_limit,
        )
        solution = choose_engine("auto", problem).solve(problem)
        return float(solution.configurations[0].priorities[0])

    def _read(self, pool: Any, labeled: object) -> tuple[Matrix, Matrix]:
        """The validated pool and references, as they were during the selection."""
        if self.is_checked:
            return pool, Rows(pool, self.labeled_rows)
        matrix = check_pool(pool)[0].matrix
        checked_labeled = Labeled(Rows(matrix, self.labeled_rows), self.labeled_rows, 0.0)
        if self.has_features:
            checked_labeled = check_labeled(labeled, matrix)
        if self.is_standardized:
            matrix, checked_labeled, _, _ = standardize_points(matrix, checked_labeled)
        return matrix, checked_labeled.references

    def __deepcopy__(self, memo: object) -> "CoveringRadius":
        return self

    def __reduce__(self) -> tuple[type[None], tuple[()]]:
        return type(None), ()


def weak_reference(value: object) -> Callable[[], object]:
    """A weak reference, or a strong one to objects that do not support it, such as lists, which are never large."""
    try:
        return weakref.ref(value)
    except TypeError:
        return lambda: value
