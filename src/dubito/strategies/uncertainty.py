"""Uncertainty alone: the most doubtful points first, however alike they are."""

from dataclasses import dataclass
from typing import ClassVar

from dubito import doubt
from dubito.problem import Request
from dubito.strategies.base import Choice, need_doubt, need_probabilities, rank_by


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
        need_probabilities(request, self.name)

    def choose(self, request: Request) -> Choice:
        """Priorities are the gaps, negated: larger is picked sooner."""
        return rank_by(request, -doubt.margin(need_probabilities(request, self.name)))


@dataclass(frozen=True, slots=True)
class Entropy:
    """The largest entropy of the class probabilities first. O(n log n)."""

    name: ClassVar[str] = "entropy"
    uses_engine: ClassVar[bool] = False

    def plan(self, request: Request) -> None:
        """It needs probabilities, and no engine."""
        need_probabilities(request, self.name)

    def choose(self, request: Request) -> Choice:
        """Priorities are the entropies in nats."""
        return rank_by(request, doubt.entropy(need_probabilities(request, self.name)))
