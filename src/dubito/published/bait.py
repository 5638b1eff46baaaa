"""BAIT (Ash et al., NeurIPS 2021): the batch that leaves the least Fisher information of the pool unknown.

Features ``x`` (d) and probabilities ``p`` (c) give the expected information of a row, ``V'V`` with the factor
``V = S ⊗ x``. Greedy selection picks twice the budget, and then drops the rows that contribute least. All products with
the information matrix, of size c·d, are updated instead of recomputed; the results equal those of the authors' code.
"""

from dataclasses import dataclass
from typing import ClassVar, Literal, get_args

import numpy as np

from dubito.core.distances import read_rows
from dubito.core.problem import Request
from dubito.doubt import mean_probabilities
from dubito.matrix import FloatArray, IntArray, len_of
from dubito.published.flips import linear_head
from dubito.request.arrays import check_choice, check_integer, check_real
from dubito.strategies.base import Choice, require_probabilities, without_distances

Likelihood = Literal["auto", "full", "binary"]
MAX_FULL_SIZE = 1000
"""With a larger information matrix, `Bait` uses the binary approximation."""
OVERSAMPLING = 2


@dataclass(frozen=True, slots=True)
class Bait:
    """Forward-backward selection that minimizes the trace of A·F.

    A is the inverse of the information of the labeled rows and the batch, and F is the pool's information. The
    information of labeled points without probabilities comes from a linear model that is fitted to the probabilities
    of the pool. With the full likelihood, O(n·c²·d² + (c·d)³) time at the start and O(n·c²·(c + d) + c³·d²) for each
    pick; with the binary one, O(n·d² + d³) and O(n·d + d²). O(n·c² + (c·d)²) memory.

    Parameters
    ----------
    likelihood : {"auto", "full", "binary"}
        The information of the whole softmax, or of its largest probability against the rest, as Huseljic et al. (2024)
        do for many classes; by default the former up to c·d = 1,000. The latter prefers confident rows if no
        probability exceeds one half.
    penalty : float
        Added to the diagonal of the information.
    subset : int, optional
        Use only this many candidates, drawn at random.
    """

    name: ClassVar[str] = "bait"
    uses_engine: ClassVar[bool] = False
    likelihood: Likelihood = "auto"
    penalty: float = 1.0
    subset: int | None = None

    def __post_init__(self) -> None:
        check_choice("likelihood", self.likelihood, get_args(Likelihood))
        check_real("penalty", self.penalty, least=1e-9)
        if self.subset is not None:
            check_integer("subset", self.subset, least=1)

    def plan(self, request: Request) -> None:
        require_probabilities(request, self.name)

    def choose(self, request: Request) -> Choice:
        """Priorities are NaN: the picks have no order of merit."""
        predicted, candidates = require_probabilities(request, self.name), request.candidates
        if self.subset is not None and max(self.subset, request.budget) < len(candidates):
            n_kept = max(self.subset, request.budget)
            candidates = np.sort(np.random.default_rng(request.seed).choice(candidates, n_kept, replace=False))
        points, probabilities = read_rows(request.pool, candidates, request.metric), mean_probabilities(predicted)
        labeled = read_rows(request.references, slice(0, len_of(request.references)), request.metric)
        if len(request.labeled) == len(labeled):
            labeled_probabilities = probabilities[request.labeled]
        else:
            labeled_probabilities = linear_head(points, probabilities[candidates]).probabilities(labeled)
        is_full = self.likelihood == "full" or (
            self.likelihood == "auto" and points.shape[1] * probabilities.shape[1] <= MAX_FULL_SIZE
        )
        factors_of = full_factors if is_full else binary_factors
        factors, labeled_factors = factors_of(probabilities[candidates]), factors_of(labeled_probabilities)
        picks = forward_backward(points, factors, labeled, labeled_factors, request.budget, self.penalty)
        return without_distances(request, candidates[picks], np.full(request.budget, np.nan))


def full_factors(probabilities: FloatArray) -> FloatArray:
    """(n, c, c) factors S of the expected information of the softmax: ``sqrt(p_j) (e_j - p)``."""
    errors = np.eye(probabilities.shape[1]) - probabilities[:, None]
    return np.asarray(np.sqrt(probabilities)[:, :, None] * errors)


