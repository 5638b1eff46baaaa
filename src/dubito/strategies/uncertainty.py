"""Uncertainty alone: the most doubtful points first, however alike they are."""

from dataclasses import dataclass, replace
from typing import ClassVar, Literal, get_args

import numpy as np

from dubito import doubt
from dubito.core.problem import Request
from dubito.request.arrays import check_choice, check_real
from dubito.strategies.base import (
    LEARNABLE,
    Choice,
    Kind,
    doubt_of,
    need_doubt,
    rank_by,
    require_probabilities,
    without_distances,
)
from dubito.strategies.coreset import Coreset
from dubito.strategies.coverage import Coverage


@dataclass(frozen=True, slots=True)
class LeastConfidence:
    """The largest doubt ``1 - max P`` first. O(n log n)."""

    name: ClassVar[str] = "least-confidence"
    uses_engine: ClassVar[bool] = False

    def plan(self, request: Request) -> None:
        """It needs doubt, and no engine."""
        need_doubt(request, self.name)

    def choose(self, request: Request) -> Choice:
        """Priorities are the doubts."""
        return rank_by(request, need_doubt(request, self.name))


@dataclass(frozen=True, slots=True)
class Margin:
    """The smallest gap between the two largest probabilities first. O(n log n)."""

    name: ClassVar[str] = "margin"
    uses_engine: ClassVar[bool] = False

    def plan(self, request: Request) -> None:
        """It needs probabilities, and no engine."""
        require_probabilities(request, self.name)

    def choose(self, request: Request) -> Choice:
        """Priorities are the gaps, negated: larger is picked sooner."""
        return rank_by(request, -doubt.margin(require_probabilities(request, self.name)))


@dataclass(frozen=True, slots=True)
class Entropy:
    """The largest entropy of the class probabilities first. O(n log n)."""

    name: ClassVar[str] = "entropy"
    uses_engine: ClassVar[bool] = False

    def plan(self, request: Request) -> None:
        """It needs probabilities, and no engine."""
        require_probabilities(request, self.name)

    def choose(self, request: Request) -> Choice:
        """Priorities are the entropies in nats."""
        return rank_by(request, doubt.entropy(require_probabilities(request, self.name)))


# Power sampling: doubt decides the odds, chance the picks (Kirsch et al., 2023).


@dataclass(frozen=True, slots=True)
class PowerSampling:
    """Rows drawn without replacement, each with odds proportional to its doubt to a power.

    A batch of the most doubtful rows is often many times the same question; chance spreads it at no cost. Rows without
    any doubt come last, in their order. O(n log n).

    Parameters
    ----------
    power : float
        0 draws evenly among rows with any doubt, large numbers draw the most doubtful.
    doubt : {"margin", "confidence", "learnable"}
        ``1 - (p1 - p2)`` of the two largest probabilities, ``1 - p1``, or how far posterior samples (n, k, c) disagree.
        Doubt that was handed in as such is taken.
    """

    name: ClassVar[str] = "power"
    uses_engine: ClassVar[bool] = False
    power: float = 1.0
    doubt: Kind = "margin"

    def __post_init__(self) -> None:
        check_real("power", self.power, least=0.0)
        check_choice("doubt", self.doubt, get_args(Kind))

    @property
    def needs_samples(self) -> bool:
        """Whether its doubt is what posterior samples disagree on."""
        return self.doubt == LEARNABLE

    def plan(self, request: Request) -> None:
        """It needs doubt, and no engine."""
        doubt_of(request, self.name, self.doubt)

    def choose(self, request: Request) -> Choice:
        """Priorities are the logarithm of the odds and noise (Gumbel's): the largest are a draw by these odds."""
        doubts = doubt_of(request, self.name, self.doubt)
        noise = np.random.default_rng(request.seed).gumbel(size=len(doubts))
        with np.errstate(divide="ignore"):
            scores = np.where(doubts > 0.0, self.power * np.log(doubts) + noise, -np.inf)
        return rank_by(request, scores)


# Random acquisition: the baseline every other strategy must beat.


@dataclass(frozen=True, slots=True)
class Random:
    """Uniformly at random, without replacement; the seed decides. Its priorities are NaN."""

    name: ClassVar[str] = "random"
    uses_engine: ClassVar[bool] = False
    uses_doubt: ClassVar[bool] = False

    def plan(self, request: Request) -> None:
        """It takes any request, and no engine."""

    def choose(self, request: Request) -> Choice:
        """O(n) time."""
        generator = np.random.default_rng(request.seed)
        indices = generator.choice(request.candidates, request.budget, replace=False)
        return without_distances(request, indices, np.full(request.budget, np.nan))


# Doubt first, then cover: the points that cover the most doubtful part of the pool.

CoverKind = Literal["coreset", "coverage"]


@dataclass(frozen=True, slots=True)
class FilterThenCover:
    """Of the most doubtful candidates, some times as many as are asked for, those that cover the pool.

    Parameters
    ----------
    times : float
        Candidates kept for each pick; the most doubtful are kept, of equals those of lowest index.
    cover : {"coreset", "coverage"}
        How the picks are chosen among them.
    doubt : {"margin", "confidence", "learnable"}
        ``1 - (p1 - p2)`` of the two largest probabilities, ``1 - p1``, or how far posterior samples (n, k, c) disagree.
        Doubt that was handed in as such is taken.
    """

    name: ClassVar[str] = "filter-then-cover"
    uses_engine: ClassVar[bool] = True
    times: float = 4.0
    cover: CoverKind = "coreset"
    doubt: Kind = "margin"

    def __post_init__(self) -> None:
        check_real("times", self.times, least=1.0)
        check_choice("cover", self.cover, get_args(CoverKind))
        check_choice("doubt", self.doubt, get_args(Kind))

    @property
    def needs_samples(self) -> bool:
        """Whether its doubt is what posterior samples disagree on."""
        return self.doubt == LEARNABLE

    def choose(self, request: Request) -> Choice:
        """As the strategy that covers; its priorities and its radius."""
        return self._proper.choose(self._filtered(request))

    def plan(self, request: Request) -> object:
        """What the strategy that covers would ask."""
        return self._proper.plan(self._filtered(request))

    @property
    def _proper(self) -> Coreset | Coverage:
        return Coreset() if self.cover == "coreset" else Coverage()

    def _filtered(self, request: Request) -> Request:
        """The same with the most doubtful candidates alone."""
        n_kept = min(len(request.candidates), int(self.times * request.budget))
        doubts = doubt_of(request, self.name, self.doubt)[request.candidates]
        kept = np.sort(np.argsort(-doubts, kind="stable")[:n_kept])
        # What is known of a Pool's rows is of all of them, whoever may be picked.
        return replace(request, candidates=request.candidates[kept])
