"""The probabilistic core-set: the random batch that tells the components of a mixture apart best (appendix)."""

from dataclasses import dataclass
from typing import ClassVar, get_args

import numpy as np

from dubito.checks import check_choice, check_integer, check_real
from dubito.distances import read_rows
from dubito.errors import InvalidArgument
from dubito.matrix import FloatArray, IntArray
from dubito.problem import Request
from dubito.strategies.base import Choice, need_doubt, without_distances
from dubito.strategies.mixture import (
    ClippedScale,
    Covariance,
    Mixture,
    batch_scores,
    fit_mixture,
    mixture_probabilities,
    scale_of,
)


@dataclass(frozen=True, slots=True)
class ProbabilisticCoreset:
    """Of many random batches the one of largest M-bBALD score (see `dubito.strategies.mixture`), spread over the modes.

    Once something is labelled, a mixture fitted to it says which candidates are like it: those more likely than a
    quantile are dropped first, the mixture is fitted to the rest, and batches are scored together with what is
    labelled. The paper found it barely better than random; the score's largest value is ln K, and batches of many
    more points than components all come near it.

    Reads the candidates into float64 and holds K numbers a candidate beside them. O(n·K·d) time for each step of a
    fit with ``diag``, then O((batches·b + m)·K·samples).

    Parameters
    ----------
    components : int
        K, overfitted on purpose.
    batches : int
        Random batches to choose from.
    quantile : float
        Share of the candidates kept once something is labelled, the least likely ones; never fewer than the budget.
    exploit : float
        Weight of the batch's mean doubt against its score over ln K. 0.1 is the paper's exploitive form.
    covariance : {"full", "tied", "diag", "spherical"}
        Shape of the components. The paper does not tell its own.
    samples : int
        Labellings of a batch that a score is taken over: all of them while there are at most so many, else a sample.
    """

    name: ClassVar[str] = "probabilistic-coreset"
    uses_engine: ClassVar[bool] = False
    uses_doubt: ClassVar[bool] = False
    components: int = 32
    batches: int = 1000
    quantile: float = 0.5
    exploit: float = 0.0
    covariance: Covariance = "diag"
    samples: int = 1024

    def __post_init__(self) -> None:
        for name in ("batches", "samples"):
            check_integer(name, getattr(self, name), least=1)
        check_integer("components", self.components, least=2)
        _check_share("quantile", self.quantile)
        _check_share("exploit", self.exploit)
        check_choice("covariance", self.covariance, get_args(Covariance))

    def plan(self, request: Request) -> None:
        """With ``exploit`` it needs doubt; never an engine."""
        if self.exploit > 0:
            need_doubt(request, self.name)

    def choose(self, request: Request) -> Choice:
        """Every pick's priority is its batch's score, with ``exploit`` the weighted one; picks have no order."""
        doubt = need_doubt(request, self.name)[request.candidates] if self.exploit > 0 else None
        rng = np.random.default_rng(request.seed)
        points = read_rows(request.pool, request.candidates, request.metric)
        labelled = read_rows(request.references, slice(None), request.metric)
        scale = scale_of(points)
        kept = np.arange(len(points))
        if len(labelled):
            kept = self._unlike(self._fit(labelled, scale, rng).log_density(points), request.budget)
        mixture = self._fit(points[kept], scale, rng)
        batches = draw_batches(len(kept), request.budget, self.batches, rng)
        scores = batch_scores(
            mixture_probabilities(mixture, points[kept]),
            batches,
            given=mixture_probabilities(mixture, labelled),
            samples=self.samples,
            seed=int(rng.integers(2**32)),
        )
        if doubt is not None:
            most = np.log(max(mixture.components, 2))
            scores = (1.0 - self.exploit) * scores / most + self.exploit * doubt[kept[batches]].mean(axis=1)
        best = int(scores.argmax())
        picks = request.candidates[kept[batches[best]]]
        return without_distances(request, picks, np.full(request.budget, scores[best]))

    def _fit(self, points: FloatArray, scale: ClippedScale, rng: np.random.Generator) -> Mixture:
        seed = int(rng.integers(2**32))
        return fit_mixture(points, self.components, covariance=self.covariance, seed=seed, scale=scale)

    def _unlike(self, likelihood: FloatArray, budget: int) -> IntArray:
        """Positions of the points no more likely than the quantile, ascending; at least ``budget``."""
        is_kept = likelihood <= np.quantile(likelihood, self.quantile)
        is_kept[np.argsort(likelihood, kind="stable")[:budget]] = True
        return np.flatnonzero(is_kept)


def draw_batches(n_points: int, budget: int, number: int, rng: np.random.Generator) -> IntArray:
    """Random batches (number, b) of distinct points; only one where it takes all of them.

    Examples
    --------
    >>> draw_batches(3, 3, 1000, np.random.default_rng(0)).shape
    (1, 3)
    """
    if budget == n_points:
        return np.arange(n_points)[None]
    return np.stack([rng.choice(n_points, budget, replace=False) for _ in range(number)])


def _check_share(name: str, value: object) -> None:
    if check_real(name, value, least=0.0) > 1.0:
        raise InvalidArgument("is no share", argument=name, value=value, mend="pass a number from 0 to 1.")