def binary_factors(probabilities: FloatArray) -> FloatArray:
    """(n, 1, 1) factors of the information of the largest probability p against the rest: ``sqrt(p (1 - p))``."""
    largest = probabilities.max(axis=1)
    return np.asarray(np.sqrt(largest * (1.0 - largest))[:, None, None])


def information(factors: FloatArray, points: FloatArray) -> FloatArray:
    """(k·d, k·d) the sum of V'V over rows with factors (n, r, k) and features (n, d)."""
    squares = np.einsum("nrj,nrk->njk", factors, factors)
    k, d = factors.shape[2], points.shape[1]
    total = np.empty((k, d, k, d))
    for i in range(k):
        for j in range(k):
            total[i, :, j] = (points * squares[:, i, j, None]).T @ points
    return total.reshape(k * d, k * d)


def forward_backward(
    points: FloatArray,
    factors: FloatArray,
    labeled: FloatArray,
    labeled_factors: FloatArray,
    budget: int,
    penalty: float = 1.0,
) -> list[int]:
    """Positions of the picks: pick twice the budget greedily, then drop the rows that contribute least."""
    n, n_labeled = len(points), len(labeled)
    share = float(np.sqrt(budget / (n_labeled + budget)))
    labeled_information = information(labeled_factors, labeled)
    pool_information = (information(factors, points) + labeled_information) / (n + n_labeled)
    prior = penalty * np.eye(len(pool_information))
    inverse: FloatArray = np.asarray(np.linalg.inv(prior + labeled_information / (n_labeled + budget)))
    state = _InverseInformation(points, np.asarray(share * factors), inverse, inverse @ pool_information @ inverse)
    picks = list[int]()
    for _ in range(min(OVERSAMPLING * budget, n)):
        gains = state.gains(np.arange(n), 1.0)
        gains[picks] = -np.inf
        picks.append(int(gains.argmax()))
        state.update(picks[-1], 1.0)
    while len(picks) > budget:
        losses = -state.gains(np.array(picks), -1.0)
        dropped = picks.pop(int(losses.argmin()))
        state.update(dropped, -1.0)
    return picks


class _InverseInformation:
    """The inverse A of the information and B = A F A, with the products V A V' and V B V' of all rows."""

    def __init__(self, points: FloatArray, factors: FloatArray, a: FloatArray, b: FloatArray) -> None:
        self.points, self.factors, self.a, self.b = points, factors, a, b
        self.vav, self.vbv = self._quadratic(a), self._quadratic(b)

    def gains(self, rows: IntArray, sign: float) -> FloatArray:
        """(r,) the decrease of the trace if each row is added (sign 1), or minus its increase if it is removed (-1)."""
        inner = sign * np.eye(self.factors.shape[1]) + self.vav[rows]
        return np.asarray(np.einsum("nii->n", np.linalg.solve(inner, self.vbv[rows])))

    def update(self, row: int, sign: float) -> None:
        """Add or remove a row, by the Woodbury identity."""
        v = np.kron(self.factors[row], self.points[row])
        g, h = self.a @ v.T, self.b @ v.T
        q = np.linalg.inv(sign * np.eye(len(v)) + v @ g)
        left, right = self._product(g), self._product(h)
        inner = q @ (v @ h) @ q
        crossed = left @ q @ right.transpose(0, 2, 1)
        self.vav -= left @ q @ left.transpose(0, 2, 1)
        self.vbv += left @ inner @ left.transpose(0, 2, 1) - crossed - crossed.transpose(0, 2, 1)
        outer = g @ q @ h.T
        self.a = self.a - g @ q @ g.T
        self.b = self.b - outer - outer.T + g @ inner @ g.T

    def _product(self, columns: FloatArray) -> FloatArray:
        """(n, r, w) V times columns (k·d, w)."""
        d = self.points.shape[1]
        parts = [self.points @ columns[start : start + d] for start in range(0, len(columns), d)]
        return np.asarray(self.factors @ np.stack(parts, axis=1))

    def _quadratic(self, matrix: FloatArray) -> FloatArray:
        """(n, r, r) V M V'."""
        d, k = self.points.shape[1], self.factors.shape[2]
        inner = np.empty((len(self.points), k, k))
        for i in range(k):
            for j in range(k):
                block = matrix[i * d : (i + 1) * d, j * d : (j + 1) * d]
                inner[:, i, j] = np.einsum("nd,nd->n", self.points @ block, self.points)
        return np.asarray(self.factors @ inner @ self.factors.transpose(0, 2, 1))
