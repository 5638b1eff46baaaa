"""Uncertainty sampling, random sampling, and coverage of the most uncertain points."""

from dataclasses import dataclass, replace
from typing import ClassVar, Literal, get_args

import numpy as np

from dubito import doubt
from dubito.core.problem import Request
from dubito.matrix import len_of
from dubito.request.arrays import check_choice, check_real
from dubito.strategies.base import (
    LEARNABLE,
    Choice,
    Kind,
    PerGroup,
    check_per_group,
    choose_groups,
    doubt_of,
    rank_by,
    require_doubt,
    require_probabilities,
    without_distances,
)
from dubito.strategies.coreset import Coreset
from dubito.strategies.coverage import Coverage


@dataclass(frozen=True, slots=True)
class ByScore:
    """Base class of strategies that rank rows by a score."""

    uses_engine: ClassVar[bool] = False
    picks_groups: ClassVar[bool] = True
    per_group: PerGroup = "max"
    """With groups: the score of a group is the largest of its rows' scores (``"max"``), their ``"mean"``, their
    ``"sum"``, or the sum of the k largest (``"top-k"``, such as ``"top-3"``)."""

    def __post_init__(self) -> None:
        check_per_group(self.per_group)


@dataclass(frozen=True, slots=True)
class LeastConfidence(ByScore):
    """The largest doubt ``1 - max P`` first. O(n log n)."""

    name: ClassVar[str] = "least-confidence"

    def plan(self, request: Request) -> None:
        require_doubt(request, self.name)

    def choose(self, request: Request) -> Choice:
        """Priorities are the doubt."""
        return rank_by(request, require_doubt(request, self.name), self.per_group)


@dataclass(frozen=True, slots=True)
class Margin(ByScore):
    """The smallest gap between the two largest probabilities first. O(n log n)."""

    name: ClassVar[str] = "margin"

    def plan(self, request: Request) -> None:
        require_probabilities(request, self.name)

    def choose(self, request: Request) -> Choice:
        """Priorities are the negative gaps; for sums over the rows of groups, 1 less the gaps."""
        gaps = doubt.margin(require_probabilities(request, self.name))
        # More rows must not lower the sum of a group.
        is_mean = request.groups is None or self.per_group in ("max", "mean")
        return rank_by(request, -gaps if is_mean else 1.0 - gaps, self.per_group)


@dataclass(frozen=True, slots=True)
class Entropy(ByScore):
    """The largest entropy of the class probabilities first. O(n log n)."""

    name: ClassVar[str] = "entropy"

    def plan(self, request: Request) -> None:
        require_probabilities(request, self.name)

    def choose(self, request: Request) -> Choice:
        """Priorities are the entropies in nats."""
        return rank_by(request, doubt.entropy(require_probabilities(request, self.name)), self.per_group)


# Power sampling (Kirsch et al., 2023).


@dataclass(frozen=True, slots=True)
class PowerSampling:
    """Rows drawn without replacement, with probabilities proportional to doubt to a power.

    The most uncertain rows are often near-duplicates; sampling makes the batch more diverse at no cost. Rows with doubt
    0 come last, by index. O(n log n).

    Parameters
    ----------
    power : float
        0 draws uniformly from rows with positive doubt; large numbers draw the most uncertain rows.
    doubt : {"margin", "confidence", "learnable"}
        ``1 - (p1 - p2)`` of the two largest probabilities, ``1 - p1``, or the disagreement of posterior samples (n, k,
        c). Doubt that was passed directly is used unchanged.
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
        """Whether the doubt is the disagreement of posterior samples."""
        return self.doubt == LEARNABLE

    def plan(self, request: Request) -> None:
        doubt_of(request, self.name, self.doubt)

    def choose(self, request: Request) -> Choice:
        """Priorities are log-probabilities plus Gumbel noise: the largest are a draw without replacement."""
        doubts = doubt_of(request, self.name, self.doubt)
        noise = np.random.default_rng(request.seed).gumbel(size=len(doubts))
        with np.errstate(divide="ignore"):
            scores = np.where(doubts > 0.0, self.power * np.log(doubts) + noise, -np.inf)
        return rank_by(request, scores)


# Random sampling, the baseline.


@dataclass(frozen=True, slots=True)
class Random:
    """Uniformly at random, without replacement. Priorities are NaN."""

    name: ClassVar[str] = "random"
    uses_engine: ClassVar[bool] = False
    uses_doubt: ClassVar[bool] = False
    picks_groups: ClassVar[bool] = True

    def choose(self, request: Request) -> Choice:
        """Takes O(n) time."""
        generator = np.random.default_rng(request.seed)
        if request.groups is not None:
            present = np.unique(request.groups.numbers[request.candidates])
            picks = generator.choice(present, request.budget, replace=False)
            priorities, scores = np.full(request.budget, np.nan), np.full(len_of(request.pool), np.nan)
            return choose_groups(request, request.groups, picks, priorities, scores)
        indices = generator.choice(request.candidates, request.budget, replace=False)
        return without_distances(request, indices, np.full(request.budget, np.nan))


# Coverage of the most uncertain candidates.

CoverKind = Literal["coreset", "coverage"]


@dataclass(frozen=True, slots=True)
class FilterThenCover:
    """Picks that cover, among the most uncertain candidates.

    Parameters
    ----------
    times : float
        The number of candidates to keep per pick: the most uncertain ones, ties to the lowest index.
    cover : {"coreset", "coverage"}
        How the picks are chosen among them.
    doubt : {"margin", "confidence", "learnable"}
        ``1 - (p1 - p2)`` of the two largest probabilities, ``1 - p1``, or the disagreement of posterior samples (n, k,
        c). Doubt that was passed directly is used unchanged.
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
        """Whether the doubt is the disagreement of posterior samples."""
        return self.doubt == LEARNABLE

    def choose(self, request: Request) -> Choice:
        """The choice of the strategy named by ``cover`` among the candidates kept."""
        return self._strategy.choose(self._filtered(request))

    def plan(self, request: Request) -> object:
        """The plan of the strategy named by ``cover``."""
        return self._strategy.plan(self._filtered(request))

    @property
    def _strategy(self) -> Coreset | Coverage:
        return Coreset() if self.cover == "coreset" else Coverage()

    def _filtered(self, request: Request) -> Request:
        """The request with the most uncertain candidates only."""
        n_kept = min(len(request.candidates), int(self.times * request.budget))
        doubts = doubt_of(request, self.name, self.doubt)[request.candidates]
        kept = np.sort(np.argsort(-doubts, kind="stable")[:n_kept])
        return replace(request, candidates=request.candidates[kept])
