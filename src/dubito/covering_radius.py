"""The covering radius of picks, computed when asked for, without holding on to the pool.

A selection is small and lives long, and a pool need not. So what is kept is a weak reference to whatever was handed in:
while somebody else holds that, the radius can be computed; afterwards it is unknown.
"""

import weakref
from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np

from dubito.core.problem import Metric, Problem, Request
from dubito.engines.dispatch import choose_engine
from dubito.matrix import IntArray, Matrix, Rows, Stack, len_of
from dubito.request.ids import check_pool
from dubito.request.rows import Labelled, check_labelled
from dubito.request.scaling import standardise_points


class CoverTerms(NamedTuple):
    """What else a distance depends on."""

    metric: Metric
    largest: float
    memory_limit: int | None
    is_standardised: bool


class Given(NamedTuple):
    """What somebody else holds on to: a pool, and what is labelled, as they were handed in."""

    pool: object
    labelled: object
    is_checked: bool = False
    """Whether the pool is that of the request already, on its scale."""


class Cover:
    """Computes the covering radius of some picks; None once the pool, or the features of what is labelled, are gone.

    Pickled it becomes None: another process has no pool.
    """

    __slots__ = ("is_checked", "is_foreign", "labelled", "picked", "pool", "rows", "terms")

    def __init__(self, given: Given, request: Request, picked: IntArray) -> None:
        references = request.references
        self.is_foreign = not (isinstance(references, Rows) and references.matrix is request.pool)
        self.pool, self.labelled = weakly(given.pool), weakly(given.labelled if self.is_foreign else None)
        self.is_checked, self.rows, self.picked = given.is_checked, request.labelled, picked
        self.terms = CoverTerms(request.metric, request.largest, request.memory_limit, request.standardised)

    def __call__(self) -> float | None:
        """See `covering_radius`."""
        pool, labelled = self.pool(), self.labelled()
        if pool is None or (self.is_foreign and labelled is None):
            return None
        matrix, references = self._read(pool, labelled)
        return covering_radius(matrix, Stack([references, Rows(matrix, self.picked)]), self.picked, self.terms)

    def _read(self, pool: Any, labelled: object) -> tuple[Matrix, Matrix]:
        """The pool and what is labelled once more, as they were for the picks."""
        if self.is_checked:
            return pool, Rows(pool, self.rows)
        matrix = check_pool(pool)[0].matrix
        seen = Labelled(Rows(matrix, self.rows), self.rows, 0.0)
        if self.is_foreign:
            seen = check_labelled(labelled, matrix)
        if self.terms.is_standardised:
            matrix, seen, _, _ = standardise_points(matrix, seen)
        return matrix, seen.references

    def __deepcopy__(self, memo: object) -> "Cover":
        return self

    def __reduce__(self) -> tuple[type[None], tuple[()]]:
        return type(None), ()


def weakly(value: object) -> Callable[[], object]:
    """Gives the value while somebody else holds it; lists, which cannot be held so and are never large, for good."""
    try:
        return weakref.ref(value)
    except TypeError:
        return lambda: value


def covering_radius(pool: Matrix, references: Matrix, picked: IntArray, terms: CoverTerms) -> float:
    """δ: the largest distance from a pool point to its nearest reference; 0 where every point was picked.

    It is the radius a plain core-set sees before its next pick, so an engine computes it.
    """
    rest = np.setdiff1d(np.arange(len_of(pool)), picked)
    if len(rest) == 0:
        return 0.0
    problem = Problem(
        pool, references, rest, 1, metric=terms.metric, largest=terms.largest, memory_limit=terms.memory_limit
    )
    solution = choose_engine("auto", problem).solve(problem)
    return float(solution.configurations[0].priorities[0])
