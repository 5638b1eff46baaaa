"""Doubt first, then cover: the points that cover the most doubtful part of the pool."""

from dataclasses import dataclass, replace
from typing import ClassVar, Literal, get_args

import numpy as np

from dubito.checks import check_choice, check_real
from dubito.problem import Request
from dubito.strategies.base import LEARNABLE, Choice, Kind, doubt_of
from dubito.strategies.coreset import Coreset
from dubito.strategies.coverage import Coverage

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
