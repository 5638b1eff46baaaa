"""The optimal core-set (equation 3), by binary search over the distances with set-cover problems for HiGHS."""

from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from dubito.core.distances import exact_sq_distances, read_rows, squared_radii
from dubito.core.problem import Configuration, Request
from dubito.errors import InvalidArgument, SolverFailed, in_python, named
from dubito.matrix import BoolArray, FloatArray, IntArray, len_of
from dubito.request.arrays import check_integer, check_real
from dubito.strategies.base import Choice, without_distances

IN_TIME = in_python(" (OptimalCoreset(seconds=...) allows more time)")
MORE_TIME = f"pass a smaller pool, or {named('strategy', 'coreset')}{IN_TIME}."


@dataclass(frozen=True, slots=True)
class OptimalCoreset:
    """The b picks with the smallest possible covering radius. NP-hard, so for small pools only.

    Parameters
    ----------
    max_pool : int
        Larger pools raise an error with an estimate of the cost.
    seconds : float
        Time limit for each set-cover problem.
    """

    name: ClassVar[str] = "optimal-coreset"
    uses_engine: ClassVar[bool] = False
    uses_doubt: ClassVar[bool] = False
    max_pool: int = 1000
    seconds: float = 60.0

    def __post_init__(self) -> None:
        check_integer("max_pool", self.max_pool, least=1)
        check_real("seconds", self.seconds, least=0.0)

    def plan(self, request: Request) -> None:
        self._refuse_large(len_of(request.pool))

    def choose(self, request: Request) -> Choice:
        """Needs O(n²) memory and at most 2·log₂(n) integer programs with n columns and up to n rows."""
        self.plan(request)
        points = read_rows(request.pool, np.arange(len_of(request.pool)), request.metric)
        known = squared_radii(points, read_rows(request.references, slice(None), request.metric))
        pairwise = np.stack([exact_sq_distances(points, point) for point in points])[:, request.candidates]
        cover, radius = smallest_cover(pairwise, known, request.budget, self.seconds)
        picks = fill_up(pairwise, known, cover, request.budget)
        choice = without_distances(request, request.candidates[picks], np.full(request.budget, np.nan))
        found = choice.configurations[0]
        return Choice((Configuration(found.indices, found.priorities, radius, found.uncertainty),))

    def _refuse_large(self, n_pool: int) -> None:
        if n_pool > self.max_pool:
            more = in_python(" (OptimalCoreset(max_pool=...) raises the limit)")
            raise InvalidArgument(
                f"on {n_pool} points would need {n_pool**2 * 8 / 1e9:.2g} GB for distances and solve up to "
                f"{int(np.ceil(2 * np.log2(n_pool)))} integer programs of {n_pool} columns, possibly hours each",
                argument="strategy",
                value=self.name,
                hint=f"pass a sample of at most {self.max_pool} points, or {named('strategy', 'coreset')}, whose "
                f"radius is at most twice the optimal one{more}.",
            )


def smallest_cover(pairwise: FloatArray, known: FloatArray, budget: int, seconds: float) -> tuple[IntArray, float]:
    """The candidates of an optimal cover (at most ``budget``) and its radius.

    ``pairwise`` (n, candidates) and ``known`` (n,), the distances to the nearest labeled point, are squared.
    """
    values = np.unique(np.concatenate([[0.0], pairwise.ravel(), known[np.isfinite(known)]]))
    low, high = 0, len(values) - 1
    best = np.empty(0, dtype=np.int64)
    while low <= high:
        middle = (low + high) // 2
        cover = find_cover(pairwise <= values[middle], known <= values[middle], budget, seconds)
        if cover is None:
            low = middle + 1
        else:
            best, high = cover, middle - 1
    return best, float(np.sqrt(values[low]))


def find_cover(reaches: BoolArray, is_covered: BoolArray, budget: int, seconds: float) -> IntArray | None:
    """At most ``budget`` candidates that cover all points not covered yet, or None if that is impossible."""
    from scipy.optimize import Bounds, LinearConstraint, milp
    from scipy.sparse import csr_array

    constraints = np.unique(reaches[~is_covered], axis=0)
    if len(constraints) == 0:
        return np.empty(0, dtype=np.int64)
    if not constraints.any(axis=1).all():
        return None
    n_candidates = reaches.shape[1]
    result = milp(
        np.ones(n_candidates),
        integrality=np.ones(n_candidates, dtype=np.int64),
        bounds=Bounds(0, 1),
        constraints=LinearConstraint(csr_array(constraints.astype(np.float64)), lb=1.0),
        options={"time_limit": seconds},
    )
    if result.x is None:
        problem = f"HiGHS did not decide a cover of {len(constraints)} points in {seconds:g} s ({result.message})"
        raise SolverFailed(problem, hint=MORE_TIME)
    chosen = np.flatnonzero(np.rint(result.x))
    if len(chosen) <= budget:
        return chosen
    if result.status != 0:
        raise SolverFailed(
            f"HiGHS found a cover of {len(chosen)} points, more than the {budget} allowed, and did not prove that it "
            f"is the smallest in {seconds:g} s",
            hint=MORE_TIME,
        )
    return None


def fill_up(pairwise: FloatArray, known: FloatArray, cover: IntArray, budget: int) -> IntArray:
    """The cover, extended by the candidates that reduce the distances most until the budget is reached."""
    picks = cover.tolist()
    nearest = np.minimum(known, pairwise[:, cover].min(axis=1, initial=np.inf))
    while len(picks) < budget:
        gains = np.array([np.maximum(nearest - column, 0.0)[np.isfinite(column)].sum() for column in pairwise.T])
        gains[picks] = -1.0
        picks.append(int(np.argmax(gains)))
        nearest = np.minimum(nearest, pairwise[:, picks[-1]])
    return np.array(picks, dtype=np.int64)
