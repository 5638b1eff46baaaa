"""Power sampling: doubt decides the odds, chance the picks (Kirsch et al., 2023)."""

from dataclasses import dataclass
from typing import ClassVar, get_args

import numpy as np

from dubito.checks import check_choice, check_real
from dubito.problem import Request
from dubito.strategies.base import LEARNABLE, Choice, Kind, doubt_of, rank_by


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
